"""Laws of loads, of an engine's blocks and of objects that the explorer looks at by itself: each is seen broken."""

from __future__ import annotations

from typing import Any

import pytest

from kvstate.explore.scopes import SCOPES
from kvstate.explore.search import explore
from kvstate.explore.stage import Rules
from kvstate.machines.ledger import COUPLINGS
from tests.scenarios.spec_mutants import changed, without

MOST = 1500
"""States; each fault is found sooner."""


def row(name: str, **change: Any) -> Rules:
    return Rules(machines=changed(name, **change))


FAULTS: dict[str, tuple[str, Rules, str, str]] = {
    "a batch is not started": (
        "late-retry", Rules(couplings=[line for line in COUPLINGS if line.id != "C36"]), "L7.started", "not all of it"
    ),
    "the next turn is not sent": ("batches", row("A11", effects=()), "L11.turn", "has missed a turn"),
    "a cut aborts": ("foreign-ranks", row("X40", to="aborting"), "L1.aborted", "its lease is not closing"),
    "a cut for the second time aborts": ("holes", row("X70", to="aborting"), "L1.aborted", "its lease is not closing"),
    "what is committed is nobody's": ("foreign-load", row("E28", to="outside"), "L3.engine", "not for both"),
    "what is rolled back is nobody's": ("foreign-load", row("E30", to="outside"), "L3.engine", "not for both"),
    "an object is left behind": (
        "backoff", row("O58", effects=("give_up", "release_dst", "tell_cancelled")), "L5.no_object", "left behind"
    ),
    "a block that is freed twice is not counted": ("foreign", row("E02", effects=()), "L2.stale_counted", "free block"),
    "who drains twice is refused": ("durable", Rules(machines=without("S03")), "L11.home", "drains a ledger twice"),
    "a lost part is forgotten": ("parts", row("X32", unset="unproved"), "fatal block.rollback", "no row takes"),
}  # fmt: skip
"""By what is wrong: the scope, the rules with it, and the law that is seen broken with a part of its sentence."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    scope, rules, law, part = FAULTS[name]
    found = explore(SCOPES[scope], rules, max_states=MOST)
    assert found.broken is not None
    assert found.broken.law == law
    assert part in found.broken.sentence
