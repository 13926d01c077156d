"""What the tests of this folder share: the spec that ships, its mutants by name, and the smallest of baselines."""

from __future__ import annotations

from functools import cache

from kvstate.explore.scopes import SCOPES
from kvstate.mutation import checkout
from kvstate.mutation.baseline import Baseline
from kvstate.mutation.graph import Reach, reach
from kvstate.mutation.mutants import Mutant, mutants
from kvstate.spec.loader import load_spec

SPEC = load_spec(check=False)
MUTANTS = {mutant.name: mutant for mutant in mutants(SPEC)}
SCOPE = "queue"
"""The scope that these tests search; it is among the quickest."""


def planted(name: str) -> Mutant:
    return MUTANTS[name]


@cache
def reached() -> Reach:
    """What a search of that scope comes by; once for all tests."""
    return reach(SCOPES[SCOPE])


@cache
def around() -> checkout.Checkout:
    return checkout.here()


def small(**changes: object) -> Baseline:
    """A baseline of one scope, and of scenarios and walks that a test names."""
    parts: dict[str, object] = {"reach": {}, "scenarios": {}, "walks": {}, "read": {}, **changes}
    return Baseline("a test", **parts)  # type: ignore[arg-type]
