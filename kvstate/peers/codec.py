"""Messages between two parties as bytes.

A message is one msgpack array: `["kvstate-peers", format, spec version, name, life, to, body]`; the body is an array
that begins with its tag (1 hello, 2 offer, 3 word, 4 bye) and goes on with the fields of `kvstate.peers.words`. The
first six never change, so that a process can say in what version another one speaks, whatever that is.

**Total.** Arbitrary bytes give a `Letter`, a `Foreigner` or an `Unreadable`, and never anything else; sizes are bounded
before anything is built.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import msgspec

from kvstate.errors.text import clean
from kvstate.peers import shapes
from kvstate.peers.tables import SPEC_VERSION
from kvstate.peers.words import Bye, Goods, Hello, Letter, Message, Offer, Word

FORMAT: Final = 1
"""How a message is laid out."""
MAX_BYTES: Final = 16 * 2**20
"""Of a message. Who has more to offer makes two offers of it."""
MAX_SHOWN: Final = 64
"""Signs of a stranger's word that are shown."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_LETTER: Final = msgspec.msgpack.Decoder(shapes.EnvelopeShape)
_HEAD: Final = msgspec.msgpack.Decoder(shapes.HeadShape)
_REFUSALS: Final = (ValueError, OverflowError, RecursionError, BufferError, msgspec.MsgspecError)
"""What msgspec raises for bytes that it can't read and values that it can't write, among TypeErrors."""
_TAGS: Final[dict[type, int]] = {Hello: 1, Offer: 2, Word: 3, Bye: 4}


class Foreigner(NamedTuple):
    """A message in another version: who sent it to whom, and a `sentence` that names both versions."""

    name: str
    life: int
    to: int
    sentence: str


class Unreadable(NamedTuple):
    """Bytes that are no message, and why in a `sentence`."""

    sentence: str


class MessageError(ValueError):
    """Values that no message can carry. One sentence."""


def fits(spec: str, own: str = SPEC_VERSION) -> bool:
    """Do two processes with these versions of `spec/peers` understand each other?

    The first part of the version must be the same; before 1.0.0 the second, too (`spec/README.md`).
    """
    one, other = spec.split("."), own.split(".")
    parts = 2 if other[0] == "0" else 1
    return len(one) == len(other) and one[:parts] == other[:parts]


def encode(name: str, life: int, to: int, message: Message) -> bytes:
    """The bytes of a message. `MessageError` if it is not what the other side accepts."""
    body: Any = (_TAGS[type(message)], *message)
    try:
        data = _ENCODER.encode((shapes.MAGIC, FORMAT, SPEC_VERSION, name, life, to, body))
    except (TypeError, *_REFUSALS) as problem:
        raise MessageError(f"the message can't be written: {problem}") from None
    heard = decode(data)
    if not isinstance(heard, Letter):
        raise MessageError(f"the message is not one that can be read: {heard.sentence}")
    return data


def decode(data: bytes | bytearray | memoryview) -> Letter | Foreigner | Unreadable:
    """What these bytes say. Total: never raises."""
    try:
        size = memoryview(data).nbytes
        if size > MAX_BYTES:
            return Unreadable(f"{size} bytes are more than {MAX_BYTES}, the limit for a message")
        head = _HEAD.decode(data)
    except (TypeError, *_REFUSALS) as problem:
        return Unreadable(f"these bytes are no message of a peer: {clean(str(problem), 200)}")
    if head.format != FORMAT or not fits(head.spec):
        spec = clean(head.spec, MAX_SHOWN)
        said = f"it speaks format {head.format} and spec {spec}, and this side format {FORMAT} and spec {SPEC_VERSION}"
        return Foreigner(head.name, head.life, head.to, said)
    try:
        body = _LETTER.decode(data).body
    except _REFUSALS as problem:
        return Unreadable(f"the message is not well formed: {clean(str(problem), 200)}")
    if isinstance(body, shapes.OfferShape) and (fault := _crooked(body.goods)):
        return Unreadable(f"the offer is not well formed: {fault}")
    if isinstance(body, shapes.HelloShape) and len(body.addresses) not in (0, body.ranks):
        return Unreadable(f"the hello is not well formed: {body.ranks} ranks and {len(body.addresses)} addresses")
    return Letter(head.name, head.life, head.to, _message(body))


def _crooked(goods: shapes.GoodsShape) -> str:
    """What the types can't say: the columns of the goods belong together."""
    lines = len(goods.keys)
    if not len(goods.blocks) == len(goods.generations) == lines:
        return f"it has {lines} keys, {len(goods.blocks)} blocks and {len(goods.generations)} generations"
    if len(goods.spaces) not in ({1, lines} if lines else {0, 1}):
        return f"it has {lines} keys and {len(goods.spaces)} key spaces"
    if any(len(rank) != lines for rank in goods.seals):
        return f"it has {lines} keys, and a rank with another number of seals"
    return ""


def _message(body: shapes.Body) -> Message:
    match body:
        case shapes.HelloShape():
            return Hello(*msgspec.structs.astuple(body))
        case shapes.OfferShape():
            return Offer(body.number, body.floor, body.lease, Goods(*msgspec.structs.astuple(body.goods)))
        case shapes.WordShape():
            return Word(*msgspec.structs.astuple(body))
        case _:
            return Bye()
