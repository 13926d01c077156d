"""Incidents with real bytes: whose bytes are where, when a copy lands that nobody waits for any more.

What the ledger decides in each of them stands in `tests/scenarios`. Here the same steps are taken over real memory,
with poison in every block that is given out, so that a byte which reaches the wrong owner is seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from kvstate.errors import Code
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Outcome
from kvstate.machines.tables.block import State as B
from kvstate.machines.tables.key import State as K
from kvstate.machines.verdicts import Ending, Refusal, Short
from kvstate.replay.breaks import break_law
from kvstate.replay.content import poison, write_many
from kvstate.runtime.copiers.hand import HandCopier
from kvstate.runtime.engine import Engine
from tests.runtime.parts import BLOCK, holds, stored
from tests.runtime.rig import SILENT, Rig, got, keys_of, only_load

K1, K2, K3, K4, K9 = (keys_of(number) for number in (1, 2, 3, 4, 9))


def untouched(rig: Rig, refs: Sequence[BlockRef]) -> bool:
    """Do these blocks hold the poison of this very life, every byte of it?"""
    return all(np.array_equal(rig.memory.bytes_of(ref.block), poison(*ref, BLOCK)) for ref in refs)


def compute(rig: Rig, refs: Sequence[BlockRef], keys: Sequence[bytes]) -> None:
    write_many(rig.memory.pools[0].array, [ref.block for ref in refs], keys)


# ---- I04: the store that read the next owner's bytes -----------------------------------------------------------------


def test_i04_a_queued_store_reads_what_it_was_given() -> None:
    rig = Rig(device=2, host=2, jobs=1)
    r0, r1 = rig.open(), rig.open()
    j0 = rig.offload(r0, rig.computed(r0, keys_of(0)))
    j1 = rig.offload(r1, rig.computed(r1, K1))
    (first,) = rig.flying()  # the second one is queued
    rig.ledger.preempt(r1)
    r2 = rig.open()
    assert got_short(rig.ledger.allocate(r2, 1)).draining == 1
    rig.copier.land(first.serial)
    assert [verdict.job for verdict in rig.deliver(first).jobs] == [j0]
    (second,) = rig.flying()
    assert got_short(rig.ledger.allocate(r2, 1)).draining == 1
    rig.copier.land(second.serial)
    assert [verdict.job for verdict in rig.deliver(second).jobs] == [j1]
    compute(rig, rig.allocate(r2, 1), K9)
    r3 = rig.open()
    hit = rig.look_up(r3, K1)
    assert hit.below == (0,)
    assert holds(rig.memory, [hit.blocks[0].block], K1)


def got_short(value: object) -> Short:
    assert isinstance(value, Short), value
    return value


# ---- I08: the load that landed on the next owner ---------------------------------------------------------------------


def test_i08_bytes_that_land_after_the_abort_reach_nobody() -> None:
    rig = Rig(device=2, host=2)
    rig.only_in_host(K1)
    r1, r2 = rig.open(), rig.open()
    _, (b7,) = rig.load(r1, K1)
    (flight,) = rig.flying()
    assert got(rig.ledger.abort(r1)).draining == 1
    theirs = rig.allocate(r2, 1)  # what r2 can have is another block
    assert got_short(rig.ledger.allocate(r2, 1)).draining == 1
    rig.copier.land(flight.serial)
    assert untouched(rig, theirs)
    assert rig.state(b7.block) is B.DRAINING
    rig.deliver(flight)
    again = rig.allocate(r2, 1)
    assert again == (BlockRef(b7.block, b7.generation + 1),)
    compute(rig, again, K9)
    rig.run()
    assert holds(rig.memory, [b7.block], K9)


def test_i08_would_be_seen() -> None:
    """The same steps where a block whose owner leaves is free at once: the poison of the next owner is gone."""
    rig = Rig(device=1, host=1, law=break_law("no-draining"))
    rig.only_in_host(K1)
    r1, r2 = rig.open(), rig.open()
    _, (b7,) = rig.load(r1, K1)
    (flight,) = rig.flying()
    assert got(rig.ledger.abort(r1)).free == 1
    theirs = rig.allocate(r2, 1)
    assert untouched(rig, theirs)
    rig.copier.land(flight.serial)
    assert holds(rig.memory, [b7.block], K1)
    assert not untouched(rig, theirs)


def test_i08_a_report_in_the_inbox_is_not_yet_a_proof_that_anybody_has_read() -> None:
    rig = Rig(device=1, host=1)
    rig.only_in_host(K1)
    r1, r2 = rig.open(), rig.open()
    _, (b7,) = rig.load(r1, K1)
    (flight,) = rig.flying()
    rig.copier.land(flight.serial)
    rig.copier.deliver(flight.serial)
    assert got(rig.ledger.abort(r1)).draining == 1
    assert got_short(rig.ledger.allocate(r2, 1)).free == 0
    rig.engine.poll()
    assert rig.allocate(r2, 1) == (BlockRef(b7.block, b7.generation + 1),)


# ---- I09: the hit that failed for ever -------------------------------------------------------------------------------


def test_i09_bad_bytes_condemn_their_key() -> None:
    rig = Rig()
    keys = keys_of(1, 2, 3)
    rig.only_in_host(keys)
    lease = rig.open()
    bad = rig.look_up(lease, keys).blocks[1]
    rig.memory.bytes_of(bad.block)[5] ^= 0x40  # a bit flips while the block rests
    rig.ledger.finish(lease)

    lease = rig.open()
    _, into = rig.load(lease, keys)
    verdict = only_load(rig.run())
    assert (verdict.ending, verdict.tokens) == (Ending.RECOMPUTE, 0)
    (error,) = verdict.errors
    assert (error.code, error.stage, error.block, error.generation) == (Code.CRC_MISMATCH, "verify", *bad)
    assert (error.attempt, error.retryable) == (1, False)
    assert set(verdict.kept) == {ref.block for ref in into}  # nobody writes them: the request computes into them

    rig.wait(1000.0)
    for _ in range(3):
        assert len(rig.look_up(lease, keys).blocks) == 1
    slot = rig.ledger.books.keys.find(1, "test", keys[1])
    assert rig.ledger.books.keys.state[slot] == K.CONDEMNED
    assert rig.ledger.rest() == [f"lease {lease} is open"]

    compute(rig, into, keys)
    got(rig.ledger.seal(lease, into, keys))
    rig.offload(lease, into)
    rig.run()
    rig.ledger.finish(lease)
    rig.empty_device()
    lease = rig.open()
    _, into = rig.load(lease, keys)
    assert only_load(rig.run()).ending is Ending.PROCEED
    assert holds(rig.memory, [ref.block for ref in into], keys)


def test_i09_a_slot_that_holds_another_key_is_condemned_too() -> None:
    """The bytes are sound and their sum is right: they are only somebody else's."""
    rig = Rig()
    rig.only_in_host(keys_of(1))
    lease = rig.open()
    (host,) = rig.look_up(lease, K1).blocks
    stored(rig.memory, [host.block], K2)
    _, _ = rig.load(lease, K1)
    verdict = only_load(rig.run())
    assert [error.code for error in verdict.errors] == [Code.KEY_MISMATCH]
    rig.wait(1000.0)
    assert not rig.look_up(lease, K1)


# ---- I14: the step that still writes ---------------------------------------------------------------------------------


def test_i14_a_block_that_a_step_still_writes_is_loaded_into_by_nobody() -> None:
    rig = Rig(device=1, host=1)
    rig.only_in_host(K1)
    r1, r2 = rig.open(), rig.open()
    (b7,) = rig.allocate(r1, 1)
    assert rig.engine.step_dispatched(41, [r1])
    assert got(rig.ledger.finish(r1)).draining == 1
    assert got_short(rig.ledger.allocate(r2, 1)).draining == 1
    rig.engine.fence()  # a proof of the copier says nothing of a kernel
    assert got_short(rig.ledger.allocate(r2, 1)).draining == 1
    compute(rig, [b7], K9)  # the step gets to it
    assert rig.engine.step_retired(41)
    _, into = rig.load(r2, K1)
    assert into == (BlockRef(b7.block, b7.generation + 1),)
    assert only_load(rig.run()).ending is Ending.PROCEED
    assert holds(rig.memory, [b7.block], K1)


def test_i14_a_lease_that_is_out_on_a_step_is_not_loaded_into() -> None:
    rig = Rig(device=1, host=1)
    rig.only_in_host(K1)
    lease = rig.open()
    rig.engine.step_dispatched(1, [lease])
    hit = rig.look_up(lease, K1)
    into = rig.allocate(lease, 1)
    assert isinstance(rig.ledger.load(lease, hit, into, deadline=9.0), Refusal)
    assert rig.flying() == []


# ---- I19: the first failure of four ----------------------------------------------------------------------------------


def test_i19_three_copies_that_fly_on_reach_nobody() -> None:
    rig = Rig(parts=1)
    keys = [*K1, *K2, *K3, *K4]
    rig.only_in_host(keys)
    r1, r2 = rig.open(), rig.open()
    _, into = rig.load(r1, keys)
    first, *others = rig.flying()
    rig.copier.deliver(first.serial, Outcome.FAILED)
    assert rig.engine.poll().loads == ()
    closed = got(rig.ledger.preempt(r1))
    assert (closed.free, closed.draining) == (1, 3)
    assert got_short(rig.ledger.allocate(r2, 4)).draining == 3
    theirs = rig.allocate(r2, 1)
    assert theirs == (BlockRef(into[0].block, into[0].generation + 1),)
    for flight in others:
        rig.copier.land(flight.serial)
    assert untouched(rig, theirs)
    settled = [len(rig.deliver(flight).settled) for flight in others]
    assert settled == [0, 0, 1]
    rig.poison(rig.allocate(r2, 3))
    assert untouched(rig, theirs)


# ---- I30: the writer on another machine ------------------------------------------------------------------------------


@pytest.fixture
def remote() -> tuple[Rig, HandCopier]:
    """The device, a host pool, and a pool of a peer that writes into our memory by itself. The peer holds K1."""
    rig = Rig(device=1, host=4)
    rig.ledger = Ledger(
        LedgerConfig(pools=(PoolConfig("device", 1), PoolConfig("host", 3), PoolConfig("peer", 1, copier="peer")))
    )
    peer = HandCopier(rig.memory, rig.inbox, name="peer")
    rig.engine = Engine(rig.ledger, {"cpu": rig.copier, "peer": peer}, rig.inbox, rig.clock)
    lease = rig.open()
    got(rig.ledger.offload(lease, rig.computed(lease, K1), pool=2))
    rig.engine.pump()
    (flight,) = peer.in_flight()
    peer.land(flight.serial)
    peer.deliver(flight.serial)
    rig.engine.poll()
    rig.ledger.finish(lease)
    rig.empty_device()
    return rig, peer


def test_i30_a_remote_write_that_is_given_up_keeps_its_block(remote: tuple[Rig, HandCopier]) -> None:
    rig, peer = remote
    r1, r2 = rig.open(), rig.open()
    _, (b7,) = rig.load(r1, K1)
    (flight,) = peer.in_flight()
    assert got(rig.ledger.abort(r1)).draining == 1
    assert len(rig.wait(2.0).settled) == 1  # nobody waits for the peer any longer
    assert rig.state(b7.block) is B.QUARANTINED
    rig.ledger.reset()  # which proves nothing
    assert rig.engine.ledger.fenced(0, "cpu", 10**6) == 0  # nor does a proof of another copier
    assert got_short(rig.ledger.allocate(r2, 1)).quarantined == 1
    peer.land(flight.serial)
    peer.deliver(flight.serial)
    rig.engine.poll()
    theirs = rig.allocate(r2, 1)
    assert theirs == (BlockRef(b7.block, b7.generation + 1),)
    rig.run()
    assert untouched(rig, theirs)


def test_i30_a_silence_is_no_proof_and_the_end_of_the_process_is(remote: tuple[Rig, HandCopier]) -> None:
    rig, peer = remote
    r1, r2 = rig.open(), rig.open()
    _, (b7,) = rig.load(r1, K1)
    (flight,) = peer.in_flight()
    peer.deliver(flight.serial, SILENT)
    done = rig.engine.poll()
    assert only_load([done]).left == (b7.block,)
    assert rig.state(b7.block) is B.QUARANTINED
    assert got_short(rig.ledger.allocate(r1, 1)).quarantined == 1
    rig.ledger.fenced(0, "peer", peer.kill())
    theirs = rig.allocate(r2, 1)
    assert theirs == (BlockRef(b7.block, b7.generation + 1),)
    assert untouched(rig, theirs)
