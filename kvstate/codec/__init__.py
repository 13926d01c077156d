"""Effects and reports as bytes: what a scheduler process and its workers send each other.

A message is one msgpack array: `["kvstate", format, spec version, "effects" or "reports", items]`. An effect is an
array that begins with its tag (1 work, 2 cancel, 3 undo, 4 hold, 5 unhold, 6 adopt, 7 sweep) and goes on with the
fields in the order of `kvstate.machines.messages`; a report is its fields alone. A work of 16 blocks with keys of 16
bytes and a key space of one sign takes 419 bytes with block ids of up to 65,535 (355 below 128, 483 beyond), 288 of
them its keys; a report without failures takes 12; the envelope 25, once a message. Failures travel as words and
numbers, never as exception objects.

**Strict where it decides, lenient where it is only read.** What the tables act on (tokens, kinds, outcomes, blocks,
lines) is checked to the last bit, by the same decoder on both sides: what the other side would refuse is not sent. A
failure's code may be a number that this version does not know, and its stage any word: a report is the proof that a
copy has stopped, and must not be lost over the name of its reason. For the same reason `encode_reports` cuts texts
that are too long instead of refusing them.

**Two versions.** The *format* is how a message is laid out; another one is refused, with both versions named. The
*spec* version says which tables the sender runs; it is carried and named when a word is not understood, but two
versions of the data whose messages have one layout understand each other: numbers of codes never change.

**Total.** Arbitrary bytes give `CodecError`, one sentence, and never anything else; sizes are bounded before anything
is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import msgspec

from kvstate.codec import shapes
from kvstate.errors.text import MAX_MESSAGE, MAX_RAW, MAX_TYPE, MAX_WORD, clean
from kvstate.machines.messages import (
    Adopt,
    BlockRef,
    Cancel,
    Effect,
    Failure,
    Hold,
    Report,
    Sweep,
    Token,
    Undo,
    Unhold,
    Work,
)
from kvstate.machines.tables import SPEC_VERSION

__all__ = ["FORMAT", "CodecError", "decode_effects", "decode_reports", "encode_effects", "encode_reports"]

MAGIC: Final = "kvstate"
FORMAT: Final = 1
"""How a message is laid out. It begins with `MAGIC` and this."""
MAX_BYTES: Final = 64 * 2**20
"""Of a message. A sender with more splits its batch."""


class CodecError(ValueError):
    """Bytes that are no message, or values that cannot be one. One sentence."""

    def __init__(self, sentence: str) -> None:
        super().__init__("".join(sign if sign.isprintable() else " " for sign in sentence))


_Message = TypeVar("_Message", shapes.EffectsShape, shapes.ReportsShape)

_ENCODER: Final = msgspec.msgpack.Encoder()
_EFFECTS: Final = msgspec.msgpack.Decoder(shapes.EffectsShape)
_REPORTS: Final = msgspec.msgpack.Decoder(shapes.ReportsShape)
_HEAD: Final = msgspec.msgpack.Decoder(shapes.HeadShape)
_ENVELOPE: Final = msgspec.msgpack.Decoder(shapes.EnvelopeShape)
_REFUSALS: Final = (ValueError, OverflowError, RecursionError, BufferError, msgspec.MsgspecError)
"""What msgspec raises for values that it cannot write and bytes that it cannot read, among TypeErrors."""
_TAGS: Final[dict[type, int]] = {Work: 1, Cancel: 2, Undo: 3, Hold: 4, Unhold: 5, Adopt: 6, Sweep: 7}


# --- The four functions ---------------------------------------------------------------------------------------------


def encode_effects(effects: Sequence[Effect]) -> bytes:
    """The bytes of these effects, in their order. `CodecError` if one of them is not what a worker accepts."""
    items = []
    for number, effect in enumerate(effects):
        tag = _TAGS.get(type(effect))
        if tag is None:
            raise CodecError(f"item {number} is of type {type(effect).__name__}, which is no effect")
        items.append((tag, *effect))
    data = _pack("effects", items)
    _check_effects(_unpack(data, "effects", _EFFECTS))
    return data


def decode_effects(data: bytes | bytearray | memoryview) -> list[Effect]:
    """The effects of a message, in their order. `CodecError` for all other bytes."""
    message = _unpack(data, "effects", _EFFECTS)
    _check_effects(message)
    return [_effect(item) for item in message.items]


def encode_reports(reports: Iterable[Report]) -> bytes:
    """The bytes of these reports, in their order; texts of failures that are too long are cut.

    Errors: `CodecError` for what is no report, or has numbers or words that no message can carry.
    """
    items = []
    for number, report in enumerate(reports):
        if type(report) is not Report:
            raise CodecError(f"item {number} is of type {type(report).__name__}, which is no report")
        failures = tuple(_tidy(number, failure) for failure in report.failures) if report.failures else ()
        items.append((report.token, report.outcome, failures))
    data = _pack("reports", items)
    _unpack(data, "reports", _REPORTS)
    return data


def decode_reports(data: bytes | bytearray | memoryview) -> list[Report]:
    """The reports of a message, in their order. `CodecError` for all other bytes."""
    return [
        Report(
            Token(*item.token),
            item.outcome,
            tuple(Failure(*msgspec.structs.astuple(failure)) for failure in item.failures),
        )
        for item in _unpack(data, "reports", _REPORTS).items
    ]


# --- What they share ------------------------------------------------------------------------------------------------


def _pack(what: str, items: list[Any]) -> bytes:
    try:
        data = _ENCODER.encode((MAGIC, FORMAT, SPEC_VERSION, what, items))
    except (TypeError, *_REFUSALS) as problem:
        raise CodecError(f"the {what} cannot be written: {problem}") from None
    if len(data) > MAX_BYTES:
        raise CodecError(f"the {what} take {len(data)} bytes; {MAX_BYTES} is the limit for a message")
    return data


def _unpack(data: bytes | bytearray | memoryview, what: str, decoder: msgspec.msgpack.Decoder[_Message]) -> _Message:
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
        if head.format != FORMAT:
            return f"the message has format {head.format}, and this side reads format {FORMAT}"
        envelope = _ENVELOPE.decode(data)
    except _REFUSALS:
        return f"these bytes are no message of kvstate: {reason}"
    if envelope.what != what:
        return f'the message carries "{clean(envelope.what, 40)}", not "{what}"'
    spec = clean(envelope.spec, MAX_WORD)
    other = f" (it was written for spec {spec}, and this side has {SPEC_VERSION})" if spec != SPEC_VERSION else ""
    return f"the {what} are not well formed: {reason.replace('$[4]', 'items')}{other}"


def _check_effects(message: shapes.EffectsShape) -> None:
    """What the types cannot say: the lines of a part belong together."""
    for number, item in enumerate(message.items):
        if isinstance(item, shapes.CancelShape | shapes.HoldShape | shapes.UnholdShape | shapes.SweepShape):
            continue
        if isinstance(item, shapes.AdoptShape):
            if not len(item.blocks) == len(item.spaces) == len(item.keys):
                raise CodecError(f"effect {number} has blocks, key spaces and keys of different numbers")
            continue
        if isinstance(item, shapes.WorkShape) and item.kind == "seek":
            _check_seek(number, item)
            continue
        lines = len(item.src)
        if not lines:
            raise CodecError(f"effect {number} has no blocks")
        if len(item.keys) != lines:
            raise CodecError(f"effect {number} has {lines} source blocks and {len(item.keys)} keys")
        if isinstance(item, shapes.WorkShape) and len(item.spaces) not in (0, 1, lines):
            raise CodecError(f"effect {number} has {lines} lines and {len(item.spaces)} key spaces")
        if isinstance(item, shapes.WorkShape) and len(item.dst) != (0 if item.kind == "persist" else lines):
            raise CodecError(
                f"effect {number} has {lines} source and {len(item.dst)} destination blocks, to {item.kind}"
            )


def _check_seek(number: int, item: shapes.WorkShape) -> None:
    """It is about keys of one key space, and touches no block."""
    if item.src or item.dst:
        raise CodecError(f"effect {number} has {len(item.src)} source and {len(item.dst)} destination blocks, to seek")
    if not item.keys or len(item.spaces) != 1:
        raise CodecError(f"effect {number} has {len(item.keys)} keys and {len(item.spaces)} key spaces, to seek")


def _effect(item: shapes.ItemShape) -> Effect:
    match item:
        case shapes.WorkShape():
            return Work(Token(*item.token), *msgspec.structs.astuple(item)[1:])
        case shapes.UndoShape():
            return Undo(Token(*item.token), item.rank, item.copier, item.src, item.keys)
        case shapes.AdoptShape():
            return Adopt(item.rank, item.copier, item.blocks, item.spaces, item.keys)
        case shapes.SweepShape():
            return Sweep(item.rank, item.copier, item.everything)
        case shapes.CancelShape():
            return Cancel(Token(*item.token))
        case shapes.HoldShape():
            return Hold(BlockRef(*item.ref))
        case shapes.UnholdShape():
            return Unhold(BlockRef(*item.ref))


def _tidy(number: int, failure: Failure) -> tuple[object, ...]:
    if type(failure) is not Failure:
        raise CodecError(f"report {number} has a failure of type {type(failure).__name__}, which is none")
    return (
        failure.line,
        failure.code,
        clean(failure.stage, MAX_WORD),
        clean(failure.driver, MAX_WORD),
        clean(failure.raw, MAX_RAW),
        clean(failure.type, MAX_TYPE),
        clean(failure.message, MAX_MESSAGE),
        failure.transient,
    )
