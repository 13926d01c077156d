"""What each kind of part does to memory. Plain functions: no thread, no clock, no state of any machine.

`perform` does what a `Work` says and returns what went wrong, line by line; an empty tuple is success. It raises only
for work that makes no sense (a block that does not exist, lists of different lengths), before a byte has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Final, Protocol

import xxhash

from kvstate.errors import Code, from_exception, outcome_of
from kvstate.machines.messages import Failure, Kind, Outcome, Report, Work
from kvstate.runtime import pieces
from kvstate.runtime.memory import Bytes, Memory
from kvstate.runtime.pieces import each
from kvstate.runtime.seals import Mark
from kvstate.runtime.stages import STAGES

Cancelled = Callable[[], bool]
"""Asked before each piece: is the rest of the part no longer wanted? May be called in a thread of the copier."""


class Carry(Protocol):
    """Carries out one part, or some lines of it, in the thread that calls: as `attempt`, wherever the bytes go."""

    def __call__(self, work: Work, *, cancelled: Cancelled | None = None) -> Report:
        """What came of it. Total, and a proof: nothing of it touches memory when this returns."""
        ...


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
    spaces = work.spaces[start:stop] if len(work.spaces) > 1 else work.spaces
    return work._replace(src=work.src[start:stop], dst=work.dst[start:stop], keys=work.keys[start:stop], spaces=spaces)


def _store(memory: Memory, work: Work, integrity: Integrity, cancelled: Cancelled | None) -> tuple[Failure, ...]:
    """Copy down and seal. The sum is taken of the destination: it speaks of the bytes that rest in the tier."""
    keys, of_memory = work.keys, integrity.of_memory
    for piece in pieces.pieces_of(memory, work):
        if cancelled is not None and cancelled():
            return (_stopped(piece.line, work),)
        pool, slots = piece.dst, each(piece.dst_at)
        pool.seals.open(slots)
        pieces.move(piece)
        sums = [sum_of(pool.bytes_of(slot)) for slot in slots] if of_memory else None
        pool.seals.close(slots, keys[piece.line : piece.line + piece.length], sums)
    return ()


def _fetch(memory: Memory, work: Work, integrity: Integrity, cancelled: Cancelled | None) -> tuple[Failure, ...]:  # noqa: ARG001
    """Copy up. What came is compared by the VERIFY that follows, when all parts of the batch are there."""
    for piece in pieces.pieces_of(memory, work):
        if cancelled is not None and cancelled():
            return (_stopped(piece.line, work),)
        pieces.move(piece)
    return ()


def _verify(memory: Memory, work: Work, integrity: Integrity, cancelled: Cancelled | None) -> tuple[Failure, ...]:
    """Hold the destination's bytes and the wanted keys against the seals of the source; every bad line is told."""
    failures: list[Failure] = []
    for piece in pieces.pieces_of(memory, work):
        if cancelled is not None and cancelled():
            return (*failures, _stopped(piece.line, work))
        lines = range(piece.line, piece.line + piece.length)
        failures.extend(bad_lines(memory, work, lines, integrity, lambda line: memory.bytes_of(work.dst[line])))
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


def bad_lines(
    memory: Memory, work: Work, lines: Iterable[int], integrity: Integrity, bytes_at: Callable[[int], Bytes]
) -> Iterator[Failure]:
    """What VERIFY finds in these lines of a part; `bytes_at(line)` gives what has come to its destination."""
    for line in lines:
        block, wanted = work.src[line], work.keys[line]
        pool, slot = memory.place(block)
        mark, key = pool.seals.marks[slot], pool.seals.keys[slot]
        if mark == Mark.EMPTY:
            yield _bad(line, Code.BLOCK_NOT_FOUND, f"nothing was ever stored in block {block}")
        elif mark == Mark.OPEN:
            yield _bad(line, Code.SHORT_READ, f"the store into block {block} never ended")
        elif key != wanted:
            yield _bad(line, Code.KEY_MISMATCH, f"block {block} holds key {key.hex()}, not {wanted.hex()}")
        elif integrity.of_memory and mark != Mark.SUMMED:
            yield _bad(line, Code.CRC_MISMATCH, f"no checksum was kept for block {block}: it was stored without")
        elif integrity.of_memory:
            found, kept = sum_of(bytes_at(line)), pool.seals.sum(slot)
            if found != kept:
                message = f"block {work.dst[line]} sums to {found.hex()}, what was sealed in {block} to {kept.hex()}"
                yield _bad(line, Code.CRC_MISMATCH, message)


def _bad(line: int, code: Code, message: str) -> Failure:
    return Failure(line, int(code), "verify", driver="memory", message=message)


def _stopped(line: int, work: Work) -> Failure:
    return Failure(line, int(Code.CANCELLED), STAGES[work.kind], message=f"cancelled before line {line}")
