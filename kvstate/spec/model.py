"""A machine as data: what a file of ``spec/`` says once it has been read and checked.

Nothing here runs a machine. The loader builds these values, the generator prints tables from them, the reference
interpreter (`kvstate.machines.step`) steps through them, and the provers and the diagrams read them. They are frozen:
a mutated spec is a new value, made with `dataclasses.replace`.

What the keys of a file mean is told in `spec/README.md`. Tuples keep the order of the file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kvstate.spec.expr import Expr

EventKind = Literal["request", "report", "signal"]
"""Comes from the caller and may be refused; from the world and is always answered; from another machine."""
VarType = Literal["int", "bool"]
"""A counter or a flag."""


@dataclass(frozen=True, slots=True)
class Var:
    """A counter or a flag (`type`) that the machine carries beside its state; `doc` says of what."""

    name: str
    type: VarType
    initial: int | bool | None
    """The value at birth; `None` when whoever makes the record gives it (the number of parts of a job)."""
    doc: str


@dataclass(frozen=True, slots=True)
class Param:
    """A number that is fixed for the life of a runtime (ranks, attempts), `default` where a runtime does not say.

    The provers take it as any from `min` to `max`, both included; `doc` says what it is.
    """

    name: str
    default: int
    min: int
    max: int
    doc: str


@dataclass(frozen=True, slots=True)
class State:
    """Where a record can be; `doc` says in words what that means."""

    name: str
    invariant: Expr
    """What is true of the variables whenever the machine rests here (the machine's own invariant included)."""
    home: bool
    """May a record stay here for ever, when all is at rest?"""
    doc: str


@dataclass(frozen=True, slots=True)
class Event:
    """What can happen to a record; `kind` is who says so, `doc` what has happened."""

    name: str
    kind: EventKind
    doc: str


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a machine: from these states, on these events, when this holds, to that state."""

    id: str
    """Never given again, since records and scenarios outlive a version."""
    sources: tuple[str, ...]
    """The states that it leads from: `from` in the file."""
    events: tuple[str, ...]
    when: Expr
    """`True` where the file says nothing."""
    to: str | None
    """The next state; `None` where the row stays in the state it came from."""
    sets: tuple[tuple[str, Expr], ...]
    """Changes of variables; every right side is read before any left side is written."""
    effects: tuple[str, ...]
    """In the order in which they happen."""
    why: str
    """The reason, in sentences."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A finite state machine: its `vars` and `params`, its `states` and `events`, and its rows.

    `title` says in a few words what a record of it is, `doc` in more; `file` is where it was read.
    """

    name: str
    title: str
    doc: str
    initial: str
    """The state that a record is born in."""
    vars: tuple[Var, ...]
    params: tuple[Param, ...]
    states: tuple[State, ...]
    events: tuple[Event, ...]
    rows: tuple[Row, ...]
    many: bool = False
    """Do its records come in numbers? Then tables have forms that fire an event on many of them."""
    file: str = field(default="", compare=False)

    def state(self, name: str) -> State:
        """The state of that name. Errors: `StopIteration` if there is none; look names from outside up first."""
        return next(state for state in self.states if state.name == name)

    def event(self, name: str) -> Event:
        """The event of that name; errors as `state`."""
        return next(event for event in self.events if event.name == name)

    def row(self, row_id: str) -> Row:
        """The row with that id; errors as `state`."""
        return next(row for row in self.rows if row.id == row_id)

    def cell(self, state: str, event: str) -> tuple[Row, ...]:
        """The rows that answer `event` in `state`, in file order; at most one of their guards holds at a time."""
        return tuple(row for row in self.rows if state in row.sources and event in row.events)

    @property
    def effects(self) -> tuple[str, ...]:
        """Every effect that some row names, in order of first appearance."""
        return tuple(dict.fromkeys(effect for row in self.rows for effect in row.effects))


@dataclass(frozen=True, slots=True)
class Relation:
    """A pure named function of the ledger: from one record of the machine `of` to records of `to`; `doc` says which."""

    name: str
    of: str
    to: str
    doc: str


@dataclass(frozen=True, slots=True)
class Coupling:
    """An effect of one machine is an event of another, fired on every record that the relation yields.

    `id` is one of a row's kind, and `why` the reason in sentences.
    """

    id: str
    machine: str
    effect: str
    target: str
    """The other machine, whose `event` it is."""
    event: str
    over: str
    """The name of the relation."""
    ask: bool
    """Fire only where a row accepts; otherwise a refusal breaks an invariant."""
    why: str


@dataclass(frozen=True, slots=True)
class Act:
    """What the ledger itself does at an effect: writes a link down, mints work, arms a timer, tells the scheduler.

    `id` is one of a row's kind, and `why` the reason in sentences.
    """

    id: str
    machine: str
    effect: str
    act: str
    """The name of what it does; a method of `kvstate.machines.acts.Acts`."""
    order: Literal["before", "after"]
    """Before or after the couplings of the same effect."""
    why: str


@dataclass(frozen=True, slots=True)
class Spec:
    """The whole of `spec/`: its `version`, the machines, and what couples them."""

    version: str
    machines: tuple[Machine, ...]
    relations: tuple[Relation, ...]
    couplings: tuple[Coupling, ...]
    acts: tuple[Act, ...]

    def machine(self, name: str) -> Machine:
        """The machine of that name. Errors: `StopIteration` if there is none; look names from outside up first."""
        return next(machine for machine in self.machines if machine.name == name)
