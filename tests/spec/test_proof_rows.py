"""The prover finds each kind of fault in a broken machine, with values, and none in the machines of the spec."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from kvstate.proof import rows
from kvstate.proof.rows import check_rows, lints
from kvstate.proof.terms import ProverMissingError
from kvstate.spec import spec_dir
from kvstate.spec.expr import Type, parse
from kvstate.spec.loader import load_machine

z3 = pytest.importorskip("z3")

Break = Callable[[str, str, str], Path]

MACHINES = sorted(path.stem for path in spec_dir().glob("*.toml") if "machine =" in path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", MACHINES)
def test_every_row_of_the_spec_is_proved(name: str) -> None:
    assert check_rows(load_machine(spec_dir() / f"{name}.toml")) == []


def test_the_good_machine_is_proved(good: Path) -> None:
    for name in ("door", "bell"):
        assert check_rows(load_machine(good / f"{name}.toml")) == []
        assert lints(load_machine(good / f"{name}.toml")) == []


# What is broken in the door: old text, new text, and a pattern for each finding, from beginning to end.
BROKEN: dict[str, tuple[str, str, list[str]]] = {
    "two rows answer": (
        'when = "locked"\n',
        'when = "inside == 0"\n',
        [r'row D04: D03 answers "turn" in the state "shut" too \(inside = 0, .*, locked = False, room = \d\)'],
    ),
    "a report has a gap": (
        'event = ["jam"]\nto = "="',
        'event = ["jam"]\nwhen = "inside < 2"\nto = "="',
        [r'event jam: no row answers this report in the state "broken" \(inside = [2-4], .*; rows asked: D08\)'],
    ),
    "the target's invariant": (
        'when = "inside == 0"',
        'when = "inside < 2"',
        [r'row D02: leads from "ajar" to "shut" and breaks its invariant "inside == 0" \(inside = 1, .*\)'],
    ),
    "the target's invariant, by a missing guard": (
        'when = "not locked"\nto = "ajar"',
        'to = "ajar"',
        [r'row D01: leads from "shut" to "ajar" and breaks its invariant "not locked" \(.*locked = True.*\)'],
    ),
    "the machine's invariant, for some param": (
        'when = "inside < room and',
        'when = "inside < 3 and',
        [r'row D05: leads from "ajar" to "ajar" and breaks its invariant "inside <= room" \(inside = [1-3], .*\)'],
    ),
    "the machine's invariant, from every state": (
        'when = "inside > 0"',
        'when = "inside > 0 - 1"',
        [
            rf'row D06: leads from "{state}" to "{state}" and breaks its invariant "inside >= 0" \(inside = 0, .*\)'
            for state in ("ajar", "broken")
        ],
    ),
    "by the change and not by the guard": (
        '"tickets - 1"',
        '"tickets - 2"',
        [r'row D05: .* breaks its invariant "tickets >= 0" \(inside = \d, tickets = 1, .*\)'],
    ),
    "a dead row": (
        'when = "inside == 0"',
        'when = "inside < 0"',
        [r'row D02: can never fire in the state "ajar": "inside < 0" contradicts the invariant there'],
    ),
    "a row that is dead in one of its states": (
        '["ajar", "broken"]',
        '["ajar", "broken", "shut"]',
        [r'row D06: can never fire in the state "shut": .*'],
    ),
    "an invariant that cannot hold": (
        'invariant = "not locked"',
        'invariant = "not locked and room < 1"',
        [
            r'row D01: leads from "shut" to "ajar" and breaks its invariant "room < 1" \(.*\)',
            r'state ajar: its invariant "not locked and room < 1 and .*" can never hold',
        ],
    ),
    "the first values": (
        '"int", initial = 0',
        '"int", initial = 1',
        [r'state shut: the initial values break its invariant "inside == 0" \(inside = 1, .*\)'],
    ),
    "a row of two events, told once": (
        '["push"]\nwhen = "inside == 0"',
        '["push", "turn"]\nwhen = "inside < 2"',
        [r'row D02: leads from "ajar" to "shut" and breaks its invariant "inside == 0" \(inside = 1, .*\)'],
    ),
    "a guard of two parts": (
        'when = "inside == 0"\nto = "shut"',
        'when = "inside == 1 and tickets == 1"\nto = "shut"',
        [r'row D02: .* breaks its invariant "inside == 0" \(inside = 1, tickets = 1, .*\)'],
    ),
}


def findings(path: Path) -> list[str]:
    return check_rows(load_machine(path, check=False))


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_machine(break_: Break, what: str) -> None:
    old, new, patterns = BROKEN[what]
    found = findings(break_("door.toml", old, new))
    assert len(found) == len(patterns), found
    for pattern in patterns:
        assert any(re.fullmatch(rf"door\.toml, {pattern}", finding) for finding in found), (pattern, found)


def test_first_values_that_no_given_one_can_mend(good: Path, break_: Break) -> None:
    break_("door.toml", 'invariant = "inside == 0"', 'invariant = "inside + tickets + 1 == 0 or inside == tickets + 3"')
    found = findings(good / "door.toml")
    assert (
        "door.toml, state shut: no values given for tickets keep the invariant with the other initial values" in found
    )


@pytest.mark.parametrize("what", ["the target's invariant", "by the change and not by the guard"])
def test_a_counterexample_is_one(break_: Break, what: str) -> None:
    """Its values are put into the machine's own expressions: the row fires, and the invariant is broken after it."""
    path = break_("door.toml", *BROKEN[what][:2])
    machine = load_machine(path)
    (finding,) = findings(path)
    values = dict(re.findall(r"(\w+) = (\w+|-\d+)", finding[finding.rindex("(") :]))
    env = {name: value == "True" if value in ("True", "False") else int(value) for name, value in values.items()}
    row = machine.row(re.search(r"row (D\d+)", finding)[1])  # type: ignore[index]
    source = row.sources[0]
    assert machine.state(source).invariant.evaluate(env)
    assert row.when.evaluate(env)
    after = env | {name: value.evaluate(env) for name, value in row.sets}
    assert not machine.state(row.to or source).invariant.evaluate(after)


def test_lints_name_what_decides_nothing(break_: Break) -> None:
    path = break_("door.toml", 'when = "inside > 0"', 'when = "inside > 0 and tickets >= 0"')
    path = break_("door.toml", "{ locked = true }", '{ locked = true, inside = "0" }')
    assert lints(load_machine(path)) == [
        'door.toml, row D03: setting inside to "0" never changes it',
        'door.toml, row D06: "tickets >= 0" follows from the invariant and the rest of the guard; it is an obligation',
    ]
    assert findings(path) == []


def test_the_prover_reads_expressions_as_the_interpreter_does(good: Path) -> None:
    """Two walks over one tree, z3's and ours, compared on a grid of values."""
    types: dict[str, Type] = {"inside": "int", "tickets": "int", "locked": "bool", "room": "int"}
    prover = rows._Prover(load_machine(good / "door.toml"))
    for source in (
        "inside < tickets <= room",
        "not (inside == tickets) and locked",
        "locked == (inside > 0) or tickets != room",
        "2 * (inside - tickets) - -room * 3 >= 0",
        "locked != True",
        "inside + 1 == tickets or not locked and room > 1",
    ):
        expr = parse(source, types)
        for inside, tickets, locked, room in product((-1, 0, 2), (-1, 0, 2), (False, True), (1, 2)):
            env = {"inside": inside, "tickets": tickets, "locked": locked, "room": room}
            fixed = [prover.env[name] == value for name, value in env.items()]
            assert bool(prover.find([expr], fixed)) == expr.evaluate(env), (source, env)


def test_an_unanswered_question_is_no_proof(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(z3.Solver, "check", lambda self: z3.unknown)
    monkeypatch.setattr(z3.Solver, "reason_unknown", lambda self: "timeout")
    machine = load_machine(good / "door.toml")
    assert set(check_rows(machine)) == {"door.toml: the prover gave up (timeout); nothing is proved"}
    assert lints(machine) == []


def test_without_z3_one_sentence_says_what_to_install(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "z3", None)
    with pytest.raises(ProverMissingError, match=r'pip install "kvstate\[proof\]"'):
        check_rows(load_machine(good / "door.toml"))
