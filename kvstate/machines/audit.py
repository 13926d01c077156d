"""Count everything anew from the records, and compare with what the machines believe (laws L4, L5, L8, L9).

The machines keep counters and the ledger keeps links; each could be derived from the other, and that is the point: they
are kept apart and must agree at the end of every input. The audit reads, and never mends: a balance that does not come
out is a bug, and mending it would hide whose.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kvstate.machines.books import Books
from kvstate.machines.keybook import NONE
from kvstate.machines.ledger import Ledger
from kvstate.machines.tables.block import State as B
from kvstate.machines.tables.key import State as K
from kvstate.machines.tables.load import State as L
from kvstate.machines.tables.part import State as P
from kvstate.machines.tables.transfer import State as X

UNTOLD = {X.PLANNED, X.FETCHING, X.VERIFYING, X.VERIFIED, X.RETRY_WAIT, X.ROLLING_BACK}


@dataclass(slots=True)
class Recount:
    """What the records say of each block."""

    owners: Counter[int] = field(default_factory=Counter)
    readers: Counter[int] = field(default_factory=Counter)
    writers: Counter[int] = field(default_factory=Counter)
    lost: Counter[int] = field(default_factory=Counter)


def audit(ledger: Ledger) -> list[str]:
    """Every disagreement, as `LAW.property: sentence`; empty when the books balance. Costs a pass over all records."""
    books = ledger.books
    return [*_counters(books), *_pools(books), *_names(books), *_parts(books), *_loading(books)]


def recount(books: Books) -> Recount:
    """Owners from leases, pins and jobs; readers, writers and lost from parts and holds."""
    seen = Recount()
    for lease in books.leases.values():
        seen.owners.update(lease.owned.keys())
        seen.owners.update(lease.pins.keys())
    for job in books.jobs.live():
        seen.owners.update(job.dsts)
        seen.readers.update(job.srcs)
    for part in books.parts.live():
        state = books.parts_state[part.slot]
        if state in (P.FLYING, P.LOST):
            seen.readers.update(part.reads)
            seen.writers.update(part.writes)
        if state == P.LOST:
            seen.lost.update(part.reads)
            seen.lost.update(part.writes)
    return seen


def _counters(books: Books) -> Iterator[str]:
    seen = recount(books)
    for name in ("owners", "readers", "writers", "lost"):
        counted, column = getattr(seen, name), books.column("block", name)
        for block, value in enumerate(column):
            if value != counted[block]:
                yield f"L8.recount: block {block} has {name} {value}, the records say {counted[block]}"


def _pools(books: Books) -> Iterator[str]:
    """Free, used and held make up the pool, each block once."""
    for pool in books.pools:
        name, span = pool.config.name, range(pool.base, pool.base + pool.config.blocks)
        states = Counter(books.block_state[block] for block in span)
        for state in B:
            if pool.counts[state] != states[state]:
                word = state.name.lower()
                yield f"L8.balance: {name} counts {pool.counts[state]} {word} blocks and has {states[state]}"
        free = [block for block in span if books.block_state[block] == B.FREE]
        if sorted(pool.free) != free:
            yield f"L8.balance: the free list of {name} has {len(pool.free)} entries, {len(free)} blocks are free"
        if len(pool.evictable) != states[B.CACHED]:
            yield f"L8.balance: {name} may evict {len(pool.evictable)} blocks, {states[B.CACHED]} are cached"


def _names(books: Books) -> Iterator[str]:
    """Published, if and only if a ready or cooling key names the block."""
    keys, published = books.keys, books.column("block", "published")
    for block, slot in enumerate(keys.block_key):
        named = slot != NONE and keys.state[slot] in (K.READY, K.COOLING) and keys.blocks[slot] == block
        if bool(published[block]) != named:
            state = "no key" if slot == NONE else f"a key that is {K(keys.state[slot]).name.lower()}"
            yield f"L9.named: block {block} is {'' if published[block] else 'not '}published, {state} names it"
    writers = {job.id for job in books.jobs.live()}
    for slot, name in enumerate(keys.names):
        if name is not None and keys.state[slot] == K.WRITING and keys.writers[slot] not in writers:
            yield f"L9.writing: key {name[2].hex()} is being written by job {keys.writers[slot]}, which is over"


def _parts(books: Books) -> Iterator[str]:
    """What a job or batch waits for is what flies for it; what flies has an owner or is the engine's."""
    for machine, roster in (("offload", books.jobs), ("transfer", books.batches)):
        left = books.column(machine, "left")
        for owner in roster.live():
            flying = sum(
                1
                for part in books.parts.live()
                if part.owner == (machine, owner.slot) and books.parts_state[part.slot] == P.FLYING
            )
            if left[owner.slot] != flying:
                yield f"L4.left: {machine} {owner.id} waits for {left[owner.slot]} parts, {flying} fly for it"
    for part in books.parts.live():
        if part.owner is None and books.parts_state[part.slot] == P.FLYING and part.kind not in ("step", "hold"):
            yield f"L4.no_orphan: {part.kind} part {part.token.serial} flies for nobody"


def _loading(books: Books) -> Iterator[str]:
    """Loading, if and only if a live job or an untold batch brings bytes to the block."""
    named: set[int] = {block for job in books.jobs.live() for block in job.dsts}
    told = books.column("transfer", "told")
    for batch in books.batches.live():
        load = books.loads[batch.load]
        untold = books.column("transfer", "state")[batch.slot] in UNTOLD and not told[batch.slot]
        if untold and books.column("load", "state")[load.slot] != L.ABORTING:
            named.update(batch.dsts)
    for block, state in enumerate(books.block_state):
        if (state == B.LOADING) != (block in named):
            fills = "something" if block in named else "nothing"
            yield f"L5.loading_named: block {block} is {B(state).name.lower()}, and {fills} fills it"
