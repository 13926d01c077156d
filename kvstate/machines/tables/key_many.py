# Generated from spec/key.toml by `make tables`; do not edit.
"""Whether one key is a hit in one tier: the same rows for many records at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvstate.machines.tables.key import KeyTable


def _each_begin(t: KeyTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    state = t.state
    for i in slots:
        now = state[i]
        if now == 0:  # absent
            state[i] = 1  # writing
            arcs.append(1)  # K01
        elif now == 4:  # condemned
            state[i] = 1  # writing
            arcs.append(2)  # K01
        else:
            break
    return arcs


def _each_offer(t: KeyTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    state = t.state
    for i in slots:
        now = state[i]
        if now == 0:  # absent
            state[i] = 2  # ready
            arcs.append(3)  # K02
        elif now == 4:  # condemned
            state[i] = 2  # ready
            arcs.append(4)  # K02
        else:
            break
    return arcs


def _each_hit(t: KeyTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    state = t.state
    for i in slots:
        now = state[i]
        if now == 2:  # ready
            arcs.append(0)  # K13
        else:
            break
    return arcs


def _each_reset(t: KeyTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    state = t.state
    for i in slots:
        now = state[i]
        if now == 2:  # ready
            state[i] = 0  # absent
            arcs.append(11)  # K07
        elif now == 3:  # cooling
            state[i] = 0  # absent
            arcs.append(12)  # K07
        elif now == 4:  # condemned
            state[i] = 0  # absent
            arcs.append(13)  # K08
        else:
            break
    return arcs


def _each_vanish(t: KeyTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    state = t.state
    for i in slots:
        now = state[i]
        if now == 2:  # ready
            state[i] = 0  # absent
            arcs.append(14)  # K14
        elif now == 3:  # cooling
            state[i] = 0  # absent
            arcs.append(15)  # K14
        else:
            break
    return arcs


def _each_warm(t: KeyTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    state = t.state
    for i in slots:
        now = state[i]
        if now == 0:  # absent
            arcs.append(19)  # K12
        elif now == 1:  # writing
            arcs.append(20)  # K12
        elif now == 2:  # ready
            arcs.append(21)  # K12
        elif now == 3:  # cooling
            state[i] = 2  # ready
            arcs.append(18)  # K11
        elif now == 4:  # condemned
            arcs.append(22)  # K12
        else:
            break
    return arcs


def _each_commit(t: KeyTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    state = t.state
    for i in slots:
        now = state[i]
        if now == 1:  # writing
            state[i] = 2  # ready
            arcs.append(5)  # K03
        else:
            break
    return arcs


def _each_drop(t: KeyTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    state = t.state
    for i in slots:
        now = state[i]
        if now == 1:  # writing
            state[i] = 0  # absent
            arcs.append(6)  # K04
        else:
            break
    return arcs


def _each_condemn(t: KeyTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    state = t.state
    for i in slots:
        now = state[i]
        if now == 2:  # ready
            state[i] = 4  # condemned
            arcs.append(7)  # K05
        elif now == 3:  # cooling
            state[i] = 4  # condemned
            arcs.append(8)  # K05
        else:
            break
    return arcs


def _each_cool(t: KeyTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    state = t.state
    for i in slots:
        now = state[i]
        if now == 2:  # ready
            state[i] = 3  # cooling
            arcs.append(16)  # K09
        elif now == 3:  # cooling
            arcs.append(17)  # K10
        else:
            break
    return arcs


def _each_evicted(t: KeyTable, slots: Iterable[int]) -> list[int]:
    arcs: list[int] = []
    state = t.state
    for i in slots:
        now = state[i]
        if now == 2:  # ready
            state[i] = 0  # absent
            arcs.append(9)  # K06
        elif now == 3:  # cooling
            state[i] = 0  # absent
            arcs.append(10)  # K06
        else:
            break
    return arcs


EACH: tuple[Callable[[KeyTable, Iterable[int]], list[int]], ...] = (
    _each_begin,
    _each_offer,
    _each_hit,
    _each_reset,
    _each_vanish,
    _each_warm,
    _each_commit,
    _each_drop,
    _each_condemn,
    _each_cool,
    _each_evicted,
)
"""For each event: what fires it on one slot after the other, and returns the arcs that were gone."""

ARCS: tuple[tuple[int, int, int], ...] = (
    (0, 2, 2),  # K13: ready -> ready
    (1, 0, 1),  # K01: absent -> writing
    (1, 4, 1),  # K01: condemned -> writing
    (2, 0, 2),  # K02: absent -> ready
    (2, 4, 2),  # K02: condemned -> ready
    (3, 1, 2),  # K03: writing -> ready
    (4, 1, 0),  # K04: writing -> absent
    (5, 2, 4),  # K05: ready -> condemned
    (5, 3, 4),  # K05: cooling -> condemned
    (6, 2, 0),  # K06: ready -> absent
    (6, 3, 0),  # K06: cooling -> absent
    (7, 2, 0),  # K07: ready -> absent
    (7, 3, 0),  # K07: cooling -> absent
    (8, 4, 0),  # K08: condemned -> absent
    (9, 2, 0),  # K14: ready -> absent
    (9, 3, 0),  # K14: cooling -> absent
    (10, 2, 3),  # K09: ready -> cooling
    (11, 3, 3),  # K10: cooling -> cooling
    (12, 3, 2),  # K11: cooling -> ready
    (13, 0, 0),  # K12: absent -> absent
    (13, 1, 1),  # K12: writing -> writing
    (13, 2, 2),  # K12: ready -> ready
    (13, 4, 4),  # K12: condemned -> condemned
)
"""What a row does from one state is an arc: row, state before, state after."""

NUMBERS = {arc[:2]: number for number, arc in enumerate(ARCS)}
"""The number of each arc, by row and state before."""

CASES: Mapping[tuple[int, int], tuple[int, ...]] = {
    (0, 0): (1,),  # absent, begin
    (0, 1): (2,),  # absent, offer
    (0, 5): (13,),  # absent, warm
    (1, 5): (13,),  # writing, warm
    (1, 6): (3,),  # writing, commit
    (1, 7): (4,),  # writing, drop
    (2, 2): (0,),  # ready, hit
    (2, 3): (7,),  # ready, reset
    (2, 4): (9,),  # ready, vanish
    (2, 5): (13,),  # ready, warm
    (2, 8): (5,),  # ready, condemn
    (2, 9): (10,),  # ready, cool
    (2, 10): (6,),  # ready, evicted
    (3, 3): (7,),  # cooling, reset
    (3, 4): (9,),  # cooling, vanish
    (3, 5): (12,),  # cooling, warm
    (3, 8): (5,),  # cooling, condemn
    (3, 9): (11,),  # cooling, cool
    (3, 10): (6,),  # cooling, evicted
    (4, 0): (1,),  # condemned, begin
    (4, 1): (2,),  # condemned, offer
    (4, 3): (8,),  # condemned, reset
    (4, 5): (13,),  # condemned, warm
}
"""For each state and event that any row answers: these rows."""

GUARDS: tuple[Callable[[Any, Any], Any] | None, ...] = (
    None,  # K13
    None,  # K01
    None,  # K02
    None,  # K03
    None,  # K04
    None,  # K05
    None,  # K06
    None,  # K07
    None,  # K08
    None,  # K14
    None,  # K09
    None,  # K10
    None,  # K11
    None,  # K12
)
"""For each row: its guard over whole columns, None where it has none."""
