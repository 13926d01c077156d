"""The parts that a copier for a device has under way, and the one place where each of them ends.

Whatever comes first ends a part: its event, a cancel before it was queued, or the loss of the device. What comes after
finds it over. So each is reported once, and what it is reported as claims no more than is known.
"""

from __future__ import annotations

import threading

import torch

from kvstate.machines.messages import Failure, Outcome, Report, Token, Work
from kvstate.runtime.copiers import CopierClosedError, Past, Progress
from kvstate.runtime.copiers.driver import Event
from kvstate.runtime.copy import answer
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.stages import STAGES


class Flight:
    """A part under way. `started` and `over` are written under the lock of its `Flights`."""

    __slots__ = ("event", "failures", "over", "ready", "staging", "started", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.ready: Event | None = None
        """The event that it waits for, if any."""
        self.event: Event | None = None
        """The event behind its last copy, if it has copies."""
        self.staging: torch.Tensor | None = None
        """Memory of its own that the device writes, [lines, block_bytes]."""
        self.failures: tuple[Failure, ...] = ()
        """What went wrong while it was queued."""
        self.started = False
        """Is it queued, or being queued? Then it runs to its end."""
        self.over = False
        """Was it told?"""

    @property
    def stage(self) -> str:
        """At which stage it fails."""
        return STAGES.get(self.work.kind, "fetch")


class Flights:
    """See the module. Any thread may call any method."""

    def __init__(self, name: str, inbox: Inbox) -> None:
        """Of the copier of that name; reports go to `inbox`."""
        self.serial = 0
        """The highest of all tokens that were submitted."""
        self.broken: Failure | None = None
        """Why the device is lost; None while it is not."""
        self._name = name
        self._inbox = inbox
        self._lock = threading.Lock()
        self._flights: dict[Token, Flight] = {}
        self._doubtful: dict[Token, Flight] = {}
        """Told, and not proved over; they keep their staging memory."""
        self._past = Past()
        self._closed = False

    def add(self, work: Work) -> Flight:
        """A part that was submitted. It is over already if the device is lost. Raises `CopierClosedError`."""
        flight = Flight(work)
        with self._lock:
            if self._closed:
                raise CopierClosedError(self._name, work)
            self._flights[work.token] = flight
            self.serial = max(self.serial, work.token.serial)
            broken = self.broken
        if broken is not None:
            self.tell(flight, (broken._replace(stage=flight.stage),))
        return flight

    def start(self, flight: Flight) -> bool:
        """From here on it can't be called off; False if it was before."""
        with self._lock:
            flight.started = not flight.over
            return flight.started

    def cancel(self, token: Token) -> None:
        """End a part that is not started."""
        with self._lock:
            flight = self._flights.get(token)
            if flight is None or flight.started:
                return
            self._end(flight)
        self._inbox.put(Report(token, Outcome.CANCELLED))

    def tell(self, flight: Flight, failures: tuple[Failure, ...]) -> None:
        """Report a part that is proved over, unless it was told already; no failure is success."""
        with self._lock:
            if flight.over:
                return
            self._end(flight)
        self._inbox.put(Report(flight.work.token, answer(failures, proved=True), failures))

    def lose(self, why: Failure) -> None:
        """The device is lost: end all. What was started may be over or not; what was not will never begin."""
        with self._lock:
            self.broken = self.broken or why
            left = list(self._flights.values())
            for flight in left:
                self._end(flight, proved=not flight.started)
        for flight in left:
            failure = why._replace(stage=flight.stage)
            self._inbox.put(Report(flight.work.token, answer((failure,), proved=not flight.started), (failure,)))

    def close(self) -> None:
        """Take no more."""
        with self._lock:
            self._closed = True

    def left(self) -> tuple[Token, ...]:
        """What is not over, and what was never proved over."""
        with self._lock:
            return (*self._flights, *self._doubtful)

    def probe(self, token: Token) -> Progress:
        """As `Copier.probe`."""
        with self._lock:
            if token in self._flights or token in self._doubtful:
                return Progress.RUNNING
            return Progress.OVER if token in self._past else Progress.UNKNOWN

    def _end(self, flight: Flight, *, proved: bool = True) -> None:
        """It is told now. Needs the lock."""
        flight.over = True
        if self._flights.get(flight.work.token) is flight:
            del self._flights[flight.work.token]
        if proved:
            self._past.add(flight.work.token)
        else:
            self._doubtful[flight.work.token] = flight
