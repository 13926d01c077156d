"""What is written back before it is evicted: when, what, how much, and what is lost where that is too late."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise

import pytest

from kvstate.errors import Code
from kvstate.machines import cold
from kvstate.machines.cold import coldest, name_of
from kvstate.machines.config import PoolConfig
from kvstate.machines.messages import BlockRef
from kvstate.machines.policy import LRU
from kvstate.machines.verdicts import Refusal
from kvstate.tiering import Tiering
from tests.machines.hybrid import HYBRID
from tests.machines.rig import failure, key, keys
from tests.tiering.rig import DEVICE, DISK, TierRig, tier


def back(**more: object) -> TierRig:
    """A host of 8 blocks, the coldest of which are written back when more than 4 are used, so that 6 could go."""
    settings = {"high": 0.5, "low": 0.25, "turn_blocks": 2, **more}
    return TierRig(tier("host"), tier("disk", "back", **settings), ledger={"policy": LRU})


def order(rig: TierRig, pool: int = 1) -> list[int]:
    """The numbers of the keys in this pool, the first to be evicted first."""
    blocks = chain.from_iterable(rig.books.pools[pool].evictable.victims(99))
    return [rig.books.keys.name(rig.books.keys.block_key[block]).key[0] for block in blocks]


def test_nothing_is_written_back_below_the_watermark() -> None:
    rig = back()
    rig.fill(1, 2, 3, 4)
    rig.settle(turn=True)
    assert rig.has(2) == []
    rig.fill(5)
    rig.settle()
    assert rig.tiering.turn() == 2


def test_the_coldest_go_first_a_few_at_a_time_and_down_to_the_low_mark() -> None:
    rig = back()
    rig.fill(1, 2, 3)
    rig.settle()
    rig.fill(4, 5, 6)
    rig.settle()
    coming = order(rig)
    done: list[int] = []
    while rig.tiering.turn():
        [store] = rig.works()
        assert store.copier == "disk"
        done += [key[0] for key in store.keys]
        rig.report(store)
        rig.settle()
    assert done == coming[:4]
    assert rig.has(2) == sorted(coming[:4])
    assert rig.counted("disk") == {"stored": 4, "written_back": 4}
    assert rig.ledger.rest() == []


def test_it_waits_for_what_is_on_its_way() -> None:
    rig = back(inflight_blocks=3)
    rig.fill(1, 2, 3, 4, 5, 6)
    rig.settle()
    assert [rig.tiering.turn() for _ in range(4)] == [2, 1, 0, 0]
    assert rig.counted("disk") == {"in_flight": 3, "written_back": 3}
    rig.settle()
    assert rig.tiering.turn() == 1


def test_a_slow_tier_does_not_take_the_whole_pool_above() -> None:
    """What is being read can't be evicted: two blocks are left to make room for what comes."""
    rig = back(turn_blocks=8)
    rig.fill(1, 2, 3, 4, 5, 6, 7, 8)
    rig.settle()
    assert [rig.tiering.turn() for _ in range(3)] == [6, 0, 0]
    rig.flush()
    rig.fill(11, 12)
    assert rig.counted("host") == {"in_flight": 2, "stored": 8, "lost": 2}
    rig = back(turn_blocks=8)
    rig.fill(1, 2, 3, 4, 5)
    rig.settle()
    assert [rig.tiering.turn() for _ in range(3)] == [3, 0, 0]


def test_what_is_below_already_is_not_written_again() -> None:
    rig = back()
    rig.on_disk(5, 6)
    rig.fill(1, 2, 3, 4, 5, 6)
    rig.settle(turn=True)
    assert rig.has(2) == [3, 4, 5, 6]
    assert rig.counted("disk") == {"stored": 2, "written_back": 2}


def test_what_was_condemned_below_is_written_again() -> None:
    rig = back(high=0.0, low=0.0)
    rig.on_disk(1)
    lease, _, _ = rig.bring(1, settle=False)
    rig.fails(rig.works(), "broken")
    rig.ledger.finish(lease)
    assert rig.key_state(1, 2) == "condemned"
    rig.fill(1)
    rig.settle(turn=True)
    assert (rig.has(1), rig.has(2)) == ([1], [1])


def test_what_is_evicted_first_is_lost() -> None:
    """With nobody who writes back, the bytes are gone with their block; what the disk has is not lost."""
    rig = back()
    rig.on_disk(1)
    rig.fill(1, 2, 3, 4, 5, 6, 7, 8)
    rig.settle()
    first = order(rig)[:3]
    assert 1 not in first
    rig.flush()
    rig.fill(11, 12, 13)
    assert rig.counted("host") == {"in_flight": 3, "stored": 8, "lost": 3}
    rig.settle()
    assert set(first).isdisjoint(rig.has(1))


def test_what_was_written_back_is_not_lost() -> None:
    rig = back(turn_blocks=6)
    rig.fill(1, 2, 3, 4, 5, 6, 7, 8)
    rig.settle(turn=True)
    rig.flush()
    rig.fill(11, 12, 13, 14, 15, 16)
    rig.settle(turn=True)
    assert rig.counted("host") == {"stored": 14}
    assert sorted({*rig.has(1), *rig.has(2)}) == [*range(1, 9), *range(11, 17)]


def test_of_a_last_tier_nothing_counts_as_lost() -> None:
    rig = TierRig(tier("host"), pools=(DEVICE, PoolConfig("host", 2)))
    rig.fill(1, 2)
    rig.settle()
    rig.fill(3, 4)
    rig.settle()
    assert rig.counted("host") == {"stored": 4}


def test_what_was_dropped_on_the_way_through_is_made_up_for() -> None:
    rig = TierRig(tier("host"), tier("disk", inflight_blocks=2, high=0.0, low=0.0))
    rig.fill(1, 2, 3)
    rig.settle()
    assert rig.counted("disk") == {"stored": 2, "budget": 1}
    rig.settle(turn=True)
    assert rig.has(2) == [1, 2, 3]
    assert rig.counted("disk") == {"stored": 3, "written_back": 1, "budget": 1}


def test_what_the_device_could_not_store_is_not_made_up_for() -> None:
    rig = TierRig(tier("host", inflight_blocks=2, high=0.0, low=0.0))
    rig.fill(1, 2, 3)
    rig.settle(turn=True)
    assert rig.has(1) == [1, 2]


def test_the_device_can_be_written_back() -> None:
    """Nothing is copied before the device is full, and then what it would evict first."""
    rig = TierRig(tier("host", "back", high=0.5, low=0.25), ledger={"policy": LRU})
    lease, refs = rig.sealed(1, 2, 3, 4)
    assert rig.tiering.sealed(lease, refs) is None
    assert rig.tiering.turn() == 0
    more = rig.allocate(lease, 2)
    assert rig.tiering.turn() == 0  # of those none could be evicted
    rig.ledger.seal(lease, more, keys(5, 6))
    rig.ledger.finish(lease)
    coming = order(rig, 0)
    assert rig.tiering.turn() == 4
    rig.settle(turn=True)
    assert rig.has(1) == sorted(coming[:4])


def test_namespaces_and_groups_go_by_themselves() -> None:
    rig = TierRig(tier("host"), tier("disk", "back", high=0.0, low=0.0), groups=HYBRID)
    for space in ("a", "b@c"):
        lease = rig.open(space)
        refs = rig.allocate(lease, 2)
        rig.ledger.seal(lease, refs[:1], keys(1), group=0)
        rig.ledger.seal(lease, refs[1:], keys(1), group=1)
        rig.tiering.sealed(lease, refs)
        rig.ledger.finish(lease)
    rig.settle(turn=True)
    assert rig.counted("disk") == {"stored": 4, "written_back": 4}
    assert [rig.has(2, space=one) for one in ("full@a", "slide@a", "full@b@c", "slide@b@c")] == [[1]] * 4


def test_a_flush_leaves_nothing_that_only_the_host_has() -> None:
    rig = back(turn_blocks=3)
    rig.fill(1, 2, 3, 4)
    rig.settle()
    assert rig.tiering.turn() == 0
    begun = []
    while count := rig.tiering.turn(flush=True):
        begun.append(count)
        rig.settle()
    assert begun == [3, 1]
    assert rig.has(2) == [1, 2, 3, 4]


def test_a_tier_that_is_smaller_than_what_it_is_fed_is_not_written_round_and_round() -> None:
    pools = DEVICE, PoolConfig("host", 12), PoolConfig("disk", 4, copier="disk")
    rig = TierRig(tier("host"), tier("disk", high=0.0, low=0.0), pools=pools, ledger={"policy": LRU})
    for number in range(1, 13, 3):
        rig.fill(number, number + 1, number + 2)
        rig.settle()
    turns = 0
    while rig.tiering.turn():
        rig.settle()
        turns += 1
        assert turns < 20, "each block drives out another that is as cold"
    assert set(order(rig)[:2]) <= set(rig.has(2)), "what goes first is there"


# -- a reset, a failure ------------------------------------------------------------------------------------------------


def test_a_reset_in_the_middle_leaves_nothing_behind() -> None:
    rig = back()
    rig.fill(1, 2, 3, 4, 5, 6)
    rig.settle()
    assert rig.tiering.turn() == 2
    works = rig.works()
    rig.ledger.reset()
    rig.settle()
    rig.finish_all_of(works)
    rig.settle(turn=True)
    assert rig.counted("disk") == {"failed": 2, "written_back": 2}
    assert (rig.has(1), rig.has(2)) == ([], [])
    assert rig.ledger.rest() == []
    rig.fill(7, 8, 9, 10, 11)
    rig.settle()
    assert rig.tiering.turn() == 2


def test_a_source_that_is_condemned_meanwhile_goes_on_no_further() -> None:
    """The host's bytes were found bad while the disk was given them: the copier refuses what differs from its seal."""
    rig = TierRig(
        tier("host"), tier("disk", "back", high=0.0, low=0.0), pools=(DEVICE, PoolConfig("host", 8, verify=True), DISK)
    )
    rig.fill(1, 2)
    rig.settle()
    rig.flush()
    rig.tiering.turn()
    [demotion] = rig.works()
    rig.bring(1, 2, settle=False)
    [fetch] = rig.works()
    rig.report(fetch)
    [verify] = rig.works()
    rig.report(verify, "broken", failure(Code.CRC_MISMATCH, 0))
    rig.hear()
    assert rig.key_state(1) == "condemned"
    rig.report(demotion, "broken", failure(Code.CRC_MISMATCH, 0))
    rig.hear()
    rig.tick(9.0)
    rig.settle(turn=True)
    assert (rig.has(1), rig.has(2)) == ([2], [2])
    assert name_of(rig.ledger, BlockRef(8, 0)) is None


def test_a_block_that_can_not_be_stored_does_not_keep_the_others_back() -> None:
    """Fewer go together after each failure, until the one that is to blame is alone; then it is left out."""
    rig = TierRig(
        tier("host"), tier("disk", "back", high=0.0, low=0.0, turn_blocks=4), attempts=1, ledger={"policy": LRU}
    )
    rig.fill(1, 2, 3, 4, 5, 6)
    rig.settle()
    bad, tries = key(order(rig)[1]), []
    for now in range(1, 40):
        rig.tick(10.0 * now)
        if rig.tiering.turn():
            works = rig.works()
            tries.append(len(works[0].keys))
            rig.fails(works, "denied" if bad in works[0].keys else "done")
            rig.settle()
    assert rig.has(2) == sorted(number for number in range(1, 7) if key(number) != bad)
    assert tries[:4] == [4, 2, 1, 2]
    assert len(tries) < 12


def test_after_an_outage_no_block_is_blamed_for_it() -> None:
    rig = TierRig(tier("host"), tier("disk", "back", high=0.0, low=0.0), attempts=1)
    rig.fill(1, 2, 3, 4)
    rig.settle()
    for now in range(1, 10):  # fewer at a time, and then one after the other, until all have failed
        rig.tick(10.0 * now)
        rig.tiering.turn()
        rig.fails(rig.works())
    assert rig.tiering.turn() == 0
    rig.fill(5)
    rig.settle()
    rig.tick(200.0)
    rig.settle(turn=True)
    assert rig.has(2) == [1, 2, 3, 4, 5]


def test_a_namespace_that_may_not_be_opened_does_not_keep_the_others_back() -> None:
    """As that of objects which an earlier process left, where this one serves others."""
    rig = TierRig(tier("host"), ledger={"policy": LRU})
    rig.fill(1, 2, space="b")
    rig.settle()
    rig.fill(3, 4)
    rig.settle()

    class Strict:
        offload, finish = staticmethod(rig.ledger.offload), staticmethod(rig.ledger.finish)

        def open(self, namespace: str) -> int | Refusal:
            return rig.ledger.open(namespace) if namespace == "a" else Refusal("there is no such namespace here")

    tiers = (tier("host"), tier("disk", "back", high=0.0, low=0.0, turn_blocks=2))
    tiering = Tiering(rig.ledger, tiers, Strict())
    assert [tiering.turn(), tiering.turn()] == [0, 2]
    rig.finish_all()
    assert (rig.has(2, space="b"), rig.has(2)) == ([], [3, 4])


def test_a_tier_that_fails_is_given_a_pause_that_grows() -> None:
    rig = TierRig(tier("host"), tier("disk", "back", high=0.0, low=0.0), attempts=1)
    rig.fill(1, 2, 3, 4)
    rig.settle()
    tried, now = [], 0.0
    while now < 15.0:
        rig.tick(now)
        if rig.tiering.turn():
            tried.append(now)
            rig.fails(rig.works())
        now += 0.05
    waits = [later - earlier for earlier, later in pairwise(tried)]
    assert len(tried) > 5
    assert all(later >= 1.4 * earlier for earlier, later in pairwise(waits) if later < 4.9)
    assert max(waits) <= 5.1


# -- what it costs -----------------------------------------------------------------------------------------------------


def test_a_clean_pool_is_not_looked_through_every_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def counted(ledger: object, pool: int, most: int, look: object = cold._next_to_go) -> Iterator[int]:
        looked.append(most)
        yield from look(ledger, pool, most)  # type: ignore[operator]

    monkeypatch.setattr(cold, "_next_to_go", counted)
    pools = (PoolConfig("device", 80), PoolConfig("host", 80), PoolConfig("disk", 200, copier="disk"))
    rig = TierRig(tier("host"), tier("disk", "back", high=0.5, low=0.2, turn_blocks=4), pools=pools)
    rig.fill(*range(1, 81))
    rig.settle(turn=True)
    assert rig.counted("disk")["written_back"] == 64
    del looked[:]
    assert [rig.tiering.turn() for _ in range(5)] == [0] * 5
    assert looked == [8] * 5  # what goes next, and no more
    rig.fill(*range(81, 89))  # an eighth of what was looked at
    rig.settle()
    del looked[:]
    assert rig.tiering.turn() > 0
    assert looked == [64]


def test_a_clean_pool_is_looked_through_again_after_a_failure() -> None:
    """What failed lies far behind what goes next."""
    pools = (PoolConfig("device", 80), PoolConfig("host", 80), PoolConfig("disk", 200, copier="disk"))
    rig = TierRig(tier("host"), tier("disk", "back", high=0.5, low=0.5, turn_blocks=4), pools=pools, attempts=1)
    rig.fill(*range(1, 81))
    rig.settle()
    assert [rig.tiering.turn() for _ in range(11)] == [4] * 10 + [0]
    *good, last = rig.works()
    rig.finish_all_of(good)
    rig.hear()
    assert rig.tiering.turn() == 0
    rig.fails([last])
    rig.tick(1.0)
    assert rig.tiering.turn() == 2


def test_what_would_go_next_is_bounded_and_asks_nothing_of_the_pool() -> None:
    rig = back()
    rig.fill(1, 2, 3, 4, 5, 6)
    rig.settle()
    before = rig.shape()
    found = coldest(rig.ledger, 1, 3, among=6)
    assert [name_of(rig.ledger, ref).key[0] for ref in found.refs] == order(rig)[:3]  # type: ignore[union-attr]
    assert found.spaces == ("a",) * 3
    assert len(coldest(rig.ledger, 1, 9, among=2).refs) == 2
    but = {found.refs[0]}
    assert list(coldest(rig.ledger, 1, 9, among=2, but=but).refs) == [found.refs[1]]
    for pool, count, among in ((1, 0, 9), (1, 9, 0), (-1, 9, 9), (3, 9, 9)):
        assert not coldest(rig.ledger, pool, count, among=among).refs
    assert rig.shape() == before


def test_a_block_that_a_copy_reads_is_passed_over() -> None:
    rig = back()
    rig.fill(1, 2, 3)
    rig.settle()
    rig.flush()
    lease, hit, _ = rig.bring(1, settle=False)
    rig.ledger.abort(lease)  # the fetch goes on, and reads the block that nobody has pinned any more
    assert rig.state(hit.blocks[0].block) == "cached"
    assert hit.blocks[0] not in coldest(rig.ledger, 1, 9, among=9).refs
    assert len(coldest(rig.ledger, 1, 9, among=9).refs) == 2
