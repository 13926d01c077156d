"""What of an offload can be stored, and under which keys: a part of the request `offload`."""

from __future__ import annotations

from collections.abc import Container, Sequence

from kvstate.machines import bulk
from kvstate.machines.config import DEVICE
from kvstate.machines.foreigns import Storable
from kvstate.machines.keybook import NONE
from kvstate.machines.leases import Leases
from kvstate.machines.messages import BlockRef, BlockRefs
from kvstate.machines.records import Lease
from kvstate.machines.tables.block import Event as B
from kvstate.machines.tables.key import Event as K
from kvstate.machines.verdicts import Dropped, Refusal


class Storables(Leases):
    """Looks at the blocks of an offload and changes nothing. A job copies out of one pool, into one below it."""

    __slots__ = ()

    def storable_as_asked(
        self, lease: Lease, refs: BlockRefs, pool: int, given: Sequence[bytes] | None, group: int | None
    ) -> tuple[Storable | Refusal, str]:
        """What can be stored, under the given keys or those that name the blocks; and in which key space."""
        space = lease.namespace
        if self.books.engine.count and not self._is_below(refs):
            of_group = self.space(lease, group)
            if isinstance(of_group, Refusal):
                return of_group, space
            return self.storable_as(refs, given, of_group, pool), of_group
        if given is not None or group is not None:
            return Refusal("the ledger knows the keys of its device blocks, and their groups: leave these out"), space
        keys = self._all_storable(refs, space, pool)
        return self._storable_ones(refs, space, pool) if keys is None else (refs, keys, []), space

    def _is_below(self, refs: BlockRefs) -> bool:
        """Is the first of them a block of a lower tier?"""
        return bool(refs) and self._pool_of(refs.blocks[0]) > DEVICE

    def _pool_of(self, block: int) -> int:
        """The pool of a block, and that of the device for a number that is no block's."""
        pools = self.books.pool_of
        return pools[block] if 0 <= block < len(pools) else DEVICE

    def _all_storable(self, refs: BlockRefs, namespace: str, pool: int) -> tuple[bytes, ...] | None:
        """The keys under which these blocks can be stored; None unless all of them can, as `_storable` says of one."""
        books, blocks = self.books, refs.blocks
        if not blocks or not books.all_current(refs) or not bulk.distinct(blocks):
            return None
        above = books.pool_of[blocks[0]]
        if above >= pool or not bulk.all_are(books.pool_of, blocks, above):
            return None
        slots = bulk.run(bulk.gather(books.keys.block_key, blocks))
        space = books.keys.spaces.get((above, namespace))
        if NONE in slots or bulk.listed(books.keys.spaces_of, slots).count(space) < len(slots):
            return None
        keys = tuple(bulk.listed(books.keys.keys, slots))
        below = books.keys.index(pool, namespace)
        if not below.keys().isdisjoint(keys) or not self.ports.block.takes(blocks, B.STORE):
            return None
        return keys

    def _storable_ones(self, refs: BlockRefs, namespace: str, pool: int) -> Storable:
        """Those of the blocks that can be stored, with their keys, and those that can't, with the reason."""
        wanted: dict[int, tuple[BlockRef, bytes]] = {}
        dropped: list[Dropped] = []
        spaces = self.spaces(namespace)
        above = self._pool_of(refs.blocks[0]) if refs else DEVICE
        for ref in refs:
            key = self._storable(ref, spaces, above, pool, wanted)
            if isinstance(key, str):
                dropped.append(Dropped(ref, key))
            else:
                wanted[ref.block] = (ref, key)
        return BlockRefs.of(ref for ref, _ in wanted.values()), tuple(key for _, key in wanted.values()), dropped

    def _storable(
        self, ref: BlockRef, spaces: Container[str], above: int, pool: int, wanted: Container[int]
    ) -> bytes | str:
        """The key under which the block can be stored, or the reason why it can't. Of any group, if there are groups.

        The key comes from the ledger, never from the caller: bytes can't be stored under a name that is not theirs.
        """
        books = self.books
        if not books.current(ref):
            return "its generation is over: the block was freed or given to another"
        if ref.block in wanted:
            return "listed twice"
        if books.pool_of[ref.block] >= pool:
            return f"it is not above {books.pools[pool].config.name}"
        if books.pool_of[ref.block] != above:
            return "it is in another pool than the first; a job copies out of one"
        slot = books.keys.block_key[ref.block]
        if slot == NONE:
            return "no key names it"
        _, space, key = books.keys.name(slot)
        below = books.keys.find(pool, space, key)
        if space not in spaces:
            return "it belongs to another namespace"
        if below != NONE and not self.ports.key.choose(below, K.BEGIN):
            return "stored already, or being stored"
        if not self.ports.block.choose(ref.block, B.STORE):
            return f"it is {self.ports.block.state_of(ref.block)}"
        return key
