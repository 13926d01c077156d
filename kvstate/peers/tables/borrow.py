# Generated from spec/peers/borrow.toml by `make tables`; do not edit.
# ruff: noqa: ARG001, N802 - all functions of rows are called alike, and as the row is
"""Blocks offered by a peer, seen by the side that reads them."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED


class State(IntEnum):
    """Where a record can be; `spec/peers/borrow.toml` says what each means."""

    FRESH = 0
    OFFERED = 1
    RETURNING = 2
    CLOSED = 3


class Event(IntEnum):
    """What can happen to a record; `spec/peers/borrow.toml` says what each means."""

    ASK = 0  # request
    TAKE = 1  # request
    REFUSE = 2  # request
    OFFER = 3  # report
    GRANTED = 4  # report
    WITHDRAWN = 5  # report
    OVER = 6  # report
    DEADLINE = 7  # report
    RESEND = 8  # report
    RENEW_DUE = 9  # report
    VOUCHED = 10  # signal
    PEER_LOST = 11  # signal


def _refuse(t: BorrowTable, i: int) -> int:
    return REFUSED


def _offered_take(t: BorrowTable, i: int) -> int:
    if t.vouched[i]:
        return 10  # R20
    return REFUSED


def _fire_offered_take(t: BorrowTable, i: int) -> int:
    if t.vouched[i]:
        t.taken[i] = True
        t.state[i] = 2  # returning
        return 10  # R20
    return REFUSED


def _offered_granted(t: BorrowTable, i: int) -> int:
    if t.waiting[i]:
        return 6  # R07
    return 7  # R08: not waiting


def _fire_offered_granted(t: BorrowTable, i: int) -> int:
    if t.waiting[i]:
        t.waiting[i] = False
        return 6  # R07
    return 7  # R08: not waiting


def _offered_deadline(t: BorrowTable, i: int) -> int:
    if not t.vouched[i]:
        return 13  # R23
    return 14  # R24: vouched


def _fire_offered_deadline(t: BorrowTable, i: int) -> int:
    if not t.vouched[i]:
        t.state[i] = 2  # returning
        return 13  # R23
    t.state[i] = 3  # closed
    return 14  # R24: vouched


def _offered_resend(t: BorrowTable, i: int) -> int:
    if t.waiting[i]:
        return 8  # R09
    return 9  # R10: not waiting


def _fire_offered_resend(t: BorrowTable, i: int) -> int:
    if t.waiting[i]:
        return 8  # R09
    return 9  # R10: not waiting


def _offered_renew_due(t: BorrowTable, i: int) -> int:
    asked = t.asked[i]
    renewals = t.renewals
    if asked < renewals:
        return 4  # R05
    if asked == renewals:
        return 5  # R06
    return REFUSED


def _fire_offered_renew_due(t: BorrowTable, i: int) -> int:
    asked = t.asked[i]
    renewals = t.renewals
    if asked < renewals:
        t.asked[i] = asked + 1
        t.waiting[i] = True
        return 4  # R05
    if asked == renewals:
        return 5  # R06
    return REFUSED


def _returning_resend(t: BorrowTable, i: int) -> int:
    if t.taken[i]:
        return 16  # R30
    return 17  # R31: not taken


def _fire_returning_resend(t: BorrowTable, i: int) -> int:
    if t.taken[i]:
        return 16  # R30
    return 17  # R31: not taken


def _R01(t: BorrowTable, i: int) -> int:
    t.state[i] = 1  # offered
    return 0


def _R02(t: BorrowTable, i: int) -> int:
    return 1


def _R03(t: BorrowTable, i: int) -> int:
    return 2


def _R04(t: BorrowTable, i: int) -> int:
    t.vouched[i] = True
    return 3


def _R21(t: BorrowTable, i: int) -> int:
    t.state[i] = 2  # returning
    return 11


def _R22(t: BorrowTable, i: int) -> int:
    t.state[i] = 3  # closed
    return 12


def _R25(t: BorrowTable, i: int) -> int:
    t.state[i] = 3  # closed
    return 15


def _R32(t: BorrowTable, i: int) -> int:
    t.state[i] = 3  # closed
    return 18


def _R33(t: BorrowTable, i: int) -> int:
    t.state[i] = 3  # closed
    return 19


def _R34(t: BorrowTable, i: int) -> int:
    t.state[i] = 3  # closed
    return 20


def _R35(t: BorrowTable, i: int) -> int:
    return 21


def _R40(t: BorrowTable, i: int) -> int:
    t.state[i] = 3  # closed
    return 22


def _R41(t: BorrowTable, i: int) -> int:
    return 23


def _R42(t: BorrowTable, i: int) -> int:
    return 24


def _R43(t: BorrowTable, i: int) -> int:
    return 25


def _R44(t: BorrowTable, i: int) -> int:
    return 26


def _R45(t: BorrowTable, i: int) -> int:
    return 27


CELLS: tuple[int | Callable[[BorrowTable, int], int], ...] = (
    # fresh
    REFUSED,  # ask
    REFUSED,  # take
    REFUSED,  # refuse
    0,  # offer: R01
    25,  # granted: R43
    22,  # withdrawn: R40
    25,  # over: R43
    25,  # deadline: R43
    25,  # resend: R43
    25,  # renew_due: R43
    REFUSED,  # vouched
    27,  # peer_lost: R45
    # offered
    2,  # ask: R03
    _offered_take,  # take: R20
    11,  # refuse: R21
    1,  # offer: R02
    _offered_granted,  # granted: R07 R08
    12,  # withdrawn: R22
    26,  # over: R44
    _offered_deadline,  # deadline: R23 R24
    _offered_resend,  # resend: R09 R10
    _offered_renew_due,  # renew_due: R05 R06
    3,  # vouched: R04
    15,  # peer_lost: R25
    # returning
    REFUSED,  # ask
    REFUSED,  # take
    REFUSED,  # refuse
    21,  # offer: R35
    21,  # granted: R35
    19,  # withdrawn: R33
    18,  # over: R32
    20,  # deadline: R34
    _returning_resend,  # resend: R30 R31
    21,  # renew_due: R35
    REFUSED,  # vouched
    20,  # peer_lost: R34
    # closed
    REFUSED,  # ask
    REFUSED,  # take
    REFUSED,  # refuse
    24,  # offer: R42
    25,  # granted: R43
    23,  # withdrawn: R41
    25,  # over: R43
    25,  # deadline: R43
    25,  # resend: R43
    25,  # renew_due: R43
    REFUSED,  # vouched
    27,  # peer_lost: R45
)
"""For each state and event: the row that answers, or what chooses it."""

BY_ROW: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("R01", ("announce", "send_received", "wait_lease")),
    ("R02", ("send_received",)),
    ("R03", ()),
    ("R04", ()),
    ("R05", ("send_renew", "wait_resend")),
    ("R06", ()),
    ("R07", ("extend",)),
    ("R08", ("stale",)),
    ("R09", ("send_renew", "wait_resend")),
    ("R10", ()),
    ("R20", ("vanish", "deny", "tell_taken", "send_taken", "wait_closing")),
    ("R21", ("vanish", "deny", "tell_refused", "send_refused", "wait_closing")),
    ("R22", ("vanish", "deny", "tell_withdrawn", "send_void")),
    ("R23", ("vanish", "deny", "tell_expired", "send_refused", "wait_closing")),
    ("R24", ("vanish", "deny", "tell_expired")),
    ("R25", ("vanish", "silence", "tell_lost")),
    ("R30", ("send_taken", "wait_resend")),
    ("R31", ("send_refused", "wait_resend")),
    ("R32", ()),
    ("R33", ("send_void",)),
    ("R34", ()),
    ("R35", ()),
    ("R40", ("send_void",)),
    ("R41", ("send_void",)),
    ("R42", ("stale",)),
    ("R43", ("stale",)),
    ("R44", ("stale",)),
    ("R45", ()),
)
"""For each row: its id, and its effects, in order."""

CHANGES: dict[int, Callable[[BorrowTable, int], int]] = {
    0: _R01,
    1: _R02,
    2: _R03,
    3: _R04,
    11: _R21,
    12: _R22,
    15: _R25,
    18: _R32,
    19: _R33,
    20: _R34,
    21: _R35,
    22: _R40,
    23: _R41,
    24: _R42,
    25: _R43,
    26: _R44,
    27: _R45,
}
"""For a row that is fired without a look at its guard: what makes its changes."""

GUARDED: dict[Callable[[BorrowTable, int], int], Callable[[BorrowTable, int], int]] = {
    _offered_take: _fire_offered_take,
    _offered_granted: _fire_offered_granted,
    _offered_deadline: _fire_offered_deadline,
    _offered_resend: _fire_offered_resend,
    _offered_renew_due: _fire_offered_renew_due,
    _returning_resend: _fire_returning_resend,
}
"""For what chooses a row: what chooses and fires it."""

FIRE: tuple[Callable[[BorrowTable, int], int], ...] = tuple(
    GUARDED[cell] if not isinstance(cell, int) else _refuse if cell == REFUSED else CHANGES[cell] for cell in CELLS
)
"""For each cell: what fires it."""


class BorrowTable(Columns):
    """Blocks offered by a peer, seen by the side that reads them."""

    __slots__ = ("asked", "renewals", "state", "taken", "vouched", "waiting")
    name = "borrow"
    STATES = tuple(state.name.lower() for state in State)
    EVENTS = tuple(event.name.lower() for event in Event)
    KINDS: ClassVar[tuple[str, ...]] = (
        "request",
        "request",
        "request",
        "report",
        "report",
        "report",
        "report",
        "report",
        "report",
        "report",
        "signal",
        "signal",
    )
    VARS: ClassVar[tuple[str, ...]] = ("vouched", "taken", "asked", "waiting")
    GIVEN: ClassVar[tuple[str, ...]] = ()
    PARAMS: ClassVar[tuple[str, ...]] = ("renewals",)
    FIRST: ClassVar[tuple[int, ...]] = (0, 0, 0, 0, 0)
    ROWS = tuple(row_id for row_id, _ in BY_ROW)
    EFFECTS = tuple(effects for _, effects in BY_ROW)
    HOME = frozenset({3})
    INITIAL = 0

    def __init__(self, *, renewals: int = 4) -> None:
        self.renewals = renewals
        self.state: array[int] = array("B")
        self.vouched: array[int] = array("B")
        self.taken: array[int] = array("B")
        self.asked: array[int] = array("q")
        self.waiting: array[int] = array("B")
        self._arrays = (self.state, self.vouched, self.taken, self.asked, self.waiting)

    def renew(self, slot: int, **_: int) -> None:
        """Put the record at `slot` back to its birth; what is given is taken as it comes."""
        self.state[slot] = 0
        self.vouched[slot] = 0
        self.taken[slot] = 0
        self.asked[slot] = 0
        self.waiting[slot] = 0

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        row = CELLS[self.state[slot] * 12 + event]
        if not isinstance(row, int):
            row = row(self, slot)
        return row

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        return FIRE[self.state[slot] * 12 + event](self, slot)
