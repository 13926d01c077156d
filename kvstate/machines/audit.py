"""Count everything anew from the records, and compare with what the machines believe (laws L4, L5, L8, L9).

The machines keep counters and the ledger keeps links; each could be derived from the other, and that is the point: they
are kept apart and must agree at the end of every input. The audit reads, and never mends: a balance that does not come
out is a bug, and mending it would hide whose.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from kvstate.machines import bulk
from kvstate.machines.books import Books
from kvstate.machines.keybook import NONE
from kvstate.machines.ledger import Ledger
from kvstate.machines.tables.block import State as B
from kvstate.machines.tables.foreign import State as F
from kvstate.machines.tables.key import State as K
from kvstate.machines.tables.load import State as L
from kvstate.machines.tables.part import State as P
from kvstate.machines.tables.transfer import State as X

NAMING = {int(K.READY), int(K.COOLING)}
"""The states of a key that names a block."""
UNTOLD = {X.PLANNED, X.FETCHING, X.VERIFYING, X.VERIFIED, X.RETRY_WAIT, X.ROLLING_BACK}
"""The states of a batch whose verdict is still to come."""


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
    here = books.engine.count
    found = [*_counters(books), *_pools(books), *_names(books), *_parts(books), *_loading(books), *_held(books, here)]
    return [*found, *_sought(books)]


def recount(books: Books) -> Recount:
    """Owners from leases, pins and jobs; readers, writers and lost from parts and holds."""
    seen = Recount()
    for lease in books.leases.values():
        seen.owners.update(books.owned(lease))
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
    here = books.engine.count
    for name in ("owners", "readers", "writers", "lost"):
        counted, column = getattr(seen, name), books.column("block", name)[:]
        if here and name != "owners":
            column[:here] = books.column("foreign", name)  # of these the block table knows nothing
        expected = array("q", [0]) * len(column)
        for block, count in counted.items():
            expected[block] = count
        if expected == column:  # compared as a whole: a pool may have a million blocks
            continue
        for block, (value, count) in enumerate(zip(column, expected, strict=True)):
            if value != count:
                yield f"L8.recount: block {block} has {name} {value}, the records say {count}"


def _pools(books: Books) -> Iterator[str]:
    """Free, used and held make up the pool, each block once."""
    for pool in books.pools:
        name = pool.config.name
        if pool.config.foreign:
            counts = [books.engine.state.count(state) for state in F]
            if pool.counts != counts or pool.free:
                yield f"L8.balance: {name} counts {pool.counts} blocks by state, and has {counts}"
            continue
        states = books.block_state[pool.base : pool.base + pool.config.blocks].tobytes()
        for state in B:
            if pool.counts[state] != states.count(state):
                word = state.name.lower()
                yield f"L8.balance: {name} counts {pool.counts[state]} {word} blocks and has {states.count(state)}"
        free = states.count(B.FREE)
        listed = bulk.distinct(pool.free) and bulk.all_are(books.block_state, pool.free, B.FREE)
        if len(pool.free) != free or not listed:
            yield f"L8.balance: the free list of {name} has {len(pool.free)} entries, {free} blocks are free"
        if len(pool.evictable) != states.count(B.CACHED):
            yield f"L8.balance: {name} may evict {len(pool.evictable)} blocks, {states.count(B.CACHED)} are cached"


def _names(books: Books) -> Iterator[str]:
    """Published, if and only if a ready or cooling key names the block."""
    keys, published = books.keys, books.column("block", "published")
    named = bytearray(books.total)
    for slot, state in enumerate(keys.state):
        block = keys.blocks[slot]
        if state in NAMING and block != NONE and keys.block_key[block] == slot:
            named[block] = 1
    if published.tobytes() != named:
        for block, (is_so, to_be) in enumerate(zip(published, named, strict=True)):
            if is_so != to_be:
                slot = keys.block_key[block]
                who = "no key" if slot == NONE else f"a key that is {K(keys.state[slot]).name.lower()}"
                yield f"L9.named: block {block} is {'' if is_so else 'not '}published, {who} names it"
    writers = {job.id for job in books.jobs.live()}
    for slot, state in enumerate(keys.state):
        if state == K.WRITING and keys.writers[slot] not in writers:
            key = keys.name(slot).key.hex()
            yield f"L9.writing: key {key} is being written by job {keys.writers[slot]}, which is over"


def _parts(books: Books) -> Iterator[str]:
    """What a job or batch waits for is what flies for it; what flies has an owner or is the engine's."""
    flying = [part for part in books.parts.live() if books.parts_state[part.slot] == P.FLYING]
    for_owner = Counter(part.owner for part in flying)
    for machine, roster in (("offload", books.jobs), ("transfer", books.batches)):
        left = books.column(machine, "left")
        for owner in roster.live():
            fly = for_owner[machine, owner.slot]
            if left[owner.slot] != fly:
                yield f"L4.left: {machine} {owner.id} waits for {left[owner.slot]} parts, {fly} fly for it"
    for part in flying:
        if part.owner is None and part.kind not in ("step", "hold", "seek"):
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
    state, here = books.block_state, books.engine.count
    filling = {block for block in named if block < here}
    loading = {block for block in range(here) if books.engine.state[block] == F.LOADING}
    for block in filling ^ loading:
        found, wanted = ("", "not ") if block in loading else ("not ", "")
        yield f"L5.loading_named: block {block} is {found}being loaded, and should {wanted}be"
    if not filling <= books.engine.filling.keys():
        yield f"L5.loading_named: of the blocks {filling} the engine's reports reach {sorted(books.engine.filling)}"
    named -= filling
    if state.count(B.LOADING) == len(named) and all(state[block] == B.LOADING for block in named):
        return
    for block, now in enumerate(state):
        if (now == B.LOADING) != (block in named):
            fills = "something" if block in named else "nothing"
            yield f"L5.loading_named: block {block} is {B(now).name.lower()}, and {fills} fills it"


def _held(books: Books, here: int) -> Iterator[str]:
    """Since when a block of the engine's is held for us stands there as long as it is, and no longer."""
    held = {block for block in range(here) if books.engine.state[block] == F.HELD}
    noted = {block for block in books.held_since if block < here}
    for block in sorted(held ^ noted):
        yield f"L3.hold: block {block} is {'' if block in held else 'not '}held, and since when does not agree"


def _sought(books: Books) -> Iterator[str]:
    """A lookup is told to wait for a key, if and only if parts that fly look for it."""
    seeks = books.seeks
    for seek in seeks.live.values():
        for slot in seek.waits:
            part = books.parts.items[slot]
            if part is None or books.parts_state[slot] != P.FLYING or seeks.by_part.get(slot) is not seek:
                yield f"L7.sought: seek {seek.id} waits for the part in slot {slot}, which does not fly for it"
        if not seek.waits:
            yield f"L7.sought: seek {seek.id} waits for no part, and is not over"
    if len(seeks.by_part) != sum(len(seek.waits) for seek in seeks.live.values()):
        yield f"L7.sought: {len(seeks.by_part)} parts are on record as looking for keys, and seeks wait for others"
    for space, keys in seeks.sought.items():
        for key, number in keys.items():
            if number not in seeks.live or key not in seeks.live[number].keys:
                yield f"L7.sought: key {key.hex()} of {space} is sought by seek {number}, which is over"
