"""The relations of `coupling.toml`: from one record to the records of another machine, by slot.

Pure: they read the books and change nothing. They choose and compare identity; where they look at a part's state, it is
to say *which* keys a batch answers for, never to decide what happens to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kvstate.machines import bulk
from kvstate.machines.books import Books
from kvstate.machines.foreign_acts import (
    batch_foreign_dsts,
    foreign_batches,
    foreign_jobs,
    foreign_parts,
    job_foreign_srcs,
    part_foreign_reads,
    part_foreign_writes,
)
from kvstate.machines.keybook import NONE
from kvstate.machines.messages import Kind
from kvstate.machines.records import Batch, Job, Load, Part
from kvstate.machines.tables.part import State as P

Relation = Callable[[Books, Any], Sequence[int]]
"""Given the record (or the slot, of a key or block): the slots of the records that it leads to, in order."""


# -- from a part -------------------------------------------------------------------------------------------------------


def part_reads(books: Books, part: Part) -> Sequence[int]:
    """The blocks that the part reads; a step reads a block once for each lease that left it to the step."""
    # What may stand there twice is a list: only arrays are looked at by columns, which would count it once.
    if part.kind is Kind.STEP:
        return list(part.reads)
    return books.engine.of_tiers(part.reads) if books.engine.count else part.reads


def part_writes(books: Books, part: Part) -> Sequence[int]:
    """The blocks that the part writes."""
    return books.engine.of_tiers(part.writes) if books.engine.count else part.writes


def part_adopted(books: Books, part: Part) -> Sequence[int]:
    """The blocks that a lease hands over to this step right now."""
    return books.handing


def part_job(books: Books, part: Part) -> Sequence[int]:
    """The offload job of the part, unless it is over."""
    return (part.owner[1],) if part.owner is not None and part.owner[0] == "offload" else ()


def part_batch(books: Books, part: Part) -> Sequence[int]:
    """The batch of the part, unless it is over."""
    return (part.owner[1],) if part.owner is not None and part.owner[0] == "transfer" else ()


def part_key(books: Books, part: Part) -> Sequence[int]:
    """The keys of the part's bad lines, as far as they still name the blocks that they named then."""
    return tuple(_keys_of(books, part))


def _keys_of(books: Books, part: Part) -> Iterator[int]:
    lines = part.bad or range(len(part.names))
    for line in lines:
        slot = books.keys.named(part.names[line])
        if slot != NONE:
            yield slot


# -- from a job or a batch ---------------------------------------------------------------------------------------------


def owner_srcs(books: Books, owner: Job | Batch) -> Sequence[int]:
    """The blocks that the job or batch holds to read from, last first: of a prefix the tail is to be evicted first."""
    return books.engine.of_tiers(bulk.backwards(owner.srcs)) if books.engine.count else bulk.backwards(owner.srcs)


def owner_dsts(books: Books, owner: Job | Batch) -> Sequence[int]:
    """The blocks that the job or batch brings bytes to, until it has let go of them; last first, as above."""
    return books.engine.of_tiers(bulk.backwards(owner.dsts)) if books.engine.count else bulk.backwards(owner.dsts)


def owner_flying(books: Books, owner: Job | Batch) -> Sequence[int]:
    """Its parts that have not answered."""
    state = books.parts_state
    return [slot for slot in owner.parts if state[slot] == P.FLYING]


def job_keys(books: Books, job: Job) -> Sequence[int]:
    """The keys that this job still writes (an older job's completion finds none)."""
    writers = books.keys.writers
    if bulk.all_are(writers, job.key_slots, job.id):
        return job.key_slots
    return [slot for slot in job.key_slots if writers[slot] == job.id]


def batch_bad_keys(books: Books, batch: Batch) -> Sequence[int]:
    """The keys whose bytes a part reported as bad or missing."""
    return _lines_of(books, batch, (P.BROKEN,))


def batch_lost_keys(books: Books, batch: Batch) -> Sequence[int]:
    """The keys whose part failed or was not heard in time, and which no part called bad."""
    bad = set(batch_bad_keys(books, batch))
    return [slot for slot in _lines_of(books, batch, (P.FAILED, P.LOST, P.GONE)) if slot not in bad]


def batch_slow_keys(books: Books, batch: Batch) -> Sequence[int]:
    """As `batch_lost_keys`, with what has not answered; if no part is at fault at all, what was stopped.

    Without that last clause a load whose every part was stopped would find its keys again at once, and so for ever.
    """
    bad = set(batch_bad_keys(books, batch))
    slow = [slot for slot in _lines_of(books, batch, (P.FAILED, P.LOST, P.GONE, P.FLYING)) if slot not in bad]
    # The fault is looked for in the parts: a key that has just been condemned for one is not to be found any more.
    stopped = all(books.parts_state[slot] in (P.LANDED, P.STOPPED) for slot in batch.parts)
    return _lines_of(books, batch, (P.STOPPED,)) if stopped else slow


def _lines_of(books: Books, batch: Batch, states: tuple[int, ...]) -> list[int]:
    state = books.parts_state
    parts = (books.parts[slot] for slot in batch.parts if state[slot] in states)
    return list(dict.fromkeys(key for part in parts for key in _keys_of(books, part)))


def batch_load(books: Books, batch: Batch) -> Sequence[int]:
    """The load that the batch belongs to."""
    return (batch.load,)


# -- from a load -------------------------------------------------------------------------------------------------------


def load_planned(books: Books, load: Load) -> Sequence[int]:
    """All batches, first first: the front of the prefix is wanted first."""
    return tuple(load.batches)


def load_batches(books: Books, load: Load) -> Sequence[int]:
    """The batches that are not over, last first: nothing may commit while those behind it are being ended."""
    return tuple(reversed(load.live))


def load_behind(books: Books, load: Load) -> Sequence[int]:
    """The batches behind the first hole that are not over, last first."""
    hole = len(load.batches) if load.hole is None else load.hole
    return tuple(slot for slot in reversed(load.live) if books.batches[slot].index > hole)


def load_next(books: Books, load: Load) -> Sequence[int]:
    """The batch whose turn it is."""
    return (load.batches[load.turn],) if load.turn < len(load.batches) else ()


# -- keys and blocks ---------------------------------------------------------------------------------------------------


def key_block(books: Books, key: int) -> Sequence[int]:
    """The block that the key names."""
    block = books.keys.blocks[key]
    return () if block == NONE else (block,)


def block_key(books: Books, block: int) -> Sequence[int]:
    """The key that names the block."""
    slot = books.keys.block_key[block]
    return () if slot == NONE else (slot,)


# -- from many records at once -----------------------------------------------------------------------------------------


def blocks_key(books: Books, blocks: Sequence[int]) -> Sequence[int]:
    """The keys that name these blocks, in their order; a key names one block, so none stands there twice."""
    slots = bulk.gather(books.keys.block_key, blocks)
    return bulk.run(slots) if NONE not in slots else [slot for slot in slots if slot != NONE]


RELATIONS: dict[str, Relation] = {
    "part_reads": part_reads,
    "part_writes": part_writes,
    "part_adopted": part_adopted,
    "part_key": part_key,
    "part_job": part_job,
    "part_batch": part_batch,
    "job_srcs": owner_srcs,
    "job_dsts": owner_dsts,
    "job_flying": owner_flying,
    "job_keys": job_keys,
    "batch_srcs": owner_srcs,
    "batch_dsts": owner_dsts,
    "batch_flying": owner_flying,
    "batch_bad_keys": batch_bad_keys,
    "batch_slow_keys": batch_slow_keys,
    "batch_lost_keys": batch_lost_keys,
    "batch_load": batch_load,
    "load_planned": load_planned,
    "load_batches": load_batches,
    "load_behind": load_behind,
    "load_next": load_next,
    "key_block": key_block,
    "block_key": block_key,
    "part_foreign_reads": part_foreign_reads,
    "part_foreign_writes": part_foreign_writes,
    "job_foreign_srcs": job_foreign_srcs,
    "batch_foreign_dsts": batch_foreign_dsts,
    "foreign_parts": foreign_parts,
    "foreign_jobs": foreign_jobs,
    "foreign_batches": foreign_batches,
}
"""Every relation of `coupling.toml`, by its name there."""
RELATIONS_OF_MANY: dict[str, Callable[[Books, Sequence[int]], Sequence[int]]] = {"block_key": blocks_key}
"""Those that lead from many records at once, and from no two of them to the same."""
