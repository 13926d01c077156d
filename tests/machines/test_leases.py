"""Leases: what a lookup finds and pins, what sealing publishes, what letting go gives back, and who is evicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import pytest

from kvstate.machines.config import PoolConfig
from kvstate.machines.messages import BlockRef
from kvstate.machines.policy import LRU, Marks
from kvstate.machines.verdicts import Closed, Hit, Short
from tests.machines.rig import Rig, key, keys

MISS = ((), (), 0, False)


def found(hit: Hit) -> object:
    return hit.keys, hit.below, hit.tokens, hit.pending


# -- looking up --------------------------------------------------------------------------------------------------------


def test_a_lookup_ends_at_the_first_hole(rig: Rig) -> None:
    _, refs = rig.sealed(1, 3)
    hit = rig.lookup(rig.open(), 1, 2, 3)
    assert found(hit) == ((key(1),), (), 16, False)
    assert hit.blocks == refs[:1]
    assert rig.column("block", "owners")[refs[1].block] == 1, "what lies behind the hole is not pinned"


def test_a_key_is_found_in_the_nearest_tier(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(pools=(PoolConfig("device", 4), PoolConfig("host", 4), PoolConfig("disk", 4)))
    lease, refs = rig.sealed(1, 2)
    rig.offload(lease, refs, pool=2)
    rig.offload(lease, refs[1:], pool=1)
    rig.finish_all()
    rig.ledger.finish(lease)
    rig.flush()
    hit = rig.lookup(rig.open(), 1, 2)
    assert [rig.books.pool_of[ref.block] for ref in hit.blocks] == [2, 1]
    assert hit.below == (0, 1)


def test_a_key_counts_only_once_in_a_prefix(rig: Rig) -> None:
    """A key stands for all that comes before it; twice in one prefix is a slip, and the shorter hit is the safe one."""
    rig.below(1)
    lease = rig.open()
    hit = rig.lookup(lease, 1, 1)
    assert found(hit) == ((key(1),), (0,), 16, False)
    load, _ = rig.load(lease, hit)
    rig.finish_all()
    verdict = rig.verdict()
    assert (verdict.load, verdict.ending, verdict.blocks) == (load, "proceed", 1)


def test_one_key_in_two_namespaces_is_two_keys(rig: Rig) -> None:
    """L9: the caches of two tenants never meet, whatever happens to one of them."""
    lease, [a] = rig.sealed(1, space="a")
    other, [b] = rig.sealed(1, space="b")
    assert a != b
    assert rig.lookup(rig.open("a"), 1).blocks == (a,)
    assert rig.lookup(rig.open("b"), 1).blocks == (b,)
    assert found(rig.lookup(rig.open("c"), 1)) == MISS
    rig.offload(lease, [a])
    rig.offload(other, [b])
    assert [rig.key_state(1, space=space) for space in "abc"] == ["writing", "writing", "absent"]
    first, second = rig.works()
    rig.report(first, "broken")
    rig.report(second)
    assert [rig.key_state(1, space=space) for space in "ab"] == ["absent", "ready"]


def test_what_a_lease_has_is_not_pinned_again(rig: Rig) -> None:
    rig.below(2)
    lease, [a] = rig.sealed(1)
    hit = rig.lookup(lease, 1, 2)
    assert hit.pinned == (hit.blocks[1].block,)
    again = rig.lookup(lease, 1, 2)
    assert again.blocks == hit.blocks
    assert again.pinned == ()
    assert rig.column("block", "owners")[a.block] == 1


def test_an_old_lease_finds_nothing(rig: Rig) -> None:
    rig.below(1)
    old = rig.open()
    rig.ledger.reset()
    rig.below(1)
    assert found(rig.lookup(old, 1)) == MISS
    assert rig.lookup(rig.open(), 1)


def test_a_key_that_is_being_loaded_is_waited_for_and_then_is_a_miss(make_rig: Callable[..., Rig]) -> None:
    """I10: the wait ends by the clock, from the first time that it was asked; nothing is pinned meanwhile."""
    rig = make_rig(pending_for=2.0)
    rig.below(1, 2)
    lease, other = rig.open(), rig.open()
    rig.load(lease, rig.lookup(lease, 1, 2))
    before = rig.column("block", "owners")
    hit = rig.lookup(other, 1, 2)
    assert hit.pending
    assert not hit
    rig.tick(1.9)
    assert rig.lookup(other, 1, 2).pending
    assert rig.column("block", "owners") == before
    rig.tick(2.0)
    assert found(rig.lookup(other, 1, 2)) == MISS
    rig.finish_all()
    hit = rig.lookup(other, 1, 2)
    assert (hit.tokens, hit.below) == (32, ())


def test_a_wait_for_a_load_ends_with_the_load(rig: Rig) -> None:
    """The next load of that key is a new wait, with a clock of its own."""
    rig.below(1)
    lease, other = rig.open(), rig.open()
    load, _ = rig.load(lease, rig.lookup(lease, 1))
    assert rig.lookup(other, 1).pending
    rig.tick(0.9)
    rig.ledger.cancel(load)
    assert not rig.lookup(other, 1).pending
    assert rig.books.pending_since == {}
    rig.finish_all()
    rig.tick(5.0)
    third = rig.open()
    rig.load(third, rig.lookup(third, 1), deadline=9.0)
    assert rig.lookup(other, 1).pending


def test_what_two_load_is_waited_for_until_the_first_is_over(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(pending_for=0.0)
    rig.below(1)
    one, two = rig.open(), rig.open()
    hits = [rig.lookup(lease, 1) for lease in (one, two)]
    for lease, hit in zip((one, two), hits, strict=True):
        rig.load(lease, hit)
    first, second = rig.works()
    rig.report(second)
    assert rig.books.loading, "it is the first load that the others wait for"
    rig.report(first)
    assert rig.books.loading == {}
    assert [verdict.ending for verdict in rig.verdicts()[::2]] == ["proceed", "proceed"]  # type: ignore[union-attr]
    assert rig.column("block", "published")[:2].count(1) == 1, "the second to come stays private"


# -- giving a hit back -------------------------------------------------------------------------------------------------


def test_unpin_gives_back_what_that_lookup_pinned_and_no_more(rig: Rig) -> None:
    rig.below(3)
    mine, [a] = rig.sealed(1)
    _, [b] = rig.sealed(2)
    hit = rig.lookup(mine, 1, 2, 3)
    c = hit.blocks[2]
    assert hit.pinned == (b.block, c.block)
    owners = rig.column("block", "owners")
    assert [owners[ref.block] for ref in (a, b, c)] == [1, 2, 1]
    assert rig.ledger.unpin(hit) is True
    owners = rig.column("block", "owners")
    assert [owners[ref.block] for ref in (a, b, c)] == [1, 1, 0]
    assert rig.state(c.block) == "cached"
    before = rig.shape()
    assert rig.ledger.unpin(hit) is True, "a second time there is nothing to give back"
    assert rig.shape() == before


def test_unpin_leaves_what_a_load_has_taken_over(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    rig.below(1)
    lease = rig.open()
    hit = rig.lookup(lease, 1)
    rig.load(lease, hit)
    before = rig.shape()
    assert rig.ledger.unpin(hit) is True
    assert rig.shape() == before
    rig.finish_all()
    assert rig.state(hit.blocks[0].block) == "cached"


def test_unpin_leaves_a_later_life_of_the_block_alone(rig: Rig) -> None:
    _, [a] = rig.sealed(1)
    lease = rig.open()
    hit = rig.lookup(lease, 1)
    stale = Hit(lease, (BlockRef(a.block, a.generation - 1),), hit.keys, (), 16, hit.pinned)
    before = rig.shape()
    assert rig.ledger.unpin(stale) is True
    assert rig.shape() == before


# -- sealing -----------------------------------------------------------------------------------------------------------


def test_a_second_block_of_a_key_stays_private(rig: Rig) -> None:
    first, [a] = rig.sealed(1)
    lease = rig.open()
    b, c, d = rig.allocate(lease, 3)
    assert rig.ledger.seal(lease, [b, c, d], keys(1, 2, 2)) == (False, True, False)
    assert rig.lookup(rig.open(), 1, 2).blocks == (a, c)
    assert rig.ledger.finish(lease) == Closed(free=2, cached=0, draining=0, quarantined=0), "private blocks are freed"
    assert rig.ledger.finish(first) == Closed(0, 0, 0, 0), "the lookup shares it"


def test_what_is_sealed_after_a_reset_stays_private(rig: Rig) -> None:
    lease = rig.open()
    refs = rig.allocate(lease, 2)
    rig.ledger.seal(lease, refs[:1], keys(1))
    assert rig.ledger.reset() == 1
    assert rig.ledger.seal(lease, refs[1:], keys(2)) == (False,)
    assert found(rig.lookup(rig.open(), 1)) == MISS
    assert [rig.state(ref.block) for ref in refs] == ["active", "active"]
    assert rig.ledger.finish(lease) == Closed(2, 0, 0, 0)


# -- letting go --------------------------------------------------------------------------------------------------------


def test_a_window_that_moves_gives_blocks_back_while_the_lease_lives_on(rig: Rig) -> None:
    lease, (a, b) = rig.sealed(1, 2)
    [c] = rig.allocate(lease, 1)
    assert rig.ledger.release(lease, [a, c, a]) == Closed(free=1, cached=1, draining=0, quarantined=0)
    assert [rig.state(ref.block) for ref in (a, b, c)] == ["cached", "active", "free"]
    rig.refuses(lambda: rig.ledger.release(lease, [a]), "does not belong to lease")
    assert rig.ledger.finish(lease) == Closed(0, 1, 0, 0)


def test_a_window_that_moves_under_a_load_leaves_the_load_alone(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(batch_blocks=1)
    rig.below(1, 2)
    lease, [old] = rig.sealed(3)
    load, (first, second) = rig.load(lease, rig.lookup(lease, 1, 2))
    assert rig.ledger.release(lease, [old])
    rig.report(rig.works()[0])
    rig.refuses(lambda: rig.ledger.release(lease, [second]), "is being loaded")
    assert rig.ledger.release(lease, [first]), "its batch is over"
    assert rig.load_state(load) == "waiting"


def test_letting_go_says_what_drains_and_what_is_held(rig: Rig) -> None:
    """L11: preempting says how many blocks are free now, how many come by themselves, and how many need a proof."""
    lease, (a, b, c) = rig.sealed(1, 2, 3)
    rig.offload(lease, [a, b])
    [work] = rig.works()
    rig.ledger.release(lease, [c])
    rig.report(work, "timeout")
    assert rig.ledger.preempt(lease) == Closed(free=0, cached=0, draining=0, quarantined=2), "read by a lost copy alone"
    lease, [d] = rig.sealed(4)
    rig.offload(lease, [d])
    assert rig.ledger.preempt(lease) == Closed(free=0, cached=0, draining=1, quarantined=0), "cached, and still read"
    rig.finish_all()
    assert rig.state(d.block) == "cached"
    rig.report(work)
    assert [rig.state(ref.block) for ref in (a, b)] == ["cached"] * 2


# -- who is evicted ----------------------------------------------------------------------------------------------------


def test_of_one_prompt_the_tail_is_evicted_first_and_of_two_the_older(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(device=4)
    one, _ = rig.sealed(1, 2)
    two, _ = rig.sealed(3, 4)
    rig.ledger.finish(one)
    rig.ledger.finish(two)
    gone = []
    lease = rig.open()
    for _ in range(4):
        before = {number for number in range(1, 5) if rig.key_state(number, pool=0) == "ready"}
        rig.allocate(lease, 1)
        gone += [number for number in before if rig.key_state(number, pool=0) == "absent"]
    assert gone == [2, 1, 4, 3]


def test_below_the_device_the_tail_is_evicted_first_too(make_rig: Callable[..., Rig]) -> None:
    """After the store that brought it, and again after a load that used it."""
    rig = make_rig(device=6, host=3, ledger={"policy": LRU})
    rig.below(1, 2, 3)
    pool = rig.books.pools[1]
    stored = [
        rig.books.keys.name(rig.books.keys.block_key[block])[2]
        for block in chain.from_iterable(pool.evictable.victims(3))
    ]
    assert stored == keys(3, 2, 1)
    lease = rig.open()
    rig.load(lease, rig.lookup(lease, 1, 2))
    rig.finish_all()
    loaded = [
        rig.books.keys.name(rig.books.keys.block_key[block])[2]
        for block in chain.from_iterable(pool.evictable.victims(3))
    ]
    assert loaded == keys(3, 2, 1)


class HighestFirst:
    """A policy of an embedder's own."""

    def __init__(self, blocks: range, marks: Marks) -> None:
        self.range, self.marks = blocks, marks
        self.blocks: set[int] = set()

    def cached(self, blocks: Sequence[int], turn: int) -> None:
        assert set(blocks) <= set(self.range), "only the blocks of its own pool"
        self.blocks.update(blocks)

    def hit(self, blocks: Sequence[int]) -> None:
        self.blocks.difference_update(blocks)

    def gone(self, blocks: Sequence[int]) -> None:
        assert len(self.marks(blocks)) == len(blocks)
        self.blocks.difference_update(blocks)

    def memory(self) -> None:
        """The blocks are all."""

    def victims(self, wanted: int) -> Iterator[Sequence[int]]:
        return iter([sorted(self.blocks, reverse=True)])

    def __len__(self) -> int:
        return len(self.blocks)


def test_the_policy_is_the_embedder_s_to_choose(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(device=3, ledger={"policy": HighestFirst})
    lease, refs = rig.sealed(1, 2, 3)
    rig.ledger.finish(lease)
    other = rig.open()
    taken = [rig.allocate(other, 1)[0].block for _ in range(3)]
    assert taken == sorted((ref.block for ref in refs), reverse=True)


def test_a_policy_chooses_and_the_ledger_asks_the_machine(make_rig: Callable[..., Rig]) -> None:
    """The policy would evict a block that is being read; it stays, and the next one goes."""
    rig = make_rig(device=2, ledger={"policy": HighestFirst})
    lease, refs = rig.sealed(1, 2)
    low, high = sorted(refs)
    rig.offload(lease, [high])
    rig.ledger.finish(lease)
    other = rig.open()
    assert rig.ledger.allocate(other, 2) == Short(wanted=2, free=1, draining=1, quarantined=0)
    assert [ref.block for ref in rig.allocate(other, 1)] == [low.block]
    rig.finish_all()
    assert [ref.block for ref in rig.allocate(other, 1)] == [high.block]


@pytest.mark.parametrize("ending", ["finish", "abort", "preempt"])
def test_a_closed_lease_leaves_nothing_behind(rig: Rig, ending: str) -> None:
    """Owned, shared, pinned, loading: the one path gives all of it back."""
    rig.below(1, 2)
    _, [shared] = rig.sealed(3)
    lease = rig.open()
    rig.load(lease, rig.lookup(lease, 1))
    rig.lookup(lease, 3)
    pinned = rig.lookup(lease, 2)
    assert getattr(rig.ledger, ending)(lease)
    assert rig.column("block", "owners")[shared.block] == 1
    assert rig.state(pinned.blocks[0].block) == "cached"
    rig.finish_all()
    assert rig.ledger.rest() == [f"lease {min(rig.books.leases)} is open"]
