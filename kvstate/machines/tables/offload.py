# Generated from spec/offload.toml by `make tables`; do not edit.
# ruff: noqa: ARG001, N802 - all functions of rows are called alike, and as the row is
"""A job that moves sealed blocks one tier down and makes them durable."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED


class State(IntEnum):
    """Where a record can be; `spec/offload.toml` says what each means."""

    QUEUED = 0
    COPYING = 1
    PERSISTING = 2
    RETRY_WAIT = 3
    CANCELLING = 4
    COMMITTED = 5
    FAILED = 6
    CANCELLED = 7


class Event(IntEnum):
    """What can happen to a record; `spec/offload.toml` says what each means."""

    START = 0  # request
    CANCEL = 1  # request
    DEADLINE = 2  # report
    LAPSE = 3  # report
    RETRY_DUE = 4  # report
    PART_OK = 5  # signal
    PART_FAILED = 6  # signal
    PART_BROKEN = 7  # signal
    PART_LOST = 8  # signal
    TAINT = 9  # signal


def _refuse(t: OffloadTable, i: int) -> int:
    return REFUSED


def _copying_part_ok(t: OffloadTable, i: int) -> int:
    again = t.again[i]
    attempt = t.attempt[i]
    attempts = t.attempts
    failed = t.failed[i]
    left = t.left[i]
    if left > 1:
        return 3  # O10
    if left == 1 and not failed:
        return 6  # O11
    if left == 1 and failed and attempt < attempts and again:
        return 7  # O12
    if left == 1 and failed and not (attempt < attempts and again):
        return 11  # O13
    return REFUSED


def _fire_copying_part_ok(t: OffloadTable, i: int) -> int:
    again = t.again[i]
    attempt = t.attempt[i]
    attempts = t.attempts
    failed = t.failed[i]
    left = t.left[i]
    if left > 1:
        t.left[i] = left - 1
        return 3  # O10
    if left == 1 and not failed:
        t.left[i] = t.parts[i]
        t.copied[i] = True
        t.state[i] = 2  # persisting
        return 6  # O11
    if left == 1 and failed and attempt < attempts and again:
        t.left[i] = 0
        t.failed[i] = False
        t.state[i] = 3  # retry_wait
        return 7  # O12
    if left == 1 and failed and not (attempt < attempts and again):
        t.left[i] = 0
        t.state[i] = 6  # failed
        return 11  # O13
    return REFUSED


def _copying_part_failed(t: OffloadTable, i: int) -> int:
    again = t.again[i]
    attempt = t.attempt[i]
    attempts = t.attempts
    left = t.left[i]
    if left > 1:
        return 4  # O14
    if left == 1 and attempt < attempts and again:
        return 8  # O15
    if left == 1 and not (attempt < attempts and again):
        return 12  # O16
    return REFUSED


def _fire_copying_part_failed(t: OffloadTable, i: int) -> int:
    again = t.again[i]
    attempt = t.attempt[i]
    attempts = t.attempts
    left = t.left[i]
    if left > 1:
        t.left[i] = left - 1
        t.failed[i] = True
        return 4  # O14
    if left == 1 and attempt < attempts and again:
        t.left[i] = 0
        t.failed[i] = False
        t.state[i] = 3  # retry_wait
        return 8  # O15
    if left == 1 and not (attempt < attempts and again):
        t.left[i] = 0
        t.state[i] = 6  # failed
        return 12  # O16
    return REFUSED


def _copying_part_broken(t: OffloadTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        return 5  # O17
    if left == 1:
        return 13  # O18
    return REFUSED


def _fire_copying_part_broken(t: OffloadTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        t.left[i] = left - 1
        t.failed[i] = True
        t.again[i] = False
        return 5  # O17
    if left == 1:
        t.left[i] = 0
        t.state[i] = 6  # failed
        return 13  # O18
    return REFUSED


def _persisting_part_ok(t: OffloadTable, i: int) -> int:
    again = t.again[i]
    attempt = t.attempt[i]
    attempts = t.attempts
    failed = t.failed[i]
    left = t.left[i]
    if left > 1:
        return 3  # O10
    if left == 1 and failed and attempt < attempts and again:
        return 7  # O12
    if left == 1 and failed and not (attempt < attempts and again):
        return 14  # O31
    if left == 1 and not failed:
        return 17  # O30
    return REFUSED


def _fire_persisting_part_ok(t: OffloadTable, i: int) -> int:
    again = t.again[i]
    attempt = t.attempt[i]
    attempts = t.attempts
    failed = t.failed[i]
    left = t.left[i]
    if left > 1:
        t.left[i] = left - 1
        return 3  # O10
    if left == 1 and failed and attempt < attempts and again:
        t.left[i] = 0
        t.failed[i] = False
        t.state[i] = 3  # retry_wait
        return 7  # O12
    if left == 1 and failed and not (attempt < attempts and again):
        t.left[i] = 0
        t.state[i] = 6  # failed
        return 14  # O31
    if left == 1 and not failed:
        t.left[i] = 0
        t.state[i] = 5  # committed
        return 17  # O30
    return REFUSED


def _persisting_part_failed(t: OffloadTable, i: int) -> int:
    again = t.again[i]
    attempt = t.attempt[i]
    attempts = t.attempts
    left = t.left[i]
    if left > 1:
        return 4  # O14
    if left == 1 and attempt < attempts and again:
        return 8  # O15
    if left == 1 and not (attempt < attempts and again):
        return 15  # O32
    return REFUSED


def _fire_persisting_part_failed(t: OffloadTable, i: int) -> int:
    again = t.again[i]
    attempt = t.attempt[i]
    attempts = t.attempts
    left = t.left[i]
    if left > 1:
        t.left[i] = left - 1
        t.failed[i] = True
        return 4  # O14
    if left == 1 and attempt < attempts and again:
        t.left[i] = 0
        t.failed[i] = False
        t.state[i] = 3  # retry_wait
        return 8  # O15
    if left == 1 and not (attempt < attempts and again):
        t.left[i] = 0
        t.state[i] = 6  # failed
        return 15  # O32
    return REFUSED


def _persisting_part_broken(t: OffloadTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        return 5  # O17
    if left == 1:
        return 16  # O33
    return REFUSED


def _fire_persisting_part_broken(t: OffloadTable, i: int) -> int:
    left = t.left[i]
    if left > 1:
        t.left[i] = left - 1
        t.failed[i] = True
        t.again[i] = False
        return 5  # O17
    if left == 1:
        t.left[i] = 0
        t.state[i] = 6  # failed
        return 16  # O33
    return REFUSED


def _retry_wait_cancel(t: OffloadTable, i: int) -> int:
    if not t.copied[i]:
        return 20  # O42
    return 21  # O43: copied


def _fire_retry_wait_cancel(t: OffloadTable, i: int) -> int:
    if not t.copied[i]:
        t.state[i] = 7  # cancelled
        return 20  # O42
    t.state[i] = 7  # cancelled
    return 21  # O43: copied


def _retry_wait_deadline(t: OffloadTable, i: int) -> int:
    if not t.copied[i]:
        return 22  # O44
    return 23  # O45: copied


def _fire_retry_wait_deadline(t: OffloadTable, i: int) -> int:
    if not t.copied[i]:
        t.state[i] = 6  # failed
        return 22  # O44
    t.state[i] = 6  # failed
    return 23  # O45: copied


def _retry_wait_retry_due(t: OffloadTable, i: int) -> int:
    if not t.copied[i]:
        return 9  # O40
    return 10  # O41: copied


def _fire_retry_wait_retry_due(t: OffloadTable, i: int) -> int:
    if not t.copied[i]:
        t.left[i] = t.parts[i]
        t.attempt[i] = t.attempt[i] + 1
        t.state[i] = 1  # copying
        return 9  # O40
    t.left[i] = t.parts[i]
    t.attempt[i] = t.attempt[i] + 1
    t.state[i] = 2  # persisting
    return 10  # O41: copied


def _retry_wait_taint(t: OffloadTable, i: int) -> int:
    if not t.copied[i]:
        return 36  # O46
    return REFUSED


def _fire_retry_wait_taint(t: OffloadTable, i: int) -> int:
    if not t.copied[i]:
        t.state[i] = 6  # failed
        return 36  # O46
    return REFUSED


def _cancelling_lapse(t: OffloadTable, i: int) -> int:
    copied = t.copied[i]
    expired = t.expired[i]
    if expired and not copied:
        return 29  # O55
    if expired and copied:
        return 30  # O56
    if not expired and not copied:
        return 31  # O57
    return 32  # O58: not expired and copied


def _fire_cancelling_lapse(t: OffloadTable, i: int) -> int:
    copied = t.copied[i]
    expired = t.expired[i]
    if expired and not copied:
        t.left[i] = 0
        t.state[i] = 6  # failed
        return 29  # O55
    if expired and copied:
        t.left[i] = 0
        t.state[i] = 6  # failed
        return 30  # O56
    if not expired and not copied:
        t.left[i] = 0
        t.state[i] = 7  # cancelled
        return 31  # O57
    t.left[i] = 0
    t.state[i] = 7  # cancelled
    return 32  # O58: not expired and copied


def _cancelling_part_ok(t: OffloadTable, i: int) -> int:
    copied = t.copied[i]
    expired = t.expired[i]
    left = t.left[i]
    if left > 1:
        return 24  # O50
    if left == 1 and expired and not copied:
        return 25  # O51
    if left == 1 and expired and copied:
        return 26  # O52
    if left == 1 and not expired and not copied:
        return 27  # O53
    if left == 1 and not expired and copied:
        return 28  # O54
    return REFUSED


def _fire_cancelling_part_ok(t: OffloadTable, i: int) -> int:
    copied = t.copied[i]
    expired = t.expired[i]
    left = t.left[i]
    if left > 1:
        t.left[i] = left - 1
        return 24  # O50
    if left == 1 and expired and not copied:
        t.left[i] = 0
        t.state[i] = 6  # failed
        return 25  # O51
    if left == 1 and expired and copied:
        t.left[i] = 0
        t.state[i] = 6  # failed
        return 26  # O52
    if left == 1 and not expired and not copied:
        t.left[i] = 0
        t.state[i] = 7  # cancelled
        return 27  # O53
    if left == 1 and not expired and copied:
        t.left[i] = 0
        t.state[i] = 7  # cancelled
        return 28  # O54
    return REFUSED


def _cancelling_taint(t: OffloadTable, i: int) -> int:
    if not t.copied[i]:
        return 38  # O61
    return REFUSED


def _fire_cancelling_taint(t: OffloadTable, i: int) -> int:
    if not t.copied[i]:
        return 38  # O61
    return REFUSED


def _O01(t: OffloadTable, i: int) -> int:
    t.left[i] = t.parts[i]
    t.attempt[i] = 1
    t.state[i] = 1  # copying
    return 0


def _O02(t: OffloadTable, i: int) -> int:
    t.state[i] = 7  # cancelled
    return 1


def _O03(t: OffloadTable, i: int) -> int:
    t.state[i] = 6  # failed
    return 2


def _O20(t: OffloadTable, i: int) -> int:
    t.state[i] = 4  # cancelling
    return 18


def _O21(t: OffloadTable, i: int) -> int:
    t.expired[i] = True
    t.state[i] = 4  # cancelling
    return 19


def _O70(t: OffloadTable, i: int) -> int:
    return 33


def _O71(t: OffloadTable, i: int) -> int:
    return 34


def _O72(t: OffloadTable, i: int) -> int:
    return 35


def _O60(t: OffloadTable, i: int) -> int:
    t.again[i] = False
    return 37


CELLS: tuple[int | Callable[[OffloadTable, int], int], ...] = (
    # queued
    0,  # start: O01
    1,  # cancel: O02
    2,  # deadline: O03
    33,  # lapse: O70
    35,  # retry_due: O72
    REFUSED,  # part_ok
    REFUSED,  # part_failed
    REFUSED,  # part_broken
    REFUSED,  # part_lost
    2,  # taint: O03
    # copying
    REFUSED,  # start
    18,  # cancel: O20
    19,  # deadline: O21
    33,  # lapse: O70
    35,  # retry_due: O72
    _copying_part_ok,  # part_ok: O10 O11 O12 O13
    _copying_part_failed,  # part_failed: O14 O15 O16
    _copying_part_broken,  # part_broken: O17 O18
    _copying_part_broken,  # part_lost: O17 O18
    37,  # taint: O60
    # persisting
    REFUSED,  # start
    18,  # cancel: O20
    19,  # deadline: O21
    33,  # lapse: O70
    35,  # retry_due: O72
    _persisting_part_ok,  # part_ok: O10 O12 O31 O30
    _persisting_part_failed,  # part_failed: O14 O15 O32
    _persisting_part_broken,  # part_broken: O17 O33
    _persisting_part_broken,  # part_lost: O17 O33
    REFUSED,  # taint
    # retry_wait
    REFUSED,  # start
    _retry_wait_cancel,  # cancel: O42 O43
    _retry_wait_deadline,  # deadline: O44 O45
    33,  # lapse: O70
    _retry_wait_retry_due,  # retry_due: O40 O41
    REFUSED,  # part_ok
    REFUSED,  # part_failed
    REFUSED,  # part_broken
    REFUSED,  # part_lost
    _retry_wait_taint,  # taint: O46
    # cancelling
    REFUSED,  # start
    REFUSED,  # cancel
    34,  # deadline: O71
    _cancelling_lapse,  # lapse: O55 O56 O57 O58
    35,  # retry_due: O72
    _cancelling_part_ok,  # part_ok: O50 O51 O52 O53 O54
    _cancelling_part_ok,  # part_failed: O50 O51 O52 O53 O54
    _cancelling_part_ok,  # part_broken: O50 O51 O52 O53 O54
    _cancelling_part_ok,  # part_lost: O50 O51 O52 O53 O54
    _cancelling_taint,  # taint: O61
    # committed
    REFUSED,  # start
    REFUSED,  # cancel
    34,  # deadline: O71
    33,  # lapse: O70
    35,  # retry_due: O72
    REFUSED,  # part_ok
    REFUSED,  # part_failed
    REFUSED,  # part_broken
    REFUSED,  # part_lost
    REFUSED,  # taint
    # failed
    REFUSED,  # start
    REFUSED,  # cancel
    34,  # deadline: O71
    33,  # lapse: O70
    35,  # retry_due: O72
    REFUSED,  # part_ok
    REFUSED,  # part_failed
    REFUSED,  # part_broken
    REFUSED,  # part_lost
    REFUSED,  # taint
    # cancelled
    REFUSED,  # start
    REFUSED,  # cancel
    34,  # deadline: O71
    33,  # lapse: O70
    35,  # retry_due: O72
    REFUSED,  # part_ok
    REFUSED,  # part_failed
    REFUSED,  # part_broken
    REFUSED,  # part_lost
    REFUSED,  # taint
)
"""For each state and event: the row that answers, or what chooses it."""

BY_ROW: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("O01", ("launch",)),
    ("O02", ("drop_key", "unhold", "release_dst", "tell_cancelled")),
    ("O03", ("drop_key", "unhold", "release_dst", "tell_failed")),
    ("O10", ()),
    ("O14", ()),
    ("O17", ()),
    ("O11", ("unhold", "persist")),
    ("O12", ("wait_retry",)),
    ("O15", ("wait_retry",)),
    ("O40", ("launch",)),
    ("O41", ("persist",)),
    ("O13", ("drop_key", "unhold", "release_dst", "tell_failed")),
    ("O16", ("drop_key", "unhold", "release_dst", "tell_failed")),
    ("O18", ("drop_key", "unhold", "release_dst", "tell_failed")),
    ("O31", ("drop_key", "undo_persist", "release_dst", "tell_failed")),
    ("O32", ("drop_key", "undo_persist", "release_dst", "tell_failed")),
    ("O33", ("drop_key", "undo_persist", "release_dst", "tell_failed")),
    ("O30", ("commit_dst", "commit_key", "release_dst", "tell_committed")),
    ("O20", ("drop_key", "ask_cancel")),
    ("O21", ("drop_key", "ask_cancel")),
    ("O42", ("drop_key", "unhold", "release_dst", "tell_cancelled")),
    ("O43", ("drop_key", "undo_persist", "release_dst", "tell_cancelled")),
    ("O44", ("drop_key", "unhold", "release_dst", "tell_failed")),
    ("O45", ("drop_key", "undo_persist", "release_dst", "tell_failed")),
    ("O50", ()),
    ("O51", ("unhold", "release_dst", "tell_failed")),
    ("O52", ("undo_persist", "release_dst", "tell_failed")),
    ("O53", ("unhold", "release_dst", "tell_cancelled")),
    ("O54", ("undo_persist", "release_dst", "tell_cancelled")),
    ("O55", ("give_up", "unhold", "release_dst", "tell_failed")),
    ("O56", ("give_up", "undo_persist", "release_dst", "tell_failed")),
    ("O57", ("give_up", "unhold", "release_dst", "tell_cancelled")),
    ("O58", ("give_up", "undo_persist", "release_dst", "tell_cancelled")),
    ("O70", ()),
    ("O71", ()),
    ("O72", ()),
    ("O46", ("drop_key", "unhold", "release_dst", "tell_failed")),
    ("O60", ()),
    ("O61", ()),
)
"""For each row: its id, and its effects, in order."""

CHANGES: dict[int, Callable[[OffloadTable, int], int]] = {
    0: _O01,
    1: _O02,
    2: _O03,
    18: _O20,
    19: _O21,
    33: _O70,
    34: _O71,
    35: _O72,
    37: _O60,
}
"""For a row that is fired without a look at its guard: what makes its changes."""

GUARDED: dict[Callable[[OffloadTable, int], int], Callable[[OffloadTable, int], int]] = {
    _copying_part_ok: _fire_copying_part_ok,
    _copying_part_failed: _fire_copying_part_failed,
    _copying_part_broken: _fire_copying_part_broken,
    _persisting_part_ok: _fire_persisting_part_ok,
    _persisting_part_failed: _fire_persisting_part_failed,
    _persisting_part_broken: _fire_persisting_part_broken,
    _retry_wait_cancel: _fire_retry_wait_cancel,
    _retry_wait_deadline: _fire_retry_wait_deadline,
    _retry_wait_retry_due: _fire_retry_wait_retry_due,
    _retry_wait_taint: _fire_retry_wait_taint,
    _cancelling_lapse: _fire_cancelling_lapse,
    _cancelling_part_ok: _fire_cancelling_part_ok,
    _cancelling_taint: _fire_cancelling_taint,
}
"""For what chooses a row: what chooses and fires it."""

FIRE: tuple[Callable[[OffloadTable, int], int], ...] = tuple(
    GUARDED[cell] if not isinstance(cell, int) else _refuse if cell == REFUSED else CHANGES[cell] for cell in CELLS
)
"""For each cell: what fires it."""


class OffloadTable(Columns):
    """A job that moves sealed blocks one tier down and makes them durable."""

    __slots__ = ("again", "attempt", "attempts", "copied", "expired", "failed", "left", "parts", "state")
    name = "offload"
    STATES = tuple(state.name.lower() for state in State)
    EVENTS = tuple(event.name.lower() for event in Event)
    KINDS: ClassVar[tuple[str, ...]] = (
        "request",
        "request",
        "report",
        "report",
        "report",
        "signal",
        "signal",
        "signal",
        "signal",
        "signal",
    )
    VARS: ClassVar[tuple[str, ...]] = ("parts", "left", "attempt", "again", "failed", "copied", "expired")
    GIVEN: ClassVar[tuple[str, ...]] = ("parts",)
    PARAMS: ClassVar[tuple[str, ...]] = ("attempts",)
    FIRST: ClassVar[tuple[int, ...]] = (0, 0, 0, 0, 1, 0, 0, 0)
    ROWS = tuple(row_id for row_id, _ in BY_ROW)
    EFFECTS = tuple(effects for _, effects in BY_ROW)
    HOME = frozenset({5, 6, 7})
    INITIAL = 0

    def __init__(self, *, attempts: int = 2) -> None:
        self.attempts = attempts
        self.state: array[int] = array("B")
        self.parts: array[int] = array("q")
        self.left: array[int] = array("q")
        self.attempt: array[int] = array("q")
        self.again: array[int] = array("B")
        self.failed: array[int] = array("B")
        self.copied: array[int] = array("B")
        self.expired: array[int] = array("B")
        self._arrays = (
            self.state,
            self.parts,
            self.left,
            self.attempt,
            self.again,
            self.failed,
            self.copied,
            self.expired,
        )

    def renew(self, slot: int, **given: int) -> None:
        """Put the record at `slot` back to its birth; what is given is taken as it comes."""
        self.parts[slot] = given["parts"]
        self.state[slot] = 0
        self.left[slot] = 0
        self.attempt[slot] = 0
        self.again[slot] = 1
        self.failed[slot] = 0
        self.copied[slot] = 0
        self.expired[slot] = 0

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        row = CELLS[self.state[slot] * 10 + event]
        if not isinstance(row, int):
            row = row(self, slot)
        return row

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        return FIRE[self.state[slot] * 10 + event](self, slot)
