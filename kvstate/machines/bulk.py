"""What is done to many slots at once: a loop where they are few, NumPy where they are many and it is there.

Both do the same, and which of them does it can't be seen from outside; without NumPy there are loops only.

No slot may be listed twice in an array where something is written: NumPy would count it once. What may hold a slot
twice is a list or a tuple, which are never handed to it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any

columns: ModuleType | None = None
"""The half of this file that is written with NumPy; None until a ledger asks for it, and where there is no NumPy."""

WIDE = 32
"""From so many slots on NumPy is the quicker; near it they cost alike."""
LONGEST = 500
"""Beyond so many numbers NumPy lets other threads in while it counts, and then waits for them."""


def look_for_numpy() -> None:
    """Use NumPy from here on if it is installed. A ledger asks at its birth; who only talks to one never imports it."""
    global columns  # noqa: PLW0603 - what is installed is a fact about the process
    with suppress(ImportError):
        columns = import_module("kvstate.machines.columns")


def is_wide(slots: Sequence[int]) -> bool:
    """Is this an array, whose memory NumPy can look at, of slots that are many enough; and is there NumPy?"""
    return len(slots) >= WIDE and columns is not None and isinstance(slots, array)


def gather(column: array[Any], slots: Sequence[int]) -> array[Any]:
    """What stands in the column at these slots, in their order."""
    if len(slots) == 1:
        slot = slots[0]
        return column[slot : slot + 1]
    if is_wide(slots):
        return columns.gather(column, slots)  # type: ignore[union-attr, no-any-return]
    return array(column.typecode, [column[slot] for slot in slots])


def put(column: array[Any], slots: Sequence[int], value: Any) -> None:
    """Write one value at all of these slots."""
    if is_wide(slots):
        columns.put(column, slots, value)  # type: ignore[union-attr]
    else:
        for slot in slots:
            column[slot] = value


def spread(column: array[Any], slots: Sequence[int], values: Sequence[Any]) -> None:
    """Write the values at these slots, one each. With an array of slots goes one of values, of the column's type."""
    if is_wide(slots):
        columns.spread(column, slots, values)  # type: ignore[union-attr]
    else:
        for slot, value in zip(slots, values, strict=True):
            column[slot] = value


def all_are(column: array[Any], slots: Sequence[int], value: Any) -> bool:
    """Does this value stand at each of these slots?"""
    if is_wide(slots):
        return gather(column, slots) == array(column.typecode, [value]) * len(slots)
    for slot in slots:  # noqa: SIM110 - all() over a generator takes five times as long
        if column[slot] != value:
            return False
    return True


def ascending(first: int, count: int) -> array[int]:
    """`count` numbers from `first` up."""
    if WIDE <= count <= LONGEST and columns is not None:
        return columns.ascending(first, count)  # type: ignore[no-any-return]
    return array("q", range(first, first + count))


def agreeing(one: array[int], other: array[int]) -> int:
    """At how many places the same stands in both, which are of one length."""
    if is_wide(one):
        return columns.agreeing(one, other)  # type: ignore[union-attr, no-any-return]
    return sum(a == b for a, b in zip(one, other, strict=True))


def where_agreeing(values: array[int], one: array[int], other: array[int]) -> array[int]:
    """Of the values those at whose place the same stands in both; all three are of one length."""
    if is_wide(one):
        return columns.where_agreeing(values, one, other)  # type: ignore[union-attr, no-any-return]
    return array("q", [value for value, a, b in zip(values, one, other, strict=True) if a == b])


def distinct_within(slots: array[int], low: int, high: int) -> bool:
    """Are all of these at least `low` and below `high`, and is none listed twice?"""
    if is_wide(slots):
        return columns.distinct_within(slots, low, high)  # type: ignore[union-attr, no-any-return]
    return not slots or (low <= min(slots) and max(slots) < high and len(set(slots)) == len(slots))


def distinct(values: Sequence[Any]) -> bool:
    """Does nothing stand there twice? An array has to be of "q"."""
    if len(values) < 2:
        return True
    if is_wide(values):
        return columns.distinct(values)  # type: ignore[union-attr, no-any-return]
    return len(set(values)) == len(values)
