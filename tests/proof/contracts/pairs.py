"""Two ways to make one step: by the generated table, and by the reference interpreter of the same data.

`crosshair diffbehavior` follows all paths of both, of all eight machines. A flag is any whole number here, as it is in
a column, where 0 is no: with a flag that can only be true or false CrossHair would follow each of the two through every
cell, whether a guard looks at it or not, and on offload and transfer it would not come to an end.
"""

from __future__ import annotations

from typing import Any

from kvstate.machines import step
from kvstate.machines.table import REFUSED
from kvstate.machines.tables import block, foreign, key, load, offload, part, service, transfer
from kvstate.spec.model import Machine
from tests.proof.contracts.tables import BLOCK, CELLS, FOREIGN, KEY, LOAD, OFFLOAD, PART, SERVICE, TRANSFER, Record

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


def part_by_table(state: int, event: int, tainted: int) -> Result:
    return by_table(part, PART, state, event, {"tainted": tainted})


def part_by_data(state: int, event: int, tainted: int) -> Result:
    return by_data(PART, state, event, {"tainted": tainted})


def _foreign(readers: int, writers: int, lost: int, stained: int, generation: int, ranks: int) -> dict[str, int]:
    values = {"readers": readers, "writers": writers, "lost": lost, "stained": stained}
    return values | {"generation": generation, "ranks": ranks}


def foreign_by_table(
    state: int, event: int, readers: int, writers: int, lost: int, stained: int, generation: int, ranks: int
) -> Result:
    return by_table(foreign, FOREIGN, state, event, _foreign(readers, writers, lost, stained, generation, ranks))


def foreign_by_data(
    state: int, event: int, readers: int, writers: int, lost: int, stained: int, generation: int, ranks: int
) -> Result:
    return by_data(FOREIGN, state, event, _foreign(readers, writers, lost, stained, generation, ranks))


def _block(
    owners: int, readers: int, writers: int, lost: int, published: int, generation: int, ranks: int
) -> dict[str, int]:
    values = {"owners": owners, "readers": readers, "writers": writers, "lost": lost, "published": published}
    return values | {"generation": generation, "ranks": ranks}


def block_by_table(
    state: int, event: int, owners: int, readers: int, writers: int, lost: int, published: int, generation: int,
    ranks: int,
) -> Result:  # fmt: skip
    values = _block(owners, readers, writers, lost, published, generation, ranks)
    return by_table(block, BLOCK, state, event, values)


def block_by_data(
    state: int, event: int, owners: int, readers: int, writers: int, lost: int, published: int, generation: int,
    ranks: int,
) -> Result:  # fmt: skip
    values = _block(owners, readers, writers, lost, published, generation, ranks)
    return by_data(BLOCK, state, event, values)


def _offload(
    parts: int, left: int, attempt: int, attempts: int, again: int, failed: int, copied: int, expired: int
) -> dict[str, int]:
    values = {"parts": parts, "left": left, "attempt": attempt, "attempts": attempts}
    return values | {"again": again, "failed": failed, "copied": copied, "expired": expired}


def offload_by_table(
    state: int, event: int, parts: int, left: int, attempt: int, attempts: int, again: int, failed: int, copied: int,
    expired: int,
) -> Result:  # fmt: skip
    values = _offload(parts, left, attempt, attempts, again, failed, copied, expired)
    return by_table(offload, OFFLOAD, state, event, values)


def offload_by_data(
    state: int, event: int, parts: int, left: int, attempt: int, attempts: int, again: int, failed: int, copied: int,
    expired: int,
) -> Result:  # fmt: skip
    values = _offload(parts, left, attempt, attempts, again, failed, copied, expired)
    return by_data(OFFLOAD, state, event, values)


def _transfer(
    parts: int, left: int, attempt: int, attempts: int, again: int, told: int, unproved: int
) -> dict[str, int]:
    values = {"parts": parts, "left": left, "attempt": attempt, "attempts": attempts}
    return values | {"again": again, "told": told, "unproved": unproved}


def transfer_by_table(
    state: int, event: int, parts: int, left: int, attempt: int, attempts: int, again: int, told: int, unproved: int
) -> Result:
    values = _transfer(parts, left, attempt, attempts, again, told, unproved)
    return by_table(transfer, TRANSFER, state, event, values)


def transfer_by_data(
    state: int, event: int, parts: int, left: int, attempt: int, attempts: int, again: int, told: int, unproved: int
) -> Result:
    values = _transfer(parts, left, attempt, attempts, again, told, unproved)
    return by_data(TRANSFER, state, event, values)
