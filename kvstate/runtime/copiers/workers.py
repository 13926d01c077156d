"""Threads that run items from a queue, urgent ones first. Nothing of copies in here: `threads` builds on it, and so do
chaos runs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from time import monotonic
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Workers(Generic[Item]):
    """`threads` daemons that call `run` on every item that is put: urgent ones first, else in no order that can be
    relied on.

    `run` must not raise; if it does, the thread lives on and the first error is kept in `trouble`. The threads are
    daemons because a copy that hangs in a driver must not keep the process from ending.

    Any thread may call any method. Raises `ValueError` for less than one thread.
    """

    def __init__(self, run: Callable[[Item], None], threads: int, name: str) -> None:
        """Starts the threads; their names begin with `name`."""
        if threads < 1:
            raise ValueError(f"copier {name} needs at least one thread, not {threads}")
        self.trouble: BaseException | None = None
        """The first error that `run` raised."""
        self._run = run
        self._tickets: SimpleQueue[bool] = SimpleQueue()
        """One for each item, and at last one for each thread that says that there is none."""
        self._urgent: deque[tuple[int, Item]] = deque()
        self._others: deque[tuple[int, Item]] = deque()
        self._over = threading.Condition(threading.Lock())
        self._under_way: dict[int, Item] = {}
        """By the number in which they were put; a dict keeps that order, so its first key is the oldest."""
        self._put = 0
        self._marks: list[int] = []
        """Up to which numbers somebody waits; nobody is woken for less."""
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{number}", daemon=True) for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def put(self, item: Item, *, urgent: bool = False) -> None:
        """Queue one item, before all that is not urgent if it is. What is put after `stop` waits for ever."""
        with self._over:
            self._put += 1
            self._under_way[self._put] = item
            (self._urgent if urgent else self._others).append((self._put, item))
            self._tickets.put(True)

    def under_way(self) -> list[Item]:
        """Items that were put and are not over, oldest first."""
        with self._over:
            return list(self._under_way.values())

    def idle(self) -> int:
        """How many threads have nothing to do; by the time it is read it may be less."""
        return max(0, len(self._threads) - len(self._under_way))

    def wait(self, seconds: float | None = None) -> bool:
        """Block until everything put before this call is over; False if that took longer than `seconds`."""
        with self._over:
            last = self._put
            self._marks.append(last)
            try:
                return self._over.wait_for(lambda: self._oldest() > last, seconds)
            finally:
                self._marks.remove(last)

    def stop(self, seconds: float) -> bool:
        """Let the threads end once the queue is empty; False if some of them run on after `seconds`."""
        end = monotonic() + seconds
        for _ in self._threads:
            self._tickets.put(False)
        for thread in self._threads:
            thread.join(max(0.0, end - monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def _oldest(self) -> int:
        return next(iter(self._under_way), self._put + 1)

    def _next(self) -> tuple[int, Item]:
        """What comes first. Whoever has a ticket finds something: there are as many items as tickets, and one that is
        not in the one queue any more went to a thread with a ticket of its own.
        """
        while True:
            for queue in (self._urgent, self._others):
                with suppress(IndexError):
                    return queue.popleft()

    def _work(self) -> None:
        while self._tickets.get():
            number, item = self._next()
            try:
                self._run(item)
            except BaseException as error:  # the thread must outlive whatever one item does
                self.trouble = self.trouble or error
            with self._over:
                del self._under_way[number]
                if self._marks and self._oldest() > min(self._marks):
                    self._over.notify_all()
