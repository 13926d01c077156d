"""Incidents I22 to I37 with real bytes, as `test_engine_incidents` does for those before them.

What the ledger decides in each of them stands in `tests/scenarios`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kvstate.errors import Code
from kvstate.machines.audit import audit
from kvstate.machines.messages import BlockRef, Outcome, Report
from kvstate.machines.tables.block import State as B
from kvstate.machines.verdicts import Ending, Refusal, Short
from kvstate.replay.breaks import break_law
from kvstate.replay.content import poison, stamp, write_many
from kvstate.runtime.copiers.hand import Flight, HandError
from tests.runtime.parts import BLOCK, holds, stored
from tests.runtime.rig import Rig, got, keys_of, only_load

K1, K2, K3, K9 = (keys_of(number) for number in (1, 2, 3, 9))


def short(value: object) -> Short:
    assert isinstance(value, Short), value
    return value


def refused(value: object) -> Refusal:
    assert isinstance(value, Refusal), value
    return value


def untouched(rig: Rig, refs: Sequence[BlockRef]) -> bool:
    """Do these blocks hold the poison of this very life, every byte of it?"""
    return all(np.array_equal(rig.memory.bytes_of(ref.block), poison(*ref, BLOCK)) for ref in refs)


def compute(rig: Rig, refs: Sequence[BlockRef], keys: Sequence[bytes]) -> None:
    write_many(rig.memory.pools[0].array, [ref.block for ref in refs], keys)


def at_rest(rig: Rig) -> bool:
    return rig.ledger.rest() == [] and audit(rig.ledger) == [] and rig.ledger.fatal is None


# ---- I22: the submit that raised -------------------------------------------------------------------------------------


def test_i22_what_never_started_writes_nothing_and_disturbs_nobody() -> None:
    rig = Rig(parts=1)
    rig.only_in_host([*K1, *K2])
    r1, r2 = rig.open(), rig.open()
    job = rig.offload(r2, rig.computed(r2, K9))
    (store,) = rig.flying()
    rig.copier.refuse = RuntimeError("out of handles")
    _, into = rig.load(r1, [*K1, *K2])
    (fetch,) = (flight for flight in rig.flying() if flight is not store)
    assert fetch.work.keys == (*K2,)
    assert rig.engine.poll().loads == ()  # the other part is waited for
    rig.copier.land(fetch.serial)
    verdict = only_load([rig.deliver(fetch)])
    assert (verdict.ending, verdict.tokens, set(verdict.kept)) == (Ending.RECOMPUTE, 0, {ref.block for ref in into})
    assert [(error.code, error.type, error.message) for error in verdict.errors] == [
        (Code.INTERNAL, "RuntimeError", "out of handles")
    ]
    assert untouched(rig, into[:1])
    rig.copier.land(store.serial)
    assert [(told.job, told.ending) for told in rig.deliver(store).jobs] == [(job, Ending.COMMITTED)]
    assert holds(rig.memory, store.work.dst, K9)
    compute(rig, into, [*K1, *K2])  # nothing that r1 has kept is written by anybody else any more
    rig.run()
    assert holds(rig.memory, [ref.block for ref in into], [*K1, *K2])
    rig.ledger.finish(r1)
    rig.ledger.finish(r2)
    assert at_rest(rig)


# ---- I24: unmapped under a copy --------------------------------------------------------------------------------------


def stopping(rig: Rig) -> None:
    """A store and a load are under way, and the ledger is told to stop."""
    rig.only_in_host(K2)
    r1, r2 = rig.open(), rig.open()
    rig.offload(r1, rig.computed(r1, K1))
    rig.load(r2, K2)
    assert len(rig.flying()) == 2
    assert rig.ledger.drain() is True
    assert refused(rig.ledger.open("test")).reason == "the ledger is draining and takes no new work"
    rig.ledger.finish(r1)
    rig.ledger.abort(r2)


def test_i24_memory_goes_when_the_last_copy_is_proved_over() -> None:
    rig = Rig(device=3, host=3)
    stopping(rig)
    assert "is flying" in refused(rig.ledger.shut()).reason
    turn = rig.wait(1.0)  # the grace is over: nobody waits any longer
    assert (len(turn.jobs), len(turn.settled)) == (1, 1)
    assert "is lost" in refused(rig.ledger.shut()).reason
    store, load = rig.copier.in_flight()
    rig.copier.land(load.serial)  # so late, and in memory that is still there
    assert "is lost" in refused(rig.ledger.shut()).reason
    assert len(rig.copier.close(within=0.0)) == 1, "the store would still touch memory"
    assert rig.engine.fence() == 2
    assert store.over
    assert rig.ledger.shut() is True
    assert rig.copier.close(within=0.0) == ()
    assert at_rest(rig)
    with pytest.raises(HandError):
        rig.copier.land(store.serial)


def test_i24_a_process_that_is_gone_is_a_proof_too() -> None:
    rig = Rig(device=3, host=3)
    stopping(rig)
    rig.wait(1.0)
    assert rig.ledger.fenced(0, "cpu", rig.copier.kill()) == 2
    assert rig.ledger.shut() is True


def test_i24_would_be_seen() -> None:
    """Where a silence counts as an end, the ledger is shut, and a copy writes into memory that may be unmapped."""
    rig = Rig(device=3, host=3, law=break_law("timeout-frees"))
    stopping(rig)
    rig.wait(1.0)
    assert rig.ledger.shut() is True
    store, _ = rig.copier.in_flight()
    before = rig.memory.bytes_of(store.work.dst[0]).copy()
    rig.copier.land(store.serial)
    assert not np.array_equal(before, rig.memory.bytes_of(store.work.dst[0]))


# ---- I26: set to zero, to be safe ------------------------------------------------------------------------------------


def test_i26_a_count_that_is_wrong_frees_nothing() -> None:
    rig = Rig(device=2, host=2)
    rig.only_in_host(K1)
    r1 = rig.open()
    _, (b7,) = rig.load(r1, K1)
    (flight,) = rig.flying()
    (h3,) = flight.work.src
    rig.ledger.books.column("block", "readers")[h3] = 0  # a bug: a reader was given back that was never taken
    assert audit(rig.ledger) == [f"L8.recount: block {h3} has readers 0, the records say 1"]
    rig.copier.land(flight.serial)
    turn = rig.deliver(flight)
    assert turn.fatal is not None
    assert turn.fatal.law == "block.read_end"
    states = bytes(rig.ledger.books.block_state)
    for answer in (rig.ledger.allocate(r1, 1), rig.ledger.finish(r1), rig.ledger.lookup(r1, K1)):
        assert "poisoned" in refused(answer).reason
    assert rig.engine.poll().fatal == turn.fatal  # it is said in every turn
    assert bytes(rig.ledger.books.block_state) == states
    assert (rig.state(b7.block), rig.state(h3)) == (B.LOADING, B.ACTIVE)
    assert rig.flying() == []


# ---- I27: visible before it was there --------------------------------------------------------------------------------


def test_i27_a_store_that_failed_half_way_is_found_by_nobody() -> None:
    rig = Rig(device=2, host=2)
    r1 = rig.open()
    job = rig.offload(r1, rig.computed(r1, [*K1, *K2]))
    (flight,) = rig.flying()
    rig.copier.land(flight.serial, lines=1)
    rig.copier.deliver(flight.serial, Outcome.DENIED)
    (told,) = rig.engine.poll().jobs
    assert (told.job, told.ending, told.keys) == (job, Ending.FAILED, ())
    assert holds(rig.memory, flight.work.dst[:1], K1)  # it is there, and it is not a hit
    rig.ledger.finish(r1)
    rig.empty_device()
    r2 = rig.open()
    assert not rig.look_up(r2, [*K1, *K2])
    rig.offload(r2, rig.computed(r2, [*K1, *K2]))
    rig.run()
    rig.ledger.finish(r2)
    rig.empty_device()
    r3 = rig.open()
    _, into = rig.load(r3, [*K1, *K2])
    assert only_load(rig.run()).ending is Ending.PROCEED
    assert holds(rig.memory, [ref.block for ref in into], [*K1, *K2])


def test_i27_what_a_load_has_brought_is_no_hit_before_all_of_it_was_checked() -> None:
    rig = Rig(parts=1)
    rig.only_in_host([*K1, *K2])
    r1, r2 = rig.open(), rig.open()
    _, into = rig.load(r1, [*K1, *K2])
    for flight in rig.flying():
        rig.copier.land(flight.serial)
        rig.deliver(flight)
    assert holds(rig.memory, [ref.block for ref in into], [*K1, *K2])
    first, second = rig.flying()  # the checks
    rig.copier.land(first.serial)
    rig.deliver(first)
    assert rig.look_up(r2, K1).pending
    rig.copier.land(second.serial)
    assert only_load([rig.deliver(second)]).ending is Ending.PROCEED
    assert rig.look_up(r2, [*K1, *K2]).blocks == tuple(into)


# ---- I28: the last future --------------------------------------------------------------------------------------------


def test_i28_every_job_of_a_request_holds_its_own_blocks() -> None:
    rig = Rig(device=3, host=3)
    r1, r2 = rig.open(), rig.open()
    jobs = [rig.offload(r1, rig.computed(r1, keys)) for keys in (K1, K2, K3)]
    first, second, third = rig.flying()
    rig.ledger.finish(r1)
    rig.copier.land(third.serial)
    assert [verdict.job for verdict in rig.deliver(third).jobs] == jobs[2:]
    assert short(rig.ledger.allocate(r2, 3)).draining == 2
    compute(rig, rig.allocate(r2, 1), K9)  # the block of the one that is over
    for flight, job in ((second, jobs[1]), (first, jobs[0])):
        rig.copier.land(flight.serial)
        assert [(told.job, told.ending) for told in rig.deliver(flight).jobs] == [(job, Ending.COMMITTED)]
    compute(rig, rig.allocate(r2, 2), [*K9, *K9])
    for flight, keys in ((first, K1), (second, K2), (third, K3)):
        assert holds(rig.memory, flight.work.dst, keys)


# ---- I30: the writer on another machine, who is known by a hold ------------------------------------------------------


def write_from_afar(rig: Rig, refs: Sequence[BlockRef]) -> None:
    """Another machine writes K1 there by itself; no copier of ours knows of it."""
    for ref in refs:
        rig.memory.bytes_of(ref.block)[:] = stamp(K1[0], BLOCK)


def test_i30_a_hold_keeps_blocks_for_a_writer_that_nobody_here_started() -> None:
    rig = Rig(device=3, host=1)
    r1, r2 = rig.open(), rig.open()
    remote = rig.allocate(r1, 2)
    token = got(rig.ledger.hold(r1, remote, deadline=10.0))
    assert got(rig.ledger.abort(r1)).draining == 2
    theirs = rig.allocate(r2, 1)
    rig.engine.fence()  # says nothing of a writer elsewhere
    assert short(rig.ledger.allocate(r2, 2)).draining == 2
    write_from_afar(rig, remote)
    assert untouched(rig, theirs)
    rig.inbox.put(Report(token, Outcome.DONE))
    rig.engine.poll()
    more = rig.allocate(r2, 2)
    assert sorted(more) == [BlockRef(ref.block, ref.generation + 1) for ref in sorted(remote)]
    assert untouched(rig, [*theirs, *more])


def test_i30_a_writer_that_says_nothing_keeps_its_blocks() -> None:
    rig = Rig(device=1, host=1)
    r1, r2 = rig.open(), rig.open()
    remote = rig.allocate(r1, 1)
    token = got(rig.ledger.hold(r1, remote, deadline=10.0))
    rig.ledger.abort(r1)
    rig.wait(10.0)
    assert rig.state(remote[0].block) is B.QUARANTINED
    rig.wait(1000.0)
    assert short(rig.ledger.allocate(r2, 1)).quarantined == 1
    write_from_afar(rig, remote)
    rig.inbox.put(Report(token, Outcome.CANCELLED))  # its access to our memory is revoked
    rig.engine.poll()
    assert untouched(rig, rig.allocate(r2, 1))


def test_i30_would_be_seen() -> None:
    rig = Rig(device=1, host=1, law=break_law("timeout-frees"))
    r1, r2 = rig.open(), rig.open()
    remote = rig.allocate(r1, 1)
    got(rig.ledger.hold(r1, remote, deadline=10.0))
    rig.ledger.abort(r1)
    rig.wait(10.0)
    theirs = rig.allocate(r2, 1)
    write_from_afar(rig, remote)
    assert not untouched(rig, theirs)


# ---- I32: loaded, and another's --------------------------------------------------------------------------------------


def test_i32_what_arrived_is_compared_with_what_was_asked_for() -> None:
    """The copies are all done; one has brought another key's bytes, whole and with a sum that is right."""
    rig = Rig(device=4, host=5, parts=1)
    rig.only_in_host([*K1, *K2, *K3, *K9])
    r1, r2 = rig.open(), rig.open()
    slots = rig.look_up(r1, [*K1, *K2, *K3]).blocks
    stored(rig.memory, [slots[1].block], K9)
    _, into = rig.load(r1, [*K1, *K2, *K3])
    for flight in rig.flying():
        rig.copier.land(flight.serial)
        assert rig.deliver(flight).loads == ()
    assert holds(rig.memory, [into[1].block], K9)
    verdict = only_load(rig.run())
    assert (verdict.ending, verdict.tokens) == (Ending.RECOMPUTE, 0)
    assert [(error.code, error.block) for error in verdict.errors] == [(Code.KEY_MISMATCH, slots[1].block)]
    assert len(rig.look_up(r2, [*K1, *K2, *K3]).blocks) == 1  # K2 is condemned; the others did nothing wrong
    compute(rig, into, [*K1, *K2, *K3])
    rig.run()
    assert holds(rig.memory, [ref.block for ref in into], [*K1, *K2, *K3])


def test_i32_a_bit_that_flips_on_the_way_is_seen_where_it_arrives() -> None:
    rig = Rig(device=1, host=1)
    rig.only_in_host(K1)
    r1 = rig.open()
    _, (b7,) = rig.load(r1, K1)
    (flight,) = rig.flying()
    rig.copier.land(flight.serial)
    rig.memory.bytes_of(b7.block)[11] ^= 0x04
    rig.deliver(flight)
    verdict = only_load(rig.run())
    assert [error.code for error in verdict.errors] == [Code.CRC_MISMATCH]
    assert not rig.look_up(r1, K1)


# ---- I34: the staging buffer that was overwritten --------------------------------------------------------------------


def half_read(rig: Rig) -> tuple[Flight, Sequence[BlockRef], Sequence[BlockRef], int]:
    """A load out of all host slots is half way, its request is gone; r2 has K9 twice, to store in the same slots."""
    rig.only_in_host([*K1, *K2])
    r1, r2 = rig.open(), rig.open()
    _, into = rig.load(r1, [*K1, *K2])
    (flight,) = rig.flying()
    rig.copier.land(flight.serial, lines=1)
    theirs = rig.computed(r2, [*K3, *K9])
    rig.ledger.abort(r1)
    return flight, into, theirs, r2


def test_i34_a_slot_that_is_read_takes_nothing_else() -> None:
    rig = Rig(device=4, host=2)
    flight, into, theirs, r2 = half_read(rig)
    assert "no room in host" in refused(rig.ledger.offload(r2, theirs)).reason
    rig.copier.land(flight.serial)
    assert holds(rig.memory, [ref.block for ref in into], [*K1, *K2])  # what the read brings is of one piece
    rig.deliver(flight)
    rig.offload(r2, theirs)
    rig.run()
    assert holds(rig.memory, flight.work.src, [*K3, *K9]) or holds(rig.memory, flight.work.src[::-1], [*K3, *K9])
    rig.ledger.finish(r2)
    assert at_rest(rig)


def test_i34_would_be_seen() -> None:
    """The same where a silence counts as an end: the read brings a mixture of two requests."""
    rig = Rig(device=4, host=2, law=break_law("timeout-frees"))
    flight, into, theirs, r2 = half_read(rig)
    rig.wait(1.0)
    rig.offload(r2, theirs)
    for store in rig.flying():
        if store is not flight:
            rig.copier.land(store.serial)
    rig.copier.land(flight.serial)
    assert holds(rig.memory, [into[0].block], K1)
    assert not holds(rig.memory, [into[1].block], K2)


# ---- I35: the late success -------------------------------------------------------------------------------------------


def test_i35_slots_of_a_store_that_failed_are_its_own_until_all_of_it_has_stopped() -> None:
    rig = Rig(device=4, host=3, parts=1)
    r1, r2 = rig.open(), rig.open()
    job = rig.offload(r1, rig.computed(r1, [*K1, *K2, *K3]))
    theirs = rig.computed(r2, K9)
    first, second, third = rig.flying()
    rig.copier.deliver(first.serial, Outcome.DENIED)
    assert rig.engine.poll().jobs == ()
    assert "no room in host" in refused(rig.ledger.offload(r2, theirs)).reason
    rig.copier.land(second.serial)
    assert rig.deliver(second).jobs == ()
    rig.copier.land(third.serial)
    (told,) = rig.deliver(third).jobs
    assert (told.job, told.ending) == (job, Ending.FAILED)
    rig.offload(r2, theirs)
    (store,) = rig.flying()
    rig.copier.land(store.serial)
    rig.deliver(store)
    for flight in (second, third):  # what they say once more is about nobody's slot
        rig.deliver(flight)
    assert rig.ledger.books.stale == 2
    assert holds(rig.memory, store.work.dst, K9)


@pytest.mark.parametrize("broken", [False, True])
def test_i35_a_success_that_is_later_than_the_lapse(broken: bool) -> None:
    """Told and given up, its slot is kept. Where a silence counts as an end, the late bytes are on somebody else's."""
    rig = Rig(device=2, host=1, law=break_law("timeout-frees") if broken else None)
    r1, r2 = rig.open(), rig.open()
    got(rig.ledger.offload(r1, rig.computed(r1, K1), deadline=1.0))
    theirs = rig.computed(r2, K9)
    (late,) = rig.flying()
    rig.wait(1.0)
    assert [told.ending for told in rig.wait(1.0).jobs] == [Ending.FAILED]
    stored_too = rig.ledger.offload(r2, theirs)
    if broken:
        store = rig.flying()[-1]
        rig.copier.land(store.serial)
        rig.deliver(store)
        rig.copier.land(late.serial)
        assert holds(rig.memory, late.work.dst, K1)
        assert rig.ledger.books.keys.find(1, "test", K9[0]) >= 0, "K9 is a hit, and its slot holds K1"
        return
    assert "no room in host" in refused(stored_too).reason
    assert rig.state(late.work.dst[0]) is B.QUARANTINED
    rig.copier.land(late.serial)
    rig.deliver(late)
    rig.offload(r2, theirs)
    rig.run()
    assert holds(rig.memory, late.work.dst, K9)


# ---- I36: the slow read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", [False, True])
def test_i36_a_read_that_outlives_its_load_reads_what_it_began_to_read(broken: bool) -> None:
    """The slot is kept for it. Where a silence counts as an end, it brings what was put there since."""
    rig = Rig(device=2, host=1, law=break_law("timeout-frees") if broken else None)
    rig.only_in_host(K1)
    r1, r2 = rig.open(), rig.open()
    _, (b7,) = rig.load(r1, K1, seconds=1.0)
    theirs = rig.computed(r2, K9)
    (slow,) = rig.flying()
    verdict = only_load([rig.wait(1.0)])
    assert (verdict.ending, verdict.left) == (Ending.RECOMPUTE, (b7.block,))
    assert len(rig.wait(1.0).settled) == 1
    rig.wait(60.0)
    stored_too = rig.ledger.offload(r2, theirs)
    if broken:
        store = rig.flying()[-1]
        rig.copier.land(store.serial)
        rig.copier.land(slow.serial)
        assert holds(rig.memory, [b7.block], K9)
        return
    assert "no room in host" in refused(stored_too).reason
    assert short(rig.ledger.allocate(r2, 1)).quarantined == 1
    rig.copier.land(slow.serial)
    assert holds(rig.memory, [b7.block], K1)
    rig.deliver(slow)
    rig.offload(r2, theirs)
    rig.run()
    rig.ledger.finish(r1)
    rig.ledger.finish(r2)
    assert at_rest(rig)


# ---- I37: planned and never launched ---------------------------------------------------------------------------------


def test_i37_a_plan_that_is_called_off_gives_everything_back_and_moves_nothing() -> None:
    rig = Rig(device=2, host=2, jobs=1)
    r1 = rig.open()
    running = rig.offload(r1, rig.computed(r1, K1))
    planned = rig.offload(r1, rig.computed(r1, K2))
    (flight,) = rig.flying()
    free = short(rig.ledger.allocate(r1, 9)).free
    rig.ledger.finish(r1)
    assert rig.ledger.cancel(planned) is True
    assert [(told.job, told.ending) for told in rig.engine.poll().jobs] == [(planned, Ending.CANCELLED)]
    r2 = rig.open()
    assert short(rig.ledger.allocate(r2, 9)).free == free + 1
    rig.copier.deliver(flight.serial, Outcome.DENIED)
    assert [(told.job, told.ending) for told in rig.engine.poll().jobs] == [(running, Ending.FAILED)]  # r1 is long gone
    rig.ledger.finish(r2)
    assert rig.flying() == []
    assert not rig.memory.pools[1].array.any()
    assert at_rest(rig)


def test_i37_a_plan_that_waits_in_the_engine_never_reaches_a_copier() -> None:
    rig = Rig(device=1, host=1)
    r1 = rig.open()
    refs = rig.allocate(r1, 1)
    assert rig.engine.step_dispatched(41, [r1])
    assert all(got(rig.ledger.seal(r1, refs, K1)))
    job = rig.offload(r1, refs)
    assert rig.flying() == []
    assert rig.ledger.cancel(job) is True
    rig.engine.pump()
    assert [(told.job, told.ending) for told in rig.engine.poll().jobs] == [(job, Ending.CANCELLED)]
    compute(rig, refs, K1)
    assert rig.engine.step_retired(41)
    assert rig.flying() == []
    assert not rig.memory.pools[1].array.any()
    rig.ledger.finish(r1)
    assert at_rest(rig)
