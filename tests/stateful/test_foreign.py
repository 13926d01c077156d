"""Walks with an engine that allocates its device blocks by itself, and hands some of them on against its word."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.long import checkered, long_but
from tests.stateful.foreign_world import FOREIGN_SCOPES, ForeignWorld
from tests.stateful.machines import run
from tests.stateful.search import Failed, walked
from tests.stateful.world import MIXES


@pytest.mark.parametrize("seed", long_but([0], range(2)))
@pytest.mark.parametrize(("scope", "mix"), checkered(FOREIGN_SCOPES, MIXES))
def test_a_walk_breaks_no_law_and_comes_home(scope: str, mix: str, seed: int) -> None:
    world = walked("foreign", scope, mix, seed)
    assert not isinstance(world, Failed), world


@pytest.mark.parametrize("scope", FOREIGN_SCOPES)
def test_walks_get_somewhere(scope: str) -> None:
    """Copies are overtaken, blocks are held, loads and stores end; without that a walk shows nothing."""
    seen: Counter[str] = Counter()
    for seed in range(3):
        for mix in ("loads", "reuse", "stores"):
            world = ForeignWorld(seed, FOREIGN_SCOPES[scope])
            for _ in range(4):
                world.round(25, mix)
            seen.update(loads=len(world.told & world.loads.keys()), jobs=len(world.told & world.jobs))
            seen.update(holds=len(world.heard_of), thefts=len(world.robbed), strays=len(world.stray))
    assert len(seen) == 5
    assert min(seen.values()) >= 2, f"the walks hardly got anywhere: {seen}"


@pytest.mark.parametrize("scope", ["an engine", "an engine in a hurry"])
def test_hypothesis_finds_nothing(scope: str) -> None:
    run(ForeignWorld, FOREIGN_SCOPES[scope], "reuse", 8, 30)
