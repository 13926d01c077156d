"""A world around the pure ledger that knows the physical truth, and walks through it at random.

The world moves bytes (symbols for bytes) when a copy *lands*, and tells the ledger when a report is *delivered*; the
two are apart, in any order between parts, and a report can come twice, late, wrong, or never. It names every copy by a
hidden number of its own and counts by itself how often a block was handed out, so that it sees a reuse that neither the
ledger's tokens nor its generations could show. After every move it holds the ledger against what is true.

A move is a name and the numbers that it took (`Dice`), so that a walk can be written down, cut and played again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import ClassVar

from kvstate.errors import Code
from kvstate.machines.messages import Failure, Outcome, Report
from kvstate.machines.verdicts import Fatal, Refusal
from tests.stateful.base import SCOPES, SMALL, Dice, Scope
from tests.stateful.laws import Laws
from tests.stateful.requests import HOLD

__all__ = ["MIXES", "SCOPES", "SMALL", "Scope", "World", "mixed"]

WARM = "arrive start compute retire store land_all deliver land_all finish finish finish pressure".split()
"""Brings something to a lower tier and makes room above it, so that the next request has something to load."""
BEGUN = (
    "reset abort abort abort arrive arrive start start compute compute retire retire store store land deliver".split()
)
"""Begins a store of what nobody has stored, and leaves it in the middle."""

GROUPS: dict[str, dict[str, int]] = {
    "requests": {
        "arrive": 7, "start": 12, "compute": 10, "retire": 3, "store": 7, "finish": 3, "window": 1, "hold": 1,
        "mistake": 1,
    },
    "copies": {"land": 12, "deliver": 12, "land_all": 2},
    "aborts": {"abort": 2, "preempt": 2, "readmit": 2, "cancel": 2},
    "reuse": {"pressure": 3, "reset": 1, "finish": 2, "warm": 2},
    "faults": {
        "deliver_early": 2, "deliver_bad": 3, "deliver_again": 2, "deliver_late": 3, "deliver_unknown": 1,
        "time_out": 2, "lose": 2, "lose_copier": 1, "fail_to_submit": 1, "corrupt": 3, "fence": 1, "restart": 1,
        "shut_down": 1,
    },
    "clock": {"tick": 5},
}  # fmt: skip
"""What may happen, and how often, in a world where nothing happens more than it should."""
HEAVY = {
    "even": {},
    "aborts": {"aborts": 4},
    "reuse": {"reuse": 4, "aborts": 2},
    "faults": {"faults": 4},
    "loads": {},
    "stores": {},
}
"""By mix: how much more often the moves of a group come."""
MORE = {
    "loads": {
        "warm": 6,
        "start": 36,
        "arrive": 24,
        "land": 24,
        "deliver": 12,
        "deliver_bad": 6,
        "time_out": 6,
        "cancel": 6,
    },
    "stores": {
        "arrive": 8,
        "start": 8,
        "compute": 8,
        "retire": 5,
        "store": 16,
        "land": 16,
        "deliver_bad": 12,
        "tick": 8,
    },
}
"""And single moves that a mix is about."""


def mixed(mix: str) -> dict[str, int]:
    """The moves of a mix, with their weights."""
    weights: dict[str, int] = {}
    for group, moves in [*GROUPS.items(), ("more", MORE.get(mix, {}))]:
        times = HEAVY[mix].get(group, 1)
        for name, weight in moves.items():
            weights[name] = weights.get(name, 0) + weight * times
    return weights


MIXES = {mix: mixed(mix) for mix in HEAVY}


class World(Laws):
    """See the module. `walk(n)` makes n random moves, `rest()` brings everything home and checks that it got there."""

    MOVES: ClassVar[dict[str, int]] = {**MIXES["even"], "begun": 1}
    ALWAYS: ClassVar[tuple[str, ...]] = ("arrive", "start", "compute", "retire", "store", "land", "deliver", "tick")
    """Without these nothing gets anywhere; a swarm leaves others out."""

    def walk(self, moves: int, mix: str = "even") -> None:
        """Moves by the weights of the mix, some of them left out of this walk and some made likelier."""
        random = Random(self.dice.below(2**32))
        weights = {
            name: weight * (1 if name in self.ALWAYS else random.choice((0, 1, 1, 4)))
            for name, weight in self.moves(mix).items()
        }
        for name in random.choices(list(weights), list(weights.values()), k=moves):
            self.move(name)

    @classmethod
    def moves(cls, mix: str) -> dict[str, int]:
        """The moves that this world can make, with their weights."""
        return {**MIXES[mix], "begun": 1}

    def round(self, moves: int = 18, mix: str = "loads") -> None:
        """Something is stored, and then there is a race for it; or the race begins in the middle of the store."""
        self.move(self.dice.one(("warm", "warm", "begun")))
        self.walk(moves, mix)

    def move(self, name: str) -> None:
        """One move, and all questions after it."""
        first = len(self.dice.given)
        self.log.append(name)
        try:
            getattr(self, name)()
            self.check()
        except AssertionError as broken:
            if self.ledger.fatal is not None and "L8.poison" not in str(broken):  # the rest follows from it
                raise AssertionError(f"L8.poison: {self.ledger.fatal}") from broken
            raise
        finally:
            self.log[-1] = " ".join([name, *map(str, self.dice.given[first:])])

    def warm(self) -> None:
        """See `WARM`."""
        for name in WARM:
            getattr(self, name)()
            self.check()

    def begun(self) -> None:
        """See `BEGUN`."""
        for name in BEGUN:
            getattr(self, name)()
            self.check()

    def play(self, walk: Iterable[str]) -> None:
        """Make the moves that were written down."""
        for line in walk:
            name, *numbers = line.split()
            self.dice = Dice(map(int, numbers))
            if name == "rest":
                self.rest()
            elif name in self.moves("loads"):
                self.move(name)

    def rows(self) -> dict[str, int]:
        """How often each row has fired, in this process and in those before it."""
        return {row: count + self.fired[row] for row, count in self.ledger.fired().items()}

    # -- the end -------------------------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Close everything, let time pass, fence: all must come home (L11)."""
        first = len(self.dice.given)
        self.log.append("rest")
        try:
            self.come_home()
        finally:
            self.log[-1] = " ".join(["rest", *map(str, self.dice.given[first:])])

    def step_by_step(self, *moves: Callable[[], None]) -> None:
        for move in moves:
            move()
            self.check()

    def come_home(self) -> None:
        self.refuse_next = False
        while self.requests:
            self.step_by_step(self.abort)
        while self.steps:
            self.step_by_step(self.retire)
        for _ in range(3):
            self.now += 100.0
            self.step_by_step(self.tell_time)
        self.ended(self.ledger)
        assert self.told >= self.loads.keys() | self.jobs, "L1.verdict_once: somebody was never told"
        for flight in [f for f in self.flights if f.work.kind == HOLD]:
            self.answer(flight)
        for place in self.copiers():
            self.step_by_step(lambda at=place: self.fence_one(*at))  # type: ignore[misc]
        assert not self.flights, f"L11.home: copies are left {self.flights}"
        assert not self.waiting, f"L11.home: copies are left {self.waiting}"
        if not self.closed:
            assert self.ledger.drain()
            assert self.ledger.drain()
            self.closed = self.ledger.shut() is True
        assert self.closed, f"L11.home: {self.ledger.shut()}"
        assert not self.ledger.open("a"), "a closed ledger opened a lease"
        assert self.ledger.rest() == [], f"L11.home: {self.ledger.rest()}"
        states = self.ledger.books.tables["block"].STATES
        left = {states[state] for state in self.ledger.books.block_state} - {"free", "cached"}
        assert not left, f"L11.home: blocks are left {left}"
        self.check()
        assert self.told >= self.loads.keys() | self.jobs, "L1.verdict_once: somebody was never told"
        assert self.settled == self.loads.keys(), "L1.verdict_once: a load never settled"

    def break_down(self) -> None:
        """The device is gone: the ledger says so once, and from then on nothing is granted, freed or believed."""
        books, flight = self.ledger.books, self.pick(self.flights)
        if flight is None:
            return
        states, free = books.block_state[:], [pool.free[:] for pool in books.pools]
        self.ledger.report(Report(flight.work.token, Outcome.FAILED, (Failure(-1, int(Code.DEVICE_ERROR), "fetch"),)))
        for request in self.requests:
            assert isinstance(self.ledger.abort(request.lease), Refusal)
        self.ledger.tick(self.now + 100.0)
        assert isinstance(self.ledger.open("a"), Refusal)
        assert isinstance(self.ledger.fenced(0, "cpu", books.serial), Refusal)
        verdicts = self.ledger.take_verdicts()
        assert sum(isinstance(verdict, Fatal) for verdict in verdicts) == 1, f"L8.poison: {verdicts}"
        assert (states, free) == (books.block_state, [pool.free for pool in books.pools]), "L8.poison: something moved"
