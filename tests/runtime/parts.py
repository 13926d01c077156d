"""Small pools and parts for the tests of this folder."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from kvstate.machines.messages import Kind, Token, Work
from kvstate.replay.content import check_many, write_many
from kvstate.runtime.copy import Integrity, perform
from kvstate.runtime.memory import Memory, Pool

BLOCK = 64
DEVICE = 32
HOST = 32


def key(number: int) -> bytes:
    return blake2b(number.to_bytes(4, "little"), digest_size=16).digest()


def pools(block_bytes: int = BLOCK, device: int = DEVICE, host: int = HOST) -> Memory:
    """Blocks 0..31 on the device, 32..63 on the host, all zero."""
    return Memory([Pool("device", 0, device, block_bytes), Pool("host", device, host, block_bytes)])


def part(
    kind: Kind,
    src: Sequence[int],
    dst: Sequence[int],
    keys: Sequence[bytes],
    serial: int = 1,
) -> Work:
    return Work(Token(1, serial), kind.value, 0, "cpu", 1, tuple(src), tuple(dst), tuple(keys), 0)


def fill(memory: Memory, blocks: Sequence[int], keys: Sequence[bytes]) -> None:
    """Write the content of `keys` into blocks of one pool, as the engine's compute does."""
    pool = memory.pool_of(blocks[0])
    write_many(pool.array, [block - pool.base for block in blocks], keys)


def holds(memory: Memory, blocks: Sequence[int], keys: Sequence[bytes]) -> bool:
    """Is every byte of these blocks (of one pool) what their keys must hold?"""
    pool = memory.pool_of(blocks[0])
    return check_many(pool.array, [block - pool.base for block in blocks], keys) == []


def stored(memory: Memory, blocks: Sequence[int], keys: Sequence[bytes], integrity: Integrity = Integrity.HOST) -> None:
    """Put keys into host blocks by way of a store from the device's first blocks."""
    srcs = tuple(range(len(blocks)))
    fill(memory, srcs, keys)
    assert perform(memory, part(Kind.STORE, srcs, blocks, keys), integrity=integrity) == ()
