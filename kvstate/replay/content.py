"""The content oracle: bytes that say whose they are, so that a stray write is *seen*.

Every 8 bytes of a block are one little-endian word of 64 bits:

    content   0 | mark of the key, 36 bits             | position, 27 bits
    poison    1 | block, 24 bits | generation, 12 bits | position, 27 bits

The position counts words from the start of the block, so that no two words of a block are the same and a piece that
lands at the wrong offset shows. Content depends on the key and the position alone: a key that is computed again has the
same bytes, and a load is compared with what its key *must* hold. Poison is for memory that was freed or never written;
it names the life of the block, so that a reader of freed memory is told from a writer into it.

The mark is a hash, not the key. Blocks of two keys can be mistaken for each other once in 2**36 mistakes; that is the
chance that a fault goes unseen *given* that it happened, not that one is invented.

Errors: `ValueError` from all that take an array or its width, for blocks that are no whole number of words or larger
than 1 GiB, and for rows and contents of different number; in each case nothing was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import xxhash

Bytes = npt.NDArray[np.uint8]
"""Blocks as bytes: [count, block_bytes], or [block_bytes] for one."""
Words = npt.NDArray[np.uint64]
"""The same memory in words, or what goes into each."""

WORD: Final = 8
"""Bytes of a word."""
_POSITION_BITS: Final = 27
_MARK_BITS: Final = 36
_GENERATION_BITS: Final = 12
_BLOCK_BITS: Final = _MARK_BITS - _GENERATION_BITS
_POSITION_MASK: Final = (1 << _POSITION_BITS) - 1
_MARK_MASK: Final = (1 << _MARK_BITS) - 1
_GENERATION_MASK: Final = (1 << _GENERATION_BITS) - 1
_TAG: Final = 1 << 63
_TILE_WORDS: Final = 1 << 14
"""128 KiB: what is worked on at once, so that it stays in the cache of a core."""

Slots = Sequence[int] | npt.NDArray[np.int64]
"""Rows of an array of blocks, in any order."""


def mark_of(key: bytes) -> int:
    """The 36 bits by which the words of a key name it."""
    return xxhash.xxh3_64_intdigest(key) & _MARK_MASK


def stamp(key: bytes, block_bytes: int) -> Bytes:
    """What a block that holds `key` holds, [block_bytes]."""
    return expect([key], block_bytes).reshape(block_bytes)


def expect(keys: Sequence[bytes], block_bytes: int) -> Bytes:
    """What blocks that hold these keys hold, [len(keys), block_bytes]."""
    return _filled(_content_heads(keys), block_bytes)


def poison(block: int, generation: int, block_bytes: int) -> Bytes:
    """What nobody may read: the bytes of a block that has no content in this life, [block_bytes]."""
    return _filled(_poison_heads([block], [generation]), block_bytes).reshape(block_bytes)


def write_many(array: Bytes, slots: Slots, keys: Sequence[bytes]) -> None:
    """Write the content of `keys` into the rows `slots` of `array`, [count, block_bytes]; each row at most once."""
    _write(array, slots, _content_heads(keys))


def poison_many(array: Bytes, slots: Slots, blocks: Sequence[int], generations: Sequence[int]) -> None:
    """Poison the rows `slots` of `array`, [count, block_bytes], each in the name of its block's life."""
    _write(array, slots, _poison_heads(blocks, generations))


def check_many(array: Bytes, slots: Slots, keys: Sequence[bytes]) -> list[int]:
    """Which of the rows `slots` are not, byte for byte, the content of their keys: indices into `slots`, ascending."""
    words = _words(array)
    at, heads = _paired(slots, _content_heads(keys))
    bad: set[int] = set()
    for rows, cols in _tiles(len(at), words.shape[1]):
        found = words[at[rows], cols]
        found ^= _positions(cols.start, cols.stop)
        wrong = found != heads[rows, None]
        if wrong.any():
            bad.update(rows.start + int(line) for line in np.flatnonzero(wrong.any(axis=1)))
    return sorted(bad)


def describe(word: bytes, known: Iterable[bytes] = ()) -> str:
    """Whose 8 bytes these are, as a phrase; `known` are keys that may be named in full.

    Raises `ValueError` for more or fewer bytes.
    """
    if len(word) != WORD:
        raise ValueError(f"{len(word)} bytes were given; whose they are stands in {WORD}")
    value = int.from_bytes(word, "little")
    at = (value & _POSITION_MASK) * WORD
    head = (value >> _POSITION_BITS) & _MARK_MASK
    if value & _TAG:
        block, generation = head >> _GENERATION_BITS, head & _GENERATION_MASK
        return f"poison of block {block} generation {generation}, byte {at}"
    if value == 0:
        return "zero, as fresh memory is"
    for key in known:
        if mark_of(key) == head:
            return f"key {key.hex()}, byte {at}"
    return f"a key with mark {head:09x}, byte {at}"


def explain(row: Bytes, key: bytes, known: Iterable[bytes] = ()) -> str:
    """Where and how a block's bytes differ from what `key` must hold, in a sentence; empty if they do not."""
    found, wanted = _words(row.reshape(1, -1))[0], _words(stamp(key, row.size).reshape(1, -1))[0]
    wrong = np.flatnonzero(found != wanted)
    if not len(wrong):
        return ""
    first = int(wrong[0])
    whose = describe(found[first].astype("<u8").tobytes(), known)
    return (
        f"{len(wrong)} of {len(found)} words are wrong, the first at byte {first * WORD}: "
        f"it should be of key {key.hex()} and is {whose}"
    )


def _content_heads(keys: Sequence[bytes]) -> Words:
    """The part of a word that names the key, in its place."""
    digest = xxhash.xxh3_64_intdigest
    marks = np.fromiter(map(digest, keys), np.uint64, len(keys))
    return (marks & np.uint64(_MARK_MASK)) << np.uint64(_POSITION_BITS)


def _poison_heads(blocks: Sequence[int], generations: Sequence[int]) -> Words:
    lives = np.array(generations, np.uint64) & np.uint64(_GENERATION_MASK)
    whose = np.array(blocks, np.uint64) & np.uint64((1 << _BLOCK_BITS) - 1)
    heads = (whose << np.uint64(_GENERATION_BITS)) | lives
    return (heads << np.uint64(_POSITION_BITS)) | np.uint64(_TAG)


def _filled(heads: Words, block_bytes: int) -> Bytes:
    array = np.empty((len(heads), block_bytes), np.uint8)
    _write(array, range(len(heads)), heads)
    return array


def _write(array: Bytes, slots: Slots, heads: Words) -> None:
    words = _words(array)
    at, heads = _paired(slots, heads)
    for rows, cols in _tiles(len(at), words.shape[1]):
        words[at[rows], cols] = heads[rows, None] | _positions(cols.start, cols.stop)


def _words(array: Bytes) -> Words:
    """The same memory in words."""
    block_bytes = array.shape[-1]
    if block_bytes % WORD or block_bytes > WORD << _POSITION_BITS:
        raise ValueError(f"a block of {block_bytes} bytes can't be stamped; give a multiple of {WORD} up to 1 GiB")
    return array.view("<u8")


def _paired(slots: Slots, heads: Words) -> tuple[npt.NDArray[np.int64], Words]:
    if len(slots) != len(heads):
        raise ValueError(f"{len(slots)} rows and {len(heads)} contents were given; a row has one content")
    return np.asarray(slots, np.int64), heads


def _tiles(rows: int, words: int) -> Sequence[tuple[slice, slice]]:
    """Cut [rows, words] into pieces of about `_TILE_WORDS`: many short rows at a time, or pieces of one long row."""
    if 0 < rows * words <= _TILE_WORDS:
        return ((slice(0, rows), slice(0, words)),)
    tall, wide = max(1, _TILE_WORDS // max(words, 1)), max(1, min(words, _TILE_WORDS))
    return [
        (slice(row, min(row + tall, rows)), slice(col, min(col + wide, words)))
        for row in range(0, rows, tall)
        for col in range(0, words, wide)
    ]


@lru_cache(maxsize=8)
def _positions(start: int, stop: int) -> Words:
    """The positions from `start` up to `stop`, not to be written to. Blocks of one size always ask for the same."""
    positions = np.arange(start, stop, dtype=np.uint64)
    positions.flags.writeable = False
    return positions
