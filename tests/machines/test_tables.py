"""The generated tables: up to date, faithful in every name and number; and what all tables do with records."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from kvstate.machines.interpreted import interpreted
from kvstate.machines.step import choose, step
from kvstate.machines.table import REFUSED, Table
from kvstate.machines.tables import SPEC_VERSION, TABLES
from kvstate.machines.tables import coupling as couplings
from kvstate.spec import generate
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Machine, Spec
from kvstate.spec.print_table import print_table

TABLES_DIR = generate.ROOT / generate.TABLES


# --- What is checked in ---------------------------------------------------------------------------------------------


def test_what_is_checked_in_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert generate.main(["--check"]) == 0, capsys.readouterr().err


def test_the_same_spec_prints_the_same_text_in_any_process() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-m", "kvstate.spec.generate", "--check"]
    run = subprocess.run(command, env=environment, cwd=generate.ROOT, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory with the generated files of this one, to spoil."""
    for path in generate.outputs(load_spec()):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(generate.ROOT / path, tmp_path / path)
    return tmp_path


def _edit(tables: Path) -> None:
    path = tables / "part.py"
    path.write_text(path.read_text().replace("REFUSED,  # launch", "0,  # launch", 1))


def _delete(tables: Path) -> None:
    (tables / "part.py").unlink()


def _retire(tables: Path) -> None:
    shutil.copy(tables / "part.py", tables / "parts.py")


@pytest.mark.parametrize(("spoil", "named"), [(_edit, "part.py"), (_delete, "part.py"), (_retire, "parts.py")])
def test_check_names_the_stale_file_and_writing_mends_it(
    checkout: Path, spoil: Callable[[Path], None], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate.main(["--check"], root=checkout) == 0
    spoil(checkout / generate.TABLES)
    assert generate.main(["--check"], root=checkout) == 1
    assert capsys.readouterr().err == (f"kvstate/machines/tables/{named} is not what spec/ says; run `make tables`\n")
    assert generate.main([], root=checkout) == 0
    assert named in capsys.readouterr().out
    assert generate.main(["--check"], root=checkout) == 0


def test_what_is_checked_in_is_as_ruff_would_format_it() -> None:
    run = _ruff("format", "--check", str(TABLES_DIR))
    assert run.returncode == 0, run.stdout + run.stderr


def _ruff(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ruff", *arguments]
    return subprocess.run(command, cwd=generate.ROOT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["kvstate.machines", "kvstate.machines.tables", "kvstate.machines.tables.coupling"])
def test_running_the_machines_brings_no_parser_no_prover_and_no_arrays_of_others(module: str) -> None:
    names = "torch numpy z3 tomllib transitions graphviz hypothesis"
    code = f"import sys, {module}; print([name for name in {names.split()!r} if name in sys.modules])"
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, cwd=generate.ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# --- Names and numbers ----------------------------------------------------------------------------------------------


def both(machine: Machine) -> tuple[type[Table], type[Table]]:
    return TABLES[machine.name], interpreted(machine)


def test_names_and_numbers_are_those_of_the_file(machine: Machine) -> None:
    for table in both(machine):
        assert table.name == machine.name
        assert tuple(state.name for state in machine.states) == table.STATES
        assert tuple(event.name for event in machine.events) == table.EVENTS
        assert tuple(event.kind for event in machine.events) == table.KINDS
        assert tuple(var.name for var in machine.vars) == table.VARS
        assert tuple(var.name for var in machine.vars if var.initial is None) == table.GIVEN
        assert tuple(param.name for param in machine.params) == table.PARAMS
        assert tuple(row.id for row in machine.rows) == table.ROWS
        assert tuple(row.effects for row in machine.rows) == table.EFFECTS
        assert {table.STATES[number] for number in table.HOME} == {state.name for state in machine.states if state.home}
        assert table.STATES[table.INITIAL] == machine.initial
        empty = table()
        assert [getattr(empty, param.name) for param in machine.params] == [param.default for param in machine.params]


def test_the_enums_of_a_module_are_the_numbers_of_its_table(machine: Machine) -> None:
    module = importlib.import_module(f"kvstate.machines.tables.{machine.name}")
    assert [state.name.lower() for state in module.State] == [state.name for state in machine.states]
    assert [event.value for event in module.Event] == list(range(len(machine.events)))


def test_the_package_has_every_machine_and_what_couples_them(spec: Spec) -> None:
    assert list(TABLES) == [machine.name for machine in spec.machines]
    assert spec.version == SPEC_VERSION
    assert len(couplings.RELATIONS) == len(spec.relations)
    assert [entry[0] for entry in couplings.COUPLINGS] == [coupling.id for coupling in spec.couplings]
    for entry, c in zip(couplings.COUPLINGS, spec.couplings, strict=True):
        assert entry == (c.id, c.machine, c.effect, c.target, c.event, c.over, c.ask)
    for act_entry, act in zip(couplings.ACTS, spec.acts, strict=True):
        assert act_entry == (act.id, act.machine, act.effect, act.act, act.order)


# --- Records --------------------------------------------------------------------------------------------------------


def contents(table: Table) -> dict[str, list[int]]:
    return {name: list(column) for name, column in table.columns.items()}  # type: ignore[call-overload]


def test_records_are_born_renewed_and_copied(machine: Machine) -> None:
    given = {var.name: 2 for var in machine.vars if var.initial is None}
    first = [given[var.name] if var.initial is None else int(var.initial) for var in machine.vars]
    born = dict(zip(("state", *(var.name for var in machine.vars)), [0, *first], strict=True))
    for kind in both(machine):
        table = kind(**{param.name: 2 for param in machine.params})
        born["state"] = table.INITIAL
        assert len(table) == 0
        assert [table.add(**given), table.add(**given)] == [0, 1]
        assert contents(table) == {name: [value, value] for name, value in born.items()}
        assert table.columns["state"] is getattr(table, "state")  # noqa: B009
        twin = table.copy()
        number = next(number for number in range(len(table.EVENTS)) if table.choose(1, number) != REFUSED)
        for name, column in table.columns.items():
            column[1] = 1 - born[name] % 2  # type: ignore[index]
        assert contents(twin) == {name: [value, value] for name, value in born.items()}, "a copy shares an array"
        assert [getattr(twin, param.name) for param in machine.params] == [2 for _ in machine.params]
        table.renew(1, **given)
        assert contents(table) == contents(twin)
        assert table.fire(0, number) == twin.choose(0, number)
        assert repr(table).endswith("of 2 records>")


def test_many_records_are_made_at_once(machine: Machine) -> None:
    for kind in both(machine):
        table = kind()
        if kind.GIVEN:
            with pytest.raises(TypeError, match=f"a record of {machine.name} is born with .*, not with none"):
                table.extend(3)
            assert len(table) == 0
            continue
        table.extend(3)
        one_by_one = kind()
        for _ in range(3):
            one_by_one.add()
        assert contents(table) == contents(one_by_one)
        with pytest.raises(ValueError, match="can't be extended by -1 records"):
            table.extend(-1)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "a record of odd is born with i, flag, not with none"),
        ({"i": 1}, "born with i, flag, not with i"),
        ({"i": 1, "flag": 0, "t": 1}, "not with i, flag, t"),
        ({"i": 2**63, "flag": 0}, "odd.i can't be 9223372036854775808: it is a whole number from -9223372036854775808"),
        ({"i": 1, "flag": 2}, "odd.flag can't be 2: it is a whole number from 0 to 1"),
        ({"i": 1.0, "flag": 0}, r"odd.i can't be 1\.0"),
    ],
)
def test_a_wrong_birth_raises_and_adds_nothing(odd: Machine, given: dict[str, int], sentence: str) -> None:
    table = interpreted(odd)()
    with pytest.raises((TypeError, ValueError), match=sentence):
        table.add(**given)
    assert contents(table) == {"state": [], "t": [], "i": [], "flag": []}


def test_a_param_that_there_is_not_is_refused(odd: Machine) -> None:
    with pytest.raises(TypeError, match="odd has no param 'least'"):
        interpreted(odd)(least=1)  # type: ignore[call-arg]


def test_a_machine_without_given_values_takes_none(block: Machine) -> None:
    for kind in both(block):
        with pytest.raises(TypeError, match="a record of block is born with no values, not with owners"):
            kind().add(owners=1)


def test_step_leaves_what_it_was_given(block: Machine) -> None:
    values = {"owners": 0, "readers": 0, "writers": 0, "lost": 0, "published": False, "generation": 0, "ranks": 1}
    before = dict(values)
    answer = step(block, "free", values, "reserve")
    assert answer is not None
    assert values == before
    assert answer[2] == {**before, "owners": 1}
    assert step(block, "free", values, "evict") is None


# --- A machine of odd habits ----------------------------------------------------------------------------------------


def load_printed(machine: Machine, path: Path) -> type[Table]:
    """The printed module, from a file outside the package."""
    path.write_text(print_table(machine), encoding="utf-8")
    description = importlib.util.spec_from_file_location(f"printed_{machine.name}", path)
    assert description is not None
    assert description.loader is not None
    module = importlib.util.module_from_spec(description)
    description.loader.exec_module(module)
    table: type[Table] = module.OddTable
    return table


def test_a_machine_of_odd_habits_is_printed_right(odd: Machine, tmp_path: Path) -> None:
    table = load_printed(odd, tmp_path / "odd.py")(most=2)  # type: ignore[call-arg]
    slot = table.add(i=1, flag=0)
    columns = table.columns
    fired = set()
    for state, event, t, i, flag in product(odd.states, odd.events, range(5), range(5), (False, True)):
        record = {"state": table.STATES.index(state.name), "t": t, "i": i, "flag": int(flag)}
        for name, value in record.items():
            columns[name][slot] = value  # type: ignore[index]
        values = {"t": t, "i": i, "flag": flag, "most": 2}
        answer = step(odd, state.name, values, event.name)
        row = table.fire(slot, table.EVENTS.index(event.name))
        assert (None if row == REFUSED else table.ROWS[row]) == (None if answer is None else answer[0].id), values
        after, changed = (state.name, values) if answer is None else answer[1:]
        assert contents(table) == {
            "state": [table.STATES.index(after)], **{name: [int(changed[name])] for name in ("t", "i", "flag")}
        }  # fmt: skip
        fired.add(row)
    unreached = [row.id for number, row in enumerate(odd.rows) if number not in fired]
    assert unreached == ["R5"], "of guards that overlap the first in file order answers, and R5 has R4 before it"


def test_an_odd_machine_is_printed_as_ruff_would_format_it(odd: Machine, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(print_table(odd), encoding="utf-8")
    config = str(generate.ROOT / "pyproject.toml")
    run = _ruff("format", "--diff", "--config", config, str(tmp_path / "odd.py"))
    assert run.returncode == 0, run.stdout + run.stderr


def test_what_cannot_be_a_table_is_refused(odd: Machine, spec: Spec) -> None:
    with pytest.raises(ValueError, match="odd: no variable may be called 'fire'; a table has that name already"):
        print_table(replace(odd, vars=(replace(odd.vars[0], name="fire"), *odd.vars[1:])))
    states = tuple(replace(odd.states[0], name=f"s{number}") for number in range(300))
    with pytest.raises(ValueError, match="odd: 303 states; the column for them is made of bytes"):
        print_table(replace(odd, states=(*odd.states, *states)))
    with pytest.raises(ValueError, match="no machine may be called 'coupling'"):
        generate.render(replace(spec, machines=(replace(odd, name="coupling"),)))


def test_an_interpreted_mutant_does_without_its_row(block: Machine) -> None:
    """What the spec mutations rest on: the table of a mutated machine follows the mutant, not the shipped data."""
    mutant = replace(block, rows=tuple(row for row in block.rows if row.id != "B21"))
    values = {"owners": 1, "readers": 1, "writers": 0, "lost": 0, "published": False, "generation": 0, "ranks": 1}
    assert choose(block, "open", values, "release") is block.row("B21")
    for machine, accepts in ((block, True), (mutant, False)):
        table = interpreted(machine)()
        table.add()
        for event in ("reserve", "read_begin"):
            assert table.fire(0, table.EVENTS.index(event)) != REFUSED
        assert (table.fire(0, table.EVENTS.index("release")) != REFUSED) is accepts
