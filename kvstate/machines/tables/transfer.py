# Generated from spec/transfer.toml by `make tables`; do not edit.
# ruff: noqa: ARG001, N802 - all functions of rows are called alike, and as the row is
"""One batch of a load: fetched, checked and published as a whole, or not at all."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED


class State(IntEnum):
    """Where a record can be; `spec/transfer.toml` says what each means."""

    PLANNED = 0
    FETCHING = 1
    VERIFYING = 2
    VERIFIED = 3
    RETRY_WAIT = 4
    ROLLING_BACK = 5
    ABORTING = 6
    COMMITTED = 7
    FELL_BACK = 8
    ABORTED = 9


class Event(IntEnum):
    """What can happen to a record; `spec/transfer.toml` says what each means."""

    TURN = 0  # request
    RETRY_DUE = 1  # report
    START = 2  # signal
    CUT = 3  # signal
    EXPIRE = 4  # signal
    ABORT = 5  # signal
    LAPSE = 6  # signal
    PART_OK = 7  # signal
    PART_FAILED = 8  # signal
    PART_BROKEN = 9  # signal
    PART_LOST = 10  # signal


def _refuse(t: TransferTable, i: int) -> int:
    return REFUSED


def _fetching_part_ok(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        return 3  # X10
    if left == 1:
        return 4  # X11
    return REFUSED


def _fire_fetching_part_ok(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        t.left[i] = left - 1
        return 3  # X10
    if left == 1:
        t.left[i] = t.parts[i]
        t.state[i] = 2  # verifying
        return 4  # X11
    return REFUSED


def _fetching_part_failed(t: TransferTable, i: int) -> int:
    again = t.again[i]
    attempt = t.attempt[i]
    attempts = t.attempts
    left = t.left[i]
    if left > 1:
        return 7  # X13
    if left == 1 and attempt < attempts and again:
        return 10  # X16
    if left == 1 and not (attempt < attempts and again):
        return 11  # X17
    return REFUSED


def _fire_fetching_part_failed(t: TransferTable, i: int) -> int:
    again = t.again[i]
    attempt = t.attempt[i]
    attempts = t.attempts
    left = t.left[i]
    if left > 1:
        t.left[i] = left - 1
        t.state[i] = 5  # rolling_back
        return 7  # X13
    if left == 1 and attempt < attempts and again:
        t.left[i] = 0
        t.state[i] = 4  # retry_wait
        return 10  # X16
    if left == 1 and not (attempt < attempts and again):
        t.left[i] = 0
        t.told[i] = True
        t.state[i] = 8  # fell_back
        return 11  # X17
    return REFUSED


def _fetching_part_broken(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        return 8  # X14
    if left == 1:
        return 12  # X18
    return REFUSED


def _fire_fetching_part_broken(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        t.left[i] = left - 1
        t.again[i] = False
        t.state[i] = 5  # rolling_back
        return 8  # X14
    if left == 1:
        t.left[i] = 0
        t.told[i] = True
        t.state[i] = 8  # fell_back
        return 12  # X18
    return REFUSED


def _fetching_part_lost(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        return 9  # X15
    if left == 1:
        return 13  # X19
    return REFUSED


def _fire_fetching_part_lost(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        t.left[i] = left - 1
        t.again[i] = False
        t.unproved[i] = True
        t.state[i] = 5  # rolling_back
        return 9  # X15
    if left == 1:
        t.left[i] = 0
        t.told[i] = True
        t.state[i] = 8  # fell_back
        return 13  # X19
    return REFUSED


def _verifying_part_ok(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        return 3  # X10
    if left == 1:
        return 5  # X12
    return REFUSED


def _fire_verifying_part_ok(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        t.left[i] = left - 1
        return 3  # X10
    if left == 1:
        t.left[i] = 0
        t.state[i] = 3  # verified
        return 5  # X12
    return REFUSED


def _rolling_back_cut(t: TransferTable, i: int) -> int:
    if not t.told[i]:
        return 28  # X40
    return 39  # X70: told


def _fire_rolling_back_cut(t: TransferTable, i: int) -> int:
    if not t.told[i]:
        t.told[i] = True
        t.again[i] = False
        return 28  # X40
    return 39  # X70: told


def _rolling_back_expire(t: TransferTable, i: int) -> int:
    if not t.told[i]:
        return 29  # X43
    return 39  # X70: told


def _fire_rolling_back_expire(t: TransferTable, i: int) -> int:
    if not t.told[i]:
        t.told[i] = True
        t.again[i] = False
        return 29  # X43
    return 39  # X70: told


def _rolling_back_lapse(t: TransferTable, i: int) -> int:
    if t.told[i]:
        return 31  # X42
    return REFUSED


def _fire_rolling_back_lapse(t: TransferTable, i: int) -> int:
    if t.told[i]:
        t.left[i] = 0
        t.state[i] = 8  # fell_back
        return 31  # X42
    return REFUSED


def _rolling_back_part_ok(t: TransferTable, i: int) -> int:
    again = t.again[i]
    attempt = t.attempt[i]
    attempts = t.attempts
    left = t.left[i]
    told = t.told[i]
    unproved = t.unproved[i]
    if left > 1:
        return 18  # X30
    if left == 1 and told:
        return 21  # X33
    if left == 1 and attempt < attempts and again:
        return 22  # X34
    if left == 1 and not told and not (attempt < attempts and again) and not unproved:
        return 23  # X35
    if left == 1 and not told and unproved:
        return 24  # X36
    return REFUSED


def _fire_rolling_back_part_ok(t: TransferTable, i: int) -> int:
    again = t.again[i]
    attempt = t.attempt[i]
    attempts = t.attempts
    left = t.left[i]
    told = t.told[i]
    unproved = t.unproved[i]
    if left > 1:
        t.left[i] = left - 1
        return 18  # X30
    if left == 1 and told:
        t.left[i] = 0
        t.state[i] = 8  # fell_back
        return 21  # X33
    if left == 1 and attempt < attempts and again:
        t.left[i] = 0
        t.state[i] = 4  # retry_wait
        return 22  # X34
    if left == 1 and not told and not (attempt < attempts and again) and not unproved:
        t.left[i] = 0
        t.told[i] = True
        t.state[i] = 8  # fell_back
        return 23  # X35
    if left == 1 and not told and unproved:
        t.left[i] = 0
        t.told[i] = True
        t.state[i] = 8  # fell_back
        return 24  # X36
    return REFUSED


def _rolling_back_part_broken(t: TransferTable, i: int) -> int:
    left = t.left[i]
    told = t.told[i]
    unproved = t.unproved[i]
    if left > 1:
        return 19  # X31
    if left == 1 and told:
        return 21  # X33
    if left == 1 and not told and not unproved:
        return 25  # X37
    if left == 1 and not told and unproved:
        return 26  # X38
    return REFUSED


def _fire_rolling_back_part_broken(t: TransferTable, i: int) -> int:
    left = t.left[i]
    told = t.told[i]
    unproved = t.unproved[i]
    if left > 1:
        t.left[i] = left - 1
        t.again[i] = False
        return 19  # X31
    if left == 1 and told:
        t.left[i] = 0
        t.state[i] = 8  # fell_back
        return 21  # X33
    if left == 1 and not told and not unproved:
        t.left[i] = 0
        t.told[i] = True
        t.state[i] = 8  # fell_back
        return 25  # X37
    if left == 1 and not told and unproved:
        t.left[i] = 0
        t.told[i] = True
        t.state[i] = 8  # fell_back
        return 26  # X38
    return REFUSED


def _rolling_back_part_lost(t: TransferTable, i: int) -> int:
    left = t.left[i]
    told = t.told[i]
    if left > 1:
        return 20  # X32
    if left == 1 and told:
        return 21  # X33
    if left == 1 and not told:
        return 27  # X39
    return REFUSED


def _fire_rolling_back_part_lost(t: TransferTable, i: int) -> int:
    left = t.left[i]
    told = t.told[i]
    if left > 1:
        t.left[i] = left - 1
        t.again[i] = False
        t.unproved[i] = True
        return 20  # X32
    if left == 1 and told:
        t.left[i] = 0
        t.state[i] = 8  # fell_back
        return 21  # X33
    if left == 1 and not told:
        t.left[i] = 0
        t.told[i] = True
        t.state[i] = 8  # fell_back
        return 27  # X39
    return REFUSED


def _aborting_part_ok(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        return 35  # X60
    if left == 1:
        return 37  # X61
    return REFUSED


def _fire_aborting_part_ok(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        t.left[i] = left - 1
        return 35  # X60
    if left == 1:
        t.left[i] = 0
        t.state[i] = 9  # aborted
        return 37  # X61
    return REFUSED


def _aborting_part_broken(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        return 36  # X63
    if left == 1:
        return 37  # X61
    return REFUSED


def _fire_aborting_part_broken(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        t.left[i] = left - 1
        return 36  # X63
    if left == 1:
        t.left[i] = 0
        t.state[i] = 9  # aborted
        return 37  # X61
    return REFUSED


def _X01(t: TransferTable, i: int) -> int:
    t.left[i] = t.parts[i]
    t.attempt[i] = 1
    t.state[i] = 1  # fetching
    return 0


def _X02(t: TransferTable, i: int) -> int:
    t.told[i] = True
    t.state[i] = 8  # fell_back
    return 1


def _X03(t: TransferTable, i: int) -> int:
    t.state[i] = 9  # aborted
    return 2


def _X22(t: TransferTable, i: int) -> int:
    t.state[i] = 7  # committed
    return 6


def _X20(t: TransferTable, i: int) -> int:
    t.told[i] = True
    t.again[i] = False
    t.state[i] = 5  # rolling_back
    return 14


def _X24(t: TransferTable, i: int) -> int:
    t.told[i] = True
    t.again[i] = False
    t.state[i] = 5  # rolling_back
    return 15


def _X21(t: TransferTable, i: int) -> int:
    t.state[i] = 6  # aborting
    return 16


def _X23(t: TransferTable, i: int) -> int:
    t.told[i] = True
    t.state[i] = 8  # fell_back
    return 17


def _X41(t: TransferTable, i: int) -> int:
    t.state[i] = 6  # aborting
    return 30


def _X50(t: TransferTable, i: int) -> int:
    t.left[i] = t.parts[i]
    t.attempt[i] = t.attempt[i] + 1
    t.state[i] = 1  # fetching
    return 32


def _X51(t: TransferTable, i: int) -> int:
    t.told[i] = True
    t.state[i] = 8  # fell_back
    return 33


def _X52(t: TransferTable, i: int) -> int:
    t.state[i] = 9  # aborted
    return 34


def _X62(t: TransferTable, i: int) -> int:
    t.left[i] = 0
    t.state[i] = 9  # aborted
    return 38


def _X71(t: TransferTable, i: int) -> int:
    return 40


def _X72(t: TransferTable, i: int) -> int:
    return 41


CELLS: tuple[int | Callable[[TransferTable, int], int], ...] = (
    # planned
    REFUSED,  # turn
    41,  # retry_due: X72
    0,  # start: X01
    1,  # cut: X02
    1,  # expire: X02
    2,  # abort: X03
    REFUSED,  # lapse
    REFUSED,  # part_ok
    REFUSED,  # part_failed
    REFUSED,  # part_broken
    REFUSED,  # part_lost
    # fetching
    REFUSED,  # turn
    41,  # retry_due: X72
    REFUSED,  # start
    14,  # cut: X20
    15,  # expire: X24
    16,  # abort: X21
    REFUSED,  # lapse
    _fetching_part_ok,  # part_ok: X10 X11
    _fetching_part_failed,  # part_failed: X13 X16 X17
    _fetching_part_broken,  # part_broken: X14 X18
    _fetching_part_lost,  # part_lost: X15 X19
    # verifying
    REFUSED,  # turn
    41,  # retry_due: X72
    REFUSED,  # start
    14,  # cut: X20
    15,  # expire: X24
    16,  # abort: X21
    REFUSED,  # lapse
    _verifying_part_ok,  # part_ok: X10 X12
    _fetching_part_failed,  # part_failed: X13 X16 X17
    _fetching_part_broken,  # part_broken: X14 X18
    _fetching_part_lost,  # part_lost: X15 X19
    # verified
    6,  # turn: X22
    41,  # retry_due: X72
    REFUSED,  # start
    17,  # cut: X23
    17,  # expire: X23
    2,  # abort: X03
    REFUSED,  # lapse
    REFUSED,  # part_ok
    REFUSED,  # part_failed
    REFUSED,  # part_broken
    REFUSED,  # part_lost
    # retry_wait
    REFUSED,  # turn
    32,  # retry_due: X50
    REFUSED,  # start
    33,  # cut: X51
    33,  # expire: X51
    34,  # abort: X52
    REFUSED,  # lapse
    REFUSED,  # part_ok
    REFUSED,  # part_failed
    REFUSED,  # part_broken
    REFUSED,  # part_lost
    # rolling_back
    REFUSED,  # turn
    41,  # retry_due: X72
    REFUSED,  # start
    _rolling_back_cut,  # cut: X40 X70
    _rolling_back_expire,  # expire: X43 X70
    30,  # abort: X41
    _rolling_back_lapse,  # lapse: X42
    _rolling_back_part_ok,  # part_ok: X30 X33 X34 X35 X36
    _rolling_back_part_ok,  # part_failed: X30 X33 X34 X35 X36
    _rolling_back_part_broken,  # part_broken: X31 X33 X37 X38
    _rolling_back_part_lost,  # part_lost: X32 X33 X39
    # aborting
    REFUSED,  # turn
    41,  # retry_due: X72
    REFUSED,  # start
    40,  # cut: X71
    40,  # expire: X71
    REFUSED,  # abort
    38,  # lapse: X62
    _aborting_part_ok,  # part_ok: X60 X61
    _aborting_part_ok,  # part_failed: X60 X61
    _aborting_part_broken,  # part_broken: X63 X61
    _aborting_part_ok,  # part_lost: X60 X61
    # committed
    REFUSED,  # turn
    41,  # retry_due: X72
    REFUSED,  # start
    40,  # cut: X71
    40,  # expire: X71
    REFUSED,  # abort
    REFUSED,  # lapse
    REFUSED,  # part_ok
    REFUSED,  # part_failed
    REFUSED,  # part_broken
    REFUSED,  # part_lost
    # fell_back
    REFUSED,  # turn
    41,  # retry_due: X72
    REFUSED,  # start
    40,  # cut: X71
    40,  # expire: X71
    REFUSED,  # abort
    REFUSED,  # lapse
    REFUSED,  # part_ok
    REFUSED,  # part_failed
    REFUSED,  # part_broken
    REFUSED,  # part_lost
    # aborted
    REFUSED,  # turn
    41,  # retry_due: X72
    REFUSED,  # start
    40,  # cut: X71
    40,  # expire: X71
    REFUSED,  # abort
    REFUSED,  # lapse
    REFUSED,  # part_ok
    REFUSED,  # part_failed
    REFUSED,  # part_broken
    REFUSED,  # part_lost
)
"""For each state and event: the row that answers, or what chooses it."""

BY_ROW: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("X01", ("launch",)),
    ("X02", ("rollback", "unpin", "fell", "over")),
    ("X03", ("over",)),
    ("X10", ()),
    ("X11", ("verify",)),
    ("X12", ("tell_verified",)),
    ("X22", ("commit", "name", "unpin", "tell_committed", "over")),
    ("X13", ("ask_cancel",)),
    ("X14", ("condemn", "ask_cancel")),
    ("X15", ("ask_cancel",)),
    ("X16", ("wait_retry",)),
    ("X17", ("rollback", "cool", "unpin", "fell", "over")),
    ("X18", ("rollback", "condemn", "cool", "unpin", "fell", "over")),
    ("X19", ("leave", "cool", "unpin", "fell", "over")),
    ("X20", ("leave", "ask_cancel", "unpin", "fell")),
    ("X24", ("leave", "ask_cancel", "cool", "unpin", "fell")),
    ("X21", ("ask_cancel",)),
    ("X23", ("rollback", "unpin", "fell", "over")),
    ("X30", ()),
    ("X31", ("condemn",)),
    ("X32", ()),
    ("X33", ("condemn", "cool_lost", "over")),
    ("X34", ("wait_retry",)),
    ("X35", ("rollback", "cool", "unpin", "fell", "over")),
    ("X36", ("leave", "cool", "unpin", "fell", "over")),
    ("X37", ("rollback", "condemn", "cool", "unpin", "fell", "over")),
    ("X38", ("leave", "condemn", "cool", "unpin", "fell", "over")),
    ("X39", ("leave", "cool", "unpin", "fell", "over")),
    ("X40", ("leave", "cool_lost", "unpin", "fell")),
    ("X43", ("leave", "cool", "unpin", "fell")),
    ("X41", ()),
    ("X42", ("give_up", "cool_lost", "over")),
    ("X50", ("launch",)),
    ("X51", ("rollback", "cool", "unpin", "fell", "over")),
    ("X52", ("over",)),
    ("X60", ()),
    ("X63", ("condemn",)),
    ("X61", ("condemn", "cool_lost", "over")),
    ("X62", ("give_up", "cool_lost", "over")),
    ("X70", ()),
    ("X71", ()),
    ("X72", ()),
)
"""For each row: its id, and its effects, in order."""

CHANGES: dict[int, Callable[[TransferTable, int], int]] = {
    0: _X01,
    1: _X02,
    2: _X03,
    6: _X22,
    14: _X20,
    15: _X24,
    16: _X21,
    17: _X23,
    30: _X41,
    32: _X50,
    33: _X51,
    34: _X52,
    38: _X62,
    40: _X71,
    41: _X72,
}
"""For a row that is fired without a look at its guard: what makes its changes."""

GUARDED: dict[Callable[[TransferTable, int], int], Callable[[TransferTable, int], int]] = {
    _fetching_part_ok: _fire_fetching_part_ok,
    _fetching_part_failed: _fire_fetching_part_failed,
    _fetching_part_broken: _fire_fetching_part_broken,
    _fetching_part_lost: _fire_fetching_part_lost,
    _verifying_part_ok: _fire_verifying_part_ok,
    _rolling_back_cut: _fire_rolling_back_cut,
    _rolling_back_expire: _fire_rolling_back_expire,
    _rolling_back_lapse: _fire_rolling_back_lapse,
    _rolling_back_part_ok: _fire_rolling_back_part_ok,
    _rolling_back_part_broken: _fire_rolling_back_part_broken,
    _rolling_back_part_lost: _fire_rolling_back_part_lost,
    _aborting_part_ok: _fire_aborting_part_ok,
    _aborting_part_broken: _fire_aborting_part_broken,
}
"""For what chooses a row: what chooses and fires it."""

FIRE: tuple[Callable[[TransferTable, int], int], ...] = tuple(
    GUARDED[cell] if not isinstance(cell, int) else _refuse if cell == REFUSED else CHANGES[cell] for cell in CELLS
)
"""For each cell: what fires it."""


class TransferTable(Columns):
    """One batch of a load: fetched, checked and published as a whole, or not at all."""

    __slots__ = ("again", "attempt", "attempts", "left", "parts", "state", "told", "unproved")
    name = "transfer"
    STATES = tuple(state.name.lower() for state in State)
    EVENTS = tuple(event.name.lower() for event in Event)
    KINDS: ClassVar[tuple[str, ...]] = (
        "request",
        "report",
        "signal",
        "signal",
        "signal",
        "signal",
        "signal",
        "signal",
        "signal",
        "signal",
        "signal",
    )
    VARS: ClassVar[tuple[str, ...]] = ("parts", "left", "attempt", "again", "told", "unproved")
    GIVEN: ClassVar[tuple[str, ...]] = ("parts",)
    PARAMS: ClassVar[tuple[str, ...]] = ("attempts",)
    FIRST: ClassVar[tuple[int, ...]] = (0, 0, 0, 0, 1, 0, 0)
    ROWS = tuple(row_id for row_id, _ in BY_ROW)
    EFFECTS = tuple(effects for _, effects in BY_ROW)
    HOME = frozenset({7, 8, 9})
    INITIAL = 0

    def __init__(self, *, attempts: int = 2) -> None:
        self.attempts = attempts
        self.state: array[int] = array("B")
        self.parts: array[int] = array("q")
        self.left: array[int] = array("q")
        self.attempt: array[int] = array("q")
        self.again: array[int] = array("B")
        self.told: array[int] = array("B")
        self.unproved: array[int] = array("B")
        self._arrays = (self.state, self.parts, self.left, self.attempt, self.again, self.told, self.unproved)

    def renew(self, slot: int, **given: int) -> None:
        """Put the record at `slot` back to its birth; what is given is taken as it comes."""
        self.parts[slot] = given["parts"]
        self.state[slot] = 0
        self.left[slot] = 0
        self.attempt[slot] = 0
        self.again[slot] = 1
        self.told[slot] = 0
        self.unproved[slot] = 0

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        row = CELLS[self.state[slot] * 11 + event]
        if not isinstance(row, int):
            row = row(self, slot)
        return row

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        return FIRE[self.state[slot] * 11 + event](self, slot)
