"""What every table can do, whether it was generated from the data or interprets it.

A table holds *all* records of one machine as columns (one array for the state, one for each variable); a record is a
slot, an index into them. `fire` is the only way to change a record, and `each` the same for many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol

REFUSED = -1
"""What `fire` and `choose` answer when no row does; nothing has changed then."""


class Many(NamedTuple):
    """The rows of a table once more, in the forms that take many records at a time."""

    arcs: tuple[tuple[int, int, int], ...]
    """What a row does from one of its states: row, state before, state after."""
    numbers: Mapping[tuple[int, int], int]
    """The number of an arc, by row and state before."""
    cases: Mapping[tuple[int, int], tuple[int, ...]]
    """For each state and event that any row answers: these rows."""
    guards: tuple[Callable[[Any, Any], Any] | None, ...]
    """For each row its guard over whole columns; None where it has none."""
    changes: tuple[Callable[[Any, Any], int], ...]
    """For each row what makes its changes, over columns as over a table."""


class Table(Protocol):
    """The records of one machine. States, events and rows are numbers, in the order of the spec's file.

    STATES, EVENTS, VARS and PARAMS are the words for them, ROWS the ids, in that order.
    """

    name: ClassVar[str]
    STATES: ClassVar[tuple[str, ...]]
    EVENTS: ClassVar[tuple[str, ...]]
    KINDS: ClassVar[tuple[str, ...]]
    """For each event: request, report or signal."""
    VARS: ClassVar[tuple[str, ...]]
    GIVEN: ClassVar[tuple[str, ...]]
    """The variables whose first value the maker of a record gives."""
    PARAMS: ClassVar[tuple[str, ...]]
    ROWS: ClassVar[tuple[str, ...]]
    EFFECTS: ClassVar[tuple[tuple[str, ...], ...]]
    """For each row: its effects, in order."""
    HOME: ClassVar[frozenset[int]]
    """The states in which a record may be left when everything has been given back."""
    INITIAL: ClassVar[int]
    """The state of a newborn record."""
    MANY: ClassVar[Many | None]
    """The forms for many records; None where a table has none."""

    @property
    def columns(self) -> dict[str, object]:
        """`state` and each variable by name, as the arrays that the table works on (not copies)."""
        ...

    def __len__(self) -> int:
        """How many slots there are, whatever their state."""
        ...

    def add(self, **given: int) -> int:
        """Make a record in the initial state, with these values of the variables in GIVEN, and return its slot."""
        ...

    def extend(self, count: int) -> None:
        """Make `count` records in the initial state at once (no given variables)."""
        ...

    def renew(self, slot: int, **given: int) -> None:
        """Put the record at `slot` back to its birth; for slots that are used again, by whoever knows the values."""
        ...

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        ...

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return its number, or return REFUSED and change nothing."""
        ...

    def each(self, slots: Iterable[int], event: int) -> list[int]:
        """Fire `event` on one slot after the other up to the first that refuses; returns an arc for each.

        An arc is an index into `MANY.arcs`; only for tables that have these forms. A slot may stand there twice.
        """
        ...

    def copy(self) -> Table:
        """The same records in arrays of their own."""
        ...
