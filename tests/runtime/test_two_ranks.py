"""Incidents on two ranks, over bytes: a block has a piece on either, and a copy is over when both are."""

from __future__ import annotations

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import BlockRef, Kind, Outcome
from kvstate.machines.verdicts import Ending, LoadVerdict
from kvstate.runtime.answers import Done
from tests.runtime.rig import SILENT, got, keys_of
from tests.runtime.two_ranks import RANKS, TwoRanks

K1, K2, K9 = (keys_of(number) for number in (1, 2, 9))


def only_load(*turns: Done) -> LoadVerdict:
    (verdict,) = [verdict for turn in turns for verdict in turn.verdicts]
    return verdict


def test_a_store_and_a_load_go_through_both_ranks() -> None:
    two = TwoRanks()
    two.only_in_host(keys_of(1, 2, 3))
    lease = two.open()
    _, into = two.load(lease, keys_of(1, 2, 3))
    assert only_load(*two.run()).ending is Ending.PROCEED
    assert two.holds([ref.block for ref in into], keys_of(1, 2, 3))
    assert not two.ranks[0].holds([into[0].block], [K1[0] + b"\1"]), "the ranks hold different bytes"


@pytest.mark.parametrize("slow", RANKS)
def test_i04_a_queued_store_reads_what_it_was_given_on_either_rank(slow: int) -> None:
    two = TwoRanks(device=1, host=1)
    lease = two.open()
    refs = two.allocate(lease, 1)
    two.compute(lease, refs, K1)
    two.offload(lease, refs)
    two.down()
    two.kv.preempt(lease)
    (fast,) = two.flying(1 - slow)
    two.land(1 - slow, fast)
    two.up()
    assert two.short(two.open(), 1).draining == 1, "the other rank still reads it"
    (late,) = two.flying(slow)
    two.land(slow, late)
    assert [job.ending for job in two.up().jobs] == [Ending.COMMITTED]
    two.compute(lease := two.open(), two.allocate(lease, 1), K9)
    assert two.holds(late.work.dst, K1)


@pytest.mark.parametrize("late", RANKS)
def test_i08_bytes_that_land_after_the_abort_reach_nobody(late: int) -> None:
    two = TwoRanks(device=2, host=2)
    two.only_in_host(K1)
    r1, r2 = two.open(), two.open()
    _, (b7,) = two.load(r1, K1)
    (flight,), (other,) = two.flying(late), two.flying(1 - late)
    assert got(two.kv.abort(r1)).draining == 1
    two.land(1 - late, other)
    two.up()
    theirs = two.allocate(r2, 1)
    assert two.short(r2, 1).draining == 1
    two.land(late, flight)
    assert two.untouched(theirs)
    two.up()
    assert two.allocate(r2, 1) == (BlockRef(b7.block, b7.generation + 1),)


@pytest.mark.parametrize("bad", RANKS)
def test_i09_bytes_that_are_bad_on_one_rank_condemn_the_key(bad: int) -> None:
    two = TwoRanks()
    two.only_in_host(keys_of(1, 2))
    lease = two.open()
    spoiled = got(two.kv.lookup(lease, keys_of(1, 2))).blocks[1]
    two.ranks[bad].memory.bytes_of(spoiled.block)[5] ^= 0x40
    two.kv.finish(lease)
    lease = two.open()
    _, into = two.load(lease, keys_of(1, 2))
    verdict = only_load(*two.run())
    assert (verdict.ending, verdict.blocks) == (Ending.RECOMPUTE, 0)
    assert [error.code for error in verdict.errors] == [Code.CRC_MISMATCH]
    assert len(got(two.kv.lookup(lease, keys_of(1, 2))).blocks) == 1, "the second key is condemned on both"
    assert set(verdict.kept) == {ref.block for ref in into}


def test_i14_a_step_holds_its_blocks_and_stores_wait_for_it_in_the_worker() -> None:
    two = TwoRanks(device=1, host=1)
    lease = two.open()
    refs = two.allocate(lease, 1)
    assert two.kv.step_dispatched(1, [lease])
    got(two.kv.seal(lease, refs, K1))
    two.offload(lease, refs)
    assert [two.flying(rank) for rank in RANKS] == [[], []], "the copy waits for the step, in the worker"
    assert [work.kind for work in two.ranks[1].worker.dispatcher.waiting] == [Kind.STORE]
    two.kv.finish(lease)
    assert two.short(two.open(), 1).draining == 1
    for rank in two.ranks:
        rank.write(refs, K1)
    assert two.kv.step_retired(1)
    two.run()
    lease = two.open()
    two.kv.finish(lease)
    (stored,) = two.ranks[0].copier.flights
    assert two.holds(stored.work.dst, K1)


def test_i19_a_rank_that_fails_does_not_end_the_other() -> None:
    two = TwoRanks(device=2, host=2)
    two.only_in_host(K1)
    r1, r2 = two.open(), two.open()
    _, into = two.load(r1, K1)
    (first,), (other,) = two.flying(0), two.flying(1)
    two.ranks[0].copier.deliver(first.serial, Outcome.DENIED)
    assert two.up().verdicts == ()
    closed = got(two.kv.preempt(r1))
    assert (closed.free, closed.draining) == (0, 1)
    theirs = two.allocate(r2, 1)
    two.land(1, other)
    assert two.untouched(theirs)
    assert len(two.up().settled) == 1
    assert two.allocate(r2, 1) == (BlockRef(into[0].block, into[0].generation + 1),)


def test_i30_a_fence_of_one_rank_proves_nothing_of_the_other() -> None:
    two = TwoRanks(device=1, host=1)
    two.only_in_host(K1)
    r1, r2 = two.open(), two.open()
    two.load(r1, K1)
    flights = [two.flying(rank)[0] for rank in RANKS]
    for rank in RANKS:
        two.ranks[rank].copier.deliver(flights[rank].serial, SILENT)
    assert only_load(two.up()).left
    two.kv.finish(r1)
    assert two.short(r2, 1).quarantined == 1
    assert two.kv.fence(rank=0) == 0, "a worker of the embedder's is asked, and answers later"
    two.down()
    two.up()
    assert two.short(r2, 1).quarantined == 1
    two.kv.fence(rank=1)
    two.down()
    two.up()
    assert two.allocate(r2, 1)


def test_a_cancel_goes_to_the_worker_of_its_part() -> None:
    two = TwoRanks()
    two.only_in_host(K1)
    lease = two.open()
    two.load(lease, K1)
    flights = [two.flying(rank)[0] for rank in RANKS]
    two.ranks[1].copier.deliver(flights[1].serial, Outcome.CANCELLED)
    two.kv.abort(lease)
    two.up()
    two.down()
    assert [flight.asked for flight in flights] == [True, False], "of a part that is over nothing is wished"
    lease = two.open()
    two.load(lease, K1)
    two.down()
    two.kv.abort(lease)
    two.down()
    assert [two.ranks[rank].copier.flights[-1].asked for rank in RANKS] == [True, True]


def test_a_probe_goes_to_the_worker_of_its_part() -> None:
    two = TwoRanks()
    two.only_in_host(K1)
    two.load(two.open(), K1)
    tokens = [two.flying(rank)[0].token for rank in RANKS]
    two.ranks[1].copier.land(two.flying(1)[0].serial)
    assert [two.kv.probe(token) for token in tokens] == [True, True]
    two.down()
    assert two.up().probed == ((tokens[0], "running"), (tokens[1], "over"))


# ---- A rank is lost --------------------------------------------------------------------------------------------------


def test_a_lost_rank_takes_everything_with_it() -> None:
    """Leases, keys and loads: a block has a piece on every rank, so nothing of before is worth anything."""
    two = TwoRanks()
    two.only_in_host(keys_of(1, 2))
    idle, loading = two.open(), two.open()
    two.load(loading, keys_of(1, 2))
    two.down()
    (here,) = two.flying(0)
    two.kv.worker_lost(1, "killed")
    done = two.turn()
    (loss,) = done.lost
    assert (loss.rank, loss.leases, loss.parts) == (1, (idle, loading), 1)
    assert loss.keys == 2
    assert loss.error.code is Code.PEER_LOST
    assert "killed" in loss.error.message
    assert [verdict.ending for verdict in done.verdicts] == [Ending.ABORTED]
    fresh = two.open()
    assert got(two.kv.lookup(fresh, keys_of(1, 2))).blocks == ()
    assert two.short(fresh, 4).draining == 2, "the other rank still writes into two of them"
    two.land(0, here)
    two.up()
    assert len(two.allocate(fresh, 4)) == 4


def test_a_late_report_of_an_earlier_life_is_stale() -> None:
    two = TwoRanks(device=1, host=1)
    two.only_in_host(K1)
    two.load(two.open(), K1)
    (here,), (old,) = two.flying(0), two.flying(1)
    dead = two.ranks[1]
    two.kv.worker_lost(1, "killed")
    two.turn()
    two.restart(1)
    two.land(0, here)
    two.up()
    lease = two.open()
    refs = two.allocate(lease, 1)
    two.compute(lease, refs, K2)
    dead.copier.land(old.serial)
    dead.copier.deliver(old.serial)
    before = two.kv.ledger.books.stale
    two.kv.report(dead.worker.take_reports())
    assert two.turn().fatal is None
    assert two.kv.ledger.books.stale == before + 1
    assert two.holds([refs[0].block], K2)


def test_a_worker_takes_nothing_that_was_meant_for_another_life_or_rank() -> None:
    two = TwoRanks()
    lease = two.open()
    refs = two.allocate(lease, 1)
    two.compute(lease, refs, K1)
    two.offload(lease, refs)
    messages = two.kv.take_effects()
    two.kv.worker_lost(1, "killed")
    two.turn()
    two.restart(1)
    assert two.kv.incarnation(1) == 2
    for message in (messages[0], messages[1], messages[1]):
        two.ranks[1].worker.feed(message)
    assert two.ranks[1].copier.flights == []
    assert [trouble.partition(";")[0] for trouble in two.up().troubles] == [
        "rank 1 in its life 2 was sent a message for rank 0 in life 1",
        "rank 1 in its life 2 was sent a message for rank 1 in life 1",
    ]
    two.ranks[1].worker.feed(messages[1])
    assert two.up().troubles == (), "each is said once"


def test_work_for_a_rank_that_is_lost_goes_nowhere_and_is_over() -> None:
    """Between the end of a worker and the turn in which it is noticed."""
    two = TwoRanks()
    lease = two.open()
    refs = two.allocate(lease, 1)
    two.compute(lease, refs, K1)
    two.kv.worker_lost(0, "killed")
    two.offload(lease, refs)
    two.down()
    assert two.ranks[0].copier.flights == []
    (loss,) = two.turn().lost
    assert (loss.rank, loss.parts) == (0, 1)
    two.restart(0)
    two.run()
    assert two.kv.ledger.rest() == []
    assert two.ranks[0].copier.flights == []


def test_a_lost_rank_is_told_once_and_the_next_life_serves() -> None:
    two = TwoRanks()
    for life in (2, 3, 4):
        two.only_in_host(keys_of(life))
        two.kv.worker_lost(1, "killed")
        assert [loss.rank for loss in two.turn().lost] == [1]
        assert two.turn().lost == ()
        two.restart(1)
        assert two.ranks[1].worker.incarnation == two.kv.incarnation(1) == life
        two.run()
    two.only_in_host(keys_of(7))
    lease = two.open()
    _, into = two.load(lease, keys_of(7))
    assert only_load(*two.run()).ending is Ending.PROCEED
    assert two.holds([ref.block for ref in into], keys_of(7))


def test_a_new_life_knows_which_steps_are_over() -> None:
    two = TwoRanks()
    lease = two.open()
    two.compute(lease, two.allocate(lease, 1), K1)
    two.kv.worker_lost(1, "killed")
    two.turn()
    two.restart(1)
    lease = two.open()
    refs = two.allocate(lease, 1)
    two.compute(lease, refs, K2)
    two.offload(lease, refs)
    assert [job.ending for turn in two.run() for job in turn.jobs] == [Ending.COMMITTED]
