"""The same world, walked by Hypothesis: it chooses the moves and every choice within them, and shrinks what fails.

Every move is total (it does nothing where it does not apply), so a list of names is a walk, whatever Hypothesis takes
out of it. The world takes its choices from a source that Hypothesis owns, so they shrink with the list.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from kvstate.machines.ledger import ACTS
from tests.stateful.world import SCOPES, Scope, World

NOTHING = "nothing"
"""Stands first, so a walk shrinks towards it: of a list whose length is fixed, what is left is what matters."""
WEIGHED = [NOTHING, *(name for name, weight in World.MOVES.items() for _ in range(weight))]


def walks(length: int) -> st.SearchStrategy[list[str]]:
    """Names of moves, as the world weighs them; lists that Hypothesis may choose the length of are mostly short."""
    names = st.lists(st.sampled_from(WEIGHED), min_size=length, max_size=length)
    return names.map(lambda chosen: [name for name in chosen if name != NOTHING])


chances = st.randoms(use_true_random=False)
CALM = settings(suppress_health_check=list(HealthCheck), deadline=None)


@pytest.mark.parametrize("scope", SCOPES)
@settings(CALM, max_examples=100)
@given(names=walks(60), random=chances)
def test_no_walk_breaks_a_law_and_all_come_home(scope: str, names: list[str], random: Random) -> None:
    world = World(random, SCOPES[scope])
    for name in names:
        world.move(name)
    world.rest()


FORGETFUL = [act for act in ACTS if act.act != "keep_adopted"]
"""A ledger that hands blocks to a step and does not write down that the step reads them."""


def goes_wrong(names: list[str], random: Random) -> bool:
    world = World(random, Scope(device=1, host=1, keys=1, longest=1), acts=FORGETFUL)
    try:
        for name in names:
            world.move(name)
    except AssertionError:
        return True
    return False


def test_a_failure_shrinks_to_what_it_takes() -> None:
    names, _ = find(
        st.tuples(walks(20), chances), lambda walk: goes_wrong(*walk), settings=settings(CALM, max_examples=2000)
    )
    assert names[:3] == ["arrive", "start", "compute"]
    assert names[3] in ("abort", "finish", "window")
    assert len(names) == 4
