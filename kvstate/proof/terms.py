"""Expressions and steps of machines as terms of z3: what all proofs share. z3 is imported when a proof is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvstate.spec.expr import COMPARISONS, Binary, Compare, Const, Logic, Name, Node, Unary
from kvstate.spec.model import Machine, Row, State

Term = Any
"""A term of z3; the package ships no types."""

TIMEOUT_MS = 20_000
"""For one question. The real ones take about a millisecond; "unknown" is a finding, never a silent yes or no."""


class ProverMissingError(ImportError):
    """z3 is not installed."""


class GaveUpError(Exception):
    """z3 ran out of time. Neither a yes nor a no may be made of that."""


def import_z3() -> Any:
    """The module z3. Errors: `ProverMissingError` with what to install."""
    try:
        import z3
    except ImportError as problem:
        raise ProverMissingError('the proofs need z3: pip install "kvstate[proof]"') from problem
    return z3


def to_term(node: Node, env: Mapping[str, Term]) -> Term:
    """An expression of a machine over the terms that `env` gives for its names."""
    z3 = import_z3()
    match node:
        case Const():
            return z3.BoolVal(node.value) if isinstance(node.value, bool) else z3.IntVal(node.value)
        case Name():
            return env[node.name]
        case Unary():
            arg = to_term(node.arg, env)
            return z3.Not(arg) if node.op == "not" else -arg
        case Binary():
            left, right = to_term(node.left, env), to_term(node.right, env)
            return left + right if node.op == "+" else left - right if node.op == "-" else left * right
        case Compare():
            links = [COMPARISONS[op](to_term(a, env), to_term(b, env)) for a, op, b in node.pairs]
            return z3.And(*links)
        case Logic():
            args = [to_term(arg, env) for arg in node.args]
            return z3.And(*args) if node.op == "and" else z3.Or(*args)


@dataclass(frozen=True)
class Record:
    """One record of a machine somewhere in a run: the number of its `state`, and in `env` its variables and params."""

    state: Term
    env: Mapping[str, Term]

    def same(self, other: Record) -> Term:
        """Nothing differs."""
        z3 = import_z3()
        return z3.And(self.state == other.state, *(self.env[name] == other.env[name] for name in self.env))


class Symbols:
    """A machine whose records are terms: what a row of it does, for all values at once."""

    def __init__(self, machine: Machine) -> None:
        self.z3 = import_z3()
        self.machine = machine
        self.number = {state.name: index for index, state in enumerate(machine.states)}
        self.params = {param.name: self.z3.Int(f"{machine.name}.{param.name}") for param in machine.params}
        self.bounds = [
            self.z3.And(self.params[param.name] >= param.min, self.params[param.name] <= param.max)
            for param in machine.params
        ]

    def record(self, of: str) -> Record:
        """Any record, without its invariants; `of` makes its names differ from those of other records."""
        z3, name = self.z3, self.machine.name
        env = {
            var.name: (z3.Bool if var.type == "bool" else z3.Int)(f"{name}.{var.name}({of})")
            for var in self.machine.vars
        }
        return Record(z3.Int(f"{name}.state({of})"), env | self.params)

    def born(self, record: Record) -> Term:
        """The record has just been made."""
        values = [
            record.env[var.name] == to_term(Const(var.initial), {})
            for var in self.machine.vars
            if var.initial is not None
        ]
        return self.z3.And(record.state == self.number[self.machine.initial], *values)

    def within(self, record: Record) -> Term:
        """The record rests in one of the states, and the invariant of that state holds. Proved row by row in `rows`."""
        z3 = self.z3
        kept = [
            z3.Implies(record.state == number, to_term(state.invariant.node, record.env))
            for state, number in zip(self.machine.states, self.number.values(), strict=True)
        ]
        return z3.And(record.state >= 0, record.state < len(self.number), *kept, *self.bounds)

    def is_in(self, state: Term, names: Iterable[str | State]) -> Term:
        """The state is one of these."""
        words = [name if isinstance(name, str) else name.name for name in names]
        return self.z3.Or(*(state == self.number[word] for word in words))

    def answers(self, record: Record, row: Row) -> Term:
        """The row leaves this state and its guard holds."""
        return self.z3.And(self.is_in(record.state, row.sources), to_term(row.when.node, record.env))

    def after(self, record: Record, row: Row) -> Record:
        """What the row makes of the record."""
        changes = {name: to_term(value.node, record.env) for name, value in row.sets}
        state = record.state if row.to is None else self.z3.IntVal(self.number[row.to])
        return Record(state, {**record.env, **changes})

    def fire(self, record: Record, event: str, where: Term) -> tuple[Term, Record]:
        """Fire `event` on the record if `where`: is it answered then, and the record afterwards.

        As in the reference interpreter, the first row in file order answers. A refusal leaves the record as it is.
        """
        z3 = self.z3
        rows = [row for row in self.machine.rows if event in row.events]
        state, env = record.state, dict(record.env)
        for row in reversed(rows):
            fires = z3.And(where, self.answers(record, row))
            after = self.after(record, row)
            state = z3.If(fires, after.state, state)
            env = {
                name: value if value is after.env[name] else z3.If(fires, after.env[name], value)
                for name, value in env.items()
            }
        answered = z3.Or(z3.Not(where), *(self.answers(record, row) for row in rows))
        return answered, Record(state, env)


class Solver:
    """Asks z3 whether something follows, and says where not."""

    def __init__(self, always: Iterable[Term] = ()) -> None:
        self.z3 = import_z3()
        self.solver = self.z3.Solver()
        self.solver.set("timeout", TIMEOUT_MS)
        self.solver.add(*always)

    def model(self, *true: Term) -> Any:
        """A model in which all this is true; None where there is none. Errors: `GaveUpError`."""
        self.solver.push()
        try:
            self.solver.add(*true)
            answer = self.solver.check()
            if answer == self.z3.unknown:
                raise GaveUpError(self.solver.reason_unknown())
            return self.solver.model() if answer == self.z3.sat else None
        finally:
            self.solver.pop()

    def follows(self, given: Sequence[Term], then: Term) -> bool:
        """Is `then` true wherever all of `given` is?"""
        return self.model(*given, self.z3.Not(then)) is None


@dataclass(frozen=True)
class Step:
    """One thing that can happen: what is assumed of it, and which obligations go with it."""

    name: str
    """As a finding says it: `P02 on done`."""
    given: tuple[Term, ...]
    """True before the step, besides the lemmas."""
    owed: tuple[tuple[str, Term], ...]
    """Must follow: a sentence's end, and what it says as a term."""


def unproved(step: Step, lemmas: Sequence[Term], always: Sequence[Term] = ()) -> list[str]:
    """What of a step's obligations does not follow; and whether the step can happen at all under what is assumed."""
    solver = Solver(always)
    given = [*step.given, *lemmas]
    if solver.model(*given) is None:
        return [f"{step.name}: can't happen under what is assumed, so nothing that is said of it means anything"]
    return [f"{step.name}: {what}" for what, term in step.owed if not solver.follows(given, term)]


Claims = Mapping[str, Term]
"""What candidates for lemmas say of one world, by their names; where one is missing it says nothing there."""


def houdini(
    before: Sequence[Claims], after: Claims, births: Iterable[Sequence[Term]], steps: Iterable[Sequence[Term]]
) -> set[str]:
    """Those of the candidates that are inductive together: each step keeps all of them where all of them held.

    before: the claims about the world before a step, once for each record that they may be used of; after: the claims
    about the world after it, over constants of its own; births, steps: what is assumed of each birth and each step,
    with equations that say what the constants of the world after it are. A candidate that some step can break is
    struck, and what is left is tried again until nothing is struck any more.
    """
    z3 = import_z3()
    left = dict(after)
    asked = [(False, given) for given in births] + [(True, given) for given in steps]
    struck = True
    while struck:
        struck = False
        solvers = _breaking(left, before)
        for held, given in asked:
            while left and (model := solvers[held].model(*given)) is not None:
                broken = [n for n, term in left.items() if z3.is_false(model.eval(term, model_completion=True))]
                for name in broken:
                    del left[name]
                solvers, struck = _breaking(left, before), True
    return set(left)


def _breaking(after: Claims, before: Sequence[Claims]) -> tuple[Solver, Solver]:
    """Is one of the claims broken? Of a birth, and of a step before which all of them held."""
    z3 = import_z3()
    broken = z3.Or(*(z3.Not(term) for term in after.values()))
    held = [claims[name] for claims in before for name in after]
    return Solver([broken]), Solver([broken, *held])
