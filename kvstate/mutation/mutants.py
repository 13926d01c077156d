"""Every mutant of a spec: the same spec with one fault in it, under a name that stays.

The enumeration knows no machine by name. What it does to a row, a coupling or an act, and nothing else:

* the row is deleted;
* it leads to another state, each in turn, or stays where it was;
* it leaves out one of its effects, or says two that stand side by side the other way round (every other order is made
  of such exchanges);
* it has no guard, the opposite guard, or its guard without one of its parts;
* it leaves a variable as it was;
* a coupling or an act is deleted.

A mutant that would be the same spec over again, or the same as one before it, is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from kvstate.spec.expr import TRUE, Expr, Unary, conjunction, of_node
from kvstate.spec.model import Machine, Row, Spec

KINDS = (
    "row deleted",
    "target redirected",
    "effect dropped",
    "effects exchanged",
    "guard dropped",
    "guard negated",
    "condition dropped",
    "change dropped",
    "coupling dropped",
    "act dropped",
)
"""What can be done to a spec, in the order in which a row's mutants are listed."""


@dataclass(frozen=True)
class Mutant:
    """One fault: what it is called, what was done to what, and the spec that comes of it."""

    name: str
    """As it stands in results: `B21 leads to free`."""
    kind: str
    """One of `KINDS`."""
    machine: str
    row: str
    """The id of the row, the coupling or the act."""
    spec: Spec

    @property
    def coupled(self) -> bool:
        """Is the fault in `coupling.toml`, and not in a machine?"""
        return self.kind in ("coupling dropped", "act dropped")


def mutants(spec: Spec) -> tuple[Mutant, ...]:
    """All of them, machine by machine and row by row in the order of the files; then couplings and acts."""
    found = [mutant for machine in spec.machines for row in machine.rows for mutant in _of_row(spec, machine, row)]
    return (*found, *_of_lines(spec))


def _of_row(spec: Spec, machine: Machine, row: Row) -> Iterator[Mutant]:
    seen: list[tuple[Row, ...]] = [(row,)]
    for kind, words, rows in _changes(machine, row):
        if rows not in seen:
            seen.append(rows)
            mutated = replace(
                machine, rows=tuple(one for old in machine.rows for one in (rows if old is row else (old,)))
            )
            whole = tuple(mutated if one is machine else one for one in spec.machines)
            yield Mutant(f"{row.id} {words}", kind, machine.name, row.id, replace(spec, machines=whole))


Change = tuple[str, str, tuple[Row, ...]]
"""The kind, what the row does then in words, and what stands in its place."""


def _changes(machine: Machine, row: Row) -> Iterator[Change]:
    yield "row deleted", "deleted", ()
    for change in (_targets, _effects, _guards, _sets):
        yield from change(machine, row)


def _targets(machine: Machine, row: Row) -> Iterator[Change]:
    for state in machine.states:
        if row.sources != (state.name,) and row.to != state.name:
            yield "target redirected", f"leads to {state.name}", (replace(row, to=state.name),)
    if row.to is not None:
        yield "target redirected", "stays where it was", (replace(row, to=None),)


def _effects(_: Machine, row: Row) -> Iterator[Change]:
    said = row.effects
    for place, effect in enumerate(said):
        without = replace(row, effects=said[:place] + said[place + 1 :])
        yield "effect dropped", f"without {_nth(said, place, effect)}", (without,)
    for place, (one, other) in enumerate(pairwise(said)):
        exchanged = replace(row, effects=(*said[:place], other, one, *said[place + 2 :]))
        yield "effects exchanged", f"says {other} before {one}", (exchanged,)


def _nth(words: tuple[str, ...], place: int, word: str) -> str:
    """The word, and which one where it stands there several times."""
    return word if Counter(words)[word] == 1 else f"{word} {words[: place + 1].count(word)}"


def _guards(_: Machine, row: Row) -> Iterator[Change]:
    if row.when.is_true:
        return
    yield "guard dropped", "without its guard", (replace(row, when=TRUE),)
    yield "guard negated", "with the opposite guard", (replace(row, when=of_node(Unary("not", row.when.node))),)
    parts = row.when.conjuncts
    for place, part in enumerate(parts if len(parts) > 1 else ()):
        rest = conjunction(parts[:place] + parts[place + 1 :])
        yield "condition dropped", f"without the condition {part.source}", (replace(row, when=rest),)


def _sets(_: Machine, row: Row) -> Iterator[Change]:
    for name, _value in row.sets:
        rest: tuple[tuple[str, Expr], ...] = tuple(pair for pair in row.sets if pair[0] != name)
        yield "change dropped", f"keeps {name}", (replace(row, sets=rest),)


def _of_lines(spec: Spec) -> Iterator[Mutant]:
    for link in spec.couplings:
        less = replace(spec, couplings=tuple(one for one in spec.couplings if one is not link))
        yield Mutant(f"{link.id} deleted", "coupling dropped", link.machine, link.id, less)
    for act in spec.acts:
        less = replace(spec, acts=tuple(one for one in spec.acts if one is not act))
        yield Mutant(f"{act.id} deleted", "act dropped", act.machine, act.id, less)
