"""What each kind of part does to memory. Plain functions: no thread, no clock, no state of any machine.

`perform` does what a `Work` says and returns what went wrong, line by line; an empty tuple is success. It raises only
for work that makes no sense (a block that does not exist, lists of different lengths), before a byte has moved.

Why blocks are copied as elements, not as bytes
-----------------------------------------------
NumPy lets go of the interpreter's lock for an assignment of more than 500 elements. That is what one wants of a long
copy. For a short one it is a trap: while the serving loop computes, a thread that has let go of the lock gets it back
only when the interpreter next switches, 5 ms later by default. Blocks of 4 KiB copied as 4096 bytes each moved at
0.004 GB/s beside a busy loop; the same copies with the lock held, at 1.3 GB/s (two cores, two copying threads; at rest
0.8 and 3.0). So blocks are copied in a view where a block is *one* element, which keeps the lock, and as bytes, which
does not, only from `RELEASE_BYTES` on, where the copy takes long enough to be worth a switch.

Scattered small blocks are copied by one indexed assignment. It moves the bytes twice, through a buffer that stays in
the cache, and that is cheaper than the half dozen of Python's steps that a block costs on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
import torch
import xxhash

from kvstate.errors import Code, from_exception, outcome_of
from kvstate.machines.messages import Failure, Kind, Outcome, Report, Work
from kvstate.runtime.memory import Bytes, Mark, Memory, Pool

RELEASE_BYTES: Final = 1 << 20
"""A run of at least so many bytes is copied without the interpreter's lock."""
SMALL_BYTES: Final = 1 << 14
"""Blocks of at most so many bytes are gathered where they are not adjacent; larger ones are copied run by run."""
MOST_LINES: Final = 500
"""How many scattered blocks are copied as one piece; NumPy keeps the lock for as many elements."""

STAGES: Final[dict[str, str]] = {
    Kind.STORE: "write",
    Kind.PERSIST: "commit",
    Kind.FETCH: "fetch",
    Kind.VERIFY: "verify",
}
"""At which stage of a block's way each kind of part fails."""

Cancelled = Callable[[], bool]
"""Asked before each piece: is the rest of the part no longer wanted? May be called in a thread of the copier."""
Slots = slice | list[int]
"""Rows of a pool: adjacent ones as a slice, others one by one."""


class Integrity(StrEnum):
    """Which copies keep and compare a checksum (xxh3_128). Keys are compared always: they cost nothing.

    The price is one pass over the bytes when a block is stored and one when it is loaded, at 11 to 14 GB/s a core for
    large blocks and 3 to 5 for blocks of 4 KiB, beside copies of 5 to 10 GB/s. A benchmark names the setting.
    """

    OFF = "off"
    """None. A flipped bit anywhere is served as it is."""
    BOUNDARY = "boundary"
    """What leaves the process: disk, object store, peer. Memory of this process is trusted. The default."""
    HOST = "host"
    """Blocks in host memory, too. On in chaos runs, and wherever another process writes into the pool."""

    @property
    def of_memory(self) -> bool:
        """Are blocks in pools of this process summed?"""
        return self is Integrity.HOST


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


def perform(
    memory: Memory, work: Work, *, integrity: Integrity, cancelled: Cancelled | None = None
) -> tuple[Failure, ...]:
    """Do what `work` says, now and in this thread; returns all that went wrong, in order of lines.

    `cancelled` is asked before each piece; once it says yes, nothing further is touched and the last failure is a
    CANCELLED that names the first line left out. Raises `NoSuchBlockError` for a block number outside of the pools and
    `ValueError` for work that is not well formed, both before any byte has moved.
    """
    do = _KINDS.get(work.kind)
    if do is None:
        raise ValueError(f"a copier can't do a part of kind {work.kind!r}; it does {', '.join(_KINDS)}")
    lines = len(work.src)
    if len(work.keys) != lines or (len(work.dst) != lines and work.kind != Kind.PERSIST):
        raise ValueError(
            f"part {work.token.serial} has {lines} sources, {len(work.dst)} destinations and {len(work.keys)} keys; "
            "a line has one of each"
        )
    return do(memory, work, integrity, cancelled)


def attempt(memory: Memory, work: Work, *, integrity: Integrity, cancelled: Cancelled | None = None) -> Report:
    """`perform`, as the report that a copier gives of it. Total: whatever is raised inside is a failure of the part.

    The copy is over when this returns, so the report proves it, whatever the failures say of themselves.
    """
    try:
        failures = perform(memory, work, integrity=integrity, cancelled=cancelled)
    except BaseException as error:  # a copier's thread has nobody to raise to
        failures = (from_exception(error, stage=STAGES.get(work.kind, "fetch")),)
    return Report(work.token, answer(failures, proved=True), failures)


def answer(failures: tuple[Failure, ...], *, proved: bool | None = None) -> Outcome:
    """The outcome of a part that was carried through with these failures; DONE for none (see `outcome_of`)."""
    return outcome_of(failures, proved=proved) if failures else Outcome.DONE


def lines_of(work: Work, start: int, stop: int) -> Work:
    """The same work with lines `start` up to `stop` (not included) only, for copies that are done in pieces."""
    return work._replace(src=work.src[start:stop], dst=work.dst[start:stop], keys=work.keys[start:stop])


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
        elif memory.block_bytes <= SMALL_BYTES and reads.on_cpu and writes.on_cpu:
            pieces.extend(_gathered(start, stop, reads, src, writes, dst))
        else:
            pieces.extend(_runs(start, stop, reads, src, writes, dst))
        start = stop
    return pieces


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
    most = min(MOST_LINES, RELEASE_BYTES // reads.block_bytes)
    for line in range(start, stop, most):
        end = min(line + most, stop)
        read, write = [block - reads.base for block in src[line:end]], [block - writes.base for block in dst[line:end]]
        yield Piece(line, end - line, reads, read, writes, write)


def _store(memory: Memory, work: Work, integrity: Integrity, cancelled: Cancelled | None) -> tuple[Failure, ...]:
    """Copy down and seal. The sum is taken of the destination: it speaks of the bytes that rest in the tier."""
    for piece in pieces_of(memory, work):
        if cancelled is not None and cancelled():
            return (_stopped(piece.line, work),)
        seals, slots, pool = piece.dst.seals, each(piece.dst_at), piece.dst
        seals.open(slots)
        _move(piece)
        sums = [sum_of(pool.bytes_of(slot)) for slot in slots] if integrity.of_memory else None
        seals.close(slots, work.keys[piece.line : piece.line + piece.length], sums)
    return ()


def _fetch(memory: Memory, work: Work, integrity: Integrity, cancelled: Cancelled | None) -> tuple[Failure, ...]:  # noqa: ARG001
    """Copy up. What came is compared by the VERIFY that follows, when all parts of the batch are there."""
    for piece in pieces_of(memory, work):
        if cancelled is not None and cancelled():
            return (_stopped(piece.line, work),)
        _move(piece)
    return ()


def _verify(memory: Memory, work: Work, integrity: Integrity, cancelled: Cancelled | None) -> tuple[Failure, ...]:
    """Hold the destination's bytes and the wanted keys against the seals of the source; every bad line is told."""
    failures: list[Failure] = []
    for piece in pieces_of(memory, work):
        if cancelled is not None and cancelled():
            return (*failures, _stopped(piece.line, work))
        failures.extend(_bad_lines(piece, work, integrity))
    return tuple(failures)


def _persist(memory: Memory, work: Work, integrity: Integrity, cancelled: Cancelled | None) -> tuple[Failure, ...]:  # noqa: ARG001
    """Nothing: a pool in host memory is as durable as it will ever be. The blocks must exist all the same."""
    for block in work.src:
        memory.pool_of(block)
    return (_stopped(0, work),) if cancelled is not None and cancelled() else ()


_KINDS: Final[dict[str, Callable[[Memory, Work, Integrity, Cancelled | None], tuple[Failure, ...]]]] = {
    Kind.STORE: _store,
    Kind.FETCH: _fetch,
    Kind.VERIFY: _verify,
    Kind.PERSIST: _persist,
}


def sum_of(data: Bytes) -> bytes:
    """The checksum of one block's bytes: 16 bytes of xxh3_128."""
    return xxhash.xxh3_128_digest(data)  # type: ignore[arg-type]  # an array is a buffer; 3.11 has no type for that


def each(at: Slots) -> Sequence[int]:
    """The slots one by one."""
    return range(at.start, at.stop) if isinstance(at, slice) else at


def _move(piece: Piece) -> None:
    """Copy one piece. Off the CPU it returns when the bytes have landed, as it does on it."""
    src, dst, from_, to = piece.src, piece.dst, piece.src_at, piece.dst_at
    if not (src.on_cpu and dst.on_cpu):
        dst.tensor[to].copy_(src.tensor[from_])
        _wait_for_device(src, dst)
    elif isinstance(to, slice) and piece.length * src.block_bytes >= RELEASE_BYTES:
        np.copyto(dst.array[to], src.array[from_])
    else:
        dst.blocks[to] = src.blocks[from_]


def _wait_for_device(*pools: Pool) -> None:
    """`copy_` between two places on devices is only queued when it returns; a report must not come before the bytes."""
    for pool in pools:
        if pool.tensor.is_cuda:
            torch.cuda.current_stream(pool.tensor.device).synchronize()


def _bad_lines(piece: Piece, work: Work, integrity: Integrity) -> Iterator[Failure]:
    seals, pool, line = piece.src.seals, piece.dst, piece.line
    for slot, to in zip(each(piece.src_at), each(piece.dst_at), strict=True):
        mark, key, wanted, block = seals.marks[slot], seals.keys[slot], work.keys[line], work.src[line]
        if mark == Mark.EMPTY:
            yield _bad(line, Code.BLOCK_NOT_FOUND, f"nothing was ever stored in block {block}")
        elif mark == Mark.OPEN:
            yield _bad(line, Code.SHORT_READ, f"the store into block {block} never ended")
        elif key != wanted:
            yield _bad(line, Code.KEY_MISMATCH, f"block {block} holds key {key.hex()}, not {wanted.hex()}")
        elif integrity.of_memory and mark != Mark.SUMMED:
            yield _bad(line, Code.CRC_MISMATCH, f"no checksum was kept for block {block}: it was stored without")
        elif integrity.of_memory:
            found, kept = sum_of(pool.bytes_of(to)), seals.sum(slot)
            if found != kept:
                message = f"block {work.dst[line]} sums to {found.hex()}, what was sealed in {block} to {kept.hex()}"
                yield _bad(line, Code.CRC_MISMATCH, message)
        line += 1


def _bad(line: int, code: Code, message: str) -> Failure:
    return Failure(line, int(code), "verify", driver="memory", message=message)


def _stopped(line: int, work: Work) -> Failure:
    return Failure(line, int(Code.CANCELLED), STAGES[work.kind], message=f"cancelled before line {line}")
