"""Why is this block not free, this job not over? A sentence for each state, and for what does not exist."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvstate.machines.config import PoolConfig
from kvstate.machines.explain import FREED_BY
from kvstate.machines.tables.block import State as B
from tests.machines.rig import Rig, keys

MakeRig = Callable[..., Rig]


def block(rig: Rig, number: int) -> str:
    return rig.ledger.explain(block=number)


# -- blocks ------------------------------------------------------------------------------------------------------------


def test_every_state_says_what_would_free_the_block() -> None:
    assert FREED_BY.keys() == set(B)


def test_a_free_and_an_open_block(rig: Rig) -> None:
    assert block(rig, 0) == "block 0 (device, gen 0) is free; it can be had by whoever asks next."
    lease = rig.open()
    rig.allocate(lease, 1)
    rig.tick(2.5)
    assert block(rig, 0) == (
        f"block 0 (device, gen 0) is open: owned by lease {lease}, open for 2.5 s; "
        "it is free when its lease closes or releases it."
    )


def test_an_active_block_that_is_stored_and_the_block_that_is_filled(rig: Rig) -> None:
    lease, refs = rig.sealed(1)
    rig.tick(1.0)
    job = rig.offload(lease, refs)
    rig.tick(2.0)
    part = f"store part 1 of job {job} (flying, begun 1 s ago)"
    assert block(rig, 0) == (
        f"block 0 (device, gen 0, named by key 01010101) is active: owned by lease {lease}, open for 2 s, "
        f"held by job {job} for 1 s, read by {part}; it is cached or free when its last owner lets go of it."
    )
    assert block(rig, 4) == (
        f"block 4 (host, gen 0) is loading: filled by job {job} for 1 s, written by {part}; "
        "it is open or active again when what fills it ends."
    )


def test_who_has_answered_touches_nothing_any_more(make_rig: MakeRig) -> None:
    """The part is on record while its job lives, and is not among those that hold the block."""
    rig = make_rig(part_blocks=1)
    lease, refs = rig.sealed(1, 2)
    job = rig.offload(lease, refs)
    rig.report(rig.works()[0])
    assert f"is active: owned by lease {lease}, open for 0 s, held by job {job} for 0 s; it is" in block(
        rig, refs[0].block
    )


def test_a_cached_block_and_one_that_is_pinned(rig: Rig) -> None:
    rig.below(1)
    assert block(rig, 4) == (
        "block 4 (host, gen 0, named by key 01010101) is cached; "
        "it is free when the policy evicts it or its key is dropped, and nobody reads it then."
    )
    lease = rig.open()
    rig.lookup(lease, 1)
    assert f"is active: pinned by lease {lease}, open for 0 s; it is cached or free" in block(rig, 4)


def test_a_draining_and_a_quarantined_block(make_rig: MakeRig) -> None:
    rig = make_rig(retry_delay=0.0, part_blocks=1)
    rig.below(1)
    lease = rig.open()
    load, [ref] = rig.load(lease, rig.lookup(lease, 1))
    [work] = rig.works()
    rig.report(work, "failed")
    rig.tick(1.0)
    [again] = rig.works()
    rig.ledger.cancel(load)
    part = f"fetch part {again.token.serial} of load {load} batch 0 attempt 2"
    assert block(rig, ref.block) == (
        f"block {ref.block} (device, gen {ref.generation}) is draining for 0 s: written by {part} "
        "(flying, begun 0 s ago); it is free when the last of these has reported, or a fence proves them over."
    )
    rig.tick(2.0)
    assert block(rig, ref.block) == (
        f"block {ref.block} (device, gen {ref.generation}) is quarantined for 0 s: written by fetch part "
        f"{again.token.serial} attempt 2 (lost, begun 1 s ago); nobody is expected to report any more: it is free by a "
        "late report or a fence alone."
    )


@pytest.mark.parametrize("number", [-1, 8, 10**9])
def test_there_is_no_such_block(rig: Rig, number: int) -> None:
    assert block(rig, number) == f"there is no block {number}; there are 8, numbered from 0."


# -- jobs and loads ----------------------------------------------------------------------------------------------------


def test_a_job_in_each_of_its_states(make_rig: MakeRig) -> None:
    rig = make_rig(max_jobs=1, durable=True, part_blocks=1, offload_for=10.0, retry_delay=2.0, step_for=99.0)
    first, refs = rig.sealed(1, 2)
    running = rig.offload(first, refs)
    lease, [ref] = rig.sealed(3)
    job = rig.offload(lease, [ref])
    rig.tick(1.0)

    def says(state: str, attempt: int, waits: str, left: str) -> bool:
        return rig.ledger.explain(work=job) == (
            f"job {job} of lease {lease} stores 1 blocks in host and is {state} for {10 - float(left):.3g} s (attempt "
            f"{attempt} of 2); it waits for {waits}, and ends at the latest 1 s after its deadline in {left} s."
        )

    assert says("queued", 0, "no part", "9")
    waits = ", ".join(f"store part {serial} of job {running} (flying, begun 1 s ago)" for serial in (1, 2))
    assert f"it waits for {waits}, and" in rig.ledger.explain(work=running)
    rig.finish_all()
    rig.ledger.finish(first)
    lease, [ref] = rig.sealed(4)
    rig.tick(2.0)
    job = rig.offload(lease, [ref])
    [work] = rig.works()
    assert says("copying", 1, f"store part {work.token.serial} of job {job} (flying, begun 0 s ago)", "10")
    rig.report(work)
    [persist] = rig.works()
    rig.tick(3.0)
    assert says("persisting", 1, f"persist part {persist.token.serial} of job {job} (flying, begun 1 s ago)", "9")
    rig.report(persist, "failed")
    assert says("retry_wait", 1, "no part", "9")
    rig.tick(5.0)
    [persist] = rig.works()
    waits = f"persist part {persist.token.serial} of job {job} attempt 2 (flying, begun 0 s ago)"
    assert says("persisting", 2, waits, "7")
    rig.ledger.cancel(job)
    assert says("cancelling", 2, waits, "7")


def test_a_load_and_its_batches(make_rig: MakeRig) -> None:
    rig = make_rig(batch_blocks=1, grace=1.0, device=6)
    rig.below(1, 2, 3)
    lease = rig.open()
    load, _ = rig.load(lease, rig.lookup(lease, 1, 2, 3), deadline=4.0)
    works = rig.works()
    rig.report(works[0])
    rig.report(works[1], "failed")
    rig.tick(0.01)
    third = f"fetch part {works[2].token.serial} of load {load} batch 2 (flying, begun 0.01 s ago)"
    assert rig.ledger.explain(work=load) == (
        f"load {load} of lease {lease} brings 3 blocks and is waiting for 0.01 s: 1 of 3 batches are committed; "
        f"batch 1 is retry_wait and waits for no part; batch 2 is fetching and waits for {third}; "
        "its deadline is in 3.99 s."
    )
    rig.ledger.abort(lease)
    assert f"load {load} of lease {lease} brings 3 blocks and is aborting" in rig.ledger.explain(work=load)


def test_a_load_of_nothing_left_is_told_and_gone(rig: Rig) -> None:
    rig.below(1)
    lease = rig.open()
    load, _ = rig.load(lease, rig.lookup(lease, 1))
    rig.finish_all()
    gone = f"{load} is no job and no load that is under way; what has ended was told in a verdict."
    assert rig.ledger.explain(work=load) == gone
    assert "77 is no job and no load" in rig.ledger.explain(work=77)


# -- leases ------------------------------------------------------------------------------------------------------------


def test_a_lease(rig: Rig) -> None:
    rig.below(1)
    lease = rig.open()
    load, _ = rig.load(lease, rig.lookup(lease, 1))
    rig.tick(1.5)
    assert rig.ledger.explain(lease=lease) == (
        f"lease {lease} in namespace a is open for 1.5 s: it owns 1 device blocks, pins 1 below, "
        f"loads under way: {load}, out on steps: none; finish, abort or preempt gives all of it back."
    )
    rig.finish_all()
    rig.step(3, lease)
    rig.step(4)
    rig.step(5, lease)
    rig.ledger.reset()
    assert rig.ledger.explain(lease=lease) == (
        f"lease {lease} in namespace a is open for 1.5 s, from before a reset: it owns 1 device blocks, pins 0 below, "
        "loads under way: none, out on steps: 3, 5; finish, abort or preempt gives all of it back."
    )
    rig.ledger.finish(lease)
    gone = f"lease {lease} is not open; a request that is admitted again gets another lease."
    assert rig.ledger.explain(lease=lease) == gone


def test_asked_of_nothing_it_says_so(rig: Rig) -> None:
    assert rig.ledger.explain() == "lease -1 is not open; a request that is admitted again gets another lease."


def test_asked_of_several_it_speaks_of_the_block(rig: Rig) -> None:
    assert rig.ledger.explain(block=0, work=1, lease=1) == block(rig, 0)


def test_it_is_never_at_a_loss(make_rig: MakeRig) -> None:
    """All that there is, in the middle of everything, is explained."""
    rig = make_rig(pools=(PoolConfig("device", 5), PoolConfig("host", 3), PoolConfig("disk", 2)), part_blocks=1)
    lease, refs = rig.sealed(1, 2)
    rig.offload(lease, refs)
    rig.offload(lease, refs[:1], pool=2)
    rig.report(rig.works()[0], "timeout")
    rig.ledger.hold(lease, refs, deadline=5.0)
    rig.step(1, lease)
    rig.ledger.finish(lease)
    rig.ledger.seal(lease, refs, keys(1, 2))
    for number in range(-1, 11):
        for sentence in (block(rig, number), rig.ledger.explain(work=number), rig.ledger.explain(lease=number)):
            assert sentence.endswith(".")
            assert "\n" not in sentence
