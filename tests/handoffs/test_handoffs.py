"""A handoff from end to end: two runtimes, real messages, real copies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.verdicts import Ending, Hit, Refusal
from kvstate.peers.words import Goods, Met, Strange
from kvstate.runtime.peers.link import LinkLike
from tests.handoffs.rig import SPACE, keys, pair


@pytest.mark.parametrize("ranks", [1, 2])
def test_what_is_offered_is_a_hit_and_its_bytes_arrive_on_every_rank(ranks: int) -> None:
    """The producer's lease is long over when the consumer loads."""
    with pair(ranks=ranks) as two:
        lease, number, _, offered = two.offered(5, tokens=77)
        two.producer.kv.finish(lease)
        assert (offered.peer, offered.request, offered.tokens) == ("prefill", b"r0", 77)
        assert list(offered.keys) == keys(5)
        assert offered.named == 5
        _, _hit, refs = two.consumer.borrow(5)
        two.until(lambda: two.consumer.loads, "the load's verdict")
        assert two.consumer.loads[0].ending == Ending.PROCEED
        assert two.consumer.loads[0].blocks == 5
        assert two.consumer.wrong(list(refs.blocks), keys(5)) == []
        assert two.consumer.kv.close_offer(offered.number, taken=True) is True
        two.until(lambda: two.producer.ends and two.consumer.ends, "both verdicts")
        (ours,), (theirs,) = two.producer.ends, two.consumer.ends
        assert (ours.number, ours.side, ours.end, ours.code, ours.vouched) == (number, "lend", "delivered", 0, True)
        assert (theirs.number, theirs.side, theirs.end) == (offered.number, "borrow", "taken")


def test_offered_blocks_are_held_until_the_verdict_and_free_after_it() -> None:
    """L3 across processes: what a peer may read is not given away, however the lease ended."""
    with pair(blocks=4) as two:
        lease, _, _, offered = two.offered(4)
        two.producer.kv.finish(lease)
        two.producer.kv.reset()  # keys are gone, so the blocks would be free but for the hold; offers are withdrawn
        two.until(lambda: two.producer.ends, "the verdict")
        assert two.producer.ends[0].end == "withdrawn"
        assert two.producer.kv.ledger.books.pools[0].free.__len__() == 4
        two.until(lambda: two.consumer.ends, "the consumer's verdict")
        assert (two.consumer.ends[0].number, two.consumer.ends[0].end) == (offered.number, "withdrawn")


def test_held_blocks_are_not_given_to_anybody_while_the_offer_stands() -> None:
    """The pool is as large as the offer: nobody gets a block before the consumer has closed it."""
    with pair(blocks=4) as two:
        lease, _, _, offered = two.offered(4)
        two.producer.kv.finish(lease)
        other = two.producer.kv.open(SPACE)
        assert isinstance(other, int)
        assert not two.producer.kv.allocate(other, 1)
        two.consumer.kv.close_offer(offered.number, taken=False)
        two.until(lambda: two.producer.ends, "the verdict")
        assert two.producer.ends[0].end == "returned"
        two.producer.turn()
        assert two.producer.kv.allocate(other, 4)


@pytest.mark.parametrize("how", ["withdraw", "abort", "preempt"])
def test_an_abort_of_the_producer_ends_both_sides_and_no_load_counts(how: str) -> None:
    """I31: the other side does not wait for its own deadline."""
    with pair() as two:
        lease, number, _, offered = two.offered(3)
        assert two.producer.kv.withdraw(number) if how == "withdraw" else getattr(two.producer.kv, how)(lease)
        two.until(lambda: two.producer.ends and two.consumer.ends, "both verdicts")
        assert [end.end for end in (*two.producer.ends, *two.consumer.ends)] == ["withdrawn", "withdrawn"]
        assert two.producer.ends[0].code == Code.CANCELLED
        late = two.consumer.kv.open(SPACE)
        assert isinstance(late, int)
        hit = two.consumer.kv.lookup(late, keys(3))
        assert isinstance(hit, Hit)
        assert not hit.blocks, "what was withdrawn is a hit still"
        assert two.consumer.kv.close_offer(offered.number, taken=False) is False


def test_a_load_that_the_producer_does_not_vouch_for_is_computed_anew() -> None:
    """I17, I36: the lease ended before the copy; its bytes may be another's, and are not served."""
    with pair() as two:
        _, number, _, offered = two.offered(3)
        lease, _, refs = two.consumer.borrow(3)
        two.producer.kv.withdraw(number)
        two.producer.turn()  # its blocks are let go of before it hears of any check
        two.until(lambda: two.consumer.loads, "the load's verdict")
        verdict = two.consumer.loads[0]
        assert verdict.ending == Ending.RECOMPUTE
        assert verdict.blocks == 0
        assert {error.code for error in verdict.errors} <= {Code.LEASE_EXPIRED, Code.BLOCK_NOT_FOUND, Code.PEER_LOST}
        assert set(verdict.kept) == set(refs.blocks), "the copy is over, so the blocks stay with the lease"
        two.consumer.kv.close_offer(offered.number, taken=False)
        assert two.consumer.kv.finish(lease)


def test_a_flipped_byte_at_the_producer_is_caught_by_its_sum() -> None:
    """Integrity at the boundary: the sums go with the offer."""
    with pair() as two:
        _, _, refs, _ = two.offered(2)
        two.producer.kv.memories[0].bytes_of(refs.blocks[1])[7] ^= 1
        two.consumer.borrow(2)
        two.until(lambda: two.consumer.loads, "the load's verdict")
        assert {error.code for error in two.consumer.loads[0].errors} == {Code.CRC_MISMATCH}


def test_blocks_that_may_be_written_still_are_not_offered() -> None:
    """And neither are those of another lease, under another key, or to nobody."""
    with pair() as two:
        kv = two.producer.kv
        lease, refs = two.producer.prompt(2)
        open_block = kv.allocate(lease, 1)
        assert open_block
        said = {
            "open": kv.offer(lease, open_block.blocks, to="decode", request=b"", keys=keys(1, 9)),  # type: ignore[union-attr]
            "key": kv.offer(lease, refs, to="decode", request=b"", keys=keys(2, 5)),
            "nobody": kv.offer(lease, refs, to="decoy", request=b""),
            "lease": kv.offer(lease + 1, refs, to="decode", request=b""),
            "keys": kv.offer(lease, refs, to="decode", request=b"", keys=keys(1)),
        }
        assert all(isinstance(answer, Refusal) for answer in said.values()), said
        for word, answer in {"open": "only a sealed block", "key": "another key", "nobody": "not met"}.items():
            assert answer in said[word].reason  # type: ignore[union-attr]
        assert kv.finish(lease)
        assert kv.rest() == []


def test_a_peer_of_another_fingerprint_is_told_and_gets_nothing() -> None:
    """Both sides say in what they differ."""
    with pair(met=False, consumer={"fingerprint": "model-2"}) as two:
        two.until(lambda: two.producer.troubles and two.consumer.troubles, "what an operator reads")
        assert not [news for news in two.producer.peers if isinstance(news, Met)]
        assert any(isinstance(news, Strange) for news in two.producer.peers)
        assert "fingerprint" in two.producer.troubles[0]


def test_without_sums_nothing_is_summed() -> None:
    """Integrity off: the offer has no seals, and a load still needs the producer's word."""
    with pair(integrity="off") as two:
        _, _, refs, offered = two.offered(2)
        two.producer.kv.memories[0].bytes_of(refs.blocks[1])[7] ^= 1
        two.consumer.borrow(2)
        two.until(lambda: two.consumer.loads, "the load's verdict")
        assert two.consumer.loads[0].ending == Ending.PROCEED
        assert two.consumer.kv.close_offer(offered.number, taken=True)


def test_a_consumer_that_dies_gives_the_blocks_back() -> None:
    """Its goodbye is heard; without one, the lease runs out by the clock."""
    with pair() as two:
        lease, _, _, _ = two.offered(3)
        two.producer.kv.finish(lease)
        two.consumer.kv.close()
        two.until_alone(lambda: two.producer.ends, "the verdict")
        assert two.producer.ends[0].end == "lost"
        assert two.producer.kv.rest() == []
        lease, refs = two.producer.prompt(1, 9)
        again = two.producer.kv.offer(lease, refs, to="decode", request=b"r9")
        assert isinstance(again, Refusal), "there is nobody to offer anything to"


def test_a_reset_voids_what_was_offered_on_both_sides() -> None:
    """Weights may be others now: what a peer offered before is no hit, and what it has under way does not count."""
    with pair() as two:
        two.offered(3)
        lease, _, _ = two.consumer.borrow(3)
        two.consumer.kv.reset()
        two.until(lambda: two.consumer.loads and two.consumer.ends and two.producer.ends, "all ends")
        assert two.consumer.ends[0].end == "refused"
        assert two.producer.ends[0].end == "returned"
        two.consumer.kv.finish(lease)
        late = two.consumer.kv.open(SPACE)
        assert isinstance(late, int)
        hit = two.consumer.kv.lookup(late, keys(3))
        assert isinstance(hit, Hit)
        assert not hit.blocks, "what was offered before the reset is a hit after it"


def test_a_refused_abort_withdraws_nothing() -> None:
    """A refusal changes nothing; what a finished lease has offered is withdrawn by its number."""
    with pair() as two:
        lease, number, _, _ = two.offered(2)
        two.producer.kv.finish(lease)
        assert isinstance(two.producer.kv.abort(lease), Refusal)
        assert isinstance(two.producer.kv.preempt(lease), Refusal)
        two.producer.turn()
        assert two.producer.ends == []
        assert two.producer.kv.withdraw(number) is True


@pytest.mark.parametrize("given", [{"request": "r1"}, {"tokens": -1}, {"tokens": "7"}])
def test_an_offer_of_another_type_is_refused_at_once(given: dict[str, Any]) -> None:
    """The peer would not read it, and nobody would be told why."""
    with pair() as two:
        lease, refs = two.producer.prompt(1)
        said = two.producer.kv.offer(lease, refs, to="decode", **{"request": b"r", **given})
        assert isinstance(said, Refusal)
        assert "request is bytes, and tokens a number" in said.reason
        two.producer.kv.finish(lease)
        assert two.producer.kv.rest() == []


@pytest.mark.parametrize("seals", [((b"s",),), ((b"s",),) * 3])
def test_an_offer_with_seals_of_other_ranks_is_counted_and_no_poll_raises(seals: tuple[tuple[bytes, ...], ...]) -> None:
    """What a peer sends is believed in nothing: a rank without its seals would be an index that is not there."""
    with pair(ranks=2) as two:
        assert two.producer.kv.handoffs is not None
        assert two.consumer.kv.handoffs is not None
        goods = Goods(b"r", 1, (SPACE,), tuple(keys(1)), (0,), (0,), seals)
        assert two.producer.kv.handoffs.party.offer("decode", goods)
        counts = two.consumer.kv.handoffs.party
        two.until(lambda: counts.counts.get("unreadable"), "the offer")
        assert two.consumer.offers == []


def test_a_peer_without_addresses_is_met_and_its_blocks_fail_by_code() -> None:
    """Another implementation may leave them out; no poll raises, and a load of its blocks is computed."""
    with pair(met=False) as two:
        assert two.producer.kv.handoffs is not None
        books = two.producer.kv.handoffs.party.books
        books.terms = replace(books.terms, addresses=())
        two.until(lambda: two.producer.peers and two.consumer.peers, "the greeting")
        two.offered(2)
        two.consumer.borrow(2)
        two.until(lambda: two.consumer.loads, "the load's verdict")
        assert two.consumer.loads[0].ending == Ending.RECOMPUTE


class Deaf:
    """A link on which nothing is sent any more."""

    def __init__(self, link: LinkLike) -> None:
        self.receive, self.close = link.receive, link.close

    def send(self, peer: str, message: bytes) -> None:
        """Lost."""


def test_without_the_producers_word_no_copy_counts_however_right_its_bytes_look() -> None:
    """I17: the lease was over, the block reused, the copy late. Nothing is summed, and no message comes through."""
    with pair(integrity="off", consumer={"patience": 0.5}) as two:
        lease, number, refs, _ = two.offered(2)
        assert two.producer.kv.handoffs is not None
        two.producer.kv.handoffs.link = Deaf(two.producer.kv.handoffs.link)
        two.producer.kv.withdraw(number)
        two.producer.kv.finish(lease)
        two.producer.write(list(refs.blocks), keys(2, 50))  # they are another's now
        two.consumer.borrow(2)
        two.until(lambda: two.consumer.loads, "the load's verdict")
        verdict = two.consumer.loads[0]
        assert (verdict.ending, verdict.blocks) == (Ending.RECOMPUTE, 0), "another's bytes were served"
        assert {error.code for error in verdict.errors} <= {Code.LOAD_TIMEOUT, Code.PEER_LOST, Code.LEASE_EXPIRED}


def test_who_serves_nobody_borrows_and_offers_nothing() -> None:
    with pair(consumer={"serves": False}) as two:
        two.offered(3)
        _, _hit, refs = two.consumer.borrow(3)
        two.until(lambda: two.consumer.loads, "the load's verdict")
        assert two.consumer.loads[0].ending == Ending.PROCEED
        assert two.consumer.wrong(list(refs.blocks), keys(3)) == []
        lease, mine = two.consumer.prompt(2, first=7)
        answer = two.consumer.kv.offer(lease, mine, to="prefill", request=b"back")
        assert isinstance(answer, Refusal)
        assert "set serves in peers" in answer.reason
