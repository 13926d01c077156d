"""What a pool remembers of each slot beside its bytes: the key that was stored there, and a checksum where one is kept.

Seals are what VERIFY compares with. They are no state of a block: whether a slot may be read is for the ledger to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final

SUM_BYTES: Final = 16
"""Length of a checksum: xxh3_128."""


class Mark(IntEnum):
    """How far the sealing of a slot went."""

    EMPTY = 0
    OPEN = 1
    """A store began to write here and has not ended; if it never does, the bytes are half old, half new."""
    KEYED = 2
    """The key is there, a checksum is not."""
    SUMMED = 3


# As plain numbers, since to look up a member of an enum takes longer than to write a mark.
_OPEN, _KEYED, _SUMMED = int(Mark.OPEN), int(Mark.KEYED), int(Mark.SUMMED)


class Seals:
    """What a pool remembers of each slot beside its bytes, as columns.

    One thread at a time writes the seal of a slot: the one that runs the copy into it. That is law L3 at work; nothing
    is locked here.
    """

    __slots__ = ("keys", "marks", "sums")

    def __init__(self, count: int) -> None:
        """Of `count` slots, all empty."""
        self.keys: list[bytes] = [b""] * count
        """By slot: under which key its bytes were stored."""
        self.sums = bytearray(SUM_BYTES * count)
        """The checksums, end to end, `SUM_BYTES` each; of a slot that is not summed, nothing that means anything."""
        self.marks = bytearray(count)
        """By slot: a number of `Mark`."""

    def open(self, slots: Sequence[int]) -> None:
        """The bytes of these slots are about to change: what was known of them is no longer true."""
        marks = self.marks
        for slot in slots:
            marks[slot] = _OPEN

    def close(self, slots: Sequence[int], keys: Sequence[bytes], sums: Sequence[bytes] | None) -> None:
        """These slots now hold these keys, one each; `sums` are their checksums if they were taken.

        Raises `ValueError` for lists of different lengths.
        """
        kept, marks, mark = self.keys, self.marks, _KEYED if sums is None else _SUMMED
        if sums is not None:
            for slot, sum_ in zip(slots, sums, strict=True):
                self.sums[slot * SUM_BYTES : (slot + 1) * SUM_BYTES] = sum_
        for slot, key in zip(slots, keys, strict=True):
            kept[slot] = key
            marks[slot] = mark

    def sum(self, slot: int) -> bytes:
        """The checksum of a slot, `SUM_BYTES` bytes; for a slot whose mark is SUMMED."""
        return bytes(self.sums[slot * SUM_BYTES : (slot + 1) * SUM_BYTES])
