"""Every planted fault is found, and by a law that is about it."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.long import long_but
from tests.stateful import durable_faults, foreign_faults, groups_faults, shared_faults  # noqa: F401  they list their own
from tests.stateful.faults import FAULTS, Fault, seeds
from tests.stateful.runtime_faults import UNSEEN
from tests.stateful.search import Failed, walked

WALKS = 40
"""How many are tried before a fault counts as not found; the first is known to find it, so one is enough as a rule."""


@pytest.mark.parametrize("fault", long_but(FAULTS[::3], FAULTS), ids=lambda fault: fault.name)
def test_a_planted_fault_is_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    options = fault.plant(monkeypatch) or {}
    said = []
    for seed in islice(seeds(fault.seed), WALKS):
        world = walked(fault.world, fault.scope, fault.mix, seed, moves=fault.moves, **options)
        if isinstance(world, Failed):
            said.append(world.law)
            if world.law in fault.laws:
                return
    pytest.fail(f"{fault.sentence} No walk of {WALKS} said {fault.laws}; they said {said}")


@pytest.mark.parametrize("fault", UNSEEN, ids=lambda fault: fault.name)
def test_a_fault_that_nothing_can_notice_is_not_found(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its reason (`Fault.why_unseen`); one that is found after all has to move to the other list."""
    options = fault.plant(monkeypatch) or {}
    for seed in range(4):
        assert not isinstance(walked(fault.world, fault.scope, fault.mix, seed, **options), Failed)
    assert fault.why_unseen


def test_there_are_enough_and_each_has_a_name() -> None:
    names = [fault.name for fault in FAULTS]
    assert len(names) == len(set(names)) >= 25
    assert {fault.world for fault in FAULTS} == {
        "ledger",
        "runtime",
        "threads",
        "groups",
        "foreign",
        "durable",
        "shared",
    }
