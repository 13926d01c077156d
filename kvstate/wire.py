"""What a scheduler process and the worker of one rank send each other: envelopes around effects and reports.

An envelope is one msgpack array: `["kvstate", format, spec version, "down" or "up", rank, incarnation, items]`. Items
stand in the order in which they have to be taken. Down go effects, `Retired`, `AskFence` and `AskProbe`; up come
reports, `Fenced`, `Probed`, `Found` and `Trouble`. Neighbouring effects, and neighbouring reports, are one item: the
bytes that `kvstate.codec` makes of them, which is as strict about them as it always is.

**Whose message it is.** `rank` says which worker it is for or from, `incarnation` which life of it, from 1 up. A worker
takes nothing that was meant for another life of its rank; and of what an earlier life says only reports are passed on,
since each of them names a token, and a token is minted once.

**Total.** Arbitrary bytes give `CodecError`, one sentence, and never anything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from kvstate.codec import CodecError, decode_effects, decode_reports, encode_effects, encode_reports
from kvstate.codec import envelope as shapes
from kvstate.codec.envelope import MAX_ITEMS, MAX_TEXT
from kvstate.errors.text import clean
from kvstate.machines.messages import Effect, Report, Token
from kvstate.machines.tables import SPEC_VERSION

__all__ = [
    "FORMAT", "AskFence", "AskProbe", "Down", "DownItem", "Fenced", "Found", "Probed", "Retired", "Trouble", "Up",
    "UpItem", "decode_down", "decode_up", "encode_down", "encode_up",
]  # fmt: skip

MAGIC: Final = "kvstate"
FORMAT: Final = 1
"""How an envelope is laid out. It begins with `MAGIC` and this."""
MAX_BYTES: Final = 128 * 2**20
"""Of an envelope."""


class Retired(NamedTuple):
    """This compute step and all before it are over; work that waits for them may begin."""

    step: int


class AskFence(NamedTuple):
    """Prove the work of every copier over; a `Fenced` with this number comes back."""

    number: int


class AskProbe(NamedTuple):
    """What is known of the part with this token? A `Probed` comes back."""

    token: Token


class Fenced(NamedTuple):
    """All that each of these copiers was given up to its serial is over."""

    number: int
    """Of the `AskFence` that it answers."""
    proved: tuple[tuple[str, int], ...]
    """Copier and serial; a copier that could prove nothing is not among them."""


class Probed(NamedTuple):
    """What the copiers of the rank know of a part. The `answer` is a word of `kvstate.runtime.copiers.Progress`, or
    `waiting` (for its step). Only `over` proves something; what, stands there.
    """

    token: Token
    answer: str


class Found(NamedTuple):
    """What a copier whose pool outlives the process found when it was made, the oldest first: whole objects, by key
    space and key. Said in one life once, in as many items as it takes; only the last one has the counts.
    """

    copier: str
    spaces: tuple[str, ...]
    """The key space of each; one word stands for all."""
    keys: tuple[bytes, ...]
    """The key of each."""
    removed: int
    """Files that were begun by a process that died, and are gone."""
    refused: int
    """Objects that can't be served: of another version or size, or not whole."""
    strange: int
    """Files that are none of ours, left alone."""
    last: bool
    """Is this all?"""


class Trouble(NamedTuple):
    """A worker could not take a message, or make one. Said once for each sentence."""

    sentence: str


DownItem = Effect | Retired | AskFence | AskProbe
"""What goes down."""
UpItem = Report | Fenced | Probed | Found | Trouble
"""What comes up."""


class Down(NamedTuple):
    """A message to the worker of `rank` in its life `incarnation`: `items`, in their order."""

    rank: int
    incarnation: int
    items: list[DownItem]


class Up(NamedTuple):
    """A message of the worker of `rank` in its life `incarnation`: `items`, in their order."""

    rank: int
    incarnation: int
    items: list[UpItem]


_Envelope = TypeVar("_Envelope", shapes.DownShape, shapes.UpShape)
_ENCODER: Final = msgspec.msgpack.Encoder()
_DOWN: Final = msgspec.msgpack.Decoder(shapes.DownShape)
_UP: Final = msgspec.msgpack.Decoder(shapes.UpShape)
_HEAD: Final = msgspec.msgpack.Decoder(shapes.HeadShape)
_REFUSALS: Final = (ValueError, OverflowError, RecursionError, BufferError, msgspec.MsgspecError)
_TAGS: Final[dict[type, int]] = {Retired: 1, AskFence: 2, AskProbe: 3, Fenced: 4, Probed: 5, Trouble: 6, Found: 7}


def encode_down(rank: int, incarnation: int, items: Sequence[DownItem]) -> bytes:
    """The bytes of these items, in their order. `CodecError` for what no worker would accept."""
    packed: list[Any] = []
    for own, run in groupby(items, lambda item: type(item) in _TAGS):
        if own:
            packed += [(_TAGS[type(item)], *item) for item in run]
        else:
            packed += [encode_effects(part) for part in _parts([item for item in run if not _is_own(item)])]
    return _pack("down", rank, incarnation, packed, _DOWN)


def encode_up(rank: int, incarnation: int, items: Iterable[UpItem]) -> bytes:
    """The bytes of these items, in their order; sentences that are too long are cut. `CodecError` as `encode_down`."""
    packed: list[Any] = []
    for own, run in groupby(items, lambda item: type(item) in _TAGS):
        if own:
            packed += [_tidy(item) for item in run]
        else:
            packed += [encode_reports(part) for part in _parts([item for item in run if not _is_own(item)])]
    return _pack("up", rank, incarnation, packed, _UP)


def decode_down(data: bytes | bytearray | memoryview) -> Down:
    """The message. `CodecError` for all other bytes."""
    message = _unpack(data, "down", _DOWN)
    items: list[DownItem] = []
    for item in message.items:
        match item:
            case shapes.RetiredShape():
                items.append(Retired(item.step))
            case shapes.AskFenceShape():
                items.append(AskFence(item.number))
            case shapes.AskProbeShape():
                items.append(AskProbe(Token(*item.token)))
            case _:
                items += decode_effects(item)
    return Down(message.rank, message.incarnation, items)


def decode_up(data: bytes | bytearray | memoryview) -> Up:
    """The message. `CodecError` for all other bytes."""
    message = _unpack(data, "up", _UP)
    items: list[UpItem] = []
    for item in message.items:
        match item:
            case shapes.FencedShape():
                items.append(Fenced(item.number, item.proved))
            case shapes.ProbedShape():
                items.append(Probed(Token(*item.token), item.answer))
            case shapes.TroubleShape():
                items.append(Trouble(item.sentence))
            case shapes.FoundShape():
                counts = item.removed, item.refused, item.strange
                items.append(Found(item.copier, item.spaces, item.keys, *counts, item.last))
            case _:
                items += decode_reports(item)
    return Up(message.rank, message.incarnation, items)


def _is_own(item: object) -> bool:
    return type(item) in _TAGS


def _parts(items: list[Any]) -> list[list[Any]]:
    return [items[start : start + MAX_ITEMS] for start in range(0, len(items), MAX_ITEMS)]


def _tidy(item: Any) -> tuple[object, ...]:
    if isinstance(item, Trouble):
        return _TAGS[Trouble], clean(item.sentence, MAX_TEXT)
    return _TAGS[type(item)], *item


def _pack(what: str, rank: int, incarnation: int, items: list[Any], decoder: msgspec.msgpack.Decoder[Any]) -> bytes:
    try:
        data = _ENCODER.encode((MAGIC, FORMAT, SPEC_VERSION, what, rank, incarnation, items))
    except (TypeError, *_REFUSALS) as problem:
        raise CodecError(f"the message {what} cannot be written: {problem}") from None
    _unpack(data, what, decoder)
    return data


def _unpack(data: bytes | bytearray | memoryview, what: str, decoder: msgspec.msgpack.Decoder[_Envelope]) -> _Envelope:
    if not isinstance(data, bytes | bytearray | memoryview):
        raise CodecError(f"a message is bytes, not {type(data).__name__}")
    try:
        size = memoryview(data).nbytes
        if size <= MAX_BYTES:
            return decoder.decode(data)
        reason = f"{size} bytes are more than {MAX_BYTES}, the limit for a message"
    except _REFUSALS as problem:
        reason = str(problem)
    raise CodecError(_why(data, what, reason))


def _why(data: bytes | bytearray | memoryview, what: str, reason: str) -> str:
    """The sentence for a message that was refused: the most general thing that is wrong with it."""
    try:
        head = _HEAD.decode(data)
    except _REFUSALS:
        return f"these bytes are no message between a scheduler and a worker: {reason}"
    if head.format != FORMAT:
        return f"the message has format {head.format}, and this side reads format {FORMAT}; run one version on both"
    if head.what != what:
        return f'the message goes "{clean(head.what, 40)}", not "{what}"'
    spec = clean(head.spec, 64)
    other = f" (it was written for spec {spec}, and this side has {SPEC_VERSION})" if spec != SPEC_VERSION else ""
    return f"the message {what} is not well formed: {reason.replace('$[6]', 'items')}{other}"
