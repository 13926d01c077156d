"""Messages as bytes: each comes back as it was, and no bytes do harm."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kvstate.peers import codec, shapes, words
from kvstate.peers.codec import Foreigner, MessageError, Unreadable, decode, encode, fits
from kvstate.peers.words import MAX_LIFE, Bye, Goods, Hello, Letter, Offer, Word
from tests.peers.rig import met, offered

NUMBERS = st.integers(0, MAX_LIFE)
LIVES = st.integers(1, MAX_LIFE)
TEXTS = st.text(max_size=20)


@st.composite
def some_goods(draw: st.DrawFn) -> Goods:
    lines = draw(st.integers(0, 4))
    column = st.lists(NUMBERS, min_size=lines, max_size=lines).map(tuple)
    spaces = draw(st.sampled_from([1, lines] if lines else [0, 1]))
    return Goods(
        draw(st.binary(max_size=20)),
        draw(NUMBERS),
        tuple(draw(st.lists(TEXTS, min_size=spaces, max_size=spaces))),
        tuple(draw(st.lists(st.binary(max_size=20), min_size=lines, max_size=lines))),
        draw(column),
        draw(column),
        tuple(draw(st.lists(st.lists(st.binary(max_size=8), min_size=lines, max_size=lines).map(tuple), max_size=3))),
    )


@st.composite
def hellos(draw: st.DrawFn) -> Hello:
    texts, ranks = [draw(TEXTS) for _ in range(3)], draw(st.integers(1, 1024))
    addresses = draw(st.sampled_from([(), (b"here",) * ranks]))
    return Hello(texts[0], texts[1], texts[2], ranks, addresses, draw(LIVES), draw(NUMBERS), draw(st.booleans()))


HELLOS = hellos()
OFFERS = st.builds(Offer, LIVES, LIVES, st.floats(0.001, 1000.0), some_goods())
WORDS = st.builds(Word, st.sampled_from(words.SAYS), LIVES, LIVES, NUMBERS, NUMBERS)
MESSAGES = st.one_of(HELLOS, OFFERS, WORDS, st.just(Bye()))


@settings(max_examples=150, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(name=TEXTS, life=LIVES, to=NUMBERS, message=MESSAGES)
def test_a_message_comes_back_as_it_was(name: str, life: int, to: int, message: words.Message) -> None:
    assert decode(encode(name, life, to, message)) == Letter(name, life, to, message)


@settings(max_examples=300, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(data=st.binary(max_size=200))
def test_any_bytes_are_answered(data: bytes) -> None:
    assert isinstance(decode(data), Letter | Foreigner | Unreadable)


@settings(max_examples=300, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(message=MESSAGES, at=st.integers(0, 10**6), byte=st.integers(0, 255), cut=st.integers(0, 40))
def test_a_message_with_a_flaw_is_answered(message: words.Message, at: int, byte: int, cut: int) -> None:
    data = bytearray(encode("C", 22, 11, message))
    data[at % len(data)] = byte
    assert isinstance(decode(bytes(data[: len(data) - cut % len(data)])), Letter | Foreigner | Unreadable)


@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(messages=st.lists(st.tuples(MESSAGES, st.sampled_from([11, 22, 33]), st.sampled_from([0, 11, 22])), max_size=12))
def test_whatever_is_heard_a_party_goes_on(messages: list[tuple[words.Message, int, int]]) -> None:
    """What is well formed and makes no sense: every word in every state, from lives that are met and others."""
    wire = met()
    offered(wire)
    for name, party in wire.parties.items():
        for message, life, to in messages:
            party.hear(encode("C" if name == "P" else "P", life, to, message))
        before = party.counts.get("unreadable", 0)  # offers with seals of other ranks than ours
        party.hear(b"\x93")
        assert party.counts["unreadable"] == before + 1
        assert party.broken == ""
    wire.lose()
    wire.pass_time(40, step=4)
    for party in wire.parties.values():
        assert party.broken == ""
        assert (party.books.lends, party.books.borrows, party.books.checks) == ({}, {}, {})


def test_what_is_no_bytes_and_what_is_too_much() -> None:
    assert isinstance(decode("text"), Unreadable)  # type: ignore[arg-type]
    told = decode(bytes(codec.MAX_BYTES + 1))
    assert isinstance(told, Unreadable)
    assert str(codec.MAX_BYTES) in told.sentence


def test_columns_that_do_not_belong_together() -> None:
    good = encode("P", 1, 2, Offer(1, 1, 1.0, Goods(b"r", 1, ("s",), (b"k",), (1,), (1,), ((b"5",),))))
    body = msgspec.msgpack.decode(good)
    for place, column in ((2, ("s", "s")), (3, (b"k", b"j")), (4, ()), (5, (1, 2)), (6, ((b"5", b"6"),))):
        wrong = [*body[6][4][:place], column, *body[6][4][place + 1 :]]
        told = decode(msgspec.msgpack.encode([*body[:6], [*body[6][:4], wrong]]))
        assert isinstance(told, Unreadable)
        assert "it has" in told.sentence, told


@pytest.mark.parametrize("addresses", [(b"a",), (b"a", b"b", b"c")])
def test_a_hello_has_an_address_for_each_rank_or_none(addresses: tuple[bytes, ...]) -> None:
    with pytest.raises(MessageError, match="2 ranks and"):
        encode("P", 1, 2, Hello("f", "", "", 2, addresses, 1, 0, True))
    for fit in ((), (b"a", b"b")):
        assert encode("P", 1, 2, Hello("f", "", "", 2, fit, 1, 0, True))


def test_what_is_not_of_the_types_of_a_message() -> None:
    for wrong in (Word("nonsense", 1, 1), Word("taken", 0, 1), Hello("f", "", "", 0, (), 1, 0, True)):
        with pytest.raises(MessageError, match="is not one that can be read"):
            encode("P", 1, 2, wrong)
    with pytest.raises(MessageError, match="can't be written"):
        encode("P", 1, 2, Word("taken", 2**70, 1))


@pytest.mark.parametrize(
    ("one", "other", "fit"),
    [
        ("0.1.0", "0.1.7", True),
        ("0.2.0", "0.1.0", False),
        ("1.2.0", "1.9.3", True),
        ("2.0.0", "1.0.0", False),
        ("1.0", "1.0.0", False),
        ("nonsense", "0.1.0", False),
    ],
)
def test_which_versions_understand_each_other(one: str, other: str, fit: bool) -> None:
    assert fits(one, other) is fit


def test_the_shapes_are_those_of_the_words() -> None:
    for shape, word in ((shapes.HelloShape, Hello), (shapes.OfferShape, Offer), (shapes.WordShape, Word),
                        (shapes.GoodsShape, Goods), (shapes.ByeShape, Bye)):  # fmt: skip
        assert shape.__struct_fields__ == word._fields
        assert all(name in (shape.__doc__ or "") for name in word._fields)
    assert dataclasses.fields(words.Terms)
