"""What an envelope of `kvstate.wire` looks like: the bytes as types, which say all that one field can say."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from kvstate.codec.shapes import MAX_KEY, MAX_LINES, MAX_SPACE

MAX_ITEMS: Final = 65_536
"""Of an envelope; so many effects or reports, at most, become one item."""
MAX_TEXT: Final = 1000
"""Signs of a sentence."""

_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Rank = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Word = Annotated[str, Meta(max_length=64)]
_Text = Annotated[str, Meta(max_length=MAX_TEXT)]


class RetiredShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=1):
    """`Retired`: step."""

    step: _Number


class AskFenceShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=2):
    """`AskFence`: number."""

    number: _Number


class AskProbeShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=3):
    """`AskProbe`: token."""

    token: tuple[_Number, _Number]


class FencedShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=4):
    """`Fenced`: number, proved."""

    number: _Number
    proved: Annotated[tuple[tuple[_Word, _Number], ...], Meta(max_length=1000)]


class ProbedShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=5):
    """`Probed`: token, answer."""

    token: tuple[_Number, _Number]
    answer: _Word


class FoundShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=7):
    """`Found`: copier, spaces, keys, removed, refused, strange, last."""

    copier: _Word
    spaces: Annotated[tuple[Annotated[str, Meta(max_length=MAX_SPACE)], ...], Meta(max_length=MAX_LINES)]
    keys: Annotated[tuple[Annotated[bytes, Meta(max_length=MAX_KEY)], ...], Meta(max_length=MAX_LINES)]
    removed: _Number
    refused: _Number
    strange: _Number
    last: bool


class TroubleShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=6):
    """`Trouble`: sentence."""

    sentence: _Text


class DownShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """A message down: magic, format, spec, what, rank, incarnation, items."""

    magic: Literal["kvstate"]
    format: Literal[1]
    spec: _Word
    what: Literal["down"]
    rank: _Rank
    incarnation: _Number
    items: Annotated[list[bytes | RetiredShape | AskFenceShape | AskProbeShape], Meta(max_length=MAX_ITEMS)]


class UpShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """A message up: magic, format, spec, what, rank, incarnation, items."""

    magic: Literal["kvstate"]
    format: Literal[1]
    spec: _Word
    what: Literal["up"]
    rank: _Rank
    incarnation: _Number
    items: Annotated[list[bytes | FencedShape | ProbedShape | TroubleShape | FoundShape], Meta(max_length=MAX_ITEMS)]


class HeadShape(Struct, array_like=True, frozen=True):
    """What an envelope of any format begins with: magic, format, spec, what."""

    magic: Literal["kvstate"]
    format: int
    spec: str
    what: str
