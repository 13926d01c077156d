"""Fires rows, and what follows from a row: its effects, in order, depth first.

One `Port` stands for one machine. `ask` fires a request or a report and says whether a row took it; `signal` fires what
must never be refused in a reachable world, and breaks loudly if it is. After a row has fired, its effects run in list
order; an effect's acts and couplings run in the order of `coupling.toml`, and each coupled event has run to its end,
effects and all, before the next one starts. That order is meaning: a part lets go of its blocks before it tells its
owner.

What is not here: any knowledge of a particular machine beyond the three views that follow a state (see `Books`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from kvstate.machines.books import BlockViews, Books
from kvstate.machines.relations import RELATIONS
from kvstate.machines.table import REFUSED, Table

T = TypeVar("T")
Follow = Callable[[int], None]
"""What follows from a row, on the record that it fired on."""
Sink = Callable[[str, int, str, int, int], None]
"""Told of every row that fires: machine, uid of the record, row id, state before, state after."""


class Coupling(NamedTuple):
    """A line of `coupling.toml`: this effect is that event, on every record that the relation yields."""

    id: str
    machine: str
    effect: str
    target: str
    event: str
    over: str
    ask: bool


class ActRow(NamedTuple):
    """A line of `coupling.toml`: at this effect the ledger does that, before or after the couplings."""

    id: str
    machine: str
    effect: str
    act: str
    order: str


class InvariantError(Exception):
    """Something happened that the data calls impossible. It never leaves the ledger as an exception."""

    def __init__(self, law: str, sentence: str) -> None:
        super().__init__(f"{law}: {sentence}")
        self.law = law
        self.sentence = sentence


class Port:
    """One machine: its table, what each row sets off, and how often each row has fired."""

    __slots__ = ("books", "events", "fired", "name", "plan", "sink", "state", "table")

    def __init__(self, name: str, books: Books) -> None:
        self.name = name
        self.books = books
        self.table: Table = books.tables[name]
        self.state = books.column(name, "state")
        self.events = {event: number for number, event in enumerate(self.table.EVENTS)}
        self.fired = [0] * len(self.table.ROWS)
        self.plan: list[tuple[Follow, ...]] = []
        self.sink: Sink | None = None

    def choose(self, slot: int, event: int) -> bool:
        """Would a row take it? Changes nothing."""
        return self.table.choose(slot, event) != REFUSED

    def ask(self, slot: int, event: int) -> bool:
        """Fire; False, and nothing changed, if no row takes it."""
        before = self.state[slot]
        row = self.table.fire(slot, event)
        if row == REFUSED:
            return False
        self.fired[row] += 1
        if self.sink is not None:
            self.sink(self.name, self.books.uid(self.name, slot), self.table.ROWS[row], before, self.state[slot])
        self.moved(slot, before, self.state[slot])
        for step in self.plan[row]:
            step(slot)
        self.done(slot)
        return True

    def signal(self, slot: int, event: int) -> None:
        """Fire what must be taken; a refusal breaks an invariant."""
        if not self.ask(slot, event):
            raise InvariantError(f"{self.name}.{self.table.EVENTS[event]}", self._refused(slot, event))

    def state_of(self, slot: int) -> str:
        return self.table.STATES[self.state[slot]]

    def _refused(self, slot: int, event: int) -> str:
        values = ", ".join(f"{var} {self.books.column(self.name, var)[slot]}" for var in self.table.VARS)
        uid = self.books.uid(self.name, slot)
        return f"{self.name} {uid} is {self.state_of(slot)} ({values}) and no row takes {self.table.EVENTS[event]}"

    def moved(self, slot: int, before: int, after: int) -> None:
        """Called when a row has fired and before its effects run."""

    def done(self, slot: int) -> None:
        """Called when the effects of a row have run."""


class BlockPort(Port):
    """Keeps the free list, the evictable order and the counts in step."""

    __slots__ = ("views",)

    def __init__(self, name: str, books: Books) -> None:
        super().__init__(name, books)
        states = self.table.STATES
        self.views = BlockViews(states.index("free"), states.index("cached"))

    def moved(self, slot: int, before: int, after: int) -> None:
        if before != after:
            self.books.block_moved(slot, before, after, self.views)


class PartPort(Port):
    """A settled part leaves the record when its owner is over."""

    __slots__ = ()

    def done(self, slot: int) -> None:
        if self.books.parts[slot].owner is None:
            self.books.doom_part(slot)


class KeyPort(Port):
    """A key that is neither ready nor cooling names no block; an absent one leaves the record."""

    __slots__ = ("naming",)

    def __init__(self, name: str, books: Books) -> None:
        super().__init__(name, books)
        self.naming = {self.table.STATES.index(state) for state in ("ready", "cooling")}

    def done(self, slot: int) -> None:
        if self.state[slot] not in self.naming:
            self.books.keys.unlink(slot)
            if self.state[slot] == self.table.INITIAL:
                self.books.doomed.append(("key", slot))


PORTS = {"block": BlockPort, "part": PartPort, "key": KeyPort}


class Cascade:
    """The ports of all machines, wired as `coupling.toml` says."""

    __slots__ = ("batch", "block", "books", "job", "key", "load", "part", "ports", "service")

    def __init__(self, books: Books) -> None:
        self.books = books
        self.ports = {name: PORTS.get(name, Port)(name, books) for name in books.tables}
        self.block = self.ports["block"]
        self.part = self.ports["part"]
        self.key = self.ports["key"]
        self.job = self.ports["offload"]
        self.batch = self.ports["transfer"]
        self.load = self.ports["load"]
        self.service = self.ports["service"]

    def wire(self, couplings: Iterable[Coupling], acts: Iterable[ActRow], doer: object) -> None:
        """Bind every effect to what follows from it.

        Errors: `ValueError` for an unknown name, here and not in the middle of a race.
        """
        couplings, acts = tuple(couplings), tuple(acts)
        for line, machine in [(row.id, row.machine) for row in couplings] + [(row.id, row.machine) for row in acts]:
            known(line, "machine", machine, self.ports)
        for port in self.ports.values():
            steps: dict[str, list[Follow]] = {}
            for effect in {effect for effects in port.table.EFFECTS for effect in effects}:
                mine = [row for row in acts if (row.machine, row.effect) == (port.name, effect)]
                steps[effect] = [
                    *(self._act(row, doer) for row in mine if row.order == "before"),
                    *(self._couple(row) for row in couplings if (row.machine, row.effect) == (port.name, effect)),
                    *(self._act(row, doer) for row in mine if row.order == "after"),
                ]
            port.plan = [tuple(step for effect in row for step in steps[effect]) for row in port.table.EFFECTS]

    def _records(self, machine: str) -> Any:
        """What a relation or an act is given for a slot: the record, or the slot itself where there is none."""
        books = self.books
        rosters = {"part": books.parts, "offload": books.jobs, "transfer": books.batches, "load": books.loads}
        return rosters[machine] if machine in rosters else range(2**62)

    def _act(self, row: ActRow, doer: object) -> Follow:
        act, records, effect = getattr(doer, row.act, None), self._records(row.machine), row.effect
        if not callable(act):
            raise ValueError(f"{row.id} names an act {row.act!r}, and the ledger can't do that")

        def step(slot: int) -> None:
            act(records[slot], effect)

        return step

    def _couple(self, row: Coupling) -> Follow:
        books, records = self.books, self._records(row.machine)
        relation = known(row.id, "relation", row.over, RELATIONS)
        port = known(row.id, "machine", row.target, self.ports)
        event = known(row.id, f"event of {row.target}", row.event, port.events)
        fire = port.ask if row.ask else port.signal

        def step(slot: int) -> None:
            for target in relation(books, records[slot]):
                fire(target, event)

        return step


def known(row: str, what: str, name: str, among: Mapping[str, T]) -> T:
    """What a line of `coupling.toml` names. Errors: `ValueError`, a sentence, if there is no such thing."""
    if name not in among:
        raise ValueError(f"{row} names {name!r}, and there is no such {what}; there are {', '.join(sorted(among))}")
    return among[name]
