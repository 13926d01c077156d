# Generated from spec/service.toml by `make tables`; do not edit.
# ruff: noqa: N802 - the function of a row is called as the row is
"""The life of the ledger itself."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED


class State(IntEnum):
    SERVING = 0
    DRAINING = 1
    CLOSED = 2
    POISONED = 3


class Event(IntEnum):
    ADMIT = 0  # request
    DRAIN = 1  # request
    SHUT = 2  # request
    BROKE = 3  # report


def _S02(t: ServiceTable, i: int) -> None:
    t.state[i] = 1  # draining


def _S04(t: ServiceTable, i: int) -> None:
    t.state[i] = 2  # closed


def _S05(t: ServiceTable, i: int) -> None:
    t.state[i] = 3  # poisoned


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

BY_ROW: tuple[tuple[str, Callable[[ServiceTable, int], None] | None, tuple[str, ...]], ...] = (
    ("S01", None, ()),
    ("S02", _S02, ()),
    ("S03", None, ()),
    ("S04", _S04, ()),
    ("S05", _S05, ()),
    ("S06", None, ()),
)
"""For each row: its id, what it changes (None where it changes nothing), and its effects, in order."""

APPLY = tuple(change for _, change, _ in BY_ROW)


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
    ROWS = tuple(row_id for row_id, _, _ in BY_ROW)
    EFFECTS = tuple(effects for _, _, effects in BY_ROW)
    HOME = frozenset({0, 1, 2, 3})
    INITIAL = 0

    def __init__(self) -> None:
        self.state: array[int] = array("B")
        self._arrays = (self.state,)

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        row = CELLS[self.state[slot] * 4 + event]
        return row

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        row = CELLS[self.state[slot] * 4 + event]
        if row >= 0:
            change = APPLY[row]
            if change is not None:
                change(self, slot)
        return row
