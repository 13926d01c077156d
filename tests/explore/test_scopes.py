"""The quick scopes, searched to their end: no law is broken, and they are as large as they were."""

from __future__ import annotations

import pytest

from kvstate.explore.moves import System
from kvstate.explore.scopes import LATE, QUICK, SCOPES, SOAK
from kvstate.explore.search import explore
from kvstate.explore.stage import Rules
from kvstate.explore.tell import tell
from kvstate.machines.tables import TABLES
from tests.explore.pins import FIRES, NEVER, PINS, searched
from tests.explore.test_breaks import rules, twice

SMALL = ("late-retry", "foreign-ranks")
"""Those that are searched while one works; the others take some seconds each, with `make proof`."""


def test_every_quick_scope_is_pinned() -> None:
    assert [scope.name for scope in QUICK] == list(PINS)
    assert set(SCOPES) - set(PINS) == {SOAK.name, LATE.name}


@pytest.mark.parametrize(
    "name", [name if name in SMALL else pytest.param(name, marks=pytest.mark.proof) for name in PINS]
)
def test_no_law_is_broken_in_any_state(name: str) -> None:
    found = searched(name)
    assert found.broken is None
    assert found.finished
    assert (found.states, found.transitions, found.depth) == PINS[name]
    assert [row for row in FIRES.get(name, "").split() if not found.fired[row]] == []
    assert [row for row in NEVER.split() if found.fired[row]] == []


def test_every_row_has_a_scope_in_which_it_fires_but_these() -> None:
    """That it does is seen when that scope is searched."""
    rows = [row for table in TABLES.values() for row in table.ROWS]
    listed = [row for some in FIRES.values() for row in some.split()]
    assert sorted([*listed, *NEVER.split()]) == sorted(rows)
    assert FIRES.keys() <= PINS.keys()


def test_a_search_that_is_stopped_says_so() -> None:
    found = explore(SCOPES["steps"], max_states=100)
    assert found.broken is None
    assert not found.finished
    assert found.states >= 100
    assert found.frontier > 0


def test_a_search_goes_no_deeper_than_it_is_told() -> None:
    found = explore(SCOPES["steps"], depth=4)
    assert found.depth == 4
    assert found.frontier > 0


def test_a_prefix_is_made_of_moves_that_the_scope_allows() -> None:
    system = System(LATE, Rules())
    for move in LATE.prefix:
        assert move in system.moves()
        system.do(move)
        system.look()
    assert [run.lives for run in system.world.runs] == [1, 1]
    assert system.world.contents[:2] == ["K1", "K2"], "what was loaded is in the device's blocks, and cached there"


def test_a_search_behind_a_prefix_goes_on_from_there() -> None:
    found = explore(LATE, depth=3)
    assert found.broken is None
    assert found.depth == 3
    assert found.states > 10


def test_what_a_prefix_breaks_is_told_with_its_moves() -> None:
    """On the way, and behind it: the commands of a counterexample are those of the prefix, too."""
    early = explore(LATE, twice("tell_settled"))
    assert early.broken is not None
    assert early.broken.moves == LATE.prefix[: len(early.broken.moves)]
    late = explore(LATE, rules("publish-before-commit"), depth=6)
    assert late.broken is not None
    assert late.broken.moves[: len(LATE.prefix)] == LATE.prefix
    assert len(late.broken.moves) > len(LATE.prefix)
    told = tell(LATE, rules("publish-before-commit"), late.broken)
    assert told.commands[0] == ("open r1",)
    assert ("open r2",) in told.commands
