"""An object as it lies in a store: a header, then the bytes of one block.

    8 bytes   magic
    4 bytes   length of the header's text, little endian
    8 bytes   xxh3_64 of magic, length and text: is the header itself whole?
    text      JSON: format, spec, fingerprint, namespace, key, length, algorithm, sum
    zeros     up to a multiple of 4096
    bytes     of the block

The fingerprint stands for all that must be equal for the bytes to mean the same (model, weights, ranks, layout, dtype,
...); the namespace and the key say whose they are. A store looks at all of it before it hands a byte out, whatever the
name was under which the object was found.

The sum is xxh3_128 of the bytes. It tells bytes that went bad by accident. Where others may write into the store, give
a secret: then it is keyed BLAKE3 over header and bytes, which nobody forges without the secret. It does not tell old
bytes from new ones: who can write there can put back, under its own key, what was stored there before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from hmac import compare_digest
from importlib import import_module
from typing import Any, Final

import msgspec
import xxhash

from kvstate.errors import Code, KVError, KVException
from kvstate.machines.tables import SPEC_VERSION

MAGIC: Final = b"KVSTATE\n"
"""What every object begins with."""
FORMAT: Final = 1
"""Of objects; a reader refuses all others."""
UNIT: Final = 4096
"""The bytes of the block begin at a multiple of this: a page, so that they are copied page by page and not across."""
FIXED: Final = len(MAGIC) + 4 + 8
"""Bytes in front of the header's text."""
MAX_TEXT: Final = 64 * 1024
"""Bytes of the header's text at most; a longer one is no header."""
SECRET_BYTES: Final = 32
"""Length of a secret."""
Buffer = bytes | bytearray | memoryview
"""A piece of a block's bytes."""


_NOWHERE: Final = memoryview(bytearray(UNIT))
"""Written to by every thread that reads, and never read."""


class Sum(StrEnum):
    """How the bytes are summed."""

    NONE = "none"
    XXH3 = "xxh3_128"
    BLAKE3 = "blake3"
    """With a secret only."""


DIGITS: Final = {Sum.NONE: 0, Sum.XXH3: 32, Sum.BLAKE3: 64}
"""Hexadecimal digits of each sum."""
MANY: Final = 1024
"""So many beginnings of headers are remembered."""
END: Final = b'"}'
"""What a header's text ends with, behind the sum."""


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an object says of itself."""

    format: int
    """Of the object."""
    spec: str
    """The version of the spec of who wrote it; for people, it is not compared."""
    fingerprint: str
    """Of who wrote it."""
    namespace: str
    """Of the key."""
    key: str
    """In hexadecimal."""
    length: int
    """Bytes of the block."""
    algorithm: Sum
    """How the bytes were summed."""
    sum: str
    """In hexadecimal; empty where there is none."""


def bytes_in(pieces: Sequence[Buffer]) -> int:
    """How many bytes these pieces have in all."""
    if len(pieces) == 1:
        return memoryview(pieces[0]).nbytes
    return sum([memoryview(piece).nbytes for piece in pieces])


class Frame:
    """What headers of one kind have in common."""

    __slots__ = ("before", "begin", "between", "rest", "said", "size", "starts")

    def __init__(self, before: bytes, between: bytes, size: int) -> None:
        self.before = before
        """Their text up to the key."""
        self.between = between
        """Their text from there to the sum."""
        self.size = size
        """Bytes of the text."""
        self.said = FIXED + size
        """Where their text ends."""
        self.begin = _begin(size)
        """Where the bytes of the block begin."""
        self.rest = _NOWHERE[: self.begin - self.said]
        """Where the zeros behind the text go."""
        self.starts = _starts(size)
        """What stands before the sum of the header."""


class ObjectError(KVException):
    """An object that must not be served, or could not be written: with a code of the registry."""

    def __init__(self, code: Code, stage: str, message: str) -> None:
        super().__init__(KVError(code, stage, driver="object", message=message))


class Seal:
    """Makes headers and looks at them, for one fingerprint.

    Errors: `ValueError` for a secret of another length than `SECRET_BYTES`, or for one without the package blake3.
    """

    def __init__(self, fingerprint: str, *, algorithm: Sum = Sum.XXH3, secret: bytes | None = None) -> None:
        """`algorithm` is of what is written; what is read says its own. With a `secret` it is BLAKE3, always."""
        if secret is not None and len(secret) != SECRET_BYTES:
            raise ValueError(f"the secret has {len(secret)} bytes; a secret has {SECRET_BYTES}, drawn by chance")
        if secret is None and algorithm is Sum.BLAKE3:
            raise ValueError("blake3 needs a secret; without one use xxh3_128")
        self.fingerprint = fingerprint
        """What must be equal."""
        self.algorithm = algorithm if secret is None else Sum.BLAKE3
        """How what is written is summed."""
        self.hasher: Callable[[], Any] | None = xxhash.xxh3_128 if self.algorithm is Sum.XXH3 else None
        """What sums bytes by and by, where a sum is of the bytes alone."""
        self._secret = secret
        self._frames: dict[tuple[str, int, int], Frame] = {}
        self._blake3 = None if secret is None else _blake3()

    def header(self, namespace: str, key: bytes, pieces: Sequence[Buffer]) -> bytes:
        """The header of a block whose bytes are these pieces end to end, up to where its bytes begin.

        Errors: `ObjectError` with INTERNAL for names that are too long for a header.
        """
        frame = self.frame(namespace, bytes_in(pieces), len(key))
        if frame.size > MAX_TEXT:
            raise ObjectError(
                Code.INTERNAL, "write", f"a header of {frame.size} bytes is too long; shorten the namespace"
            )
        text = frame.before + key.hex().encode() + frame.between  # to encode it takes as long as a small write
        if self.algorithm is not Sum.NONE:
            text += self._digest(text + END, pieces, self.algorithm).encode()
        text += END
        return (frame.starts + xxhash.xxh3_64_digest(frame.starts + text) + text).ljust(frame.begin, b"\0")

    def begin_of(self, namespace: str, key: bytes, length: int) -> int:
        """Where the bytes begin behind the header that we would give a block of so many bytes."""
        return self.frame(namespace, length, len(key)).begin

    def is_ours(self, frame: Frame, start: bytearray, key: bytes, pieces: Sequence[Buffer], digest: str = "") -> bool:
        """Are header and bytes just what we would write? `start` is the header as far as its text goes; `digest` the
        sum of the bytes, if it is known.

        If not, `read` and the checks say why, or that it is good all the same.
        """
        named = frame.before + key.hex().encode() + frame.between
        if self.algorithm is not Sum.NONE:
            named += (digest or self._digest(named + END, pieces, self.algorithm)).encode()
        return start.startswith(frame.starts) and compare_digest(named + END, start[FIXED:])

    def frame(self, namespace: str, length: int, key_length: int) -> Frame:
        """What is equal in the headers of all blocks of one namespace and length with keys of one length."""
        frame = self._frames.get((namespace, length, key_length))
        if frame is None:
            if len(self._frames) >= MANY:
                self._frames.clear()
            said = Header(FORMAT, SPEC_VERSION, self.fingerprint, namespace, "", length, self.algorithm, "")
            between = b'","length":%d,"algorithm":"%s","sum":"' % (length, self.algorithm.encode())
            text = _encode(said)
            assert text.endswith(between + END), f"{text!r} is not put together as expected"
            size = len(text) + 2 * key_length + DIGITS[self.algorithm]
            frame = Frame(text[: -len(between + END)], between, size)
            self._frames[namespace, length, key_length] = frame
        return frame

    def read(self, start: Buffer, stage: str) -> tuple[Header, int]:
        """The header at the start of an object, and where its bytes begin.

        `start` is as much of it as there is, `UNIT` bytes at the least if it is whole. Errors: `ObjectError` with
        SHORT_READ where the header is cut off (`start` too short for what it says, too), CRC_MISMATCH where it is not
        whole, VERSION_MISMATCH for another format.
        """
        view = memoryview(start)
        if len(view) < FIXED:
            raise ObjectError(Code.SHORT_READ, stage, f"{len(view)} bytes are no header")
        if bytes(view[: len(MAGIC)]) != MAGIC:
            raise ObjectError(Code.VERSION_MISMATCH, stage, "it does not begin as an object of kvstate does")
        size = int.from_bytes(view[len(MAGIC) : len(MAGIC) + 4], "little")
        if size > MAX_TEXT:
            raise ObjectError(Code.CRC_MISMATCH, stage, f"its header claims to have {size} bytes")
        if len(view) < FIXED + size:
            raise ObjectError(Code.SHORT_READ, stage, "its header is cut off")
        text = view[FIXED : FIXED + size]
        if bytes(view[FIXED - 8 : FIXED]) != _head_sum(size, text):
            raise ObjectError(Code.CRC_MISMATCH, stage, "its header is not what was written")
        return _parsed(text, stage), _begin(size)

    def check_name(self, said: Header, namespace: str, key: bytes, stage: str) -> None:
        """Is it of our fingerprint, and of this key? Errors: `ObjectError` with LAYOUT_MISMATCH or KEY_MISMATCH."""
        if said.fingerprint != self.fingerprint:
            raise ObjectError(Code.LAYOUT_MISMATCH, stage, f"it was written under fingerprint {said.fingerprint}")
        if (said.namespace, said.key) != (namespace, key.hex()):
            raise ObjectError(Code.KEY_MISMATCH, stage, f"it holds key {said.key} of namespace {said.namespace!r}")

    def check_bytes(self, said: Header, pieces: Sequence[Buffer], stage: str) -> None:
        """Are these the bytes? Errors: `ObjectError` with CRC_MISMATCH.

        With a secret, what was not summed with it is refused, whatever it says of itself.
        """
        if self._secret is not None and said.algorithm is not Sum.BLAKE3:
            raise ObjectError(Code.CRC_MISMATCH, stage, f"it is summed by {said.algorithm}, and a secret is asked for")
        if self._secret is None and said.algorithm is Sum.BLAKE3:
            raise ObjectError(Code.CRC_MISMATCH, stage, "it is summed with a secret, and none was given")
        if self.algorithm is Sum.NONE:
            return
        if said.algorithm is Sum.NONE:
            raise ObjectError(Code.CRC_MISMATCH, stage, "it was stored without a sum, and sums are asked for")
        found = self._digest(_encode(msgspec.structs.replace(said, sum="")), pieces, said.algorithm)
        if not compare_digest(found.encode(), said.sum.encode()):
            raise ObjectError(Code.CRC_MISMATCH, stage, f"its bytes sum to {found}, it says {said.sum}")

    def _digest(self, text: bytes, pieces: Sequence[Buffer], algorithm: Sum) -> str:
        """The sum of these pieces; with a secret, of the header's text, its sum left empty, and the pieces."""
        if algorithm is Sum.NONE:
            return ""
        if algorithm is Sum.XXH3 and len(pieces) == 1:
            return xxhash.xxh3_128_hexdigest(pieces[0])
        made: Any = xxhash.xxh3_128()
        if algorithm is Sum.BLAKE3:
            assert self._blake3 is not None, "without a secret nothing is summed with one"
            made = self._blake3(key=self._secret)
            made.update(text)
        for piece in pieces:
            made.update(piece)
        digest: str = made.hexdigest()
        return digest


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Header).decode


def _blake3() -> Any:
    try:
        return import_module("blake3").blake3
    except ImportError:
        raise ValueError("a secret needs the package blake3: pip install 'kvstate[secret]'") from None


def _begin(size: int) -> int:
    """Where the bytes begin behind a header of that many bytes of text."""
    return -(-(FIXED + size) // UNIT) * UNIT


def _starts(size: int) -> bytes:
    """What stands before the sum of the header."""
    return MAGIC + size.to_bytes(4, "little")


def _head_sum(size: int, text: Buffer) -> bytes:
    made = xxhash.xxh3_64(_starts(size))
    made.update(text)
    return made.digest()


def _parsed(text: memoryview, stage: str) -> Header:
    try:
        said = _decode(text)
    except msgspec.MsgspecError as error:
        raise ObjectError(Code.VERSION_MISMATCH, stage, f"its header can't be read: {error}") from None
    if said.format != FORMAT:
        raise ObjectError(Code.VERSION_MISMATCH, stage, f"it has format {said.format}, and {FORMAT} is read here")
    if said.length < 0:
        raise ObjectError(Code.VERSION_MISMATCH, stage, f"it claims to have {said.length} bytes")
    return said
