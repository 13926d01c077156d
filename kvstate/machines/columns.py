"""The rows over whole columns, with NumPy: the same data as the tables, for many records at a time.

The only file of the ledger with NumPy, and one that can be left out: without it, and for few records, loops over the
same arrays do the same (`bulk` and `Port.each` pick). Nothing is copied to get here: a column of a table is an `array`,
and NumPy looks at its memory. While such a view exists the array can't grow, so a view of a table that grows is made
for one call; of one that does not, it is kept.

As a rule all of the records are in one state, and one row takes them all. So that is tried first, then a few runs of
equal states, and only then is each record given its own row.

No slot may be listed twice: `owners[i] = owners[i] + 1` over an array counts a slot once, however often it stands
there. Whoever calls sees to that.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from kvstate.machines.bulk import LONGEST, Run
from kvstate.machines.table import REFUSED, Many, Table

DTYPES: dict[str, Any] = {
    "B": np.dtype(np.uint8),
    "q": np.dtype(np.int64),
    "I": np.dtype(np.uint32),
    "d": np.dtype(np.float64),
}
"""NumPy's name of what an array holds, by its typecode."""
_COUNTED = np.arange(LONGEST, dtype=np.int64)
FEW = 4
"""More runs of equal states than this are not taken one by one."""
MIXED = -2
"""Stands for the state of a run whose records are in several."""


class View:
    """A table whose columns are NumPy arrays over the same memory, made as they are asked for.

    Errors: `TypeError` for a table without forms for many records.
    """

    def __init__(self, table: Table) -> None:
        if table.MANY is None:
            raise TypeError(f"the table of {table.name} has no forms for many records")
        self.table = table
        self.many: Many = table.MANY

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.table, name)
        if isinstance(value, array):
            value = np.frombuffer(value, DTYPES[value.typecode])
        setattr(self, name, value)
        return value


def index_of(slots: array[int] | range) -> Any:
    """The slots as NumPy wants them: a slice for a run, which is quickest, else an array over the same memory."""
    return slots.where if type(slots) is Run else _places(slots)


def _places(slots: array[int] | range) -> Any:
    """The same, so that some of them can be taken."""
    if isinstance(slots, range):
        return slice(slots.start, slots.stop)
    return np.frombuffer(slots, DTYPES["q"])


def fire(view: View, slots: array[int] | range, event: int) -> list[tuple[int, int]] | None:
    """Fire `event` on all of these slots (at least one, none twice).

    Returns the runs of equal arcs, in the order of the slots: the arc, and how many slots went it. None, and nothing
    changed, if any refuses.
    """
    many, index = view.many, index_of(slots)
    raw = view.state[index].tobytes()
    state = raw[0]
    if raw.count(state) == len(raw):
        only = _row_of_all(view, index, state, event)
        if only is not None:
            if only == REFUSED:
                return None
            many.changes[only](view, index)
            return [(many.numbers[only, state], len(raw))]
    index = _places(slots)
    runs = list(_runs(raw, index))
    rows = [_row_of_all(view, where, state, event) for state, where in runs]
    if REFUSED in rows:
        return None
    if None not in rows:
        done = []
        for row, (state, where) in zip(rows, runs, strict=True):
            assert row is not None
            many.changes[row](view, where)
            done.append((many.numbers[row, state], _length(where)))
        return done
    arcs = choose(view, slots, event)
    if REFUSED in arcs:
        return None
    every = index if not isinstance(index, slice) else np.arange(index.start, index.stop)
    for arc in set(arcs.tolist()):
        many.changes[many.arcs[arc][0]](view, every[arcs == arc])
    ends = [*(np.flatnonzero(arcs[1:] != arcs[:-1]) + 1).tolist(), len(arcs)]
    return [(int(arcs[end - 1]), end - start) for start, end in zip([0, *ends], ends, strict=False)]


def _runs(states: bytes, index: Any) -> Iterator[tuple[int, Any]]:
    """Runs of slots that are in one state: the state, and where. If there are more than FEW, a last one is MIXED."""
    start, end, offset = 0, len(states), index.start if isinstance(index, slice) else 0
    for _ in range(FEW):
        rest = states[start:].lstrip(states[start : start + 1])
        stop = end - len(rest)
        yield states[start], slice(offset + start, offset + stop) if isinstance(index, slice) else index[start:stop]
        start = stop
        if start == end:
            return
    yield MIXED, index


def _length(index: Any) -> int:
    return index.stop - index.start if isinstance(index, slice) else len(index)


def _row_of_all(view: View, index: Any, state: int, event: int) -> int | None:
    """The row that takes all of these records, which are all in one state; None if more than one does."""
    if state == MIXED:
        return None
    for row in view.many.cases.get((state, event), ()):
        guard = view.many.guards[row]
        if guard is None:
            return row
        holds = guard(view, index)
        count = np.count_nonzero(holds)
        if count:
            return row if count == np.size(holds) else None
    return REFUSED


def choose(view: View, slots: array[int] | range, event: int) -> Any:
    """For each slot the arc that it would go on `event`, or REFUSED, as an array. Changes nothing."""
    many, index = view.many, _places(slots)
    states = view.state[index]
    arcs = np.full(len(states), REFUSED, np.int64)
    for state in set(states.tobytes()):
        there = np.flatnonzero(states == state)
        every = index[there] if not isinstance(index, slice) else there + index.start
        for row in many.cases.get((state, event), ()):
            guard = many.guards[row]
            if guard is None:
                arcs[there] = many.numbers[row, state]
                break
            holds = np.broadcast_to(guard(view, every), every.shape)
            arcs[there[holds]] = many.numbers[row, state]
            there, every = there[~holds], every[~holds]
    return arcs


def taken(view: View, slots: array[int], event: int) -> bool:
    """Would all of these slots (at least one) answer `event`? Changes nothing."""
    index = index_of(slots)
    raw = view.state[index].tobytes()
    if raw.count(raw[0]) == len(raw):
        row = _row_of_all(view, index, raw[0], event)
        if row is not None:
            return row != REFUSED
    rows = [_row_of_all(view, where, state, event) for state, where in _runs(raw, _places(slots))]
    if REFUSED in rows or None not in rows:
        return REFUSED not in rows
    return REFUSED not in choose(view, slots, event)


def gather(column: array[Any], slots: array[int]) -> array[Any]:
    """What stands in the column at these slots."""
    found = np.frombuffer(column, DTYPES[column.typecode])[np.frombuffer(slots, DTYPES["q"])]
    return array(column.typecode, found.tobytes())


def put(column: array[Any], slots: array[int], value: Any) -> None:
    """Write one value at all of these slots."""
    np.frombuffer(column, DTYPES[column.typecode])[np.frombuffer(slots, DTYPES["q"])] = value


def spread(column: array[Any], slots: array[int], values: array[Any]) -> None:
    """Write the values at these slots, one each."""
    dtype = DTYPES[column.typecode]
    np.frombuffer(column, dtype)[np.frombuffer(slots, DTYPES["q"])] = np.frombuffer(values, dtype)


def agreeing(one: array[int], other: array[int]) -> int:
    """At how many places the same stands in both."""
    return int(np.count_nonzero(np.frombuffer(one, DTYPES["q"]) == np.frombuffer(other, DTYPES["q"])))


def where_agreeing(values: array[int], one: array[int], other: array[int]) -> array[int]:
    """Of the values those at whose place the same stands in both."""
    there = np.frombuffer(one, DTYPES["q"]) == np.frombuffer(other, DTYPES["q"])
    return array("q", np.frombuffer(values, DTYPES["q"])[there].tobytes())


def distinct(slots: array[int]) -> bool:
    """Is no slot listed twice?"""
    return _differ(np.frombuffer(slots, DTYPES["q"]))


def recall(table: array[int], marks: array[int]) -> tuple[int, int, bool] | None:
    """Which of these marks a table knows, where each stands, but for its last bit, at the place that it leads to.

    Returns how many come before the first that it knows, how many it knows, and with which last bit; these are struck
    from the table. None, and nothing changed, if they have to go one by one: two lead to one place, or the bits differ.
    """
    known, sought = np.frombuffer(table, DTYPES["I"]), np.frombuffer(marks, DTYPES["I"])
    there = sought % len(table)
    left = known[there]
    (found,) = (((left ^ sought) < 2) & (left != 0)).nonzero()
    if not len(found):
        return len(marks), 0, False
    there, bits = there[found], np.count_nonzero(left[found] & 1)
    if bits not in (0, len(found)) or not _differ(there):
        return None
    known[there] = 0
    return int(found[0]), len(found), bool(bits)


def note(table: array[int], marks: array[int], bit: int) -> None:
    """Each mark goes to the place that it leads to, with this last bit; of two that lead to one the later stays."""
    known, sought = np.frombuffer(table, DTYPES["I"]), np.frombuffer(marks, DTYPES["I"])
    there, noted = sought % len(table), sought | 1 if bit else sought & 0xFFFF_FFFE
    if _differ(there):
        known[there] = noted
    else:
        for place, mark in zip(there.tolist(), noted.tolist(), strict=True):
            table[place] = mark


def _differ(values: Any) -> bool:
    ordered = np.sort(values)
    return not np.count_nonzero(ordered[1:] == ordered[:-1])


def ascending(first: int, count: int) -> array[int]:
    """`count` numbers from `first` up, `bulk.LONGEST` at most."""
    return array("q", (_COUNTED[:count] + first).tobytes())


def bounds(values: array[int]) -> tuple[int, int]:
    """The least and the greatest of these; there is one at least."""
    there = np.frombuffer(values, DTYPES["q"])
    return int(there.min()), int(there.max())


def distinct_within(slots: array[int], low: int, high: int) -> bool:
    """Are all of these at least `low` and below `high`, and is none listed twice?"""
    ordered = np.sort(np.frombuffer(slots, DTYPES["q"]))
    return bool(low <= ordered[0] and ordered[-1] < high) and not np.count_nonzero(ordered[1:] == ordered[:-1])
