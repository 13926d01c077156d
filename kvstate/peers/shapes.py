"""What a message between two parties looks like: the bytes as types, which say all that one field can say.

The fields stand in the order of `kvstate.peers.words`; a test holds the two against each other.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from kvstate.codec.shapes import MAX_KEY, MAX_LINES, MAX_SPACE
from kvstate.peers.words import MAX_ADDRESS, MAX_LIFE, MAX_RANKS, MAX_SEAL, MAX_SECONDS, MAX_TEXT

MAX_REQUEST: Final = 1024
"""Bytes of the name of a request."""
MAGIC: Final = "kvstate-peers"
"""The first word of every message, in every format."""

_Number = Annotated[int, Meta(ge=0, le=MAX_LIFE)]
_Life = Annotated[int, Meta(ge=1, le=MAX_LIFE)]
_Seal = Annotated[bytes, Meta(max_length=MAX_SEAL)]
_Text = Annotated[str, Meta(max_length=MAX_TEXT)]
_Numbers = Annotated[tuple[_Number, ...], Meta(max_length=MAX_LINES)]


class GoodsShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """`Goods`: request, tokens, spaces, keys, blocks, generations, seals."""

    request: Annotated[bytes, Meta(max_length=MAX_REQUEST)]
    tokens: _Number
    spaces: Annotated[tuple[Annotated[str, Meta(max_length=MAX_SPACE)], ...], Meta(max_length=MAX_LINES)]
    keys: Annotated[tuple[Annotated[bytes, Meta(max_length=MAX_KEY)], ...], Meta(max_length=MAX_LINES)]
    blocks: _Numbers
    generations: _Numbers
    seals: Annotated[tuple[Annotated[tuple[_Seal, ...], Meta(max_length=MAX_LINES)], ...], Meta(max_length=MAX_RANKS)]


class HelloShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=1):
    """`Hello`: fingerprint, layout, transport, ranks, addresses, challenge, echo, asks."""

    fingerprint: _Text
    layout: _Text
    transport: _Text
    ranks: Annotated[int, Meta(ge=1, le=MAX_RANKS)]
    addresses: Annotated[tuple[Annotated[bytes, Meta(max_length=MAX_ADDRESS)], ...], Meta(max_length=MAX_RANKS)]
    challenge: _Life
    echo: _Number
    asks: bool


class OfferShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=2):
    """`Offer`: number, floor, lease, goods."""

    number: _Life
    floor: _Life
    lease: Annotated[float, Meta(gt=0, lt=MAX_SECONDS)]
    goods: GoodsShape


class WordShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=3):
    """`Word`: say, life, number, nonce, code."""

    say: Literal[
        "withdrawn", "vouch", "deny", "renewed", "over", "received", "check", "renew", "taken", "refused", "void"
    ]
    life: _Life
    number: _Life
    nonce: _Number
    code: _Number


class ByeShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=4):
    """`Bye`, which has nothing to say."""


Body = HelloShape | OfferShape | WordShape | ByeShape
"""What can stand in an envelope."""


class EnvelopeShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """A message: magic, format, spec, name, life, to, body."""

    magic: Literal["kvstate-peers"]
    format: Literal[1]
    spec: _Text
    name: _Text
    life: _Life
    to: _Number
    body: Body


class HeadShape(Struct, array_like=True, frozen=True):
    """What a message of any format begins with: magic, format, spec, name, life, to. It never changes."""

    magic: Literal["kvstate-peers"]
    format: _Number
    spec: _Text
    name: _Text
    life: _Life
    to: _Number
