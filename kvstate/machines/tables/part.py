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
    SPOILED = 8


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
    TAINT = 9  # signal


def _refuse(t: PartTable, i: int) -> int:
    return REFUSED


def _flying_done(t: PartTable, i: int) -> int:
    if not t.tainted[i]:
        return 1  # P02
    return 6  # P06: tainted


def _fire_flying_done(t: PartTable, i: int) -> int:
    if not t.tainted[i]:
        t.state[i] = 2  # landed
        return 1  # P02
    t.state[i] = 8  # spoiled
    return 6  # P06: tainted


def _flying_failed(t: PartTable, i: int) -> int:
    if not t.tainted[i]:
        return 2  # P03
    return 6  # P06: tainted


def _fire_flying_failed(t: PartTable, i: int) -> int:
    if not t.tainted[i]:
        t.state[i] = 3  # failed
        return 2  # P03
    t.state[i] = 8  # spoiled
    return 6  # P06: tainted


def _flying_denied(t: PartTable, i: int) -> int:
    if not t.tainted[i]:
        return 5  # P18
    return 6  # P06: tainted


def _fire_flying_denied(t: PartTable, i: int) -> int:
    if not t.tainted[i]:
        t.state[i] = 3  # failed
        return 5  # P18
    t.state[i] = 8  # spoiled
    return 6  # P06: tainted


def _flying_broken(t: PartTable, i: int) -> int:
    if not t.tainted[i]:
        return 4  # P05
    return 6  # P06: tainted


def _fire_flying_broken(t: PartTable, i: int) -> int:
    if not t.tainted[i]:
        t.state[i] = 4  # broken
        return 4  # P05
    t.state[i] = 8  # spoiled
    return 6  # P06: tainted


def _flying_cancelled(t: PartTable, i: int) -> int:
    if not t.tainted[i]:
        return 3  # P04
    return 6  # P06: tainted


def _fire_flying_cancelled(t: PartTable, i: int) -> int:
    if not t.tainted[i]:
        t.state[i] = 5  # stopped
        return 3  # P04
    t.state[i] = 8  # spoiled
    return 6  # P06: tainted


def _lost_broken(t: PartTable, i: int) -> int:
    if not t.tainted[i]:
        return 10  # P16
    return 11  # P17: tainted


def _fire_lost_broken(t: PartTable, i: int) -> int:
    if not t.tainted[i]:
        t.state[i] = 4  # broken
        return 10  # P16
    t.state[i] = 7  # gone
    return 11  # P17: tainted


def _P01(t: PartTable, i: int) -> int:
    t.state[i] = 1  # flying
    return 0


def _P07(t: PartTable, i: int) -> int:
    t.state[i] = 6  # lost
    return 7


def _P08(t: PartTable, i: int) -> int:
    t.state[i] = 6  # lost
    return 8


def _P09(t: PartTable, i: int) -> int:
    t.state[i] = 7  # gone
    return 9


def _P10(t: PartTable, i: int) -> int:
    return 12


def _P11(t: PartTable, i: int) -> int:
    return 13


def _P12(t: PartTable, i: int) -> int:
    return 14


def _P13(t: PartTable, i: int) -> int:
    return 15


def _P14(t: PartTable, i: int) -> int:
    t.tainted[i] = True
    return 16


def _P15(t: PartTable, i: int) -> int:
    t.tainted[i] = True
    return 17


CELLS: tuple[int | Callable[[PartTable, int], int], ...] = (
    # new
    0,  # launch: P01
    REFUSED,  # adopt
    13,  # done: P11
    13,  # failed: P11
    13,  # denied: P11
    13,  # broken: P11
    13,  # cancelled: P11
    13,  # timeout: P11
    REFUSED,  # give_up
    REFUSED,  # taint
    # flying
    REFUSED,  # launch
    14,  # adopt: P12
    _flying_done,  # done: P02 P06
    _flying_failed,  # failed: P03 P06
    _flying_denied,  # denied: P18 P06
    _flying_broken,  # broken: P05 P06
    _flying_cancelled,  # cancelled: P04 P06
    7,  # timeout: P07
    8,  # give_up: P08
    16,  # taint: P14
    # landed
    REFUSED,  # launch
    REFUSED,  # adopt
    13,  # done: P11
    13,  # failed: P11
    13,  # denied: P11
    13,  # broken: P11
    13,  # cancelled: P11
    13,  # timeout: P11
    REFUSED,  # give_up
    REFUSED,  # taint
    # failed
    REFUSED,  # launch
    REFUSED,  # adopt
    13,  # done: P11
    13,  # failed: P11
    13,  # denied: P11
    13,  # broken: P11
    13,  # cancelled: P11
    13,  # timeout: P11
    REFUSED,  # give_up
    REFUSED,  # taint
    # broken
    REFUSED,  # launch
    REFUSED,  # adopt
    13,  # done: P11
    13,  # failed: P11
    13,  # denied: P11
    13,  # broken: P11
    13,  # cancelled: P11
    13,  # timeout: P11
    REFUSED,  # give_up
    REFUSED,  # taint
    # stopped
    REFUSED,  # launch
    REFUSED,  # adopt
    13,  # done: P11
    13,  # failed: P11
    13,  # denied: P11
    13,  # broken: P11
    13,  # cancelled: P11
    13,  # timeout: P11
    REFUSED,  # give_up
    REFUSED,  # taint
    # lost
    REFUSED,  # launch
    15,  # adopt: P13
    9,  # done: P09
    9,  # failed: P09
    9,  # denied: P09
    _lost_broken,  # broken: P16 P17
    9,  # cancelled: P09
    12,  # timeout: P10
    REFUSED,  # give_up
    17,  # taint: P15
    # gone
    REFUSED,  # launch
    REFUSED,  # adopt
    13,  # done: P11
    13,  # failed: P11
    13,  # denied: P11
    13,  # broken: P11
    13,  # cancelled: P11
    13,  # timeout: P11
    REFUSED,  # give_up
    REFUSED,  # taint
    # spoiled
    REFUSED,  # launch
    REFUSED,  # adopt
    13,  # done: P11
    13,  # failed: P11
    13,  # denied: P11
    13,  # broken: P11
    13,  # cancelled: P11
    13,  # timeout: P11
    REFUSED,  # give_up
    REFUSED,  # taint
)
"""For each state and event: the row that answers, or what chooses it."""

BY_ROW: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("P01", ("touch",)),
    ("P02", ("let_go", "ok")),
    ("P03", ("let_go", "bad_again")),
    ("P04", ("let_go", "bad_again")),
    ("P05", ("let_go", "bad_final")),
    ("P18", ("let_go", "bad_final")),
    ("P06", ("let_go", "bad_final")),
    ("P07", ("lose", "unproved")),
    ("P08", ("lose",)),
    ("P09", ("late",)),
    ("P16", ("late", "late_bad")),
    ("P17", ("late",)),
    ("P10", ("stale",)),
    ("P11", ("stale",)),
    ("P12", ("adopt",)),
    ("P13", ("adopt", "adopt_lost")),
    ("P14", ()),
    ("P15", ()),
)
"""For each row: its id, and its effects, in order."""

CHANGES: dict[int, Callable[[PartTable, int], int]] = {
    0: _P01,
    7: _P07,
    8: _P08,
    9: _P09,
    12: _P10,
    13: _P11,
    14: _P12,
    15: _P13,
    16: _P14,
    17: _P15,
}
"""For a row that is fired without a look at its guard: what makes its changes."""

GUARDED: dict[Callable[[PartTable, int], int], Callable[[PartTable, int], int]] = {
    _flying_done: _fire_flying_done,
    _flying_failed: _fire_flying_failed,
    _flying_denied: _fire_flying_denied,
    _flying_broken: _fire_flying_broken,
    _flying_cancelled: _fire_flying_cancelled,
    _lost_broken: _fire_lost_broken,
}
"""For what chooses a row: what chooses and fires it."""

FIRE: tuple[Callable[[PartTable, int], int], ...] = tuple(
    GUARDED[cell] if not isinstance(cell, int) else _refuse if cell == REFUSED else CHANGES[cell] for cell in CELLS
)
"""For each cell: what fires it."""


class PartTable(Columns):
    """One piece of physical work on one rank, under one token."""

    __slots__ = ("state", "tainted")
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
        "signal",
    )
    VARS: ClassVar[tuple[str, ...]] = ("tainted",)
    GIVEN: ClassVar[tuple[str, ...]] = ()
    PARAMS: ClassVar[tuple[str, ...]] = ()
    FIRST: ClassVar[tuple[int, ...]] = (0, 0)
    ROWS = tuple(row_id for row_id, _ in BY_ROW)
    EFFECTS = tuple(effects for _, effects in BY_ROW)
    HOME = frozenset({2, 3, 4, 5, 7, 8})
    INITIAL = 0

    def __init__(self) -> None:
        self.state: array[int] = array("B")
        self.tainted: array[int] = array("B")
        self._arrays = (self.state, self.tainted)

    def renew(self, slot: int, **_: int) -> None:
        """Put the record at `slot` back to its birth; what is given is taken as it comes."""
        self.state[slot] = 0
        self.tainted[slot] = 0

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        row = CELLS[self.state[slot] * 10 + event]
        if not isinstance(row, int):
            row = row(self, slot)
        return row

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        return FIRE[self.state[slot] * 10 + event](self, slot)
