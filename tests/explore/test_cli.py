"""`kvstate explore`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kvstate.cli import run
from kvstate.spec.loader import load_spec
from kvstate.testing.scenario import parse

Captured = pytest.CaptureFixture[str]


def test_a_scope_to_its_end(capsys: Captured) -> None:
    assert run(["explore", "--scope", "late-retry", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "every scope was searched to its end" in out
    assert "213" in out


def test_one_json_object(capsys: Captured) -> None:
    assert run(["explore", "--scope", "batch", "--scope", "job", "--max-states", "60", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {"spec", "scopes", "rows", "never_fired", "violation"}
    assert data["spec"] == load_spec(check=False).version
    assert data["violation"] is None
    assert [scope["name"] for scope in data["scopes"]] == ["batch", "job"]
    assert not any(scope["finished"] for scope in data["scopes"])
    assert all(scope["frontier"] > 0 and scope["depth"] > 2 and scope["states"] >= 60 for scope in data["scopes"])
    assert [scope["prefix"] for scope in data["scopes"]] == [0, 0]
    assert data["rows"]["B01"] > 0
    assert "S06" in data["never_fired"]


def test_a_search_that_was_stopped_says_how_far_it_came(capsys: Captured) -> None:
    assert run(["explore", "--scope", "steps", "--max-states", "50", "--quiet"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    told = re.fullmatch(
        r"PASSED: no law was broken; not searched to the end: steps, to depth (\d+), (\d+) of (\d+) states not "
        r"searched from\.", last
    )  # fmt: skip
    assert told, last
    depth, frontier, states = map(int, told.groups())
    assert depth > 2
    assert 0 < frontier < states


def test_a_file_that_can_not_be_written_is_one_sentence(capsys: Captured, tmp_path: Path) -> None:
    out = tmp_path / "none" / "found.txt"
    assert run(["explore", "--break", "timeout-frees", "--out", str(out), "--quiet"]) == 1
    assert capsys.readouterr().err == f"kvstate: can't read or write {out}: No such file or directory\n"


def test_a_broken_law_is_told_and_written(capsys: Captured, tmp_path: Path) -> None:
    file = tmp_path / "found.txt"
    assert run(["explore", "--break", "timeout-frees", "--out", str(file), "--quiet"]) == 1
    out, err = capsys.readouterr()
    assert f"written: {file}" in out
    assert err == "FAILED: batch breaks L3.no_reuse in 6 moves: block 0 is free, and t5 is not over\n"
    assert file.read_text(encoding="utf-8") in out
    assert parse(file.read_text(encoding="utf-8"), file.name).title == "batch: L3.no_reuse"


def test_what_the_runner_does_not_see_is_said(capsys: Captured) -> None:
    assert run(["explore", "--break", "no-condemned-keys", "--quiet"]) == 1
    assert "the law is looked at by the explorer alone" in capsys.readouterr().out
    assert run(["explore", "--break", "no-condemned-keys", "--json"]) == 1
    violation = json.loads(capsys.readouterr().out)["violation"]
    assert (violation["scope"], violation["law"], violation["confirmed"]) == ("batch", "L5.bad_keys", False)
    assert violation["commands"][:2] == ["open r1", "lookup r1 K1 K2"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--scope", "jbo"], "there is no scope 'jbo'; did you mean job?"),
        (["--break", "timeout-free"], "there is no break 'timeout-free'; did you mean timeout-frees?"),
        (["--break", "match-by-block"], "match-by-block is a fault of a copier"),
        (["--max-states", "0"], "0 is not in the range x>=1"),
    ],
)
def test_a_mistake_is_one_sentence(words: list[str], sentence: str, capsys: Captured) -> None:
    assert run(["explore", *words]) == 2
    err = capsys.readouterr().err
    assert sentence in err
    assert err.count("\n") == 1
