"""Copies by background threads, in pools that lie on the CPU.

A thread is given a *task*: a part, or a share of the lines of a long one, so that a job of a single part is carried by
more than one core. A share has at least about `TASK_BYTES`, below which to hand it over costs more than it saves; where
all threads are busy, `BUSY_BYTES`, which only keeps them from ending at different times.

Loads come before stores: a request waits for the one, and for the other only room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from time import monotonic
from typing import Final

from kvstate.machines.messages import Failure, Kind, Outcome, Report, Token, Work
from kvstate.runtime import pieces
from kvstate.runtime.copiers import CopierClosedError, Past, Progress
from kvstate.runtime.copiers.workers import Workers
from kvstate.runtime.copy import Carry, Integrity, answer, attempt, lines_of
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory

OnLand = Callable[[Work, float], None]
"""Told of a part, or of those of its lines that are moved, and of the time, right before bytes move."""
OnSubmit = Callable[[Work], None]
"""Told of a part when it is submitted, before anything is done with it."""

TASK_BYTES: Final = 1 << 20
"""What a share of a part has at least."""
BUSY_BYTES: Final = 8 << 20
"""The same, where no thread waits for it."""
LOADS: Final = (Kind.FETCH, Kind.VERIFY)
"""What comes before all else that waits."""
JOIN_SECONDS: Final = 1.0
"""How long a close waits for threads that have nothing to do any more; they need microseconds."""


class _Part:
    """One part on its way through the threads. All but `asked` is written under the copier's lock."""

    __slots__ = ("asked", "dropped", "failures", "left", "running", "work")

    def __init__(self, work: Work, tasks: int) -> None:
        self.work = work
        self.left = tasks
        """Tasks that are not over."""
        self.running = False
        """Did a thread begin one?"""
        self.asked = False
        self.dropped = False
        self.failures: list[Failure] = []

    def is_cancelled(self) -> bool:
        return self.asked


class _Task:
    """The lines `start` up to `stop` (not included) of a part."""

    __slots__ = ("part", "start", "stop")

    def __init__(self, part: _Part, start: int, stop: int) -> None:
        self.part = part
        self.start = start
        self.stop = stop


class ThreadCopier:
    """Runs parts in `threads` threads, long ones in several at once, and reports what came of each, exactly once.

    The report comes when all of a part has stopped. A part that is cancelled while it waits is reported as cancelled at
    once; one that is running stops between two pieces, and reports that it was cancelled if it had any left. An
    exception inside a copy is the failure INTERNAL of that part; the thread goes on. Raises `ValueError` for less than
    one thread.
    """

    def __init__(
        self,
        memory: Memory,
        inbox: Inbox,
        threads: int = 2,
        *,
        name: str = "cpu",
        integrity: Integrity = Integrity.BOUNDARY,
        carry: Carry | None = None,
        on_land: OnLand | None = None,
        on_submit: OnSubmit | None = None,
    ) -> None:
        """Copies within `memory`, reports to `inbox`; `name` is what `Work.copier` says. With `carry`, that is how a
        part, or some of its lines, is carried out instead.

        `on_submit(work)` is called in the thread that submits, before anything else; `on_land(work, when)` in the
        thread that moves the bytes, right before it does, with seconds of `time.monotonic`. They are for whoever
        watches, and must not raise.
        """
        self.name = name
        self.seconds = 0.0
        """Time that threads spent on moving bytes, sums and comparisons included."""
        self._on_land = on_land
        self._on_submit = on_submit
        self._memory = memory
        self._inbox = inbox
        self._carry = carry or partial(attempt, memory, integrity=integrity)
        self._threads = threads
        self._lock = threading.Lock()
        self._parts: dict[Token, _Part] = {}
        self._past = Past()
        self._serial = 0
        self._closed = False
        self._workers: Workers[_Task] = Workers(self._run, threads, f"kvstate-{name}")

    def submit(self, work: Work) -> None:
        """Queue one part for the threads. Raises `CopierClosedError`."""
        if self._on_submit is not None:
            self._on_submit(work)
        cuts = self._cuts(work)
        part = _Part(work, len(cuts) - 1)
        with self._lock:
            if self._closed:
                raise CopierClosedError(self.name, work)
            self._parts[work.token] = part
            self._serial = max(self._serial, work.token.serial)
        for start, stop in pairwise(cuts):
            self._workers.put(_Task(part, start, stop), urgent=work.kind in LOADS)

    def _cuts(self, work: Work) -> list[int]:
        """Where a part is divided among threads: lines, the first and the last included. What makes no sense is not."""
        lines = len(work.src)
        least = TASK_BYTES if self._workers.idle() > 1 else BUSY_BYTES
        shares = min(self._threads, lines, lines * self._memory.block_bytes // least)
        if shares < 2 or not self._can_cut(work):
            return [0, lines]
        return [lines * share // shares for share in range(shares + 1)]

    def _can_cut(self, work: Work) -> bool:
        """Does it make sense, as far as can be seen? What does not is told in one piece."""
        return len(work.dst) == len(work.keys) == len(work.src) and pieces.all_there(self._memory, work)

    def cancel(self, token: Token) -> None:
        """As `Copier.cancel`: what waits is dropped, what runs is asked to stop before its next piece."""
        with self._lock:
            part = self._parts.get(token)
            if part is None:
                return
            part.asked = True
            if not part.running:
                self._drop(part)

    def probe(self, token: Token) -> Progress:
        """As `Copier.probe`: over when the last of its tasks is, or when it was dropped before the first began."""
        with self._lock:
            if token in self._parts:
                return Progress.RUNNING
            return Progress.OVER if token in self._past else Progress.UNKNOWN

    def fence(self, within: float | None = None) -> int:
        """As `Copier.fence`. Raises `TimeoutError` if a copy is still running after `within` seconds."""
        serial = self._serial
        if not self._workers.wait(within):
            raise TimeoutError(f"copier {self.name}: a copy is still running after {within:g} s; nothing is proved")
        return serial

    def close(self, within: float) -> tuple[Token, ...]:
        """As `Copier.close`; what still waits at the end of that time is dropped and reported as cancelled."""
        end = monotonic() + within
        with self._lock:
            self._closed = True
        if not self._workers.wait(within):
            with self._lock:
                for part in list(self._parts.values()):
                    part.asked = True  # shares of it that no thread has begun need not begin
                    if not part.running:
                        self._drop(part)
        self._workers.stop(max(end - monotonic(), 0.0) if self._parts else JOIN_SECONDS)
        with self._lock:
            return tuple(self._parts)

    def _drop(self, part: _Part) -> None:
        """End a part that no thread has begun; its place in the queue stays, and does nothing. Needs the lock."""
        part.dropped = True
        self._end(part)
        self._inbox.put(Report(part.work.token, Outcome.CANCELLED))

    def _end(self, part: _Part) -> None:
        """Nothing of it will touch memory again. Needs the lock."""
        self._past.add(part.work.token)
        if self._parts.get(part.work.token) is part:
            del self._parts[part.work.token]

    def _run(self, task: _Task) -> None:
        part = task.part
        with self._lock:
            if part.dropped:
                return
            part.running = True
        start = monotonic()
        failures = self._do(task, start)
        with self._lock:
            self.seconds += monotonic() - start
            part.failures += failures
            part.left -= 1
            if part.left:
                return
            self._end(part)
        told = tuple(sorted(part.failures, key=lambda failure: failure.line))
        self._inbox.put(self._answered(part.work, told))

    def _answered(self, work: Work, failures: tuple[Failure, ...]) -> Report:
        """The report of a part all of which has stopped."""
        return Report(work.token, answer(failures, proved=True), failures)

    def _do(self, task: _Task, start: float) -> list[Failure]:
        """Move what is the task's; what went wrong, by lines of the part."""
        work = lines_of(task.part.work, task.start, task.stop)
        if self._on_land is not None:
            self._on_land(work, start)
        report = self._carry(work, cancelled=task.part.is_cancelled)
        return [
            failure if failure.line < 0 else failure._replace(line=failure.line + task.start)
            for failure in report.failures
        ]
