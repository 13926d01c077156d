"""How a part is cut for the CPU: runs of adjacent blocks, and scattered ones together where they are small.

Why short copies are made as elements, not as bytes
---------------------------------------------------
NumPy lets go of the interpreter's lock for an assignment of more than 500 elements. That is what one wants of a long
copy: other threads run meanwhile, the serving loop first of all. For a short one it is a trap: while the loop computes,
a thread that has let go of the lock may get it back only when the interpreter next switches, 5 ms later by default.
Blocks of 4 KiB copied as 4096 bytes each moved at 0.004 GB/s beside a busy loop; the same copies with the lock held, at
1.3 GB/s (two cores, two copying threads; at rest 0.8 and 3.0). So what is short is copied in a view where a block, or a
piece of one, is *one* element, which keeps the lock. From `RELEASE_BYTES` on a copy takes as long as it takes the loop
to wake, so that the lock is mostly there again when it ends: blocks of 256 KiB moved at 0.4 to 5 GB/s beside a busy
loop, and with the lock held at 1.3 to 4.5, during which the loop stood still and no second thread could help.

Scattered small blocks are copied by one indexed assignment. It moves the bytes twice, through a buffer that stays in
the cache, and that is cheaper than the half dozen of Python's steps that a block costs on its own. Scattered large ones
are copied one by one, since each lets go of the lock in any case; some of them are one piece all the same, so that the
rest of what a piece costs is shared among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import torch

from kvstate.machines.messages import Work
from kvstate.runtime.memory import Memory, NoSuchBlockError, Pool, Span

RELEASE_BYTES: Final = 1 << 17
"""A copy of at least so many bytes in one call is made without the interpreter's lock."""
GATHER_BYTES: Final = 1 << 20
"""Scattered small blocks that are one piece have at most so many bytes, which fit into a core's cache."""
PIECE_BYTES: Final = 1 << 22
"""Scattered large blocks that are one piece have at most so many bytes, or are one block: some 400 us, and a cancel is
heard after each."""
SMALL_BYTES: Final = 1 << 14
"""Blocks of at most so many bytes are copied by index where they are scattered."""
MOST_LINES: Final = 500
"""How many scattered blocks are copied as one piece; NumPy keeps the lock for as many elements."""
Slots = slice | list[int]
"""Rows of a pool: adjacent ones as a slice, others one by one."""


class Piece(NamedTuple):
    """Lines of a part that are copied by one assignment: a run of adjacent blocks, or scattered small ones."""

    line: int
    """The first of them, as an index into the part."""
    length: int
    """How many they are."""
    src: Pool
    """Where they are read."""
    src_at: Slots
    """At which slots of that pool, `length` of them."""
    dst: Pool
    """Where they are written."""
    dst_at: Slots
    """At which slots of that pool, `length` of them."""


def each(at: Slots) -> Sequence[int]:
    """The slots one by one."""
    return range(at.start, at.stop) if isinstance(at, slice) else at


def pieces_of(memory: Memory, work: Work) -> list[Piece]:
    """How the lines of `work` are copied, in order; each line is in one piece, and a piece in one pool on either side.

    Raises `NoSuchBlockError` for a block outside of the pools.
    """
    pieces: list[Piece] = []
    src, dst, start, lines = work.src, work.dst, 0, len(work.src)
    while start < lines:
        reads, writes = memory.pool_of(src[start]), memory.pool_of(dst[start])
        stop = min(_end_of(reads, src, start), _end_of(writes, dst, start))
        if _is_run(src, start, stop) and _is_run(dst, start, stop):
            pieces.append(_run(start, stop - start, reads, src, writes, dst))
        elif not SMALL_BYTES < memory.block_bytes < RELEASE_BYTES and reads.on_cpu and writes.on_cpu:
            pieces.extend(_gathered(start, stop, reads, src, writes, dst))
        else:
            pieces.extend(_runs(start, stop, reads, src, writes, dst))
        start = stop
    return pieces


def all_there(memory: Memory, work: Work) -> bool:
    """Does every block of `work` lie in a pool?"""
    try:
        for blocks in (work.src, work.dst):
            start = 0
            while start < len(blocks):
                start = _end_of(memory.pool_of(blocks[start]), blocks, start)
    except NoSuchBlockError:
        return False
    return True


def move(piece: Piece) -> None:
    """Copy one piece. Off the CPU it returns when the bytes have landed, as it does on it."""
    _, length, src, from_, dst, to = piece
    reads, writes = src.views, dst.views
    if reads is None or writes is None:
        _move_pieces(piece)
    elif isinstance(to, slice):
        if length * src.block_bytes >= RELEASE_BYTES:
            writes[0][to] = reads[0][from_]
        else:
            writes[1][to] = reads[1][from_]
    elif src.block_bytes < RELEASE_BYTES:
        writes[1][to] = reads[1][from_]
    else:
        source, target = reads[0], writes[0]
        for read, write in zip(each(from_), to, strict=True):
            target[write] = source[read]


def _pairs(src: Pool, dst: Pool) -> Iterator[tuple[Span, Span]]:
    """What of the source goes where in the destination: the spans of both, divided alike."""
    form = dst.form if src.is_whole else src.form
    return zip(src.cut(form), dst.cut(form), strict=True)


def _move_pieces(piece: Piece) -> None:
    """As `move`, where one side lies in pieces, or not on the CPU: assignments for each tensor."""
    _, length, src, from_, dst, to = piece
    if not (src.on_cpu and dst.on_cpu):
        for read, write in _pairs(src, dst):
            write.tensor[to].copy_(read.tensor[from_])
        _wait_for_device(src, dst)
        return
    one_by_one = not isinstance(to, slice) and src.block_bytes >= RELEASE_BYTES
    by_index = not isinstance(to, slice) and not one_by_one
    lines = list(zip(each(from_), each(to), strict=True)) if one_by_one else [(from_, to)]
    for read, write in _pairs(src, dst):
        source, target = read.tensor.numpy(), write.tensor.numpy()
        if by_index or read.block_bytes * (1 if one_by_one else length) < RELEASE_BYTES:
            element = np.dtype((np.void, source.shape[-1]))
            source, target = source.view(element), target.view(element)
        for one, other in lines:
            target[other] = source[one]


def _wait_for_device(*pools: Pool) -> None:
    """`copy_` between two places on devices is only queued when it returns; a report must not come before the bytes."""
    for pool in pools:
        if pool.device.type == "cuda":
            torch.cuda.current_stream(pool.device).synchronize()


def _end_of(pool: Pool, blocks: tuple[int, ...], start: int) -> int:
    """Where the blocks from `start` on leave the pool; nearly always at the end of the part, which is asked first."""
    ahead = blocks[start:] if start else blocks
    if min(ahead) >= pool.base and max(ahead) < pool.end:
        return len(blocks)
    return next(at for at in range(start, len(blocks)) if not pool.base <= blocks[at] < pool.end)


def _is_run(blocks: tuple[int, ...], start: int, stop: int) -> bool:
    first = blocks[start]
    return blocks[stop - 1] - first == stop - 1 - start and blocks[start:stop] == tuple(
        range(first, first + stop - start)
    )


def _run(line: int, length: int, reads: Pool, src: tuple[int, ...], writes: Pool, dst: tuple[int, ...]) -> Piece:
    read, write = src[line] - reads.base, dst[line] - writes.base
    return Piece(line, length, reads, slice(read, read + length), writes, slice(write, write + length))


def _runs(
    start: int, stop: int, reads: Pool, src: tuple[int, ...], writes: Pool, dst: tuple[int, ...]
) -> Iterator[Piece]:
    """Pieces of blocks that are adjacent, in the source and in the destination."""
    while start < stop:
        read, write, length = src[start], dst[start], 1
        while start + length < stop and src[start + length] - read == length == dst[start + length] - write:
            length += 1
        yield _run(start, length, reads, src, writes, dst)
        start += length


def _gathered(
    start: int, stop: int, reads: Pool, src: tuple[int, ...], writes: Pool, dst: tuple[int, ...]
) -> Iterator[Piece]:
    """Pieces of blocks as they come."""
    most = GATHER_BYTES if reads.block_bytes < RELEASE_BYTES else PIECE_BYTES
    most = max(1, min(MOST_LINES, most // reads.block_bytes))
    for line in range(start, stop, most):
        end = min(line + most, stop)
        read, write = [block - reads.base for block in src[line:end]], [block - writes.base for block in dst[line:end]]
        yield Piece(line, end - line, reads, read, writes, write)
