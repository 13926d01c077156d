# Generated from spec/peers/link.toml by `make tables`; do not edit.
# ruff: noqa: ARG001, N802 - all functions of rows are called alike, and as the row is
"""What is known of one life of another process."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED


class State(IntEnum):
    """Where a record can be; `spec/peers/link.toml` says what each means."""

    GREETING = 0
    MET = 1
    REFUSED = 2
    GONE = 3


class Event(IntEnum):
    """What can happen to a record; `spec/peers/link.toml` says what each means."""

    PASS = 0  # request
    HELLO = 1  # report
    PROVEN = 2  # report
    STRANGE = 3  # report
    ASKED = 4  # report
    BYE = 5  # report
    PEER_LOST = 6  # report
    DEADLINE = 7  # report
    RESEND = 8  # report
    REPLACED = 9  # signal


def _refuse(t: LinkTable, i: int) -> int:
    return REFUSED


def _G01(t: LinkTable, i: int) -> int:
    return 0


def _G02(t: LinkTable, i: int) -> int:
    return 1


def _G03(t: LinkTable, i: int) -> int:
    t.state[i] = 1  # met
    return 2


def _G04(t: LinkTable, i: int) -> int:
    return 3


def _G05(t: LinkTable, i: int) -> int:
    t.state[i] = 2  # refused
    return 4


def _G06(t: LinkTable, i: int) -> int:
    return 5


def _G07(t: LinkTable, i: int) -> int:
    return 6


def _G08(t: LinkTable, i: int) -> int:
    return 7


def _G20(t: LinkTable, i: int) -> int:
    return 8


def _G09(t: LinkTable, i: int) -> int:
    return 9


def _G10(t: LinkTable, i: int) -> int:
    t.state[i] = 3  # gone
    return 10


def _G11(t: LinkTable, i: int) -> int:
    t.state[i] = 3  # gone
    return 11


def _G12(t: LinkTable, i: int) -> int:
    t.state[i] = 3  # gone
    return 12


def _G13(t: LinkTable, i: int) -> int:
    return 13


def _G14(t: LinkTable, i: int) -> int:
    t.state[i] = 3  # gone
    return 14


def _G15(t: LinkTable, i: int) -> int:
    t.state[i] = 3  # gone
    return 15


def _G16(t: LinkTable, i: int) -> int:
    t.state[i] = 3  # gone
    return 16


def _G17(t: LinkTable, i: int) -> int:
    return 17


def _G18(t: LinkTable, i: int) -> int:
    return 18


def _G19(t: LinkTable, i: int) -> int:
    return 19


CELLS: tuple[int, ...] = (
    # greeting
    REFUSED,  # pass
    1,  # hello: G02
    2,  # proven: G03
    4,  # strange: G05
    8,  # asked: G20
    11,  # bye: G11
    13,  # peer_lost: G13
    10,  # deadline: G10
    9,  # resend: G09
    15,  # replaced: G15
    # met
    0,  # pass: G01
    3,  # hello: G04
    3,  # proven: G04
    5,  # strange: G06
    7,  # asked: G08
    11,  # bye: G11
    12,  # peer_lost: G12
    18,  # deadline: G18
    17,  # resend: G17
    14,  # replaced: G14
    # refused
    REFUSED,  # pass
    6,  # hello: G07
    6,  # proven: G07
    5,  # strange: G06
    7,  # asked: G08
    16,  # bye: G16
    13,  # peer_lost: G13
    16,  # deadline: G16
    17,  # resend: G17
    15,  # replaced: G15
    # gone
    REFUSED,  # pass
    19,  # hello: G19
    19,  # proven: G19
    19,  # strange: G19
    19,  # asked: G19
    19,  # bye: G19
    19,  # peer_lost: G19
    19,  # deadline: G19
    19,  # resend: G19
    REFUSED,  # replaced
)
"""For each state and event: the row that answers."""

BY_ROW: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("G01", ()),
    ("G02", ()),
    ("G03", ("replace", "tell_met")),
    ("G04", ()),
    ("G05", ("tell_strange",)),
    ("G06", ("stale",)),
    ("G07", ("stale",)),
    ("G08", ("say_hello",)),
    ("G20", ("ask_hello",)),
    ("G09", ("ask_hello", "wait_resend")),
    ("G10", ("tell_gone",)),
    ("G11", ("lose", "tell_gone")),
    ("G12", ("lose", "tell_gone")),
    ("G13", ()),
    ("G14", ("say_bye", "lose", "tell_gone")),
    ("G15", ()),
    ("G16", ()),
    ("G17", ()),
    ("G18", ()),
    ("G19", ("stale",)),
)
"""For each row: its id, and its effects, in order."""

CHANGES: dict[int, Callable[[LinkTable, int], int]] = {
    0: _G01,
    1: _G02,
    2: _G03,
    3: _G04,
    4: _G05,
    5: _G06,
    6: _G07,
    7: _G08,
    8: _G20,
    9: _G09,
    10: _G10,
    11: _G11,
    12: _G12,
    13: _G13,
    14: _G14,
    15: _G15,
    16: _G16,
    17: _G17,
    18: _G18,
    19: _G19,
}
"""For a row that is fired without a look at its guard: what makes its changes."""

FIRE: tuple[Callable[[LinkTable, int], int], ...] = tuple(
    _refuse if cell == REFUSED else CHANGES[cell] for cell in CELLS
)
"""For each cell: what fires it."""


class LinkTable(Columns):
    """What is known of one life of another process."""

    __slots__ = ("state",)
    name = "link"
    STATES = tuple(state.name.lower() for state in State)
    EVENTS = tuple(event.name.lower() for event in Event)
    KINDS: ClassVar[tuple[str, ...]] = (
        "request",
        "report",
        "report",
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
    HOME = frozenset({3})
    INITIAL = 0

    def __init__(self) -> None:
        self.state: array[int] = array("B")
        self._arrays = (self.state,)

    def renew(self, slot: int, **_: int) -> None:
        """Put the record at `slot` back to its birth; what is given is taken as it comes."""
        self.state[slot] = 0

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        return CELLS[self.state[slot] * 10 + event]

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        return FIRE[self.state[slot] * 10 + event](self, slot)
