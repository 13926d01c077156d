# Generated from spec/part.toml by `make tables`; do not edit.
# ruff: noqa: ARG001, N802 - all functions of rows are called alike, and as the row is
"""One piece of physical work on one rank, under one token."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED


class State(IntEnum):
    """Where a record can be; `spec/part.toml` says what each means."""

    NEW = 0
    FLYING = 1
    LANDED = 2
    FAILED = 3
    BROKEN = 4
    STOPPED = 5
    LOST = 6
    GONE = 7


class Event(IntEnum):
    """What can happen to a record; `spec/part.toml` says what each means."""

    LAUNCH = 0  # request
    ADOPT = 1  # request
    DONE = 2  # report
    FAILED = 3  # report
    DENIED = 4  # report
    BROKEN = 5  # report
    CANCELLED = 6  # report
    TIMEOUT = 7  # report
    GIVE_UP = 8  # signal


def _refuse(t: PartTable, i: int) -> int:
    return REFUSED


def _P01(t: PartTable, i: int) -> int:
    t.state[i] = 1  # flying
    return 0


def _P02(t: PartTable, i: int) -> int:
    t.state[i] = 2  # landed
    return 1


def _P03(t: PartTable, i: int) -> int:
    t.state[i] = 3  # failed
    return 2


def _P04(t: PartTable, i: int) -> int:
    t.state[i] = 5  # stopped
    return 3


def _P05(t: PartTable, i: int) -> int:
    t.state[i] = 4  # broken
    return 4


def _P18(t: PartTable, i: int) -> int:
    t.state[i] = 3  # failed
    return 5


def _P07(t: PartTable, i: int) -> int:
    t.state[i] = 6  # lost
    return 6


def _P08(t: PartTable, i: int) -> int:
    t.state[i] = 6  # lost
    return 7


def _P09(t: PartTable, i: int) -> int:
    t.state[i] = 7  # gone
    return 8


def _P16(t: PartTable, i: int) -> int:
    t.state[i] = 4  # broken
    return 9


def _P10(t: PartTable, i: int) -> int:
    return 10


def _P11(t: PartTable, i: int) -> int:
    return 11


def _P12(t: PartTable, i: int) -> int:
    return 12


def _P13(t: PartTable, i: int) -> int:
    return 13


CELLS: tuple[int, ...] = (
    # new
    0,  # launch: P01
    REFUSED,  # adopt
    11,  # done: P11
    11,  # failed: P11
    11,  # denied: P11
    11,  # broken: P11
    11,  # cancelled: P11
    11,  # timeout: P11
    REFUSED,  # give_up
    # flying
    REFUSED,  # launch
    12,  # adopt: P12
    1,  # done: P02
    2,  # failed: P03
    5,  # denied: P18
    4,  # broken: P05
    3,  # cancelled: P04
    6,  # timeout: P07
    7,  # give_up: P08
    # landed
    REFUSED,  # launch
    REFUSED,  # adopt
    11,  # done: P11
    11,  # failed: P11
    11,  # denied: P11
    11,  # broken: P11
    11,  # cancelled: P11
    11,  # timeout: P11
    REFUSED,  # give_up
    # failed
    REFUSED,  # launch
    REFUSED,  # adopt
    11,  # done: P11
    11,  # failed: P11
    11,  # denied: P11
    11,  # broken: P11
    11,  # cancelled: P11
    11,  # timeout: P11
    REFUSED,  # give_up
    # broken
    REFUSED,  # launch
    REFUSED,  # adopt
    11,  # done: P11
    11,  # failed: P11
    11,  # denied: P11
    11,  # broken: P11
    11,  # cancelled: P11
    11,  # timeout: P11
    REFUSED,  # give_up
    # stopped
    REFUSED,  # launch
    REFUSED,  # adopt
    11,  # done: P11
    11,  # failed: P11
    11,  # denied: P11
    11,  # broken: P11
    11,  # cancelled: P11
    11,  # timeout: P11
    REFUSED,  # give_up
    # lost
    REFUSED,  # launch
    13,  # adopt: P13
    8,  # done: P09
    8,  # failed: P09
    8,  # denied: P09
    9,  # broken: P16
    8,  # cancelled: P09
    10,  # timeout: P10
    REFUSED,  # give_up
    # gone
    REFUSED,  # launch
    REFUSED,  # adopt
    11,  # done: P11
    11,  # failed: P11
    11,  # denied: P11
    11,  # broken: P11
    11,  # cancelled: P11
    11,  # timeout: P11
    REFUSED,  # give_up
)
"""For each state and event: the row that answers."""

BY_ROW: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("P01", ("touch",)),
    ("P02", ("let_go", "ok")),
    ("P03", ("let_go", "bad_again")),
    ("P04", ("let_go", "bad_again")),
    ("P05", ("let_go", "bad_final")),
    ("P18", ("let_go", "bad_final")),
    ("P07", ("lose", "unproved")),
    ("P08", ("lose",)),
    ("P09", ("late",)),
    ("P16", ("late", "late_bad")),
    ("P10", ("stale",)),
    ("P11", ("stale",)),
    ("P12", ("adopt",)),
    ("P13", ("adopt", "adopt_lost")),
)
"""For each row: its id, and its effects, in order."""

CHANGES: dict[int, Callable[[PartTable, int], int]] = {
    0: _P01,
    1: _P02,
    2: _P03,
    3: _P04,
    4: _P05,
    5: _P18,
    6: _P07,
    7: _P08,
    8: _P09,
    9: _P16,
    10: _P10,
    11: _P11,
    12: _P12,
    13: _P13,
}
"""For a row that is fired without a look at its guard: what makes its changes."""

FIRE: tuple[Callable[[PartTable, int], int], ...] = tuple(
    _refuse if cell == REFUSED else CHANGES[cell] for cell in CELLS
)
"""For each cell: what fires it."""


class PartTable(Columns):
    """One piece of physical work on one rank, under one token."""

    __slots__ = ("state",)
    name = "part"
    STATES = tuple(state.name.lower() for state in State)
    EVENTS = tuple(event.name.lower() for event in Event)
    KINDS: ClassVar[tuple[str, ...]] = (
        "request",
        "request",
        "report",
        "report",
        "report",
        "report",
        "report",
        "report",
        "signal",
    )
    VARS: ClassVar[tuple[str, ...]] = ()
    GIVEN: ClassVar[tuple[str, ...]] = ()
    PARAMS: ClassVar[tuple[str, ...]] = ()
    FIRST: ClassVar[tuple[int, ...]] = (0,)
    ROWS = tuple(row_id for row_id, _ in BY_ROW)
    EFFECTS = tuple(effects for _, effects in BY_ROW)
    HOME = frozenset({2, 3, 4, 5, 7})
    INITIAL = 0

    def __init__(self) -> None:
        self.state: array[int] = array("B")
        self._arrays = (self.state,)

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        row = CELLS[self.state[slot] * 9 + event]
        return row

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        return FIRE[self.state[slot] * 9 + event](self, slot)
