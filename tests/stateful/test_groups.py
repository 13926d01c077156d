"""Walks with KV groups, by chance and by Hypothesis; and that they come to where groups make a difference."""

from __future__ import annotations

from collections import Counter

import pytest

from kvstate.machines.verdicts import Hit, LoadVerdict
from tests.long import checkered, long_but
from tests.stateful.base import Request
from tests.stateful.groups_world import GROUPS_SCOPES, GroupsRequest, GroupsWorld, needed
from tests.stateful.machines import run
from tests.stateful.search import Failed, walked
from tests.stateful.world import MIXES


@pytest.mark.parametrize("seed", long_but([0], range(3)))
@pytest.mark.parametrize(("scope", "mix"), checkered(GROUPS_SCOPES, MIXES))
def test_a_walk_breaks_no_law_and_comes_home(scope: str, mix: str, seed: int) -> None:
    world = walked("groups", scope, mix, seed)
    assert not isinstance(world, Failed), world


@pytest.mark.parametrize(("scope", "mix"), [("hybrid", "loads"), ("reaching back", "faults"), ("three groups", "even")])
def test_no_walk_of_hypothesis_breaks_a_law(scope: str, mix: str) -> None:
    run(GroupsWorld, GROUPS_SCOPES[scope], mix, examples=8, steps=60)


class Watched(GroupsWorld):
    """Counts what it comes to."""

    def __init__(self, *args: object) -> None:
        self.seen: Counter[str] = Counter()
        super().__init__(*args)  # type: ignore[arg-type]

    def promise(self, request: GroupsRequest, hit: Hit) -> None:
        super().promise(request, hit)
        places, _ = self.places_of(request, hit)
        front = {place for place in request.places() if place[1] < hit.groups[place[0]].first}
        self.seen["hit"] += bool(hit)
        self.seen["window passed"] += bool(front)
        self.seen["hole before it"] += any(not self.surely_cached(request, place) for place in front)
        self.seen["shorter than asked"] += 0 < hit.tokens < request.tokens
        self.seen["two tiers"] += 0 < len(hit.below) < len(places)
        assert set(places) == needed(self.scope.groups, hit.tokens)

    def promised(self, request: Request, verdict: LoadVerdict) -> list[tuple[int, int]]:
        assert request.hit is not None
        self.seen["whole"] += verdict.tokens == request.hit.tokens
        self.seen["shorter"] += 0 < verdict.tokens < request.hit.tokens
        self.seen["nothing"] += verdict.tokens == 0
        self.seen["spare"] += any(told.spare for told in verdict.groups)
        found: list[tuple[int, int]] = super().promised(request, verdict)
        self.seen["again"] += bool(self.again)
        return found


@pytest.mark.long
def test_walks_come_to_where_groups_make_a_difference() -> None:
    seen: Counter[str] = Counter()
    for scope in GROUPS_SCOPES.values():
        for seed in range(12):
            world = Watched(seed, scope)
            for mix in ("loads", "faults"):
                for _ in range(3):
                    world.round(25, mix)
            seen.update(world.seen)
    names = "hit, window passed, hole before it, shorter than asked, two tiers, whole, shorter, nothing, spare, again"
    assert min(seen[name] for name in names.split(", ")) >= 1, seen
