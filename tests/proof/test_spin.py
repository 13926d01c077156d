"""The explorer's scopes in Spin: as many states as the ledger reaches, no broken law, an end to everything.

And the other way round: a fault that is planted in the data is found there, each by the law that it breaks. The states
themselves are compared in small scopes by `tests/promela`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kvstate.explore.scopes import SCOPES
from kvstate.promela.printer import LAWS, print_model
from kvstate.promela.states import begin, reached
from kvstate.spec.loader import load_spec
from tests.promela.pins import STATES
from tests.promela.spin import needs_spin, search
from tests.proof.mutants import Mutant, coupled, effects, to, without_act, without_coupling, without_row, without_set

pytestmark = needs_spin

SPEC = load_spec(check=False)
WIDE = ("batch", "batches", "shared", "queue", "retries", "holes")
"""Scopes that take most of the time: for `make test-long`."""
EACH = [pytest.param(name, marks=pytest.mark.long if name in WIDE else pytest.mark.proof) for name in STATES]
BROKEN: dict[str, tuple[str, str, Mutant]] = {
    "A12 tells twice": ("L1_one_verdict", "retries", effects("A12", "tell", "tell")),
    "X33 is over twice": ("L1_one_settlement", "retries", effects("X33", "condemn", "cool_lost", "over", "over")),
    "B21 leads to free": ("L3_no_reuse", "retries", to("B21", "free")),
    "P12 adopts nothing": ("L3_no_reuse", "steps", effects("P12")),
    "O10 counts nothing": ("L4_left", "job", without_set("O10", "left")),
    "X42 does not give up": ("L4_no_orphan", "retries", effects("X42", "cool_lost", "over")),
    "O14 does not remember": ("L5_filled", "job", without_set("O14", "failed")),
    "C49 is part_ok": ("L5_proceed", "store-load", coupled("C49", "part_ok")),
    "C26 is commit": ("L5_nothing", "retries", coupled("C26", "commit")),
    "X24 does not leave": ("L5_loading_named", "retries", effects("X24", "ask_cancel", "cool", "unpin", "fell")),
    "P11 deleted": ("L6_answered", "job", without_row("P11")),
    "C03 deleted": ("L8_readers", "job", without_coupling("C03")),
    "C04 deleted": ("L8_writers", "job", without_coupling("C04")),
    "C05 deleted": ("L8_lost", "retries", without_coupling("C05")),
    "C22 is release": ("L8_owners", "job", coupled("C22", "release")),
    "B24 leads to free": ("L9_bytes", "job", to("B24", "free")),
    "K07 leaves the block its name": ("L9_named", "job", effects("K07")),
}
"""Fault: the law that is reported, the scope, and what is done to the data."""
ENDLESS: dict[str, tuple[str, Mutant]] = {
    "D06 deleted": ("job", without_act("D06")),
    "A22 without its effect": ("retries", effects("A22")),
}
"""Faults with which something waits for ever, the scope in which it does, and what is done to the data."""


@pytest.mark.parametrize("name", EACH)
def test_spin_stores_as_many_states_as_the_ledger_reaches(name: str, tmp_path: Path) -> None:
    viewer = begin(SCOPES[name])
    found = search(print_model(viewer), tmp_path)
    assert (found.errors, found.broken) == (0, "")
    assert found.states == len(reached(viewer)) == STATES[name]


@pytest.mark.parametrize("name", EACH)
def test_every_job_and_load_ends_under_weak_fairness(name: str, tmp_path: Path) -> None:
    found = search(print_model(begin(SCOPES[name])), tmp_path, liveness=True)
    assert (found.errors, found.broken) == (0, "")


def test_every_law_of_the_model_has_its_fault() -> None:
    assert {law for law, _, _ in BROKEN.values()} == set(LAWS)


@pytest.mark.long
@pytest.mark.parametrize("fault", BROKEN)
def test_a_fault_breaks_its_law(fault: str, tmp_path: Path) -> None:
    law, scope, mutant = BROKEN[fault]
    found = search(print_model(begin(SCOPES[scope], mutant(SPEC))), tmp_path)
    assert found.broken == law


@pytest.mark.proof
@pytest.mark.parametrize("fault", ENDLESS)
def test_a_fault_makes_something_wait_for_ever(fault: str, tmp_path: Path) -> None:
    scope, mutant = ENDLESS[fault]
    model = print_model(begin(SCOPES[scope], mutant(SPEC)))
    assert search(model, tmp_path).errors == 0
    assert search(model, tmp_path, liveness=True).broken == "acceptance cycle"
