"""Incidents with real bytes where the engine allocates the device blocks by itself, and does not always wait.

What the ledger decides in each of them stands in `tests/scenarios/foreign`. Here the same steps are taken over real
memory. The engine's part is played by `Rig.gives`: whoever gets a block writes into it at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kvstate.errors import Code
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Hold, Unhold
from kvstate.machines.verdicts import Ending
from kvstate.replay.breaks import Broken, intact
from kvstate.runtime.engine import Engine
from tests.runtime.parts import fill, holds
from tests.runtime.rig import Rig, got, keys_of, only_load
from tests.scenarios.spec_mutants import changed

K1, K2, K5, K9 = (keys_of(number) for number in (1, 2, 5, 9))


class Foreign(Rig):
    """The device's blocks are the engine's."""

    def __init__(self, device: int = 2, host: int = 4, law: Broken | None = None) -> None:
        super().__init__(device, host)
        law = law or intact()
        pools = (PoolConfig("device", device, foreign=True), PoolConfig("host", host, verify=True))
        self.ledger = Ledger(LedgerConfig(pools=pools), machines=law.machines, couplings=law.couplings, acts=law.acts)
        self.engine = Engine(self.ledger, {"cpu": self.copier}, self.inbox, self.clock)

    def gives(self, blocks: Sequence[int], keys: Sequence[bytes] = ()) -> Sequence[BlockRef]:
        """The engine gives blocks away, and the new owner computes these into them."""
        refs = got(self.ledger.foreign_reused(blocks)).refs
        if keys:
            fill(self.memory, blocks, keys)
        return refs

    def store(self, refs: Sequence[BlockRef], keys: Sequence[bytes]) -> int:
        return got(self.ledger.offload(self.open(), refs, keys=keys)).job

    def on_host(self, keys: Sequence[bytes]) -> None:
        refs = self.gives(range(len(keys)), keys)
        self.store(refs, keys)
        self.run()
        assert got(self.ledger.foreign_freed(refs)).held == []

    def hit(self, keys: Sequence[bytes]) -> bool:
        """Is there a hit, and are its bytes those of the keys?"""
        found = self.look_up(self.open(), keys)
        if found:
            assert holds(self.memory, [ref.block for ref in found.blocks], keys)
        return bool(found)

    def taken(self) -> list[Hold | Unhold]:
        """What the engine was asked since the last look."""
        taken, self.engine.holds = self.engine.holds, []
        return taken


def test_i01_what_was_noted_of_an_earlier_life_is_not_stored() -> None:
    rig = Foreign()
    old = rig.gives([0], K1)
    assert got(rig.ledger.foreign_freed(old)).held == []
    new = rig.gives([0], K5)
    stored = got(rig.ledger.offload(rig.open(), [*old, *new], keys=[*K1, *K5]))
    assert stored.refs == new
    assert [line.ref for line in stored.dropped] == old
    rig.run()
    assert rig.hit(K5)
    assert not rig.hit(K1)


def race(law: Broken | None = None) -> tuple[Foreign, bool]:
    """I04: a store is under way, and its block is the next owner's before it has read it."""
    rig = Foreign(law=law)
    refs = rig.gives([0], K1)
    rig.store(refs, K1)
    (flight,) = rig.flying()
    assert got(rig.ledger.foreign_freed(refs)).held == refs
    rig.engine.pump()
    assert rig.taken() == [Hold(refs[0])]
    rig.gives([0], K9)  # it was asked to wait
    rig.copier.land(flight.serial)
    assert holds(rig.memory, flight.work.dst, K9), "the copy has read the next owner's bytes"
    told = rig.deliver(flight).jobs
    rig.run()
    committed = any(verdict.ending is Ending.COMMITTED for verdict in told)
    assert rig.taken() == []
    return rig, committed


def test_i04_the_next_owners_bytes_never_get_the_name_of_the_first() -> None:
    rig, committed = race()
    assert not committed
    assert not rig.hit(K1)


def test_i04_without_the_taint_they_do() -> None:
    """The bytes are the proof: over rows that believe a spoiled copy, K1 is a hit and holds K9."""
    whole = intact()
    broken = Broken(changed("P06", to="landed", effects=("let_go", "ok")), whole.couplings, whole.acts)
    rig, _ = race(broken)
    with pytest.raises(AssertionError):
        rig.hit(K1)


def test_i05_two_completions_give_each_block_back_once() -> None:
    rig = Foreign()
    rig.on_host(K2)
    stored, loaded = rig.gives([0], K1), rig.gives([1])
    lease = rig.open()
    got(rig.ledger.offload(lease, stored, keys=K1))
    got(rig.ledger.load(lease, rig.look_up(lease, K2), loaded, deadline=9.0))
    flights = rig.flying()
    rig.ledger.abort(lease)
    both = [*stored, *loaded]
    assert got(rig.ledger.foreign_freed(both)).held == both
    for flight in flights:
        rig.copier.land(flight.serial)
        rig.copier.deliver(flight.serial)
    rig.engine.poll()  # both are heard in one turn
    rig.run()
    assert sorted(rig.taken()) == sorted([*map(Hold, both), *map(Unhold, both)])
    assert rig.hit(K1)


def test_i08_a_load_that_landed_on_the_next_owner_is_stored_by_nobody() -> None:
    rig = Foreign()
    rig.on_host(K1)
    refs, lease = rig.gives([0]), rig.open()
    got(rig.ledger.load(lease, rig.look_up(lease, K1), refs, deadline=9.0))
    (flight,) = rig.flying()
    given = got(rig.ledger.foreign_reused([0]))
    assert given.writing == (0,), "and it is told"
    fill(rig.memory, [0], K9)
    rig.copier.land(flight.serial)
    assert holds(rig.memory, [0], K1), "the stray bytes have landed over the new ones"
    verdict = only_load([rig.deliver(flight)])
    assert verdict.ending is Ending.RECOMPUTE
    assert verdict.errors[0].code is Code.BLOCK_TAKEN
    refused = rig.ledger.offload(rig.open(), given.refs, keys=K9)
    assert not refused
    assert not rig.hit(K9)
    assert rig.hit(K1), "the key of the load has done nothing wrong"
    again = rig.gives([0], K9)
    rig.store(again, K9)
    rig.run()
    assert rig.hit(K9), "the next life is clean"


def test_i08_an_engine_that_waits_has_nothing_to_fear() -> None:
    rig = Foreign()
    rig.on_host(K1)
    refs, lease = rig.gives([0]), rig.open()
    got(rig.ledger.load(lease, rig.look_up(lease, K1), refs, deadline=9.0))
    (flight,) = rig.flying()
    assert got(rig.ledger.foreign_freed(refs)).held == refs
    rig.copier.land(flight.serial)
    rig.deliver(flight)
    assert rig.taken() == [Hold(refs[0]), Unhold(refs[0])]
    again = rig.gives([0], K9)
    rig.store(again, K9)
    rig.run()
    assert rig.hit(K9)
    assert holds(rig.memory, [0], K9)


def test_i13_a_store_that_was_put_off_reads_what_nobody_believes() -> None:
    rig = Foreign()
    lease = rig.open()
    refs = rig.gives([0])
    rig.engine.step_dispatched(41, [lease])
    job = got(rig.ledger.offload(lease, refs, keys=K1)).job
    assert rig.flying() == [], "the copy waits for the step"
    rig.ledger.preempt(lease)
    fill(rig.memory, [0], K1)
    rig.engine.step_retired(41)
    rig.gives([0], K9)
    turns = rig.run()
    [verdict] = [verdict for turn in turns for verdict in turn.jobs]
    assert (verdict.job, verdict.ending) == (job, Ending.FAILED)
    assert not rig.hit(K1)
