"""The rule machines of Hypothesis, over the pure ledger and over the real runtime."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import Phase

from kvstate.machines.ledger import COUPLINGS
from tests.long import long_but
from tests.stateful.base import SCOPES, Scope, Tier
from tests.stateful.machines import run
from tests.stateful.runtime_world import RUNTIME_SCOPES, RuntimeWorld
from tests.stateful.world import World

LEDGER = [
    ("one rank", "aborts"), ("roomy", "loads"), ("two ranks", "faults"), ("tight", "reuse"), ("durable", "stores"),
    ("tiers", "even"),
]  # fmt: skip
RUNTIME = [("small", "aborts"), ("parts", "loads"), ("two tiers", "faults"), ("parts", "reuse")]


@pytest.mark.parametrize(("scope", "mix"), long_but(LEDGER[:2], LEDGER))
def test_no_rules_break_a_law_of_the_ledger(scope: str, mix: str) -> None:
    run(World, SCOPES[scope], mix, examples=25, steps=50)


@pytest.mark.parametrize(("scope", "mix"), long_but(RUNTIME[:1], RUNTIME))
def test_no_rules_break_a_law_of_the_runtime(scope: str, mix: str) -> None:
    run(RuntimeWorld, RUNTIME_SCOPES[scope], mix, examples=20, steps=40)


class Forgetful(World):
    """On a ledger that hands blocks to a step and does not write down that the step reads them."""

    def __init__(self, source: Iterable[int], scope: Scope) -> None:
        super().__init__(source, scope, couplings=[row for row in COUPLINGS if row.effect != "adopt"])

    @classmethod
    def moves(cls, mix: str) -> dict[str, int]:
        """A few, none of them several at once: what is short is to be readable."""
        return dict.fromkeys("arrive start compute retire store land deliver abort preempt finish tick".split(), 1)


def test_rules_find_a_broken_law_and_make_it_short() -> None:
    scope = Scope(device=1, tiers=(Tier(1),), keys=1, longest=1)
    search = (Phase.generate, Phase.shrink)
    with pytest.raises(AssertionError, match=r"^L\d+\.") as broken:
        run(Forgetful, scope, "aborts", examples=300, steps=12, derandomize=True, database=None, phases=search)
    notes = "\n".join(getattr(broken.value, "__notes__", ()))
    walk = [move.split()[0] for move in notes.partition("walk: ")[2].splitlines()[0].split("; ")]
    assert walk[:2] == ["arrive", "start"], notes
    assert walk[-1] in ("abort", "preempt", "finish", "window"), notes
    assert len(walk) <= 5, notes
