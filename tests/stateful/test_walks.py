"""Seeded random walks through the world: the quick form of the stateful suite on the pure ledger."""

from __future__ import annotations

import pytest

from kvstate.machines import tables
from kvstate.machines.interpreted import interpreted
from kvstate.spec.loader import load_spec
from tests.stateful.world import SCOPES, World


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("seed", range(12))
def test_a_walk_breaks_no_law_and_comes_home(scope: str, seed: int) -> None:
    world = World(seed, SCOPES[scope])
    world.walk(250)
    world.rest()


def test_the_ledger_runs_on_interpreted_tables_alike() -> None:
    """The same walk, over the reference interpreter: same rows, same counts."""
    machines = {machine.name: interpreted(machine) for machine in load_spec().machines}
    assert machines.keys() == tables.TABLES.keys()
    runs = []
    for chosen in (tables.TABLES, machines):
        world = World(5, SCOPES["wide"], machines=chosen)
        world.walk(150)
        world.rest()
        runs.append(world.ledger.fired())
    assert runs[0] == runs[1]


BREAKS = ("no-draining", "publish-before-commit", "timeout-frees", "no-condemned-keys", "end-at-first-failure")


@pytest.mark.parametrize("law", BREAKS)
def test_a_broken_law_is_noticed(law: str) -> None:
    """The walks can fail: over a mutated spec, one of them does."""
    from kvstate.replay.breaks import break_law

    broken = break_law(law)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        _walk_often(machines=broken.machines, couplings=broken.couplings, acts=broken.acts)


def _walk_often(**ledger: object) -> None:
    for seed in range(120):
        world = World(seed, SCOPES["wide"], **ledger)
        world.walk(250)
        world.rest()
