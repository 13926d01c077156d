# Generated from spec/load.toml by `make tables`; do not edit.
# ruff: noqa: N802 - the function of a row is called as the row is
"""An ordered list of batches: it owns the deadline and gives the verdict."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED


class State(IntEnum):
    PLANNED = 0
    WAITING = 1
    SETTLING = 2
    ABORTING = 3
    SETTLED = 4


class Event(IntEnum):
    START = 0  # request
    ABORT = 1  # request
    DEADLINE = 2  # report
    LAPSE = 3  # report
    BATCH_VERIFIED = 4  # signal
    BATCH_COMMITTED = 5  # signal
    BATCH_FELL = 6  # signal
    BATCH_OVER = 7  # signal


def _planned_batch_fell(t: LoadTable, i: int) -> int:
    batches = t.batches[i]
    committed = t.committed[i]
    fallen = t.fallen[i]
    if committed + fallen + 1 < batches:
        return 6  # A13
    if committed + fallen + 1 == batches:
        return 7  # A14
    return REFUSED


def _planned_batch_over(t: LoadTable, i: int) -> int:
    if t.over[i] < t.committed[i] + t.fallen[i]:
        return 8  # A15
    return REFUSED


def _waiting_batch_committed(t: LoadTable, i: int) -> int:
    batches = t.batches[i]
    committed = t.committed[i]
    fallen = t.fallen[i]
    if committed + fallen + 1 < batches:
        return 4  # A11
    if committed + fallen + 1 == batches:
        return 5  # A12
    return REFUSED


def _settling_batch_over(t: LoadTable, i: int) -> int:
    batches = t.batches[i]
    over = t.over[i]
    if over + 1 < batches:
        return 9  # A20
    if over + 1 == batches:
        return 10  # A21
    return REFUSED


def _A01(t: LoadTable, i: int) -> None:
    t.state[i] = 1  # waiting


def _A02(t: LoadTable, i: int) -> None:
    t.state[i] = 3  # aborting


def _A03(t: LoadTable, i: int) -> None:
    t.state[i] = 1  # waiting


def _A11(t: LoadTable, i: int) -> None:
    t.committed[i] = t.committed[i] + 1


def _A12(t: LoadTable, i: int) -> None:
    t.committed[i] = t.committed[i] + 1
    t.state[i] = 2  # settling


def _A13(t: LoadTable, i: int) -> None:
    t.fallen[i] = t.fallen[i] + 1


def _A14(t: LoadTable, i: int) -> None:
    t.fallen[i] = t.fallen[i] + 1
    t.state[i] = 2  # settling


def _A15(t: LoadTable, i: int) -> None:
    t.over[i] = t.over[i] + 1


def _A20(t: LoadTable, i: int) -> None:
    t.over[i] = t.over[i] + 1


def _A21(t: LoadTable, i: int) -> None:
    t.over[i] = t.over[i] + 1
    t.state[i] = 4  # settled


CELLS: tuple[int | Callable[[LoadTable, int], int], ...] = (
    # planned
    0,  # start: A01
    1,  # abort: A02
    2,  # deadline: A03
    12,  # lapse: A30
    REFUSED,  # batch_verified
    REFUSED,  # batch_committed
    _planned_batch_fell,  # batch_fell: A13 A14
    _planned_batch_over,  # batch_over: A15
    # waiting
    REFUSED,  # start
    1,  # abort: A02
    2,  # deadline: A03
    12,  # lapse: A30
    3,  # batch_verified: A10
    _waiting_batch_committed,  # batch_committed: A11 A12
    _planned_batch_fell,  # batch_fell: A13 A14
    _planned_batch_over,  # batch_over: A15
    # settling
    REFUSED,  # start
    REFUSED,  # abort
    13,  # deadline: A31
    11,  # lapse: A22
    REFUSED,  # batch_verified
    REFUSED,  # batch_committed
    REFUSED,  # batch_fell
    _settling_batch_over,  # batch_over: A20 A21
    # aborting
    REFUSED,  # start
    REFUSED,  # abort
    13,  # deadline: A31
    11,  # lapse: A22
    REFUSED,  # batch_verified
    REFUSED,  # batch_committed
    REFUSED,  # batch_fell
    _settling_batch_over,  # batch_over: A20 A21
    # settled
    REFUSED,  # start
    REFUSED,  # abort
    13,  # deadline: A31
    12,  # lapse: A30
    REFUSED,  # batch_verified
    REFUSED,  # batch_committed
    REFUSED,  # batch_fell
    REFUSED,  # batch_over
)
"""For each state and event: the row that answers, or what chooses it."""

BY_ROW: tuple[tuple[str, Callable[[LoadTable, int], None] | None, tuple[str, ...]], ...] = (
    ("A01", _A01, ("start",)),
    ("A02", _A02, ("tell_aborted", "abort")),
    ("A03", _A03, ("expire",)),
    ("A10", None, ("turn",)),
    ("A11", _A11, ("turn",)),
    ("A12", _A12, ("tell",)),
    ("A13", _A13, ("cut_behind",)),
    ("A14", _A14, ("tell",)),
    ("A15", _A15, ()),
    ("A20", _A20, ()),
    ("A21", _A21, ("tell_settled",)),
    ("A22", None, ("lapse",)),
    ("A30", None, ()),
    ("A31", None, ()),
)
"""For each row: its id, what it changes (None where it changes nothing), and its effects, in order."""

APPLY = tuple(change for _, change, _ in BY_ROW)


class LoadTable(Columns):
    """An ordered list of batches: it owns the deadline and gives the verdict."""

    __slots__ = ("batches", "committed", "fallen", "over", "state")
    name = "load"
    STATES = tuple(state.name.lower() for state in State)
    EVENTS = tuple(event.name.lower() for event in Event)
    KINDS: ClassVar[tuple[str, ...]] = (
        "request",
        "request",
        "report",
        "report",
        "signal",
        "signal",
        "signal",
        "signal",
    )
    VARS: ClassVar[tuple[str, ...]] = ("batches", "committed", "fallen", "over")
    GIVEN: ClassVar[tuple[str, ...]] = ("batches",)
    PARAMS: ClassVar[tuple[str, ...]] = ()
    FIRST: ClassVar[tuple[int, ...]] = (0, 0, 0, 0, 0)
    ROWS = tuple(row_id for row_id, _, _ in BY_ROW)
    EFFECTS = tuple(effects for _, _, effects in BY_ROW)
    HOME = frozenset({4})
    INITIAL = 0

    def __init__(self) -> None:
        self.state: array[int] = array("B")
        self.batches: array[int] = array("q")
        self.committed: array[int] = array("q")
        self.fallen: array[int] = array("q")
        self.over: array[int] = array("q")
        self._arrays = (self.state, self.batches, self.committed, self.fallen, self.over)

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        row = CELLS[self.state[slot] * 8 + event]
        if not isinstance(row, int):
            row = row(self, slot)
        return row

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        row = CELLS[self.state[slot] * 8 + event]
        if not isinstance(row, int):
            row = row(self, slot)
        if row >= 0:
            change = APPLY[row]
            if change is not None:
                change(self, slot)
        return row
