"""Durable pools: what was found is taken in, what is void is swept, and a tier is filled from the one above it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvstate.machines.config import GroupConfig, GroupKind, PoolConfig
from kvstate.machines.messages import Adopt, BlockRef, Cancel, Effect, Kind, Sweep, Undo, Work
from kvstate.machines.ranks import rank_lost
from kvstate.machines.verdicts import Recovered, Short
from tests.machines.rig import SPACE, Rig, key, keys

THREE = (
    PoolConfig("device", 4),
    PoolConfig("host", 4),
    PoolConfig("disk", 3, durable=True, copier="disk"),
)


@pytest.fixture
def rig(make_rig: Callable[..., Rig]) -> Rig:
    return make_rig(pools=THREE)


def recover(rig: Rig, *numbers: int, pool: int = 2) -> Recovered:
    taken = rig.ledger.recover(pool, [(SPACE, key(number)) for number in numbers])
    assert isinstance(taken, Recovered), taken
    return taken


def kept(effects: list[Effect]) -> list[Any]:
    return [effect for effect in effects if isinstance(effect, Adopt | Sweep | Undo)]


# --- A start --------------------------------------------------------------------------------------------------------


def test_what_was_found_is_a_hit(rig: Rig) -> None:
    taken = recover(rig, 1, 2)
    assert taken.lines == (0, 1)
    assert kept(rig.effects()) == [
        Adopt(0, "disk", tuple(ref.block for ref in taken.refs), (SPACE, SPACE), (key(1), key(2))),
        Sweep(0, "disk", everything=False),
    ]
    assert [rig.state(ref.block) for ref in taken.refs] == ["cached", "cached"]
    lease = rig.open()
    hit = rig.lookup(lease, 1, 2)
    assert (hit.tokens, hit.below, hit.blocks) == (32, (0, 1), taken.refs)
    rig.load(lease, hit)
    [work] = rig.works()
    assert (work.kind, work.copier, work.src) == (Kind.FETCH, "disk", tuple(ref.block for ref in taken.refs))
    assert [work.space(line) for line in range(2)] == [SPACE, SPACE]
    rig.finish_all_of([work])
    assert rig.verdict().tokens == 32


def test_only_in_its_own_space(rig: Rig) -> None:
    recover(rig, 1)
    assert rig.lookup(rig.open("b"), 1).tokens == 0


def test_the_newest_find_room_and_the_oldest_of_these_leaves_first(rig: Rig) -> None:
    taken = recover(rig, 1, 2, 3, 4, 5)
    assert taken.lines == (2, 3, 4)
    lease, refs = rig.sealed(6)
    rig.offload(lease, refs, pool=2)
    assert [rig.key_state(number, pool=2) for number in (3, 4, 5, 6)] == ["absent", "ready", "ready", "writing"]


def test_what_is_on_record_or_listed_twice_is_passed_over(rig: Rig) -> None:
    recover(rig, 1)
    rig.effects()
    taken = rig.ledger.recover(2, [(SPACE, key(1)), (SPACE, key(2)), (SPACE, key(2)), ("b", key(2))])
    assert isinstance(taken, Recovered)
    assert taken.lines == (2, 3), "of what is listed twice the later place counts: it is the younger"
    [adopt, _] = kept(rig.effects())
    assert list(zip(adopt.spaces, adopt.keys, strict=True)) == [(SPACE, key(2)), ("b", key(2))]


def test_nothing_found_is_still_a_sweep(rig: Rig) -> None:
    assert recover(rig) == Recovered(rig.books.refs(rig.books.holder[:0]), ())
    assert kept(rig.effects()) == [Sweep(0, "disk", everything=False)]


def test_a_condemned_key_may_come_back_whole(rig: Rig) -> None:
    recover(rig, 1)
    lease = rig.open()
    rig.load(lease, rig.lookup(lease, 1))
    [work] = rig.works()
    rig.report(work, "broken")
    assert rig.key_state(1, pool=2) == "condemned"
    assert recover(rig, 1).lines == (0,)
    assert rig.key_state(1, pool=2) == "ready"


def test_every_rank_is_told_and_long_lists_are_cut(
    make_rig: Callable[..., Rig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstate.machines.shareds.LINES", 2)
    rig = make_rig(pools=THREE, ranks=2)
    recover(rig, 1, 2, 3)
    told = kept(rig.effects())
    assert [(type(one).__name__, one.rank) for one in told] == [
        ("Adopt", 0), ("Adopt", 0), ("Sweep", 0), ("Adopt", 1), ("Adopt", 1), ("Sweep", 1),
    ]  # fmt: skip
    assert [one.keys for one in told if isinstance(one, Adopt)] == [tuple(keys(1, 2)), tuple(keys(3))] * 2


@pytest.mark.parametrize(
    ("pool", "names", "sentence"),
    [
        (1, [], "pool 1 is no durable pool below the device"),
        (0, [], "pool 0 is no durable pool below the device"),
        (3, [], "pool 3 is no durable pool below the device"),
        (2, "names", "is no list"),
        (2, [b"k"], "is no name of a key: give a pair"),
        (2, [("", b"k")], "neither empty"),
        (2, [("a", b"")], "neither empty"),
        (2, [(b"k", "a")], "a space is a word"),
    ],
)
def test_what_is_refused(rig: Rig, pool: int, names: Any, sentence: str) -> None:
    rig.refuses(lambda: rig.ledger.recover(pool, names), sentence)


def test_a_drained_ledger_takes_nothing_in(rig: Rig) -> None:
    rig.ledger.drain()
    rig.refuses(lambda: rig.ledger.recover(2, [(SPACE, key(1))]), "draining and takes no new work")


# --- What is void ---------------------------------------------------------------------------------------------------


def test_a_reset_sweeps_what_is_durable(rig: Rig) -> None:
    recover(rig, 1)
    lease, refs = rig.sealed(2)
    rig.offload(lease, refs, pool=2)
    rig.finish_all()
    rig.effects()
    assert rig.ledger.reset() == 3
    assert kept(rig.effects()) == [Sweep(0, "disk", everything=True)]


def test_a_reset_that_keeps_can_be_followed_by_a_recovery(rig: Rig) -> None:
    recover(rig, 1)
    rig.effects()
    assert rig.ledger.reset(keep_durable=True) == 1
    assert kept(rig.effects()) == []
    assert rig.lookup(rig.open(), 1).tokens == 0
    recover(rig, 1)
    assert rig.lookup(rig.open(), 1).tokens == 16


def test_where_nothing_is_durable_nothing_is_swept(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig()
    rig.below(1)
    assert rig.ledger.reset() == 1
    assert kept(rig.effects()) == []


def test_a_lost_rank_loses_no_object(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(pools=THREE, ranks=2)
    recover(rig, 1)
    rig.effects()
    rank_lost(rig.ledger, 1)
    assert kept(rig.effects()) == []
    assert recover(rig, 1).lines == (0,)


def test_a_persist_that_a_reset_calls_off_is_undone(rig: Rig) -> None:
    """The sweep goes out first; what the persist makes after it is taken away by its own undo."""
    lease, refs = rig.sealed(1)
    rig.offload(lease, refs, pool=2)
    [store] = rig.works()
    rig.report(store)
    [persist] = rig.works()
    assert (persist.kind, persist.space(0)) == (Kind.PERSIST, SPACE)
    rig.ledger.reset()
    assert [type(effect) for effect in rig.effects()] == [Cancel, Sweep]
    rig.report(persist)
    [undo] = rig.effects()
    assert isinstance(undo, Undo)
    assert undo.token == persist.token


# --- From tier to tier ----------------------------------------------------------------------------------------------


def test_a_block_of_the_host_goes_to_disk_and_stays(rig: Rig) -> None:
    rig.below(1, 2)
    lease = rig.open()
    hit = rig.lookup(lease, 1, 2)
    rig.ledger.step_dispatched(1, [lease])
    job = rig.offload(lease, hit.blocks, pool=2)
    rig.ledger.unpin(hit)
    [store] = rig.works()
    assert (store.copier, store.src, store.after_step) == ("disk", tuple(ref.block for ref in hit.blocks), 0)
    assert [rig.state(block) for block in store.src] == ["cached", "cached"]
    rig.finish_all_of([store])
    assert rig.verdict().job == job
    assert [rig.key_state(number, pool) for number in (1, 2) for pool in (1, 2)] == ["ready"] * 4


def test_a_block_that_is_being_demoted_is_not_evicted(rig: Rig) -> None:
    rig.below(1)
    lease = rig.open()
    hit = rig.lookup(lease, 1)
    rig.offload(lease, hit.blocks, pool=2)
    rig.ledger.unpin(hit)
    other, refs = rig.sealed(2, 3, 4)
    stored = rig.ledger.offload(other, refs)
    assert stored
    _, more = rig.sealed(5)
    answer = rig.ledger.offload(other, more)
    assert not answer, "three slots of the host are being written and one is read"
    rig.finish_all()
    rig.check()


def test_a_job_copies_out_of_one_pool(rig: Rig) -> None:
    rig.below(1)
    lease, [here] = rig.sealed(2)
    hit = rig.lookup(lease, 1)
    stored = rig.ledger.offload(lease, [here, *hit.blocks], pool=2)
    assert [drop.reason for drop in stored.dropped] == [  # type: ignore[union-attr]
        "it is in another pool than the first; a job copies out of one"
    ]


def test_demotion_beside_an_allocator_of_the_engines(make_rig: Callable[..., Rig]) -> None:
    """The host's blocks have keys of the ledger's, so none is given for them."""
    rig = make_rig(pools=(PoolConfig("device", 4, foreign=True), *THREE[1:]))
    lease = rig.open()
    given = rig.ledger.foreign_allocated([0, 1])
    rig.ledger.offload(lease, given.refs, keys=keys(1, 2))  # type: ignore[union-attr]
    rig.finish_all()
    hit = rig.lookup(lease, 1, 2)
    assert not rig.ledger.offload(lease, hit.blocks, pool=2, keys=keys(1, 2))
    rig.offload(lease, hit.blocks, pool=2)
    rig.finish_all()
    assert rig.key_state(2, pool=2) == "ready"


def test_each_line_has_the_space_of_its_group(make_rig: Callable[..., Rig]) -> None:
    groups = (GroupConfig("full"), GroupConfig("slide", kind=GroupKind.SLIDING, window=32))
    rig = make_rig(pools=THREE, groups=groups)
    lease = rig.open()
    refs = rig.allocate(lease, 2)
    rig.ledger.seal(lease, refs[:1], keys(1), group=0)
    rig.ledger.seal(lease, refs[1:], keys(1), group=1)
    rig.offload(lease, refs, pool=1)
    [store] = rig.works()
    assert [store.space(line) for line in (0, 1)] == ["full@a", "slide@a"]
    rig.finish_all_of([store])
    rig.ledger.finish(lease)
    rig.flush()
    other = rig.open()
    hit = rig.ledger.lookup_groups(other, [keys(1), keys(1)])
    rig.offload(other, hit.blocks, pool=2)  # type: ignore[union-attr]
    [demote] = rig.works()
    assert sorted(demote.spaces) == ["full@a", "slide@a"]
    rig.load(other, hit)  # type: ignore[arg-type]
    assert {(work.space(line)) for work in rig.works() for line in range(len(work.src))} == {"full@a", "slide@a"}


def test_a_work_says_the_space_of_each_line() -> None:
    rig = Rig()
    lease, refs = rig.sealed(1)
    rig.offload(lease, refs)
    [work] = rig.works()
    assert isinstance(work, Work)
    assert work._replace(spaces=("x", "y")).space(1) == "y"
    assert work._replace(spaces=("x",)).space(1) == "x"
    assert work._replace(spaces=()).space(1) == ""


def test_a_demotion_finds_no_room_in_a_full_tier(rig: Rig) -> None:
    recover(rig, 7, 8, 9)
    for number in (7, 8, 9):
        rig.lookup(rig.open(), number)  # pinned, so that nothing of the disk can be evicted
    rig.below(1)
    lease = rig.open()
    hit = rig.lookup(lease, 1)
    rig.refuses(lambda: rig.ledger.offload(lease, hit.blocks, pool=2), "no room in disk")
    assert isinstance(rig.ledger.allocate(lease, 9), Short)
    assert isinstance(hit.blocks[0], BlockRef)


def test_what_waits_to_go_out_is_part_of_what_a_ledger_is(make_rig: Callable[..., Rig]) -> None:
    one, same, other = (make_rig(pools=THREE) for _ in range(3))
    for rig, number in ((one, 1), (same, 1), (other, 2)):
        recover(rig, number)
    assert one.ledger.canonical_hash() == same.ledger.canonical_hash()
    assert one.ledger.canonical_hash() != other.ledger.canonical_hash()
    before = one.ledger.canonical_hash()
    one.effects()
    assert one.ledger.canonical_hash() != before


def test_keys_with_and_without_a_block_are_unlinked_together() -> None:
    rig = Rig(pools=THREE)
    recover(rig, 1)
    keys_of = rig.books.keys
    (named,) = [slot for slot, _ in keys_of.names()]
    (nameless,) = keys_of.make(2, SPACE, [key(9)])
    block = keys_of.blocks[named]
    keys_of.unlink([named, nameless])
    assert (keys_of.blocks[named], keys_of.block_key[block]) == (-1, -1)


# --- Looking --------------------------------------------------------------------------------------------------------


def test_what_is_kept_is_what_would_be_a_hit_in_the_order_of_its_storing(rig: Rig) -> None:
    recover(rig, 2, 1)
    assert rig.ledger.kept(2) == [(SPACE, key(2)), (SPACE, key(1))]
    assert rig.ledger.kept(1) == []
    rig.ledger.reset()
    assert rig.ledger.kept(2) == []
