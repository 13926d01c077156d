"""Fires rows, and what follows from a row: its effects, in order, depth first.

A `Port` fires the rows of one machine (see `ports`). After a row has fired, its effects run in list order; an effect's
acts and couplings run in the order of `coupling.toml`, and each coupled event has run to its end, effects and all,
before the next one starts. That order is meaning: a part lets go of its blocks before it tells its owner.

Many records take an event together only where that order makes no difference. That is read off the data, once: from
every row of the event nothing follows, or other events from which nothing follows, each on a record that no two of the
many lead to. Then all rows of one level may fire before those of the next. An act of `ORDERLESS` is no obstacle.

What is not here: what any particular row means. Four machines have ports of their own, for what follows their states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from kvstate.machines.books import Books
from kvstate.machines.ports import BlockPort, Follow, FollowAll, ForeignPort, KeyPort, PartPort, Port
from kvstate.machines.records import Roster
from kvstate.machines.relations import RELATIONS, RELATIONS_OF_MANY

__all__ = ["ActRow", "Cascade", "Coupling", "Port", "known"]

T = TypeVar("T")


class Coupling(NamedTuple):
    """A line of `coupling.toml`, by its `id`: this effect is that event, on every record that the relation yields."""

    id: str
    machine: str
    effect: str
    target: str
    """The machine whose event it is."""
    event: str
    over: str
    """The relation."""
    ask: bool
    """Is the event fired only where a row takes it?"""


class ActRow(NamedTuple):
    """A line of `coupling.toml`, by its `id`: at this effect the ledger does that."""

    id: str
    machine: str
    effect: str
    act: str
    """The name of the method that does it."""
    order: str
    """`before` or `after` the couplings of the effect."""


ORDERLESS = frozenset({"emit_unhold"})
"""Acts that only say something, each of its own record: of many records they are done one after the other."""
PORTS = {"block": BlockPort, "foreign": ForeignPort, "part": PartPort, "key": KeyPort}
"""The machines whose ports do more than fire rows."""


class Cascade:
    """The ports of all machines, wired as `coupling.toml` says."""

    __slots__ = ("batch", "block", "books", "foreign", "job", "key", "load", "part", "ports", "service")

    def __init__(self, books: Books) -> None:
        self.books = books
        self.ports = {name: PORTS.get(name, Port)(name, books) for name in books.tables}
        self.block = self.ports["block"]
        foreign = self.ports["foreign"]
        assert isinstance(foreign, ForeignPort), "PORTS says so"
        self.foreign = foreign
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
        if not self.books.engine.count:  # nothing to be found there, and looking costs as much as finding
            couplings = tuple(row for row in couplings if "foreign" not in (row.machine, row.target))
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
        for port in self.ports.values():
            self._wire_many(port, couplings, acts, doer)

    def _wire_many(self, port: Port, couplings: Iterable[Coupling], acts: Iterable[ActRow], doer: object) -> None:
        """Find out which events many records may take at once, and what follows then."""
        levels = {
            effect: self._level(port, effect, couplings, acts, doer) for row in port.table.EFFECTS for effect in row
        }
        for effects in port.table.EFFECTS:
            found = [levels[effect] for effect in effects]
            port.level.append(None if None in found else tuple(step for steps in found for step in steps or ()))
        if port.many is not None:
            rows_of = {
                event: [row for (_, of), rows in port.many.cases.items() if of == event for row in rows]
                for event in port.events.values()
            }
            port.each_at_once = tuple(
                all(port.level[row] is not None for row in rows_of[event]) for event in port.events.values()
            )
        else:
            port.each_at_once = (False,) * len(port.events)

    def _level(
        self, port: Port, effect: str, couplings: Iterable[Coupling], acts: Iterable[ActRow], doer: object
    ) -> tuple[FollowAll, ...] | None:
        """What an effect means for many records at once; None where they have to go one by one."""
        mine = [row for row in couplings if (row.machine, row.effect) == (port.name, effect)]
        done = [row for row in acts if (row.machine, row.effect) == (port.name, effect)]
        if any(row.act not in ORDERLESS for row in done):
            return None
        if any(row.ask or row.over not in RELATIONS_OF_MANY or not self._ends(row) for row in mine):
            return None
        return (*(self._couple_many(row) for row in mine), *(self._act_many(row, doer) for row in done))

    def _ends(self, row: Coupling) -> bool:
        """Does nothing follow from the coupled event, whichever row takes it?"""
        target = self.ports[row.target]
        if target.many is None:
            return False
        event = target.events[row.event]
        rows = (number for (_, of), numbers in target.many.cases.items() if of == event for number in numbers)
        return not any(target.table.EFFECTS[number] for number in rows)

    def _couple_many(self, row: Coupling) -> FollowAll:
        books, relation, port = self.books, RELATIONS_OF_MANY[row.over], self.ports[row.target]
        event = port.events[row.event]

        def step(slots: Sequence[int]) -> None:
            port.each(relation(books, slots), event)

        return step

    def _records(self, machine: str) -> Any:
        """What a relation or an act is given for a slot: the record, or the slot itself where there is none."""
        books = self.books
        rosters: dict[str, Roster[Any]] = {
            "part": books.parts,
            "offload": books.jobs,
            "transfer": books.batches,
            "load": books.loads,
        }
        return rosters[machine].items if machine in rosters else range(2**62)  # at each place of it is its number

    def _act(self, row: ActRow, doer: object) -> Follow:
        act, records, effect = getattr(doer, row.act, None), self._records(row.machine), row.effect
        if not callable(act):
            raise ValueError(f"{row.id} names an act {row.act!r}, and the ledger can't do that")

        def step(slot: int) -> None:
            act(records[slot], effect)

        return step

    def _act_many(self, row: ActRow, doer: object) -> FollowAll:
        act = self._act(row, doer)

        def step(slots: Sequence[int]) -> None:
            for slot in slots:
                act(slot)

        return step

    def _couple(self, row: Coupling) -> Follow:
        books, records = self.books, self._records(row.machine)
        relation = known(row.id, "relation", row.over, RELATIONS)
        port = known(row.id, "machine", row.target, self.ports)
        event = known(row.id, f"event of {row.target}", row.event, port.events)
        if row.ask:

            def step(slot: int) -> None:
                for target in relation(books, records[slot]):
                    port.ask(target, event)

        else:

            def step(slot: int) -> None:
                targets = relation(books, records[slot])
                if targets:
                    port.each(targets, event)

        return step


def known(row: str, what: str, name: str, among: Mapping[str, T]) -> T:
    """What a line of `coupling.toml` names. Errors: `ValueError`, a sentence, if there is no such thing."""
    if name not in among:
        raise ValueError(f"{row} names {name!r}, and there is no such {what}; there are {', '.join(sorted(among))}")
    return among[name]
