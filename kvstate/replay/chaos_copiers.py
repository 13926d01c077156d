"""Two copiers that give every part its fate: one in virtual time, one with real threads in real time.

What a fate is stands in `kvstate.replay.chaos`, what it does to a part in `kvstate.replay.chaotic`. The two here differ
only in who waits. The virtual copier keeps a heap of events that its driver empties by telling the time; a run is then
a list of decisions, the same on every machine. The threaded one has a thread that sleeps until the next event is due,
and hands the moving of bytes to workers, which never sleep.
"""

from __future__ import annotations

import heapq
import threading
from math import inf
from threading import TIMEOUT_MAX
from time import monotonic
from typing import Final

from kvstate.machines.messages import Report, Token
from kvstate.replay.chaos import Chaos
from kvstate.replay.chaotic import Chaotic
from kvstate.replay.flights import Flight, Step
from kvstate.runtime.clock import Clock, VirtualClock
from kvstate.runtime.copiers.threads import OnLand, OnSubmit
from kvstate.runtime.copiers.workers import Workers
from kvstate.runtime.copy import Carry, Integrity
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory

SLACK: Final = 0.0005
"""Seconds: the thread that keeps the time sleeps so much longer than it has to, and is not woken for twice as much.
What is due meanwhile is done in one go: to wake for each event by itself costs more than the event."""


class VirtualCopier(Chaotic):
    """All in the caller's thread: nothing lands and nothing is delivered but in `advance` and `fence`.

    What is due at the same moment happens in the order of lots that the fates drew, so that even with no delays at all
    a seed decides who comes first.
    """

    def __init__(
        self,
        memory: Memory,
        inbox: Inbox,
        clock: VirtualClock,
        chaos: Chaos,
        *,
        name: str = "cpu",
        integrity: Integrity = Integrity.HOST,
        carry: Carry | None = None,
        on_land: OnLand | None = None,
        on_submit: OnSubmit | None = None,
    ) -> None:
        super().__init__(
            memory, inbox, clock, chaos,
            name=name, integrity=integrity, carry=carry, on_land=on_land, on_submit=on_submit,
        )  # fmt: skip
        self._event_time: float | None = None

    def next_due(self) -> float | None:
        """When the next event is due; `None` if none is to come."""
        return self._steps[0].when if self._steps else None

    def advance(self, now: float) -> int:
        """Do all that is due at `now` or earlier, in order, each at its own time; returns how many events that were.

        What an event leads to happens in the same call if it is due by `now`, too.
        """
        done = 0
        try:
            while self._steps and self._steps[0].when <= now:
                step = heapq.heappop(self._steps)
                self._event_time = step.when
                if step.report is None:
                    self._land(step.flight, step.when)
                else:
                    self._deliver(step)
                done += 1
        finally:
            self._event_time = None
        return done

    def fence(self) -> int:
        """Everything in flight lands now, in the order in which it was to land; reports stay due when they were."""
        now = self._clock.now()
        for step in sorted(step for step in self._steps if step.report is None):
            self._land(step.flight, now)
        return self._serial

    def close(self, within: float) -> tuple[Token, ...]:  # noqa: ARG002 - nothing here takes time
        """What has not landed never will, and what is not delivered is not; so nothing may touch memory any more."""
        self._closed = True
        self._steps.clear()
        self._flights.clear()
        self._by_token.clear()
        return ()

    def _later(
        self, seconds: float, flight: Flight, report: Report | None, late: bool = False, again: bool = False
    ) -> None:
        start = self._clock.now() if self._event_time is None else self._event_time
        self._plan(start + seconds, flight, report, late, again)


class ChaosThreadCopier(Chaotic):
    """Landings in worker threads, deliveries in a thread that keeps the time; both race with who drains the inbox."""

    def __init__(
        self,
        memory: Memory,
        inbox: Inbox,
        clock: Clock,
        chaos: Chaos,
        threads: int = 2,
        *,
        name: str = "cpu",
        integrity: Integrity = Integrity.HOST,
        carry: Carry | None = None,
        on_land: OnLand | None = None,
        on_submit: OnSubmit | None = None,
    ) -> None:
        super().__init__(
            memory, inbox, clock, chaos,
            name=name, integrity=integrity, carry=carry, on_land=on_land, on_submit=on_submit,
        )  # fmt: skip
        self._due = threading.Condition(self._lock)
        self._wakes = -inf
        """When the thread that keeps the time wakes by itself; while it is awake it needs nobody to wake it."""
        self._workers: Workers[Flight] = Workers(self._land_now, threads, f"kvstate-{name}")
        self._keeper = threading.Thread(target=self._keep_time, name=f"kvstate-{name}-time", daemon=True)
        self._keeper.start()

    def fence(self, within: float | None = None) -> int:
        """Everything in flight lands now. Raises `TimeoutError` if that takes more than `within` seconds."""
        with self._lock:
            serial = self._serial
            waiting = [flight for flight in self._flights.values() if not flight.moving]
        for flight in waiting:
            self._workers.put(flight)  # whoever comes second, this or the event that is due later, finds it over
        if not self._workers.wait(within):
            raise TimeoutError(f"copier {self.name}: a copy is still running after {within:g} s; nothing is proved")
        self._raise_trouble()
        return serial

    def close(self, within: float) -> tuple[Token, ...]:
        """What has not begun to land never will, and what is not delivered is not; returns what is still moving."""
        end = monotonic() + within
        with self._due:
            self._closed = True
            for flight in [flight for flight in self._flights.values() if not flight.moving]:
                self._end(flight)
            self._due.notify()
        self._keeper.join(max(0.0, end - monotonic()))
        self._workers.stop(max(0.0, end - monotonic()))
        with self._lock:
            left = tuple(flight.work.token for flight in self._flights.values())
        self._raise_trouble()
        return left

    def _later(
        self, seconds: float, flight: Flight, report: Report | None, late: bool = False, again: bool = False
    ) -> None:
        if report is None and seconds <= 0:
            self._workers.put(flight)
            return
        with self._due:
            step = self._plan(self._clock.now() + seconds, flight, report, late, again)
            if step.when < self._wakes - 2 * SLACK:
                self._due.notify()

    def _land_now(self, flight: Flight) -> None:
        self._land(flight, self._clock.now())

    def _keep_time(self) -> None:
        while (due := self._wait_for_due()) is not None:
            for step in due:
                if step.report is None:
                    self._workers.put(step.flight)
                else:
                    self._deliver(step)

    def _wait_for_due(self) -> list[Step] | None:
        """Sleep until events are due, and take them off the heap; `None` once the copier is closed."""
        due: list[Step] = []
        with self._due:
            while not due:
                if self._closed:
                    return None
                now = self._clock.now()
                while self._steps and self._steps[0].when <= now:
                    due.append(heapq.heappop(self._steps))
                if not due:
                    self._wakes = self._steps[0].when + SLACK if self._steps else inf
                    self._due.wait(min(self._wakes - now, TIMEOUT_MAX))
                    self._wakes = -inf
        return due

    def _raise_trouble(self) -> None:
        if self._workers.trouble is not None:
            raise self._workers.trouble
