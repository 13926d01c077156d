# Generated from spec/key.toml by `make tables`; do not edit.
# ruff: noqa: N802 - the function of a row is called as the row is
"""Whether one key is a hit in one tier."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED


class State(IntEnum):
    ABSENT = 0
    WRITING = 1
    READY = 2
    COOLING = 3
    CONDEMNED = 4


class Event(IntEnum):
    BEGIN = 0  # request
    OFFER = 1  # request
    HIT = 2  # request
    RESET = 3  # request
    WARM = 4  # report
    COMMIT = 5  # signal
    DROP = 6  # signal
    CONDEMN = 7  # signal
    COOL = 8  # signal
    EVICTED = 9  # signal


def _K01(t: KeyTable, i: int) -> None:
    t.state[i] = 1  # writing


def _K02(t: KeyTable, i: int) -> None:
    t.state[i] = 2  # ready


def _K03(t: KeyTable, i: int) -> None:
    t.state[i] = 2  # ready


def _K04(t: KeyTable, i: int) -> None:
    t.state[i] = 0  # absent


def _K05(t: KeyTable, i: int) -> None:
    t.state[i] = 4  # condemned


def _K06(t: KeyTable, i: int) -> None:
    t.state[i] = 0  # absent


def _K07(t: KeyTable, i: int) -> None:
    t.state[i] = 0  # absent


def _K08(t: KeyTable, i: int) -> None:
    t.state[i] = 0  # absent


def _K09(t: KeyTable, i: int) -> None:
    t.state[i] = 3  # cooling


def _K11(t: KeyTable, i: int) -> None:
    t.state[i] = 2  # ready


CELLS: tuple[int, ...] = (
    # absent
    1,  # begin: K01
    2,  # offer: K02
    REFUSED,  # hit
    REFUSED,  # reset
    12,  # warm: K12
    REFUSED,  # commit
    REFUSED,  # drop
    REFUSED,  # condemn
    REFUSED,  # cool
    REFUSED,  # evicted
    # writing
    REFUSED,  # begin
    REFUSED,  # offer
    REFUSED,  # hit
    REFUSED,  # reset
    12,  # warm: K12
    3,  # commit: K03
    4,  # drop: K04
    REFUSED,  # condemn
    REFUSED,  # cool
    REFUSED,  # evicted
    # ready
    REFUSED,  # begin
    REFUSED,  # offer
    0,  # hit: K13
    7,  # reset: K07
    12,  # warm: K12
    REFUSED,  # commit
    REFUSED,  # drop
    5,  # condemn: K05
    9,  # cool: K09
    6,  # evicted: K06
    # cooling
    REFUSED,  # begin
    REFUSED,  # offer
    REFUSED,  # hit
    7,  # reset: K07
    11,  # warm: K11
    REFUSED,  # commit
    REFUSED,  # drop
    5,  # condemn: K05
    10,  # cool: K10
    6,  # evicted: K06
    # condemned
    1,  # begin: K01
    2,  # offer: K02
    REFUSED,  # hit
    8,  # reset: K08
    12,  # warm: K12
    REFUSED,  # commit
    REFUSED,  # drop
    REFUSED,  # condemn
    REFUSED,  # cool
    REFUSED,  # evicted
)
"""For each state and event: the row that answers."""

BY_ROW: tuple[tuple[str, Callable[[KeyTable, int], None] | None, tuple[str, ...]], ...] = (
    ("K13", None, ()),
    ("K01", _K01, ()),
    ("K02", _K02, ()),
    ("K03", _K03, ()),
    ("K04", _K04, ()),
    ("K05", _K05, ("unnamed",)),
    ("K06", _K06, ()),
    ("K07", _K07, ("unnamed",)),
    ("K08", _K08, ()),
    ("K09", _K09, ("wait_warm",)),
    ("K10", None, ()),
    ("K11", _K11, ()),
    ("K12", None, ()),
)
"""For each row: its id, what it changes (None where it changes nothing), and its effects, in order."""

APPLY = tuple(change for _, change, _ in BY_ROW)


class KeyTable(Columns):
    """Whether one key is a hit in one tier."""

    __slots__ = ("state",)
    name = "key"
    STATES = tuple(state.name.lower() for state in State)
    EVENTS = tuple(event.name.lower() for event in Event)
    KINDS: ClassVar[tuple[str, ...]] = (
        "request",
        "request",
        "request",
        "request",
        "report",
        "signal",
        "signal",
        "signal",
        "signal",
        "signal",
    )
    VARS: ClassVar[tuple[str, ...]] = ()
    GIVEN: ClassVar[tuple[str, ...]] = ()
    PARAMS: ClassVar[tuple[str, ...]] = ()
    FIRST: ClassVar[tuple[int, ...]] = (0,)
    ROWS = tuple(row_id for row_id, _, _ in BY_ROW)
    EFFECTS = tuple(effects for _, _, effects in BY_ROW)
    HOME = frozenset({0})
    INITIAL = 0

    def __init__(self) -> None:
        self.state: array[int] = array("B")
        self._arrays = (self.state,)

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        row = CELLS[self.state[slot] * 10 + event]
        return row

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        row = CELLS[self.state[slot] * 10 + event]
        if row >= 0:
            change = APPLY[row]
            if change is not None:
                change(self, slot)
        return row
