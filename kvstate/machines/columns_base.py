"""The records of one machine as columns: what all tables share, whichever way they come to their rows.

A record is a slot, an index into the columns: `state`, and one column for each variable. A million blocks are then a
few arrays of machine numbers instead of a million objects, and many of them can be looked at together, as NumPy columns
over the same memory. (While such a view exists, the arrays can't grow: Python raises `BufferError`.)

Choosing and firing rows is not here. It is what a generated table is for, and what `kvstate.machines.interpreted` does
from the data.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Self

from kvstate.machines.table import Many

MIN_INT, MAX_INT = -(2**63), 2**63 - 1
"""What an `array("q")` holds."""


class Columns:
    """Slots over arrays; a subclass says which machine, and adds `choose` and `fire`.

    A subclass makes one array attribute for the state and for each variable, one attribute for each param, and keeps
    all arrays in `_arrays`, the state first and the variables in the order of VARS. What it says of its machine is told
    in `Table`: STATES, EVENTS, KINDS, VARS, GIVEN, PARAMS, ROWS, EFFECTS, HOME, INITIAL and MANY.
    """

    name: ClassVar[str]
    STATES: ClassVar[tuple[str, ...]]
    EVENTS: ClassVar[tuple[str, ...]]
    KINDS: ClassVar[tuple[str, ...]]
    VARS: ClassVar[tuple[str, ...]]
    GIVEN: ClassVar[tuple[str, ...]]
    PARAMS: ClassVar[tuple[str, ...]]
    ROWS: ClassVar[tuple[str, ...]]
    EFFECTS: ClassVar[tuple[tuple[str, ...], ...]]
    HOME: ClassVar[frozenset[int]]
    INITIAL: ClassVar[int]
    MANY: ClassVar[Many | None] = None
    FIRST: ClassVar[tuple[int, ...]]
    """What a newborn record has in each column: the initial state, then the variables; 0 stands for those in GIVEN."""

    __slots__ = ("_arrays",)
    _arrays: tuple[array[int], ...]

    @property
    def columns(self) -> dict[str, object]:
        """`state` and each variable by name, as the arrays that the table works on (not copies)."""
        return dict(zip(("state", *self.VARS), self._arrays, strict=True))

    def __len__(self) -> int:
        return len(self._arrays[0])

    def __repr__(self) -> str:
        params = ", ".join(f"{param}={getattr(self, param)}" for param in self.PARAMS)
        return f"<{type(self).__name__}({params}) of {len(self)} records>"

    def add(self, **given: int) -> int:
        """Make a record in the initial state and return its slot.

        Errors: `TypeError` for values that are missing or not asked for, `ValueError` for one that is out of range;
        nothing is added then.
        """
        for column, value in zip(self._arrays, self._birth(given), strict=True):
            column.append(value)
        return len(self._arrays[0]) - 1

    def extend(self, count: int) -> None:
        """Make `count` records in the initial state at once.

        Errors: `ValueError` if `count` is below 0, `TypeError` for a machine that wants given values.
        """
        if count < 0:
            raise ValueError(f"a table of {self.name} can't be extended by {count} records")
        for column, value in zip(self._arrays, self._birth({}), strict=True):
            column.extend(array(column.typecode, [value]) * count)

    def renew(self, slot: int, **given: int) -> None:
        """Put the record at `slot` back to its birth; for slots that are used again. Errors as of `add`, where the
        table has not a quicker way, which takes what is given as it comes.
        """
        for column, value in zip(self._arrays, self._birth(given), strict=True):
            column[slot] = value

    def copy(self) -> Self:
        """The same records in arrays of their own."""
        twin = type(self)(**{param: getattr(self, param) for param in self.PARAMS})
        for name in ("state", *self.VARS):
            getattr(twin, name).extend(getattr(self, name))
        return twin

    def each(self, slots: Iterable[int], event: int) -> list[int]:
        """Fire `event` on one slot after the other up to the first that refuses; returns the arcs.

        Only for tables with MANY: those of machines whose records come in numbers.
        """
        raise NotImplementedError(f"the records of {self.name} do not come in numbers")

    def _birth(self, given: Mapping[str, object]) -> Sequence[int]:
        """What a newborn record has in each column; all is checked before the first column is touched."""
        if not given and not self.GIVEN:
            return self.FIRST
        if given.keys() != set(self.GIVEN):
            wants = ", ".join(self.GIVEN) or "no values"
            raise TypeError(f"a record of {self.name} is born with {wants}, not with {', '.join(given) or 'none'}")
        values = list(self.FIRST)
        for var in self.GIVEN:
            place = self.VARS.index(var) + 1
            low, high = (0, 1) if self._arrays[place].typecode == "B" else (MIN_INT, MAX_INT)
            value = given[var]
            if not isinstance(value, int) or not low <= value <= high:
                raise ValueError(f"{self.name}.{var} can't be {value!r}: it is a whole number from {low} to {high}")
            values[place] = value
        return values
