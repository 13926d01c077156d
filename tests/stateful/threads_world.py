"""The same world on threads: copies land when they like, and what the world knows of them is what it is told.

The moves of the copies are left out, except those that need no hand: reports that come twice, fences. What can be asked
is asked: whoever is named by a key or runs in a request holds the bytes that it should at any time, since nobody writes
there; verdicts, settlements and books are those of every world.
"""

from __future__ import annotations

from threading import Lock
from time import monotonic
from typing import ClassVar

from kvstate.machines.config import LedgerConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Token, Work
from kvstate.runtime.copiers.threads import ThreadCopier
from kvstate.runtime.copy import Integrity
from kvstate.runtime.dispatcher import Dispatcher
from kvstate.runtime.engine import Engine
from tests.stateful.base import Bytes, Content, Flight, Poison
from tests.stateful.requests import HOLD
from tests.stateful.runtime_world import RuntimeWorld, rendered

PATIENCE = 30.0
"""Seconds after which a thread that has not answered never will."""


class ThreadsWorld(RuntimeWorld):
    """See the module."""

    LEFT_OUT: ClassVar[tuple[str, ...]] = (
        "deliver_early", "deliver_bad", "deliver_late", "time_out", "lose", "lose_copier", "fail_to_submit", "corrupt",
        "restart", "shut_down",
    )  # fmt: skip

    def make_ledger(self, config: LedgerConfig) -> Ledger:
        ledger = super().make_ledger(config)
        self.lock, self.begun_to_land = Lock(), set[Token]()
        self.known: dict[bytes, Content] = {}
        self.threads = [
            ThreadCopier(memory, self.inbox, name="cpu", integrity=Integrity.HOST, on_land=self.landing)
            for memory in self.memories
        ]
        links = [Dispatcher({"cpu": copier}, self.inbox) for copier in self.threads]
        self.engine = Engine(ledger, links, self.inbox, self.virtual)
        return ledger

    def close(self) -> None:
        for copier in self.threads:
            assert copier.close(PATIENCE) == (), "threads are left"

    def landing(self, work: Work, when: float) -> None:
        """In a thread of the copier, right before bytes move."""
        with self.lock:
            self.begun_to_land.add(work.token)

    def given(self, flight: Flight) -> bool:
        return flight.work.kind == HOLD or flight.work.after_step not in self.steps

    def can_stop(self, flight: Flight) -> bool:
        """The copier has been asked, and answers by itself."""
        return False

    def heard_landed(self, token: Token) -> None:
        """A copy whose thread has begun to move its bytes may say that it is done."""
        flight = next((flight for flight in self.flights if flight.work.token == token), None)
        if flight is not None and token in self.begun_to_land:
            flight.landed = len(flight.work.src)

    # -- bytes: those that are there -----------------------------------------------------------------------------------

    def found(self, rank: int, block: int) -> Bytes:
        there = self.memories[rank].bytes_of(block).tobytes()
        if there not in self.known:
            for epoch in range(self.epoch + 1):
                for space in ("a", "b"):
                    for place in range(self.scope.keys):
                        content = Content(space, b"%016d" % place, epoch)
                        self.known[rendered(content, rank).tobytes()] = content
        return self.known.get(there, Poison(block, -1))

    def copy(self, flight: Flight, line: int) -> None:
        """A thread does that."""

    def compare(self) -> None:
        """What copies write into is theirs until they report; nothing can be said of it from here."""

    # -- moves ---------------------------------------------------------------------------------------------------------

    def land(self) -> None:
        """Wait for somebody to report, if anybody is under way."""
        if any(flight.work.kind != HOLD and self.given(flight) for flight in self.flights):
            self.inbox.wait(0.05)

    def land_all(self) -> None:
        """Wait for all that is under way."""
        if self.steps:
            self.retire_until(self.steps[-1])
        end = monotonic() + PATIENCE
        while any(flight.work.kind != HOLD for flight in self.flights):
            assert monotonic() < end, f"L4.no_orphan: {self.flights} never answered"
            self.engine.pump()
            self.inbox.wait(0.05)
            self.hear_all()

    def deliver(self) -> None:
        """Reports come by themselves; the engine hears them."""
        self.hear_all()

    def answer(self, flight: Flight) -> None:
        if flight.work.kind == HOLD:
            super().answer(flight)

    def land_lines(self, flight: Flight, count: int) -> None:
        """A thread does that."""

    def fence_one(self, rank: int, copier: str) -> None:
        """Reports that are there already are heard first; so what is left has none."""
        self.engine.pump()
        self.threads[rank].fence(PATIENCE)
        self.hear_all()
        super().fence_one(rank, copier)

    def begin_again(self) -> None:
        self.close()
        super().begin_again()
