"""The reference interpreter: what a row means, in as few lines as it can be said.

A machine is a list of rows. In some state, with some values of its variables, something happens: an event. The machine
looks through its rows, in the order of the file, for one that leaves this state, answers this event and whose `when`
holds. If there is one, it *fires*: every right side of its `set` is read from the values as they were, then all of them
are written at once, and the machine is in the row's next state (or in the same one, where the row says `=`). The row's
effects are not done here; they are a list of words that whoever fired the row carries out, in order, afterwards.

If there is no such row the event is refused, and nothing has changed. What a refusal means is not this file's business:
for a request it is an answer, for a report it can't happen (the loader proves that there is no gap), and for a signal
it breaks an invariant.

At most one row can answer, because the loader and the provers see to it that the guards of one (state, event) never
overlap. So "the first in file order" decides nothing in the shipped spec. It is said all the same: a mutated spec may
overlap, and the generated tables must then agree with this file in that, too.

This is not what runs. The tables in `kvstate/machines/tables` are printed from the same data and are much faster; they
are held against this function on every (state, event, guard case) and on random walks. What is not here either: records
(a caller has one state and one dictionary), couplings, effects, time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a machine is only looked at, so nothing of the loader (and its TOML parser) is imported to run one
    from kvstate.spec.model import Machine, Row

Values = dict[str, int | bool]
"""The variables by name, and the params beside them."""


def choose(machine: Machine, state: str, values: Mapping[str, int | bool], event: str) -> Row | None:
    """The row that answers `event`, or None when the event is refused."""
    for row in machine.rows:
        if state in row.sources and event in row.events and row.when.evaluate(values):
            return row
    return None


def step(machine: Machine, state: str, values: Mapping[str, int | bool], event: str) -> tuple[Row, str, Values] | None:
    """Fire `event`: the row that answered, the next state and the next values; or None, when no row answers.

    `values` holds every variable and every param of the machine and is left as it is; the dictionary that comes back
    is a new one with the same names.
    """
    row = choose(machine, state, values, event)
    if row is None:
        return None
    changes = {name: right_side.evaluate(values) for name, right_side in row.sets}
    return row, row.to if row.to is not None else state, {**values, **changes}
