"""The forms for many records do what the tables do one by one: `each`, wide guards, NumPy over whole columns."""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterator
from typing import Any, cast

import pytest

from kvstate.machines import bulk, columns
from kvstate.machines.table import REFUSED, Table
from kvstate.machines.tables import TABLES
from kvstate.machines.tables.block import BlockTable
from kvstate.machines.tables.block import Event as B
from tests.machines.test_differential import MACHINES, params_of, valuations

MANY = [name for name, table in TABLES.items() if table.MANY is not None]


def stocked(name: str) -> Iterator[Table]:
    """A table for each choice of params, with a record for every small valuation of every state, three times over."""
    machine = MACHINES[name]
    for params in params_of(machine):
        table = TABLES[name](**params)
        cases = [(state.name, case) for state in machine.states for case in valuations(machine, state.name, params)] * 3
        table.extend(len(cases))
        put = cast("dict[str, array[int]]", table.columns)
        for slot, (state, case) in enumerate(cases):
            put["state"][slot] = table.STATES.index(state)
            for var in table.VARS:
                put[var][slot] = int(case[var])
        yield table


def records(table: Table) -> list[tuple[int, ...]]:
    return list(zip(*cast("dict[str, array[int]]", table.columns).values(), strict=True))


def one_by_one(table: Table, slots: list[int], event: int) -> list[int]:
    """The arcs, from `fire` alone."""
    assert table.MANY is not None
    state = cast("dict[str, array[int]]", table.columns)["state"]
    arcs = []
    for slot in slots:
        before = state[slot]
        row = table.fire(slot, event)
        if row == REFUSED:
            break
        assert table.MANY.arcs[table.MANY.numbers[row, before]] == (row, before, state[slot])
        arcs.append(table.MANY.numbers[row, before])
    return arcs


@pytest.mark.parametrize("name", MANY)
def test_each_does_what_fire_does(name: str) -> None:
    """On every record that takes the event, and on one that refuses: there it stops."""
    for table in stocked(name):
        for event in range(len(table.EVENTS)):
            slots = list(range(len(table)))
            takers = [slot for slot in slots if table.choose(slot, event) != REFUSED]
            refusing = [slot for slot in slots if slot not in set(takers)]
            assert takers
            assert all(table.each([slot], event) == [] for slot in refusing)
            for chosen in (takers, takers[:3] + refusing[:1] + takers[3:]):
                one, other = table.copy(), table.copy()
                assert one.each(chosen, event) == one_by_one(other, chosen, event)
                assert records(one) == records(other)


@pytest.mark.parametrize("name", MANY)
def test_each_refuses_what_no_row_was_made_for(name: str) -> None:
    """Counters that no state allows, and a state that there is not: nothing happens, as with `fire`."""
    table = TABLES[name]()
    table.extend(1)
    put = cast("dict[str, array[int]]", table.columns)
    for state in range(len(table.STATES)):
        odd: tuple[dict[str, int], ...] = ({}, {"lost": 3}, {"lost": 3, "readers": 1}, {"readers": -1})
        for counters in odd if table.VARS else ({},):
            for event in range(len(table.EVENTS)):
                table.renew(0)
                put["state"][0] = state
                for var, value in counters.items():
                    put[var][0] = value
                other = table.copy()
                refused = table.choose(0, event) == REFUSED
                arcs = table.each([0], event)
                assert arcs == one_by_one(other, [0], event)
                assert refused is (arcs == [])
                assert records(table) == records(other)
    put["state"][0] = 250
    assert all(table.each([0], event) == [] for event in range(len(table.EVENTS)))


@pytest.mark.parametrize("name", MANY)
def test_columns_choose_what_the_table_chooses(name: str) -> None:
    for table in stocked(name):
        assert table.MANY is not None
        view, slots = columns.View(table), array("q", random.Random(name).sample(range(len(table)), len(table)))
        state = cast("dict[str, array[int]]", table.columns)["state"]
        for event in range(len(table.EVENTS)):
            rows = [table.choose(slot, event) for slot in slots]
            arcs = [
                REFUSED if row == REFUSED else table.MANY.numbers[row, state[slot]]
                for slot, row in zip(slots, rows, strict=True)
            ]
            assert columns.choose(view, slots, event).tolist() == arcs
            assert columns.choose(view, range(len(table)), event).tolist() == [
                arcs[slots.index(slot)] for slot in range(len(table))
            ]
            assert columns.taken(view, slots, event) == (REFUSED not in rows)


def expanded(runs: list[tuple[int, int]] | None) -> list[int]:
    assert runs is not None
    return [arc for arc, count in runs for _ in range(count)]


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("order", ["as they lie", "shuffled", "by state", "one state"])
def test_columns_fire_what_the_table_fires(name: str, order: str) -> None:
    """Mixed states, runs of states, and all in one state with different rows: the same arcs in the same order."""
    for table in stocked(name):
        for event in range(len(table.EVENTS)):
            slots = [slot for slot in range(len(table)) if table.choose(slot, event) != REFUSED]
            state = cast("dict[str, array[int]]", table.columns)["state"]
            if order == "shuffled":
                random.Random(event).shuffle(slots)
            elif order == "by state":
                slots.sort(key=state.__getitem__)
            elif order == "one state":
                slots = [slot for slot in slots if state[slot] == state[slots[-1]]]
            one, other = table.copy(), table.copy()
            assert columns.taken(columns.View(one), array("q", slots), event)
            assert expanded(columns.fire(columns.View(one), array("q", slots), event)) == one_by_one(
                other, slots, event
            )
            assert records(one) == records(other)


@pytest.mark.parametrize("name", MANY)
def test_if_one_refuses_nothing_has_changed(name: str) -> None:
    for table in stocked(name):
        before = records(table)
        for event in range(len(table.EVENTS)):
            takers = [slot for slot in range(len(table)) if table.choose(slot, event) != REFUSED]
            refusing = [slot for slot in range(len(table)) if table.choose(slot, event) == REFUSED]
            for other in refusing[:: max(1, len(refusing) // 7)]:
                slots = array("q", [*takers[:5], other, *takers[5:]])
                assert columns.fire(columns.View(table), slots, event) is None
                assert not columns.taken(columns.View(table), slots, event)
                assert columns.fire(columns.View(table), array("q", [other]), event) is None
            assert records(table) == before


@pytest.mark.parametrize("way", ["range", "up", "down"])
def test_a_run_is_taken_as_a_slice(way: str) -> None:
    """The contiguous case, up and down: all of one state, two runs of states, and rows that differ."""

    def run(first: int, end: int) -> Any:
        if way == "range":
            return range(first, end)
        slots = bulk.run(array("q", range(first, end)))
        assert isinstance(slots, bulk.Run)
        return slots if way == "up" else bulk.backwards(slots)

    one, other = BlockTable(), BlockTable()
    for table in (one, other):
        table.extend(40)
    view = columns.View(one)
    for event, slots in ((B.RESERVE, run(0, 40)), (B.SEAL, run(10, 30)), (B.STEP_HOLD, run(5, 35))):
        assert expanded(columns.fire(view, slots, event)) == one_by_one(other, list(slots), event)
    for table in (one, other):
        assert table.fire(20, B.PUBLISH) >= 0
    slots = run(15, 25)
    assert columns.taken(view, slots, B.RELEASE)
    assert not columns.taken(view, run(0, 40), B.SEAL)
    assert expanded(columns.fire(view, slots, B.RELEASE)) == one_by_one(other, list(slots), B.RELEASE)
    assert records(one) == records(other)


def test_a_machine_of_few_has_no_such_forms() -> None:
    table = TABLES["offload"]()
    with pytest.raises(TypeError, match="the table of offload has no forms for many records"):
        columns.View(table)
    with pytest.raises(NotImplementedError, match="the records of offload do not come in numbers"):
        table.each([0], 0)
