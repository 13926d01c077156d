"""What is done to many slots at once: a loop where they are few, NumPy where they are many and it is there.

Both do the same, and which of them does it can't be seen from outside; without NumPy there are loops only. Slots that
stand one after the other need neither: what a column holds there is a slice of it. Blocks that are given away together
often come so, and stay so for as long as they are handled together; an array that knows it is a `Run`.

No slot may be listed twice in an array where something is written: NumPy would count it once. What may hold a slot
twice is a list or a tuple, which are never handed to it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

columns: ModuleType | None = None
"""The half of this file that is written with NumPy; None until a ledger asks for it, and where there is no NumPy."""

WIDE = 32
"""From so many slots on NumPy is the quicker; near it they cost alike."""
FEWEST = 8
"""From so many slots on it is worth to see whether they are a run."""
LONGEST = 500
"""Beyond so many numbers NumPy lets other threads in while it counts, and then waits for them."""

_FIRST = array("q", range(2**16))
"""The first numbers that there are, to be copied from."""


class Run(array):  # type: ignore[type-arg] # an array of "q", and no generic class of its own
    """Slots that stand one after the other, up or down, at least one; never changed, since `where` goes with them."""

    __slots__ = ("where",)
    where: slice
    """The same as a slice."""

    def _never(self, *_: object) -> NoReturn:
        raise TypeError("a run of slots is never changed")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = extend = insert = pop = remove = reverse = _never
    """What would change it raises `TypeError`."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        return array("q", self).__reduce_ex__(protocol)  # a pickle of it is an array like any other; so is a copy

    def __repr__(self) -> str:
        return repr(array("q", self))  # as such it goes into the digest of a ledger, too


def run(slots: array[int]) -> array[int]:
    """The same as a `Run`, if these are many enough and stand one after the other; else as they are."""
    if len(slots) < FEWEST or abs(slots[-1] - slots[0]) != len(slots) - 1:
        return slots
    up = slots[0] <= slots[-1]
    low = slots[0] if up else slots[-1]
    counted = ascending(low, len(slots))
    return _run(slots) if low >= 0 and slots == (counted if up else counted[::-1]) else slots


def _run(slots: array[int]) -> Run:
    """The same as a `Run`, for whoever knows that it is one."""
    found, first, last = Run("q", slots), slots[0], slots[-1]
    found.where = slice(first, last + 1) if first <= last else slice(first, last - 1 if last else None, -1)
    return found


def cut(slots: array[int], place: slice) -> array[int]:
    """`slots[place]`; some of a run that follow each other are a run, where they are enough."""
    found = slots[place]
    return _run(found) if type(slots) is Run and place.step is None and len(found) >= FEWEST else found


def backwards(slots: array[int]) -> array[int]:
    """The same from the last to the first; never changed, for one alone is as it came."""
    if len(slots) < 2:
        return slots
    turned = slots[::-1]
    return _run(turned) if type(slots) is Run else turned


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
    if type(slots) is Run:
        return column[slots.where]
    if len(slots) == 1:
        slot = slots[0]
        return column[slot : slot + 1]
    if is_wide(slots):
        return columns.gather(column, slots)  # type: ignore[union-attr, no-any-return]
    return array(column.typecode, [column[slot] for slot in slots])


def put(column: array[Any], slots: Sequence[int], value: Any) -> None:
    """Write one value at all of these slots."""
    if type(slots) is Run:
        column[slots.where] = array(column.typecode, (value,)) * len(slots)
    elif is_wide(slots):
        columns.put(column, slots, value)  # type: ignore[union-attr]
    else:
        for slot in slots:
            column[slot] = value


def spread(column: array[Any], slots: Sequence[int], values: Sequence[Any]) -> None:
    """Write the values at these slots, one each. With an array of slots goes one of values, of the column's type."""
    if type(slots) is Run:
        column[slots.where] = values  # type: ignore[call-overload]
    elif len(slots) == len(values) == 1:
        column[slots[0]] = values[0]
    elif is_wide(slots):
        columns.spread(column, slots, values)  # type: ignore[union-attr]
    else:
        for slot, value in zip(slots, values):  # noqa: B905 - of one length, and this loop is hot
            column[slot] = value


def listed(column: Sequence[T], slots: Sequence[int]) -> Sequence[T]:
    """As `gather`, of what is no array."""
    return column[slots.where] if type(slots) is Run else [column[slot] for slot in slots]


def place(column: list[T], slots: Sequence[int], values: Sequence[T]) -> None:
    """As `spread`, in a list."""
    if type(slots) is Run:
        column[slots.where] = values
    elif len(slots) == len(values) == 1:
        column[slots[0]] = values[0]
    else:
        for slot, value in zip(slots, values, strict=True):
            column[slot] = value


def all_are(column: array[Any], slots: Sequence[int], value: Any) -> bool:
    """Does this value stand at each of these slots?"""
    if type(slots) is Run or is_wide(slots):
        return gather(column, slots) == array(column.typecode, [value]) * len(slots)
    for slot in slots:  # noqa: SIM110 - all() over a generator takes five times as long
        if column[slot] != value:
            return False
    return True


def ascending(first: int, count: int) -> array[int]:
    """`count` numbers from `first` up."""
    if first + count <= len(_FIRST):
        return _FIRST[first : first + count]
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


def bounds(values: array[int]) -> tuple[int, int]:
    """The least and the greatest of these; there is one at least."""
    if type(values) is Run:
        return min(values[0], values[-1]), max(values[0], values[-1])
    if is_wide(values):
        return columns.bounds(values)  # type: ignore[union-attr, no-any-return]
    return min(values), max(values)


def distinct_within(slots: array[int], low: int, high: int) -> bool:
    """Are all of these at least `low` and below `high`, and is none listed twice?"""
    if type(slots) is Run:
        return bool(low <= min(slots[0], slots[-1]) and max(slots[0], slots[-1]) < high)
    if is_wide(slots):
        return columns.distinct_within(slots, low, high)  # type: ignore[union-attr, no-any-return]
    return not slots or (low <= min(slots) and max(slots) < high and len(set(slots)) == len(slots))


def distinct(values: Sequence[Any]) -> bool:
    """Does nothing stand there twice? An array has to be of "q"."""
    if len(values) < 2 or type(values) is Run:
        return True
    if is_wide(values):
        return columns.distinct(values)  # type: ignore[union-attr, no-any-return]
    return len(set(values)) == len(values)
