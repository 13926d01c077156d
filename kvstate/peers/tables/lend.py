# Generated from spec/peers/lend.toml by `make tables`; do not edit.
# ruff: noqa: ARG001, N802 - all functions of rows are called alike, and as the row is
"""Blocks offered to a peer, seen by the side that has them."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED


class State(IntEnum):
    """Where a record can be; `spec/peers/lend.toml` says what each means."""

    OFFERED = 0
    WITHDRAWN = 1
    EXPIRED = 2
    DELIVERED = 3
    RETURNED = 4
    LOST = 5
    CLOSED = 6


class Event(IntEnum):
    """What can happen to a record; `spec/peers/lend.toml` says what each means."""

    WITHDRAW = 0  # request
    RECEIVED = 1  # report
    CHECKED = 2  # report
    RENEWAL = 3  # report
    RENEWAL_AGAIN = 4  # report
    TAKEN = 5  # report
    REFUSED = 6  # report
    VOIDED = 7  # report
    DEADLINE = 8  # report
    RESEND = 9  # report
    PEER_LOST = 10  # signal


def _refuse(t: LendTable, i: int) -> int:
    return REFUSED


def _offered_renewal(t: LendTable, i: int) -> int:
    renewals = t.renewals
    renewed = t.renewed[i]
    if renewed < renewals:
        return 2  # H03
    if renewed == renewals:
        return 3  # H04
    return REFUSED


def _fire_offered_renewal(t: LendTable, i: int) -> int:
    renewals = t.renewals
    renewed = t.renewed[i]
    if renewed < renewals:
        t.heard[i] = True
        t.renewed[i] = renewed + 1
        return 2  # H03
    if renewed == renewals:
        t.heard[i] = True
        return 3  # H04
    return REFUSED


def _offered_taken(t: LendTable, i: int) -> int:
    if t.vouched[i]:
        return 5  # H10
    return 6  # H11: not vouched


def _fire_offered_taken(t: LendTable, i: int) -> int:
    if t.vouched[i]:
        t.state[i] = 3  # delivered
        return 5  # H10
    return 6  # H11: not vouched


def _offered_resend(t: LendTable, i: int) -> int:
    if not t.heard[i]:
        return 11  # H20
    return 12  # H21: heard


def _fire_offered_resend(t: LendTable, i: int) -> int:
    if not t.heard[i]:
        return 11  # H20
    return 12  # H21: heard


def _H01(t: LendTable, i: int) -> int:
    t.heard[i] = True
    return 0


def _H02(t: LendTable, i: int) -> int:
    t.heard[i] = True
    t.vouched[i] = True
    return 1


def _H05(t: LendTable, i: int) -> int:
    t.heard[i] = True
    return 4


def _H12(t: LendTable, i: int) -> int:
    t.state[i] = 4  # returned
    return 7


def _H13(t: LendTable, i: int) -> int:
    t.state[i] = 1  # withdrawn
    return 8


def _H14(t: LendTable, i: int) -> int:
    t.state[i] = 2  # expired
    return 9


def _H15(t: LendTable, i: int) -> int:
    t.state[i] = 5  # lost
    return 10


def _H22(t: LendTable, i: int) -> int:
    return 13


def _H23(t: LendTable, i: int) -> int:
    t.state[i] = 6  # closed
    return 14


def _H24(t: LendTable, i: int) -> int:
    t.state[i] = 6  # closed
    return 15


def _H25(t: LendTable, i: int) -> int:
    t.state[i] = 6  # closed
    return 16


def _H30(t: LendTable, i: int) -> int:
    return 17


def _H31(t: LendTable, i: int) -> int:
    return 18


def _H32(t: LendTable, i: int) -> int:
    return 19


def _H33(t: LendTable, i: int) -> int:
    return 20


def _H34(t: LendTable, i: int) -> int:
    return 21


CELLS: tuple[int | Callable[[LendTable, int], int], ...] = (
    # offered
    8,  # withdraw: H13
    0,  # received: H01
    1,  # checked: H02
    _offered_renewal,  # renewal: H03 H04
    4,  # renewal_again: H05
    _offered_taken,  # taken: H10 H11
    7,  # refused: H12
    20,  # voided: H33
    9,  # deadline: H14
    _offered_resend,  # resend: H20 H21
    10,  # peer_lost: H15
    # withdrawn
    REFUSED,  # withdraw
    19,  # received: H32
    17,  # checked: H30
    19,  # renewal: H32
    19,  # renewal_again: H32
    15,  # taken: H24
    15,  # refused: H24
    14,  # voided: H23
    16,  # deadline: H25
    13,  # resend: H22
    16,  # peer_lost: H25
    # expired
    REFUSED,  # withdraw
    19,  # received: H32
    17,  # checked: H30
    19,  # renewal: H32
    19,  # renewal_again: H32
    15,  # taken: H24
    15,  # refused: H24
    14,  # voided: H23
    16,  # deadline: H25
    13,  # resend: H22
    16,  # peer_lost: H25
    # delivered
    REFUSED,  # withdraw
    19,  # received: H32
    17,  # checked: H30
    19,  # renewal: H32
    19,  # renewal_again: H32
    18,  # taken: H31
    18,  # refused: H31
    20,  # voided: H33
    21,  # deadline: H34
    21,  # resend: H34
    21,  # peer_lost: H34
    # returned
    REFUSED,  # withdraw
    19,  # received: H32
    17,  # checked: H30
    19,  # renewal: H32
    19,  # renewal_again: H32
    18,  # taken: H31
    18,  # refused: H31
    20,  # voided: H33
    21,  # deadline: H34
    21,  # resend: H34
    21,  # peer_lost: H34
    # lost
    REFUSED,  # withdraw
    19,  # received: H32
    17,  # checked: H30
    19,  # renewal: H32
    19,  # renewal_again: H32
    18,  # taken: H31
    18,  # refused: H31
    20,  # voided: H33
    21,  # deadline: H34
    21,  # resend: H34
    21,  # peer_lost: H34
    # closed
    REFUSED,  # withdraw
    19,  # received: H32
    17,  # checked: H30
    19,  # renewal: H32
    19,  # renewal_again: H32
    18,  # taken: H31
    18,  # refused: H31
    20,  # voided: H33
    21,  # deadline: H34
    21,  # resend: H34
    21,  # peer_lost: H34
)
"""For each state and event: the row that answers, or what chooses it."""

BY_ROW: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("H01", ()),
    ("H02", ("vouch",)),
    ("H03", ("extend", "grant")),
    ("H04", ("no_more",)),
    ("H05", ("grant",)),
    ("H10", ("let_go", "tell", "send_over")),
    ("H11", ("stale",)),
    ("H12", ("let_go", "tell", "send_over")),
    ("H13", ("let_go", "tell", "send_withdrawn", "wait_closing")),
    ("H14", ("let_go", "tell", "send_withdrawn", "wait_closing")),
    ("H15", ("let_go", "tell")),
    ("H20", ("send_offer", "wait_resend")),
    ("H21", ()),
    ("H22", ("send_withdrawn", "wait_resend")),
    ("H23", ()),
    ("H24", ("send_over",)),
    ("H25", ()),
    ("H30", ("deny",)),
    ("H31", ("send_over",)),
    ("H32", ("send_withdrawn",)),
    ("H33", ("stale",)),
    ("H34", ()),
)
"""For each row: its id, and its effects, in order."""

CHANGES: dict[int, Callable[[LendTable, int], int]] = {
    0: _H01,
    1: _H02,
    4: _H05,
    7: _H12,
    8: _H13,
    9: _H14,
    10: _H15,
    13: _H22,
    14: _H23,
    15: _H24,
    16: _H25,
    17: _H30,
    18: _H31,
    19: _H32,
    20: _H33,
    21: _H34,
}
"""For a row that is fired without a look at its guard: what makes its changes."""

GUARDED: dict[Callable[[LendTable, int], int], Callable[[LendTable, int], int]] = {
    _offered_renewal: _fire_offered_renewal,
    _offered_taken: _fire_offered_taken,
    _offered_resend: _fire_offered_resend,
}
"""For what chooses a row: what chooses and fires it."""

FIRE: tuple[Callable[[LendTable, int], int], ...] = tuple(
    GUARDED[cell] if not isinstance(cell, int) else _refuse if cell == REFUSED else CHANGES[cell] for cell in CELLS
)
"""For each cell: what fires it."""


class LendTable(Columns):
    """Blocks offered to a peer, seen by the side that has them."""

    __slots__ = ("heard", "renewals", "renewed", "state", "vouched")
    name = "lend"
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
        "report",
        "signal",
    )
    VARS: ClassVar[tuple[str, ...]] = ("renewed", "vouched", "heard")
    GIVEN: ClassVar[tuple[str, ...]] = ()
    PARAMS: ClassVar[tuple[str, ...]] = ("renewals",)
    FIRST: ClassVar[tuple[int, ...]] = (0, 0, 0, 0)
    ROWS = tuple(row_id for row_id, _ in BY_ROW)
    EFFECTS = tuple(effects for _, effects in BY_ROW)
    HOME = frozenset({3, 4, 5, 6})
    INITIAL = 0

    def __init__(self, *, renewals: int = 4) -> None:
        self.renewals = renewals
        self.state: array[int] = array("B")
        self.renewed: array[int] = array("q")
        self.vouched: array[int] = array("B")
        self.heard: array[int] = array("B")
        self._arrays = (self.state, self.renewed, self.vouched, self.heard)

    def renew(self, slot: int, **_: int) -> None:
        """Put the record at `slot` back to its birth; what is given is taken as it comes."""
        self.state[slot] = 0
        self.renewed[slot] = 0
        self.vouched[slot] = 0
        self.heard[slot] = 0

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        row = CELLS[self.state[slot] * 11 + event]
        if not isinstance(row, int):
            row = row(self, slot)
        return row

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        return FIRE[self.state[slot] * 11 + event](self, slot)
