"""Which blocks a lease owns, and in which lives.

A block that was allocated for a lease is its own: the column `holder` says so, from the allocation until it is given
back. A block that it came to own by a hit may have other owners, too, so it is listed on the lease. Either way the
block can't begin another life while it is owned, so the life is looked at only where a reference comes from outside.
"""

from __future__ import annotations

from array import array

from kvstate.machines import bulk
from kvstate.machines.engine_blocks import EngineBlocks
from kvstate.machines.messages import BlockRef, BlockRefs
from kvstate.machines.records import Lease


class Owning:
    """The part of `Books` that is about leases and their blocks."""

    engine: EngineBlocks
    """The device blocks that the engine allocates by itself, if it does."""
    generation: array[int]
    """The life that each block of the ledger's own pools is in: the block table's own column."""
    holder: array[int]
    """By block: the lease that it was allocated for, until that gives it back; then 0. No two leases share one."""
    total: int
    """How many blocks there are in all pools; they are numbered from 0."""

    def ref(self, block: int) -> BlockRef:
        """The block in its present life."""
        return BlockRef(block, (self.engine if block < self.engine.count else self).generation[block])

    def refs(self, blocks: array[int]) -> BlockRefs:
        """These blocks in their present lives."""
        return BlockRefs.trusted(blocks, self.engine.lives(blocks, self.generation), self.total)

    def current(self, ref: BlockRef) -> bool:
        """Is this the block's present life?"""
        return 0 <= ref.block < self.total and self.ref(ref.block) == ref

    def all_current(self, refs: BlockRefs) -> bool:
        """Is each of these the block's present life? Then all of them are blocks of this ledger."""
        if refs.bound > self.total:
            return all(self.current(ref) for ref in refs)
        return self.engine.lives(refs.blocks, self.generation) == refs.generations

    def give(self, lease: Lease, blocks: array[int]) -> BlockRefs:
        """These blocks have been allocated for the lease."""
        if len(blocks) == 1:
            block = blocks[0]
            generations = self.generation[block : block + 1]
            self.holder[block] = lease.id
        else:
            generations = bulk.gather(self.generation, blocks)
            bulk.put(self.holder, blocks, lease.id)
        lease.own.extend(blocks)
        lease.lives.extend(generations)
        return BlockRefs.trusted(blocks, generations, self.total)

    def owns(self, lease: Lease, block: int) -> bool:
        """Does the lease own this block? As long as it does, the life is the one in which it got it."""
        return self.holder[block] == lease.id or block in lease.shared

    def stranger(self, lease: Lease, refs: BlockRefs) -> BlockRef | None:
        """The first of these that the lease does not own, or no longer; None if all are its."""
        if refs.bound <= self.total and self._all_own(lease.id, refs):
            return None
        return next((ref for ref in refs if not (self.current(ref) and self.owns(lease, ref.block))), None)

    def has_one(self, lease: Lease, refs: BlockRefs) -> bool:
        """Was the one block that this is allocated for the lease, in this very life?"""
        block = refs.blocks[0]
        return (
            refs.bound <= self.total
            and self.holder[block] == lease.id
            and self.generation[block] == refs.generations[0]
        )

    def strike_one(self, lease: Lease, block: int) -> None:
        """As `strike`, for one that was allocated for the lease."""
        self.holder[block] = 0
        if lease.own[-1] == block:
            del lease.own[-1], lease.lives[-1]
        else:
            self._strike_amid(lease, 1)

    def _all_own(self, lease: int, refs: BlockRefs) -> bool:
        """Were all of these allocated for the lease, in these very lives?"""
        if type(refs.blocks) is bulk.Run or bulk.is_wide(refs.blocks):
            return bulk.all_are(self.holder, refs.blocks, lease) and self.all_current(refs)
        holder, generation = self.holder, self.generation
        for block, life in zip(refs.blocks, refs.generations):  # noqa: B905 - of one length, and this loop is hot
            if holder[block] != lease or generation[block] != life:
                return False
        return True

    def owned(self, lease: Lease) -> array[int]:
        """All device blocks of the lease: those that it shares, then those that were allocated for it."""
        if lease.struck:
            self._forget_struck(lease)
        return array("q", lease.shared) + lease.own

    def strike(self, lease: Lease, blocks: array[int]) -> None:
        """The lease owns these no longer. Each is its own when this is called."""
        if lease.shared:
            own = array("q", [block for block in blocks if block not in lease.shared])
            for block in blocks:
                lease.shared.pop(block, None)
            blocks = own
        count = len(blocks)
        if count == 1:
            self.holder[blocks[0]] = 0
        else:
            bulk.put(self.holder, blocks, 0)
        if count and lease.own[-count:] == blocks:
            del lease.own[-count:], lease.lives[-count:]
        else:
            self._strike_amid(lease, count)

    def _strike_amid(self, lease: Lease, count: int) -> None:
        """So many were given back that are not the last of the list: they stay in it until these are most of it."""
        lease.struck += count
        if 2 * lease.struck > len(lease.own):
            self._forget_struck(lease)

    def _forget_struck(self, lease: Lease) -> None:
        """Take what was given back out of the list. A block may have come again since, so its life decides, too."""
        pairs = zip(lease.own, lease.lives, strict=True)
        kept = [ref for ref in pairs if self.holder[ref[0]] == lease.id and self.generation[ref[0]] == ref[1]]
        lease.own = array("q", [block for block, _ in kept])
        lease.lives = array("q", [generation for _, generation in kept])
        lease.struck = 0
