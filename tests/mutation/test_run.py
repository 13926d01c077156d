"""Many mutants at once: each is told once, and what nothing kills is held against what ships."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from kvstate.explore.scopes import QUICK, Scope
from kvstate.mutation import baseline, checkout, code, run
from kvstate.mutation.graph import NoBaselineError
from kvstate.mutation.kills import Kill, Result
from kvstate.mutation.lockstep import SAME, Asked
from tests.mutation.parts import MUTANTS, SCOPE, SPEC, reached


class Here(Executor):
    """Does at once, in this process, what it is asked to do."""

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(function(*arguments, **named))
        except Exception as error:
            done.set_exception(error)
        return done


def written(file: Path) -> Path:
    """A baseline of one scope and nothing else."""
    told = {"made_from": "a test", "reach": {SCOPE: asdict(reached())}, "scenarios": {}, "walks": {}, "read": {}}
    file.write_text(json.dumps(told), encoding="utf-8")
    return file


def test_what_the_data_shows_needs_no_baseline() -> None:
    found: list[Result] = []
    tasks = [
        run.Task("B21 leads to free"),
        run.Task("O03 without release_dst", hint=Kill("explorer", SCOPE, "L8.recount")),
    ]
    run.judge(Here(), tasks, lambda: pytest.fail("it was asked for"), found.append)
    assert {one.name: one.killed_by[0].means for one in found} == {
        "B21 leads to free": "rows",
        "O03 without release_dst": "explorer",
    }


@pytest.mark.long
def test_what_was_harmless_is_only_held_against_what_ships(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUICK", [scope for scope in QUICK if scope.name == SCOPE])
    found: list[Result] = []
    tasks = [
        run.Task("B06 without the condition readers == 0", harmless=True),
        run.Task("B34 without the condition writers == 0", harmless=True),
    ]
    run.judge(Here(), tasks, lambda: pytest.fail("it was asked for"), found.append)
    assert {one.verdict for one in found} == {"harmless"}
    assert {one.note.partition(" ")[0] for one in found} == {"z3:", "identical"}


def test_of_a_sample_only_the_scopes_that_fire_the_row_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was shown not to fire needs none at all."""
    assert run.fired_in("identical state graph in queue, durable") == ("queue", "durable")
    assert run.fired_in("identical state graph in a scope that is gone") == ()
    assert run.fired_in("z3: the same row") == ()
    searched: list[str] = []

    def differing(_: object, scope: Scope, asked: Sequence[Asked]) -> dict[str, int]:
        searched.append(scope.name)
        return {asked[0].mutant.name: SAME}

    monkeypatch.setattr(run, "differing", differing)
    found: list[Result] = []
    tasks = [
        run.Task("B06 without the condition readers == 0", harmless=True, scopes=("queue", "job")),
        run.Task("X02 says unpin before rollback", harmless=True),
    ]
    run.judge(Here(), tasks, lambda: pytest.fail("it was asked for"), found.append)
    assert searched == ["job", "queue"]
    notes = {one.name: one.note for one in found}
    assert notes["B06 without the condition readers == 0"] == "identical state graph in job, queue"
    assert notes["X02 says unpin before rollback"].startswith("L7.started: ")


@pytest.mark.long
def test_what_nothing_kills_is_held_against_what_ships(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUICK", [scope for scope in QUICK if scope.name == SCOPE])
    found: list[Result] = []
    names = ("O03 without release_dst", "B06 without the condition readers == 0", "X40 without cool_lost")
    run.judge(Here(), [run.Task(name) for name in names], lambda: written(tmp_path / "base.json"), found.append)
    verdicts = {one.name: (one.verdict, [kill.means for kill in one.killed_by]) for one in found}
    assert verdicts == {
        "O03 without release_dst": ("killed", ["explorer"]),
        "B06 without the condition readers == 0": ("harmless", []),
        "X40 without cool_lost": ("survived", []),
    }


@pytest.mark.long
def test_all_killers_are_wanted(tmp_path: Path) -> None:
    found: list[Result] = []
    task = run.Task("B21 leads to free", every=True, hint=Kill("rows", "a_life_ends_once", "L2.life"))
    run.judge(Here(), [task], lambda: written(tmp_path / "base.json"), found.append)
    assert [kill.means for kill in found[0].killed_by] == ["rows", "z3"]


@pytest.mark.long
def test_a_baseline_is_read_as_it_was_written_and_made_anew_when_something_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, walk = "i07-the-peer-that-died", checkout.Walk("ledger", "one rank", "even", 1)
    few = {scenario: checkout.here().scenarios[scenario]}
    monkeypatch.setattr(checkout.Checkout, "walks", (walk,))
    monkeypatch.setattr(checkout.Checkout, "scenarios", few)
    monkeypatch.setattr(baseline, "QUICK", [scope for scope in QUICK if scope.name == SCOPE])
    monkeypatch.setattr(baseline, "fingerprint", lambda _: "one")
    monkeypatch.setattr(baseline, "reach", lambda _: reached())
    monkeypatch.setattr(baseline, "machines_read", lambda _: {"counters": frozenset({"part"})})
    said: list[str] = []
    file = baseline.make(Here(), tmp_path / "deep" / "base.json", said.append)
    made = baseline.read(file)
    assert said
    assert made.reach == {SCOPE: reached()}
    assert made.read == {"counters": frozenset({"part"})}
    assert "B42" in made.scenarios[scenario]
    assert made.walks[str(walk)]["B01"] > 0
    assert made.scenarios_of(["B42"]) == [scenario]
    assert made.walks_of(["B01"], 5) == [walk]
    assert made.walks_of(["no such row"], 5) == []
    said.clear()
    assert baseline.make(Here(), file, said.append) == file
    assert not said, "it is still true"
    monkeypatch.setattr(baseline, "fingerprint", lambda _: "another")
    baseline.make(Here(), file, said.append)
    assert said


def test_what_has_to_fire_for_a_fault_in_the_couplings() -> None:
    lets_go = tuple(row.id for row in SPEC.machine("part").rows if "let_go" in row.effects)
    assert baseline.rows_of(SPEC, MUTANTS["C03 deleted"]) == lets_go
    assert baseline.rows_of(SPEC, MUTANTS["B01 deleted"]) == ("B01",)


def test_a_product_that_is_broken_without_a_fault_is_no_baseline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkout.Checkout, "walk", lambda *_: checkout.Walked({}, "L8.poison: it is"))
    with pytest.raises(NoBaselineError, match=r"breaks a law without any fault: L8\.poison"):
        baseline.walked(checkout.Walk("ledger", "one rank", "even", 1))
    monkeypatch.setattr(checkout.Checkout, "texts", {"i07-the-peer-that-died": "another text"})
    with pytest.raises(NoBaselineError, match="does not hold without any fault"):
        baseline.played("i07-the-peer-that-died")


def test_processes_end_with_the_block() -> None:
    with run.processes(1) as executor:
        assert executor.submit(len, "four").result() == 4


def test_planted_faults_are_told_in_order() -> None:
    names = ["writers are not counted", "no hole is noted"]
    heard: list[Result] = []
    with ThreadPoolExecutor(1) as executor:
        found = code.judge(executor, names, heard.append)
    assert [one.name for one in found] == names
    assert {one.kind for one in found} == {code.KIND}
    assert found[0].killed_by[0].law == "L8.recount"
    assert len(heard) == 2


def test_a_fingerprint_is_of_what_a_baseline_is_made_from(tmp_path: Path) -> None:
    (tmp_path / "spec").mkdir()
    (tmp_path / "spec" / "one.toml").write_text("a = 1")
    first = baseline.fingerprint(tmp_path)
    (tmp_path / "spec" / "README.md").write_text("words")
    assert baseline.fingerprint(tmp_path) == first
    (tmp_path / "spec" / "one.toml").write_text("a = 2")
    assert baseline.fingerprint(tmp_path) != first
