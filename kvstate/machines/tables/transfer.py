# Generated from spec/transfer.toml by `make tables`; do not edit.
# ruff: noqa: N802 - the function of a row is called as the row is
"""One batch of a load: fetched, checked and published as a whole, or not at all."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED


class State(IntEnum):
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


def _fetching_part_ok(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        return 3  # X10
    if left == 1:
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


def _fetching_part_broken(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        return 8  # X14
    if left == 1:
        return 12  # X18
    return REFUSED


def _fetching_part_lost(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        return 9  # X15
    if left == 1:
        return 13  # X19
    return REFUSED


def _verifying_part_ok(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        return 3  # X10
    if left == 1:
        return 5  # X12
    return REFUSED


def _rolling_back_cut(t: TransferTable, i: int) -> int:
    if not t.told[i]:
        return 28  # X40
    return 39  # X70: told


def _rolling_back_expire(t: TransferTable, i: int) -> int:
    if not t.told[i]:
        return 29  # X43
    return 39  # X70: told


def _rolling_back_lapse(t: TransferTable, i: int) -> int:
    if t.told[i]:
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


def _aborting_part_ok(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        return 35  # X60
    if left == 1:
        return 37  # X61
    return REFUSED


def _aborting_part_broken(t: TransferTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        return 36  # X63
    if left == 1:
        return 37  # X61
    return REFUSED


def _X01(t: TransferTable, i: int) -> None:
    t.left[i] = t.parts[i]
    t.attempt[i] = 1
    t.state[i] = 1  # fetching


def _X02(t: TransferTable, i: int) -> None:
    t.told[i] = True
    t.state[i] = 8  # fell_back


def _X03(t: TransferTable, i: int) -> None:
    t.state[i] = 9  # aborted


def _X10(t: TransferTable, i: int) -> None:
    t.left[i] = t.left[i] - 1


def _X11(t: TransferTable, i: int) -> None:
    t.left[i] = t.parts[i]
    t.state[i] = 2  # verifying


def _X12(t: TransferTable, i: int) -> None:
    t.left[i] = 0
    t.state[i] = 3  # verified


def _X22(t: TransferTable, i: int) -> None:
    t.state[i] = 7  # committed


def _X13(t: TransferTable, i: int) -> None:
    t.left[i] = t.left[i] - 1
    t.state[i] = 5  # rolling_back


def _X14(t: TransferTable, i: int) -> None:
    t.left[i] = t.left[i] - 1
    t.again[i] = False
    t.state[i] = 5  # rolling_back


def _X15(t: TransferTable, i: int) -> None:
    t.left[i] = t.left[i] - 1
    t.again[i] = False
    t.unproved[i] = True
    t.state[i] = 5  # rolling_back


def _X16(t: TransferTable, i: int) -> None:
    t.left[i] = 0
    t.state[i] = 4  # retry_wait


def _X17(t: TransferTable, i: int) -> None:
    t.left[i] = 0
    t.told[i] = True
    t.state[i] = 8  # fell_back


def _X18(t: TransferTable, i: int) -> None:
    t.left[i] = 0
    t.told[i] = True
    t.state[i] = 8  # fell_back


def _X19(t: TransferTable, i: int) -> None:
    t.left[i] = 0
    t.told[i] = True
    t.state[i] = 8  # fell_back


def _X20(t: TransferTable, i: int) -> None:
    t.told[i] = True
    t.again[i] = False
    t.state[i] = 5  # rolling_back


def _X24(t: TransferTable, i: int) -> None:
    t.told[i] = True
    t.again[i] = False
    t.state[i] = 5  # rolling_back


def _X21(t: TransferTable, i: int) -> None:
    t.state[i] = 6  # aborting


def _X23(t: TransferTable, i: int) -> None:
    t.told[i] = True
    t.state[i] = 8  # fell_back


def _X30(t: TransferTable, i: int) -> None:
    t.left[i] = t.left[i] - 1


def _X31(t: TransferTable, i: int) -> None:
    t.left[i] = t.left[i] - 1
    t.again[i] = False


def _X32(t: TransferTable, i: int) -> None:
    t.left[i] = t.left[i] - 1
    t.again[i] = False
    t.unproved[i] = True


def _X33(t: TransferTable, i: int) -> None:
    t.left[i] = 0
    t.state[i] = 8  # fell_back


def _X34(t: TransferTable, i: int) -> None:
    t.left[i] = 0
    t.state[i] = 4  # retry_wait


def _X35(t: TransferTable, i: int) -> None:
    t.left[i] = 0
    t.told[i] = True
    t.state[i] = 8  # fell_back


def _X36(t: TransferTable, i: int) -> None:
    t.left[i] = 0
    t.told[i] = True
    t.state[i] = 8  # fell_back


def _X37(t: TransferTable, i: int) -> None:
    t.left[i] = 0
    t.told[i] = True
    t.state[i] = 8  # fell_back


def _X38(t: TransferTable, i: int) -> None:
    t.left[i] = 0
    t.told[i] = True
    t.state[i] = 8  # fell_back


def _X39(t: TransferTable, i: int) -> None:
    t.left[i] = 0
    t.told[i] = True
    t.state[i] = 8  # fell_back


def _X40(t: TransferTable, i: int) -> None:
    t.told[i] = True
    t.again[i] = False


def _X43(t: TransferTable, i: int) -> None:
    t.told[i] = True
    t.again[i] = False


def _X41(t: TransferTable, i: int) -> None:
    t.state[i] = 6  # aborting


def _X42(t: TransferTable, i: int) -> None:
    t.left[i] = 0
    t.state[i] = 8  # fell_back


def _X50(t: TransferTable, i: int) -> None:
    t.left[i] = t.parts[i]
    t.attempt[i] = t.attempt[i] + 1
    t.state[i] = 1  # fetching


def _X51(t: TransferTable, i: int) -> None:
    t.told[i] = True
    t.state[i] = 8  # fell_back


def _X52(t: TransferTable, i: int) -> None:
    t.state[i] = 9  # aborted


def _X60(t: TransferTable, i: int) -> None:
    t.left[i] = t.left[i] - 1


def _X63(t: TransferTable, i: int) -> None:
    t.left[i] = t.left[i] - 1


def _X61(t: TransferTable, i: int) -> None:
    t.left[i] = 0
    t.state[i] = 9  # aborted


def _X62(t: TransferTable, i: int) -> None:
    t.left[i] = 0
    t.state[i] = 9  # aborted


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

BY_ROW: tuple[tuple[str, Callable[[TransferTable, int], None] | None, tuple[str, ...]], ...] = (
    ("X01", _X01, ("launch",)),
    ("X02", _X02, ("rollback", "unpin", "fell", "over")),
    ("X03", _X03, ("over",)),
    ("X10", _X10, ()),
    ("X11", _X11, ("verify",)),
    ("X12", _X12, ("tell_verified",)),
    ("X22", _X22, ("commit", "name", "unpin", "tell_committed", "over")),
    ("X13", _X13, ("ask_cancel",)),
    ("X14", _X14, ("condemn", "ask_cancel")),
    ("X15", _X15, ("ask_cancel",)),
    ("X16", _X16, ("wait_retry",)),
    ("X17", _X17, ("rollback", "cool", "unpin", "fell", "over")),
    ("X18", _X18, ("rollback", "condemn", "cool", "unpin", "fell", "over")),
    ("X19", _X19, ("leave", "cool", "unpin", "fell", "over")),
    ("X20", _X20, ("leave", "ask_cancel", "unpin", "fell")),
    ("X24", _X24, ("leave", "ask_cancel", "cool", "unpin", "fell")),
    ("X21", _X21, ("ask_cancel",)),
    ("X23", _X23, ("rollback", "unpin", "fell", "over")),
    ("X30", _X30, ()),
    ("X31", _X31, ("condemn",)),
    ("X32", _X32, ()),
    ("X33", _X33, ("condemn", "cool_lost", "over")),
    ("X34", _X34, ("wait_retry",)),
    ("X35", _X35, ("rollback", "cool", "unpin", "fell", "over")),
    ("X36", _X36, ("leave", "cool", "unpin", "fell", "over")),
    ("X37", _X37, ("rollback", "condemn", "cool", "unpin", "fell", "over")),
    ("X38", _X38, ("leave", "condemn", "cool", "unpin", "fell", "over")),
    ("X39", _X39, ("leave", "cool", "unpin", "fell", "over")),
    ("X40", _X40, ("leave", "cool_lost", "unpin", "fell")),
    ("X43", _X43, ("leave", "cool", "unpin", "fell")),
    ("X41", _X41, ()),
    ("X42", _X42, ("give_up", "cool_lost", "over")),
    ("X50", _X50, ("launch",)),
    ("X51", _X51, ("rollback", "cool", "unpin", "fell", "over")),
    ("X52", _X52, ("over",)),
    ("X60", _X60, ()),
    ("X63", _X63, ("condemn",)),
    ("X61", _X61, ("condemn", "cool_lost", "over")),
    ("X62", _X62, ("give_up", "cool_lost", "over")),
    ("X70", None, ()),
    ("X71", None, ()),
    ("X72", None, ()),
)
"""For each row: its id, what it changes (None where it changes nothing), and its effects, in order."""

APPLY = tuple(change for _, change, _ in BY_ROW)


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
    ROWS = tuple(row_id for row_id, _, _ in BY_ROW)
    EFFECTS = tuple(effects for _, _, effects in BY_ROW)
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

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        row = CELLS[self.state[slot] * 11 + event]
        if not isinstance(row, int):
            row = row(self, slot)
        return row

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        row = CELLS[self.state[slot] * 11 + event]
        if not isinstance(row, int):
            row = row(self, slot)
        if row >= 0:
            change = APPLY[row]
            if change is not None:
                change(self, slot)
        return row
