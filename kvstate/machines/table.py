"""What every table can do, whether it was generated from the data or interprets it.

A table holds *all* records of one machine as columns (one array for the state, one for each variable); a record is a
slot, an index into them. `fire` is the only way to change a record.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

REFUSED = -1
"""What `fire` and `choose` answer when no row does; nothing has changed then."""


class Table(Protocol):
    """The records of one machine. States, events and rows are numbers, in the order of the spec's file."""

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
    INITIAL: ClassVar[int]

    @property
    def columns(self) -> dict[str, object]:
        """`state` and each variable by name, as the arrays that the table works on (not copies)."""
        ...

    def __len__(self) -> int:
        """How many slots there are, whatever their state."""
        ...

    def add(self, **given: int) -> int:
        """Make a record in the initial state and return its slot."""
        ...

    def extend(self, count: int) -> None:
        """Make `count` records in the initial state at once (no given variables)."""
        ...

    def renew(self, slot: int, **given: int) -> None:
        """Put the record at `slot` back to its birth; for slots that are used again."""
        ...

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        ...

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return its number, or return REFUSED and change nothing."""
        ...

    def copy(self) -> Table:
        """The same records in arrays of their own."""
        ...
