# Generated from spec/block.toml by `make tables`; do not edit.
"""A fixed-size slot of one pool, through all its lives: the same rows for many records at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvstate.machines.tables.block import BlockTable


def _each_reserve(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    owners = t.owners
    state = t.state
    for i in slots:
        now = state[i]
        if now == 0:  # free
            owners[i] = 1
            state[i] = 1  # open
            arcs.append(0)  # B01
        else:
            break
    return arcs


def _each_claim(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    readers = t.readers
    state = t.state
    for i in slots:
        now = state[i]
        if now == 1:  # open
            if readers[i] == 0:
                state[i] = 2  # loading
                arcs.append(2)  # B03
            else:
                break
        else:
            break
    return arcs


def _each_hold(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    state = t.state
    for i in slots:
        now = state[i]
        if now == 1:  # open
            arcs.append(8)  # B12
        elif now == 3:  # active
            arcs.append(9)  # B12
        else:
            break
    return arcs


def _each_step_hold(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    state = t.state
    for i in slots:
        now = state[i]
        if now == 1:  # open
            arcs.append(8)  # B12
        elif now == 3:  # active
            arcs.append(9)  # B12
        else:
            break
    return arcs


def _each_seal(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    state = t.state
    for i in slots:
        now = state[i]
        if now == 1:  # open
            state[i] = 3  # active
            arcs.append(1)  # B02
        else:
            break
    return arcs


def _each_publish(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    published = t.published
    state = t.state
    for i in slots:
        now = state[i]
        if now == 3:  # active
            if not published[i]:
                published[i] = True
                arcs.append(3)  # B08
            else:
                break
        else:
            break
    return arcs


def _each_share(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    owners = t.owners
    published = t.published
    state = t.state
    for i in slots:
        now = state[i]
        if now == 3:  # active
            if published[i]:
                owners[i] = owners[i] + 1
                arcs.append(4)  # B09
            else:
                break
        elif now == 4:  # cached
            owners[i] = 1
            state[i] = 3  # active
            arcs.append(5)  # B10
        else:
            break
    return arcs


def _each_store(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    readers = t.readers
    state = t.state
    for i in slots:
        now = state[i]
        if now == 3:  # active
            readers[i] = readers[i] + 1
            arcs.append(6)  # B11
        elif now == 4:  # cached
            readers[i] = readers[i] + 1
            arcs.append(7)  # B11
        else:
            break
    return arcs


def _each_evict(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    generation = t.generation
    published = t.published
    readers = t.readers
    state = t.state
    for i in slots:
        now = state[i]
        if now == 4:  # cached
            if readers[i] == 0:
                published[i] = False
                generation[i] = generation[i] + 1
                state[i] = 0  # free
                arcs.append(10)  # B13
            else:
                break
        else:
            break
    return arcs


def _each_release(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    generation = t.generation
    lost = t.lost
    owners = t.owners
    published = t.published
    readers = t.readers
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 1:  # open
            if readers[i] + writers[i] == 0:
                owners[i] = 0
                generation[i] = generation[i] + 1
                state[i] = 0  # free
                arcs.append(15)  # B20
            elif lost[i] < readers[i] + writers[i]:
                owners[i] = 0
                state[i] = 5  # draining
                arcs.append(17)  # B21
            elif lost[i] > 0 and lost[i] == readers[i] + writers[i]:
                owners[i] = 0
                state[i] = 6  # quarantined
                arcs.append(19)  # B22
            else:
                break
        elif now == 2:  # loading
            if readers[i] + writers[i] == 0:
                owners[i] = 0
                generation[i] = generation[i] + 1
                state[i] = 0  # free
                arcs.append(16)  # B20
            elif lost[i] < readers[i] + writers[i]:
                owners[i] = 0
                state[i] = 5  # draining
                arcs.append(18)  # B21
            elif lost[i] > 0 and lost[i] == readers[i] + writers[i]:
                owners[i] = 0
                state[i] = 6  # quarantined
                arcs.append(20)  # B22
            else:
                break
        elif now == 3:  # active
            if owners[i] > 1:
                owners[i] = owners[i] - 1
                arcs.append(21)  # B23
            elif owners[i] == 1 and published[i]:
                owners[i] = 0
                state[i] = 4  # cached
                arcs.append(22)  # B24
            elif owners[i] == 1 and not published[i] and readers[i] == 0:
                owners[i] = 0
                generation[i] = generation[i] + 1
                state[i] = 0  # free
                arcs.append(23)  # B25
            elif owners[i] == 1 and not published[i] and lost[i] < readers[i]:
                owners[i] = 0
                state[i] = 5  # draining
                arcs.append(24)  # B26
            elif owners[i] == 1 and not published[i] and lost[i] > 0 and lost[i] == readers[i]:
                owners[i] = 0
                state[i] = 6  # quarantined
                arcs.append(25)  # B27
            else:
                break
        else:
            break
    return arcs


def _each_read_begin(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    lost = t.lost
    readers = t.readers
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 1:  # open
            readers[i] = readers[i] + 1
            arcs.append(26)  # B30
        elif now == 2:  # loading
            if writers[i] == 0:
                readers[i] = readers[i] + 1
                arcs.append(29)  # B31
            else:
                break
        elif now == 3:  # active
            readers[i] = readers[i] + 1
            arcs.append(27)  # B30
        elif now == 4:  # cached
            readers[i] = readers[i] + 1
            arcs.append(28)  # B30
        elif now == 5:  # draining
            if lost[i] < readers[i] and writers[i] == 0:
                readers[i] = readers[i] + 1
                arcs.append(30)  # B32
            else:
                break
        else:
            break
    return arcs


def _each_read_end(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    generation = t.generation
    lost = t.lost
    readers = t.readers
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 1:  # open
            if lost[i] < readers[i]:
                readers[i] = readers[i] - 1
                arcs.append(31)  # B33
            else:
                break
        elif now == 2:  # loading
            if lost[i] < readers[i]:
                readers[i] = readers[i] - 1
                arcs.append(32)  # B33
            else:
                break
        elif now == 3:  # active
            if lost[i] < readers[i]:
                readers[i] = readers[i] - 1
                arcs.append(33)  # B33
            else:
                break
        elif now == 4:  # cached
            if lost[i] < readers[i]:
                readers[i] = readers[i] - 1
                arcs.append(34)  # B33
            else:
                break
        elif now == 5:  # draining
            if readers[i] == 1 and writers[i] == 0:
                readers[i] = 0
                generation[i] = generation[i] + 1
                state[i] = 0  # free
                arcs.append(35)  # B34
            elif lost[i] < readers[i] - 1:
                readers[i] = readers[i] - 1
                arcs.append(36)  # B35
            elif readers[i] > 1 and lost[i] == readers[i] - 1:
                readers[i] = readers[i] - 1
                state[i] = 6  # quarantined
                arcs.append(37)  # B36
            else:
                break
        else:
            break
    return arcs


def _each_read_late(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    generation = t.generation
    lost = t.lost
    readers = t.readers
    state = t.state
    for i in slots:
        now = state[i]
        if now == 1:  # open
            if readers[i] > 0 and lost[i] > 0:
                readers[i] = readers[i] - 1
                lost[i] = lost[i] - 1
                arcs.append(47)  # B50
            else:
                break
        elif now == 2:  # loading
            if readers[i] > 0 and lost[i] > 0:
                readers[i] = readers[i] - 1
                lost[i] = lost[i] - 1
                arcs.append(48)  # B50
            else:
                break
        elif now == 3:  # active
            if readers[i] > 0 and lost[i] > 0:
                readers[i] = readers[i] - 1
                lost[i] = lost[i] - 1
                arcs.append(49)  # B50
            else:
                break
        elif now == 4:  # cached
            if readers[i] > 0 and lost[i] > 0:
                readers[i] = readers[i] - 1
                lost[i] = lost[i] - 1
                arcs.append(50)  # B50
            else:
                break
        elif now == 5:  # draining
            if readers[i] > 0 and lost[i] > 0:
                readers[i] = readers[i] - 1
                lost[i] = lost[i] - 1
                arcs.append(51)  # B50
            else:
                break
        elif now == 6:  # quarantined
            if readers[i] == 1:
                readers[i] = 0
                lost[i] = 0
                generation[i] = generation[i] + 1
                state[i] = 0  # free
                arcs.append(54)  # B52
            elif readers[i] > 1:
                readers[i] = readers[i] - 1
                lost[i] = lost[i] - 1
                arcs.append(55)  # B53
            else:
                break
        else:
            break
    return arcs


def _each_write_begin(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    lost = t.lost
    ranks = t.ranks
    readers = t.readers
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 2:  # loading
            if writers[i] < ranks and readers[i] == 0 and lost[i] == 0:
                writers[i] = writers[i] + 1
                arcs.append(11)  # B04
            else:
                break
        else:
            break
    return arcs


def _each_write_end(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    generation = t.generation
    lost = t.lost
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 2:  # loading
            if writers[i] > 0 and lost[i] < writers[i]:
                writers[i] = writers[i] - 1
                arcs.append(12)  # B05
            else:
                break
        elif now == 5:  # draining
            if writers[i] == 1:
                writers[i] = 0
                generation[i] = generation[i] + 1
                state[i] = 0  # free
                arcs.append(38)  # B37
            elif lost[i] < writers[i] - 1:
                writers[i] = writers[i] - 1
                arcs.append(39)  # B38
            elif writers[i] > 1 and lost[i] == writers[i] - 1:
                writers[i] = writers[i] - 1
                state[i] = 6  # quarantined
                arcs.append(40)  # B39
            else:
                break
        else:
            break
    return arcs


def _each_write_late(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    generation = t.generation
    lost = t.lost
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 2:  # loading
            if writers[i] > 0 and lost[i] > 0:
                writers[i] = writers[i] - 1
                lost[i] = lost[i] - 1
                arcs.append(52)  # B51
            else:
                break
        elif now == 5:  # draining
            if writers[i] > 0 and lost[i] > 0:
                writers[i] = writers[i] - 1
                lost[i] = lost[i] - 1
                arcs.append(53)  # B51
            else:
                break
        elif now == 6:  # quarantined
            if writers[i] == 1:
                writers[i] = 0
                lost[i] = 0
                generation[i] = generation[i] + 1
                state[i] = 0  # free
                arcs.append(56)  # B54
            elif writers[i] > 1:
                writers[i] = writers[i] - 1
                lost[i] = lost[i] - 1
                arcs.append(57)  # B55
            else:
                break
        else:
            break
    return arcs


def _each_lose(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    lost = t.lost
    readers = t.readers
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 1:  # open
            if lost[i] < readers[i] + writers[i]:
                lost[i] = lost[i] + 1
                arcs.append(41)  # B40
            else:
                break
        elif now == 2:  # loading
            if lost[i] < readers[i] + writers[i]:
                lost[i] = lost[i] + 1
                arcs.append(42)  # B40
            else:
                break
        elif now == 3:  # active
            if lost[i] < readers[i] + writers[i]:
                lost[i] = lost[i] + 1
                arcs.append(43)  # B40
            else:
                break
        elif now == 4:  # cached
            if lost[i] < readers[i] + writers[i]:
                lost[i] = lost[i] + 1
                arcs.append(44)  # B40
            else:
                break
        elif now == 5:  # draining
            if lost[i] + 1 < readers[i] + writers[i]:
                lost[i] = lost[i] + 1
                arcs.append(45)  # B41
            elif lost[i] + 1 == readers[i] + writers[i]:
                lost[i] = lost[i] + 1
                state[i] = 6  # quarantined
                arcs.append(46)  # B42
            else:
                break
        else:
            break
    return arcs


def _each_commit(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    readers = t.readers
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 2:  # loading
            if writers[i] == 0 and readers[i] == 0:
                state[i] = 3  # active
                arcs.append(13)  # B06
            else:
                break
        else:
            break
    return arcs


def _each_rollback(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    readers = t.readers
    state = t.state
    writers = t.writers
    for i in slots:
        now = state[i]
        if now == 2:  # loading
            if writers[i] == 0 and readers[i] == 0:
                state[i] = 1  # open
                arcs.append(14)  # B07
            else:
                break
        else:
            break
    return arcs


def _each_unpublish(t: BlockTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    generation = t.generation
    lost = t.lost
    published = t.published
    readers = t.readers
    state = t.state
    for i in slots:
        now = state[i]
        if now == 3:  # active
            if published[i]:
                published[i] = False
                arcs.append(58)  # B60
            else:
                break
        elif now == 4:  # cached
            if readers[i] == 0:
                published[i] = False
                generation[i] = generation[i] + 1
                state[i] = 0  # free
                arcs.append(59)  # B61
            elif lost[i] < readers[i]:
                published[i] = False
                state[i] = 5  # draining
                arcs.append(60)  # B62
            elif lost[i] > 0 and lost[i] == readers[i]:
                published[i] = False
                state[i] = 6  # quarantined
                arcs.append(61)  # B63
            else:
                break
        else:
            break
    return arcs


EACH: tuple[Callable[[BlockTable, Iterable[int]], list[int]], ...] = (
    _each_reserve,
    _each_claim,
    _each_hold,
    _each_step_hold,
    _each_seal,
    _each_publish,
    _each_share,
    _each_store,
    _each_evict,
    _each_release,
    _each_read_begin,
    _each_read_end,
    _each_read_late,
    _each_write_begin,
    _each_write_end,
    _each_write_late,
    _each_lose,
    _each_commit,
    _each_rollback,
    _each_unpublish,
)
"""For each event: what fires it on one slot after the other, and returns the arcs that were gone."""

ARCS: tuple[tuple[int, int, int], ...] = (
    (0, 0, 1),  # B01: free -> open
    (1, 1, 3),  # B02: open -> active
    (2, 1, 2),  # B03: open -> loading
    (3, 3, 3),  # B08: active -> active
    (4, 3, 3),  # B09: active -> active
    (5, 4, 3),  # B10: cached -> active
    (6, 3, 3),  # B11: active -> active
    (6, 4, 4),  # B11: cached -> cached
    (7, 1, 1),  # B12: open -> open
    (7, 3, 3),  # B12: active -> active
    (8, 4, 0),  # B13: cached -> free
    (9, 2, 2),  # B04: loading -> loading
    (10, 2, 2),  # B05: loading -> loading
    (11, 2, 3),  # B06: loading -> active
    (12, 2, 1),  # B07: loading -> open
    (13, 1, 0),  # B20: open -> free
    (13, 2, 0),  # B20: loading -> free
    (14, 1, 5),  # B21: open -> draining
    (14, 2, 5),  # B21: loading -> draining
    (15, 1, 6),  # B22: open -> quarantined
    (15, 2, 6),  # B22: loading -> quarantined
    (16, 3, 3),  # B23: active -> active
    (17, 3, 4),  # B24: active -> cached
    (18, 3, 0),  # B25: active -> free
    (19, 3, 5),  # B26: active -> draining
    (20, 3, 6),  # B27: active -> quarantined
    (21, 1, 1),  # B30: open -> open
    (21, 3, 3),  # B30: active -> active
    (21, 4, 4),  # B30: cached -> cached
    (22, 2, 2),  # B31: loading -> loading
    (23, 5, 5),  # B32: draining -> draining
    (24, 1, 1),  # B33: open -> open
    (24, 2, 2),  # B33: loading -> loading
    (24, 3, 3),  # B33: active -> active
    (24, 4, 4),  # B33: cached -> cached
    (25, 5, 0),  # B34: draining -> free
    (26, 5, 5),  # B35: draining -> draining
    (27, 5, 6),  # B36: draining -> quarantined
    (28, 5, 0),  # B37: draining -> free
    (29, 5, 5),  # B38: draining -> draining
    (30, 5, 6),  # B39: draining -> quarantined
    (31, 1, 1),  # B40: open -> open
    (31, 2, 2),  # B40: loading -> loading
    (31, 3, 3),  # B40: active -> active
    (31, 4, 4),  # B40: cached -> cached
    (32, 5, 5),  # B41: draining -> draining
    (33, 5, 6),  # B42: draining -> quarantined
    (34, 1, 1),  # B50: open -> open
    (34, 2, 2),  # B50: loading -> loading
    (34, 3, 3),  # B50: active -> active
    (34, 4, 4),  # B50: cached -> cached
    (34, 5, 5),  # B50: draining -> draining
    (35, 2, 2),  # B51: loading -> loading
    (35, 5, 5),  # B51: draining -> draining
    (36, 6, 0),  # B52: quarantined -> free
    (37, 6, 6),  # B53: quarantined -> quarantined
    (38, 6, 0),  # B54: quarantined -> free
    (39, 6, 6),  # B55: quarantined -> quarantined
    (40, 3, 3),  # B60: active -> active
    (41, 4, 0),  # B61: cached -> free
    (42, 4, 5),  # B62: cached -> draining
    (43, 4, 6),  # B63: cached -> quarantined
)
"""What a row does from one state is an arc: row, state before, state after."""

NUMBERS = {arc[:2]: number for number, arc in enumerate(ARCS)}
"""The number of each arc, by row and state before."""

CASES: Mapping[tuple[int, int], tuple[int, ...]] = {
    (0, 0): (0,),  # free, reserve
    (1, 1): (2,),  # open, claim
    (1, 2): (7,),  # open, hold
    (1, 3): (7,),  # open, step_hold
    (1, 4): (1,),  # open, seal
    (1, 9): (13, 14, 15),  # open, release
    (1, 10): (21,),  # open, read_begin
    (1, 11): (24,),  # open, read_end
    (1, 12): (34,),  # open, read_late
    (1, 16): (31,),  # open, lose
    (2, 9): (13, 14, 15),  # loading, release
    (2, 10): (22,),  # loading, read_begin
    (2, 11): (24,),  # loading, read_end
    (2, 12): (34,),  # loading, read_late
    (2, 13): (9,),  # loading, write_begin
    (2, 14): (10,),  # loading, write_end
    (2, 15): (35,),  # loading, write_late
    (2, 16): (31,),  # loading, lose
    (2, 17): (11,),  # loading, commit
    (2, 18): (12,),  # loading, rollback
    (3, 2): (7,),  # active, hold
    (3, 3): (7,),  # active, step_hold
    (3, 5): (3,),  # active, publish
    (3, 6): (4,),  # active, share
    (3, 7): (6,),  # active, store
    (3, 9): (16, 17, 18, 19, 20),  # active, release
    (3, 10): (21,),  # active, read_begin
    (3, 11): (24,),  # active, read_end
    (3, 12): (34,),  # active, read_late
    (3, 16): (31,),  # active, lose
    (3, 19): (40,),  # active, unpublish
    (4, 6): (5,),  # cached, share
    (4, 7): (6,),  # cached, store
    (4, 8): (8,),  # cached, evict
    (4, 10): (21,),  # cached, read_begin
    (4, 11): (24,),  # cached, read_end
    (4, 12): (34,),  # cached, read_late
    (4, 16): (31,),  # cached, lose
    (4, 19): (41, 42, 43),  # cached, unpublish
    (5, 10): (23,),  # draining, read_begin
    (5, 11): (25, 26, 27),  # draining, read_end
    (5, 12): (34,),  # draining, read_late
    (5, 14): (28, 29, 30),  # draining, write_end
    (5, 15): (35,),  # draining, write_late
    (5, 16): (32, 33),  # draining, lose
    (6, 12): (36, 37),  # quarantined, read_late
    (6, 15): (38, 39),  # quarantined, write_late
}
"""For each state and event that any row answers: these rows."""

GUARDS: tuple[Callable[[Any, Any], Any] | None, ...] = (
    None,  # B01
    None,  # B02
    lambda t, i: t.readers[i] == 0,  # B03
    lambda t, i: t.published[i] == 0,  # B08
    lambda t, i: t.published[i] != 0,  # B09
    None,  # B10
    None,  # B11
    None,  # B12
    lambda t, i: t.readers[i] == 0,  # B13
    lambda t, i: (t.writers[i] < t.ranks) & (t.readers[i] == 0) & (t.lost[i] == 0),  # B04
    lambda t, i: (t.writers[i] > 0) & (t.lost[i] < t.writers[i]),  # B05
    lambda t, i: (t.writers[i] == 0) & (t.readers[i] == 0),  # B06
    lambda t, i: (t.writers[i] == 0) & (t.readers[i] == 0),  # B07
    lambda t, i: (t.readers[i] + t.writers[i]) == 0,  # B20
    lambda t, i: t.lost[i] < (t.readers[i] + t.writers[i]),  # B21
    lambda t, i: (t.lost[i] > 0) & (t.lost[i] == (t.readers[i] + t.writers[i])),  # B22
    lambda t, i: t.owners[i] > 1,  # B23
    lambda t, i: (t.owners[i] == 1) & (t.published[i] != 0),  # B24
    lambda t, i: (t.owners[i] == 1) & (t.published[i] == 0) & (t.readers[i] == 0),  # B25
    lambda t, i: (t.owners[i] == 1) & (t.published[i] == 0) & (t.lost[i] < t.readers[i]),  # B26
    lambda t, i: (t.owners[i] == 1) & (t.published[i] == 0) & (t.lost[i] > 0) & (t.lost[i] == t.readers[i]),  # B27
    None,  # B30
    lambda t, i: t.writers[i] == 0,  # B31
    lambda t, i: (t.lost[i] < t.readers[i]) & (t.writers[i] == 0),  # B32
    lambda t, i: t.lost[i] < t.readers[i],  # B33
    lambda t, i: (t.readers[i] == 1) & (t.writers[i] == 0),  # B34
    lambda t, i: t.lost[i] < (t.readers[i] - 1),  # B35
    lambda t, i: (t.readers[i] > 1) & (t.lost[i] == (t.readers[i] - 1)),  # B36
    lambda t, i: t.writers[i] == 1,  # B37
    lambda t, i: t.lost[i] < (t.writers[i] - 1),  # B38
    lambda t, i: (t.writers[i] > 1) & (t.lost[i] == (t.writers[i] - 1)),  # B39
    lambda t, i: t.lost[i] < (t.readers[i] + t.writers[i]),  # B40
    lambda t, i: (t.lost[i] + 1) < (t.readers[i] + t.writers[i]),  # B41
    lambda t, i: (t.lost[i] + 1) == (t.readers[i] + t.writers[i]),  # B42
    lambda t, i: (t.readers[i] > 0) & (t.lost[i] > 0),  # B50
    lambda t, i: (t.writers[i] > 0) & (t.lost[i] > 0),  # B51
    lambda t, i: t.readers[i] == 1,  # B52
    lambda t, i: t.readers[i] > 1,  # B53
    lambda t, i: t.writers[i] == 1,  # B54
    lambda t, i: t.writers[i] > 1,  # B55
    lambda t, i: t.published[i] != 0,  # B60
    lambda t, i: t.readers[i] == 0,  # B61
    lambda t, i: t.lost[i] < t.readers[i],  # B62
    lambda t, i: (t.lost[i] > 0) & (t.lost[i] == t.readers[i]),  # B63
)
"""For each row: its guard over whole columns, None where it has none."""
