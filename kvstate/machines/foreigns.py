"""Device blocks whose allocator is the engine's own: what the engine tells of them, and what a request asks of them.

What it tells can't be refused. What changes is then a row of `spec/foreign.toml`, and what follows is an effect: `Hold`
and `Unhold` for the engine, and for a store or a load that has lost its block the end that its own rows give it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from kvstate.machines import bulk
from kvstate.machines.grouped import Grouped
from kvstate.machines.keybook import NONE
from kvstate.machines.messages import NO_REFS, BlockRef, BlockRefs
from kvstate.machines.records import Lease
from kvstate.machines.tables.block import Event as B
from kvstate.machines.tables.foreign import Event as F
from kvstate.machines.tables.foreign import State as FS
from kvstate.machines.tables.key import Event as K
from kvstate.machines.verdicts import Dropped, Freed, Given, Refusal

Storable = tuple[BlockRefs, tuple[bytes, ...], list[Dropped]]
"""The blocks that an offload takes, the key of each, and the lines that it does not take."""


class Foreigns(Grouped):
    """The reports of `Allocator`, and the device's half of stores and loads; see there for what they promise."""

    __slots__ = ()

    # -- what the engine tells -----------------------------------------------------------------------------------------

    def foreign_given(self, blocks: Sequence[int], event: F) -> Given | Refusal:
        """These begin another life; a block that is listed twice begins one, and is named twice."""
        books, wrong = self.books, self._no_block(blocks)
        if wrong is not None:
            return wrong
        numbers, port = bulk.run(array("q", blocks)), self.ports.foreign
        if port.at_once(numbers, event, owned=False):
            return Given(books.refs(numbers), ())
        for block in dict.fromkeys(blocks):
            port.signal(block, event)
        writing = tuple(block for block in dict.fromkeys(blocks) if books.engine.stained[block])
        return Given(books.refs(numbers), writing)

    def foreign_freed(self, refs: BlockRefs) -> Freed | Refusal:
        """The engine has taken these lives of blocks back; a reference to an earlier life is counted as stale."""
        books = self.books
        if not books.engine.count:
            return Refusal("the device pool is the ledger's own: `release` gives blocks back")
        count, lives, states = books.engine.count, books.engine.generation, books.engine.state
        port, blocks = self.ports.foreign, refs.blocks
        if self._of_engine_now(refs) and port.at_once(blocks, F.FREED, owned=True):
            return Freed(NO_REFS)
        held: dict[tuple[int, int], None] = {}
        for block, life in zip(refs.blocks, refs.generations, strict=True):
            if 0 <= block < count and lives[block] == life:
                self.ports.foreign.signal(block, F.FREED)
                if states[block] == FS.HELD:
                    held[block, life] = None
            else:
                books.stale += 1
        return Freed(BlockRefs(held))

    def _of_engine_now(self, refs: BlockRefs) -> bool:
        """Are all of these blocks of the engine's in their present lives?"""
        books = self.books
        return books.all_current(refs) and (not refs or bulk.bounds(refs.blocks)[1] < books.engine.count)

    def _no_block(self, blocks: Sequence[int]) -> Refusal | None:
        count = self.books.engine.count
        if not count:
            return Refusal("the device pool is the ledger's own: `allocate` gives blocks of it")
        if not blocks or (min(blocks) >= 0 and max(blocks) < count):
            return None
        wrong = next(block for block in blocks if not 0 <= block < count)
        return Refusal(f"there is no device block {wrong}; there are {count}, numbered from 0")

    # -- what a store asks ---------------------------------------------------------------------------------------------

    def not_allocated_here(self) -> Refusal | None:
        """Why nothing of the device can be had or named here; None where the pool is the ledger's own."""
        if not self.books.engine.count:
            return None
        return Refusal(
            "the engine allocates the device blocks: report what it does with them, and give keys to offload"
        )

    def storable_as(self, refs: BlockRefs, keys: Sequence[bytes] | None, space: str, pool: int) -> Storable | Refusal:
        """Those of the engine's blocks that can be stored under these keys, and those that can't, with the reason."""
        if keys is None:
            return Refusal("no key names a block of the engine's: give the keys, one for each block")
        if len(refs) != len(keys):
            return Refusal(f"{len(refs)} blocks and {len(keys)} keys: give a key for each block")
        if self._all_fit_to_store(refs, keys, space, pool):
            return refs, tuple(keys), []
        wanted: dict[int, tuple[BlockRef, bytes]] = {}
        dropped: list[Dropped] = []
        taken: set[bytes] = set()
        for ref, key in zip(refs, keys, strict=True):
            reason = self._unfit_to_store(ref, key, space, pool)
            if reason is None and (ref.block in wanted or key in taken):
                reason = "listed twice" if ref.block in wanted else "its key is listed twice"
            if reason is None:
                wanted[ref.block] = (ref, key)
                taken.add(key)
            else:
                dropped.append(Dropped(ref, reason))
        return BlockRefs.of(ref for ref, _ in wanted.values()), tuple(key for _, key in wanted.values()), dropped

    def _all_fit_to_store(self, refs: BlockRefs, keys: Sequence[bytes], space: str, pool: int) -> bool:
        """Can all of these be stored, each under its key? Of one that can't, `_unfit_to_store` says why."""
        books = self.books
        if not refs or len(set(keys)) < len(keys) or not bulk.distinct(refs.blocks):
            return False
        if not self._of_engine_now(refs) or not books.keys.index(pool, space).keys().isdisjoint(keys):
            return False
        return self.ports.foreign.takes(refs.blocks, F.STORE)

    def _unfit_to_store(self, ref: BlockRef, key: bytes, space: str, pool: int) -> str | None:
        books = self.books
        if not books.current(ref):
            return "its generation is over: the engine has given the block to another since"
        if ref.block >= books.engine.count:
            return "it is not on the device"
        below = books.keys.find(pool, space, key)
        if below != NONE and not self.ports.key.choose(below, K.BEGIN):
            return "stored already, or being stored"
        if not self.ports.foreign.choose(ref.block, F.STORE):
            if books.engine.stained[ref.block]:
                return "a copy of an earlier life may have written into it"
            return f"it is {self.ports.foreign.state_of(ref.block)}"
        return None

    def take_hold(self, blocks: array[int]) -> None:
        """A job holds these blocks, all of one pool, from here on."""
        if blocks[0] < self.books.engine.count:
            self.ports.foreign.each(blocks, F.STORE)
        else:
            self.ports.block.each(blocks, B.STORE)

    # -- what a load asks ----------------------------------------------------------------------------------------------

    def unfit_of_engine(self, into: BlockRefs) -> Refusal | None:
        """Why a load can't fill these blocks of the engine's; None if it can."""
        books, port = self.books, self.ports.foreign
        if self._of_engine_now(into) and bulk.distinct(into.blocks) and port.takes(into.blocks, F.CLAIM):
            return None
        for ref in into:
            if not books.current(ref) or ref.block >= books.engine.count:
                return Refusal(f"block {ref.block} gen {ref.generation} is no destination: the engine does not have it")
            if not port.choose(ref.block, F.CLAIM):
                why = "a copy still touches it" if books.engine.state[ref.block] == FS.OWNED else "can't be loaded into"
                return Refusal(f"block {ref.block} is {port.state_of(ref.block)}: {why}")
        return Refusal("a block is listed twice; a block is filled once")

    def claim(self, blocks: array[int]) -> None:
        """A load fills these device blocks from here on."""
        if self.books.engine.count:
            self.ports.foreign.each(blocks, F.CLAIM)
        else:
            self.ports.block.each(blocks, B.CLAIM)

    def filled_for(self, lease: Lease) -> array[int]:
        """The engine's blocks that loads of the lease fill."""
        books = self.books
        if not books.engine.count:
            return array("q")
        live = (books.batches[batch] for load in lease.loads for batch in books.loads[load].live)
        return array("q", [block for batch in live for block in batch.dsts])

    def let_go_of(self, blocks: array[int]) -> None:
        """The lease closes, and lets go of these as they are."""
        self.ports.foreign.each(blocks, F.RELEASE)
