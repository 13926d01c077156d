"""One handoff from both sides: what each may conclude, with messages lost, doubled and late."""

from __future__ import annotations

import pytest

from kvstate.errors.codes import Code
from kvstate.machines.messages import Report, Token
from kvstate.machines.verdicts import Refusal
from kvstate.peers.codec import encode
from kvstate.peers.party import Party
from kvstate.peers.rules import Rules
from kvstate.peers.words import Announce, Ended, Forward, Goods, Handoff, Source, Vanish, Word
from tests.peers.rig import copied, forwarded, goods, let_go, met, offered, say, terms, vanished


def test_taken_is_certain_on_both_sides() -> None:
    wire = met()
    handoff = offered(wire, b"k1", b"k2")
    copied(wire, handoff, lines=2)
    assert forwarded(wire) == []
    assert wire.deliver() == ["check", "vouch"]
    assert [report.outcome for report in forwarded(wire)] == ["done"]
    assert wire.parties["C"].close(handoff, taken=True) is True
    assert wire.deliver() == ["taken", "over"]
    assert (wire.ends("P"), wire.ends("C")) == ([("lend", "delivered", True)], [("borrow", "taken", True)])
    assert (let_go(wire), vanished(wire)) == ([Token(11, 1)], [(0, 1)])
    assert wire.parties["C"].close(handoff, taken=True) is False


def test_a_report_waits_for_the_producer_and_a_second_one_goes_nowhere() -> None:
    wire = met()
    token = copied(wire, offered(wire))
    wire.parties["C"].report(Report(token, "done"))
    wire.parties["C"].report(Report(token, "cancelled"))
    wire.lose()
    assert forwarded(wire) == []
    assert wire.parties["C"].counts["withheld"] == 2
    wire.pass_time(1)
    assert wire.deliver() == ["check", "vouch"]
    assert forwarded(wire) == [Report(token, "done")]
    wire.parties["C"].report(Report(token, "done"))
    wire.collect()
    assert len(forwarded(wire)) == 2, "the ledger knows that the part is over"


@pytest.mark.parametrize("outcome", ["failed", "broken", "cancelled", "timeout", "denied"])
def test_reports_that_commit_nothing_pass_at_once(outcome: str) -> None:
    wire = met()
    handoff = offered(wire)
    wire.parties["C"].expect(Token(22, 1), [Source(handoff, 0)])
    wire.parties["C"].report(Report(Token(22, 1), outcome))
    wire.collect()
    assert forwarded(wire) == [Report(Token(22, 1), outcome)]
    assert wire.lying == []


def test_reports_of_what_is_no_peers_pass_at_once() -> None:
    wire = met()
    consumer = wire.parties["C"]
    consumer.expect(Token(22, 1), [None, None])
    for report in (Report(Token(22, 1), "done"), Report(Token(22, 2), "done"), "no report"):
        consumer.report(report)  # type: ignore[arg-type]
    consumer.expect(Token(22, 3), [Source(Handoff(11, 1), 0)])
    consumer.forget(Token(22, 3))
    consumer.report(Report(Token(22, 3), "done"))
    assert len(consumer.take_actions()) == 4


def test_a_copy_of_an_offer_that_is_over_is_broken_without_a_question() -> None:
    wire = met()
    handoff = offered(wire)
    consumer = wire.parties["C"]
    consumer.expect(Token(22, 1), [None, Source(handoff, 0)])
    consumer.close(handoff, taken=False)
    wire.collect()
    consumer.report(Report(Token(22, 1), "done"))
    wire.collect()
    (report,) = forwarded(wire)
    assert (report.outcome, [(one.line, one.code, one.stage) for one in report.failures]) == (
        "broken",
        [(1, Code.LEASE_EXPIRED, "verify")],
    )


def test_a_withdrawal_denies_what_waits_and_ends_both() -> None:
    wire = met()
    handoff = offered(wire)
    copied(wire, handoff)
    wire.lose()
    assert wire.parties["P"].withdraw(handoff, Code.CANCELLED) is True
    assert wire.parties["P"].withdraw(handoff) is False
    wire.collect()
    assert let_go(wire) == [Token(11, 1)], "the memory waits for nobody"
    assert wire.deliver() == ["withdrawn", "void"]
    assert [report.outcome for report in forwarded(wire)] == ["broken"]
    assert (wire.ends("P"), wire.ends("C")) == ([("lend", "withdrawn", False)], [("borrow", "withdrawn", False)])
    told = next(one for one in wire.told["C"] if isinstance(one, Ended))
    assert (told.code, told.request, told.peer) == (Code.CANCELLED, b"r1", "P")
    assert wire.parties["P"].due() is not None, "timers of greeting may wait; nothing else does"
    wire.pass_time(30)
    assert wire.lying == []


def test_a_withdrawal_is_said_until_it_is_heard() -> None:
    wire = met()
    handoff = offered(wire)
    wire.parties["P"].withdraw(handoff)
    assert wire.lose() == ["withdrawn"]
    wire.pass_time(1)
    assert wire.lose() == ["withdrawn"]
    wire.pass_time(1)
    assert wire.deliver() == ["withdrawn", "void"]
    assert wire.ends("C") == [("borrow", "withdrawn", False)]


def test_when_no_word_arrives_the_clocks_end_both() -> None:
    wire = met()
    offered(wire)
    wire.pass_time(7.5)
    assert wire.ends("P") == []
    wire.lose()
    wire.pass_time(1)
    assert wire.ends("P") == [("lend", "expired", False)]
    wire.lose()
    wire.pass_time(20)
    assert wire.ends("C") == [("borrow", "expired", False)]
    assert (let_go(wire), vanished(wire)) == ([Token(11, 1)], [(0,)])


def test_a_lease_that_runs_out_here_is_told_there() -> None:
    wire = met(renewals=0)
    offered(wire)
    wire.pass_time(8, "P")
    assert wire.deliver() == ["withdrawn", "void"]
    assert wire.ends("C") == [("borrow", "withdrawn", False)]
    told = next(one for one in wire.told["C"] if isinstance(one, Ended))
    assert told.code == Code.LEASE_EXPIRED


def test_a_check_after_the_lease_is_denied_and_ends_the_offer_here() -> None:
    wire = met()
    handoff = offered(wire)
    wire.pass_time(8, "P")
    wire.lose()
    copied(wire, handoff)
    assert wire.deliver() == ["check", "deny", "void"]
    (report,) = forwarded(wire)
    assert (report.outcome, report.failures[0].code) == ("broken", Code.LEASE_EXPIRED)
    assert wire.ends("C") == [("borrow", "withdrawn", False)]


def test_renewals_are_counted_once_and_bounded() -> None:
    wire = met()
    offered(wire)
    wire.pass_time(4, "C")
    (renew,) = wire.lying
    wire.pass_time(1, "C")
    assert [say(out) for out in wire.lying] == ["renew", "renew"]
    assert wire.deliver() == ["renew", "renew", "renewed", "renewed"]
    assert wire.parties["C"].counts["stale"] == 1
    wire.parties["P"].hear(renew.data)
    assert wire.deliver() == ["renewed"]
    wire.pass_time(8.5, "C")
    assert wire.ends("C") == [("borrow", "expired", False)], "it does not ask more often than is allowed"


def test_a_peer_that_asks_too_often_gets_nothing() -> None:
    wire = met()
    handoff = offered(wire)
    producer = wire.parties["P"]
    for number in (1, 2):
        producer.hear(encode("C", 22, 11, Word("renew", *handoff, number)))
    assert wire.deliver() == ["renewed"]
    assert producer.counts["no_more"] == 1


def test_a_late_renewal_revives_nothing() -> None:
    wire = met()
    offered(wire)
    wire.pass_time(4, "C")
    (renew,) = wire.lying
    wire.lying.clear()
    wire.pass_time(8, "P")
    wire.lose()
    wire.parties["P"].hear(renew.data)
    assert wire.deliver() == ["withdrawn", "void"]
    assert wire.ends("P") == [("lend", "expired", False)]


def test_refused_is_said_until_it_is_answered() -> None:
    wire = met()
    handoff = offered(wire)
    assert isinstance(wire.parties["C"].close(handoff, taken=True), Refusal)
    wire.parties["C"].close(handoff, taken=False, code=Code.KV_OOM)
    wire.lose()
    wire.pass_time(1)
    assert wire.deliver() == ["refused", "over"]
    told = next(one for one in wire.told["P"] if isinstance(one, Ended))
    assert (told.end, told.code, told.vouched) == ("returned", Code.KV_OOM, False)


def test_taken_that_crosses_a_withdrawal_leaves_doubt_and_no_more() -> None:
    wire = met()
    handoff = offered(wire)
    copied(wire, handoff)
    wire.deliver()
    wire.parties["P"].withdraw(handoff)
    wire.parties["C"].close(handoff, taken=True)
    wire.deliver()
    assert (wire.ends("P"), wire.ends("C")) == ([("lend", "withdrawn", True)], [("borrow", "taken", True)])


def test_a_deadline_after_a_vouch_says_nothing_that_it_does_not_know() -> None:
    wire = met(renewals=0)
    handoff = offered(wire)
    copied(wire, handoff)
    wire.deliver()
    wire.pass_time(8, "C")
    assert wire.lying == []
    assert wire.ends("C") == [("borrow", "expired", True)]
    wire.pass_time(1, "P")
    assert wire.ends("P") == [("lend", "expired", True)]


def test_a_deadline_without_a_vouch_says_that_nothing_was_taken() -> None:
    wire = met(renewals=0)
    offered(wire)
    wire.pass_time(8, "C")
    wire.now = 0
    assert wire.deliver() == ["refused", "over"]
    assert wire.ends("P") == [("lend", "returned", False)]


def test_an_offer_that_comes_back_is_nothing() -> None:
    wire = met()
    wire.parties["P"].offer("C", goods(b"k1"), Token(11, 1))
    (offer,) = wire.collect()
    wire.deliver()
    wire.parties["C"].hear(offer.data)
    assert wire.deliver() == ["received"]
    wire.parties["C"].close(Handoff(11, 1), taken=False)
    wire.parties["C"].hear(offer.data)
    wire.deliver()
    wire.parties["C"].hear(offer.data)
    wire.deliver()
    assert len([one for one in wire.told["C"] if isinstance(one, Announce)]) == 1
    offered(wire, number=2)
    assert wire.parties["C"].books.past[11].over == set(), "the next offer says what is over, so nothing is remembered"
    wire.parties["C"].hear(offer.data)
    assert len(wire.parties["C"].books.borrows) == 1


def test_a_withdrawal_that_overtakes_its_offer() -> None:
    wire = met()
    handoff = wire.parties["P"].offer("C", goods(b"k1"))
    assert isinstance(handoff, Handoff)
    (offer,) = wire.collect()
    wire.lying.clear()
    wire.parties["P"].withdraw(handoff)
    assert wire.deliver() == ["withdrawn", "void"]
    wire.parties["C"].hear(offer.data)
    assert wire.deliver() == []
    assert wire.told["C"] == []


def test_an_offer_is_said_until_it_is_heard() -> None:
    wire = met()
    wire.parties["P"].offer("C", goods(b"k1"))
    assert wire.lose() == ["offer"]
    wire.pass_time(1)
    assert wire.deliver() == ["offer", "received"]
    wire.pass_time(2)
    assert wire.lose() == []


def test_two_offers_in_one_part_must_both_be_vouched_for() -> None:
    wire = met()
    first, second = offered(wire, b"k1"), offered(wire, b"k2", number=2)
    consumer = wire.parties["C"]
    consumer.expect(Token(22, 1), [Source(first, 0), None, Source(second, 0)])
    consumer.report(Report(Token(22, 1), "done"))
    wire.collect()
    one, other = wire.lying
    wire.lying.clear()
    wire.parties["P"].hear(one.data)
    wire.deliver()
    assert forwarded(wire) == []
    wire.parties["P"].withdraw(second)
    wire.collect()
    wire.lying.clear()
    wire.parties["P"].hear(other.data)
    wire.deliver()
    (report,) = forwarded(wire)
    assert [(one.line, one.code) for one in report.failures] == [(2, Code.LEASE_EXPIRED)]
    assert consumer.close(first, taken=True) is True, "something of the first may have been committed"


def test_nobody_answers_a_check() -> None:
    wire = met()
    token = copied(wire, offered(wire))
    wire.pass_time(2.5)
    assert forwarded(wire) == []
    wire.pass_time(1)
    (report,) = forwarded(wire)
    assert (report.token, report.outcome, report.failures[0].code) == (token, "failed", Code.LOAD_TIMEOUT)


def test_names_that_were_announced_too_late_vanish_at_once() -> None:
    wire = met()
    consumer = wire.parties["C"]
    handoff = wire.parties["P"].offer("C", goods(b"k1", b"k2"))
    assert isinstance(handoff, Handoff)
    for out in wire.parties["P"].take_messages():
        consumer.hear(out.data)
    consumer.close(handoff, taken=False)
    assert [type(action).__name__ for action in consumer.take_actions()] == ["Announce", "Ended"]
    consumer.announced(handoff, [1])
    assert consumer.take_actions() == [Vanish(handoff, (1,))]
    consumer.announced(handoff, [])
    assert consumer.take_actions() == []


def test_an_offer_of_nothing_ends_as_any_other() -> None:
    wire = met()
    handoff = wire.parties["P"].offer("C", goods(request=b"r7"))
    assert isinstance(handoff, Handoff)
    wire.deliver()
    wire.parties["P"].withdraw(handoff)
    wire.deliver()
    assert [(one.request, one.end) for one in wire.told["C"] if isinstance(one, Ended)] == [(b"r7", "withdrawn")]
    assert vanished(wire) == []


def test_everything_is_called_off_at_once() -> None:
    wire = met()
    offered(wire)
    offered(wire, b"k2", number=2)
    assert wire.parties["P"].withdraw_all(Code.DEVICE_ERROR) == 2
    assert wire.parties["P"].withdraw_all() == 0
    wire.deliver()
    assert [end for _, end, _ in wire.ends("C")] == ["withdrawn", "withdrawn"]


def test_goods_that_no_message_carries_are_refused() -> None:
    wire = met()
    producer = wire.parties["P"]
    for wrong in (
        goods(b"k" * 300),
        Goods(b"r", 1, ("s",), (b"k",), (), (1,)),
        Goods(b"r", 1, (), (b"k",), (1,), (1,)),
        Goods(b"r", 1, ("s",), (b"k",), (1,), (1,), ((b"1", b"2"),)),
        Goods("r", 1),  # type: ignore[arg-type]
    ):
        assert isinstance(producer.offer("C", wrong), Refusal)
    assert producer.books.lends == {}
    assert producer.take_messages() == []
    assert producer.withdraw(Handoff(11, 1)) is False
    assert producer.withdraw(Handoff(12, 1)) is False
    assert isinstance(producer.offer("X", goods(b"k")), Refusal)


def test_words_about_handoffs_that_are_not_theirs_are_counted() -> None:
    wire = met()
    handoff = offered(wire)
    producer, consumer = wire.parties["P"], wire.parties["C"]
    for word in (Word("taken", 11, 9), Word("taken", 12, 1)):
        producer.hear(encode("C", 22, 11, word))
    for word in (Word("withdrawn", 12, 1), Word("vouch", *handoff, 99), Word("renewed", *handoff, 7)):
        consumer.hear(encode("P", 11, 22, word))
    consumer.hear(encode("P", 11, 22, Word("renewed", 11, 5, 7)))
    consumer.hear(encode("P", 11, 22, Word("over", *handoff)))
    producer.hear(encode("C", 22, 11, Word("taken", *handoff)))
    producer.hear(encode("C", 22, 11, Word("void", *handoff)))
    assert (producer.counts["stale"], consumer.counts["stale"]) == (4, 5)
    assert handoff in consumer.books.borrows
    assert len(producer.books.lends) == 1
    assert consumer.books.tables["borrow"].add() <= 3, "a record that came to nothing gives its slot back"


def test_another_peer_can_not_end_what_was_offered_to_this_one() -> None:
    wire = met()
    handoff = offered(wire)
    wire.join("X", 33).greet("P")
    wire.parties["P"].greet("X")
    wire.deliver()
    wire.parties["P"].hear(encode("X", 33, 11, Word("refused", *handoff)))
    assert wire.parties["P"].counts["stale"] == 1
    assert wire.ends("P") == []


def test_when_an_invariant_breaks_the_party_is_over() -> None:
    """A coupling that fires an event which no row answers: loud, and from then on nothing is vouched for."""
    own = Rules()
    wrong = [line for line in own.couplings if line[0] != "J63"]
    wrong.append(("J63", "check", "note", "borrow", "take", "check_borrow", False))
    wire = met()
    consumer = Party(terms("C", 22), Rules(own.machines, wrong, own.acts))
    wire.parties["C"], wire.told["C"] = consumer, []
    consumer.greet("P")
    wire.parties["P"].hear(encode("C", 22, 11, Word("void", 11, 1)))
    wire.deliver()
    handoff = offered(wire)
    copied(wire, handoff)
    wire.deliver()
    assert "does not answer take" in consumer.broken
    assert isinstance(consumer.close(handoff, taken=True), Refusal)
    assert not any(isinstance(action, Forward) for action in consumer.take_actions())


def test_lines_that_lead_nowhere_are_found_at_the_start() -> None:
    own = Rules()
    with pytest.raises(ValueError, match="X99 names the act nothing"):
        Party(terms("C", 1), Rules(own.machines, own.couplings, [("X99", "link", "stale", "nothing", "before")]))
    line = ("X98", "link", "lose", "lend", "peer_lost", "nowhere", True)
    with pytest.raises(ValueError, match="X98 goes over the relation nowhere"):
        Party(terms("C", 1), Rules(own.machines, [line], own.acts))


def test_two_offers_of_one_part_run_out_at_the_same_time() -> None:
    wire = met(renewals=0)
    first, second = offered(wire, b"k1"), offered(wire, b"k2", number=2)
    consumer = wire.parties["C"]
    consumer.expect(Token(22, 1), [Source(first, 0), Source(second, 0)])
    consumer.tick(7)
    consumer.report(Report(Token(22, 1), "done"))
    consumer.tick(8)
    wire.collect()
    (report,) = forwarded(wire)
    assert [one.line for one in report.failures] == [0], "the other had not ended when it was forwarded"
    assert consumer.broken == ""
