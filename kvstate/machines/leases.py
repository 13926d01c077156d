"""Leases and what they own: open, allocate, seal, release, unpin, close.

A lease is one life of one request. Whatever it pins or owns is listed on it, and closing it is the one path by which
all of that is given back, however it came and however the request ended.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain, groupby

from kvstate.machines import bulk
from kvstate.machines.books import Pool
from kvstate.machines.config import DEVICE
from kvstate.machines.foreigns import Foreigns
from kvstate.machines.keybook import NONE
from kvstate.machines.messages import NO_BLOCKS, BlockRef, BlockRefs
from kvstate.machines.naming import publish
from kvstate.machines.ports import InvariantError
from kvstate.machines.records import Lease
from kvstate.machines.tables.block import Event as B
from kvstate.machines.tables.block import State as BS
from kvstate.machines.tables.load import Event as L
from kvstate.machines.tables.part import Event as P
from kvstate.machines.verdicts import Closed, Grant, Hit, Refusal, Short

FREE, CACHED, DRAINING, QUARANTINED = map(int, (BS.FREE, BS.CACHED, BS.DRAINING, BS.QUARANTINED))
"""States as plain numbers, since a member of an enum takes as long to get at as a column does."""
EVICT, RESERVE, RELEASE = map(int, (B.EVICT, B.RESERVE, B.RELEASE))
"""Events, likewise."""
ONE_FREE = Closed(1, 0, 0, 0)
"""What has become of one block that nobody shared, touched or named; answered so often that it is made once."""


class Leases(Foreigns):
    """The requests of `Ledger` that are about leases; see there for what they promise."""

    __slots__ = ()

    def open(self, namespace: str) -> int | Refusal:
        """A lease of the present epoch; its number is its own for ever."""
        refused = self.admit()
        if refused is not None:
            return refused
        try:
            namespace.encode()
        except (AttributeError, UnicodeEncodeError):
            return Refusal("a namespace is a text that has an encoding; half a surrogate pair, say, has none")
        books = self.books
        lease = Lease(books.next_id(), namespace, books.epoch, books.now)
        books.leases[lease.id] = lease
        return lease.id

    def lease(self, lease_id: int) -> Lease | Refusal:
        """The open lease of this number."""
        lease = self.books.leases.get(lease_id)
        return self.not_open(lease_id) if lease is None else lease

    def not_open(self, lease_id: int) -> Refusal:
        """There is no open lease of this number."""
        return Refusal(f"lease {lease_id} is not open")

    # -- owning blocks -------------------------------------------------------------------------------------------------

    def allocate(self, lease: Lease, count: int) -> Grant | Short | Refusal:
        """So many device blocks for the lease, or what there would be."""
        refused = self.not_allocated_here()
        if refused is not None:
            return refused
        free = self.books.pools[DEVICE].free
        if count == 1 and free:
            one = free[-1:]
            self.ports.block.signal(free.pop(), RESERVE)
            return Grant(self.books.give(lease, one))
        blocks = self.take(DEVICE, count)
        return blocks if isinstance(blocks, Short) else Grant(self.books.give(lease, blocks))

    def take(self, pool_index: int, count: int) -> array[int] | Short:
        """Reserve that many blocks of a pool, evicting cached ones as the policy says; all of them or none."""
        pool = self.books.pools[pool_index]
        missing = count - len(pool.free)
        if missing > 0:
            short = self._evict(pool, missing)
            if short is not None:
                return short
        blocks = bulk.run(pool.free[: -count - 1 : -1])
        del pool.free[len(pool.free) - count :]
        self.ports.block.each(blocks, RESERVE)
        return blocks

    def _evict(self, pool: Pool, missing: int) -> Short | None:
        """Evict so many blocks, as the policy orders them; or say what there would be, and evict none."""
        victims = array("q")
        for run in pool.evictable.victims(missing):
            victims.extend(run if isinstance(run, array) and run.typecode == "q" else array("q", run))
            if len(victims) >= missing:
                del victims[missing:]
                break
        victims = bulk.run(victims)
        _look_at(victims, pool)
        if len(victims) == missing and self.ports.block.ask_all(victims, EVICT):
            return None
        victims, stuck = array("q"), 0
        for block in chain.from_iterable(pool.evictable.victims(missing)):
            if self.ports.block.choose(block, EVICT):
                victims.append(block)
                if len(victims) == missing:
                    _look_at(victims, pool)
                    self.ports.block.each(victims, EVICT)
                    return None
            else:
                stuck += self._given_up(block)
        coming = pool.counts[DRAINING] + len(pool.evictable) - len(victims) - stuck
        free = len(pool.free)
        return Short(missing + free, free + len(victims), coming, pool.counts[QUARANTINED] + stuck)

    def seal(
        self, lease: Lease, refs: BlockRefs, keys: Sequence[bytes], group: int | None
    ) -> tuple[bool, ...] | Refusal:
        """Seal these blocks, each once and under its key, and publish them where the key is still to be had."""
        refused = self.not_allocated_here()
        space = self.space(lease, group) if refused is None else refused
        if isinstance(space, Refusal):
            return space
        if len(refs) != len(keys):
            return Refusal(f"{len(refs)} blocks and {len(keys)} keys: seal takes a key for each block")
        blocks, port = refs.blocks, self.ports.block
        if not bulk.distinct(blocks):
            return Refusal("a block is listed twice; a block is sealed once, under one key")
        stranger = self.books.stranger(lease, refs)
        if stranger is not None:
            return Refusal(_not_its_own(lease, stranger))
        if not port.ask_all(blocks, B.SEAL):
            block = next(block for block in blocks if not port.choose(block, B.SEAL))
            return Refusal(f"block {block} is {port.state_of(block)}; only an open block is sealed")
        if lease.epoch != self.books.epoch:
            return (False,) * len(refs)
        return publish(self.books, self.ports, blocks, space, keys)

    # -- letting go ----------------------------------------------------------------------------------------------------

    def release(self, lease: Lease, refs: BlockRefs) -> Closed | Refusal:
        """Give up blocks of the lease, except such as a load still fills; one that is listed twice counts once."""
        books, blocks = self.books, refs.blocks
        if len(blocks) == 1 and not (lease.loads or lease.steps) and books.has_one(lease, refs):
            return self._release_one(lease, blocks)
        stranger = books.stranger(lease, refs)
        if stranger is not None:
            return Refusal(_not_its_own(lease, stranger))
        if lease.loads:
            live = (books.batches[batch] for load in lease.loads for batch in books.loads[load].live)
            loading = {block for batch in live for block in batch.dsts}.intersection(blocks)
            if loading:
                return Refusal(f"block {min(loading)} is being loaded; cancel the load or close the lease")
        if not bulk.distinct(blocks):
            blocks = array("q", dict.fromkeys(blocks))
        self._give_back(lease, blocks)
        books.strike(lease, blocks)
        return self._gained(blocks)

    def _release_one(self, lease: Lease, one: array[int]) -> Closed:
        """The same for one block that the lease has to itself, and that nobody loads or steps over."""
        block = one[0]
        self.books.turn += 1
        self.ports.block.signal(block, RELEASE)
        self.books.strike_one(lease, block)
        return ONE_FREE if self.books.block_state[block] == FREE else self._gained(one)

    def close(self, lease: Lease) -> Closed:
        """Give back all that the lease owns and pins. What its loads still write is their own to drain."""
        blocks = bulk.run(self.books.owned(lease))
        filled = self.filled_for(lease)
        for slot in tuple(lease.loads):
            if self.ports.load.ask(slot, L.ABORT):
                self.books.arm(self.books.now + self.books.config.grace, "load", "lapse", slot)
        self._give_back(lease, blocks)
        if filled:
            self.let_go_of(filled)
        for _, run in groupby(reversed(lease.pins), self.books.pool_of.__getitem__):
            self.ports.block.each(bulk.run(array("q", run)), RELEASE)
        for slot in lease.steps:
            self.books.step_leases[slot].remove(lease.id)
        del self.books.leases[lease.id]
        return self._gained(blocks)

    def unpin(self, lease: Lease, hit: Hit) -> bool:
        """Release what this lookup pinned, as far as the lease still has it and no load has taken it over."""
        books = self.books
        mine = {ref.block for ref in hit.blocks if books.current(ref)}.intersection(hit.pinned)
        pinned = tuple(dict.fromkeys(hit.pinned))
        shared = array("q", [block for block in pinned if block in mine and block in lease.shared])
        self._give_back(lease, shared)
        for block in shared:
            del lease.shared[block]
        for block in reversed(pinned):
            if block in mine and lease.pins.get(block, 0) == NONE:
                self.ports.block.signal(block, RELEASE)
                del lease.pins[block]
        return True

    def _give_back(self, lease: Lease, blocks: array[int]) -> None:
        """Hand the blocks to the steps that the lease is out on, then release them, the last one first."""
        books = self.books
        books.turn += 1
        if lease.steps:
            books.handing = array("q", [block for block in blocks if self.ports.block.choose(block, B.STEP_HOLD)])
            for slot in lease.steps:
                self.ports.part.signal(slot, P.ADOPT)
            books.handing = NO_BLOCKS
        self.ports.block.each(bulk.backwards(blocks) if len(blocks) > 1 else blocks, RELEASE)

    def _given_up(self, block: int) -> bool:
        """Is nobody who still touches the block expected to report?"""
        books = self.books
        touchers = books.column("block", "readers")[block] + books.column("block", "writers")[block]
        return books.column("block", "lost")[block] == touchers

    def _gained(self, blocks: array[int]) -> Closed:
        """What has become of blocks that a lease let go of.

        A cached one that is still read is on its way like a draining one: nothing has to be done for it, but it can't
        be had yet. If all who read it were given up, it is as good as in quarantine.
        """
        if len(blocks) == 1 and self.books.block_state[blocks[0]] == FREE:
            return ONE_FREE
        states = bulk.gather(self.books.block_state, blocks).tobytes()
        free = states.count(FREE)
        if free == len(states):
            return Closed(free, 0, 0, 0)
        cached, coming, quarantined = 0, states.count(DRAINING), states.count(QUARANTINED)
        named = blocks
        if states.count(CACHED) < len(states):
            named = array("q", [block for block, state in zip(blocks, states, strict=True) if state == CACHED])
        if self.ports.block.takes(named, EVICT):
            return Closed(free, len(named), coming, quarantined)
        for block in named:
            if self.ports.block.choose(block, EVICT):
                cached += 1
            elif self._given_up(block):
                quarantined += 1
            else:
                coming += 1
        return Closed(free, cached, coming, quarantined)


def _look_at(victims: array[int], pool: Pool) -> None:
    """Errors: `InvariantError` if the policy chose what it can't choose."""
    if not bulk.distinct_within(victims, pool.base, pool.base + pool.config.blocks):
        raise InvariantError("policy", f"the policy of {pool.config.name} chose a block twice, or none of its own")


def _not_its_own(lease: Lease, ref: BlockRef) -> str:
    return f"block {ref.block} gen {ref.generation} does not belong to lease {lease.id}"
