"""Two ways to make one step: by the generated table, and by the reference interpreter of the same data."""

from __future__ import annotations

from typing import Any

from kvstate.machines import step
from kvstate.machines.table import REFUSED
from kvstate.machines.tables import load
from tests.proof.contracts.tables import CELLS, LOAD, Record

Result = tuple[int, int, int, int, int]
"""The number of the row, or REFUSED; the state; `committed`, `fallen` and `over`."""


def load_by_table(state: int, event: int, batches: int, committed: int, fallen: int, over: int) -> Result:
    """Fire the event on one record of the generated table; numbers of no state or event are refused."""
    if not (0 <= state < len(LOAD.states) and 0 <= event < len(LOAD.events)):
        return REFUSED, state, committed, fallen, over
    values = {"batches": batches, "committed": committed, "fallen": fallen, "over": over}
    record: Any = Record(LOAD, state, values)
    row = load.FIRE[state * len(LOAD.events) + event](record, 0)
    return row, record.state[0], record.committed[0], record.fallen[0], record.over[0]


def load_by_data(state: int, event: int, batches: int, committed: int, fallen: int, over: int) -> Result:
    """The same by `kvstate.machines.step`."""
    if not (0 <= state < len(LOAD.states) and 0 <= event < len(LOAD.events)):
        return REFUSED, state, committed, fallen, over
    values = {"batches": batches, "committed": committed, "fallen": fallen, "over": over}
    machine = CELLS["load"][state * len(LOAD.events) + event]
    said = step.step(machine, LOAD.states[state].name, values, LOAD.events[event].name)
    if said is None:
        return REFUSED, state, committed, fallen, over
    row, to, then = said
    number = next(place for place, one in enumerate(LOAD.rows) if one is row)
    there = next(place for place, one in enumerate(LOAD.states) if one.name == to)
    return number, there, int(then["committed"]), int(then["fallen"]), int(then["over"])
