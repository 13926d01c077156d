"""Keys by pool, namespace and name, and which block each of them names.

The block a key names and the key that names a block are two halves of one link; only `link` and `unlink` touch them.
A key is looked up by its full name, or through the block that it names *in that block's present life*: a reference to
an earlier life finds nothing, so a late report can't condemn a key that has moved on.
"""

from __future__ import annotations

from array import array

from kvstate.machines.messages import BlockRef
from kvstate.machines.table import Table

NONE = -1


class KeyBook:
    """Columns beside the key table, one entry a slot. A slot is in use while `names[slot]` is not None."""

    __slots__ = (
        "block_key",
        "blocks",
        "free",
        "generation",
        "index",
        "names",
        "state",
        "table",
        "uids",
        "used",
        "writers",
    )

    def __init__(self, table: Table, state: array[int], pools: int, blocks: int, generation: array[int]) -> None:
        self.table = table
        self.state = state
        self.generation = generation
        """The generations of all blocks: the block table's own column, read only here."""
        self.index: list[dict[tuple[str, bytes], int]] = [{} for _ in range(pools)]
        self.names: list[tuple[int, str, bytes] | None] = []
        self.blocks: list[int] = []
        self.block_key = array("q", [NONE]) * blocks
        self.writers: list[int] = []
        """The id of the job that writes the key; ids are never given out twice."""
        self.uids: list[int] = []
        self.free: list[int] = []
        self.used = 0

    def find(self, pool: int, namespace: str, key: bytes) -> int:
        """The slot of the key in that pool, or NONE if it is absent there."""
        return self.index[pool].get((namespace, key), NONE)

    def make(self, pool: int, namespace: str, key: bytes) -> int:
        """The slot of the key; a new record, still absent, where there was none."""
        slot = self.find(pool, namespace, key)
        if slot != NONE:
            return slot
        self.used += 1
        if self.free:
            slot = self.free.pop()
            self.table.renew(slot)
            self.names[slot], self.uids[slot] = (pool, namespace, key), self.used
        else:
            slot = self.table.add()
            self.names.append((pool, namespace, key))
            self.uids.append(self.used)
            self.blocks.append(NONE)
            self.writers.append(0)
        self.index[pool][namespace, key] = slot
        return slot

    def link(self, slot: int, block: int) -> None:
        self.blocks[slot] = block
        self.block_key[block] = slot

    def unlink(self, slot: int) -> None:
        block = self.blocks[slot]
        if block != NONE:
            self.block_key[block] = NONE
            self.blocks[slot] = NONE

    def drop(self, slot: int) -> None:
        """Forget an absent key; its slot is used again."""
        pool, namespace, key = self.name(slot)
        assert self.state[slot] == self.table.INITIAL, f"key slot {slot} is dropped while its key is in use"
        del self.index[pool][namespace, key]
        self.names[slot] = None
        self.writers[slot] = 0
        self.uids[slot] = 0
        self.free.append(slot)

    def named(self, ref: BlockRef) -> int:
        """The key that names this life of the block, or NONE."""
        if self.generation[ref.block] != ref.generation:
            return NONE
        return self.block_key[ref.block]

    def name(self, slot: int) -> tuple[int, str, bytes]:
        name = self.names[slot]
        assert name is not None, f"key slot {slot} holds no key"
        return name
