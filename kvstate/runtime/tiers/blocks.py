"""Blocks as what a file is written from and read into: runs of bytes on the CPU, one behind the other.

A block of a pool on the CPU is used where it lies, in as many runs as its tensors cut it into. One on a device goes
through a buffer of its own on the CPU. (That has not yet been run on a GPU.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import xxhash

from kvstate.errors import Code
from kvstate.runtime.memory import Bytes, Memory, Pool
from kvstate.runtime.seals import Mark
from kvstate.runtime.tiers.sealed import ObjectError


def reading(memory: Memory, block: int) -> list[memoryview]:
    """The bytes of a block, end to end. Raises `NoSuchBlockError`."""
    pool = memory.pool_of(block)
    return _runs(pool, block - pool.base) if pool.on_cpu else [pool.bytes_of(block - pool.base).data]


def check_seal(memory: Memory, block: int, key: bytes, pieces: Sequence[memoryview]) -> None:
    """A block of a tier that is summed must be what was sealed there: else a byte that went bad would get a good sum.

    `pieces` are its bytes. Errors: `ObjectError` with CRC_MISMATCH or KEY_MISMATCH, stage verify.
    """
    pool, slot = memory.place(block)
    if pool.seals.marks[slot] != Mark.SUMMED:
        return
    if pool.seals.keys[slot] != key:
        raise ObjectError(Code.KEY_MISMATCH, "verify", f"block {block} holds key {pool.seals.keys[slot].hex()}")
    made = xxhash.xxh3_128()
    for piece in pieces:
        made.update(piece)
    if made.digest() != pool.seals.sum(slot):
        raise ObjectError(Code.CRC_MISMATCH, "verify", f"block {block} is not what was sealed there")


Landing = tuple[list[memoryview], Callable[[], None] | None]
"""Where the bytes of a block go, end to end, and what is to be called when all of them are there and good: it brings
them into the block, where that is elsewhere."""


def landing(memory: Memory, block: int) -> Landing:
    """For one block. Raises `NoSuchBlockError`."""
    pool = memory.pool_of(block)
    slot = block - pool.base
    if pool.views is not None and pool.on_cpu:  # as `_runs`; this is on the way of every block
        return [pool.views[0][slot].data], None
    if pool.on_cpu:
        return _runs(pool, slot), None
    staged: Bytes = np.empty(pool.block_bytes, np.uint8)

    def land() -> None:
        pool.put(slot, staged)
        if pool.device.type == "cuda":
            torch.cuda.current_stream(pool.device).synchronize()

    return [staged.data], land


def _runs(pool: Pool, slot: int) -> list[memoryview]:
    if pool.views is not None:
        return [pool.views[0][slot].data]
    runs: list[memoryview] = []
    for span in pool.spans:
        array = span.tensor[slot].numpy()
        if array.flags.c_contiguous:
            runs.append(array.reshape(-1).data)
        else:
            runs += [array[at].data for at in np.ndindex(array.shape[:-1])]
    return runs
