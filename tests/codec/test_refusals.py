"""What is refused, on which side, and how it is said."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from kvstate import codec
from kvstate.codec import CodecError, decode_effects, decode_reports, encode_effects, encode_reports
from kvstate.errors import Code, KVError
from kvstate.machines.messages import Cancel, Failure, Report, Token, Undo, Work
from kvstate.machines.tables import SPEC_VERSION

TOKEN = Token(3, 12_345)
WORK = Work(TOKEN, "fetch", 0, "thread", 1, (1, 2), (7, 8), (b"k1", b"k2"), 0, ("a",))


def message(what: str, *items: object, version: object = 1, spec: object = SPEC_VERSION) -> bytes:
    return msgspec.msgpack.encode(["kvstate", version, spec, what, list(items)])


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (message("effects", version=7), "the message has format 7, and this side reads format 1"),
        (msgspec.msgpack.encode(["kvstate", 2, {"new": 1}]), "the message has format 2, and this side reads format 1"),
        (message("reports"), 'the message carries "reports", not "effects"'),
        (b"junk", "these bytes are no message of kvstate: "),
        (msgspec.msgpack.encode(["other", 1, "1", "effects", []]), "these bytes are no message of kvstate: "),
        (message("effects", [9, [0, 1]]), "the effects are not well formed: Invalid value 9 - at `items[0][0]`"),
        (message("effects", [2, [0, -1]]), "Expected `int` >= 0 - at `items[0][1][1]`"),
        (message("effects", [2, [0, 2**63]]), "Expected `int` <= 9223372036854775807 - at `items[0][1][1]`"),
        (message("effects", [2, [0, 1], 5]), "at most length 1, got 2"),
        (message("effects", [2, [0, True]]), "Expected `int`, got `bool`"),
        (message("effects", [1, *WORK._replace(kind="step")]), "Invalid enum value 'step'"),
        (message("effects", [1, *WORK._replace(copier="x" * 65)]), "length <= 64"),
        (message("effects", [1, *WORK._replace(keys=(b"k", b"k" * 257))]), "length <= 256"),
        (message("effects", [1, *WORK._replace(keys=(b"k",))]), "effect 0 has 2 source blocks and 1 keys"),
        (message("effects", [2, [0, 1]], [1, *WORK._replace(dst=())]), "effect 1 has 2 source and 0 destination"),
        (message("effects", [1, *WORK._replace(kind="persist")]), "2 source and 2 destination blocks, to persist"),
        (message("effects", [1, *WORK._replace(src=(), dst=(), keys=())]), "effect 0 has no blocks"),
        (message("effects", [3, *Undo(TOKEN, 0, "disk", (1,), ())]), "effect 0 has 1 source blocks and 0 keys"),
        (
            message("effects", [1, *WORK._replace(kind="probe")], spec="9.9.9"),
            f"(it was written for spec 9.9.9, and this side has {SPEC_VERSION})",
        ),
    ],
)
def test_refused_effects(data: bytes, sentence: str) -> None:
    with pytest.raises(CodecError) as caught:
        decode_effects(data)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        ([[0, 1], "perhaps", []], "Invalid enum value 'perhaps'"),
        ([[0, 1], "done"], "at least length 3, got 2"),
        ([[0, 1], "failed", [[-2, 1, "", "", "", "", "", False]]], "Expected `int` >= -1"),
        ([[0, 1], "failed", [[0, 70_000, "", "", "", "", "", False]]], "Expected `int` <= 65535"),
        ([[0, 1], "failed", [[0, 1, "", "", "", "", "x" * 1001, False]]], "length <= 1000"),
        ([[0, 1], "failed", [[0, 1, "", "", "", "", "", 0]]], "Expected `bool`, got `int`"),
    ],
)
def test_refused_reports(item: object, sentence: str) -> None:
    with pytest.raises(CodecError) as caught:
        decode_reports(message("reports", item))
    assert sentence in str(caught.value)


def test_another_spec_with_the_same_layout_is_understood() -> None:
    """A code and a stage that this version does not know must not cost the proof that a copy has stopped."""
    newer = message("reports", [[0, 1], "denied", [[0, 2998, "teleport", "", "", "", "", False]]], spec="9.9.9")
    failure = decode_reports(newer)[0].failures[0]
    assert KVError.of(failure).code is Code.UNKNOWN
    assert failure.stage == "teleport"


@pytest.mark.parametrize(
    ("effect", "sentence"),
    [
        (Report(TOKEN, "done"), "item 0 is of type Report, which is no effect"),
        (tuple(WORK), "item 0 is of type tuple, which is no effect"),
        (WORK._replace(kind="hold"), "Invalid enum value 'hold'"),
        (WORK._replace(rank=-1), "Expected `int` >= 0"),
        (WORK._replace(rank=2**70), "the effects cannot be written: "),
        (WORK._replace(rank=True), "Expected `int`, got `bool`"),
        (WORK._replace(copier=b"thread"), "Expected `str`, got `bytes`"),  # type: ignore[arg-type]
        (WORK._replace(copier="\ud800"), "the effects cannot be written: "),
        (WORK._replace(dst=(1,)), "effect 0 has 2 source and 1 destination blocks, to fetch"),
        (Cancel(ValueError("x")), "the effects cannot be written: "),  # type: ignore[arg-type]
    ],
)
def test_what_the_other_side_would_refuse_is_not_sent(effect: Any, sentence: str) -> None:
    with pytest.raises(CodecError) as caught:
        encode_effects([effect])
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (WORK, "item 0 is of type Work, which is no report"),
        (Report(TOKEN, "perhaps"), "Invalid enum value 'perhaps'"),
        (Report(TOKEN, "failed", (ValueError("x"),)), "report 0 has a failure of type ValueError, which is none"),  # type: ignore[arg-type]
        (Report(TOKEN, "failed", (Failure(-2, 2101, "fetch"),)), "Expected `int` >= -1"),
    ],
)
def test_reports_that_are_not_sent(report: Any, sentence: str) -> None:
    with pytest.raises(CodecError) as caught:
        encode_reports([report])
    assert sentence in str(caught.value)


def test_long_texts_of_failures_are_cut_not_refused() -> None:
    long = Failure(0, 2901, "s" * 999, "d" * 999, "r" * 999, "t" * 999, "m" * 9999, False)
    got = decode_reports(encode_reports([Report(TOKEN, "denied", (long,))]))[0].failures[0]
    assert [len(text) for text in got[2:7]] == [64, 64, 200, 200, 1000]
    stray = Failure(0, 2901, "fetch", message="\ud800 file")
    assert decode_reports(encode_reports([Report(TOKEN, "denied", (stray,))]))[0].failures[0].message == "\\ud800 file"


def test_a_message_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = encode_effects([WORK])
    monkeypatch.setattr(codec, "MAX_BYTES", len(whole) - 1)
    with pytest.raises(CodecError, match=f"the effects take {len(whole)} bytes; {len(whole) - 1} is the limit"):
        encode_effects([WORK])
    with pytest.raises(CodecError, match=f"{len(whole)} bytes are more than {len(whole) - 1}"):
        decode_effects(whole)


def test_a_batch_has_a_limit() -> None:
    with pytest.raises(CodecError, match="length <= 65536"):
        encode_effects([Cancel(TOKEN)] * 65_537)
    with pytest.raises(CodecError, match="length <= 65536"):
        decode_effects(message("effects", *([[2, [0, 1]]] * 65_537)))


def test_the_codec_brings_no_torch_and_no_numpy() -> None:
    program = "import sys, kvstate.codec; print(*sorted({'torch', 'numpy', 'tomllib'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert run.stdout.split() == []
