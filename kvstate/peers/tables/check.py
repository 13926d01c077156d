# Generated from spec/peers/check.toml by `make tables`; do not edit.
# ruff: noqa: ARG001, N802 - all functions of rows are called alike, and as the row is
"""A copy from a peer that has ended, and waits for the producer's word."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED


class State(IntEnum):
    """Where a record can be; `spec/peers/check.toml` says what each means."""

    FRESH = 0
    ASKED = 1
    VOUCHED = 2
    DENIED = 3
    SILENT = 4


class Event(IntEnum):
    """What can happen to a record; `spec/peers/check.toml` says what each means."""

    ASK = 0  # request
    TURN_AWAY = 1  # request
    VOUCHED = 2  # report
    DENIED = 3  # report
    DEADLINE = 4  # report
    RESEND = 5  # report
    VOID = 6  # signal
    LOSE = 7  # signal


def _refuse(t: CheckTable, i: int) -> int:
    return REFUSED


def _asked_vouched(t: CheckTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        return 2  # V03
    if left == 1:
        return 3  # V04
    return REFUSED


def _fire_asked_vouched(t: CheckTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        t.left[i] = left - 1
        return 2  # V03
    if left == 1:
        t.left[i] = 0
        t.state[i] = 2  # vouched
        return 3  # V04
    return REFUSED


def _V01(t: CheckTable, i: int) -> int:
    t.state[i] = 1  # asked
    return 0


def _V02(t: CheckTable, i: int) -> int:
    t.state[i] = 3  # denied
    return 1


def _V05(t: CheckTable, i: int) -> int:
    t.state[i] = 3  # denied
    return 4


def _V06(t: CheckTable, i: int) -> int:
    t.state[i] = 3  # denied
    return 5


def _V07(t: CheckTable, i: int) -> int:
    t.state[i] = 4  # silent
    return 6


def _V08(t: CheckTable, i: int) -> int:
    t.state[i] = 4  # silent
    return 7


def _V09(t: CheckTable, i: int) -> int:
    return 8


def _V10(t: CheckTable, i: int) -> int:
    return 9


CELLS: tuple[int | Callable[[CheckTable, int], int], ...] = (
    # fresh
    0,  # ask: V01
    1,  # turn_away: V02
    9,  # vouched: V10
    9,  # denied: V10
    9,  # deadline: V10
    9,  # resend: V10
    REFUSED,  # void
    REFUSED,  # lose
    # asked
    REFUSED,  # ask
    REFUSED,  # turn_away
    _asked_vouched,  # vouched: V03 V04
    4,  # denied: V05
    7,  # deadline: V08
    8,  # resend: V09
    5,  # void: V06
    6,  # lose: V07
    # vouched
    REFUSED,  # ask
    REFUSED,  # turn_away
    9,  # vouched: V10
    9,  # denied: V10
    9,  # deadline: V10
    9,  # resend: V10
    REFUSED,  # void
    REFUSED,  # lose
    # denied
    REFUSED,  # ask
    REFUSED,  # turn_away
    9,  # vouched: V10
    9,  # denied: V10
    9,  # deadline: V10
    9,  # resend: V10
    REFUSED,  # void
    REFUSED,  # lose
    # silent
    REFUSED,  # ask
    REFUSED,  # turn_away
    9,  # vouched: V10
    9,  # denied: V10
    9,  # deadline: V10
    9,  # resend: V10
    REFUSED,  # void
    REFUSED,  # lose
)
"""For each state and event: the row that answers, or what chooses it."""

BY_ROW: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("V01", ("send_check", "wait_closing")),
    ("V02", ("forward_denied",)),
    ("V03", ("note",)),
    ("V04", ("note", "forward_done")),
    ("V05", ("forward_denied",)),
    ("V06", ("forward_denied",)),
    ("V07", ("forward_lost",)),
    ("V08", ("forward_late",)),
    ("V09", ("send_check", "wait_resend")),
    ("V10", ("stale",)),
)
"""For each row: its id, and its effects, in order."""

CHANGES: dict[int, Callable[[CheckTable, int], int]] = {
    0: _V01,
    1: _V02,
    4: _V05,
    5: _V06,
    6: _V07,
    7: _V08,
    8: _V09,
    9: _V10,
}
"""For a row that is fired without a look at its guard: what makes its changes."""

GUARDED: dict[Callable[[CheckTable, int], int], Callable[[CheckTable, int], int]] = {
    _asked_vouched: _fire_asked_vouched,
}
"""For what chooses a row: what chooses and fires it."""

FIRE: tuple[Callable[[CheckTable, int], int], ...] = tuple(
    GUARDED[cell] if not isinstance(cell, int) else _refuse if cell == REFUSED else CHANGES[cell] for cell in CELLS
)
"""For each cell: what fires it."""


class CheckTable(Columns):
    """A copy from a peer that has ended, and waits for the producer's word."""

    __slots__ = ("left", "state")
    name = "check"
    STATES = tuple(state.name.lower() for state in State)
    EVENTS = tuple(event.name.lower() for event in Event)
    KINDS: ClassVar[tuple[str, ...]] = (
        "request",
        "request",
        "report",
        "report",
        "report",
        "report",
        "signal",
        "signal",
    )
    VARS: ClassVar[tuple[str, ...]] = ("left",)
    GIVEN: ClassVar[tuple[str, ...]] = ("left",)
    PARAMS: ClassVar[tuple[str, ...]] = ()
    FIRST: ClassVar[tuple[int, ...]] = (0, 0)
    ROWS = tuple(row_id for row_id, _ in BY_ROW)
    EFFECTS = tuple(effects for _, effects in BY_ROW)
    HOME = frozenset({2, 3, 4})
    INITIAL = 0

    def __init__(self) -> None:
        self.state: array[int] = array("B")
        self.left: array[int] = array("q")
        self._arrays = (self.state, self.left)

    def renew(self, slot: int, **given: int) -> None:
        """Put the record at `slot` back to its birth; what is given is taken as it comes."""
        self.left[slot] = given["left"]
        self.state[slot] = 0

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        row = CELLS[self.state[slot] * 8 + event]
        if not isinstance(row, int):
            row = row(self, slot)
        return row

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        return FIRE[self.state[slot] * 8 + event](self, slot)
