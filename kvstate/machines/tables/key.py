# Generated from spec/key.toml by `make tables`; do not edit.
# ruff: noqa: ARG001, N802 - all functions of rows are called alike, and as the row is
"""Whether one key is a hit in one tier."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED, Many
from kvstate.machines.tables import key_many as many


class State(IntEnum):
    """Where a record can be; `spec/key.toml` says what each means."""

    ABSENT = 0
    WRITING = 1
    READY = 2
    COOLING = 3
    CONDEMNED = 4


class Event(IntEnum):
    """What can happen to a record; `spec/key.toml` says what each means."""

    BEGIN = 0  # request
    OFFER = 1  # request
    HIT = 2  # request
    RESET = 3  # request
    VANISH = 4  # request
    WARM = 5  # report
    COMMIT = 6  # signal
    DROP = 7  # signal
    CONDEMN = 8  # signal
    COOL = 9  # signal
    EVICTED = 10  # signal


def _refuse(t: KeyTable, i: int) -> int:
    return REFUSED


def _K13(t: KeyTable, i: int) -> int:
    return 0


def _K01(t: KeyTable, i: int) -> int:
    t.state[i] = 1  # writing
    return 1


def _K02(t: KeyTable, i: int) -> int:
    t.state[i] = 2  # ready
    return 2


def _K03(t: KeyTable, i: int) -> int:
    t.state[i] = 2  # ready
    return 3


def _K04(t: KeyTable, i: int) -> int:
    t.state[i] = 0  # absent
    return 4


def _K05(t: KeyTable, i: int) -> int:
    t.state[i] = 4  # condemned
    return 5


def _K06(t: KeyTable, i: int) -> int:
    t.state[i] = 0  # absent
    return 6


def _K07(t: KeyTable, i: int) -> int:
    t.state[i] = 0  # absent
    return 7


def _K08(t: KeyTable, i: int) -> int:
    t.state[i] = 0  # absent
    return 8


def _K14(t: KeyTable, i: int) -> int:
    t.state[i] = 0  # absent
    return 9


def _K09(t: KeyTable, i: int) -> int:
    t.state[i] = 3  # cooling
    return 10


def _K10(t: KeyTable, i: int) -> int:
    return 11


def _K11(t: KeyTable, i: int) -> int:
    t.state[i] = 2  # ready
    return 12


def _K12(t: KeyTable, i: int) -> int:
    return 13


CELLS: tuple[int, ...] = (
    # absent
    1,  # begin: K01
    2,  # offer: K02
    REFUSED,  # hit
    REFUSED,  # reset
    REFUSED,  # vanish
    13,  # warm: K12
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
    REFUSED,  # vanish
    13,  # warm: K12
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
    9,  # vanish: K14
    13,  # warm: K12
    REFUSED,  # commit
    REFUSED,  # drop
    5,  # condemn: K05
    10,  # cool: K09
    6,  # evicted: K06
    # cooling
    REFUSED,  # begin
    REFUSED,  # offer
    REFUSED,  # hit
    7,  # reset: K07
    9,  # vanish: K14
    12,  # warm: K11
    REFUSED,  # commit
    REFUSED,  # drop
    5,  # condemn: K05
    11,  # cool: K10
    6,  # evicted: K06
    # condemned
    1,  # begin: K01
    2,  # offer: K02
    REFUSED,  # hit
    8,  # reset: K08
    REFUSED,  # vanish
    13,  # warm: K12
    REFUSED,  # commit
    REFUSED,  # drop
    REFUSED,  # condemn
    REFUSED,  # cool
    REFUSED,  # evicted
)
"""For each state and event: the row that answers."""

BY_ROW: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("K13", ()),
    ("K01", ()),
    ("K02", ()),
    ("K03", ()),
    ("K04", ()),
    ("K05", ("unnamed",)),
    ("K06", ()),
    ("K07", ("unnamed",)),
    ("K08", ()),
    ("K14", ("unnamed",)),
    ("K09", ("wait_warm",)),
    ("K10", ()),
    ("K11", ()),
    ("K12", ()),
)
"""For each row: its id, and its effects, in order."""

CHANGES: dict[int, Callable[[KeyTable, int], int]] = {
    0: _K13,
    1: _K01,
    2: _K02,
    3: _K03,
    4: _K04,
    5: _K05,
    6: _K06,
    7: _K07,
    8: _K08,
    9: _K14,
    10: _K09,
    11: _K10,
    12: _K11,
    13: _K12,
}
"""For a row that is fired without a look at its guard: what makes its changes."""

FIRE: tuple[Callable[[KeyTable, int], int], ...] = tuple(
    _refuse if cell == REFUSED else CHANGES[cell] for cell in CELLS
)
"""For each cell: what fires it."""


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
    MANY: ClassVar[Many | None] = Many(many.ARCS, many.NUMBERS, many.CASES, many.GUARDS, tuple(CHANGES.values()))
    ROWS = tuple(row_id for row_id, _ in BY_ROW)
    EFFECTS = tuple(effects for _, effects in BY_ROW)
    HOME = frozenset({0})
    INITIAL = 0

    def __init__(self) -> None:
        self.state: array[int] = array("B")
        self._arrays = (self.state,)

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        return CELLS[self.state[slot] * 11 + event]

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        return FIRE[self.state[slot] * 11 + event](self, slot)

    def each(self, slots: Iterable[int], event: int) -> list[int]:
        """Fire `event` on one slot after the other up to the first that refuses; returns the arcs."""
        return many.EACH[event](self, slots)
