"""kvstate's own ledger under the kit: nothing is found; with a law taken out, something is."""

from __future__ import annotations

import pytest

from kvstate.machines.config import LedgerConfig
from kvstate.machines.ledger import Ledger
from kvstate.replay.breaks import Broken, break_law
from kvstate.testing import Adapter, Copier, Scope, search, story
from kvstate.testing.kit.hypo import by_hypothesis
from kvstate.testing.kit.search import Search
from kvstate.testing.kit.walks import MIXES
from kvstate.testing.own import KVStateEngine

SCOPES = {
    "as it is": Scope(),
    "crowded": Scope(device=3, host=2, longest=3, requests=4),
    "wide": Scope(device=40, host=60, chains=3, longest=20, requests=5),
}


def told(done: Search) -> str:
    return story(done.played) if done.played is not None else ""


@pytest.mark.parametrize("scope", SCOPES)
def test_nothing_is_found(scope: str) -> None:
    done = search(KVStateEngine, SCOPES[scope], steps=2500)
    assert done.violation is None, told(done)
    assert min(done.stats.counts[seen] for seen in ("hits", "store", "load", "check", "ends under a copy")) > 50
    assert sum(count > 0 for count in done.stats.marks.values()) > 100


@pytest.mark.slow
@pytest.mark.parametrize("mix", MIXES)
def test_nothing_is_found_in_a_longer_time(mix: str) -> None:
    done = search(KVStateEngine, seed=1, steps=6000, mixes=[mix])
    assert done.violation is None, told(done)


def test_hypothesis_finds_nothing() -> None:
    done = by_hypothesis(KVStateEngine, examples=60)
    assert done.violation is None, told(done)


@pytest.mark.parametrize(
    ("law", "named"),
    [
        ("no-draining", "L3.no_reuse"),
        ("publish-before-commit", "check"),
        ("timeout-frees", "L3.no_reuse"),
        ("no-condemned-keys", "L5.condemned"),
        ("end-at-first-failure", "check"),
    ],
)
def test_a_law_that_is_taken_out_is_missed(law: str, named: str) -> None:
    broken: Broken = break_law(law)  # type: ignore[arg-type]

    class Lawless(KVStateEngine):
        def build(self, config: LedgerConfig) -> Ledger:
            return Ledger(config, machines=broken.machines, couplings=broken.couplings, acts=broken.acts)

    def build(scope: Scope, copier: Copier) -> Adapter:
        return Lawless(scope, copier)

    done = search(build, seconds=20)
    assert done.violation is not None
    assert named in done.laws
    assert len(done.steps) <= 8
