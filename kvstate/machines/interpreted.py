"""A table that interprets its machine: the same interface, numbers and columns as a generated one, but no code.

The ledger runs on whatever tables it is given. With these it runs on a spec that nobody generated code for: one with a
row deleted or a guard stripped (the spec mutation of the proofs, `kvstate replay --break`), or an embedder's own. They
step with the reference interpreter, so a ledger on them is also a second opinion on the generated tables; they are some
twenty times slower. They have no forms for many records: such a ledger fires one by one.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

from kvstate.machines import step as reference
from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED, Table

if TYPE_CHECKING:
    from kvstate.spec.model import Machine, Row

TYPECODES = {"int": "q", "bool": "B"}
"""The kind of array that a variable of each type is kept in."""


class _Interpreted(Columns):
    """What `interpreted` makes a subclass of for each machine."""

    _machine: Machine
    _cells: tuple[Machine, ...]
    """For each state x event a machine of only the rows that stand there, so that a step does not search them all."""
    _numbers: dict[str, int]
    """Row numbers by id."""

    def __init__(self, **params: int) -> None:
        unknown = params.keys() - set(self.PARAMS)
        if unknown:
            raise TypeError(f"{self.name} has no param {min(unknown)!r}")
        self._values = {param.name: params.get(param.name, param.default) for param in self._machine.params}
        for name, value in self._values.items():
            setattr(self, name, value)
        self.state: array[int] = array("B")
        variables = [array(TYPECODES[var.type]) for var in self._machine.vars]
        for var, column in zip(self._machine.vars, variables, strict=True):
            setattr(self, var.name, column)
        self._arrays = (self.state, *variables)

    def _read(self, slot: int) -> reference.Values:
        values: reference.Values = dict(self._values)
        for var, column in zip(self._machine.vars, self._arrays[1:], strict=True):
            values[var.name] = bool(column[slot]) if var.type == "bool" else column[slot]
        return values

    def _step(self, slot: int, event: int) -> tuple[Row, str, reference.Values] | None:
        state = self.state[slot]
        return reference.step(
            self._cells[state * len(self.EVENTS) + event], self.STATES[state], self._read(slot), self.EVENTS[event]
        )

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        answer = self._step(slot, event)
        return REFUSED if answer is None else self._numbers[answer[0].id]

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return its number, or return REFUSED and change nothing."""
        answer = self._step(slot, event)
        if answer is None:
            return REFUSED
        row, state, values = answer
        for var, column in zip(self._machine.vars, self._arrays[1:], strict=True):
            column[slot] = values[var.name]
        self.state[slot] = self.STATES.index(state)
        return self._numbers[row.id]


def interpreted(machine: Machine) -> type[Table]:
    """A class of tables for `machine`; its params are keyword arguments, as a generated table's are."""
    states = tuple(state.name for state in machine.states)
    body = {
        "__doc__": machine.title,
        "_machine": machine,
        "_cells": tuple(
            replace(machine, rows=machine.cell(state, event.name)) for state in states for event in machine.events
        ),
        "_numbers": {row.id: number for number, row in enumerate(machine.rows)},
        "name": machine.name,
        "STATES": states,
        "EVENTS": tuple(event.name for event in machine.events),
        "KINDS": tuple(event.kind for event in machine.events),
        "VARS": tuple(var.name for var in machine.vars),
        "GIVEN": tuple(var.name for var in machine.vars if var.initial is None),
        "PARAMS": tuple(param.name for param in machine.params),
        "ROWS": tuple(row.id for row in machine.rows),
        "EFFECTS": tuple(row.effects for row in machine.rows),
        "HOME": frozenset(number for number, state in enumerate(machine.states) if state.home),
        "INITIAL": states.index(machine.initial),
        "FIRST": (states.index(machine.initial), *(int(var.initial or 0) for var in machine.vars)),
    }
    table: type[_Interpreted] = type(f"Interpreted{machine.name.title()}Table", (_Interpreted,), body)
    return table
