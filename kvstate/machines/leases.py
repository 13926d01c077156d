"""Leases and what they own: open, look up, allocate, seal, release, close.

A lease is one life of one request. Whatever it pins or owns is listed on it, and closing it is the one path by which
all of that is given back, however it came and however the request ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvstate.machines.acts import publish
from kvstate.machines.core import Core
from kvstate.machines.keybook import NONE
from kvstate.machines.messages import BlockRef
from kvstate.machines.records import Lease
from kvstate.machines.tables.block import Event as B
from kvstate.machines.tables.block import State as BS
from kvstate.machines.tables.key import Event as K
from kvstate.machines.tables.load import Event as L
from kvstate.machines.tables.part import Event as P
from kvstate.machines.verdicts import Closed, Grant, Hit, Refusal, Short

DEVICE = 0


class Leases(Core):
    """The requests of `Ledger` that are about leases; see there for what they promise."""

    __slots__ = ()

    def open(self, namespace: str) -> int | Refusal:
        refused = self.admit()
        if refused is not None:
            return refused
        books = self.books
        lease = Lease(books.next_id(), namespace, books.epoch, books.now)
        books.leases[lease.id] = lease
        return lease.id

    def lease(self, lease_id: int) -> Lease | Refusal:
        lease = self.books.leases.get(lease_id)
        return Refusal(f"lease {lease_id} is not open") if lease is None else lease

    # -- looking up ----------------------------------------------------------------------------------------------------

    def lookup(self, lease: Lease, keys: Sequence[bytes]) -> Hit | Refusal:
        books = self.books
        found: dict[bytes, tuple[int, int]] = {}
        for key in keys if lease.epoch == books.epoch else ():
            if key in found:  # a key stands for all before it, too: twice in one prefix is a slip, and shorter is safe
                break
            slot = self._find(lease.namespace, key, (DEVICE,))
            if slot == NONE and (lease.namespace, key) in books.loading:
                if self._pending(lease.namespace, key):
                    return Hit(lease.id, (), (), (), 0, (), pending=True)
                break
            if slot == NONE:
                slot = self._find(lease.namespace, key, range(1, len(books.pools)))
            if slot == NONE:
                break
            found[key] = (slot, books.keys.blocks[slot])
        pinned: list[int] = []
        for slot, block in found.values():
            if block in (lease.owned if books.pool_of[block] == DEVICE else lease.pins):
                continue
            pinned.append(block)
            self.ports.key.signal(slot, K.HIT)
            self.ports.block.signal(block, B.SHARE)
            if books.pool_of[block] == DEVICE:
                lease.owned[block] = books.generation[block]
            else:
                lease.pins[block] = NONE
        below = tuple(place for place, (_, block) in enumerate(found.values()) if books.pool_of[block] != DEVICE)
        blocks = tuple(books.ref(block) for _, block in found.values())
        tokens = len(found) * books.config.tokens_per_block
        return Hit(lease.id, blocks, tuple(found), below, tokens, tuple(pinned))

    def _find(self, namespace: str, key: bytes, pools: Iterable[int]) -> int:
        """The key in the first of these pools where it is a hit."""
        keys = self.books.keys
        for pool in pools:
            slot = keys.find(pool, namespace, key)
            if slot != NONE and self.ports.key.choose(slot, K.HIT):
                return slot
        return NONE

    def _pending(self, namespace: str, key: bytes) -> bool:
        """Is it worth waiting? The first to ask starts the clock; once it has run out, it is a miss."""
        books = self.books
        since = books.pending_since.setdefault((namespace, key), books.now)
        return books.now - since < books.config.pending_for

    def unpin(self, lease: Lease, hit: Hit) -> bool:
        """Release what this lookup pinned, as far as the lease still has it and no load has taken it over."""
        books = self.books
        mine = {ref.block for ref in hit.blocks if books.current(ref)}.intersection(hit.pinned)
        owned = [block for block in hit.pinned if block in mine and block in lease.owned]
        self._give_back(lease, owned)
        for block in owned:
            del lease.owned[block]
        for block in reversed(hit.pinned):
            if block in mine and lease.pins.get(block, 0) == NONE:
                self.ports.block.signal(block, B.RELEASE)
                del lease.pins[block]
        return True

    # -- owning blocks -------------------------------------------------------------------------------------------------

    def allocate(self, lease: Lease, count: int) -> Grant | Short:
        blocks = self.take(DEVICE, count)
        if isinstance(blocks, Short):
            return blocks
        for block in blocks:
            lease.owned[block] = self.books.generation[block]
        return Grant(tuple(self.books.ref(block) for block in blocks))

    def take(self, pool_index: int, count: int) -> list[int] | Short:
        """Reserve that many blocks of a pool, evicting cached ones as the policy says; all of them or none."""
        pool = self.books.pools[pool_index]
        missing = count - len(pool.free)
        victims: list[int] = []
        stuck = 0
        if missing > 0:
            for block in pool.evictable.victims():
                if self.ports.block.choose(block, B.EVICT):
                    victims.append(block)
                    if len(victims) == missing:
                        break
                else:
                    stuck += self._given_up(block)
            if len(victims) < missing:
                coming = pool.counts[BS.DRAINING] + len(pool.evictable) - len(victims) - stuck
                return Short(count, len(pool.free) + len(victims), coming, pool.counts[BS.QUARANTINED] + stuck)
        for block in victims:
            self.ports.block.signal(block, B.EVICT)
        blocks = [pool.free.pop() for _ in range(count)]
        for block in blocks:
            self.ports.block.signal(block, B.RESERVE)
        return blocks

    def seal(self, lease: Lease, refs: Sequence[BlockRef], keys: Sequence[bytes]) -> tuple[bool, ...] | Refusal:
        if len(refs) != len(keys):
            return Refusal(f"{len(refs)} blocks and {len(keys)} keys: seal takes a key for each block")
        if len({ref.block for ref in refs}) < len(refs):
            return Refusal("a block is listed twice; a block is sealed once, under one key")
        for ref in refs:
            if lease.owned.get(ref.block) != ref.generation:
                return Refusal(f"block {ref.block} gen {ref.generation} does not belong to lease {lease.id}")
            if not self.ports.block.choose(ref.block, B.SEAL):
                return Refusal(
                    f"block {ref.block} is {self.ports.block.state_of(ref.block)}; only an open block is sealed"
                )
        for ref in refs:
            self.ports.block.signal(ref.block, B.SEAL)
        if lease.epoch != self.books.epoch:
            return (False,) * len(refs)
        pairs = zip(refs, keys, strict=True)
        return tuple(publish(self.books, self.ports, ref.block, lease.namespace, key) for ref, key in pairs)

    # -- letting go ----------------------------------------------------------------------------------------------------

    def release(self, lease: Lease, refs: Sequence[BlockRef]) -> Closed | Refusal:
        books = self.books
        live = (books.batches[batch] for load in lease.loads for batch in books.loads[load].live)
        loading = {block for batch in live for block in batch.dsts}
        blocks = list(dict.fromkeys(ref.block for ref in refs))
        for ref in refs:
            if lease.owned.get(ref.block) != ref.generation:
                return Refusal(f"block {ref.block} gen {ref.generation} does not belong to lease {lease.id}")
            if ref.block in loading:
                return Refusal(f"block {ref.block} is being loaded; cancel the load or close the lease")
        self._give_back(lease, blocks)
        for block in blocks:
            del lease.owned[block]
        return self._gained(blocks)

    def close(self, lease: Lease) -> Closed:
        blocks = tuple(lease.owned)
        for slot in tuple(lease.loads):
            if self.ports.load.ask(slot, L.ABORT):
                self.books.arm(self.books.now + self.books.config.grace, "load", "lapse", slot)
        self._give_back(lease, blocks)
        for block in reversed(lease.pins):
            self.ports.block.signal(block, B.RELEASE)
        for slot in lease.steps:
            self.books.step_leases[slot].remove(lease.id)
        del self.books.leases[lease.id]
        return self._gained(blocks)

    def _give_back(self, lease: Lease, blocks: Sequence[int]) -> None:
        """Hand the blocks to the steps that the lease is out on, then release them, the last one first."""
        books = self.books
        if lease.steps:
            books.handing = tuple(block for block in blocks if self.ports.block.choose(block, B.STEP_HOLD))
            for slot in lease.steps:
                self.ports.part.signal(slot, P.ADOPT)
            books.handing = ()
        for block in reversed(blocks):
            self.ports.block.signal(block, B.RELEASE)

    def _given_up(self, block: int) -> bool:
        """Is nobody who still touches the block expected to report?"""
        books = self.books
        readers = books.column("block", "readers")[block] + books.column("block", "writers")[block]
        return books.column("block", "lost")[block] == readers

    def _gained(self, blocks: Iterable[int]) -> Closed:
        """What has become of blocks that a lease let go of.

        A cached one that is still read is on its way like a draining one: nothing has to be done for it, but it can't
        be had yet. If all who read it were given up, it is as good as in quarantine.
        """
        free = cached = coming = quarantined = 0
        for block in blocks:
            state = self.books.block_state[block]
            if state == BS.FREE:
                free += 1
            elif state == BS.QUARANTINED:
                quarantined += 1
            elif state == BS.DRAINING:
                coming += 1
            elif state == BS.CACHED:
                if self.ports.block.choose(block, B.EVICT):
                    cached += 1
                elif self._given_up(block):
                    quarantined += 1
                else:
                    coming += 1
        return Closed(free, cached, coming, quarantined)
