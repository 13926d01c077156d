"""What a message of `kvstate.codec` looks like: the bytes on the wire as types, which say all that one field can say.

The fields stand in the order of `kvstate.machines.messages`; a test holds the two against each other.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from kvstate.errors.text import MAX_MESSAGE, MAX_RAW, MAX_TYPE, MAX_WORD

MAX_ITEMS: Final = 65_536
"""Effects or reports of a message."""
MAX_LINES: Final = 65_536
"""Of a part, and of the failures of a report."""
MAX_KEY: Final = 256
"""Bytes of a key."""
MAX_SPACE: Final = 4096
"""Signs of a key space."""

_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Small = Annotated[int, Meta(ge=0, le=2**31 - 1)]
_Token = tuple[_Number, _Number]
_Blocks = Annotated[tuple[_Number, ...], Meta(max_length=MAX_LINES)]
_Keys = Annotated[tuple[Annotated[bytes, Meta(max_length=MAX_KEY)], ...], Meta(max_length=MAX_LINES)]
_Word = Annotated[str, Meta(max_length=MAX_WORD)]
_Spaces = Annotated[tuple[Annotated[str, Meta(max_length=MAX_SPACE)], ...], Meta(max_length=MAX_LINES)]


class WorkShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=1):
    """`Work`: token, kind, rank, copier, attempt, src, dst, keys, after_step, spaces."""

    token: _Token
    kind: Literal["store", "persist", "fetch", "verify", "seek"]
    rank: _Small
    copier: _Word
    attempt: _Small
    src: _Blocks
    dst: _Blocks
    keys: _Keys
    after_step: _Number
    spaces: _Spaces


class CancelShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=2):
    """`Cancel`: token."""

    token: _Token


class UndoShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=3):
    """`Undo`: token, rank, copier, src, keys."""

    token: _Token
    rank: _Small
    copier: _Word
    src: _Blocks
    keys: _Keys


class HoldShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=4):
    """`Hold`: ref."""

    ref: tuple[_Number, _Number]


class UnholdShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=5):
    """`Unhold`: ref."""

    ref: tuple[_Number, _Number]


class AdoptShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=6):
    """`Adopt`: rank, copier, blocks, spaces, keys."""

    rank: _Small
    copier: _Word
    blocks: _Blocks
    spaces: _Spaces
    keys: _Keys


class SweepShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True, tag=7):
    """`Sweep`: rank, copier, everything."""

    rank: _Small
    copier: _Word
    everything: bool


ItemShape = WorkShape | CancelShape | UndoShape | HoldShape | UnholdShape | AdoptShape | SweepShape
"""Any effect."""


class FailureShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """`Failure`: line, code, stage, driver, raw, type, message, transient."""

    line: Annotated[int, Meta(ge=-1, le=2**31 - 1)]
    code: Annotated[int, Meta(ge=0, le=65_535)]
    stage: _Word
    driver: _Word
    raw: Annotated[str, Meta(max_length=MAX_RAW)]
    type: Annotated[str, Meta(max_length=MAX_TYPE)]
    message: Annotated[str, Meta(max_length=MAX_MESSAGE)]
    transient: bool


class ReportShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """`Report`: token, outcome, failures."""

    token: _Token
    outcome: Literal["done", "failed", "denied", "broken", "cancelled", "timeout"]
    failures: Annotated[tuple[FailureShape, ...], Meta(max_length=MAX_LINES)]


class EffectsShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """A message of effects: magic, format, spec, what, items."""

    magic: Literal["kvstate"]
    format: Literal[1]
    spec: _Word
    what: Literal["effects"]
    items: Annotated[list[ItemShape], Meta(max_length=MAX_ITEMS)]


class ReportsShape(Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """A message of reports: magic, format, spec, what, items."""

    magic: Literal["kvstate"]
    format: Literal[1]
    spec: _Word
    what: Literal["reports"]
    items: Annotated[list[ReportShape], Meta(max_length=MAX_ITEMS)]


class HeadShape(Struct, array_like=True, frozen=True):
    """What a message of any format begins with: magic, format."""

    magic: Literal["kvstate"]
    format: int


class EnvelopeShape(Struct, array_like=True, frozen=True):
    """What a message of this format begins with: magic, format, spec, what."""

    magic: Literal["kvstate"]
    format: Literal[1]
    spec: str
    what: str
