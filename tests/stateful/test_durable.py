"""Walks with a pool that outlives the process, which is killed now and then and begins again with what it finds."""

from __future__ import annotations

from collections import Counter

import pytest

from kvstate.machines.messages import Kind, Token
from tests.long import checkered, long_but
from tests.stateful.base import Content
from tests.stateful.disk import Disk
from tests.stateful.durable_world import DURABLE_SCOPES, DurableWorld
from tests.stateful.machines import run
from tests.stateful.search import Failed, walked
from tests.stateful.world import MIXES


@pytest.mark.parametrize("seed", long_but([0], range(2)))
@pytest.mark.parametrize(("scope", "mix"), checkered(DURABLE_SCOPES, MIXES))
def test_a_walk_breaks_no_law_and_comes_home(scope: str, mix: str, seed: int) -> None:
    world = walked("durable", scope, mix, seed)
    assert not isinstance(world, Failed), world


@pytest.mark.parametrize("scope", long_but(list(DURABLE_SCOPES)[:1], DURABLE_SCOPES))
def test_walks_get_somewhere(scope: str) -> None:
    """Objects are made, found again, loaded, swept and found bad; without that a walk shows nothing."""
    seen: Counter[str] = Counter()
    for seed in range(4):
        for mix in ("loads", "reuse", "stores", "faults"):
            world = DurableWorld(seed, DURABLE_SCOPES[scope])
            for _ in range(5):
                world.round(25, mix)
            seen.update(kills=world.kills, things=world.things, recovered=world.recovered, bad=len(world.found_bad))
            seen.update(loaded=world.loaded, demoted=world.demoted, swept=world.swept)
    if scope == "a disk alone":
        assert seen.pop("demoted") == 0, "there is nothing between device and disk"
    if scope == "a small disk":
        del seen["bad"]  # of two slots one hardly ever goes bad before it is written anew
    assert min(seen.values()) >= 1, f"the walks hardly got anywhere: {seen}"


@pytest.mark.parametrize("scope", ["a disk", "a disk on two ranks"])
def test_hypothesis_finds_nothing(scope: str) -> None:
    run(DurableWorld, DURABLE_SCOPES[scope], "reuse", 8, 40)


# -- the model of who keeps the objects, by hand -----------------------------------------------------------------------

ONE, TWO = Content("a", b"1", 0), Content("a", b"2", 0)
NAME = ("a", b"1")


def test_an_object_outlives_its_process_and_what_a_slot_holds_does_not() -> None:
    disk = Disk()
    disk.store(0, ONE)
    assert disk.scan() == [], "what has no name can not be found"
    assert disk.persist(0, NAME, Token(1, 5), hidden=1)
    assert disk.fetch(0, NAME) == ONE
    disk.restart()
    assert (disk.scan(), disk.fetch(0, NAME)) == ([NAME], None)
    disk.adopt(3, NAME, newest=0)
    assert disk.fetch(3, NAME) == ONE


def test_the_newest_persist_of_a_name_keeps_it_and_an_undo_is_of_one_alone() -> None:
    disk = Disk()
    disk.store(0, ONE)
    disk.store(1, ONE)
    assert disk.persist(1, NAME, Token(1, 7), hidden=1)
    assert disk.persist(0, NAME, Token(1, 5), hidden=2), "it is answered as if it had been done"
    disk.undo(Token(1, 5), [NAME])
    assert disk.fetch(1, NAME) == ONE


def test_what_was_begun_before_a_sweep_never_becomes_visible() -> None:
    disk = Disk()
    disk.store(0, ONE)
    disk.sweep(newest=5, everything=True)
    assert not disk.persist(0, NAME, Token(1, 5), hidden=1)
    disk.store(1, TWO)
    assert disk.persist(1, ("a", b"2"), Token(1, 6), hidden=2)
    assert disk.scan() == [("a", b"2")]


def test_who_finds_anothers_object_removes_it() -> None:
    disk = Disk()
    disk.store(0, ONE)
    disk.persist(0, NAME, Token(1, 5), hidden=1)
    assert disk.fetch(0, ("b", b"1")) is None
    assert disk.scan() == []


def test_a_persist_that_a_sweep_made_void_is_answered_as_stopped() -> None:
    """The job is over by then; what it had begun is neither visible nor called done."""
    for seed in range(200):
        world = DurableWorld(seed, DURABLE_SCOPES["a disk alone"])
        for name in ("make_durable", "reset"):
            world.move(name)
        persists = [flight for flight in world.flights if flight.work.kind == Kind.PERSIST]
        if persists and world.epoch:
            world.land_fully(persists[0])
            world.answer(persists[0])
            world.check()
            assert not any(disk.things for disk in world.disks)
            assert world.voided
            return
    pytest.fail("no walk resets while something is being made durable")
