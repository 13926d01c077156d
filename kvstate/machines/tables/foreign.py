# Generated from spec/foreign.toml by `make tables`; do not edit.
# ruff: noqa: ARG001, N802 - all functions of rows are called alike, and as the row is
"""A device block whose allocator is the engine's own."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import ClassVar

from kvstate.machines.columns_base import Columns
from kvstate.machines.table import REFUSED, Many
from kvstate.machines.tables import foreign_many as many


class State(IntEnum):
    """Where a record can be; `spec/foreign.toml` says what each means."""

    OUTSIDE = 0
    OWNED = 1
    LOADING = 2
    HELD = 3


class Event(IntEnum):
    """What can happen to a record; `spec/foreign.toml` says what each means."""

    STORE = 0  # request
    CLAIM = 1  # request
    ALLOCATED = 2  # report
    FREED = 3  # report
    REUSED = 4  # report
    READ_BEGIN = 5  # signal
    READ_END = 6  # signal
    READ_LATE = 7  # signal
    WRITE_BEGIN = 8  # signal
    WRITE_END = 9  # signal
    WRITE_LATE = 10  # signal
    LOSE = 11  # signal
    COMMIT = 12  # signal
    ROLLBACK = 13  # signal
    RELEASE = 14  # signal


def _refuse(t: ForeignTable, i: int) -> int:
    return REFUSED


def _owned_store(t: ForeignTable, i: int) -> int:
    if t.writers[i] == 0 and not t.stained[i]:
        return 7  # E10
    return REFUSED


def _fire_owned_store(t: ForeignTable, i: int) -> int:
    if t.writers[i] == 0 and not t.stained[i]:
        t.readers[i] = t.readers[i] + 1
        return 7  # E10
    return REFUSED


def _owned_claim(t: ForeignTable, i: int) -> int:
    if t.readers[i] + t.writers[i] == 0:
        return 8  # E11
    return REFUSED


def _fire_owned_claim(t: ForeignTable, i: int) -> int:
    if t.readers[i] + t.writers[i] == 0:
        t.stained[i] = False
        t.state[i] = 2  # loading
        return 8  # E11
    return REFUSED


def _owned_allocated(t: ForeignTable, i: int) -> int:
    readers = t.readers[i]
    writers = t.writers[i]
    if readers + writers == 0:
        return 4  # E05
    if readers + writers > 0:
        return 5  # E06
    return REFUSED


def _fire_owned_allocated(t: ForeignTable, i: int) -> int:
    readers = t.readers[i]
    writers = t.writers[i]
    if readers + writers == 0:
        t.generation[i] = t.generation[i] + 1
        t.stained[i] = False
        t.state[i] = 1  # owned
        return 4  # E05
    if readers + writers > 0:
        t.generation[i] = t.generation[i] + 1
        t.stained[i] = writers > 0
        t.state[i] = 1  # owned
        return 5  # E06
    return REFUSED


def _owned_freed(t: ForeignTable, i: int) -> int:
    readers = t.readers[i]
    writers = t.writers[i]
    if readers + writers == 0:
        return 2  # E03
    if readers + writers > 0:
        return 3  # E04
    return REFUSED


def _fire_owned_freed(t: ForeignTable, i: int) -> int:
    readers = t.readers[i]
    writers = t.writers[i]
    if readers + writers == 0:
        t.stained[i] = False
        t.state[i] = 0  # outside
        return 2  # E03
    if readers + writers > 0:
        t.stained[i] = False
        t.state[i] = 3  # held
        return 3  # E04
    return REFUSED


def _owned_read_begin(t: ForeignTable, i: int) -> int:
    if t.writers[i] == 0:
        return 9  # E12
    return REFUSED


def _fire_owned_read_begin(t: ForeignTable, i: int) -> int:
    if t.writers[i] == 0:
        t.readers[i] = t.readers[i] + 1
        return 9  # E12
    return REFUSED


def _owned_read_end(t: ForeignTable, i: int) -> int:
    if t.lost[i] < t.readers[i]:
        return 12  # E14
    return REFUSED


def _fire_owned_read_end(t: ForeignTable, i: int) -> int:
    if t.lost[i] < t.readers[i]:
        t.readers[i] = t.readers[i] - 1
        return 12  # E14
    return REFUSED


def _owned_read_late(t: ForeignTable, i: int) -> int:
    if t.readers[i] > 0 and t.lost[i] > 0:
        return 15  # E17
    return REFUSED


def _fire_owned_read_late(t: ForeignTable, i: int) -> int:
    if t.readers[i] > 0 and t.lost[i] > 0:
        t.readers[i] = t.readers[i] - 1
        t.lost[i] = t.lost[i] - 1
        return 15  # E17
    return REFUSED


def _owned_write_end(t: ForeignTable, i: int) -> int:
    if t.lost[i] < t.writers[i]:
        return 13  # E15
    return REFUSED


def _fire_owned_write_end(t: ForeignTable, i: int) -> int:
    if t.lost[i] < t.writers[i]:
        t.writers[i] = t.writers[i] - 1
        return 13  # E15
    return REFUSED


def _owned_write_late(t: ForeignTable, i: int) -> int:
    if t.writers[i] > 0 and t.lost[i] > 0:
        return 16  # E18
    return REFUSED


def _fire_owned_write_late(t: ForeignTable, i: int) -> int:
    if t.writers[i] > 0 and t.lost[i] > 0:
        t.writers[i] = t.writers[i] - 1
        t.lost[i] = t.lost[i] - 1
        return 16  # E18
    return REFUSED


def _owned_lose(t: ForeignTable, i: int) -> int:
    if t.lost[i] < t.readers[i] + t.writers[i]:
        return 14  # E16
    return REFUSED


def _fire_owned_lose(t: ForeignTable, i: int) -> int:
    if t.lost[i] < t.readers[i] + t.writers[i]:
        t.lost[i] = t.lost[i] + 1
        return 14  # E16
    return REFUSED


def _loading_write_begin(t: ForeignTable, i: int) -> int:
    if t.readers[i] == 0 and t.writers[i] < t.ranks and t.lost[i] == 0:
        return 11  # E13
    return REFUSED


def _fire_loading_write_begin(t: ForeignTable, i: int) -> int:
    if t.readers[i] == 0 and t.writers[i] < t.ranks and t.lost[i] == 0:
        t.writers[i] = t.writers[i] + 1
        return 11  # E13
    return REFUSED


def _loading_commit(t: ForeignTable, i: int) -> int:
    if t.readers[i] + t.writers[i] == 0:
        return 25  # E28
    return REFUSED


def _fire_loading_commit(t: ForeignTable, i: int) -> int:
    if t.readers[i] + t.writers[i] == 0:
        t.state[i] = 1  # owned
        return 25  # E28
    return REFUSED


def _loading_rollback(t: ForeignTable, i: int) -> int:
    if t.readers[i] + t.writers[i] == 0:
        return 26  # E30
    return REFUSED


def _fire_loading_rollback(t: ForeignTable, i: int) -> int:
    if t.readers[i] + t.writers[i] == 0:
        t.state[i] = 1  # owned
        return 26  # E30
    return REFUSED


def _held_allocated(t: ForeignTable, i: int) -> int:
    if t.readers[i] + t.writers[i] > 0:
        return 5  # E06
    return REFUSED


def _fire_held_allocated(t: ForeignTable, i: int) -> int:
    if t.readers[i] + t.writers[i] > 0:
        t.generation[i] = t.generation[i] + 1
        t.stained[i] = t.writers[i] > 0
        t.state[i] = 1  # owned
        return 5  # E06
    return REFUSED


def _held_read_begin(t: ForeignTable, i: int) -> int:
    if t.writers[i] == 0 and t.lost[i] < t.readers[i]:
        return 10  # E19
    return REFUSED


def _fire_held_read_begin(t: ForeignTable, i: int) -> int:
    if t.writers[i] == 0 and t.lost[i] < t.readers[i]:
        t.readers[i] = t.readers[i] + 1
        return 10  # E19
    return REFUSED


def _held_read_end(t: ForeignTable, i: int) -> int:
    lost = t.lost[i]
    readers = t.readers[i]
    if lost < readers and readers == 1:
        return 17  # E20
    if lost < readers and readers > 1:
        return 18  # E21
    return REFUSED


def _fire_held_read_end(t: ForeignTable, i: int) -> int:
    lost = t.lost[i]
    readers = t.readers[i]
    if lost < readers and readers == 1:
        t.readers[i] = 0
        t.state[i] = 0  # outside
        return 17  # E20
    if lost < readers and readers > 1:
        t.readers[i] = readers - 1
        return 18  # E21
    return REFUSED


def _held_read_late(t: ForeignTable, i: int) -> int:
    lost = t.lost[i]
    readers = t.readers[i]
    if readers == 1 and lost > 0:
        return 21  # E24
    if readers > 1 and lost > 0:
        return 22  # E25
    return REFUSED


def _fire_held_read_late(t: ForeignTable, i: int) -> int:
    lost = t.lost[i]
    readers = t.readers[i]
    if readers == 1 and lost > 0:
        t.readers[i] = 0
        t.lost[i] = 0
        t.state[i] = 0  # outside
        return 21  # E24
    if readers > 1 and lost > 0:
        t.readers[i] = readers - 1
        t.lost[i] = lost - 1
        return 22  # E25
    return REFUSED


def _held_write_end(t: ForeignTable, i: int) -> int:
    lost = t.lost[i]
    writers = t.writers[i]
    if lost < writers and writers == 1:
        return 19  # E22
    if lost < writers and writers > 1:
        return 20  # E23
    return REFUSED


def _fire_held_write_end(t: ForeignTable, i: int) -> int:
    lost = t.lost[i]
    writers = t.writers[i]
    if lost < writers and writers == 1:
        t.writers[i] = 0
        t.state[i] = 0  # outside
        return 19  # E22
    if lost < writers and writers > 1:
        t.writers[i] = writers - 1
        return 20  # E23
    return REFUSED


def _held_write_late(t: ForeignTable, i: int) -> int:
    lost = t.lost[i]
    writers = t.writers[i]
    if writers == 1 and lost > 0:
        return 23  # E26
    if writers > 1 and lost > 0:
        return 24  # E27
    return REFUSED


def _fire_held_write_late(t: ForeignTable, i: int) -> int:
    lost = t.lost[i]
    writers = t.writers[i]
    if writers == 1 and lost > 0:
        t.writers[i] = 0
        t.lost[i] = 0
        t.state[i] = 0  # outside
        return 23  # E26
    if writers > 1 and lost > 0:
        t.writers[i] = writers - 1
        t.lost[i] = lost - 1
        return 24  # E27
    return REFUSED


def _E01(t: ForeignTable, i: int) -> int:
    t.generation[i] = t.generation[i] + 1
    t.state[i] = 1  # owned
    return 0


def _E02(t: ForeignTable, i: int) -> int:
    return 1


def _E03(t: ForeignTable, i: int) -> int:
    t.stained[i] = False
    t.state[i] = 0  # outside
    return 2


def _E04(t: ForeignTable, i: int) -> int:
    t.stained[i] = False
    t.state[i] = 3  # held
    return 3


def _E05(t: ForeignTable, i: int) -> int:
    t.generation[i] = t.generation[i] + 1
    t.stained[i] = False
    t.state[i] = 1  # owned
    return 4


def _E06(t: ForeignTable, i: int) -> int:
    t.generation[i] = t.generation[i] + 1
    t.stained[i] = t.writers[i] > 0
    t.state[i] = 1  # owned
    return 5


def _E07(t: ForeignTable, i: int) -> int:
    return 6


def _E10(t: ForeignTable, i: int) -> int:
    t.readers[i] = t.readers[i] + 1
    return 7


def _E11(t: ForeignTable, i: int) -> int:
    t.stained[i] = False
    t.state[i] = 2  # loading
    return 8


def _E12(t: ForeignTable, i: int) -> int:
    t.readers[i] = t.readers[i] + 1
    return 9


def _E19(t: ForeignTable, i: int) -> int:
    t.readers[i] = t.readers[i] + 1
    return 10


def _E13(t: ForeignTable, i: int) -> int:
    t.writers[i] = t.writers[i] + 1
    return 11


def _E14(t: ForeignTable, i: int) -> int:
    t.readers[i] = t.readers[i] - 1
    return 12


def _E15(t: ForeignTable, i: int) -> int:
    t.writers[i] = t.writers[i] - 1
    return 13


def _E16(t: ForeignTable, i: int) -> int:
    t.lost[i] = t.lost[i] + 1
    return 14


def _E17(t: ForeignTable, i: int) -> int:
    t.readers[i] = t.readers[i] - 1
    t.lost[i] = t.lost[i] - 1
    return 15


def _E18(t: ForeignTable, i: int) -> int:
    t.writers[i] = t.writers[i] - 1
    t.lost[i] = t.lost[i] - 1
    return 16


def _E20(t: ForeignTable, i: int) -> int:
    t.readers[i] = 0
    t.state[i] = 0  # outside
    return 17


def _E21(t: ForeignTable, i: int) -> int:
    t.readers[i] = t.readers[i] - 1
    return 18


def _E22(t: ForeignTable, i: int) -> int:
    t.writers[i] = 0
    t.state[i] = 0  # outside
    return 19


def _E23(t: ForeignTable, i: int) -> int:
    t.writers[i] = t.writers[i] - 1
    return 20


def _E24(t: ForeignTable, i: int) -> int:
    t.readers[i] = 0
    t.lost[i] = 0
    t.state[i] = 0  # outside
    return 21


def _E25(t: ForeignTable, i: int) -> int:
    t.readers[i] = t.readers[i] - 1
    t.lost[i] = t.lost[i] - 1
    return 22


def _E26(t: ForeignTable, i: int) -> int:
    t.writers[i] = 0
    t.lost[i] = 0
    t.state[i] = 0  # outside
    return 23


def _E27(t: ForeignTable, i: int) -> int:
    t.writers[i] = t.writers[i] - 1
    t.lost[i] = t.lost[i] - 1
    return 24


def _E28(t: ForeignTable, i: int) -> int:
    t.state[i] = 1  # owned
    return 25


def _E30(t: ForeignTable, i: int) -> int:
    t.state[i] = 1  # owned
    return 26


def _E31(t: ForeignTable, i: int) -> int:
    t.stained[i] = t.writers[i] > 0
    t.state[i] = 1  # owned
    return 27


def _E29(t: ForeignTable, i: int) -> int:
    return 28


CELLS: tuple[int | Callable[[ForeignTable, int], int], ...] = (
    # outside
    REFUSED,  # store
    REFUSED,  # claim
    0,  # allocated: E01
    1,  # freed: E02
    0,  # reused: E01
    REFUSED,  # read_begin
    REFUSED,  # read_end
    REFUSED,  # read_late
    REFUSED,  # write_begin
    REFUSED,  # write_end
    REFUSED,  # write_late
    REFUSED,  # lose
    REFUSED,  # commit
    28,  # rollback: E29
    28,  # release: E29
    # owned
    _owned_store,  # store: E10
    _owned_claim,  # claim: E11
    _owned_allocated,  # allocated: E05 E06
    _owned_freed,  # freed: E03 E04
    _owned_allocated,  # reused: E05 E06
    _owned_read_begin,  # read_begin: E12
    _owned_read_end,  # read_end: E14
    _owned_read_late,  # read_late: E17
    REFUSED,  # write_begin
    _owned_write_end,  # write_end: E15
    _owned_write_late,  # write_late: E18
    _owned_lose,  # lose: E16
    REFUSED,  # commit
    28,  # rollback: E29
    28,  # release: E29
    # loading
    REFUSED,  # store
    REFUSED,  # claim
    _owned_allocated,  # allocated: E05 E06
    _owned_freed,  # freed: E03 E04
    _owned_allocated,  # reused: E05 E06
    _owned_read_begin,  # read_begin: E12
    _owned_read_end,  # read_end: E14
    _owned_read_late,  # read_late: E17
    _loading_write_begin,  # write_begin: E13
    _owned_write_end,  # write_end: E15
    _owned_write_late,  # write_late: E18
    _owned_lose,  # lose: E16
    _loading_commit,  # commit: E28
    _loading_rollback,  # rollback: E30
    27,  # release: E31
    # held
    REFUSED,  # store
    REFUSED,  # claim
    _held_allocated,  # allocated: E06
    6,  # freed: E07
    _held_allocated,  # reused: E06
    _held_read_begin,  # read_begin: E19
    _held_read_end,  # read_end: E20 E21
    _held_read_late,  # read_late: E24 E25
    REFUSED,  # write_begin
    _held_write_end,  # write_end: E22 E23
    _held_write_late,  # write_late: E26 E27
    _owned_lose,  # lose: E16
    REFUSED,  # commit
    28,  # rollback: E29
    28,  # release: E29
)
"""For each state and event: the row that answers, or what chooses it."""

BY_ROW: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("E01", ()),
    ("E02", ("stale",)),
    ("E03", ("pull",)),
    ("E04", ("hold", "pull")),
    ("E05", ("pull",)),
    ("E06", ("taint", "pull")),
    ("E07", ("stale",)),
    ("E10", ()),
    ("E11", ()),
    ("E12", ()),
    ("E19", ()),
    ("E13", ()),
    ("E14", ()),
    ("E15", ()),
    ("E16", ()),
    ("E17", ()),
    ("E18", ()),
    ("E20", ("unhold",)),
    ("E21", ()),
    ("E22", ("unhold",)),
    ("E23", ()),
    ("E24", ("unhold",)),
    ("E25", ()),
    ("E26", ("unhold",)),
    ("E27", ()),
    ("E28", ()),
    ("E30", ()),
    ("E31", ()),
    ("E29", ()),
)
"""For each row: its id, and its effects, in order."""

CHANGES: dict[int, Callable[[ForeignTable, int], int]] = {
    0: _E01,
    1: _E02,
    2: _E03,
    3: _E04,
    4: _E05,
    5: _E06,
    6: _E07,
    7: _E10,
    8: _E11,
    9: _E12,
    10: _E19,
    11: _E13,
    12: _E14,
    13: _E15,
    14: _E16,
    15: _E17,
    16: _E18,
    17: _E20,
    18: _E21,
    19: _E22,
    20: _E23,
    21: _E24,
    22: _E25,
    23: _E26,
    24: _E27,
    25: _E28,
    26: _E30,
    27: _E31,
    28: _E29,
}
"""For a row that is fired without a look at its guard: what makes its changes."""

GUARDED: dict[Callable[[ForeignTable, int], int], Callable[[ForeignTable, int], int]] = {
    _owned_store: _fire_owned_store,
    _owned_claim: _fire_owned_claim,
    _owned_allocated: _fire_owned_allocated,
    _owned_freed: _fire_owned_freed,
    _owned_read_begin: _fire_owned_read_begin,
    _owned_read_end: _fire_owned_read_end,
    _owned_read_late: _fire_owned_read_late,
    _owned_write_end: _fire_owned_write_end,
    _owned_write_late: _fire_owned_write_late,
    _owned_lose: _fire_owned_lose,
    _loading_write_begin: _fire_loading_write_begin,
    _loading_commit: _fire_loading_commit,
    _loading_rollback: _fire_loading_rollback,
    _held_allocated: _fire_held_allocated,
    _held_read_begin: _fire_held_read_begin,
    _held_read_end: _fire_held_read_end,
    _held_read_late: _fire_held_read_late,
    _held_write_end: _fire_held_write_end,
    _held_write_late: _fire_held_write_late,
}
"""For what chooses a row: what chooses and fires it."""

FIRE: tuple[Callable[[ForeignTable, int], int], ...] = tuple(
    GUARDED[cell] if not isinstance(cell, int) else _refuse if cell == REFUSED else CHANGES[cell] for cell in CELLS
)
"""For each cell: what fires it."""


class ForeignTable(Columns):
    """A device block whose allocator is the engine's own."""

    __slots__ = ("generation", "lost", "ranks", "readers", "stained", "state", "writers")
    name = "foreign"
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
        "signal",
        "signal",
        "signal",
        "signal",
        "signal",
    )
    VARS: ClassVar[tuple[str, ...]] = ("readers", "writers", "lost", "stained", "generation")
    GIVEN: ClassVar[tuple[str, ...]] = ()
    PARAMS: ClassVar[tuple[str, ...]] = ("ranks",)
    FIRST: ClassVar[tuple[int, ...]] = (0, 0, 0, 0, 0, 0)
    MANY: ClassVar[Many | None] = Many(many.ARCS, many.NUMBERS, many.CASES, many.GUARDS, tuple(CHANGES.values()))
    ROWS = tuple(row_id for row_id, _ in BY_ROW)
    EFFECTS = tuple(effects for _, effects in BY_ROW)
    HOME = frozenset({0})
    INITIAL = 0

    def __init__(self, *, ranks: int = 1) -> None:
        self.ranks = ranks
        self.state: array[int] = array("B")
        self.readers: array[int] = array("q")
        self.writers: array[int] = array("q")
        self.lost: array[int] = array("q")
        self.stained: array[int] = array("B")
        self.generation: array[int] = array("q")
        self._arrays = (self.state, self.readers, self.writers, self.lost, self.stained, self.generation)

    def choose(self, slot: int, event: int) -> int:
        """The row that would answer `event`, or REFUSED. Changes nothing."""
        row = CELLS[self.state[slot] * 15 + event]
        if not isinstance(row, int):
            row = row(self, slot)
        return row

    def fire(self, slot: int, event: int) -> int:
        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""
        return FIRE[self.state[slot] * 15 + event](self, slot)

    def each(self, slots: Iterable[int], event: int) -> list[int]:
        """Fire `event` on one slot after the other up to the first that refuses; returns the arcs."""
        return many.EACH[event](self, slots)
