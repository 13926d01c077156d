"""A world around the pure ledger that knows the physical truth, and walks through it at random.

The world moves bytes (symbols for bytes) when a copy *lands*, and tells the ledger when a report is *delivered*; the
two are apart, in any order between parts, and a report can come twice, late, wrong, or never. It names every copy by a
hidden number of its own and remembers which life of which block the copy started on, so that it sees a reuse that the
ledger's own tokens could not show. After every move it holds the ledger against what is true.
"""

from __future__ import annotations

from typing import ClassVar

from kvstate.machines.audit import audit
from kvstate.machines.messages import Cancel, Kind, Outcome, Report, Work
from kvstate.machines.verdicts import Ending, JobVerdict, LoadVerdict, Settlement
from tests.stateful.base import SCOPES, Flight, Scope
from tests.stateful.copies import Copies

__all__ = ["SCOPES", "Scope", "World"]


class World(Copies):
    """See the module. `walk(n)` makes n random moves, `rest()` brings everything home and checks that it got there."""

    MOVES: ClassVar[dict[str, int]] = {
        "arrive": 6,
        "start": 10,
        "compute": 10,
        "store": 8,
        "finish": 4,
        "abort": 3,
        "land": 14,
        "deliver": 14,
        "deliver_early": 2,
        "deliver_bad": 3,
        "deliver_again": 2,
        "deliver_unknown": 1,
        "time_out": 2,
        "tick": 5,
        "retire": 6,
        "corrupt": 4,
        "cancel": 2,
        "reset": 1,
        "window": 2,
        "fence": 1,
        "lose": 1,
        "hold": 1,
        "pressure": 3,
        "land_all": 3,
    }
    """What may happen, and how often."""
    ALWAYS = (("arrive", 2), ("start", 2), ("compute", 2), ("store", 2), ("land", 2), ("deliver", 2))

    def walk(self, moves: int) -> None:
        swarm = [(name, weight * self.random.choice((0, 1, 1, 4))) for name, weight in self.MOVES.items()]
        names, weights = zip(*swarm, *self.ALWAYS, strict=True)
        for name in self.random.choices(names, weights, k=moves):
            self.move(name)

    def move(self, name: str) -> None:
        self.log.append(name)
        getattr(self, name)()
        self.check()

    # -- what must be true ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        ledger = self.ledger
        assert ledger.fatal is None, ledger.fatal
        for effect in ledger.take_effects():
            if isinstance(effect, Work):
                lives = {block: ledger.books.generation[block] for block in (*effect.src, *effect.dst)}
                self.flights.append(Flight(len(self.past) + len(self.flights), effect, lives))
            elif isinstance(effect, Cancel) and self.random.random() < 0.5:
                for flight in self.flights:
                    if flight.work.token == effect.token and not flight.landed:
                        self.flights.remove(flight)
                        self.past.append(effect.token)
                        ledger.report(Report(effect.token, Outcome.CANCELLED))
                        break
        for verdict in ledger.take_verdicts():
            self.hear(verdict)
        for flight in (*self.flights, *self.waiting):
            self.untouched(flight)
        problems = audit(ledger)
        assert not problems, problems
        if ledger.books.effects or ledger.books.verdicts:
            self.check()

    def hear(self, verdict: object) -> None:
        if isinstance(verdict, LoadVerdict):
            assert verdict.load in self.loads - self.told, f"L1.verdict_once: {verdict}"
            self.told.add(verdict.load)
            self.hear_load(verdict)
        elif isinstance(verdict, JobVerdict):
            assert verdict.job not in self.told, f"L1.verdict_once: {verdict}"
            assert verdict.errors or verdict.ending is not Ending.FAILED, f"L10: {verdict}"
            self.told.add(verdict.job)
        elif isinstance(verdict, Settlement):
            assert verdict.load in self.told - self.settled, f"L1.verdict_once: {verdict}"
            self.settled.add(verdict.load)

    def hear_load(self, verdict: LoadVerdict) -> None:
        request = next((r for r in self.requests if r.load == verdict.load), None)
        if request is None:
            assert verdict.ending is Ending.ABORTED
            return
        assert verdict.errors or verdict.ending is not Ending.RECOMPUTE, f"L10: {verdict}"
        request.load = None
        assert request.hit is not None
        space = self.ledger.books.leases[request.lease].namespace
        for place in request.hit.below:
            if place < verdict.blocks:
                for rank in range(self.scope.ranks):
                    found = self.bytes.get((rank, request.table[place].block))
                    assert found == (space, request.keys[place]), f"L5.proceed: {found} for {request.keys[place]!r}"
        for place, ref in list(request.table.items()):
            if ref.block in verdict.left:
                del request.table[place]

    # -- the end -------------------------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Close everything, let time pass, fence: all must come home (L11)."""
        while self.requests:
            self.move("abort")
        while self.steps:
            self.move("retire")
        for _ in range(3):
            self.now += 100.0
            self.ledger.tick(self.now)
            self.check()
        for flight in [f for f in self.flights if f.work.kind == Kind.HOLD]:
            self.answer(flight)
        self.move("fence")
        self.ledger.drain()
        self.ledger.drain()
        assert self.ledger.shut() is True, self.ledger.shut()
        assert not self.ledger.open("a"), "a closed ledger opened a lease"
        assert self.ledger.rest() == [], self.ledger.rest()
        states = self.ledger.books.tables["block"].STATES
        left = {states[state] for state in self.ledger.books.block_state} - {"free", "cached"}
        assert not left, f"L11.home: blocks are left {left}"
        self.check()
        assert self.told >= self.loads | self.jobs, "L1.verdict_once: somebody was never told"
        assert self.settled == self.loads, "L1.verdict_once: a load never settled"
