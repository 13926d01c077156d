"""Walks with a pool that others write to: a store that is asked and written to, or what a peer offers."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.long import checkered, long_but
from tests.stateful.machines import run
from tests.stateful.search import Failed, walked
from tests.stateful.shared_world import COUNTED, SHARED_SCOPES, SharedWorld
from tests.stateful.world import MIXES


@pytest.mark.parametrize("seed", long_but([0], range(2)))
@pytest.mark.parametrize(("scope", "mix"), checkered(SHARED_SCOPES, MIXES))
def test_a_walk_breaks_no_law_and_comes_home(scope: str, mix: str, seed: int) -> None:
    world = walked("shared", scope, mix, seed)
    assert not isinstance(world, Failed), world


@pytest.mark.parametrize("scope", SHARED_SCOPES)
def test_walks_get_somewhere(scope: str) -> None:
    """Keys are found, offered, read, put there, gone and withdrawn; without that a walk shows nothing."""
    seen: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))
    rows: Counter[str] = Counter()
    for seed in range(3):
        for mix in ("loads", "even", "stores"):
            world = SharedWorld(seed, SHARED_SCOPES[scope])
            for _ in range(4):
                world.round(25, mix)
            seen.update(world.counts)
            rows.update(world.rows())
    if scope == "a peer":
        assert [seen.pop(name) for name in ("asks", "found", "put")] == [0, 0, 0], "a peer is not asked, nor stored to"
    assert min(seen.values()) >= 1, f"the walks hardly got anywhere: {seen}"
    assert rows["K14"]


@pytest.mark.parametrize("scope", ["a small store", "a store on two ranks"])
def test_hypothesis_finds_nothing(scope: str) -> None:
    run(SharedWorld, SHARED_SCOPES[scope], "even", 8, 40)
