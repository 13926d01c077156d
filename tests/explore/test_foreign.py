"""Faults in what is done about an engine's own blocks: each is seen broken, in the scopes of such an engine."""

from __future__ import annotations

from typing import Any

import pytest

from kvstate.explore.scopes import SCOPES
from kvstate.explore.search import explore
from kvstate.explore.stage import Rules
from kvstate.explore.tell import Told, tell
from kvstate.machines.ledger import ACTS, COUPLINGS
from kvstate.testing.scenario import parse, play
from tests.long import long_but
from tests.scenarios.spec_mutants import changed

MOST = 3000
"""States; a search of either scope ends before."""


def uncoupled(line: str) -> Rules:
    return Rules(couplings=[row for row in COUPLINGS if row.id != line])


def without(act: str) -> Rules:
    return Rules(acts=[row for row in ACTS if row.act != act])


def row(name: str, **change: Any) -> Rules:
    return Rules(machines=changed(name, **change))


FAULTS: dict[str, tuple[str, Rules, str, str]] = {
    "copies are not tainted": ("foreign", uncoupled("C44"), "L9.bytes", "K1 names block 1"),
    "jobs are not tainted": ("foreign", uncoupled("C45"), "L9.bytes", "K1 names block 1"),
    "a spoiled part counts": ("foreign", row("P06", to="landed", effects=("let_go", "ok")), "L9.bytes", "K1 names"),
    "the engine is not asked": ("foreign", without("emit_hold"), "L3.hold", "was not held"),
    "the engine is not told": ("foreign", without("emit_unhold"), "L3.hold", "told otherwise"),
    "a life is not told apart": ("foreign", row("E06", unset="generation"), "L3.hold", "is kept already"),
    "what is read is free": ("foreign", row("E04", to="outside", effects=("pull",)), "fatal foreign", "no row takes"),
    "no reader is counted": ("foreign", uncoupled("C51"), "L8.recount", "block 0 has readers 1"),
    "a job keeps its hold": ("foreign", uncoupled("C59"), "L8.recount", "the records say 0"),
    "nothing is pulled": ("foreign-load", uncoupled("C46"), "L5.loading_named", "block 0 is not being loaded"),
    "a load does not leave": ("foreign-load", uncoupled("C62"), "L5.loading_named", "should not be"),
    "what is over is pulled": ("foreign-load", without("forget_filling"), "fatal INTERNAL", "holds no record"),
    "two loads fill one block": ("foreign-load", row("E11", to="owned"), "fatal foreign.write_begin", "no row takes"),
    "no stain is noted": ("foreign-load", row("E06", unset="stained"), "L9.bytes", "K3 names block 2, which holds K1"),
    "no stain is asked for": ("foreign-load", row("E10", when="writers == 0"), "L9.bytes", "K3 names block 2"),
    "a spoiled check is believed": ("foreign-load", row("P06", to="broken"), "L5.innocent", "key K1 pays"),
    "a late one is believed": (
        "foreign-load", row("P17", to="broken", effects=("late", "late_bad")), "L5.innocent", "key K1 pays"
    ),
    "one that was lost before": ("foreign-load", row("P15", unset="tainted"), "L5.innocent", "key K1 pays"),
}  # fmt: skip
"""By what is wrong: the scope, the rules with it, and the law that is seen broken with a part of its sentence."""


@pytest.mark.parametrize("name", long_but(list(FAULTS)[::3], FAULTS))
def test_a_fault_is_found(name: str) -> None:
    scope, rules, law, part = FAULTS[name]
    found = explore(SCOPES[scope], rules, max_states=MOST)
    assert found.broken is not None
    assert found.broken.law.startswith(law)
    assert part in found.broken.sentence


def told_of(name: str) -> Told:
    scope, rules, _, _ = FAULTS[name]
    found = explore(SCOPES[scope], rules, max_states=MOST)
    assert found.broken is not None
    return tell(SCOPES[scope], rules, found.broken)


@pytest.mark.parametrize("name", long_but(["nothing is pulled"], ["nothing is pulled", "no stain is noted"]))
def test_the_scenario_runner_sees_it_too(name: str) -> None:
    told = told_of(name)
    assert "engine gives r1 b0" in told.text
    assert told.confirmed


def test_on_what_ships_the_same_commands_break_nothing() -> None:
    assert not play(parse(told_of("nothing is pulled").text, "found.txt")).problems
