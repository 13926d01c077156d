# Generated from spec/load.toml by `make tables`; do not edit.
# ruff: noqa: ARG001, N802 - all functions of rows are called alike, and as the row is
"""An ordered list of batches: it owns the deadline and gives the verdict."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED


class State(IntEnum):
    """Where a record can be; `spec/load.toml` says what each means."""

    PLANNED = 0
    WAITING = 1
    SETTLING = 2
    ABORTING = 3
    SETTLED = 4


class Event(IntEnum):
    """What can happen to a record; `spec/load.toml` says what each means."""

    START = 0  # request
    ABORT = 1  # request
    DEADLINE = 2  # report
    LAPSE = 3  # report
    BATCH_VERIFIED = 4  # signal
    BATCH_COMMITTED = 5  # signal
    BATCH_FELL = 6  # signal
    BATCH_OVER = 7  # signal


def _refuse(t: LoadTable, i: int) -> int:
    return REFUSED


def _planned_batch_fell(t: LoadTable, i: int) -> int:
    batches = t.batches[i]
    committed = t.committed[i]
    fallen = t.fallen[i]
    if committed + fallen + 1 < batches:
        return 6  # A13
    if committed + fallen + 1 == batches:
        return 7  # A14
    return REFUSED


def _fire_planned_batch_fell(t: LoadTable, i: int) -> int:
    batches = t.batches[i]
    committed = t.committed[i]
    fallen = t.fallen[i]
    if committed + fallen + 1 < batches:
        t.fallen[i] = fallen + 1
        return 6  # A13
    if committed + fallen + 1 == batches:
        t.fallen[i] = fallen + 1
        t.state[i] = 2  # settling
        return 7  # A14
    return REFUSED


def _planned_batch_over(t: LoadTable, i: int) -> int:
    if t.over[i] < t.committed[i] + t.fallen[i]:
        return 8  # A15
    return REFUSED


def _fire_planned_batch_over(t: LoadTable, i: int) -> int:
    if t.over[i] < t.committed[i] + t.fallen[i]:
        t.over[i] = t.over[i] + 1
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


def _fire_waiting_batch_committed(t: LoadTable, i: int) -> int:
    batches = t.batches[i]
    committed = t.committed[i]
    fallen = t.fallen[i]
    if committed + fallen + 1 < batches:
        t.committed[i] = committed + 1
        return 4  # A11
    if committed + fallen + 1 == batches:
        t.committed[i] = committed + 1
        t.state[i] = 2  # settling
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


def _fire_settling_batch_over(t: LoadTable, i: int) -> int:
    batches = t.batches[i]
    over = t.over[i]
    if over + 1 < batches:
        t.over[i] = over + 1
        return 9  # A20
    if over + 1 == batches:
        t.over[i] = over + 1
        t.state[i] = 4  # settled
        return 10  # A21
    return REFUSED


def _A01(t: LoadTable, i: int) -> int:
    t.state[i] = 1  # waiting
    return 0


def _A02(t: LoadTable, i: int) -> int:
    t.state[i] = 3  # aborting
    return 1


def _A03(t: LoadTable, i: int) -> int:
    t.state[i] = 1  # waiting
    return 2


def _A10(t: LoadTable, i: int) -> int:
    return 3


def _A22(t: LoadTable, i: int) -> int:
    return 11


def _A30(t: LoadTable, i: int) -> int:
    return 12


def _A31(t: LoadTable, i: int) -> int:
    return 13


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

BY_ROW: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("A01", ("start",)),
    ("A02", ("tell_aborted", "abort")),
    ("A03", ("expire",)),
    ("A10", ("turn",)),
    ("A11", ("turn",)),
    ("A12", ("tell",)),
    ("A13", ("cut_behind",)),
    ("A14", ("tell",)),
    ("A15", ()),
    ("A20", ()),
    ("A21", ("tell_settled",)),
    ("A22", ("lapse",)),
    ("A30", ()),
    ("A31", ()),
)
"""For each row: its id, and its effects, in order."""

CHANGES: dict[int, Callable[[LoadTable, int], int]] = {
    0: _A01,
    1: _A02,
    2: _A03,
    3: _A10,
    11: _A22,
    12: _A30,
    13: _A31,
}
"""For a row that is fired without a look at its guard: what makes its changes."""

GUARDED: dict[Callable[[LoadTable, int], int], Callable[[LoadTable, int], int]] = {
    _planned_batch_fell: _fire_planned_batch_fell,
    _planned_batch_over: _fire_planned_batch_over,
    _waiting_batch_committed: _fire_waiting_batch_committed,
    _settling_batch_over: _fire_settling_batch_over,
}
"""For what chooses a row: what chooses and fires it."""

FIRE: tuple[Callable[[LoadTable, int], int], ...] = tuple(
    GUARDED[cell] if not isinstance(cell, int) else _refuse if cell == REFUSED else CHANGES[cell] for cell in CELLS
)
"""For each cell: what fires it."""


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
    ROWS = tuple(row_id for row_id, _ in BY_ROW)
    EFFECTS = tuple(effects for _, effects in BY_ROW)
    HOME = frozenset({4})
    INITIAL = 0

    def __init__(self) -> None:
        self.state: array[int] = array("B")
        self.batches: array[int] = array("q")
        self.committed: array[int] = array("q")
        self.fallen: array[int] = array("q")
        self.over: array[int] = array("q")
        self._arrays = (self.state, self.batches, self.committed, self.fallen, self.over)

    def renew(self, slot: int, **given: int) -> None:
        """Put the record at `slot` back to its birth; what is given is taken as it comes."""
        self.batches[slot] = given["batches"]
        self.state[slot] = 0
        self.committed[slot] = 0
        self.fallen[slot] = 0
        self.over[slot] = 0

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        row = CELLS[self.state[slot] * 8 + event]
        if not isinstance(row, int):
            row = row(self, slot)
        return row

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        return FIRE[self.state[slot] * 8 + event](self, slot)
