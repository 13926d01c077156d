"""What is rare: offers that can't be summed, two offers of the same blocks, a successor, a party that broke."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import Kind, Outcome, Report, Work
from kvstate.machines.verdicts import Ending, Hit
from kvstate.peers.words import Gone, Met
from kvstate.runtime.handoffs import Handoffs
from kvstate.runtime.kv import KVRuntime
from tests.handoffs.rig import SPACE, Side, keys, pair, settings


def joined(side: Side) -> Handoffs:
    """What joins a side to its peers."""
    assert side.kv.handoffs is not None
    return side.kv.handoffs


def test_blocks_that_cannot_be_summed_are_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a verdict and a trouble, and the blocks are given back."""
    with pair() as two:

        def broken(blocks: object) -> tuple[bytes, ...]:
            raise OSError("the memory is gone")

        monkeypatch.setattr(joined(two.producer).copiers[0], "seal", broken)
        lease, refs = two.producer.prompt(2)
        number = two.producer.kv.offer(lease, refs, to="decode", request=b"r")
        two.until(lambda: two.producer.ends, "the verdict")
        (end,) = two.producer.ends
        assert (end.number, end.end, end.code, end.vouched) == (number, "withdrawn", Code.INTERNAL, False)
        assert any("the memory is gone" in sentence for sentence in two.producer.troubles)
        two.producer.kv.finish(lease)
        assert two.producer.kv.rest() == []


def test_an_offer_withdrawn_while_it_is_summed_keeps_its_blocks_until_nobody_reads_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The verdict comes at once; the memory, when the thread that reads it is done (law L3)."""
    go = threading.Event()
    with pair(blocks=2) as two:
        copier = joined(two.producer).copiers[0]
        seal = copier.seal

        def slow(blocks: Any) -> tuple[bytes, ...]:
            go.wait(20.0)
            return seal(blocks)

        monkeypatch.setattr(copier, "seal", slow)
        lease, refs = two.producer.prompt(2)
        number = two.producer.kv.offer(lease, refs, to="decode", request=b"r")
        assert isinstance(number, int)
        two.producer.turn()
        assert two.producer.kv.withdraw(number) is True
        two.producer.turn()
        assert [end.end for end in two.producer.ends] == ["withdrawn"]
        two.producer.kv.finish(lease)
        other = two.producer.kv.open(SPACE)
        assert isinstance(other, int)
        assert not two.producer.kv.allocate(other, 1), "the thread may still read them"
        go.set()
        two.until(lambda: two.producer.kv.allocate(other, 2), "the blocks")


def test_of_two_offers_of_the_same_blocks_the_second_stands_in_when_the_first_is_over() -> None:
    """A prefix that two requests share is offered twice; one handle at a time stands for it."""
    with pair() as two:
        _, first, _, one = two.offered(3)
        lease, refs = two.producer.kv.open(SPACE), None
        assert isinstance(lease, int)
        hit = two.producer.kv.lookup(lease, keys(3))
        assert isinstance(hit, Hit)
        refs = hit.blocks
        assert isinstance(two.producer.kv.offer(lease, refs, to="decode", request=b"again"), int)
        two.until(lambda: len(two.consumer.offers) == 2, "the second offer")
        assert [one.named, two.consumer.offers[1].named] == [3, 0]
        two.producer.kv.withdraw(first)
        two.until(lambda: two.consumer.ends, "the end of the first")
        _, _, got = two.consumer.borrow(3)
        two.until(lambda: two.consumer.loads, "the load's verdict")
        assert two.consumer.loads[0].ending == Ending.PROCEED, "it was loaded under the second offer"
        assert two.consumer.wrong(list(got.blocks), keys(3)) == []


def test_a_successor_under_the_same_name_is_another_peer() -> None:
    """What was offered to the one is over; what is offered to the other is its own."""
    with pair() as two:
        lease, _, _, _ = two.offered(2)
        two.consumer.kv.close()
        two.until_alone(lambda: two.producer.ends, "the end of the first life")
        assert two.producer.ends[0].end == "lost"
        assert any(isinstance(news, Gone) for news in two.producer.peers)
        two.producer.peers.clear()
        with KVRuntime(settings("decode", borrows=True)) as kv:
            successor = Side(kv)
            kv.greet("prefill", two.producer.kv.listens_at)
            two.consumer = successor
            two.until(lambda: two.producer.peers and successor.peers, "the greeting")
            assert isinstance(two.producer.peers[-1], Met)
            refs = two.producer.kv.lookup(lease, keys(2)).blocks  # type: ignore[union-attr]
            assert isinstance(two.producer.kv.offer(lease, refs, to="decode", request=b"r"), int)
            two.until(lambda: successor.offers, "the offer to the successor")
            _, _, got = successor.borrow(2)
            two.until(lambda: successor.loads, "the load's verdict")
            assert successor.loads[0].ending == Ending.PROCEED
            assert successor.wrong(list(got.blocks), keys(2)) == []


def test_when_the_party_broke_nothing_that_needs_a_word_counts() -> None:
    """A fault of ours is no reason to believe a copy; and other reports pass."""
    with pair() as two:
        two.offered(2)
        handoffs = joined(two.consumer)
        seen: list[Work] = []
        two.consumer.kv.engine.tap = lambda effect: seen.append(effect) if isinstance(effect, Work) else None
        two.consumer.borrow(2)
        handoffs.party.broken = "a row that can't be"
        two.until(lambda: two.consumer.loads, "the load's verdict")
        assert two.consumer.loads[0].ending == Ending.RECOMPUTE
        assert {error.code for error in two.consumer.loads[0].errors} == {Code.INTERNAL}
        verify = next(work for work in seen if work.kind == Kind.VERIFY)
        passed = Report(verify.token._replace(serial=10**6), Outcome.DONE)
        assert handoffs.sieve(passed) == [passed]
        refused = two.consumer.kv.offer(1, [], to="prefill", request=b"")
        assert not refused
