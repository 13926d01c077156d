"""Fires rows, and what follows from a row: its effects in order, depth first, as in the ledger.

An effect's acts and couplings are bound once, from the lines of `spec/peers/coupling.toml`; a name that nothing stands
behind is found there and not in the middle of a race.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kvstate.machines.ports import InvariantError
from kvstate.machines.table import REFUSED, Table
from kvstate.peers.records import Books, Record
from kvstate.peers.relations import RELATIONS
from kvstate.peers.tables import TABLES
from kvstate.peers.tables.coupling import ACTS, COUPLINGS

Step = Callable[[Any], None]
"""One thing that follows from a row, done for the record that fired it."""


class Rules(NamedTuple):
    """What a party runs on; without anything else what ships."""

    machines: Mapping[str, type[Table]] = TABLES
    couplings: Sequence[tuple[str, str, str, str, str, str, bool]] = COUPLINGS
    acts: Sequence[tuple[str, str, str, str, str]] = ACTS


class Cascade:
    """The rows of all machines of a party, wired as the couplings say.

    Errors: `ValueError` where a line names a relation or an act that is not there.
    """

    def __init__(self, books: Books, rules: Rules, doer: object) -> None:
        self.books = books
        self.fired = {name: [0] * len(table.ROWS) for name, table in books.tables.items()}
        """How often each row has fired."""
        self.plans = {name: self._plan(name, table, rules, doer) for name, table in books.tables.items()}
        """For each row: what follows from it."""

    def _plan(self, name: str, table: Table, rules: Rules, doer: object) -> list[tuple[Step, ...]]:
        steps = {effect: self._steps(name, effect, rules, doer) for row in table.EFFECTS for effect in row}
        return [tuple(step for effect in row for step in steps[effect]) for row in table.EFFECTS]

    def _steps(self, machine: str, effect: str, rules: Rules, doer: object) -> list[Step]:
        found: dict[str, list[Step]] = {"before": [], "after": []}
        for name, of, said, act, order in rules.acts:
            if (of, said) == (machine, effect):
                found[order].append(self._act(name, act, effect, doer))
        coupled = [self._couple(*line) for line in rules.couplings if line[1:3] == (machine, effect)]
        return [*found["before"], *coupled, *found["after"]]

    def _act(self, name: str, act: str, effect: str, doer: object) -> Step:
        method: Callable[[Record, str], None] | None = getattr(doer, act, None)
        if method is None:
            raise ValueError(f"{name} names the act {act}, and there is none of that name")
        return lambda record: method(record, effect)

    def _couple(self, name: str, _machine: str, _effect: str, target: str, event: str, over: str, ask: bool) -> Step:
        relation = RELATIONS.get(over)
        if relation is None:
            raise ValueError(f"{name} goes over the relation {over}, and there is none of that name")
        number = self.books.tables[target].EVENTS.index(event)
        fire = self.fire if ask else self.signal

        def couple(record: Any) -> None:
            for other in relation(self.books, record):
                fire(other, number)

        return couple

    # -- firing --------------------------------------------------------------------------------------------------------

    def fire(self, record: Record, event: int) -> bool:
        """Fire the row that answers the event, and what follows from it; False if no row does."""
        row = self.books.tables[record.machine].fire(record.slot, event)
        if row == REFUSED:
            return False
        self.fired[record.machine][row] += 1
        self.books.touched[id(record)] = record
        for step in self.plans[record.machine][row]:
            step(record)
        return True

    def signal(self, record: Record, event: int) -> None:
        """The same where a refusal would be against the data.

        Errors: `InvariantError` if no row answers.
        """
        if not self.fire(record, event):
            table = self.books.tables[record.machine]
            state = self.state_of(record)
            raise InvariantError("L6", f"a {record.machine} that is {state} does not answer {table.EVENTS[event]}")

    def takes(self, record: Record, event: int) -> bool:
        """Would a row answer? Nothing changes."""
        return self.books.tables[record.machine].choose(record.slot, event) != REFUSED

    def state_of(self, record: Record) -> str:
        """The word for where the record is, to be told."""
        return self.books.tables[record.machine].STATES[self._number(record)]

    def over(self, record: Record) -> bool:
        """Is the record in a state in which it is forgotten?"""
        return self._number(record) in self.books.tables[record.machine].HOME

    def _number(self, record: Record) -> int:
        table: Any = self.books.tables[record.machine]
        number: int = table.state[record.slot]
        return number
