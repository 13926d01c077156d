"""Messages come back as they were sent; all other bytes are refused in one sentence."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvstate import codec
from kvstate.codec import CodecError, decode_effects, decode_reports, encode_effects, encode_reports, shapes
from kvstate.errors import KVError, from_exception, translate
from kvstate.machines.messages import (
    Adopt,
    BlockRef,
    Cancel,
    Effect,
    Failure,
    Hold,
    Kind,
    Outcome,
    Report,
    Sweep,
    Token,
    Undo,
    Unhold,
    Work,
)
from kvstate.machines.tables import SPEC_VERSION

SENT_DOWN = [kind.value for kind in Kind if kind not in (Kind.STEP, Kind.HOLD)]
TOKEN = Token(3, 12_345)
WORK = Work(TOKEN, "fetch", 0, "thread", 1, (1, 2), (7, 8), (b"k1", b"k2"), 0)

numbers = st.integers(0, 2**63 - 1)
small = st.integers(0, 2**31 - 1)
words = st.text(max_size=64)
tokens = st.builds(Token, numbers, numbers)
keys = st.binary(max_size=256)


@st.composite
def works(draw: st.DrawFn) -> Work:
    lines = draw(st.integers(1, 20))
    kind = draw(st.sampled_from(SENT_DOWN))
    several = st.lists(numbers, min_size=lines, max_size=lines).map(tuple)
    seeks = kind == "seek"
    return Work(
        draw(tokens),
        draw(st.sampled_from([kind, Kind(kind)])),
        draw(small),
        draw(words),
        draw(small),
        () if seeks else draw(several),
        () if seeks or kind == "persist" else draw(several),
        draw(st.lists(keys, min_size=lines, max_size=lines).map(tuple)),
        draw(numbers),
        draw(
            st.sampled_from([1] if seeks else [0, 1, lines])
            .flatmap(lambda many: st.lists(words, min_size=many, max_size=many))
            .map(tuple)
        ),
    )


undos = st.lists(st.tuples(numbers, keys), min_size=1, max_size=20).flatmap(
    lambda lines: st.builds(
        Undo, tokens, small, words, st.just(tuple(src for src, _ in lines)), st.just(tuple(key for _, key in lines))
    )
)
refs = st.builds(BlockRef, numbers, numbers)


@st.composite
def adopts(draw: st.DrawFn) -> Adopt:
    lines = draw(st.lists(st.tuples(numbers, words, keys), max_size=20))
    blocks, spaces, names = zip(*lines, strict=True) if lines else ((), (), ())
    return Adopt(draw(small), draw(words), blocks, spaces, names)


sweeps = st.builds(Sweep, small, words, st.booleans())
holds = st.builds(Hold, refs) | st.builds(Unhold, refs)
effects: st.SearchStrategy[Effect] = works() | st.builds(Cancel, tokens) | undos | holds | adopts() | sweeps
failures = st.builds(
    Failure,
    st.integers(-1, 2**31 - 1),
    st.integers(0, 65_535),
    words,
    words,
    st.text(max_size=200),
    st.text(max_size=200),
    st.text(max_size=1000),
    st.booleans(),
)
reports = st.builds(Report, tokens, st.sampled_from([*Outcome, *map(str, Outcome)]), st.lists(failures).map(tuple))


# --- Round trips ----------------------------------------------------------------------------------------------------


@settings(max_examples=40)
@given(st.lists(effects, max_size=20))
def test_effects_round_trip(sent: list[Effect]) -> None:
    got = decode_effects(encode_effects(sent))
    assert got == sent
    assert [type(one) for one in got] == [type(one) for one in sent]
    assert all(type(one.ref) is BlockRef for one in got if isinstance(one, Hold | Unhold))
    assert all(type(one.token) is Token for one in got if isinstance(one, Work | Cancel | Undo))
    assert decode_effects(encode_effects(got)) == got


@settings(max_examples=40)
@given(st.lists(reports, max_size=20))
def test_reports_round_trip(sent: list[Report]) -> None:
    got = decode_reports(encode_reports(sent))
    assert got == sent
    assert all(type(one.token) is Token for one in got)
    assert all(type(failure) is Failure for one in got for failure in one.failures)


@pytest.mark.long
@settings(max_examples=1000)
@given(st.lists(effects, max_size=20), st.lists(reports, max_size=20))
def test_many_more_round_trips(down: list[Effect], up: list[Report]) -> None:
    assert decode_effects(encode_effects(down)) == down
    assert decode_reports(encode_reports(up)) == up


@pytest.mark.parametrize("kind", SENT_DOWN)
@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_every_kind_and_buffer(kind: str, buffer: type) -> None:
    work = WORK._replace(kind=kind, dst=() if kind == "persist" else (7, 8))
    if kind == "seek":
        work = work._replace(src=(), dst=(), spaces=("a",))
    assert decode_effects(buffer(encode_effects([work]))) == [work]


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome(outcome: Outcome) -> None:
    assert decode_reports(encode_reports([Report(TOKEN, outcome)])) == [Report(TOKEN, outcome.value)]


def test_errors_travel_as_words() -> None:
    """Type, message and raw code arrive, and make the same error on the other side."""
    problem = from_exception(FileNotFoundError(2, "gone"), stage="fetch", line=1)
    known = translate("http", 503, stage="fetch", message="slow down")
    report = decode_reports(encode_reports([Report(TOKEN, "broken", (problem, known))]))[0]
    assert [KVError.of(failure) for failure in report.failures] == [KVError.of(problem), KVError.of(known)]
    assert report.failures[0].type == "FileNotFoundError"


def test_the_fields_are_those_of_the_messages() -> None:
    pairs: list[tuple[Any, Any]] = [
        (Work, shapes.WorkShape),
        (Cancel, shapes.CancelShape),
        (Undo, shapes.UndoShape),
        (Hold, shapes.HoldShape),
        (Unhold, shapes.UnholdShape),
        (Adopt, shapes.AdoptShape),
        (Sweep, shapes.SweepShape),
        (Failure, shapes.FailureShape),
        (Report, shapes.ReportShape),
    ]
    for message, wire in pairs:
        assert message._fields == wire.__struct_fields__
    assert set(codec._TAGS) == set(get_args(Effect))
    types = {field.name: field.type for field in msgspec.structs.fields(shapes.WorkShape)}
    assert set(get_args(types["kind"])) == set(SENT_DOWN)
    types = {field.name: field.type for field in msgspec.structs.fields(shapes.ReportShape)}
    assert set(get_args(types["outcome"])) == {outcome.value for outcome in Outcome}


def test_sizes_in_the_docstring() -> None:
    def size(first: int) -> int:
        ids = tuple(range(first, first + 16))
        work = Work(
            TOKEN, "fetch", 0, "thread", 1, ids, ids, tuple(bytes([number]) * 16 for number in range(16)), 0, ("a",)
        )
        return len(encode_effects([work])) - len(encode_effects([]))

    assert (size(1000), size(3), size(100_000)) == (419, 355, 483)
    assert len(encode_reports([Report(TOKEN, "done")])) - len(encode_reports([])) == 12
    assert len(encode_reports([])) == 25
    assert codec.__doc__ is not None
    for words_ in ("takes 419 bytes", "(355 below 128, 483 beyond)", "failures takes 12", "envelope 25"):
        assert words_ in " ".join(codec.__doc__.split())


def test_the_layout_is_pinned() -> None:
    """Changing this means a new FORMAT."""
    assert encode_effects([Cancel(Token(0, 1))]).hex() == (
        "95" + "a7" + b"kvstate".hex() + "01" + f"a{len(SPEC_VERSION):x}" + SPEC_VERSION.encode().hex()
        + "a7" + b"effects".hex() + "91" + "92" + "02" + "920001"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"src": (1,)}, "effect 0 has 1 source and 0 destination blocks, to seek"),
        ({"dst": (1,)}, "effect 0 has 0 source and 1 destination blocks, to seek"),
        ({"keys": ()}, "effect 0 has 0 keys and 1 key spaces, to seek"),
        ({"spaces": ()}, "effect 0 has 2 keys and 0 key spaces, to seek"),
        ({"spaces": ("a", "a")}, "effect 0 has 2 keys and 2 key spaces, to seek"),
    ],
)
def test_a_seek_is_about_keys_of_one_space_and_no_blocks(changes: dict[str, Any], sentence: str) -> None:
    work = WORK._replace(kind="seek", src=(), dst=(), spaces=("a",))
    assert decode_effects(encode_effects([work])) == [work]
    with pytest.raises(CodecError) as refused:
        encode_effects([work._replace(**changes)])
    assert str(refused.value) == sentence


# --- Totality -------------------------------------------------------------------------------------------------------


def assert_total(data: bytes) -> None:
    for decode in (decode_effects, decode_reports):
        try:
            decode(data)
        except CodecError as problem:
            sentence = str(problem)
        else:
            sentence = "it was a message"
        assert sentence.isprintable()
        assert len(sentence) < 500


@given(st.binary(max_size=300))
def test_arbitrary_bytes(data: bytes) -> None:
    assert_total(data)


things = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(things, st.sampled_from(["effects", "reports"]), st.sampled_from([1, 1, 2, -1]))
def test_arbitrary_items_in_an_envelope(items: object, what: str, version: int) -> None:
    assert_total(msgspec.msgpack.encode(["kvstate", version, "1", what, items]))


@given(st.lists(effects, min_size=1, max_size=3), st.lists(reports, min_size=1, max_size=3), st.data())
def test_damaged_messages(some: list[Effect], more: list[Report], data: st.DataObject) -> None:
    for whole in (encode_effects(some), encode_reports(more)):
        place = data.draw(st.integers(0, len(whole) - 1))
        assert_total(whole[:place])
        assert_total(whole + whole[: place + 1])
        byte = data.draw(st.integers(0, 255))
        assert_total(whole[:place] + bytes([byte]) + whole[place + 1 :])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x91" * 100_000,
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x95\xa7kvstate\x01\xa11\xa7effects\xdd\xff\xff\xff\xff",
        b"\x95\xa7kvstate\x01\xa11\xa7effects" + b"\x91" * 100_000,
        b"\x95\xa7kvstate\x02" + b"\x91" * 100_000,
        b"\xc7\x05\x01abcde",
    ],
)
def test_bombs(data: bytes) -> None:
    for decode in (decode_effects, decode_reports):
        with pytest.raises(CodecError):
            decode(data)


def test_odd_buffers() -> None:
    released = memoryview(b"abc")
    released.release()
    odd: list[Any] = [None, "text", 7, released, memoryview(b"abcdef")[::2]]
    for data in odd:
        with pytest.raises(CodecError):
            decode_effects(data)
