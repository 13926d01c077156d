"""Each row of a machine, proved on its own, for all numbers: guards, gaps and invariants.

The question is always the same kind: is there a valuation of the variables, in a state whose invariant holds and with
any params within their bounds, where something is wrong? Numbers have no bounds here, so "no" holds for any count of
readers or parts. What is asked:

* can every state's invariant hold at all, and does it hold at birth;
* can every row fire from each state that it names;
* does at most one row of a cell (state, event) fire;
* does some row answer every report, whatever the variables are (L6);
* does every row lead into the invariant of the state that it leads to.

With these, the invariants are inductive: they are true of every record that only rows have changed. What no row on its
own can show (that a signal is never refused, that couplings keep the laws) is not asked here.

A finding is a sentence with the values of a counterexample. An empty list is the proof.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from kvstate.proof.terms import TIMEOUT_MS, GaveUpError, ProverMissingError, Term, import_z3, to_term
from kvstate.spec.expr import Const, Expr, conjunction
from kvstate.spec.model import Machine, Row, State

SMALL = 4
"""Counterexamples are looked for among numbers up to this first: they read better."""


def check_rows(machine: Machine, *, leaving: Collection[str] | None = None) -> list[str]:
    """Everything that is wrong with the rows of a machine that keeps the static rules; seconds at most.

    With `leaving` only what rows do that leave (or stay in) one of these states, and nothing of the birth of a record.
    """
    prover = _Prover(machine)
    findings: list[str] = []
    asked = [_state(prover, state) for state in machine.states if leaving is None or state.name in leaving]
    for questions in asked if leaving is not None else (_birth(prover), *asked):
        try:
            findings.extend(questions)
        except GaveUpError as problem:
            findings.append(f"{prover.file}: the prover gave up ({problem}); nothing is proved")
    return findings


def lints(machine: Machine) -> list[str]:
    """What decides nothing in any state: parts of a guard that follow from the rest, and writes that change nothing.

    Not faults. Such a part of a guard says over again what the invariant claims, so it stands as an obligation: where
    the claim should ever break, the row refuses.
    """
    prover = _Prover(machine)
    with contextlib.suppress(GaveUpError):
        return [lint for row in machine.rows for lint in _idle(prover, row)]
    return []


def implied(machine: Machine, given: Sequence[Expr], then: Expr) -> bool | None:
    """Does `then` hold wherever all of `given` do, for all variables and for params within their bounds?

    None where z3 is not installed, gave up, or the expressions and the machine don't fit together.
    """
    try:
        prover = _Prover(machine)
    except ProverMissingError:
        return None
    try:
        return not prover.find(given, [prover.negate(prover.term(then))])
    except (GaveUpError, KeyError, prover.z3.Z3Exception):  # KeyError: a name that only another version has
        return None


# --- The questions --------------------------------------------------------------------------------------------------


def _birth(prover: _Prover) -> Iterator[str]:
    """The first values keep the initial state's invariant, for some choice of the values that the maker gives."""
    machine = prover.machine
    state = machine.state(machine.initial)
    given = {var.name for var in machine.vars if var.initial is None}
    born = [prover.env[var.name] == prover.value(var.initial) for var in machine.vars if var.initial is not None]
    for part in state.invariant.conjuncts:
        broken = prover.negate(prover.term(part))
        if not part.names & given and (found := prover.find([], [*born, broken])):
            yield f'{prover.at(state)}: the initial values break its invariant "{part.source}" ({found})'
    open_parts = [part for part in state.invariant.conjuncts if part.names & given]
    if not prover.find(open_parts, born):
        names = ", ".join(sorted(given))
        yield f"{prover.at(state)}: no values given for {names} keep the invariant with the other initial values"


def _state(prover: _Prover, state: State) -> Iterator[str]:
    """All that can be asked of the rows that leave (or stay in) one state."""
    inside = [state.invariant]
    if not prover.find(inside):
        yield f'{prover.at(state)}: its invariant "{state.invariant.source}" can never hold'
        return
    for event in prover.machine.events:
        rows = prover.machine.cell(state.name, event.name)
        for row in rows:
            if row.events[0] == event.name:
                yield from _row(prover, state, row)
        for one, other in combinations(rows, 2):
            if found := prover.find([*inside, one.when, other.when]):
                yield (
                    f'{prover.file}, row {other.id}: {one.id} answers "{event.name}" in the state '
                    f'"{state.name}" too ({found})'
                )
        if event.kind == "report":
            gaps = [prover.negate(prover.term(row.when)) for row in rows]
            if found := prover.find(inside, gaps):
                asked = ", ".join(row.id for row in rows) or "none"
                yield (
                    f'{prover.file}, event {event.name}: no row answers this report in the state "{state.name}" '
                    f"({found}; rows asked: {asked})"
                )


def _row(prover: _Prover, state: State, row: Row) -> Iterator[str]:
    """The row can fire from here, and what it leaves behind keeps the invariant of where it leads."""
    fires = [state.invariant, row.when]
    if not prover.find(fires):
        yield (
            f'{prover.file}, row {row.id}: can never fire in the state "{state.name}": '
            f'"{row.when.source}" contradicts the invariant there'
        )
        return
    target = prover.machine.state(state.name if row.to is None else row.to)
    after = prover.env | {name: prover.term(value) for name, value in row.sets}
    for part in target.invariant.conjuncts:
        if found := prover.find(fires, [prover.negate(prover.term(part, after))]):
            yield (
                f'{prover.file}, row {row.id}: leads from "{state.name}" to "{target.name}" and breaks its '
                f'invariant "{part.source}" ({found})'
            )


def _idle(prover: _Prover, row: Row) -> Iterator[str]:
    """Parts of this row that make no difference in any of the states that it names."""
    invariants = [prover.machine.state(source).invariant for source in row.sources]
    parts = row.when.conjuncts
    for part in parts:
        rest = conjunction(other for other in parts if other is not part)
        if not any(prover.find([invariant, rest], [prover.negate(prover.term(part))]) for invariant in invariants):
            yield (
                f'{prover.file}, row {row.id}: "{part.source}" follows from the invariant and the rest of the guard; '
                "it is an obligation"
            )
    for name, value in row.sets:
        differs = [prover.env[name] != prover.term(value)]
        if not any(prover.find([invariant, row.when], differs) for invariant in invariants):
            yield f'{prover.file}, row {row.id}: setting {name} to "{value.source}" never changes it'


# --- z3 -------------------------------------------------------------------------------------------------------------


class _Prover:
    """One machine's variables and params as z3 constants, and a solver that knows the bounds of the params."""

    def __init__(self, machine: Machine) -> None:
        self.z3 = import_z3()
        self.machine = machine
        self.file = machine.file or f"{machine.name}.toml"
        z3 = self.z3
        self.env: dict[str, Term] = {
            var.name: z3.Bool(var.name) if var.type == "bool" else z3.Int(var.name) for var in machine.vars
        }
        self.env |= {param.name: z3.Int(param.name) for param in machine.params}
        self.small = [z3.And(it >= -SMALL, it <= SMALL) for it in self.env.values() if it.sort() == z3.IntSort()]
        self.solver = z3.Solver()
        self.solver.set("timeout", TIMEOUT_MS)
        for param in machine.params:
            self.solver.add(self.env[param.name] >= param.min, self.env[param.name] <= param.max)

    def find(self, true: Iterable[Expr], also: Iterable[Term] = ()) -> str:
        """A valuation where all this is true, as words (`readers = 1, lost = 0`); nothing where there is none."""
        self.solver.push()
        try:
            self.solver.add(*(self.term(expr) for expr in true), *also)
            answer = self.solver.check()
            if answer == self.z3.unsat:
                return ""
            if answer == self.z3.unknown:
                raise GaveUpError(self.solver.reason_unknown())
            model = self.solver.model()
            self.solver.add(*self.small)
            if self.solver.check() == self.z3.sat:
                model = self.solver.model()
            values = [f"{name} = {model.eval(term, model_completion=True)}" for name, term in self.env.items()]
            return ", ".join(values) or "always"
        finally:
            self.solver.pop()

    def term(self, expr: Expr, env: Mapping[str, Term] | None = None) -> Term:
        return to_term(expr.node, self.env if env is None else env)

    def value(self, value: int | bool) -> Term:
        return to_term(Const(value), {})

    def negate(self, term: Term) -> Term:
        return self.z3.Not(term)

    def at(self, state: State) -> str:
        return f"{self.file}, state {state.name}"
