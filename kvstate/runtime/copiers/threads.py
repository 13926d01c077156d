"""Copies by background threads, in pools that lie on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

from kvstate.machines.messages import Outcome, Report, Token, Work
from kvstate.runtime.copiers import CopierClosedError
from kvstate.runtime.copiers.workers import Workers
from kvstate.runtime.copy import Integrity, attempt
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory

OnLand = Callable[[Work, float], None]
"""Told of a part, or of those of its lines that are moved, and of the time, right before bytes move."""
OnSubmit = Callable[[Work], None]
"""Told of a part when it is submitted, before anything is done with it."""

JOIN_SECONDS: Final = 1.0
"""How long a close waits for threads that have nothing to do any more; they need microseconds."""


class _Running:
    """One part on its way through a thread. `running` and `dropped` are written under the copier's lock."""

    __slots__ = ("asked", "dropped", "running", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.running = False
        self.asked = False
        self.dropped = False

    def is_cancelled(self) -> bool:
        return self.asked


class ThreadCopier:
    """Runs each part in one of `threads` threads and reports what came of it, exactly once.

    A part that is cancelled while it waits is reported as cancelled at once; one that is running stops between two
    pieces, and reports that it was cancelled if it had any left. An exception inside a copy is the failure
    INTERNAL of that part; the thread goes on. Raises `ValueError` for less than one thread.
    """

    def __init__(
        self,
        memory: Memory,
        inbox: Inbox,
        threads: int = 2,
        *,
        name: str = "cpu",
        integrity: Integrity = Integrity.BOUNDARY,
        on_land: OnLand | None = None,
        on_submit: OnSubmit | None = None,
    ) -> None:
        """Copies within `memory`, reports to `inbox`; `name` is what `Work.copier` says.

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
        self._integrity = integrity
        self._lock = threading.Lock()
        self._jobs: dict[Token, _Running] = {}
        self._serial = 0
        self._closed = False
        self._workers: Workers[_Running] = Workers(self._run, threads, f"kvstate-{name}")

    def submit(self, work: Work) -> None:
        """Queue one part for the next thread that is free. Raises `CopierClosedError`."""
        if self._on_submit is not None:
            self._on_submit(work)
        job = _Running(work)
        with self._lock:
            if self._closed:
                raise CopierClosedError(self.name, work)
            self._jobs[work.token] = job
            self._serial = max(self._serial, work.token.serial)
        self._workers.put(job)

    def cancel(self, token: Token) -> None:
        """As `Copier.cancel`: what waits is dropped, what runs is asked to stop before its next piece."""
        with self._lock:
            job = self._jobs.get(token)
            if job is None:
                return
            job.asked = True
            if not job.running:
                self._drop(job)

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
                for job in [job for job in self._jobs.values() if not job.running]:
                    self._drop(job)
        self._workers.stop(max(end - monotonic(), 0.0) if self._jobs else JOIN_SECONDS)
        with self._lock:
            return tuple(self._jobs)

    def _drop(self, job: _Running) -> None:
        """End a job that no thread has begun; its place in the queue stays, and does nothing. Needs the lock."""
        job.dropped = True
        del self._jobs[job.work.token]
        self._inbox.put(Report(job.work.token, Outcome.CANCELLED))

    def _run(self, job: _Running) -> None:
        with self._lock:
            if job.dropped:
                return
            job.running = True
        start = monotonic()
        if self._on_land is not None:
            self._on_land(job.work, start)
        report = attempt(self._memory, job.work, integrity=self._integrity, cancelled=job.is_cancelled)
        with self._lock:
            self.seconds += monotonic() - start
            if self._jobs.get(job.work.token) is job:
                del self._jobs[job.work.token]
        self._inbox.put(report)
