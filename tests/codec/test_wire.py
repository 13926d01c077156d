"""Messages between a scheduler and its workers: what is sent is what comes, and nothing else is believed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstate import wire
from kvstate.codec import CodecError
from kvstate.codec.envelope import MAX_TEXT
from kvstate.machines.messages import Adopt, Cancel, Failure, Outcome, Report, Sweep, Token, Undo, Work
from kvstate.machines.tables import SPEC_VERSION
from kvstate.wire import (
    AskFence,
    AskProbe,
    DownItem,
    Fenced,
    Probed,
    Retired,
    Trouble,
    UpItem,
    decode_down,
    decode_up,
    encode_down,
    encode_up,
)

WORK = Work(Token(1, 7), "store", 1, "cpu", 1, (3, 4), (30, 31), (b"a" * 16, b"b" * 16), 2, ("a",))
DOWN: list[DownItem] = [
    WORK, Cancel(Token(1, 6)), Retired(2), Undo(Token(1, 5), 1, "disk", (30,), (b"k",)), AskFence(9),
    Adopt(1, "disk", (30,), ("a",), (b"k",)), Sweep(1, "disk", everything=False),
    AskProbe(Token(1, 4)), WORK._replace(kind="fetch"),
]  # fmt: skip
FAILED = Report(Token(1, 6), Outcome.FAILED, (Failure(0, 2402, "fetch", message="gone"),))
UP: list[UpItem] = [
    Report(Token(1, 7), Outcome.DONE), FAILED, Fenced(9, (("cpu", 7), ("disk", 3))), Report(Token(1, 8), Outcome.DONE),
    Probed(Token(1, 4), "over"), Trouble("it is not well"),
]  # fmt: skip


def test_what_goes_down_comes_out_in_its_order() -> None:
    assert decode_down(encode_down(1, 3, DOWN)) == (1, 3, DOWN)
    assert decode_down(memoryview(encode_down(0, 1, []))) == (0, 1, [])


def test_what_comes_up_comes_out_in_its_order() -> None:
    assert decode_up(encode_up(1, 3, UP)) == (1, 3, UP)


def test_more_effects_than_a_message_of_the_codec_takes_are_several_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_ITEMS", 2)
    works: list[DownItem] = [WORK._replace(token=Token(1, serial)) for serial in range(1, 6)]
    assert decode_down(encode_down(0, 1, works)).items == works


def test_a_sentence_that_is_too_long_is_cut() -> None:
    (trouble,) = decode_up(encode_up(0, 1, [Trouble("x" * 5000)])).items
    assert isinstance(trouble, Trouble)
    assert len(trouble.sentence) == MAX_TEXT


def envelope(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "magic": "kvstate", "format": 1, "spec": SPEC_VERSION, "what": "down", "rank": 0, "incarnation": 1, "items": [],
    }  # fmt: skip
    return msgspec.msgpack.encode(list((fields | changes).values()))


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "these bytes are no message between a scheduler and a worker"),
        (b"\xff\xfe", "these bytes are no message"),
        (envelope(magic="other"), "these bytes are no message"),
        (envelope(format=2), "has format 2, and this side reads format 1; run one version on both"),
        (envelope(what="up"), 'the message goes "up", not "down"'),
        (envelope(rank=-1), "the message down is not well formed"),
        (envelope(rank=-1, spec="9.9.9"), f"it was written for spec 9.9.9, and this side has {SPEC_VERSION}"),
        (envelope(items=[[99]]), "the message down is not well formed"),
        (envelope(items=[[1, -3]]), "the message down is not well formed"),
        (envelope(items=[b"no effects"]), "these bytes are no message of kvstate"),
    ],
    ids=str,
)
def test_other_bytes_are_refused_in_a_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(CodecError) as refused:
        decode_down(data)
    assert sentence in str(refused.value)


def test_what_no_worker_would_take_is_not_written() -> None:
    with pytest.raises(CodecError, match="2 source blocks and 1 keys"):
        encode_down(0, 1, [WORK._replace(keys=(b"a",))])
    with pytest.raises(CodecError, match="not well formed"):
        encode_down(-1, 1, [])
    with pytest.raises(CodecError, match="not well formed"):
        encode_up(0, 1, [Fenced(-1, ())])
    with pytest.raises(CodecError, match="a message is bytes, not str"):
        decode_down("text")  # type: ignore[arg-type]


def test_a_message_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_BYTES", 10)
    with pytest.raises(CodecError, match="bytes are more than 10"):
        decode_down(envelope())


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused_and_nothing_else(data: bytes) -> None:
    for decode in (decode_down, decode_up):
        with pytest.raises(CodecError) as refused:
            decode(data)
        assert str(refused.value).isprintable()


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_message_with_a_byte_changed_is_another_or_refused(at: int, byte: int) -> None:
    data = bytearray(encode_down(1, 3, DOWN))
    data[at % len(data)] = byte
    try:
        decode_down(data)
    except CodecError:
        return
