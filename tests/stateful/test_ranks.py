"""Walks on the real runtime of two ranks, with bytes on both, and workers that die."""

from __future__ import annotations

import pytest

from kvstate.machines.ledger import Ledger
from kvstate.machines.ranks import RankLost
from kvstate.runtime import engine
from tests.long import checkered, long_but
from tests.stateful.ranks_world import RANK_SCOPES, RanksWorld
from tests.stateful.search import Failed, first_failure, walked
from tests.stateful.world import MIXES

EXAMPLES = 300


@pytest.mark.parametrize("seed", long_but([0], range(3)))
@pytest.mark.parametrize(("scope", "mix"), checkered(RANK_SCOPES, MIXES))
def test_a_walk_on_two_ranks_breaks_no_law(scope: str, mix: str, seed: int) -> None:
    world = walked("ranks", scope, mix, seed)
    assert not isinstance(world, Failed), world


@pytest.mark.parametrize("scope", RANK_SCOPES)
def test_a_walk_on_two_ranks_with_threads_breaks_no_law(scope: str) -> None:
    world = walked("ranks on threads", scope, "loads", 0, rounds=3)
    assert not isinstance(world, Failed), world


def test_walks_lose_workers_and_go_on() -> None:
    lost, loads, jobs = 0, 0, 0
    for seed in range(4):
        world = walked("ranks", "parts", "loads", seed)
        assert isinstance(world, RanksWorld), world
        lost, loads, jobs = lost + world.lost_ranks, loads + len(world.settled), jobs + len(world.jobs)
    assert min(lost, loads, jobs) >= 4, (lost, loads, jobs)


@pytest.mark.parametrize("forgotten", ["abort", "reset", "fence"])
def test_what_a_lost_rank_takes_with_it_is_missed(forgotten: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases that live on, or keys that are still hits, promise bytes of one rank; what is not fenced stays."""

    def careless(ledger: Ledger, rank: int) -> RankLost:
        leases = tuple(ledger.books.leases)
        for lease in leases if forgotten != "abort" else ():
            assert ledger.abort(lease)
        keys = 0 if forgotten == "reset" else ledger.reset()
        parts = 0 if forgotten == "fence" else ledger.fenced(rank, "cpu", ledger.books.serial)
        assert isinstance(keys, int)
        assert isinstance(parts, int)
        return RankLost(leases, keys, parts)

    monkeypatch.setattr(engine, "rank_lost", careless)
    found = first_failure("ranks", "two ranks", "loads", range(EXAMPLES))
    assert found is not None, f"no walk of {EXAMPLES} misses the {forgotten}"
