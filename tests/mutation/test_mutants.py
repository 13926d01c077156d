"""All mutants are there, each once, each different, and of every kind as many as there are things to be changed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kvstate.machines import tables
from kvstate.machines.table import REFUSED
from kvstate.mutation import planted
from kvstate.mutation.mutants import KINDS, mutants
from kvstate.spec.loader import load_machine
from kvstate.spec.model import Row, Spec
from tests.mutation.parts import MUTANTS, SPEC

LAMP = """
machine = "lamp"
title = "A lamp"
doc = "For the tests."
initial = "dark"

[vars.uses]
type = "int"
initial = 0
doc = "How often it was lit."

[states.dark]
home = true
doc = "Off."

[states.lit]
doc = "On."

[states.dead]
home = true
doc = "Broken."

[events.press]
kind = "request"
doc = "Somebody pressed."

[events.burst]
kind = "report"
doc = "It broke."

[[row]]
id = "L1"
from = ["dark"]
event = ["press"]
when = "uses < 9 and uses >= 0"
to = "lit"
set = { uses = "uses + 1" }
effects = ["glow", "hum"]
why = "It is lit."

[[row]]
id = "L2"
from = ["dark", "lit", "dead"]
event = ["burst"]
to = "dead"
why = "It breaks."

[[row]]
id = "L3"
from = ["lit"]
event = ["press"]
when = "uses > 3"
to = "="
effects = ["hum", "hum"]
why = "It stays lit."
"""
OF_THE_LAMP = [
    ("L1 deleted", "row deleted"),
    ("L1 leads to dead", "target redirected"),
    ("L1 stays where it was", "target redirected"),
    ("L1 without glow", "effect dropped"),
    ("L1 without hum", "effect dropped"),
    ("L1 says hum before glow", "effects exchanged"),
    ("L1 without its guard", "guard dropped"),
    ("L1 with the opposite guard", "guard negated"),
    ("L1 without the condition uses < 9", "condition dropped"),
    ("L1 without the condition uses >= 0", "condition dropped"),
    ("L1 keeps uses", "change dropped"),
    ("L2 deleted", "row deleted"),
    ("L2 leads to dark", "target redirected"),
    ("L2 leads to lit", "target redirected"),
    ("L2 stays where it was", "target redirected"),
    ("L3 deleted", "row deleted"),
    ("L3 leads to dark", "target redirected"),
    ("L3 leads to dead", "target redirected"),
    ("L3 without hum 1", "effect dropped"),
    ("L3 without its guard", "guard dropped"),
    ("L3 with the opposite guard", "guard negated"),
]


def test_all_mutants_of_a_small_machine(tmp_path: Path) -> None:
    (tmp_path / "lamp.toml").write_text(LAMP, encoding="utf-8")
    lamp = load_machine(tmp_path / "lamp.toml")
    found = mutants(Spec("1", (lamp,), (), (), ()))
    assert [(one.name, one.kind) for one in found] == OF_THE_LAMP
    assert {(one.machine, one.row) for one in found} == {("lamp", row.id) for row in lamp.rows}
    opposite = next(one for one in found if one.name == "L1 with the opposite guard").spec.machine("lamp").row("L1")
    assert opposite.when.source == "not (uses < 9 and uses >= 0)"


def targets(row: Row, states: int) -> int:
    """In how many ways it can lead elsewhere.

    To each state but the one that it leads to, and to `=`, if that is not where it leads; but not by name to the state
    that is its only source, for that is `=`.
    """
    return states - (len(row.sources) == 1)


def test_there_are_as_many_as_there_are_things_to_change() -> None:
    rows = [(row, len(machine.states)) for machine in SPEC.machines for row in machine.rows]
    conditions = [len(row.when.conjuncts) for row, _ in rows]
    assert Counter(one.kind for one in MUTANTS.values()) == {
        "row deleted": len(rows),
        "target redirected": sum(targets(row, states) for row, states in rows),
        "effect dropped": sum(len(row.effects) for row, _ in rows),
        "effects exchanged": sum(max(len(row.effects) - 1, 0) for row, _ in rows),
        "guard dropped": sum(count > 0 for count in conditions),
        "guard negated": sum(count > 0 for count in conditions),
        "condition dropped": sum(count for count in conditions if count > 1),
        "change dropped": sum(len(row.sets) for row, _ in rows),
        "coupling dropped": len(SPEC.couplings),
        "act dropped": len(SPEC.acts),
    }
    assert {one.kind for one in MUTANTS.values()} == set(KINDS)
    assert len(MUTANTS) == len(mutants(SPEC)), "each has a name of its own"


def test_each_differs_from_what_ships_in_one_place() -> None:
    for one in MUTANTS.values():
        assert one.spec != SPEC, one.name
        if one.coupled:
            assert one.spec.machines == SPEC.machines
            gone = {line.id for line in SPEC.couplings} - {line.id for line in one.spec.couplings}
            gone |= {line.id for line in SPEC.acts} - {line.id for line in one.spec.acts}
            assert gone == {one.row}
            continue
        changed = [machine.name for machine in SPEC.machines if one.spec.machine(machine.name) != machine]
        assert changed == [one.machine]
        before, after = (spec.machine(one.machine).rows for spec in (SPEC, one.spec))
        assert {row.id for row in before if row not in after} == {one.row}
        assert {row.id for row in after if row not in before} <= {one.row}
        assert (one.spec.couplings, one.spec.acts) == (SPEC.couplings, SPEC.acts)


# -- as the rules of a ledger ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [machine.name for machine in SPEC.machines])
def test_a_table_is_printed_as_it_ships(name: str) -> None:
    made, ships = planted.table(SPEC.machine(name)), tables.TABLES[name]
    assert made is not ships
    for part in ("STATES", "EVENTS", "KINDS", "VARS", "ROWS", "EFFECTS", "HOME", "INITIAL"):
        assert getattr(made, part) == getattr(ships, part)
    assert (made.MANY is None) == (ships.MANY is None)


def block_table(name: str) -> Any:
    made: Any = planted.rules(MUTANTS[name]).machines["block"]
    return made(ranks=1)


def test_a_printed_fault_is_run_one_by_one_and_in_numbers() -> None:
    table = block_table("B01 leads to active")
    reserve = table.EVENTS.index("reserve")
    table.extend(3)
    assert table.ROWS[table.fire(0, reserve)] == "B01"
    assert len(table.each([1, 2], reserve)) == 2
    column = table.columns["state"]
    assert [table.STATES[column[slot]] for slot in range(3)] == ["active"] * 3
    gone = block_table("B01 deleted")
    gone.extend(1)
    assert gone.fire(0, reserve) == REFUSED


def test_a_fault_in_the_couplings_leaves_the_tables_alone() -> None:
    without = planted.rules(MUTANTS["C03 deleted"])
    assert without.machines is tables.TABLES
    assert len(without.couplings) == len(SPEC.couplings) - 1
    assert "C03" not in {row.id for row in without.couplings}
    assert "D02" not in {row.id for row in planted.rules(MUTANTS["D02 deleted"]).acts}
