"""`kvstate spec`, `spec check`, `diagram`: the machines shown, exported, checked and drawn."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kvstate.cli import run
from kvstate.cli.data import tree
from kvstate.cli.output import reflowed
from kvstate.spec import spec_dir
from kvstate.spec.expr import parse
from kvstate.spec.loader import load_machine, load_spec

Captured = pytest.CaptureFixture[str]

DOOR = """
machine = "door"
title = "A door"
doc = "It is open or shut."
initial = "shut"

[vars]
pushes = { type = "int", initial = 0, doc = "How often it was pushed." }

[states.shut]
home = true
invariant = "pushes >= 0"
doc = "Nobody gets through."

[states.open]
invariant = "pushes >= 1"
doc = "Anybody does."

[events.push]
kind = "request"
doc = "Somebody pushes."

[events.wind]
kind = "report"
doc = "The wind shuts it."

[[row]]
id = "D1"
from = ["shut"]
event = ["push"]
to = "open"
set = { pushes = "pushes + 1" }
why = "Pushed, it opens."

[[row]]
id = "D2"
from = ["shut", "open"]
event = ["wind"]
when = "pushes < 3"
to = "shut"
why = "The wind shuts it."

[[row]]
id = "D3"
from = ["shut", "open"]
event = ["wind"]
when = "pushes >= 3"
to = "shut"
set = { pushes = "0" }
why = "The wind shuts it, and the third push counts anew."
"""


@pytest.fixture
def door(tmp_path: Path) -> Path:
    path = tmp_path / "door.toml"
    path.write_text(DOOR)
    return path


def test_the_list_names_every_machine_and_coupling(capsys: Captured) -> None:
    assert run(["spec"]) == 0
    out = capsys.readouterr().out
    spec = load_spec(check=False)
    assert f"spec {spec.version}" in out
    for name in (*(machine.name for machine in spec.machines), *(link.id for link in spec.couplings)):
        assert name in out


def test_a_machine_is_a_table_with_every_row_and_at_wish_its_reasons(capsys: Captured) -> None:
    assert run(["spec", "block"]) == 0
    short = capsys.readouterr().out
    machine = load_machine(spec_dir() / "block.toml")
    assert all(row.id in short for row in machine.rows)
    assert "lost < readers + writers" in short
    assert run(["spec", "show", "block", "--why"]) == 0
    assert len(capsys.readouterr().out) > len(short) + sum(len(row.why) for row in machine.rows)


def test_words_fill_the_terminal_whatever_its_width(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ends of the file's lines are not those of the terminal's; the items of a list are lines still."""
    assert reflowed("one\n  two\n\nthree:\n* four\n  five\n* six") == "one two\n\nthree:\n* four five\n* six"
    monkeypatch.setenv("COLUMNS", "500")
    assert run(["spec", "key"]) == 0
    second = next(line for line in capsys.readouterr().out.splitlines()[1:] if line.strip())
    assert second.rstrip() == reflowed(load_spec(check=False).machine("key").doc).splitlines()[0]


def test_a_file_of_ones_own_is_shown_too(door: Path, capsys: Captured) -> None:
    assert run(["spec", str(door)]) == 0
    assert "door: A door" in capsys.readouterr().out


def evaluate(node: Any, env: Mapping[str, int | bool]) -> int | bool:
    """What a program in another language would write to read the trees."""
    if not isinstance(node, list):
        return bool(node) if isinstance(node, bool) else int(node)
    op, *args = node
    if op == "var":
        return env[args[0]]
    values = [evaluate(arg, env) for arg in args]
    match op:
        case "and":
            return all(values)
        case "or":
            return any(values)
        case "not":
            return not values[0]
        case "+":
            return values[0] + values[1]
        case "-":
            return -values[0] if len(values) == 1 else values[0] - values[1]
        case "*":
            return values[0] * values[1]
    return {
        "==": values[0] == values[1],
        "!=": values[0] != values[1],
        "<": values[0] < values[1],
        "<=": values[0] <= values[1],
        ">": values[0] > values[1],
        ">=": values[0] >= values[1],
    }[op]


@pytest.mark.parametrize(
    "source",
    ["1 <= a < b <= 3", "not (p or a == -b)", "a + 2 * b - 1 != a - (b - 1)", "p and a > b or not p and a <= 1"],
)
def test_an_exported_tree_means_what_its_text_means(source: str) -> None:
    expr = parse(source, {"a": "int", "b": "int", "p": "bool"})
    exported = json.loads(json.dumps(tree(expr.node)))
    for a, b, p in product(range(-1, 4), range(-1, 4), (False, True)):
        env = {"a": a, "b": b, "p": p}
        assert evaluate(exported, env) == expr.evaluate(env)


def test_the_export_holds_the_whole_spec(capsys: Captured) -> None:
    assert run(["spec", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    spec = load_spec(check=False)
    assert data["format"] == "kvstate-spec-1"
    assert data["version"] == spec.version
    assert [one["name"] for one in data["machines"]] == [machine.name for machine in spec.machines]
    assert [one["id"] for one in data["couplings"]] == [link.id for link in spec.couplings]
    assert [one["id"] for one in data["acts"]] == [act.id for act in spec.acts]
    for machine, exported in zip(spec.machines, data["machines"], strict=True):
        assert [row["id"] for row in exported["rows"]] == [row.id for row in machine.rows]
        for row, line in zip(machine.rows, exported["rows"], strict=True):
            assert line["when"] == {"text": row.when.source, "tree": tree(row.when.node)}
            assert line["why"]
            assert line["to"] == (row.to or "=")


def test_one_machine_is_exported_alone(door: Path, capsys: Captured) -> None:
    assert run(["spec", str(door), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["vars"] == [{"name": "pushes", "type": "int", "initial": 0, "doc": "How often it was pushed."}]
    assert data["rows"][0]["set"] == {"pushes": {"text": "pushes + 1", "tree": ["+", ["var", "pushes"], 1]}}


def test_a_good_file_is_proved(door: Path, capsys: Captured) -> None:
    pytest.importorskip("z3", reason="guards are checked by z3, which is not installed")
    assert run(["spec", "check", str(door)]) == 0
    assert "guards are disjoint and whole, invariants kept (2 states, 3 rows)" in capsys.readouterr().out


def test_without_z3_it_says_what_was_not_checked(door: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    assert run(["spec", "check", str(door)]) == 0
    out = capsys.readouterr().out
    assert "NOT CHECKED: that guards neither overlap nor leave a gap" in out
    assert "pip install 'kvstate[proof]'" in out


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('to = "open"', 'to = "ajar"', "ajar"),
        ('event = ["push"]', 'event = ["pull"]', "pull"),
        ('why = "Pushed, it opens."', "", "why"),
        ('id = "D2"', 'id = "D1"', "D1"),
        ('when = "pushes < 3"', 'when = "().__class__"', "()"),
        ('when = "pushes < 3"', 'when = "pushes < 9**9**9"', "**"),
    ],
)
def test_a_broken_file_is_refused_with_file_row_and_word(
    door: Path, old: str, new: str, word: str, capsys: Captured
) -> None:
    door.write_text(DOOR.replace(old, new))
    assert run(["spec", "check", str(door)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("door.toml, ") and word in line for line in lines)
    assert lines[-1].startswith(f"{door}: refused, ")
    assert run(["spec", str(door)]) == 1
    assert "was refused" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("pushes >= 3", "pushes >= 2", "D3: D2 answers"),
        ("pushes >= 3", "pushes > 3", "no row answers this report"),
        ('"pushes + 1"', '"pushes - 1"', "breaks its invariant"),
    ],
)
def test_guards_and_invariants_are_refused_by_the_prover(
    door: Path, old: str, new: str, word: str, capsys: Captured
) -> None:
    pytest.importorskip("z3", reason="guards are checked by z3, which is not installed")
    door.write_text(DOOR.replace(old, new))
    assert run(["spec", "check", str(door)]) == 1
    assert word in capsys.readouterr().out


def test_a_file_that_is_not_there(tmp_path: Path, capsys: Captured) -> None:
    assert run(["spec", "check", str(tmp_path / "none.toml")]) == 1
    assert "there is no such file" in capsys.readouterr().out
    assert run(["diagram", str(tmp_path / "none.toml")]) == 1
    assert "there is no such file" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "start"), [("d.dot", "digraph"), ("d.gv", "digraph"), ("d.mmd", "stateDiagram-v2")])
def test_a_diagram_goes_to_a_file_whose_name_says_the_format(
    door: Path, tmp_path: Path, name: str, start: str, capsys: Captured
) -> None:
    assert run(["diagram", str(door), "-o", str(tmp_path / name)]) == 0
    text = (tmp_path / name).read_text()
    assert text.startswith(start)
    assert "open" in text
    kind = "mermaid" if name.endswith("mmd") else "dot"
    assert run(["diagram", str(door), "--format", kind]) == 0
    assert capsys.readouterr().out == text


def test_a_diagram_that_cannot_be_written(door: Path, tmp_path: Path, capsys: Captured) -> None:
    assert run(["diagram", str(door), "--format", "dot", "-o", str(tmp_path / "no" / "d.dot")]) == 1
    assert "could not be written: No such file or directory." in capsys.readouterr().err
