"""Is the state graph of a mutant the one of what ships? Asked of many mutants in one search of a scope.

What ships is searched to its end, as the explorer does. A mutant whose guards are those of what ships can only differ
where its row fires. So whenever a move, or the way home from a state, has fired that row, the mutant starts from the
same state and does the same, and is held against it: the digest of the state that it comes to, and everything that was
sent down and told up on the way. If it agrees wherever the row fires, its search would be this one, step by step.

A mutant whose guard is another one can fire where what ships does not. Of such a machine every question is noted down
that the ledger has asked of its table: the event, the state, the variables. If in each case the guards of the mutant
choose the row that was chosen, the same holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kvstate.explore.home import comes_home, late_reports
from kvstate.explore.moves import Move, System
from kvstate.explore.scopes import Scope
from kvstate.explore.search import _Search
from kvstate.explore.stage import Rules
from kvstate.machines import step as reference
from kvstate.machines import tables
from kvstate.machines.table import Table
from kvstate.mutation import planted
from kvstate.mutation.graph import NoBaselineError, Over, searching
from kvstate.mutation.mutants import Mutant
from kvstate.spec.model import Machine, Spec

GUARDED = frozenset({"guard dropped", "guard negated", "condition dropped"})
"""The kinds of mutants that may fire where what ships does not."""
SAME = 0
"""No state was found to be another one."""
Note = tuple[int, ...]
"""A question that was asked of a table: event, state, variables."""


@dataclass(frozen=True)
class Asked:
    """A mutant, and the rows that have to fire for it to make a difference."""

    mutant: Mutant
    rows: tuple[str, ...]


def differing(spec: Spec, scope: Scope, asked: Sequence[Asked]) -> dict[str, int]:
    """By name, of those whose row fires in this scope: `SAME`, if the state graph is the one of what ships; if it is
    another one, how many states were known when that was seen.

    `spec` is what ships. Errors: `NoBaselineError` if what ships breaks a law.
    """
    guarded = [one.mutant for one in asked if one.mutant.kind in GUARDED]
    noted: dict[str, dict[Note, int]] = {mutant.machine: {} for mutant in guarded}
    rules = Rules({**tables.TABLES, **{name: _noting(name, notes) for name, notes in noted.items()}})
    search = _Lockstep(scope, rules, [one for one in asked if one.mutant.kind not in GUARDED])
    search.ends_early = not guarded
    with searching():
        search.run(None, lambda *_: None)
    if search.found.broken is not None:
        raise NoBaselineError(f"the scope {scope.name} breaks a law without any fault: {search.found.broken.sentence}")
    found = dict.fromkeys(search.reached, SAME) | search.differs
    for mutant in guarded:
        for note, known in noted[mutant.machine].items():
            ships, now = _chosen(spec.machine(mutant.machine), mutant, note, search.system)
            if mutant.row in (ships, now):
                found[mutant.name] = SAME
            if ships != now:
                found[mutant.name] = known + 1
                break
    return found


# -- guards ------------------------------------------------------------------------------------------------------------


def _noting(name: str, notes: dict[Note, int]) -> type[Table]:
    """The table that ships, writing down what it is asked."""
    ships: Any = tables.TABLES[name]

    class Noting(ships):  # type: ignore[misc]
        def _note(self, slot: int, event: int) -> None:
            values = (self.state[slot], *(getattr(self, var)[slot] for var in self.VARS))
            notes.setdefault((event, *values), len(notes))

        def choose(self, slot: int, event: int) -> int:
            self._note(slot, event)
            row: int = super().choose(slot, event)
            return row

        def fire(self, slot: int, event: int) -> int:
            self._note(slot, event)
            row: int = super().fire(slot, event)
            return row

        def each(self, slots: Iterable[int], event: int) -> list[int]:
            slots = list(slots)
            for slot in slots:
                self._note(slot, event)
            arcs: list[int] = super().each(slots, event)
            return arcs

    return Noting


def _chosen(ships: Machine, mutant: Mutant, note: Note, system: System) -> tuple[str, str]:
    """The rows that what ships and the mutant choose where this was asked; empty for a refusal."""
    table = system.ledger.books.tables[ships.name]
    event, state, *numbers = note
    values: dict[str, int | bool] = {param: getattr(table, param) for param in table.PARAMS}
    for var, number in zip(ships.vars, numbers, strict=True):
        values[var.name] = bool(number) if var.type == "bool" else number
    rows = (
        reference.choose(machine, table.STATES[state], values, table.EVENTS[event])
        for machine in (ships, mutant.spec.machine(ships.name))
    )
    one, other = ("" if row is None else row.id for row in rows)
    return one, other


# -- what follows ------------------------------------------------------------------------------------------------------


class _Heard:
    """A system, and all that came out of its ledger since it was asked last."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.said: list[str] = []
        for name in ("take_effects", "take_verdicts"):
            setattr(system.ledger, name, partial(self._took, getattr(system.ledger, name)))

    def _took(self, take: Callable[[], list[Any]]) -> list[Any]:
        found = take()
        if found:
            self.said.append(repr(found))
        return found

    def end(self) -> tuple[bytes, list[str]]:
        """The state that it has come to, and what was said on the way."""
        said, self.said = self.said, []
        return self.system.digest(), said


class _Lockstep(_Search):
    """The search of what ships, with mutants that go along where their rows fire."""

    def __init__(self, scope: Scope, rules: Rules, asked: Sequence[Asked]) -> None:
        super().__init__(scope, rules, scope.depth, True)
        self.heard = _Heard(self.system)
        self.others = {one.mutant.name: other for one in asked if (other := self._begun(scope, one.mutant)) is not None}
        ports = self.system.ledger.core.ports.ports.values()
        places = {row: (port.fired, number) for port in ports for number, row in enumerate(port.table.ROWS)}
        self.counters = {
            one.mutant.name: [places[row] for row in one.rows] for one in asked if one.mutant.name in self.others
        }
        self.reached: set[str] = set()
        self.differs = {one.mutant.name: 1 for one in asked if one.mutant.name not in self.others}
        self.ends_early = False
        self.saved = b""
        self.do = self.system.do
        self.system.do = self._move  # type: ignore[method-assign]

    def _begun(self, scope: Scope, mutant: Mutant) -> _Heard | None:
        """The mutant at the beginning of the scope; None if it does not come there, or finds another beginning."""
        try:
            begun = System(scope, planted.rules(mutant))
            same = begun.digest() == self.system.digest()
        except Exception:
            return None
        return _Heard(begun) if same else None

    def _counts(self) -> dict[str, int]:
        return {name: sum(fired[row] for fired, row in places) for name, places in self.counters.items()}

    def _fired(self, before: Mapping[str, int]) -> Iterator[str]:
        for name, count in self._counts().items():
            if count != before[name]:
                yield name

    def _from(self, number: int, saved: bytes, queue: Any) -> None:
        self.saved = saved
        super()._from(number, saved, queue)
        self.saved = b""

    def _move(self, move: Move) -> None:
        """A move from a state of the search; those of the prefix and of the ways home are only made."""
        saved = self.saved
        if not saved:
            self.do(move)
            return
        before = self._counts()
        self.heard.said.clear()
        self.do(move)
        fired = list(self._fired(before))
        if fired:
            end = self.heard.end()
            for name in fired:
                self._compare(name, end, saved, lambda system: system.do(move))

    def _enter(self, key: bytes, source: int, move: Move) -> bytes | None:
        before, inside = self._counts(), self.saved
        self.saved = b""
        self.heard.said.clear()
        saved = super()._enter(key, source, move)
        self.saved = inside
        fired = list(self._fired(before)) if saved is not None else []
        if saved is not None and fired:
            end = self.heard.end()
            for name in fired:
                self._compare(name, end, saved, partial(_goes_home, key))
        if self.ends_early and not self.counters and self.found.broken is None:
            raise Over
        return saved

    def _compare(self, name: str, end: tuple[bytes, list[str]], saved: bytes, go: Callable[[System], None]) -> None:
        """Let the mutant do the same from the same state; if anything is different, it is out."""
        self.reached.add(name)
        other = self.others[name]
        other.system.restore(saved)
        other.said.clear()
        try:
            go(other.system)
            same = other.end() == end
        except Exception:
            same = False
        if not same:
            self.differs[name] = len(self.came)
            del self.counters[name]


def _goes_home(key: bytes, system: System) -> None:
    """What the search does with a new state."""
    late_reports(system, key)
    comes_home(system)
