"""Walks on the real runtime: a copier that the world releases by hand, and one with threads."""

from __future__ import annotations

from collections import Counter

import pytest

from kvstate.replay.breaks import break_law
from kvstate.replay.config import LAWS, Law
from tests.long import checkered, long_but
from tests.stateful.base import Content, Poison
from tests.stateful.runtime_world import RUNTIME_SCOPES, RuntimeWorld
from tests.stateful.search import Failed, first_failure, walked
from tests.stateful.world import MIXES

EXAMPLES = 2000
SEEN_AS: dict[Law, str] = {
    "no-draining": "L3.no_reuse",
    "match-by-block": "L2.identity",
    "publish-before-commit": "L9.bytes",
    "timeout-frees": "L3.no_reuse",
    "no-condemned-keys": "L5.bad_keys",
    "end-at-first-failure": "L8.poison",
}
"""By break: the property by which some walk notices it."""


@pytest.mark.parametrize("seed", long_but([0], range(3)))
@pytest.mark.parametrize(("scope", "mix"), checkered(RUNTIME_SCOPES, MIXES))
def test_a_walk_with_real_bytes_breaks_no_law(scope: str, mix: str, seed: int) -> None:
    world = walked("runtime", scope, mix, seed)
    assert not isinstance(world, Failed), world


@pytest.mark.parametrize(("scope", "mix"), checkered(RUNTIME_SCOPES, ["loads", "aborts", "reuse"]))
def test_a_walk_with_threads_breaks_no_law(scope: str, mix: str) -> None:
    world = walked("threads", scope, mix, 0, rounds=3)
    assert not isinstance(world, Failed), world


def test_walks_with_real_bytes_get_somewhere() -> None:
    told: Counter[str] = Counter()
    for kind in ("runtime", "threads"):
        for seed in range(2):
            world = walked(kind, "parts", "loads", seed, rounds=4)
            assert not isinstance(world, Failed), world
            told.update(loads=len(world.settled), jobs=len(world.jobs))
    assert min(told.values()) >= 10, told


@pytest.mark.parametrize("law", LAWS)
def test_a_broken_law_is_noticed(law: Law) -> None:
    """All that `kvstate replay --break` knows, the one that lives in the copier as well."""
    found = first_failure("runtime", "small", "reuse", range(EXAMPLES), SEEN_AS[law], law=break_law(law))
    assert found is not None, f"no walk of {EXAMPLES} breaks {SEEN_AS[law]} with {law}"


def test_a_stray_write_is_seen_wherever_it_falls() -> None:
    world = RuntimeWorld(1)
    world.round(30)
    world.memories[0].bytes_of(world.scope.total - 1)[8:16] = 0
    with pytest.raises(AssertionError, match=r"^L9\.bytes: block 8 should hold .* zero, as fresh memory is"):
        world.compare()
    world.write(0, world.scope.total - 1, Content("a", b"k", 0))
    world.compare()
    world.write(0, world.scope.total - 1, Poison(1, 1))
    world.compare()
