"""Two ways to make one step: by the generated table, and by the reference interpreter of the same data.

`crosshair diffbehavior` follows all paths of both. It does not come to an end on the tables of offload and transfer,
see `tests.proof.test_crosshair.TOO_LONG`; of those, as of all, the contracts of `tables` say the same.
"""

from __future__ import annotations

from typing import Any

from kvstate.machines import step
from kvstate.machines.table import REFUSED
from kvstate.machines.tables import block, foreign, key, load, part, service
from kvstate.spec.model import Machine
from tests.proof.contracts.tables import BLOCK, CELLS, FOREIGN, KEY, LOAD, PART, SERVICE, Record

Result = tuple[int, ...]
"""The number of the row, or REFUSED; the state; and the variables, in the order of the file."""


def by_table(module: Any, machine: Machine, state: int, event: int, values: dict[str, int]) -> Result:
    """Fire the event on one record of the generated table; numbers of no state or event are refused."""
    if not (0 <= state < len(machine.states) and 0 <= event < len(machine.events)):
        return REFUSED, state
    record: Any = Record(machine, state, values)
    row = module.FIRE[state * len(machine.events) + event](record, 0)
    return row, record.state[0], *(getattr(record, var.name)[0] for var in machine.vars)


def by_data(machine: Machine, state: int, event: int, values: dict[str, int]) -> Result:
    """The same by `kvstate.machines.step`."""
    if not (0 <= state < len(machine.states) and 0 <= event < len(machine.events)):
        return REFUSED, state
    cell = CELLS[machine.name][state * len(machine.events) + event]
    said = step.step(cell, machine.states[state].name, values, machine.events[event].name)
    if said is None:
        return REFUSED, state, *(values[var.name] for var in machine.vars)
    row, to, then = said
    number = next(place for place, one in enumerate(machine.rows) if one is row)
    there = next(place for place, one in enumerate(machine.states) if one.name == to)
    return number, there, *(int(then[var.name]) for var in machine.vars)


def _load(batches: int, committed: int, fallen: int, over: int) -> dict[str, int]:
    return {"batches": batches, "committed": committed, "fallen": fallen, "over": over}


def load_by_table(state: int, event: int, batches: int, committed: int, fallen: int, over: int) -> Result:
    return by_table(load, LOAD, state, event, _load(batches, committed, fallen, over))


def load_by_data(state: int, event: int, batches: int, committed: int, fallen: int, over: int) -> Result:
    return by_data(LOAD, state, event, _load(batches, committed, fallen, over))


def key_by_table(state: int, event: int) -> Result:
    return by_table(key, KEY, state, event, {})


def key_by_data(state: int, event: int) -> Result:
    return by_data(KEY, state, event, {})


def service_by_table(state: int, event: int) -> Result:
    return by_table(service, SERVICE, state, event, {})


def service_by_data(state: int, event: int) -> Result:
    return by_data(SERVICE, state, event, {})


def part_by_table(state: int, event: int, tainted: bool) -> Result:
    return by_table(part, PART, state, event, {"tainted": tainted})


def part_by_data(state: int, event: int, tainted: bool) -> Result:
    return by_data(PART, state, event, {"tainted": tainted})


def _foreign(readers: int, writers: int, lost: int, stained: bool, generation: int, ranks: int) -> dict[str, int]:
    values = {"readers": readers, "writers": writers, "lost": lost, "stained": stained}
    return values | {"generation": generation, "ranks": ranks}


def foreign_by_table(
    state: int, event: int, readers: int, writers: int, lost: int, stained: bool, generation: int, ranks: int
) -> Result:
    return by_table(foreign, FOREIGN, state, event, _foreign(readers, writers, lost, stained, generation, ranks))


def foreign_by_data(
    state: int, event: int, readers: int, writers: int, lost: int, stained: bool, generation: int, ranks: int
) -> Result:
    return by_data(FOREIGN, state, event, _foreign(readers, writers, lost, stained, generation, ranks))


def _block(
    owners: int, readers: int, writers: int, lost: int, published: bool, generation: int, ranks: int
) -> dict[str, int]:
    values = {"owners": owners, "readers": readers, "writers": writers, "lost": lost, "published": published}
    return values | {"generation": generation, "ranks": ranks}


def block_by_table(
    state: int, event: int, owners: int, readers: int, writers: int, lost: int, published: bool, generation: int,
    ranks: int,
) -> Result:  # fmt: skip
    values = _block(owners, readers, writers, lost, published, generation, ranks)
    return by_table(block, BLOCK, state, event, values)


def block_by_data(
    state: int, event: int, owners: int, readers: int, writers: int, lost: int, published: bool, generation: int,
    ranks: int,
) -> Result:  # fmt: skip
    values = _block(owners, readers, writers, lost, published, generation, ranks)
    return by_data(BLOCK, state, event, values)
