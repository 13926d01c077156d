"""Blocks as bytes: pools of equal blocks, numbered through all pools of a runtime.

A pool is one tensor, allocated once and touched (the first touch of fresh memory runs at a fifth of the speed of a
copy, and at the worst time if it is left to the first request). On the CPU there are two NumPy views of that memory,
and no object per block: `array` for bytes, `blocks` in which a whole block is one element, which is what is copied (see
`kvstate.runtime.copy` for why).

Beside the bytes a pool keeps a *seal* for each slot: the key that was stored there and, where the setting for
integrity says so, a checksum. The seals are what VERIFY compares with. They are no state of a block: whether a slot may
be read is for the ledger to say.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

Bytes = npt.NDArray[np.uint8]
"""Bytes as NumPy has them, of a shape that is said where they are used."""
_NO_VIEW: Final = "pool {} lies on {}: its bytes have no NumPy view; use `tensor`"
SUM_BYTES: Final = 16
"""Length of a checksum: xxh3_128."""


class NoSuchBlockError(LookupError):
    """A block number that lies in no pool."""


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


class Pool:
    """`count` blocks of `block_bytes` bytes, of which the first has the number `base`. A *slot* counts from there.

    Raises `ValueError` for numbers that make no pool.
    """

    __slots__ = ("_array", "_blocks", "base", "block_bytes", "count", "end", "name", "on_cpu", "seals", "tensor")

    def __init__(self, name: str, base: int, count: int, block_bytes: int, device: str | torch.device = "cpu") -> None:
        """Allocates and touches the memory, on the `device` that torch knows by that name.

        What torch raises where there is no room comes through.
        """
        if base < 0 or count < 0 or block_bytes < 1:
            raise ValueError(
                f"pool {name}: {count} blocks of {block_bytes} bytes from number {base} on make no pool; "
                "numbers and counts are 0 or more, a block has at least a byte"
            )
        self.name = name
        """For messages."""
        self.base = base
        """The number of its first block."""
        self.count = count
        """How many blocks it has."""
        self.end = base + count
        """The first block number behind the pool."""
        self.block_bytes = block_bytes
        """Bytes of a block."""
        self.tensor = torch.empty((count, block_bytes), dtype=torch.uint8, device=device).fill_(0)
        """The memory, [count, block_bytes], of bytes."""
        self.on_cpu = self.tensor.device.type == "cpu"
        """Has it the views `array` and `blocks`?"""
        self.seals = Seals(count)
        """What is known of each slot beside its bytes."""
        self._array: Bytes | None = None
        self._blocks: npt.NDArray[np.void] | None = None
        if self.on_cpu:
            self._array = self.tensor.numpy()
            self._blocks = self._array.view(np.dtype((np.void, block_bytes))).reshape(count)

    def __repr__(self) -> str:
        where = self.tensor.device
        return f"Pool({self.name}: blocks {self.base}..{self.end - 1} of {self.block_bytes} bytes on {where})"

    @property
    def array(self) -> Bytes:
        """The bytes, [count, block_bytes], the same memory as `tensor`. Raises `TypeError` off the CPU."""
        if self._array is None:
            raise TypeError(_NO_VIEW.format(self.name, self.tensor.device))
        return self._array

    @property
    def blocks(self) -> npt.NDArray[np.void]:
        """The same memory, [count], an element a block. Raises `TypeError` off the CPU."""
        if self._blocks is None:
            raise TypeError(_NO_VIEW.format(self.name, self.tensor.device))
        return self._blocks

    def bytes_of(self, slot: int) -> Bytes:
        """The bytes of one block, [block_bytes]: a view on the CPU, a copy elsewhere."""
        view: Bytes = self._array[slot] if self._array is not None else self.tensor[slot].cpu().numpy()
        return view


class Memory:
    """All pools of one runtime. Block numbers may have gaps between pools and never overlap.

    Errors: `NoSuchBlockError` for a block number that lies in no pool; making one raises `ValueError` for no pool, for
    pools that overlap, and for blocks of two sizes.
    """

    __slots__ = ("_bases", "_filled", "block_bytes", "pools")

    def __init__(self, pools: Iterable[Pool]) -> None:
        """The pools in any order."""
        self.pools = tuple(sorted(pools, key=lambda pool: (pool.base, pool.end)))
        """In the order of their numbers."""
        if not self.pools:
            raise ValueError("a memory needs at least one pool")
        for before, pool in zip(self.pools, self.pools[1:], strict=False):
            if before.end > pool.base:
                raise ValueError(f"pools {before.name} and {pool.name} both claim block {pool.base}; move a base")
            if before.block_bytes != pool.block_bytes:
                raise ValueError(
                    f"a block has {before.block_bytes} bytes in pool {before.name} and {pool.block_bytes} in "
                    f"{pool.name}; blocks are copied whole, so all pools need the same size"
                )
        self.block_bytes = self.pools[0].block_bytes
        """Bytes of a block, in all of them."""
        self._filled = tuple(pool for pool in self.pools if pool.count)
        self._bases = tuple(pool.base for pool in self._filled)

    def pool_of(self, block: int) -> Pool:
        """The pool that a block number lies in. Raises `NoSuchBlockError`."""
        at = bisect_right(self._bases, block) - 1
        if at >= 0 and block < self._filled[at].end:
            return self._filled[at]
        there = ", ".join(f"{pool.name} {pool.base}..{pool.end - 1}" for pool in self._filled)
        raise NoSuchBlockError(f"block {block} lies in no pool; there are {there or 'no blocks at all'}")

    def place(self, block: int) -> tuple[Pool, int]:
        """The pool and the slot in it of a block number. Raises `NoSuchBlockError`."""
        pool = self.pool_of(block)
        return pool, block - pool.base

    def bytes_of(self, block: int) -> Bytes:
        """The bytes of one block by its number, [block_bytes]. Raises `NoSuchBlockError`."""
        pool, slot = self.place(block)
        return pool.bytes_of(slot)
