"""Seeded random walks through the world: the quick form of the suite on the pure ledger."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from kvstate.machines import bulk, tables
from kvstate.machines.interpreted import interpreted
from kvstate.replay.breaks import break_law
from kvstate.replay.config import Law
from kvstate.spec.loader import load_spec
from tests.long import checkered, long_but
from tests.stateful.search import Failed, first_failure, read, replayed, shortest, walked
from tests.stateful.world import MIXES, SCOPES, World


@pytest.mark.parametrize("seed", long_but([0], range(3)))
@pytest.mark.parametrize(("scope", "mix"), checkered(SCOPES, MIXES))
def test_a_walk_breaks_no_law_and_comes_home(scope: str, mix: str, seed: int) -> None:
    world = walked("ledger", scope, mix, seed)
    assert not isinstance(world, Failed), world


@pytest.mark.parametrize("scope", long_but(list(SCOPES)[::4], SCOPES))
def test_walks_get_somewhere(scope: str) -> None:
    told: Counter[str] = Counter()
    for seed in range(3):
        for mix in ("loads", "reuse"):
            world = World(seed, SCOPES[scope])
            for _ in range(4):
                world.round(25, mix)
            told.update(loads=len(world.told & world.loads.keys()), jobs=len(world.told & world.jobs))
    assert min(told.values()) >= 10, f"the walks hardly got anywhere: {told}"


def test_the_wide_world_goes_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written with NumPy is walked, too: each of its functions is called, and with many."""
    bulk.look_for_numpy()
    called: Counter[str] = Counter()
    names = (
        "fire",
        "taken",
        "gather",
        "put",
        "spread",
        "ascending",
        "agreeing",
        "distinct",
        "where_agreeing",
        "choose",
    )

    def counted(name: str, function: Any) -> Any:
        def through(*args: Any) -> Any:
            called[name] += 1
            return function(*args)

        return through

    for name in names:
        monkeypatch.setattr(bulk.columns, name, counted(name, getattr(bulk.columns, name)))
    for seed in range(6):
        assert not isinstance(walked("ledger", "wide", "reuse", seed, rounds=3), Failed)
    assert called.keys() == set(names), f"never called: {set(names) - called.keys()}"


def test_the_ledger_runs_on_interpreted_tables_alike() -> None:
    """The same walk, over the reference interpreter: same rows, same counts."""
    machines = {machine.name: interpreted(machine) for machine in load_spec().machines}
    assert machines.keys() == tables.TABLES.keys()
    runs = []
    for chosen in (tables.TABLES, machines):
        world = World(5, SCOPES["tiers"], machines=chosen)
        world.round(60, "loads")
        world.rest()
        runs.append(world.rows())
    assert runs[0] == runs[1]


def test_a_walk_that_was_written_down_is_the_same_walk() -> None:
    world = walked("ledger", "two ranks", "faults", 3)
    assert isinstance(world, World)
    again = replayed("ledger", "two ranks", world.log)
    assert isinstance(again, World)
    assert again.log == world.log
    assert again.rows() == world.rows()
    assert again.ledger.canonical_hash() == world.ledger.canonical_hash()


WALKS = sorted((Path(__file__).parent / "walks").glob("*.txt"))


@pytest.mark.parametrize("path", WALKS, ids=lambda path: path.stem)
def test_a_walk_that_was_kept_breaks_no_law(path: Path) -> None:
    kind, scope, moves = read(path)
    world = replayed(kind, scope, moves)
    assert not isinstance(world, Failed), world
    assert moves[-1].startswith("rest"), "a walk that was kept goes on to its rest"


SEEN_AS: dict[Law, str] = {
    "no-draining": "L3.writer_place",
    "publish-before-commit": "L9.bytes",
    "timeout-frees": "L4.recorded",
    "no-condemned-keys": "L5.bad_keys",
    "end-at-first-failure": "L8.poison",
}
"""By break (`match-by-block` is a fault of a copier): the property by which some walk notices it."""
EXAMPLES = 2000


@pytest.mark.parametrize("law", SEEN_AS)
def test_a_broken_law_is_noticed(law: Law) -> None:
    """The walks can fail: over a mutated spec, one of them does."""
    broken = break_law(law)
    options = {"machines": broken.machines, "couplings": broken.couplings, "acts": broken.acts}
    found = first_failure("ledger", "two ranks", "loads", range(EXAMPLES), SEEN_AS[law], rounds=2, **options)
    assert found is not None, f"no walk of {EXAMPLES} breaks {SEEN_AS[law]} with {law}"


def test_a_failure_is_made_short() -> None:
    """A ledger that leaves nothing to a step breaks in few moves: a request, its blocks, a step, its end."""
    broken: dict[str, Any] = {"couplings": [row for row in World(0).ledger._couplings if row.effect != "adopt"]}
    found = first_failure("ledger", "one rank", "aborts", range(50), **broken)
    assert found is not None
    short = shortest("ledger", "one rank", found[1], **broken)
    assert len(short.walk) <= 4, short.walk
    assert short.walk[-1].split()[0] in ("abort", "preempt", "finish", "window", "rest"), short.walk
