"""What follows for, and from, device blocks of an engine that has an allocator of its own: relations, and acts.

The relations split what a part, a job or a batch touches, since a block of the engine's is a record of another machine;
and they lead back, from a block that the engine takes, to whoever counted on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvstate.errors import Code, KVError
from kvstate.machines import bulk
from kvstate.machines.books import Books
from kvstate.machines.messages import Failure, Hold, Unhold
from kvstate.machines.records import Batch, Job, Part
from kvstate.machines.tables.foreign import State as F
from kvstate.machines.tables.part import State as P

if TYPE_CHECKING:
    from kvstate.machines.cascade import Cascade


# -- relations ---------------------------------------------------------------------------------------------------------


def part_foreign_reads(books: Books, part: Part) -> Sequence[int]:
    """The engine's blocks that the part reads."""
    return books.engine.of_engine(part.reads)


def part_foreign_writes(books: Books, part: Part) -> Sequence[int]:
    """The engine's blocks that the part writes."""
    return books.engine.of_engine(part.writes)


def job_foreign_srcs(books: Books, job: Job) -> Sequence[int]:
    """The engine's blocks that the job holds to read from, last first."""
    return books.engine.of_engine(bulk.backwards(job.srcs))


def batch_foreign_dsts(books: Books, batch: Batch) -> Sequence[int]:
    """The engine's blocks that the batch brings bytes to, until it has let go of them; last first."""
    return books.engine.of_engine(bulk.backwards(batch.dsts))


def foreign_parts(books: Books, block: int) -> Sequence[int]:
    """The parts that touch the block, those that were given up as well."""
    return [
        part.slot
        for part in books.parts.live()
        if books.parts_state[part.slot] in (P.FLYING, P.LOST) and (block in part.reads or block in part.writes)
    ]


def foreign_jobs(books: Books, block: int) -> Sequence[int]:
    """The jobs that hold the block to read from."""
    return [job.slot for job in books.jobs.live() if block in job.srcs]


def foreign_batches(books: Books, block: int) -> Sequence[int]:
    """The batch that brings bytes to the block."""
    slot = books.engine.filling.get(block)
    return () if slot is None else (slot,)


# -- acts --------------------------------------------------------------------------------------------------------------


class ForeignActs:
    """The acts of a block of the engine's, and of a batch that fills such; a block is given as its number."""

    __slots__ = ("books", "ports")

    def __init__(self, books: Books, ports: Cascade) -> None:
        self.books = books
        self.ports = ports

    def emit_hold(self, block: int, effect: str) -> None:
        """Ask the engine to keep this life of the block."""
        self.books.effects.append(Hold(self.books.ref(block)))

    def emit_unhold(self, block: int, effect: str) -> None:
        """Tell the engine that it may go on with it."""
        self.books.effects.append(Unhold(self.books.ref(block)))

    def note_taken(self, block: int, effect: str) -> None:
        """Keep the cause for each job that holds the block (law L10)."""
        for slot in foreign_jobs(self.books, block):
            job = self.books.jobs[slot]
            ref = job.refs[job.refs.blocks.index(block)]
            job.failures.append(_taken(ref.block, ref.generation, "store"))

    def note_pulled(self, block: int, effect: str) -> None:
        """Keep the cause for the load that was to fill the block."""
        for slot in foreign_batches(self.books, block):
            engine = self.books.engine
            given_on = engine.state[block] == F.OWNED  # and so in its next life already
            self.books.batches[slot].failures.append(_taken(block, engine.generation[block] - given_on, "fetch"))

    def forget_filling(self, batch: Batch, effect: str) -> None:
        """The batch brings nothing to these blocks any more: what the engine does with them is nothing to it."""
        self.books.engine.forget(batch.slot, batch.dsts)


def _taken(block: int, generation: int, stage: str) -> KVError:
    """The engine took this block in this life, and that is why a store or a load ends."""
    return KVError.of(Failure(-1, int(Code.BLOCK_TAKEN), stage), block=block, generation=generation)
