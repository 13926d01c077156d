"""Who is at the other end: greetings, lives under one name, versions that do not fit, goodbyes."""

from __future__ import annotations

import msgspec
import pytest

from kvstate.errors.codes import Code
from kvstate.machines.messages import Token
from kvstate.machines.verdicts import Refusal
from kvstate.peers.codec import FORMAT, encode
from kvstate.peers.hearing import MAX_LIVES
from kvstate.peers.party import Party
from kvstate.peers.shapes import MAGIC
from kvstate.peers.tables import SPEC_VERSION
from kvstate.peers.words import Action, Bye, Ended, Gone, Hello, Met, Out, Strange, Terms, Word
from tests.peers.rig import Wire, copied, forwarded, goods, let_go, met, offered, say, terms


def hello(challenge: int = 1, echo: int = 0, *, asks: bool = True, fingerprint: str = "model") -> Hello:
    return Hello(fingerprint, "", "", 1, (), challenge, echo, asks)


def told(wire: Wire, name: str, *kinds: type[Action]) -> list[Action]:
    return [one for one in wire.told[name] if isinstance(one, kinds)]


def test_two_strangers_meet_and_fall_silent() -> None:
    wire = Wire()
    wire.join("P", 11)
    wire.join("C", 22)
    assert wire.parties["P"].greet("C") is True
    assert wire.parties["P"].greet("C") is False
    wire.lose()
    wire.parties["C"].greet("P")
    assert wire.deliver() == ["hello", "hello", "hello"]
    assert [(one.peer, one.life) for one in told(wire, "P", Met)] == [("C", 22)]  # type: ignore[union-attr]
    assert [(one.peer, one.life) for one in told(wire, "C", Met)] == [("P", 11)]  # type: ignore[union-attr]
    wire.pass_time(30)
    assert wire.lying == []


def test_a_lost_answer_is_asked_for_again() -> None:
    wire = Wire()
    wire.join("P", 11).greet("C")
    wire.join("C", 22).greet("P")
    first, second = wire.collect()
    wire.lying.clear()
    wire.parties["C"].hear(first.data)
    wire.lose()
    wire.pass_time(1)
    wire.deliver()
    assert told(wire, "P", Met)
    assert told(wire, "C", Met)
    wire.parties["C"].hear(first.data)
    assert [say(out) for out in wire.collect()] == ["hello"], "it asks, so it is answered, and nothing else happens"
    assert second.peer == "P"


def test_nobody_answers_the_greeting() -> None:
    wire = Wire()
    wire.join("P", 11, greeting=3.0).greet("C")
    wire.pass_time(2.5)
    assert told(wire, "P", Gone) == []
    assert wire.lose() == ["hello"] * 3
    wire.parties["P"].peer_lost("C")
    wire.pass_time(1)
    assert told(wire, "P", Gone) == [Gone("C", 0, Code.PEER_LOST)]
    assert wire.parties["P"].due() is None
    assert isinstance(wire.parties["P"].offer("C", goods(b"k")), Refusal)


def test_names_that_were_not_greeted_are_not_listened_to() -> None:
    wire = met()
    party = wire.parties["P"]
    for message in (hello(), Word("taken", 11, 1), Bye()):
        party.hear(encode("X", 33, 11, message))
    assert party.counts["unknown"] == 3
    assert wire.collect() == []


def test_a_successor_ends_what_its_predecessor_had() -> None:
    wire = met()
    handoff = offered(wire)
    copied(wire, handoff)
    wire.lose()
    wire.join("P", 13).greet("C")
    heard = wire.deliver()
    assert "bye" in heard, "the predecessor is told, in case it only slept"
    assert told(wire, "C", Gone) == [Gone("P", 11, Code.PEER_LOST)]
    assert wire.ends("C") == [("borrow", "lost", False)]
    (report,) = forwarded(wire)
    assert (report.outcome, report.failures[0].code) == ("failed", Code.PEER_LOST)
    assert [one.life for one in told(wire, "C", Met)] == [13]  # type: ignore[union-attr]
    assert wire.parties["C"].books.past == {}


def test_a_check_that_reaches_the_successor_proves_nothing_and_brings_it_to_light() -> None:
    wire = met()
    copied(wire, offered(wire))
    wire.collect()
    lying, wire.lying = wire.lying, []
    successor = wire.join("P", 13)
    successor.greet("C")
    wire.lose()
    successor.hear(lying[0].data)
    assert successor.counts["stale"] == 1
    assert set(wire.deliver()) == {"hello", "bye"}
    assert wire.ends("C") == [("borrow", "lost", False)]


def test_a_late_hello_of_a_dead_process_ends_nothing() -> None:
    wire = met()
    old = wire.parties["P"]
    wire.lose()
    old.hear(encode("C", 22, 0, hello(challenge=77)))
    (late,) = old.take_messages()
    wire.join("P", 13).greet("C")
    wire.deliver()
    handoff = offered(wire)
    wire.parties["C"].hear(late.data)
    wire.collect()
    assert wire.ends("C") == []
    copied(wire, handoff)
    wire.deliver()
    assert [report.outcome for report in forwarded(wire)] == ["done"]


def test_who_slept_through_its_successor_is_told_goodbye() -> None:
    wire = met()
    sleeper = wire.parties["P"]
    sleeper.offer("C", goods(b"k1"), Token(11, 1))
    wire.deliver()
    wire.join("P", 13).greet("C")
    byes: list[Out] = []

    def keep(out: Out) -> bool:
        byes.extend([out] if say(out) == "bye" else [])
        return say(out) != "bye"

    wire.deliver(keep)
    sleeper.hear(byes[0].data)
    assert [(one.end, one.code) for one in sleeper.take_actions() if isinstance(one, Ended)] == [
        ("lost", Code.PEER_LOST)
    ]


@pytest.mark.parametrize(
    ("more", "code", "word"),
    [
        ({"fingerprint": "other"}, Code.KEY_MISMATCH, "fingerprint is 'other', and ours is 'model'"),
        ({"layout": "rows"}, Code.LAYOUT_MISMATCH, "layout is 'rows'"),
        ({"ranks": 2}, Code.LAYOUT_MISMATCH, "number of ranks is 2, and ours is 1"),
        ({"transport": "pigeon"}, Code.LAYOUT_MISMATCH, "transport is 'pigeon'"),
    ],
)
def test_who_does_not_fit_is_told_on_both_sides(more: dict[str, object], code: Code, word: str) -> None:
    wire = Wire()
    wire.join("P", 11, **more).greet("C")
    wire.join("C", 22).greet("P")
    wire.deliver()
    (at_c,) = told(wire, "C", Strange)
    (at_p,) = told(wire, "P", Strange)
    assert isinstance(at_c, Strange)
    assert isinstance(at_p, Strange)
    assert (at_c.peer, at_c.life, at_c.code, at_p.code) == ("P", 11, code, code)
    assert word in at_c.sentence
    assert isinstance(wire.parties["P"].offer("C", goods(b"k")), Refusal)
    wire.parties["C"].hear(encode("P", 11, 22, hello(fingerprint="other")))
    assert wire.parties["C"].counts["stale"] >= 1
    wire.parties["C"].hear(encode("P", 11, 22, hello()))
    wire.parties["C"].peer_lost("P")
    assert len(told(wire, "C", Strange)) == 1
    wire.lose()
    wire.pass_time(30)
    assert wire.parties["C"].books.links == []
    assert told(wire, "C", Gone) == []


def other_version(name: str, life: int, to: int, *, format_: int = FORMAT, spec: str = "9.0.0") -> bytes:
    """A message of a version that this side does not know, with a body that it could not read."""
    return msgspec.msgpack.encode((MAGIC, format_, spec, name, life, to, {"new": "shape"}, "more"))


@pytest.mark.parametrize(("format_", "spec"), [(2, SPEC_VERSION), (FORMAT, "9.0.0")])
def test_another_version_is_named_on_both_sides(format_: int, spec: str) -> None:
    wire = Wire()
    party = wire.join("C", 22)
    party.greet("P")
    wire.lose()
    party.hear(other_version("P", 11, 0, format_=format_, spec=spec))
    (strange,) = told_now(party)
    assert strange.code == Code.VERSION_MISMATCH
    assert f"format {format_} and spec {spec}" in strange.sentence
    assert [say(out) for out in party.take_messages()] == ["hello"], "so that it learns of our version"
    party.hear(other_version("P", 11, 22, format_=format_, spec=spec))
    assert party.take_messages() == [], "it knows, and two who do not fit must not answer each other without end"


def told_now(party: Party) -> list[Strange]:
    return [one for one in party.take_actions() if isinstance(one, Strange)]


def test_a_life_that_is_met_does_not_become_another() -> None:
    wire = met()
    offered(wire)
    wire.parties["C"].hear(other_version("P", 11, 22))
    wire.parties["C"].hear(encode("P", 11, 22, hello(fingerprint="other", asks=False)))
    assert wire.parties["C"].counts["stale"] == 2
    assert wire.ends("C") == []


def test_goodbye_ends_everything_on_both_sides() -> None:
    wire = met()
    offered(wire)
    wire.join("X", 33).greet("P")
    wire.parties["P"].greet("Y")
    wire.lose()
    wire.parties["P"].bye()
    assert wire.deliver() == ["bye"]
    assert (wire.ends("P"), wire.ends("C")) == ([("lend", "lost", False)], [("borrow", "lost", False)])
    assert let_go(wire) == [Token(11, 1)]
    assert told(wire, "C", Gone) == [Gone("P", 11, Code.CANCELLED)]
    wire.parties["P"].hear(encode("C", 22, 11, hello()))
    assert wire.parties["P"].counts["unknown"] == 1


def test_a_goodbye_for_somebody_else_is_stale() -> None:
    wire = met()
    wire.parties["C"].hear(encode("P", 11, 99, Bye()))
    wire.parties["C"].hear(encode("P", 77, 22, Bye()))
    assert wire.parties["C"].counts["stale"] == 2
    assert told(wire, "C", Gone) == []
    assert len(wire.parties["C"].books.links) == 1


def test_a_transport_that_gave_up_ends_this_side_and_the_word_of_it_the_other() -> None:
    wire = met()
    handoff = offered(wire)
    copied(wire, handoff)
    wire.lose()
    wire.parties["P"].peer_lost("C")
    wire.collect()
    assert wire.ends("P") == [("lend", "lost", False)]
    assert let_go(wire) == [Token(11, 1)]
    wire.pass_time(1, "C")
    wire.deliver()
    assert wire.ends("C") == [], "it is asked who it is first"
    wire.pass_time(1, "C")
    wire.deliver()
    assert [report.outcome for report in forwarded(wire)] == ["broken"]
    assert wire.ends("C") == [("borrow", "withdrawn", False)]


def test_more_lives_of_one_name_than_can_be_are_not_kept() -> None:
    wire = met()
    party = wire.parties["C"]
    for life in range(100, 100 + MAX_LIVES + 2):
        party.hear(encode("P", life, 0, hello()))
        party.hear(other_version("P", 1000 + life, 22))
        party.hear(encode("P", 2000 + life, 22, Word("over", 2000 + life, 1)))
    assert len(party.books.links) == MAX_LIVES
    assert party.counts["crowded"] > 0
    wire.lose()
    wire.pass_time(30)
    assert [link.life for link in party.books.links] == [11]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"life": 0}, "life must be a whole number from 1"),
        ({"life": 1.5}, "life must be a whole number"),
        ({"ranks": 0}, "ranks must be a whole number from 1 to 1024"),
        ({"renewals": -1}, "renewals must be a whole number from 0 to 1000"),
        ({"name": ""}, "needs a name and a fingerprint"),
        ({"fingerprint": "a\nb"}, "fingerprint must be a printable text"),
        ({"transport": 7}, "transport must be a printable text"),
        ({"addresses": (b"a", b"b")}, "an address of at most 65536 bytes for each of 1 ranks"),
        ({"addresses": (b"a" * 65_537,)}, "an address of at most 65536 bytes for each of 1 ranks"),
        ({"lease": 0.0}, "lease must be more than 0"),
        ({"patience": float("nan")}, "patience must be more than 0"),
    ],
)
def test_terms_that_can_not_be_are_refused_in_a_sentence(more: dict[str, object], sentence: str) -> None:
    said: dict[str, object] = {"name": "P", "life": 1, "fingerprint": "f", **more}
    with pytest.raises(ValueError, match=sentence):
        Terms(**said)  # type: ignore[arg-type]


def test_time_does_not_run_backwards() -> None:
    party = Party(terms("P", 1))
    party.tick(5)
    party.tick(3)
    assert party.books.now == 5
