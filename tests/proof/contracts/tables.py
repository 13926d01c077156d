"""Contracts of the generated tables, one record wide: any state, any event, any whole numbers in the variables.

A table works on columns. Here each column is a list of one value, which may be symbolic, so that every path of the very
functions that run is followed. The contract is always that a table does what the reference interpreter says of the
data: the same row is chosen and fired, or none, and the record is the same afterwards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvstate.machines import step
from kvstate.machines.table import REFUSED
from kvstate.machines.tables import block, foreign, key, load, offload, part, service, transfer
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Machine

SPEC = load_spec(check=False)
"""Read once, when the contracts are imported; CrossHair does not look into that."""
BLOCK, PART, KEY, LOAD = (SPEC.machine(name) for name in ("block", "part", "key", "load"))
OFFLOAD, TRANSFER, SERVICE, FOREIGN = (SPEC.machine(name) for name in ("offload", "transfer", "service", "foreign"))


CELLS = {
    machine.name: [
        replace(machine, rows=machine.cell(state.name, event.name))
        for state in machine.states
        for event in machine.events
    ]
    for machine in SPEC.machines
}
"""Each machine once for each state and event, with the rows of that cell alone: the others would only take time."""


class Record:
    """One record where a table has columns: an attribute for each variable, a list of one value."""

    def __init__(self, machine: Machine, state: int, values: dict[str, int]) -> None:
        self.state = [state]
        for var in machine.vars:
            setattr(self, var.name, [values[var.name]])
        for param in machine.params:
            setattr(self, param.name, values[param.name])


def agrees(module: Any, machine: Machine, state: int, event: int, values: dict[str, int]) -> bool:
    """Does the table fire the row that the reference names, and leave what the reference leaves?"""
    record: Any = Record(machine, state, values)
    cell = state * len(machine.events) + event
    chosen = module.CELLS[cell]
    row = chosen if isinstance(chosen, int) else chosen(record, 0)
    fired = module.FIRE[cell](record, 0)
    said = step.step(CELLS[machine.name][cell], machine.states[state].name, values, machine.events[event].name)
    after = {var.name: getattr(record, var.name)[0] for var in machine.vars}
    if said is None:
        same = all(after[name] == values[name] for name in after)
        return row == fired == REFUSED and record.state[0] == state and same
    by, where, then = said
    there = machine.states[record.state[0]].name == where
    return row == fired and machine.rows[row] is by and there and all(after[name] == then[name] for name in after)


def part_table(state: int, event: int, tainted: bool) -> bool:
    """
    pre: 0 <= state < len(PART.states) and 0 <= event < len(PART.events)
    post: _
    """
    return agrees(part, PART, state, event, {"tainted": tainted})


def service_table(state: int, event: int) -> bool:
    """
    pre: 0 <= state < len(SERVICE.states) and 0 <= event < len(SERVICE.events)
    post: _
    """
    return agrees(service, SERVICE, state, event, {})


def key_table(state: int, event: int) -> bool:
    """
    pre: 0 <= state < len(KEY.states) and 0 <= event < len(KEY.events)
    post: _
    """
    return agrees(key, KEY, state, event, {})


def load_table(state: int, event: int, batches: int, committed: int, fallen: int, over: int) -> bool:
    """
    pre: 0 <= state < len(LOAD.states) and 0 <= event < len(LOAD.events)
    post: _
    """
    values = {"batches": batches, "committed": committed, "fallen": fallen, "over": over}
    return agrees(load, LOAD, state, event, values)


def block_table(
    state: int, event: int, owners: int, readers: int, writers: int, lost: int, published: bool, generation: int,
    ranks: int,
) -> bool:  # fmt: skip
    """
    pre: 0 <= state < len(BLOCK.states) and 0 <= event < len(BLOCK.events)
    post: _
    """
    values = {"owners": owners, "readers": readers, "writers": writers, "lost": lost, "published": published}
    return agrees(block, BLOCK, state, event, values | {"generation": generation, "ranks": ranks})


def offload_table(
    state: int, event: int, parts: int, left: int, attempt: int, attempts: int, again: bool, failed: bool,
    copied: bool, expired: bool,
) -> bool:  # fmt: skip
    """
    pre: 0 <= state < len(OFFLOAD.states) and 0 <= event < len(OFFLOAD.events)
    post: _
    """
    values = {"parts": parts, "left": left, "attempt": attempt, "attempts": attempts}
    flags = {"again": again, "failed": failed, "copied": copied, "expired": expired}
    return agrees(offload, OFFLOAD, state, event, values | flags)


def transfer_table(
    state: int, event: int, parts: int, left: int, attempt: int, attempts: int, again: bool, told: bool, unproved: bool
) -> bool:
    """
    pre: 0 <= state < len(TRANSFER.states) and 0 <= event < len(TRANSFER.events)
    post: _
    """
    values = {"parts": parts, "left": left, "attempt": attempt, "attempts": attempts}
    return agrees(transfer, TRANSFER, state, event, values | {"again": again, "told": told, "unproved": unproved})


def foreign_table(
    state: int, event: int, readers: int, writers: int, lost: int, stained: bool, generation: int, ranks: int
) -> bool:
    """
    pre: 0 <= state < len(FOREIGN.states) and 0 <= event < len(FOREIGN.events)
    post: _
    """
    values = {"readers": readers, "writers": writers, "lost": lost, "stained": stained}
    return agrees(foreign, FOREIGN, state, event, values | {"generation": generation, "ranks": ranks})
