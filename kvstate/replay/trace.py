"""Reads request traces: JSON lines of timestamp, input_length, output_length, hash_ids.

The format is that of the traces which Mooncake published with its FAST '25 paper. A line is one request: when it came
(milliseconds from the start), how many tokens went in and out, and the ids of the blocks that make up its prompt. Equal
ids are equal blocks, and since an id stands for a block *and everything in front of it*, two prompts with the same
first n ids share a prefix of n blocks.

A trace comes from somebody else's machine, so nothing in it is believed. Every line gives either a `Request` or a
`TraceError` that names file, line and reason; no bytes, however broken, give anything else. Everything is bounded: the
length of a line before it is parsed, the number of blocks in it, the size of every number. The file is read line by
line and never held.

What is *not* checked: that times go forward (requests are admitted in file order, and merged traces do go back), that
`input_length` fits the number of ids (how many tokens a block holds is not in the file), and fields beyond the four
(other traces carry more of them).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple, NoReturn

MAX_LINE_BYTES = 8 << 20
"""A line of `MAX_BLOCKS` ids with 19 digits each still fits."""
MAX_BLOCKS = 1 << 18
"""A quarter of a million blocks of 512 tokens are a prompt of 134 million tokens."""
MAX_TOKENS = (1 << 31) - 1
"""Of a prompt, and of an answer."""
MAX_HASH_ID = (1 << 63) - 1
"""An id has to fit a signed 64-bit integer, as it does in every tool that writes such traces."""
MAX_TIMESTAMP_MS = 1 << 53
"""Beyond this a double no longer counts single milliseconds."""
KEPT_ERRORS = 5
"""With `skip_bad`, so many of the errors are kept to be shown; the rest is only counted."""

_FIELDS = ("timestamp", "input_length", "output_length", "hash_ids")


class Request(NamedTuple):
    """One request of a trace."""

    line: int
    """Where it stood in the file, from 1."""
    timestamp: float
    """Milliseconds since the start of the trace."""
    input_length: int
    """Tokens of the prompt."""
    output_length: int
    """Tokens of the answer."""
    hash_ids: tuple[int, ...]
    """The blocks of the prompt, first to last."""


class TraceError(Exception):
    """A trace that can't be read, or a line of it: which file, which line (0: the file itself), and why."""

    def __init__(self, file: str, line: int, reason: str) -> None:
        where = f"{file}, line {line}" if line else file
        super().__init__(f"{where}: {reason}")
        self.file = file
        self.line = line
        self.reason = reason


class _LineError(Exception):
    """Why a line is no request; `TraceReader` adds file and line."""


def parse_line(raw: bytes) -> Request:
    """The request that `raw` (one line, with or without its newline) says, numbered 0.

    Raises `ValueError` with the reason, in words that can follow "line 7: ".
    """
    try:
        return _parse(raw)
    except _LineError as bad:
        raise ValueError(str(bad)) from None


def _parse(raw: bytes) -> Request:
    if len(raw) > MAX_LINE_BYTES:
        raise _LineError(f"the line is longer than {MAX_LINE_BYTES} bytes")
    try:
        text = raw.rstrip(b"\r\n").decode("utf-8")
    except UnicodeDecodeError as error:
        raise _LineError(f"byte {error.start + 1} of the line is not UTF-8") from None
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise _LineError(f"not JSON: {error.msg} at column {error.colno}") from None
    except (ValueError, RecursionError) as error:
        # Integers of thousands of digits, and brackets thousands deep, are refused by Python itself.
        raise _LineError(f"not JSON that can be read: {type(error).__name__}") from None
    if not isinstance(value, dict):
        raise _LineError(f"a request is an object, this is {_kind(value)}")
    for name in _FIELDS:
        if name not in value:
            raise _LineError(f"{name} is missing")
    return Request(
        line=0,
        timestamp=_time(value["timestamp"]),
        input_length=_integer("input_length", value["input_length"], MAX_TOKENS),
        output_length=_integer("output_length", value["output_length"], MAX_TOKENS),
        hash_ids=_hash_ids(value["hash_ids"]),
    )


def _refuse_constant(word: str) -> NoReturn:
    raise _LineError(f"{word} is not a number of JSON")


def _kind(value: object) -> str:
    """What a value of JSON is, in the words of JSON."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int():
            return "an integer"
        case float():
            return "a fraction"
        case str():
            return "a string"
        case list():
            return "a list"
        case _:
            return "an object"


def _integer(name: str, value: object, largest: int) -> int:
    # A bool is an int to Python, and `true` tokens would count as one.
    if isinstance(value, bool) or not isinstance(value, int):
        raise _LineError(f"{name} must be an integer, this is {_kind(value)}")
    if value < 0:
        raise _LineError(f"{name} is negative: {_short(value)}")
    if value > largest:
        raise _LineError(f"{name} is larger than {largest}: {_short(value)}")
    return value


def _short(number: int) -> str:
    """A number for a message; not all of its thousands of digits (`str` refuses those)."""
    return str(number) if abs(number) < 1 << 80 else f"a number of {number.bit_length()} bits"


def _time(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _LineError(f"timestamp must be a number of milliseconds, this is {_kind(value)}")
    # 1e999 is correct JSON and reads as infinity. The bound comes first: a huge integer has no double.
    if not value <= MAX_TIMESTAMP_MS:
        raise _LineError(f"timestamp is larger than {MAX_TIMESTAMP_MS} ms")
    if value < 0 or not math.isfinite(value):
        raise _LineError("timestamp is negative")
    return float(value)


def _hash_ids(value: object) -> tuple[int, ...]:
    if not isinstance(value, list):
        raise _LineError(f"hash_ids must be a list of integers, this is {_kind(value)}")
    if len(value) > MAX_BLOCKS:
        raise _LineError(f"hash_ids has {len(value)} blocks, more than {MAX_BLOCKS}")
    for index, item in enumerate(value):
        # The first test is the fast way through for the quarter of a million ids of a real trace.
        if type(item) is not int or not 0 <= item <= MAX_HASH_ID:
            _integer(f"hash_ids[{index}]", item, MAX_HASH_ID)
    return tuple(value)


class TraceReader:
    """Iterates over the requests of an open binary file, once.

    Raises `TraceError` at the first broken line; with `skip_bad` it counts them instead (`skipped`), keeps the first
    few (`errors`) and goes on. Empty lines are no requests and no errors.
    """

    def __init__(self, stream: BinaryIO, name: str, *, skip_bad: bool = False) -> None:
        self.name = name
        self.skip_bad = skip_bad
        self.skipped = 0
        self.errors: list[TraceError] = []
        self._stream = stream

    def __iter__(self) -> Iterator[Request]:
        number = 0
        while True:
            number += 1
            try:
                raw = self._stream.readline(MAX_LINE_BYTES + 1)
                if len(raw) > MAX_LINE_BYTES:
                    self._drop_rest_of_line(raw)
            except OSError as error:
                raise TraceError(self.name, number, f"could not be read: {error.strerror or error}") from error
            if not raw:
                return
            if not raw.strip():
                continue
            try:
                request = _parse(raw)
            except _LineError as bad:
                self._refuse(TraceError(self.name, number, str(bad)))
                continue
            yield request._replace(line=number)

    def _refuse(self, error: TraceError) -> None:
        if not self.skip_bad:
            raise error
        self.skipped += 1
        if len(self.errors) < KEPT_ERRORS:
            self.errors.append(error)

    def _drop_rest_of_line(self, piece: bytes) -> None:
        while piece and not piece.endswith(b"\n"):
            piece = self._stream.readline(MAX_LINE_BYTES)


def read_trace(path: Path, *, skip_bad: bool = False, limit: int | None = None) -> Iterator[Request]:
    """The requests of the file at `path`, at most `limit` of them, in file order.

    Raises `TraceError`, also when the file can't be opened. Who wants to know how many lines were skipped uses
    `TraceReader`.
    """
    try:
        stream = path.open("rb")
    except OSError as error:
        raise TraceError(str(path), 0, f"could not be opened: {error.strerror or error}") from error
    with stream:
        yield from islice(TraceReader(stream, str(path), skip_bad=skip_bad), limit)


def count_lines(path: Path) -> int | None:
    """How many lines the file has, for a progress bar; None where that can't be told without using it up (a pipe).

    Raises `TraceError` if it can't be read.
    """
    if not path.is_file():
        return None
    lines = 0
    last = b"\n"
    try:
        with path.open("rb") as stream:
            while piece := stream.read(1 << 20):
                lines += piece.count(b"\n")
                last = piece[-1:]
    except OSError as error:
        raise TraceError(str(path), 0, f"could not be read: {error.strerror or error}") from error
    return lines + (last != b"\n")


def format_request(request: Request) -> str:
    """The line (without its newline) that reads back as `request`."""
    stamp = int(request.timestamp) if request.timestamp.is_integer() else request.timestamp
    return json.dumps(
        {
            "timestamp": stamp,
            "input_length": request.input_length,
            "output_length": request.output_length,
            "hash_ids": request.hash_ids,
        }
    )
