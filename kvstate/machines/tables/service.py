# Generated from spec/service.toml by `make tables`; do not edit.
# ruff: noqa: ARG001, N802 - all functions of rows are called alike, and as the row is
"""The life of the ledger itself."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED


class State(IntEnum):
    """Where a record can be; `spec/service.toml` says what each means."""

    SERVING = 0
    DRAINING = 1
    CLOSED = 2
    POISONED = 3


class Event(IntEnum):
    """What can happen to a record; `spec/service.toml` says what each means."""

    ADMIT = 0  # request
    DRAIN = 1  # request
    SHUT = 2  # request
    BROKE = 3  # report


def _refuse(t: ServiceTable, i: int) -> int:
    return REFUSED


def _S01(t: ServiceTable, i: int) -> int:
    return 0


def _S02(t: ServiceTable, i: int) -> int:
    t.state[i] = 1  # draining
    return 1


def _S03(t: ServiceTable, i: int) -> int:
    return 2


def _S04(t: ServiceTable, i: int) -> int:
    t.state[i] = 2  # closed
    return 3


def _S05(t: ServiceTable, i: int) -> int:
    t.state[i] = 3  # poisoned
    return 4


def _S06(t: ServiceTable, i: int) -> int:
    return 5


CELLS: tuple[int, ...] = (
    # serving
    0,  # admit: S01
    1,  # drain: S02
    REFUSED,  # shut
    4,  # broke: S05
    # draining
    REFUSED,  # admit
    2,  # drain: S03
    3,  # shut: S04
    4,  # broke: S05
    # closed
    REFUSED,  # admit
    REFUSED,  # drain
    REFUSED,  # shut
    4,  # broke: S05
    # poisoned
    REFUSED,  # admit
    REFUSED,  # drain
    REFUSED,  # shut
    5,  # broke: S06
)
"""For each state and event: the row that answers."""

BY_ROW: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("S01", ()),
    ("S02", ()),
    ("S03", ()),
    ("S04", ()),
    ("S05", ()),
    ("S06", ()),
)
"""For each row: its id, and its effects, in order."""

CHANGES: dict[int, Callable[[ServiceTable, int], int]] = {
    0: _S01,
    1: _S02,
    2: _S03,
    3: _S04,
    4: _S05,
    5: _S06,
}
"""For a row that is fired without a look at its guard: what makes its changes."""

FIRE: tuple[Callable[[ServiceTable, int], int], ...] = tuple(
    _refuse if cell == REFUSED else CHANGES[cell] for cell in CELLS
)
"""For each cell: what fires it."""


class ServiceTable(Columns):
    """The life of the ledger itself."""

    __slots__ = ("state",)
    name = "service"
    STATES = tuple(state.name.lower() for state in State)
    EVENTS = tuple(event.name.lower() for event in Event)
    KINDS: ClassVar[tuple[str, ...]] = ("request", "request", "request", "report")
    VARS: ClassVar[tuple[str, ...]] = ()
    GIVEN: ClassVar[tuple[str, ...]] = ()
    PARAMS: ClassVar[tuple[str, ...]] = ()
    FIRST: ClassVar[tuple[int, ...]] = (0,)
    ROWS = tuple(row_id for row_id, _ in BY_ROW)
    EFFECTS = tuple(effects for _, effects in BY_ROW)
    HOME = frozenset({0, 1, 2, 3})
    INITIAL = 0

    def __init__(self) -> None:
        self.state: array[int] = array("B")
        self._arrays = (self.state,)

    def renew(self, slot: int, **_: int) -> None:
        """Put the record at `slot` back to its birth; what is given is taken as it comes."""
        self.state[slot] = 0

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        return CELLS[self.state[slot] * 4 + event]

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        return FIRE[self.state[slot] * 4 + event](self, slot)
