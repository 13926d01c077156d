"""`kvstate mutate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvstate.cli import run
from kvstate.mutation import checkout
from kvstate.mutation import run as running
from kvstate.mutation.graph import NoBaselineError
from kvstate.mutation.kills import Kill, Result
from kvstate.mutation.results import read
from kvstate.proof import terms
from tests.mutation.parts import MUTANTS

Captured = pytest.CaptureFixture[str]


def test_what_notices_it(capsys: Captured) -> None:
    assert run(["mutate", "B21 leads to free", "B04 without its guard", "--jobs", "1", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "a_life_ends_once" in out
    assert "L2.life" in out
    assert "2 mutants: 2 killed, 0 harmless, 0 survived." in out


def test_one_json_object(capsys: Captured) -> None:
    assert run(["mutate", "B21 leads to free", "--jobs", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"spec", "seed", "mutants", "verdicts", "wrong"}
    assert told["mutants"][0]["killed_by"] == [{"means": "rows", "what": "a_life_ends_once", "law": "L2.life"}]
    assert told["verdicts"] == {"killed": 1}


def test_which_there_are(capsys: Captured) -> None:
    assert run(["mutate", "--list", "B20"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[:-1] == [name for name, mutant in MUTANTS.items() if mutant.row == "B20"]
    assert out[-1] == f"{len(out) - 1} mutants"
    assert run(["mutate", "--list", "--code", "--json"]) == 0
    assert "put forgets the last" in json.loads(capsys.readouterr().out)
    assert run(["mutate", "--list", "--count", "5", "--seed", "3"]) == 0


def test_a_planted_fault(capsys: Captured) -> None:
    assert run(["mutate", "--code", "writers are not counted", "--jobs", "1", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "walk: ledger/roomy/loads/3" in out
    assert "L8.recount" in out


def judged(monkeypatch: pytest.MonkeyPatch, **verdicts: Any) -> None:
    """Nothing is tried; this is what comes of it."""

    def judge(_: object, tasks: list[running.Task], __: object, progress: Any, *___: object) -> None:
        for task in tasks:
            progress(Result.of(MUTANTS[task.name], **verdicts))

    monkeypatch.setattr(running, "judge", judge)


def test_a_survivor_that_nobody_knows_of_is_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    judged(monkeypatch, killed_by=(), verdict="survived", note="no scope reaches it")
    assert run(["mutate", "B01 deleted", "--quiet"]) == 1
    assert "FAILED: B01 deleted: nothing notices it (no scope reaches it)" in capsys.readouterr().err


def test_many_are_counted_and_written_and_gone_on_with(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    judged(monkeypatch, killed_by=(Kill("loader", "a rule"),), verdict="killed")
    out = tmp_path / "found.json"
    assert run(["mutate", "--count", "50", "--seed", "1", "--out", str(out), "--quiet"]) == 0
    said = capsys.readouterr().out
    assert "drawn with seed 1" in said
    assert "target redirected" in said
    first = read(out).mutants
    assert len(first) >= 50
    judged(monkeypatch, killed_by=(), verdict="harmless", note="the same")
    assert run(["mutate", "B01", "--out", str(out), "--resume", "--quiet"]) == 0
    both = {one.name: one.verdict for one in read(out).mutants}
    assert all(both[one.name] == "killed" for one in first), "what was done is not done again"
    assert "harmless" in both.values()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["B21 leads to fre"], "there is no mutant 'B21 leads to fre'; did you mean B21 leads to free?"),
        (["--resume"], "--resume goes on with the file of --out; name it, too"),
        (["--count", "0"], "0 is not in the range"),
        (["--code", "no such fault at all"], "there is no mutant 'no such fault at all'"),
    ],
)
def test_a_mistake_is_one_sentence(words: list[str], said: str, capsys: Captured) -> None:
    assert run(["mutate", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_file_that_is_none_is_not_gone_on_with(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "found.json").write_text("{}", encoding="utf-8")
    assert run(["mutate", "B01", "--out", str(tmp_path / "found.json"), "--resume"]) == 1
    assert "holds no results of kvstate mutate" in capsys.readouterr().err
    text = '{"kvstate": "0", "spec": "0.0.1", "mutants": [], "code": []}'
    (tmp_path / "found.json").write_text(text, encoding="utf-8")
    assert run(["mutate", "B01", "--out", str(tmp_path / "found.json"), "--resume"]) == 1
    assert "was made from spec 0.0.1" in capsys.readouterr().err


def test_without_a_checkout_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: Captured, tmp_path: Path) -> None:
    monkeypatch.setattr(checkout, "__file__", str(tmp_path / "kvstate" / "mutation" / "checkout.py"))
    assert run(["mutate", "B01"]) == 1
    assert "clone the repository and run it there" in capsys.readouterr().err


def test_a_product_that_is_broken_without_a_fault_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    def judge(*_: object) -> None:
        raise NoBaselineError("the scope batch breaks a law without any fault: it does")

    monkeypatch.setattr(running, "judge", judge)
    assert run(["mutate", "B01 deleted", "--quiet"]) == 1
    assert "the scope batch breaks a law without any fault" in capsys.readouterr().err


def test_without_z3_nothing_is_tried(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def missing() -> None:
        raise terms.ProverMissingError

    monkeypatch.setattr(terms, "import_z3", missing)
    assert run(["mutate", "B01"]) == 1
    assert "z3 is missing" in capsys.readouterr().err
