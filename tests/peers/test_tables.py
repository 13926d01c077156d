"""The rows of `spec/peers`: proved one by one, and the tables that run are the rows."""

from __future__ import annotations

import importlib
import shutil
from itertools import product
from pathlib import Path

import pytest

from kvstate.machines.interpreted import interpreted
from kvstate.peers.tables import SPEC_VERSION, TABLES
from kvstate.peers.tables import coupling as lines
from kvstate.proof.rows import check_rows, lints
from kvstate.spec import generate, rules, spec_dir
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Machine

SPEC = load_spec(spec_dir() / "peers")
NAMES = [machine.name for machine in SPEC.machines]


@pytest.mark.parametrize("name", NAMES)
def test_every_row_is_proved_and_none_says_what_decides_nothing(name: str) -> None:
    assert check_rows(SPEC.machine(name)) == []
    assert lints(SPEC.machine(name)) == []


def test_the_rules_of_the_whole_hold_and_ids_are_nobody_elses() -> None:
    assert rules.check_spec(SPEC) == []
    ids = [row.id for machine in SPEC.machines for row in machine.rows] + [one.id for one in SPEC.couplings]
    ids += [act.id for act in SPEC.acts]
    own = load_spec(check=False)
    others = {row.id for machine in own.machines for row in machine.rows} | {one.id for one in own.couplings}
    assert len(set(ids)) == len(ids)
    assert not set(ids) & (others | {act.id for act in own.acts})


def every_case(machine: Machine) -> list[dict[str, int]]:
    """Values of the variables, small ones in all combinations."""
    names = [var.name for var in machine.vars]
    ranges = [(0, 1) if var.type == "bool" else (0, 1, 2, 3) for var in machine.vars]
    return [dict(zip(names, values, strict=True)) for values in product(*ranges)]


@pytest.mark.parametrize("name", NAMES)
def test_generated_and_interpreted_tables_agree_in_every_cell(name: str) -> None:
    machine = SPEC.machine(name)
    params = {param.name: 2 for param in machine.params}
    cases = 0
    for state, event, values in product(range(len(machine.states)), range(len(machine.events)), every_case(machine)):
        outcome = []
        for kind in (TABLES[name], interpreted(machine)):
            table = kind(**params)
            slot = table.add(**{var.name: 1 for var in machine.vars if var.initial is None})
            for column, value in {"state": state, **values}.items():
                table.columns[column][slot] = value  # type: ignore[index]
            chosen = table.choose(slot, event)
            assert table.fire(slot, event) == chosen
            outcome.append((chosen, [column[slot] for column in table.columns.values()]))  # type: ignore[index]
        assert outcome[0] == outcome[1]
        cases += 1
    assert cases == len(machine.states) * len(machine.events) * len(every_case(machine))


def test_names_are_those_of_the_files() -> None:
    assert list(TABLES) == NAMES
    assert SPEC.version == SPEC_VERSION
    for machine in SPEC.machines:
        module = importlib.import_module(f"kvstate.peers.tables.{machine.name}")
        assert [state.name.lower() for state in module.State] == [state.name for state in machine.states]
        assert [event.name.lower() for event in module.Event] == [event.name for event in machine.events]
        assert tuple(row.effects for row in machine.rows) == TABLES[machine.name].EFFECTS
        assert tuple(row.id for row in machine.rows) == TABLES[machine.name].ROWS
    assert [line[0] for line in lines.COUPLINGS] == [coupling.id for coupling in SPEC.couplings]
    assert [line[0] for line in lines.ACTS] == [act.id for act in SPEC.acts]
    assert [line[0] for line in lines.RELATIONS] == [relation.name for relation in SPEC.relations]


def test_a_stale_table_of_the_peers_is_named_and_mended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in generate.outputs(load_spec(check=False), SPEC):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(generate.ROOT / path, tmp_path / path)
    assert generate.main(["--check"], root=tmp_path) == 0
    folder = tmp_path / generate.PEERS_TABLES
    (folder / "lend.py").write_text("nothing\n", encoding="utf-8")
    (folder / "gift.py").write_text("nothing\n", encoding="utf-8")
    assert generate.main(["--check"], root=tmp_path) == 1
    said = capsys.readouterr().err
    assert "kvstate/peers/tables/lend.py is not what spec/ says" in said
    assert "kvstate/peers/tables/gift.py is not what spec/ says" in said
    assert generate.main([], root=tmp_path) == 0
    assert generate.main(["--check"], root=tmp_path) == 0
