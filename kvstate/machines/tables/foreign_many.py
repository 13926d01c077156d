# Generated from spec/foreign.toml by `make tables`; do not edit.
"""A device block whose allocator is the engine's own: the same rows for many records at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvstate.machines.tables.foreign import ForeignTable


def _each_store(t: ForeignTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    readers = t.readers
    stained = t.stained
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 1:  # owned
            if writers[i] == 0 and not stained[i]:
                readers[i] = readers[i] + 1
                arcs.append(12)  # E10
            else:
                break
        else:
            break
    return arcs


def _each_claim(t: ForeignTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    readers = t.readers
    stained = t.stained
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 1:  # owned
            if readers[i] + writers[i] == 0:
                stained[i] = False
                state[i] = 2  # loading
                arcs.append(13)  # E11
            else:
                break
        else:
            break
    return arcs


def _each_allocated(t: ForeignTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    generation = t.generation
    readers = t.readers
    stained = t.stained
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 0:  # outside
            generation[i] = generation[i] + 1
            state[i] = 1  # owned
            arcs.append(0)  # E01
        elif now == 1:  # owned
            if readers[i] + writers[i] == 0:
                generation[i] = generation[i] + 1
                stained[i] = False
                state[i] = 1  # owned
                arcs.append(6)  # E05
            elif readers[i] + writers[i] > 0:
                generation[i] = generation[i] + 1
                stained[i] = writers[i] > 0
                state[i] = 1  # owned
                arcs.append(8)  # E06
            else:
                break
        elif now == 2:  # loading
            if readers[i] + writers[i] == 0:
                generation[i] = generation[i] + 1
                stained[i] = False
                state[i] = 1  # owned
                arcs.append(7)  # E05
            elif readers[i] + writers[i] > 0:
                generation[i] = generation[i] + 1
                stained[i] = writers[i] > 0
                state[i] = 1  # owned
                arcs.append(9)  # E06
            else:
                break
        elif now == 3:  # held
            if readers[i] + writers[i] > 0:
                generation[i] = generation[i] + 1
                stained[i] = writers[i] > 0
                state[i] = 1  # owned
                arcs.append(10)  # E06
            else:
                break
        else:
            break
    return arcs


def _each_freed(t: ForeignTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    readers = t.readers
    stained = t.stained
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 0:  # outside
            arcs.append(1)  # E02
        elif now == 1:  # owned
            if readers[i] + writers[i] == 0:
                stained[i] = False
                state[i] = 0  # outside
                arcs.append(2)  # E03
            elif readers[i] + writers[i] > 0:
                stained[i] = False
                state[i] = 3  # held
                arcs.append(4)  # E04
            else:
                break
        elif now == 2:  # loading
            if readers[i] + writers[i] == 0:
                stained[i] = False
                state[i] = 0  # outside
                arcs.append(3)  # E03
            elif readers[i] + writers[i] > 0:
                stained[i] = False
                state[i] = 3  # held
                arcs.append(5)  # E04
            else:
                break
        elif now == 3:  # held
            arcs.append(11)  # E07
        else:
            break
    return arcs


def _each_reused(t: ForeignTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    generation = t.generation
    readers = t.readers
    stained = t.stained
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 0:  # outside
            generation[i] = generation[i] + 1
            state[i] = 1  # owned
            arcs.append(0)  # E01
        elif now == 1:  # owned
            if readers[i] + writers[i] == 0:
                generation[i] = generation[i] + 1
                stained[i] = False
                state[i] = 1  # owned
                arcs.append(6)  # E05
            elif readers[i] + writers[i] > 0:
                generation[i] = generation[i] + 1
                stained[i] = writers[i] > 0
                state[i] = 1  # owned
                arcs.append(8)  # E06
            else:
                break
        elif now == 2:  # loading
            if readers[i] + writers[i] == 0:
                generation[i] = generation[i] + 1
                stained[i] = False
                state[i] = 1  # owned
                arcs.append(7)  # E05
            elif readers[i] + writers[i] > 0:
                generation[i] = generation[i] + 1
                stained[i] = writers[i] > 0
                state[i] = 1  # owned
                arcs.append(9)  # E06
            else:
                break
        elif now == 3:  # held
            if readers[i] + writers[i] > 0:
                generation[i] = generation[i] + 1
                stained[i] = writers[i] > 0
                state[i] = 1  # owned
                arcs.append(10)  # E06
            else:
                break
        else:
            break
    return arcs


def _each_read_begin(t: ForeignTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    lost = t.lost
    readers = t.readers
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 1:  # owned
            if writers[i] == 0:
                readers[i] = readers[i] + 1
                arcs.append(14)  # E12
            else:
                break
        elif now == 2:  # loading
            if writers[i] == 0:
                readers[i] = readers[i] + 1
                arcs.append(15)  # E12
            else:
                break
        elif now == 3:  # held
            if writers[i] == 0 and lost[i] < readers[i]:
                readers[i] = readers[i] + 1
                arcs.append(16)  # E19
            else:
                break
        else:
            break
    return arcs


def _each_read_end(t: ForeignTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    lost = t.lost
    readers = t.readers
    state = t.state
    for i in slots:
        now = state[i]
        if now == 1:  # owned
            if lost[i] < readers[i]:
                readers[i] = readers[i] - 1
                arcs.append(18)  # E14
            else:
                break
        elif now == 2:  # loading
            if lost[i] < readers[i]:
                readers[i] = readers[i] - 1
                arcs.append(19)  # E14
            else:
                break
        elif now == 3:  # held
            if lost[i] < readers[i] and readers[i] == 1:
                readers[i] = 0
                state[i] = 0  # outside
                arcs.append(29)  # E20
            elif lost[i] < readers[i] and readers[i] > 1:
                readers[i] = readers[i] - 1
                arcs.append(30)  # E21
            else:
                break
        else:
            break
    return arcs


def _each_read_late(t: ForeignTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    lost = t.lost
    readers = t.readers
    state = t.state
    for i in slots:
        now = state[i]
        if now == 1:  # owned
            if readers[i] > 0 and lost[i] > 0:
                readers[i] = readers[i] - 1
                lost[i] = lost[i] - 1
                arcs.append(25)  # E17
            else:
                break
        elif now == 2:  # loading
            if readers[i] > 0 and lost[i] > 0:
                readers[i] = readers[i] - 1
                lost[i] = lost[i] - 1
                arcs.append(26)  # E17
            else:
                break
        elif now == 3:  # held
            if readers[i] == 1 and lost[i] > 0:
                readers[i] = 0
                lost[i] = 0
                state[i] = 0  # outside
                arcs.append(33)  # E24
            elif readers[i] > 1 and lost[i] > 0:
                readers[i] = readers[i] - 1
                lost[i] = lost[i] - 1
                arcs.append(34)  # E25
            else:
                break
        else:
            break
    return arcs


def _each_write_begin(t: ForeignTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    lost = t.lost
    ranks = t.ranks
    readers = t.readers
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 2:  # loading
            if readers[i] == 0 and writers[i] < ranks and lost[i] == 0:
                writers[i] = writers[i] + 1
                arcs.append(17)  # E13
            else:
                break
        else:
            break
    return arcs


def _each_write_end(t: ForeignTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    lost = t.lost
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 1:  # owned
            if lost[i] < writers[i]:
                writers[i] = writers[i] - 1
                arcs.append(20)  # E15
            else:
                break
        elif now == 2:  # loading
            if lost[i] < writers[i]:
                writers[i] = writers[i] - 1
                arcs.append(21)  # E15
            else:
                break
        elif now == 3:  # held
            if lost[i] < writers[i] and writers[i] == 1:
                writers[i] = 0
                state[i] = 0  # outside
                arcs.append(31)  # E22
            elif lost[i] < writers[i] and writers[i] > 1:
                writers[i] = writers[i] - 1
                arcs.append(32)  # E23
            else:
                break
        else:
            break
    return arcs


def _each_write_late(t: ForeignTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    lost = t.lost
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 1:  # owned
            if writers[i] > 0 and lost[i] > 0:
                writers[i] = writers[i] - 1
                lost[i] = lost[i] - 1
                arcs.append(27)  # E18
            else:
                break
        elif now == 2:  # loading
            if writers[i] > 0 and lost[i] > 0:
                writers[i] = writers[i] - 1
                lost[i] = lost[i] - 1
                arcs.append(28)  # E18
            else:
                break
        elif now == 3:  # held
            if writers[i] == 1 and lost[i] > 0:
                writers[i] = 0
                lost[i] = 0
                state[i] = 0  # outside
                arcs.append(35)  # E26
            elif writers[i] > 1 and lost[i] > 0:
                writers[i] = writers[i] - 1
                lost[i] = lost[i] - 1
                arcs.append(36)  # E27
            else:
                break
        else:
            break
    return arcs


def _each_lose(t: ForeignTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    lost = t.lost
    readers = t.readers
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 1:  # owned
            if lost[i] < readers[i] + writers[i]:
                lost[i] = lost[i] + 1
                arcs.append(22)  # E16
            else:
                break
        elif now == 2:  # loading
            if lost[i] < readers[i] + writers[i]:
                lost[i] = lost[i] + 1
                arcs.append(23)  # E16
            else:
                break
        elif now == 3:  # held
            if lost[i] < readers[i] + writers[i]:
                lost[i] = lost[i] + 1
                arcs.append(24)  # E16
            else:
                break
        else:
            break
    return arcs


def _each_commit(t: ForeignTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    readers = t.readers
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 2:  # loading
            if readers[i] + writers[i] == 0:
                state[i] = 1  # owned
                arcs.append(37)  # E28
            else:
                break
        else:
            break
    return arcs


def _each_rollback(t: ForeignTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    readers = t.readers
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 0:  # outside
            arcs.append(40)  # E29
        elif now == 1:  # owned
            arcs.append(41)  # E29
        elif now == 2:  # loading
            if readers[i] + writers[i] == 0:
                state[i] = 1  # owned
                arcs.append(38)  # E30
            else:
                break
        elif now == 3:  # held
            arcs.append(42)  # E29
        else:
            break
    return arcs


def _each_release(t: ForeignTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    stained = t.stained
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 0:  # outside
            arcs.append(40)  # E29
        elif now == 1:  # owned
            arcs.append(41)  # E29
        elif now == 2:  # loading
            stained[i] = writers[i] > 0
            state[i] = 1  # owned
            arcs.append(39)  # E31
        elif now == 3:  # held
            arcs.append(42)  # E29
        else:
            break
    return arcs


EACH: tuple[Callable[[ForeignTable, Iterable[int]], list[int]], ...] = (
    _each_store,
    _each_claim,
    _each_allocated,
    _each_freed,
    _each_reused,
    _each_read_begin,
    _each_read_end,
    _each_read_late,
    _each_write_begin,
    _each_write_end,
    _each_write_late,
    _each_lose,
    _each_commit,
    _each_rollback,
    _each_release,
)
"""For each event: what fires it on one slot after the other, and returns the arcs that were gone."""

ARCS: tuple[tuple[int, int, int], ...] = (
    (0, 0, 1),  # E01: outside -> owned
    (1, 0, 0),  # E02: outside -> outside
    (2, 1, 0),  # E03: owned -> outside
    (2, 2, 0),  # E03: loading -> outside
    (3, 1, 3),  # E04: owned -> held
    (3, 2, 3),  # E04: loading -> held
    (4, 1, 1),  # E05: owned -> owned
    (4, 2, 1),  # E05: loading -> owned
    (5, 1, 1),  # E06: owned -> owned
    (5, 2, 1),  # E06: loading -> owned
    (5, 3, 1),  # E06: held -> owned
    (6, 3, 3),  # E07: held -> held
    (7, 1, 1),  # E10: owned -> owned
    (8, 1, 2),  # E11: owned -> loading
    (9, 1, 1),  # E12: owned -> owned
    (9, 2, 2),  # E12: loading -> loading
    (10, 3, 3),  # E19: held -> held
    (11, 2, 2),  # E13: loading -> loading
    (12, 1, 1),  # E14: owned -> owned
    (12, 2, 2),  # E14: loading -> loading
    (13, 1, 1),  # E15: owned -> owned
    (13, 2, 2),  # E15: loading -> loading
    (14, 1, 1),  # E16: owned -> owned
    (14, 2, 2),  # E16: loading -> loading
    (14, 3, 3),  # E16: held -> held
    (15, 1, 1),  # E17: owned -> owned
    (15, 2, 2),  # E17: loading -> loading
    (16, 1, 1),  # E18: owned -> owned
    (16, 2, 2),  # E18: loading -> loading
    (17, 3, 0),  # E20: held -> outside
    (18, 3, 3),  # E21: held -> held
    (19, 3, 0),  # E22: held -> outside
    (20, 3, 3),  # E23: held -> held
    (21, 3, 0),  # E24: held -> outside
    (22, 3, 3),  # E25: held -> held
    (23, 3, 0),  # E26: held -> outside
    (24, 3, 3),  # E27: held -> held
    (25, 2, 1),  # E28: loading -> owned
    (26, 2, 1),  # E30: loading -> owned
    (27, 2, 1),  # E31: loading -> owned
    (28, 0, 0),  # E29: outside -> outside
    (28, 1, 1),  # E29: owned -> owned
    (28, 3, 3),  # E29: held -> held
)
"""What a row does from one state is an arc: row, state before, state after."""

NUMBERS = {arc[:2]: number for number, arc in enumerate(ARCS)}
"""The number of each arc, by row and state before."""

CASES: Mapping[tuple[int, int], tuple[int, ...]] = {
    (0, 2): (0,),  # outside, allocated
    (0, 3): (1,),  # outside, freed
    (0, 4): (0,),  # outside, reused
    (0, 13): (28,),  # outside, rollback
    (0, 14): (28,),  # outside, release
    (1, 0): (7,),  # owned, store
    (1, 1): (8,),  # owned, claim
    (1, 2): (4, 5),  # owned, allocated
    (1, 3): (2, 3),  # owned, freed
    (1, 4): (4, 5),  # owned, reused
    (1, 5): (9,),  # owned, read_begin
    (1, 6): (12,),  # owned, read_end
    (1, 7): (15,),  # owned, read_late
    (1, 9): (13,),  # owned, write_end
    (1, 10): (16,),  # owned, write_late
    (1, 11): (14,),  # owned, lose
    (1, 13): (28,),  # owned, rollback
    (1, 14): (28,),  # owned, release
    (2, 2): (4, 5),  # loading, allocated
    (2, 3): (2, 3),  # loading, freed
    (2, 4): (4, 5),  # loading, reused
    (2, 5): (9,),  # loading, read_begin
    (2, 6): (12,),  # loading, read_end
    (2, 7): (15,),  # loading, read_late
    (2, 8): (11,),  # loading, write_begin
    (2, 9): (13,),  # loading, write_end
    (2, 10): (16,),  # loading, write_late
    (2, 11): (14,),  # loading, lose
    (2, 12): (25,),  # loading, commit
    (2, 13): (26,),  # loading, rollback
    (2, 14): (27,),  # loading, release
    (3, 2): (5,),  # held, allocated
    (3, 3): (6,),  # held, freed
    (3, 4): (5,),  # held, reused
    (3, 5): (10,),  # held, read_begin
    (3, 6): (17, 18),  # held, read_end
    (3, 7): (21, 22),  # held, read_late
    (3, 9): (19, 20),  # held, write_end
    (3, 10): (23, 24),  # held, write_late
    (3, 11): (14,),  # held, lose
    (3, 13): (28,),  # held, rollback
    (3, 14): (28,),  # held, release
}
"""For each state and event that any row answers: these rows."""

GUARDS: tuple[Callable[[Any, Any], Any] | None, ...] = (
    None,  # E01
    None,  # E02
    lambda t, i: (t.readers[i] + t.writers[i]) == 0,  # E03
    lambda t, i: (t.readers[i] + t.writers[i]) > 0,  # E04
    lambda t, i: (t.readers[i] + t.writers[i]) == 0,  # E05
    lambda t, i: (t.readers[i] + t.writers[i]) > 0,  # E06
    None,  # E07
    lambda t, i: (t.writers[i] == 0) & (t.stained[i] == 0),  # E10
    lambda t, i: (t.readers[i] + t.writers[i]) == 0,  # E11
    lambda t, i: t.writers[i] == 0,  # E12
    lambda t, i: (t.writers[i] == 0) & (t.lost[i] < t.readers[i]),  # E19
    lambda t, i: (t.readers[i] == 0) & (t.writers[i] < t.ranks) & (t.lost[i] == 0),  # E13
    lambda t, i: t.lost[i] < t.readers[i],  # E14
    lambda t, i: t.lost[i] < t.writers[i],  # E15
    lambda t, i: t.lost[i] < (t.readers[i] + t.writers[i]),  # E16
    lambda t, i: (t.readers[i] > 0) & (t.lost[i] > 0),  # E17
    lambda t, i: (t.writers[i] > 0) & (t.lost[i] > 0),  # E18
    lambda t, i: (t.lost[i] < t.readers[i]) & (t.readers[i] == 1),  # E20
    lambda t, i: (t.lost[i] < t.readers[i]) & (t.readers[i] > 1),  # E21
    lambda t, i: (t.lost[i] < t.writers[i]) & (t.writers[i] == 1),  # E22
    lambda t, i: (t.lost[i] < t.writers[i]) & (t.writers[i] > 1),  # E23
    lambda t, i: (t.readers[i] == 1) & (t.lost[i] > 0),  # E24
    lambda t, i: (t.readers[i] > 1) & (t.lost[i] > 0),  # E25
    lambda t, i: (t.writers[i] == 1) & (t.lost[i] > 0),  # E26
    lambda t, i: (t.writers[i] > 1) & (t.lost[i] > 0),  # E27
    lambda t, i: (t.readers[i] + t.writers[i]) == 0,  # E28
    lambda t, i: (t.readers[i] + t.writers[i]) == 0,  # E30
    None,  # E31
    None,  # E29
)
"""For each row: its guard over whole columns, None where it has none."""
