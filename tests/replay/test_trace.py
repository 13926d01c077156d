"""The reader of traces: what it gives, and that no bytes make it give anything else."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvstate.replay import trace
from kvstate.replay.trace import Request, TraceError, TraceReader, count_lines, format_request, parse_line, read_trace

GOOD = {"timestamp": 27, "input_length": 1030, "output_length": 9, "hash_ids": [0, 1, 7]}


def line(**changes: object) -> bytes:
    return json.dumps(GOOD | changes).encode()


def read(data: bytes, *, skip_bad: bool = False) -> list[Request]:
    return list(TraceReader(io.BytesIO(data), "t.jsonl", skip_bad=skip_bad))


def test_a_line_is_a_request() -> None:
    assert read(line() + b"\n" + line(timestamp=0.5, hash_ids=[])) == [
        Request(1, 27.0, 1030, 9, (0, 1, 7)),
        Request(2, 0.5, 1030, 9, ()),
    ]


def test_more_fields_empty_lines_and_times_that_go_back_are_no_faults() -> None:
    data = line(type="chat") + b"\n\n  \r\n" + line(timestamp=3) + b"\r\n"
    assert [(request.line, request.timestamp) for request in read(data)] == [(1, 27.0), (4, 3.0)]


REASONS = [
    (b"{", "not JSON: "),
    (b"nonsense", "not JSON: "),
    (b"[1, 2]", "a request is an object, this is a list"),
    (b"7", "a request is an object, this is an integer"),
    (b"null", "a request is an object, this is null"),
    (b'"x"', "a request is an object, this is a string"),
    (b'{"timestamp": 0}', "input_length is missing"),
    (line(timestamp="0"), "timestamp must be a number of milliseconds, this is a string"),
    (line(timestamp=True), "timestamp must be a number of milliseconds, this is true or false"),
    (line(timestamp=-1), "timestamp is negative"),
    (line(timestamp=2**60), "timestamp is larger than"),
    (line(timestamp=float("nan")), "NaN is not a number of JSON"),
    (line(timestamp=float("-inf")), "-Infinity is not a number of JSON"),
    (line().replace(b"27", b"1e999"), "timestamp is larger than"),
    (line().replace(b"27", b"-1e999"), "timestamp is negative"),
    (line().replace(b"27", b"1" + b"0" * 400), "timestamp is larger than"),
    (line().replace(b"27", b"1" * 5000), "not JSON that can be read: ValueError"),
    (b"[" * 100_000, "not JSON that can be read: RecursionError"),
    (line(input_length=1.0), "input_length must be an integer, this is a fraction"),
    (line(input_length=True), "input_length must be an integer, this is true or false"),
    (line(input_length=2**31), "input_length is larger than 2147483647: 2147483648"),
    (line(output_length=-4), "output_length is negative: -4"),
    (line(output_length=None), "output_length must be an integer, this is null"),
    (line(hash_ids={"0": 1}), "hash_ids must be a list of integers, this is an object"),
    (line(hash_ids=[0, False]), "hash_ids[1] must be an integer, this is true or false"),
    (line(hash_ids=[0, 1, -1]), "hash_ids[2] is negative: -1"),
    (line(hash_ids=[2**63]), f"hash_ids[0] is larger than {2**63 - 1}: {2**63}"),
    (line(hash_ids=[10**400]), "hash_ids[0] is larger than 9223372036854775807: a number of 1329 bits"),
    (b"\xff" + line(), "byte 1 of the line is not UTF-8"),
]


@pytest.mark.parametrize(("raw", "reason"), REASONS, ids=[reason[:40] for _, reason in REASONS])
def test_a_broken_line_says_file_line_and_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(TraceError) as caught:
        read(line() + b"\n" + raw + b"\n" + line())
    assert (caught.value.file, caught.value.line) == ("t.jsonl", 2)
    assert caught.value.reason.startswith(reason)
    assert str(caught.value) == f"t.jsonl, line 2: {caught.value.reason}"
    with pytest.raises(ValueError, match=r".") as alone:
        parse_line(raw)
    assert str(alone.value) == caught.value.reason


def test_the_largest_values_pass() -> None:
    [request] = read(line(timestamp=2**53, input_length=2**31 - 1, hash_ids=[2**63 - 1]))
    assert request[1:] == (float(2**53), 2**31 - 1, 9, (2**63 - 1,))


def test_limits_on_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MAX_BLOCKS", 3)
    assert len(read(line())) == 1
    with pytest.raises(TraceError, match="hash_ids has 4 blocks, more than 3"):
        read(line(hash_ids=[1, 2, 3, 4]))
    monkeypatch.setattr(trace, "MAX_LINE_BYTES", len(line()) + 1)
    assert len(read(line() + b"\n")) == 1
    too_long = line(more="x" * 500)
    with pytest.raises(TraceError, match="line 1: the line is longer than"):
        read(too_long)
    reader = TraceReader(io.BytesIO(too_long + b"\n" + line() + b"\n" + too_long), "t.jsonl", skip_bad=True)
    assert [request.line for request in reader] == [2]
    assert reader.skipped == 2


def test_skip_bad_counts_and_goes_on() -> None:
    bad = b"{\n" * 7
    reader = TraceReader(io.BytesIO(line() + b"\n" + bad + line() + b"\n"), "t.jsonl", skip_bad=True)
    assert [request.line for request in reader] == [1, 9]
    assert reader.skipped == 7
    assert [error.line for error in reader.errors] == [2, 3, 4, 5, 6]


def test_a_file_is_read_up_to_the_limit_and_no_further(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(line() + b"\n" + line() + b"\nbroken")
    assert len(list(read_trace(path, limit=2))) == 2
    assert len(list(read_trace(path, skip_bad=True))) == 2
    assert count_lines(path) == 3
    with pytest.raises(TraceError, match=r"t\.jsonl, line 3: not JSON"):
        list(read_trace(path))


def test_lines_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"")
    assert count_lines(path) == 0
    path.write_bytes(b"a\nb\n")
    assert count_lines(path) == 2
    assert count_lines(tmp_path) is None


def test_a_file_that_cannot_be_read_is_a_trace_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="could not be opened: No such file") as caught:
        list(read_trace(tmp_path / "none.jsonl"))
    assert caught.value.line == 0
    with pytest.raises(TraceError, match="could not be opened: Is a directory"):
        list(read_trace(tmp_path))

    class Torn(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(TraceError, match="line 1: could not be read: Input/output error"):
        list(TraceReader(Torn(), "t.jsonl", skip_bad=True))


numbers = st.one_of(
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.text(max_size=3),
    st.sampled_from([-1, 2**31, 2**53 + 1, 2**63, 10**30]),
)
near_misses = st.fixed_dictionaries(
    {},
    optional={
        "timestamp": numbers,
        "input_length": numbers,
        "output_length": numbers,
        "hash_ids": st.one_of(numbers, st.lists(numbers, max_size=4)),
    },
)
lines = st.one_of(
    st.binary(max_size=60),
    near_misses.map(lambda value: json.dumps(value).encode()),
    near_misses.map(lambda value: json.dumps(GOOD | value).encode()),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(lines, max_size=6).map(b"\n".join))
@example(b"")
@example(b"\n\n")
@example(b"\x00" * 40)
@example(b"[" * sys.getrecursionlimit() * 2)
def test_any_bytes_give_requests_or_a_trace_error(data: bytes) -> None:
    try:
        requests = read(data)
    except TraceError:
        broken = True
    else:
        broken = False
        for request in requests:
            assert 0 <= request.timestamp <= 2**53
            assert all(type(item) is int and 0 <= item < 2**63 for item in request.hash_ids)
            assert parse_line(format_request(request).encode()) == request._replace(line=0)
    reader = TraceReader(io.BytesIO(data), "t.jsonl", skip_bad=True)
    survivors = list(reader)
    assert (reader.skipped > 0) == broken
    assert all(error.line >= 1 for error in reader.errors)
    assert len(survivors) + reader.skipped <= data.count(b"\n") + 1
