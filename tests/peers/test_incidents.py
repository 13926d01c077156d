"""Incidents of real engines between two processes, each as one run on two real ledgers: I17, I30, I31, I36."""

from __future__ import annotations

from kvstate.errors.codes import Code
from kvstate.machines.verdicts import Ending, Grant, Short
from kvstate.peers.words import Handoff
from tests.peers.two import SPACE, Two

KEYS = [b"k1", b"k2"]


def begun(two: Two) -> tuple[Handoff, int]:
    """An offer that has arrived, and a load of it that is under way."""
    handoff = two.producer.prefill(b"r1", KEYS)
    assert handoff is not None
    two.producer.finish(b"r1")
    two.deliver_all()
    load = two.consumer.request(handoff, until=1e6)
    assert load is not None
    return handoff, load


def test_what_is_read_in_time_is_committed() -> None:
    two = Two()
    begun(two)
    while two.consumer.flights or two.wire:
        two.run_copies()
        two.deliver_all()
    assert [(one.ending, one.blocks) for one in two.consumer.verdicts] == [(Ending.PROCEED, 2)]
    assert two.consumer.wrong == []
    assert [one.end for one in two.producer.ends] == ["delivered"]
    assert [one.end for one in two.consumer.ends] == ["taken"]
    assert two.producer.ledger.rest() == []


def test_i17_the_lease_ran_out_and_the_block_was_reused() -> None:
    """The producer's lease ran out, the block was reused, the consumer read it; only a log line."""
    two = Two(renewals=0)
    begun(two)
    two.producer.overwrite()
    assert set(two.producer.memory.values()) >= {b"k1", b"k2"}, "held: nobody else got these blocks"
    two.tick(8, consumer=False)
    two.wire.clear()
    two.producer.overwrite()
    assert b"k1" not in two.producer.memory.values(), "an expired lease frees at once"
    two.run_copies()
    assert two.consumer.memory, "the copy went well, as far as the rank can tell"
    two.deliver_all()
    (verdict,) = two.consumer.verdicts
    assert (verdict.ending, verdict.blocks) == (Ending.RECOMPUTE, 0)
    assert {error.code for error in verdict.errors} == {Code.LEASE_EXPIRED}
    assert two.consumer.wrong == []
    assert [(one.end, one.vouched) for one in two.producer.ends] == [("expired", False)]


def test_i36_a_slow_read_outlives_its_lease() -> None:
    """A slow read outlived its lease and returned what had been overwritten, with the withdrawal long heard."""
    two = Two(renewals=0)
    begun(two)
    two.consumer.land(0)
    two.tick(8, consumer=False)
    two.deliver_all()
    assert [one.end for one in two.consumer.ends] == ["withdrawn"]
    two.producer.overwrite()
    two.run_copies()
    two.deliver_all()
    assert [one.blocks for one in two.consumer.verdicts] == [0]
    assert two.consumer.wrong == []
    assert two.consumer.ledger.rest() == []


def test_i30_the_decode_aborts_while_its_copy_still_writes() -> None:
    """Pages of an aborted decode were given to another before the write from the other machine had finished."""
    two = Two()
    _, load = begun(two)
    two.consumer.abort(load)
    two.settle()
    lease = two.consumer.ledger.open(SPACE)
    assert isinstance(lease, int)
    short = two.consumer.ledger.allocate(lease, 4)
    assert isinstance(short, Short), "the blocks drain until the copy is proved over"
    two.deliver_all()
    assert [(one.end, one.vouched) for one in two.producer.ends] == [("returned", False)]
    assert two.producer.ledger.rest() == [], "the producer waits for no reader"
    two.producer.overwrite()
    two.run_copies()
    two.deliver_all()
    assert isinstance(two.consumer.ledger.allocate(lease, 4), Grant)
    assert [one.ending for one in two.consumer.verdicts] == [Ending.ABORTED]


def test_i31_the_prefill_aborts_and_says_so() -> None:
    """The prefill aborted and did not tell the decode side, which waited 300 seconds each."""
    two = Two()
    handoff, load = begun(two)
    two.producer.party.withdraw(handoff)
    two.settle()
    assert two.producer.ledger.rest() == []
    two.wire.clear()
    two.tick(1)
    two.deliver_all()
    assert [(one.end, one.code) for one in two.consumer.ends] == [("withdrawn", Code.CANCELLED)]
    two.run_copies()
    two.deliver_all()
    assert [(one.load, one.ending) for one in two.consumer.verdicts] == [(load, Ending.RECOMPUTE)]
    assert [one.end for one in two.producer.ends] == ["withdrawn"]


def test_i31_before_there_is_a_block() -> None:
    """An abort before the first block: an offer of nothing, withdrawn, is an end for the request on the other side."""
    two = Two()
    handoff = two.producer.prefill(b"r9", [])
    assert handoff is not None
    two.producer.finish(b"r9")
    two.deliver_all()
    two.producer.party.withdraw(handoff)
    two.deliver_all()
    assert [(one.request, one.end) for one in two.consumer.ends] == [(b"r9", "withdrawn")]


def test_a_successor_has_other_bytes_in_the_same_block() -> None:
    two = Two()
    begun(two)
    two.restart()
    two.run_copies()
    two.deliver_all()
    two.tick(1)
    two.deliver_all()
    assert [one.end for one in two.consumer.ends] == ["lost"]
    assert {error.code for one in two.consumer.verdicts for error in one.errors} <= {Code.PEER_LOST, Code.LEASE_EXPIRED}
    assert two.consumer.wrong == []
