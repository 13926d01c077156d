"""Bad weather for copies: some fail, come late, report twice or never, or bring other bytes than they were given.

The copier is kvstate's own `HandCopier`, which does nothing until it is told to; here the dice tell it. Time is
virtual, so a seed gives one run, and a copy that comes a second late costs no second. No dice do what no driver can do:
a copy that has reported its end never touches memory again (`HandCopier` would raise).
"""

from __future__ import annotations

import errno
import heapq
import os
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Final

import numpy as np

from kvstate.errors import from_exception, outcome_of
from kvstate.machines.messages import Kind, Outcome
from kvstate.runtime.clock import VirtualClock
from kvstate.runtime.copiers.hand import Flight, HandCopier
from kvstate.runtime.memory import Memory

FAULTS: Final = ("failed", "late", "duplicated", "lost", "corrupted")
"""What may befall a copy, one as often as another."""
RATE: Final = 0.04
"""The share of copies that each of them befalls."""
STAGES: Final[dict[str, str]] = {Kind.STORE: "write", Kind.FETCH: "fetch", Kind.VERIFY: "verify"}
"""At which stage each kind of copy fails."""
ERRORS: Final[dict[str, tuple[int, ...]]] = {
    Kind.STORE: (errno.ENOSPC, errno.EIO, errno.EAGAIN),
    Kind.FETCH: (errno.ENOENT, errno.EIO, errno.ECONNRESET),
    Kind.VERIFY: (errno.EIO, errno.EAGAIN),
}
"""What a driver may say, as `errno` has it."""
TURN: Final = 0.01
"""Virtual seconds from one turn of the server to the next."""
SOON: Final = (0.0, 0.03)
"""Seconds until bytes land, and again until the report comes."""
LATE: Final = (0.3, 1.0)
"""Seconds by which late is late: beyond deadline and grace."""
OBEYS: Final = 0.5
"""The share of copies that stop when they are asked to, if they have not begun."""


class Weather:
    """Drives a copier through virtual time. See the module."""

    def __init__(self, copier: HandCopier, memory: Memory, clock: VirtualClock, seed: int) -> None:
        """`copier` copies within `memory`; `clock` is the one that the runtime goes by."""
        self.counts: Counter[str] = Counter()
        """How often each fault struck."""
        self._copier = copier
        self._memory = memory
        self._clock = clock
        self._dice = Random(seed)
        self._seen = 0
        self._due: list[tuple[float, int, Iterator[float]]] = []

    def pass_time(self) -> None:
        """A turn's worth of time goes by, and what is due happens."""
        now = self._clock.advance(TURN)
        for flight in self._copier.flights[self._seen :]:
            self._seen += 1
            heapq.heappush(self._due, (now, flight.serial, self._fly(flight)))
        while self._due and self._due[0][0] <= now:
            when, serial, story = heapq.heappop(self._due)
            wait = next(story, None)
            if wait is not None:
                heapq.heappush(self._due, (when + wait, serial, story))

    def _fly(self, flight: Flight) -> Iterator[float]:
        """What becomes of one copy, from its submission on. Each `yield` is a wait, in seconds."""
        copier, kind = self._copier, flight.work.kind
        fault = self._fault(kind)
        reports_late = self._dice.random() < 0.5
        yield self._soon()
        if fault == "failed":
            self._fail(flight)
            return
        if fault == "late" and not reports_late:
            yield self._dice.uniform(*LATE)
        if flight.asked and not flight.over and self._dice.random() < OBEYS:
            copier.deliver(flight.serial, Outcome.CANCELLED)
            return
        if not flight.over:  # a fence may have landed it meanwhile
            copier.land(flight.serial)
            if fault == "corrupted":
                self._corrupt(flight)
        if fault == "lost":
            copier.lose(flight.serial)
            return
        yield self._soon()
        if fault == "late" and reports_late:
            yield self._dice.uniform(*LATE)
        copier.deliver(flight.serial)
        if fault == "duplicated":
            yield self._soon()
            copier.deliver(flight.serial)

    def _fault(self, kind: str) -> str:
        """What befalls a copy of this kind; an empty word if nothing does. A check has no bytes to spoil."""
        struck, fault = self._dice.random() < RATE * len(FAULTS), self._dice.choice(FAULTS)
        if not struck or (fault == "corrupted" and kind == Kind.VERIFY):
            return ""
        self.counts[fault] += 1
        return fault

    def _soon(self) -> float:
        return self._dice.uniform(*SOON)

    def _fail(self, flight: Flight) -> None:
        """Stop half way and report the driver's error, translated into a code as every worker does it."""
        if not flight.over:
            self._copier.land(flight.serial, lines=len(flight.work.src) // 2)
        number = self._dice.choice(ERRORS[flight.work.kind])
        error = OSError(number, os.strerror(number))
        failures = (from_exception(error, stage=STAGES[flight.work.kind]),)
        self._copier.deliver(flight.serial, outcome_of(failures, proved=True), failures)

    def _corrupt(self, flight: Flight) -> None:
        """Of one of the blocks that were just written, half of the bytes are others."""
        pool, slot = self._memory.place(self._dice.choice(flight.work.dst))
        data = pool.bytes_of(slot).copy()
        data[: data.size // 2] ^= np.uint8(0x55)
        pool.put(slot, data)
