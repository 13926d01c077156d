"""kvstate's own ledger under the kit: nothing is found; with a law taken out, something is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvstate.machines.config import LedgerConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Token, Work
from kvstate.replay.breaks import COPIERS_OWN, Broken, break_law
from kvstate.replay.config import Law
from kvstate.testing import Adapter, Copier, Report, Scope, search, story
from kvstate.testing.kit.hypo import by_hypothesis
from kvstate.testing.kit.search import Search
from kvstate.testing.kit.walks import MIXES
from kvstate.testing.own import KVStateEngine
from tests.long import long_but

SCOPES = {
    "as it is": Scope(),
    "crowded": Scope(device=3, host=2, longest=3, requests=4),
    "wide": Scope(device=40, host=60, chains=3, longest=20, requests=5),
}


def told(done: Search) -> str:
    return story(done.played) if done.played is not None else ""


@pytest.mark.parametrize("scope", long_but(["as it is"], SCOPES))
def test_nothing_is_found(scope: str) -> None:
    done = search(KVStateEngine, SCOPES[scope], steps=2500)
    assert done.violation is None, told(done)
    assert min(done.stats.counts[seen] for seen in ("hits", "store", "load", "check", "ends under a copy")) > 50
    assert sum(count > 0 for count in done.stats.marks.values()) > 100


@pytest.mark.long
@pytest.mark.parametrize("mix", MIXES)
def test_nothing_is_found_in_a_longer_time(mix: str) -> None:
    done = search(KVStateEngine, seed=1, steps=6000, mixes=[mix])
    assert done.violation is None, told(done)


@pytest.mark.long
def test_hypothesis_finds_nothing() -> None:
    done = by_hypothesis(KVStateEngine, examples=60)
    assert done.violation is None, told(done)


SEEN_AS: dict[Law, str] = {
    "no-draining": "L3.no_reuse",
    "match-by-block": "L3.no_reuse",
    "publish-before-commit": "check",
    "timeout-frees": "L3.no_reuse",
    "no-condemned-keys": "L5.condemned",
    "end-at-first-failure": "check",
}
"""By break: the law of the kit's that says so; `check` is the ledger's own."""
RARE = ("match-by-block", "timeout-frees", "no-condemned-keys", "no-draining", "end-at-first-failure")
"""Breaks that take many seconds to be found and made short."""


class Lawless(KVStateEngine):
    """Its ledger runs on other rules."""

    broken: Broken

    def build(self, config: LedgerConfig) -> Ledger:
        return Ledger(config, machines=self.broken.machines, couplings=self.broken.couplings, acts=self.broken.acts)


class ByBlock(KVStateEngine):
    """A report goes to whoever was last to start a copy into the block that it was about."""

    def __init__(self, scope: Scope, copier: Copier) -> None:
        super().__init__(scope, copier)
        self.first: dict[Token, int] = {}
        self.current: dict[int, Token] = {}

    def _submit(self, work: Work) -> None:
        block = (work.dst or work.src)[0]
        self.first[work.token], self.current[block] = block, work.token
        super()._submit(work)

    def on_report(self, report: Report) -> None:
        assert isinstance(report.tag, tuple)
        kind, token = report.tag
        super().on_report(report._replace(tag=(kind, self.current[self.first[token]])))


@pytest.mark.parametrize("law", [pytest.param(law, marks=pytest.mark.long) if law in RARE else law for law in SEEN_AS])
def test_a_law_that_is_taken_out_is_missed(law: Law) -> None:
    def build(scope: Scope, copier: Copier) -> Adapter:
        if law == COPIERS_OWN:
            return ByBlock(scope, copier)
        engine: Callable[[Scope, Copier], Adapter] = type("Engine", (Lawless,), {"broken": break_law(law)})
        return engine(scope, copier)

    done = search(build, steps=50_000)
    assert done.violation is not None
    assert SEEN_AS[law] in done.laws
    assert len(done.steps) <= 8
