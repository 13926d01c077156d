"""The rungs that look at the data and run nothing: the loader's rules, z3 on the rows, their laws, the theorems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from kvstate.mutation.kills import Kill
from kvstate.mutation.mutants import Mutant
from kvstate.proof.rows import check_rows, implied
from kvstate.proof.theorems import THEOREMS, Theorem, every_row
from kvstate.spec import laws, spec_dir
from kvstate.spec.expr import Compare, Expr, Name, of_node
from kvstate.spec.model import Act, Coupling, Machine, Row, Spec
from kvstate.spec.reading import read_toml
from kvstate.spec.rules import MACHINE_RULES, SPEC_RULES

GAVE_UP = "gave up"
"""In a finding of a prover that had not enough time: no proof, but no fault either, so nothing is killed by it."""
GAP = "no row answers this report"
"""In a finding of z3 that is law L6 broken."""


def by_loader(mutant: Mutant) -> Iterator[Kill]:
    """The static rules that refuse it."""
    for machine_rule in MACHINE_RULES:
        if not mutant.coupled and any(machine_rule(mutant.spec.machine(mutant.machine))):
            yield Kill("loader", machine_rule.__name__, law_of("kvstate/spec/rules.py", machine_rule))
    for spec_rule in SPEC_RULES:
        if any(spec_rule(mutant.spec)):
            yield Kill("loader", spec_rule.__name__, law_of("kvstate/spec/rules.py", spec_rule))
    if any(_without_effect(mutant.spec)):
        yield Kill("loader", "couplings name effects that rows have")


def _without_effect(spec: Spec) -> Iterator[str]:
    """The loader refuses a line of `coupling.toml` whose effect no row names, as it reads it."""
    effects = {machine.name: set(machine.effects) for machine in spec.machines}
    lines: list[Coupling | Act] = [*spec.couplings, *spec.acts]
    for line in lines:
        if line.effect not in effects[line.machine]:
            yield line.id


def by_z3(mutant: Mutant, shipped: Machine | None) -> Iterator[Kill]:
    """What z3 finds of its rows; `shipped` is the machine without the fault, None for a fault in `coupling.toml`.

    Only what the fault could have changed is asked: what the events of the row do in the states that it leaves.
    """
    if shipped is None:
        return
    machine = mutant.spec.machine(mutant.machine)
    row = shipped.row(mutant.row)
    for finding in check_rows(of_events(machine, set(row.events)), leaving=row.sources):
        if GAVE_UP not in finding:
            yield Kill("z3", _question(finding), "L6.total" if GAP in finding else "")


def of_events(machine: Machine, events: set[str]) -> Machine:
    """The machine as if nothing else ever happened."""
    rows = tuple(_answering(row, events) for row in machine.rows if events & set(row.events))
    return replace(machine, rows=rows, events=tuple(event for event in machine.events if event.name in events))


def _answering(row: Row, events: set[str]) -> Row:
    return replace(row, events=tuple(event for event in row.events if event in events))


def equal(mutant: Mutant, shipped: Machine) -> bool:
    """Does the row with the fault do what the row without it does, wherever the invariants of its states hold?

    Only of a part of a guard that is left out, and of a change: such a one says over again what the invariant claims.
    """
    machine, old = mutant.spec.machine(mutant.machine), shipped.row(mutant.row)
    new = next((row for row in machine.rows if row.id == mutant.row), None)
    if new is None or (new.to, new.effects) != (old.to, old.effects):
        return False
    claims = [part for part in old.when.conjuncts if part not in new.when.conjuncts]
    claims += [_unchanged(shipped, name, value) for name, value in old.sets if (name, value) not in new.sets]
    given = [[shipped.state(source).invariant, new.when] for source in old.sources]
    return bool(claims) and all(implied(shipped, true, claim) for true in given for claim in claims)


def _unchanged(machine: Machine, name: str, value: Expr) -> Expr:
    """The variable has that value already."""
    kind = next(var.type for var in machine.vars if var.name == name)
    return of_node(Compare(Name(name, kind), ("==",), (value.node,)))


QUESTIONS = (
    (GAP, "a report has a gap"),
    ("can never fire", "a row can fire"),
    ("breaks its invariant", "an invariant is kept"),
    (" too (", "guards are disjoint"),
)
"""What stands in a finding of `check_rows`, and the question that it is about."""


def _question(finding: str) -> str:
    return next((said for words, said in QUESTIONS if words in finding), "rows")


def by_rows(mutant: Mutant) -> Iterator[Kill]:
    """The laws that are read off the rows and that it breaks."""
    asked = dict.fromkeys(question for question, _ in laws.broken(mutant.spec))
    for question in asked:
        yield Kill("rows", question.__name__, law_of("kvstate/spec/laws.py", question))


def by_theorem(mutant: Mutant, names: Iterable[str]) -> Iterator[Kill]:
    """Those of the named theorems that can't be proved of it."""
    wanted = set(names)
    for theorem in THEOREMS:
        if theorem.name in wanted and any(GAVE_UP not in finding for finding in theorem.run(mutant.spec)):
            yield Kill("theorem", theorem.name, theorem.law)


def theorems_about(mutant: Mutant, read: Mapping[str, frozenset[str]]) -> list[str]:
    """The theorems that may see the fault; `read` says which machines each of them looks at (see `machines_read`)."""
    return [name for name, machines in read.items() if mutant.coupled or mutant.machine in machines]


class _Watched(Spec):
    """A spec that remembers which of its machines were asked for."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec.version, spec.machines, spec.relations, spec.couplings, spec.acts)
        object.__setattr__(self, "plain", spec)
        object.__setattr__(self, "seen", set())

    def machine(self, name: str) -> Machine:
        """As any spec's."""
        told: dict[str, Any] = vars(self)
        told["seen"].add(name)
        machine: Machine = told["plain"].machine(name)
        return machine


def machines_read(spec: Spec) -> dict[str, frozenset[str]]:
    """By theorem: the machines that it asks the spec for. What is wrong with others it can't see.

    The theorem about single rows is left to `by_z3`, which asks the same questions.
    """
    return {theorem.name: _read(theorem, spec) for theorem in THEOREMS if theorem.check is not every_row}


def _read(theorem: Theorem, spec: Spec) -> frozenset[str]:
    watched = _Watched(spec)
    theorem.run(watched)
    return frozenset(vars(watched)["seen"])


def law_of(file: str, check: Callable[..., object]) -> str:
    """The property that `spec/properties.toml` says is checked by this function; empty where there is none."""
    return _checks().get(f"{file}::{check.__name__}", "")


@cache
def _checks() -> dict[str, str]:
    data = read_toml(spec_dir() / "properties.toml")
    return {check: each["name"] for each in data["property"] for check in each["checked_by"]}
