"""What is stored at once: from the device into the first tier, and from there further down."""

from __future__ import annotations

import pytest

from kvstate.machines.config import PoolConfig
from kvstate.machines.messages import Work
from kvstate.machines.verdicts import JobVerdict
from tests.machines.hybrid import HYBRID
from tests.machines.rig import keys
from tests.tiering.rig import DEVICE, DISK, HOST, STORE, TierRig, tier


def test_what_is_sealed_goes_down_tier_by_tier() -> None:
    """The disk reads the host's blocks, so that the device's are free as soon as the host has them."""
    rig = TierRig(tier("host"), tier("disk"))
    rig.fill(1, 2)
    [store] = rig.works()
    assert (store.kind, store.src, store.dst, store.copier) == ("store", (0, 1), (8, 9), "cpu")
    rig.report(store)
    rig.hear()
    assert rig.state(0) == "cached"
    [demotion] = rig.works()
    assert (demotion.kind, demotion.src, demotion.dst, demotion.copier) == ("store", (8, 9), (16, 17), "disk")
    rig.report(demotion)
    rig.settle()
    assert (rig.has(1), rig.has(2)) == ([1, 2], [1, 2])
    assert rig.counted("host") == rig.counted("disk") == {"stored": 2}
    assert rig.ledger.rest() == []


def test_a_tier_that_is_off_is_fed_past() -> None:
    rig = TierRig(tier("host", "off"), tier("disk"))
    rig.fill(1, 2)
    [store] = rig.works()
    assert (store.src, store.dst) == ((0, 1), (16, 17))
    rig.settle()
    assert set(rig.tiering.counts) == {"disk"}


def test_without_tiers_nothing_is_stored() -> None:
    rig = TierRig()
    lease, refs = rig.sealed(1)
    assert rig.tiering.sealed(lease, refs) is None
    assert rig.tiering.turn() == 0
    assert rig.effects() == []


def test_an_empty_list_asks_for_nothing() -> None:
    rig = TierRig(tier("host"))
    assert rig.tiering.sealed(rig.open(), ()) is None
    assert rig.counted("host") == {}


def test_a_tier_below_that_is_written_back_waits() -> None:
    rig = TierRig(tier("host"), tier("disk", "back"))
    rig.fill(1, 2)
    rig.settle()
    assert (rig.has(1), rig.has(2)) == ([1, 2], [])


def test_deadlines_are_those_of_the_tiers() -> None:
    rig = TierRig(tier("host", store_for=2.0), tier("disk", store_for=3.0))
    rig.tick(1.0)
    rig.fill(1)
    [store] = rig.works()
    assert [job.deadline for job in rig.books.jobs.live()] == [3.0]
    rig.report(store)
    rig.hear()
    assert [job.deadline for job in rig.books.jobs.live()] == [4.0]
    rig.fill(2, deadline=7.0)
    assert sorted(job.deadline for job in rig.books.jobs.live()) == [4.0, 7.0]


# -- pressure ----------------------------------------------------------------------------------------------------------


def test_what_finds_no_room_in_flight_is_dropped_from_the_tail() -> None:
    rig = TierRig(tier("host", inflight_blocks=3))
    rig.fill(1, 2)
    rig.fill(3, 4)
    rig.fill(5)
    assert rig.counted("host") == {"in_flight": 3, "budget": 2}
    rig.settle()
    assert rig.has(1) == [1, 2, 3]
    assert rig.counted("host") == {"stored": 3, "budget": 2}
    rig.fill(6)
    rig.settle()
    assert rig.has(1) == [1, 2, 3, 6]


def test_a_slow_tier_does_not_keep_the_one_above_from_new_blocks() -> None:
    """The disk reads a quarter of the host at most. The rest can be evicted for what comes, and some of it is lost."""
    rig = TierRig(tier("host"), tier("disk"))
    rig.fill(1, 2, 3, 4, 5, 6, 7, 8)
    [store] = rig.works()
    rig.report(store)
    rig.hear()
    assert rig.counted("disk") == {"in_flight": 2, "budget": 6}
    rig.flush()
    rig.fill(11, 12, 13, 14, 15, 16)
    assert rig.counted("host") == {"in_flight": 6, "stored": 8, "lost": 6}


def test_what_is_there_already_takes_no_room_in_flight() -> None:
    rig = TierRig(tier("host", inflight_blocks=2))
    rig.fill(1, 2)
    rig.settle()
    lease = rig.open()
    hit = rig.lookup(lease, 1, 2)
    more = rig.allocate(lease, 2)
    rig.ledger.seal(lease, more, keys(3, 4))
    stored = rig.tiering.sealed(lease, [*hit.blocks, *more])
    assert stored is not None
    assert list(stored.refs) == list(more)
    assert rig.counted("host") == {"in_flight": 2, "stored": 2, "known": 2}


def test_what_was_condemned_there_is_not_there() -> None:
    rig = TierRig(tier("host", inflight_blocks=1))
    rig.fill(1)
    rig.settle()
    rig.flush()
    lease, _, _ = rig.bring(1, settle=False)
    rig.fails(rig.works(), "broken")
    rig.ledger.finish(lease)
    rig.fill(1, 2)
    assert rig.counted("host") == {"in_flight": 1, "stored": 1, "budget": 1}
    rig.settle()
    assert rig.has(1) == [1]


def test_a_store_that_fails_gives_its_room_back() -> None:
    rig = TierRig(tier("host", inflight_blocks=2), tier("disk"))
    rig.fill(1, 2)
    rig.fails(rig.works())
    assert rig.counted("host") == {"failed": 2}
    assert rig.works() == []
    rig.fill(3, 4)
    rig.settle()
    assert rig.has(1) == [3, 4]


def test_a_tier_that_is_full_drops_the_tail() -> None:
    """Nothing can be evicted there: a request has all of it pinned."""
    rig = TierRig(tier("host"), pools=(DEVICE, PoolConfig("host", 3)))
    rig.fill(1, 2)
    rig.settle()
    rig.flush()
    rig.lookup(rig.open(), 1, 2)
    rig.fill(3, 4, 5)
    assert rig.counted("host") == {"in_flight": 1, "stored": 2, "full": 2}
    rig.settle()
    rig.lookup(rig.open(), 3)
    rig.lookup(rig.open(), 3)
    rig.flush()
    assert rig.has(1) == [1, 2, 3]


def test_a_tier_without_any_room_drops_all() -> None:
    rig = TierRig(tier("host"), pools=(DEVICE, PoolConfig("host", 2)))
    rig.fill(1, 2)
    rig.settle()
    rig.flush()
    rig.lookup(rig.open(), 1, 2)
    assert rig.fill(3, 4)
    assert rig.counted("host") == {"stored": 2, "full": 2}


def test_what_is_no_block_of_a_key_is_unfit() -> None:
    rig = TierRig(tier("host"))
    lease, [named] = rig.sealed(1)
    [open_one] = rig.allocate(lease, 1)
    stale = named._replace(generation=named.generation - 1)
    stored = rig.tiering.sealed(lease, [open_one, stale, named, named])
    assert stored is not None
    assert list(stored.refs) == [named]
    assert rig.counted("host") == {"in_flight": 1, "unfit": 2, "known": 1}
    assert rig.tiering.sealed(lease, [open_one]) is None
    assert rig.counted("host") == {"in_flight": 1, "unfit": 3, "known": 1}


def test_a_lease_that_may_not_store() -> None:
    rig = TierRig(tier("host"), tier("disk"))
    lease, refs = rig.sealed(1, 2)
    rig.ledger.reset()
    assert rig.tiering.sealed(lease, refs) is None
    rig.ledger.finish(lease)
    assert rig.tiering.sealed(lease, refs) is None
    assert rig.counted("host") == {"refused": 4}


def test_a_ledger_that_drains_stores_no_further() -> None:
    rig = TierRig(tier("host"), tier("disk"))
    rig.fill(1, 2)
    [store] = rig.works()
    rig.report(store)
    rig.ledger.drain()
    rig.hear()
    assert rig.counted("disk") == {"refused": 2}
    assert rig.ledger.rest() == []


def test_a_poisoned_ledger_is_left_alone() -> None:
    rig = TierRig(tier("host"), tier("disk", "back", high=0.0, low=0.0))
    rig.fill(1)
    rig.settle()
    rig.books.queue = None  # anything that breaks it
    lease, refs = rig.sealed(2)
    rig.tiering.sealed(lease, refs)
    assert rig.ledger.fatal is not None
    assert rig.tiering.turn() == 0
    assert rig.tiering.sealed(lease, refs) is None


def test_what_is_closed_stores_nothing() -> None:
    rig = TierRig(tier("host"), tier("disk"))
    rig.fill(1)
    rig.tiering.close()
    rig.settle()
    assert rig.counted("disk") == {"closed": 1}
    rig.fill(2)
    assert rig.counted("host") == {"stored": 1, "closed": 1}
    assert rig.tiering.turn(flush=True) == 0
    rig.ledger.drain()
    assert rig.ledger.rest() == []


def test_verdicts_of_others_are_passed_over() -> None:
    rig = TierRig(tier("host"))
    lease, refs = rig.sealed(1)
    rig.offload(lease, refs)
    rig.finish_all()
    [verdict] = rig.verdicts()
    assert isinstance(verdict, JobVerdict)
    assert rig.tiering.told(verdict) is False


# -- groups, and an allocator of the engine's --------------------------------------------------------------------------


def test_groups_go_down_together() -> None:
    rig = TierRig(tier("host"), tier("disk", low=0.0), groups=HYBRID)
    lease = rig.open()
    refs = rig.allocate(lease, 3)
    rig.ledger.seal(lease, refs[:1], keys(1), group=0)
    rig.ledger.seal(lease, refs[1:], keys(1, 2), group=1)
    rig.tiering.sealed(lease, refs)
    rig.ledger.finish(lease)
    rig.settle()
    for pool in (1, 2):
        assert (rig.has(pool, space="full@a"), rig.has(pool, space="slide@a")) == ([1], [1, 2])
    assert rig.counted("disk") == {"stored": 3}


@pytest.mark.parametrize("groups", [(), HYBRID], ids=["one-list", "groups"])
def test_an_engine_gives_its_keys(groups: tuple[object, ...]) -> None:
    pools = (PoolConfig("device", 4, foreign=True), HOST, DISK)
    rig = TierRig(tier("host", inflight_blocks=2), tier("disk"), pools=pools, groups=groups)
    group, space = (1, "slide@a") if groups else (None, "a")
    lease = rig.open()
    given = rig.ledger.foreign_allocated([0, 1, 2])
    refs = given.refs  # type: ignore[union-attr]
    assert rig.tiering.sealed(lease, refs[:1], keys=keys(1), group=group)
    rig.settle()
    rig.tiering.sealed(lease, refs, keys=keys(1, 2, 3), group=group)
    assert rig.counted("host") == {"in_flight": 2, "stored": 1, "known": 1}
    rig.settle()
    assert rig.has(1, space=space) == rig.has(2, space=space) == [1, 2, 3]
    assert rig.tiering.sealed(lease, refs, keys=keys(1, 2, 3), group=group) is None
    assert rig.counted("host") == {"stored": 3, "known": 4}
    assert rig.tiering.sealed(lease, refs[:1], keys=(), group=group) is None
    assert rig.counted("host") == {"stored": 3, "known": 4, "unfit": 1}


def test_a_group_that_is_none_is_unfit() -> None:
    pools = (PoolConfig("device", 4, foreign=True), HOST)
    rig = TierRig(tier("host"), pools=pools, groups=HYBRID)
    given = rig.ledger.foreign_allocated([0])
    lease, refs = rig.open(), given.refs  # type: ignore[union-attr]
    for group in (None, 2):
        assert rig.tiering.sealed(lease, refs, keys=keys(1), group=group) is None
    assert rig.counted("host") == {"unfit": 2}


def test_four_tiers_in_a_row() -> None:
    rig = TierRig(tier("host"), tier("disk"), tier("store"), pools=(DEVICE, HOST, DISK, STORE))
    rig.fill(1, 2)
    sent: list[Work] = []
    while works := rig.works():
        sent += works
        for work in works:
            rig.report(work)
        rig.hear()
    assert [(work.kind, work.copier) for work in sent] == [
        ("store", "cpu"),
        ("store", "disk"),
        ("persist", "disk"),
        ("store", "net"),
        ("persist", "net"),
    ]
    assert rig.has(3) == [1, 2]
