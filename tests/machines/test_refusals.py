"""Every reason for which a request is refused: it is said in words, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kvstate.machines.config import PoolConfig
from kvstate.machines.messages import BlockRef, Cancel, Token
from kvstate.machines.verdicts import Hit, Short
from tests.machines.rig import SPACE, Rig, keys

NAN, INF = float("nan"), float("inf")
NOBODY = 10**6

# -- leases ------------------------------------------------------------------------------------------------------------


def test_a_lease_needs_a_namespace(rig: Rig) -> None:
    rig.refuses(lambda: rig.ledger.open(""), "a lease needs a namespace")
    rig.refuses(lambda: rig.ledger.open("half a pair: \ud800"), "a namespace is a text that has an encoding")


LEASED: dict[str, Callable[[Rig, int], object]] = {
    "lookup": lambda rig, lease: rig.ledger.lookup(lease, keys(1)),
    "unpin": lambda rig, lease: rig.ledger.unpin(Hit(lease, (), (), (), 0)),
    "allocate": lambda rig, lease: rig.ledger.allocate(lease, 1),
    "seal": lambda rig, lease: rig.ledger.seal(lease, (), ()),
    "release": lambda rig, lease: rig.ledger.release(lease, ()),
    "finish": lambda rig, lease: rig.ledger.finish(lease),
    "abort": lambda rig, lease: rig.ledger.abort(lease),
    "preempt": lambda rig, lease: rig.ledger.preempt(lease),
    "offload": lambda rig, lease: rig.ledger.offload(lease, ()),
    "load": lambda rig, lease: rig.ledger.load(lease, Hit(lease, (), (), (), 0), (), deadline=1.0),
    "hold": lambda rig, lease: rig.ledger.hold(lease, (), deadline=1.0),
    "step_dispatched": lambda rig, lease: rig.ledger.step_dispatched(1, [lease]),
}


@pytest.mark.parametrize("request_", LEASED)
@pytest.mark.parametrize("was_open", [False, True])
def test_a_lease_that_is_not_open_can_do_nothing(rig: Rig, request_: str, was_open: bool) -> None:
    lease = rig.open() if was_open else NOBODY
    if was_open:
        rig.ledger.finish(lease)
    rig.refuses(lambda: LEASED[request_](rig, lease), f"lease {lease} is not open")


def test_fewer_than_no_blocks_can_t_be_had(rig: Rig) -> None:
    lease = rig.open()
    rig.refuses(lambda: rig.ledger.allocate(lease, -1), "-1 blocks can't be allocated")
    assert rig.allocate(lease, 0) == ()


def test_a_short_pool_says_what_there_is_and_changes_nothing(rig: Rig) -> None:
    """Two free, one cached, one draining: the cached one counts as free and is not evicted for nothing."""
    lease, _ = rig.sealed(1)
    rig.ledger.finish(lease)
    reader = rig.open()
    [ref] = rig.allocate(reader, 1)
    token = rig.ledger.hold(reader, [ref], deadline=1.0)
    rig.ledger.finish(reader)
    before = rig.shape()
    other = rig.open()
    assert rig.ledger.allocate(other, 4) == Short(wanted=4, free=3, draining=1, quarantined=0)
    rig.ledger.finish(other)
    assert rig.shape() == before
    rig.tick(1.0)
    other = rig.open()
    short = rig.ledger.allocate(other, 4)
    assert short == Short(wanted=4, free=3, draining=0, quarantined=1), token
    assert not short


# -- sealing, releasing, holding ---------------------------------------------------------------------------------------


def test_what_can_t_be_sealed(rig: Rig) -> None:
    lease, other = rig.open(), rig.open()
    a, b = rig.allocate(lease, 2)
    [foreign] = rig.allocate(other, 1)
    seal = rig.ledger.seal
    rig.refuses(lambda: seal(lease, [a], keys(1, 2)), "1 blocks and 2 keys")
    rig.refuses(lambda: seal(lease, [a, a], keys(1, 2)), "a block is listed twice")
    rig.refuses(lambda: seal(lease, [a, foreign], keys(1, 2)), f"block {foreign.block} gen 0 does not belong")
    stale = BlockRef(b.block, b.generation + 1)
    rig.refuses(lambda: seal(lease, [a, stale], keys(1, 2)), f"block {b.block} gen 1 does not belong")
    rig.refuses(lambda: seal(lease, [BlockRef(NOBODY, 0)], keys(1)), "does not belong")
    assert seal(lease, [a], keys(1)) == (True,)
    rig.refuses(lambda: seal(lease, [b, a], keys(2, 3)), f"block {a.block} is active; only an open block is sealed")


def test_what_can_t_be_released(rig: Rig) -> None:
    rig.below(1)
    lease, other = rig.open(), rig.open()
    [mine] = rig.allocate(lease, 1)
    [foreign] = rig.allocate(other, 1)
    rig.refuses(
        lambda: rig.ledger.release(lease, [mine, foreign]),
        f"block {foreign.block} gen {foreign.generation} does not belong",
    )
    _, [dst] = rig.load(lease, rig.lookup(lease, 1))
    rig.refuses(
        lambda: rig.ledger.release(lease, [mine, dst]), f"block {dst.block} is being loaded; cancel the load or close"
    )
    rig.finish_all()
    assert rig.ledger.release(lease, [mine, dst]) == (1, 1, 0, 0)


def test_what_can_t_be_held(rig: Rig) -> None:
    rig.below(1)
    lease, other = rig.open(), rig.open()
    [mine] = rig.allocate(lease, 1)
    [foreign] = rig.allocate(other, 1)
    _, [dst] = rig.load(lease, rig.lookup(lease, 1))
    for ref in (foreign, dst, BlockRef(mine.block, mine.generation - 1)):
        rig.refuses(
            lambda ref=ref: rig.ledger.hold(lease, [mine, ref], deadline=1.0),  # type: ignore[misc]
            f"block {ref.block} gen {ref.generation} can't be held by lease {lease}",
        )


@pytest.mark.parametrize("deadline", [NAN, INF])
def test_a_deadline_comes(rig: Rig, deadline: float) -> None:
    """L7: a wait without an end is refused where it would begin; and a NaN would put the timers out of order."""
    rig.below(1)
    lease, refs = rig.sealed(2)
    hit = rig.lookup(lease, 1)
    into = rig.allocate(lease, 1)
    never = f"the deadline is {deadline}: a time is a finite number of seconds"
    rig.refuses(lambda: rig.ledger.offload(lease, refs, deadline=deadline), never)
    rig.refuses(lambda: rig.ledger.load(lease, hit, into, deadline=deadline), never)
    rig.refuses(lambda: rig.ledger.hold(lease, into, deadline=deadline), never)


# -- offloads ----------------------------------------------------------------------------------------------------------

THREE = (PoolConfig("device", 4), PoolConfig("host", 2), PoolConfig("disk", 2, copier="disk"))


@pytest.mark.parametrize("pool", [0, -1, 2])
def test_an_offload_goes_to_a_pool_below_the_device(rig: Rig, pool: int) -> None:
    lease, refs = rig.sealed(1)
    rig.refuses(lambda: rig.ledger.offload(lease, refs, pool=pool), f"there is no pool {pool} below the device")


def test_an_offload_of_nothing_says_why(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(pools=THREE)
    lease, (a, b) = rig.sealed(1, 2)
    stranger, [theirs] = rig.sealed(3, space="b")
    [blank] = rig.allocate(lease, 1)
    rig.offload(lease, [a])
    host = BlockRef(rig.works()[0].dst[0], 0)
    offload = rig.ledger.offload
    rig.refuses(lambda: offload(lease, []), "nothing to store: no blocks")
    rig.refuses(lambda: offload(lease, [BlockRef(b.block, 7)]), f"block {b.block}: its generation is over")
    rig.refuses(lambda: offload(lease, [BlockRef(NOBODY, 0)]), f"block {NOBODY}: its generation is over")
    rig.refuses(lambda: offload(lease, [BlockRef(-1, 0)]), "block -1: its generation is over")
    rig.refuses(lambda: offload(lease, [blank]), f"block {blank.block}: no key names it")
    rig.refuses(lambda: offload(lease, [theirs]), "it belongs to another namespace")
    rig.refuses(lambda: offload(lease, [a, a]), "stored already, or being stored; block")
    rig.refuses(lambda: offload(lease, [host]), f"block {host.block}: it is not above host")
    rig.refuses(lambda: offload(lease, [host], pool=2), f"block {host.block}: no key names it")
    assert rig.ledger.fired()["O01"] == 1
    assert stranger


def test_an_offload_drops_lines_and_says_why(make_rig: Callable[..., Rig]) -> None:
    """Room for two of three; the front of the prefix is worth most, and each line that is left out is told."""
    rig = make_rig(host=2)
    lease, (a, b, c) = rig.sealed(1, 2, 3)
    stale = BlockRef(a.block, 9)
    stored = rig.ledger.offload(lease, [stale, a, a, b, c])
    assert stored
    assert stored.refs == (a, b)  # type: ignore[union-attr]
    assert [(d.ref, d.reason) for d in stored.dropped] == [  # type: ignore[union-attr]
        (stale, "its generation is over: the block was freed or given to another"),
        (a, "listed twice"),
        (c, "no room in host"),
    ]
    rig.refuses(lambda: rig.ledger.offload(lease, [c]), f"nothing to store: block {c.block}: no room in host")


def test_room_below_is_made_by_evicting(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(host=2)
    rig.below(1, 2)
    lease, refs = rig.sealed(3)
    rig.offload(lease, refs)
    assert [rig.key_state(number) for number in (1, 2, 3)] == ["ready", "absent", "writing"], "the tail goes first"
    rig.finish_all()
    assert rig.key_state(3) == "ready"


def test_a_pool_that_is_switched_off_stores_nothing(make_rig: Callable[..., Rig]) -> None:
    rig = make_rig(host=0)
    lease, refs = rig.sealed(1)
    rig.refuses(lambda: rig.ledger.offload(lease, refs), "no room in host")


def test_a_lease_of_before_a_reset_stores_nothing(rig: Rig) -> None:
    lease, refs = rig.sealed(1)
    rig.ledger.reset()
    rig.refuses(lambda: rig.ledger.offload(lease, refs), f"lease {lease} is from before the reset")


# -- loads -------------------------------------------------------------------------------------------------------------


def test_what_can_t_be_loaded(rig: Rig) -> None:
    rig.below(1, 2)
    lease, other = rig.open(), rig.open()
    hit = rig.lookup(lease, 1, 2)
    a, b = rig.allocate(lease, 2)
    [foreign] = rig.allocate(other, 1)

    def load(hit: Hit, *into: BlockRef, who: int = lease) -> Callable[[], object]:
        return lambda: rig.ledger.load(who, hit, into, deadline=1.0)

    rig.refuses(load(hit, a, b, who=other), f"the hit was pinned for lease {lease}, not for lease {other}")
    rig.refuses(load(Hit(lease, (), (), (), 0), a), "nothing to load: the whole hit is on the device")
    rig.refuses(load(hit, a), "2 blocks to load and 1 to load them into")
    rig.refuses(load(hit, a, a), f"block {a.block} is listed twice; a block is filled once")
    rig.refuses(load(hit, a, foreign), f"block {foreign.block} gen {foreign.generation} is no destination")
    rig.refuses(load(hit, a, BlockRef(b.block, b.generation - 1)), f"block {b.block} gen 1 is no destination")
    rig.refuses(load(hit, a, BlockRef(NOBODY, 0)), f"block {NOBODY} gen 0 is no destination")
    twice = replace(hit, blocks=(hit.blocks[0],) * 2)
    rig.refuses(load(twice, a, b), f"block {hit.blocks[0].block} is listed twice in the hit")
    stale = replace(hit, blocks=(hit.blocks[0], BlockRef(hit.blocks[1].block, 5)))
    rig.refuses(load(stale, a, b), f"block {hit.blocks[1].block} gen 5 is not pinned for lease {lease} any more")
    assert rig.ledger.seal(lease, [b], keys(3))
    rig.refuses(load(hit, a, b), f"block {b.block} is active and can't be loaded into")


def test_a_block_that_the_embedder_touches_can_t_be_loaded_into(rig: Rig) -> None:
    rig.below(1)
    lease = rig.open()
    hit = rig.lookup(lease, 1)
    [a] = rig.allocate(lease, 1)
    assert rig.ledger.hold(lease, [a], deadline=1.0)
    rig.refuses(lambda: rig.ledger.load(lease, hit, [a], deadline=1.0), f"block {a.block} is open and can't be loaded")


def test_a_hit_is_loaded_once(rig: Rig) -> None:
    rig.below(1)
    lease = rig.open()
    hit = rig.lookup(lease, 1)
    rig.load(lease, hit)
    more = rig.allocate(lease, 1)
    rig.refuses(lambda: rig.ledger.load(lease, hit, more, deadline=1.0), "is not pinned for lease")


def test_a_hit_that_was_given_back_can_t_be_loaded(rig: Rig) -> None:
    rig.below(1)
    lease = rig.open()
    hit = rig.lookup(lease, 1)
    assert rig.ledger.unpin(hit) is True
    into = rig.allocate(lease, 1)
    rig.refuses(lambda: rig.ledger.load(lease, hit, into, deadline=1.0), "is not pinned for lease")


def test_a_lease_that_is_out_on_a_step_loads_nothing(rig: Rig) -> None:
    rig.below(1)
    lease = rig.open()
    hit = rig.lookup(lease, 1)
    into = rig.allocate(lease, 1)
    rig.step(1, lease)
    rig.refuses(lambda: rig.ledger.load(lease, hit, into, deadline=1.0), f"lease {lease} is out on a compute step")
    rig.retire(1)
    assert rig.ledger.load(lease, hit, into, deadline=1.0)


def test_a_lease_that_waits_for_a_load_goes_out_on_no_step(rig: Rig) -> None:
    rig.below(1)
    lease, other = rig.open(), rig.open()
    rig.load(lease, rig.lookup(lease, 1))
    rig.refuses(lambda: rig.ledger.step_dispatched(1, [other, lease]), f"lease {lease} waits for a load")
    rig.tick(10.0)
    rig.step(1, other, lease)


# -- steps, cancelling, the end ----------------------------------------------------------------------------------------


def test_steps_are_numbered_upwards(rig: Rig) -> None:
    rig.refuses(lambda: rig.ledger.step_dispatched(0, []), "step 0 comes after step 0")
    rig.refuses(lambda: rig.ledger.step_retired(1), "step 1 is not under way")
    assert rig.ledger.step_dispatched(3, []) is True
    rig.refuses(lambda: rig.ledger.step_dispatched(3, []), "step 3 comes after step 3; steps are numbered upwards")
    rig.refuses(lambda: rig.ledger.step_retired(2), "step 2 is not under way")
    assert rig.ledger.step_retired(3) is True
    rig.refuses(lambda: rig.ledger.step_retired(3), "step 3 is not under way")
    rig.refuses(lambda: rig.ledger.step_dispatched(2, []), "step 2 comes after step 3")


def test_what_is_not_under_way_can_t_be_called_off(rig: Rig) -> None:
    lease, refs = rig.sealed(1)
    job = rig.offload(lease, refs)
    rig.refuses(lambda: rig.ledger.cancel(lease), f"{lease} is no job and no load that is under way")
    rig.finish_all()
    rig.refuses(lambda: rig.ledger.cancel(job), f"{job} is no job and no load that is under way")


def test_a_ledger_is_shut_when_it_is_drained_and_at_rest(rig: Rig) -> None:
    rig.below(1)
    lease, refs = rig.sealed(2)
    rig.refuses(rig.ledger.shut, f"not at rest: lease {lease} is open")
    job = rig.offload(lease, refs)
    load, _ = rig.load(lease, rig.lookup(lease, 1))
    store, fetch = (work.token.serial for work in rig.works())
    under_way = [f"lease {lease} is open", f"job {job} is copying", f"load {load} is waiting"]
    flying = {f"store part {store} is flying", f"fetch part {fetch} is flying"}
    assert rig.ledger.rest()[:3] == under_way
    assert set(rig.ledger.rest()[3:]) == flying
    rig.refuses(rig.ledger.shut, f"job {job} is copying")
    for token in (store, fetch):
        rig.report(Token(1, token))
    rig.ledger.finish(lease)
    rig.refuses(rig.ledger.shut, "only a drained ledger can be shut; drain it first")
    assert rig.ledger.drain() is True
    assert rig.ledger.shut() is True
    assert rig.ledger.rest() == []


@pytest.mark.parametrize("shut", [False, True])
def test_a_ledger_that_ends_takes_no_new_work(rig: Rig, shut: bool) -> None:
    rig.below(1)
    lease, refs = rig.sealed(2)
    hit = rig.lookup(lease, 1)
    into = rig.allocate(lease, 1)
    rig.ledger.drain()
    rig.refuses(lambda: rig.ledger.open(SPACE), "the ledger is draining and takes no new work")
    rig.refuses(lambda: rig.ledger.offload(lease, refs), "the ledger is draining")
    rig.refuses(lambda: rig.ledger.load(lease, hit, into, deadline=1.0), "the ledger is draining")
    assert rig.ledger.finish(lease)
    if shut:
        assert rig.ledger.shut() is True
        rig.refuses(lambda: rig.ledger.open(SPACE), "the ledger is closed and takes no new work")


def test_draining_calls_every_job_off(rig: Rig) -> None:
    lease, (a, b) = rig.sealed(1, 2)
    jobs = [rig.offload(lease, [a]), rig.offload(lease, [b])]
    works = rig.works()
    rig.ledger.drain()
    assert [rig.job_state(job) for job in jobs] == ["cancelling"] * 2
    assert rig.effects() == [Cancel(work.token) for work in works]
    for work in works:
        rig.report(work, "cancelled")
    assert [(v.job, v.ending) for v in rig.verdicts()] == [(job, "cancelled") for job in jobs]  # type: ignore[union-attr]
    assert [rig.key_state(number) for number in (1, 2)] == ["absent"] * 2


def test_a_closed_ledger_is_not_drained_again(rig: Rig) -> None:
    assert rig.ledger.drain() is True
    assert rig.ledger.drain() is True, "asking twice is no mistake"
    assert rig.ledger.shut() is True
    rig.refuses(rig.ledger.drain, "the ledger is closed already")
