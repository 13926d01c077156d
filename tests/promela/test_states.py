"""Spin and the ledger reach the same states: not only as many. Small scopes here; `tests/proof` has the explorer's."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvstate.explore.scopes import LOAD, STORE, Request, Scope
from kvstate.explore.stage import Rules
from kvstate.machines.interpreted import interpreted
from kvstate.machines.tables import TABLES
from kvstate.promela.printer import print_model
from kvstate.promela.states import begin, reached
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Spec
from tests.promela.spin import needs_spin, search
from tests.proof.mutants import Mutant, effects, without_set

JOB = Scope(
    "small-job",
    "a job of one part that may fail, fall silent and be called off",
    "ledger device=b0 host=h0 part=1 batch=1 attempts=2",
    (Request("r1", ("K1",), STORE, ends=("abort",)),),
    fails=("failed", "timeout"),
    cancels=1,
    fences=False,
)
LIVES = Scope(
    "two-lives",
    "one batch of one part; its copy may still be under way when the request comes again",
    "ledger device=b0,b1 host=h0 part=1 batch=1 attempts=1",
    (Request("r1", ("K1",), LOAD, lives=2, ends=("abort",)),),
    given="K1",
    fails=("failed", "broken"),
    fences=False,
)
ONCE = LIVES._replace(name="one-life", requests=(Request("r1", ("K1",), LOAD),), fails=("failed",))


def with_rows_of(spec: Spec, *machines: str) -> Rules:
    """A ledger that runs on these machines as this spec has them."""
    return Rules({**TABLES, **{name: interpreted(spec.machine(name)) for name in machines}})


def both_sides(scope: Scope, folder: Path, spec: Spec | None = None, rules: Rules | None = None) -> int:
    """Search on both sides; the states have to be the same ones. Returns how many."""
    viewer = begin(scope, spec, rules)
    found = search(print_model(viewer, tell=True), folder)
    assert found.broken == ""
    assert found.errors == 0
    vectors = reached(viewer)
    # A step tells where it leads to, so the beginning is told only if something leads back to it.
    told = found.told | {viewer.vector(viewer.beginning)}
    assert told == vectors
    assert found.states == len(vectors)
    return len(vectors)


@pytest.mark.parametrize(("scope", "count"), [(JOB, 102), (ONCE, 67)], ids=lambda one: getattr(one, "name", ""))
def test_the_ledger_reaches_so_many_states(scope: Scope, count: int) -> None:
    """Without Spin, too: what moves here moves there."""
    viewer = begin(scope)
    vectors = reached(viewer)
    assert len(vectors) == count
    assert reached(viewer) == vectors, "the search leaves the ledger where it found it"


@needs_spin
@pytest.mark.parametrize("scope", [JOB, pytest.param(LIVES, marks=pytest.mark.long)], ids=lambda scope: scope.name)
def test_both_sides_reach_the_same_states(scope: Scope, tmp_path: Path) -> None:
    assert both_sides(scope, tmp_path) > 100


@needs_spin
@pytest.mark.parametrize("scope", [JOB, pytest.param(LIVES, marks=pytest.mark.long)], ids=lambda scope: scope.name)
def test_everything_ends_if_the_clock_goes_on(scope: Scope, tmp_path: Path) -> None:
    """And only then: without fairness Spin has to find the worker that repeats itself for ever."""
    model = print_model(begin(scope))
    assert search(model, tmp_path, liveness=True).errors == 0
    assert search(model, tmp_path, liveness=True, fair=False).broken == "acceptance cycle"


@needs_spin
@pytest.mark.parametrize(
    ("name", "machine", "mutant"),
    [
        ("X17 does not cool", "transfer", effects("X17", "rollback", "unpin", "fell", "over")),
        ("K09 does not warm again", "key", effects("K09")),
    ],
)
def test_a_row_that_is_changed_changes_both_sides_alike(
    name: str, machine: str, mutant: Mutant, tmp_path: Path
) -> None:
    spec = mutant(load_spec(check=False))
    assert both_sides(ONCE, tmp_path, spec, with_rows_of(spec, machine)) != len(reached(begin(ONCE))), name


@needs_spin
def test_rows_that_differ_give_states_that_differ(tmp_path: Path) -> None:
    """The comparison sees it if one side runs on other rows than the other."""
    spec = effects("X17", "rollback", "unpin", "fell", "over")(load_spec(check=False))
    viewer = begin(ONCE, spec)
    found = search(print_model(viewer, tell=True), tmp_path)
    assert found.errors == 0
    assert found.told | {viewer.vector(viewer.beginning)} != reached(viewer)


@needs_spin
def test_a_search_that_is_cut_off_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.promela.spin.DEPTH", 20)
    with pytest.raises(AssertionError, match="the search was cut off"):
        search(print_model(begin(JOB)), tmp_path)


@needs_spin
def test_a_broken_law_is_reported_by_its_name(tmp_path: Path) -> None:
    spec = without_set("O15", "left")(load_spec(check=False))
    found = search(print_model(begin(JOB, spec)), tmp_path)
    assert (found.errors, found.broken) == (1, "L4_left")
