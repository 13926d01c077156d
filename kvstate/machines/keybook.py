"""Keys by pool, namespace and name, and which block each of them names.

The block a key names and the key that names a block are two halves of one link; only `link` and `unlink` touch them.
A key is looked up by its full name, or through the block that it names *in that block's present life*: a reference to
an earlier life finds nothing, so a late report can't condemn a key that has moved on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple
from zlib import crc32

from kvstate.machines import bulk
from kvstate.machines.messages import BlockRef
from kvstate.machines.table import Table

NONE = -1
"""No key, or no block: stands where a slot or a block's number would."""
NO_KEYS: Mapping[bytes, int] = {}
"""The index of a space without keys; shared, so it is never added to."""


class Name(NamedTuple):
    """The full name of a key."""

    pool: int
    namespace: str
    key: bytes


class Space:
    """The keys of one pool in one namespace: their slots, by key."""

    __slots__ = ("index", "mark", "namespace", "pool")

    def __init__(self, pool: int, namespace: str) -> None:
        self.pool = pool
        self.namespace = namespace
        self.mark = crc32(namespace.encode())
        """What the marks of its keys begin with."""
        self.index: dict[bytes, int] = {}


class KeyBook:
    """Columns beside the key table, one entry a slot. A slot is in use while it has a space."""

    __slots__ = (
        "block_key",
        "blocks",
        "free",
        "generation",
        "keys",
        "marks",
        "spaces",
        "spaces_of",
        "state",
        "table",
        "uids",
        "used",
        "writers",
    )

    def __init__(self, table: Table, state: array[int], blocks: int, generation: array[int]) -> None:
        assert not table.VARS, "a slot of a key is used again as it was left: in the initial state, and no more to it"
        self.table = table
        self.state = state
        self.generation = generation
        """The generations of all blocks: the block table's own column, read only here."""
        self.spaces: dict[tuple[int, str], Space] = {}
        """By pool and namespace; those that hold any key."""
        self.spaces_of: list[Space | None] = []
        self.keys: list[bytes] = []
        self.marks = array("I")
        """32 bits of each key and its namespace, by which a policy may know it again."""
        self.blocks = array("q")
        """The block that the key names, or NONE."""
        self.block_key = array("q", [NONE]) * blocks
        """The other half, by block: the slot of the key that names it, or NONE."""
        self.writers = array("q")
        """The id of the job that writes the key, or 0; ids are never given out twice."""
        self.uids = array("q")
        """Tells the key in a slot from those that were there before it; 0 while there is none."""
        self.free = array("q")
        """A stack of the slots that are not in use: what is at its end goes first."""
        self.used = 0
        """How many uids have been given out."""

    def index(self, pool: int, namespace: str) -> Mapping[bytes, int]:
        """The slots of all keys there, by key. To read only."""
        space = self.spaces.get((pool, namespace))
        return NO_KEYS if space is None else space.index

    def find(self, pool: int, namespace: str, key: bytes) -> int:
        """The slot of the key in that pool, or NONE if it is absent there."""
        return self.index(pool, namespace).get(key, NONE)

    def make(self, pool: int, namespace: str, keys: Sequence[bytes]) -> array[int]:
        """The slots of these keys, one each; new records, still absent, where there were none."""
        if not keys:
            return array("q")
        space = self.spaces.get((pool, namespace))
        if space is None:
            space = self.spaces[pool, namespace] = Space(pool, namespace)
        index = space.index
        missing = keys
        if not index.keys().isdisjoint(keys) or not bulk.distinct(keys):
            missing = [key for key in dict.fromkeys(keys) if key not in index]
        if missing:
            slots = self._slots(len(missing))
            index.update(zip(missing, slots, strict=True))
            bulk.spread(self.uids, slots, bulk.ascending(self.used + 1, len(slots)))
            self.used += len(slots)
            bulk.place(self.spaces_of, slots, [space] * len(slots))
            bulk.place(self.keys, slots, missing)
            bulk.spread(self.marks, slots, array("I", map(crc32, missing, repeat(space.mark))))
            if missing is keys:
                return slots
        return array("q", [index[key] for key in keys])

    def _slots(self, count: int) -> array[int]:
        """So many slots that are not in use, those that were used last first."""
        more = count - len(self.free)
        if more > 0:
            start = len(self.keys)
            self.table.extend(more)
            self.spaces_of += [None] * more
            self.keys += [b""] * more
            self.marks.extend(array("I", [0]) * more)
            self.uids.extend(bulk.ascending(0, more))
            self.writers.extend(array("q", [0]) * more)
            self.blocks.extend(array("q", [NONE]) * more)
            self.free = bulk.ascending(start, more)[::-1] + self.free
        slots = bulk.run(self.free[: -count - 1 : -1])
        del self.free[len(self.free) - count :]
        return slots

    def link(self, slots: array[int], blocks: array[int]) -> None:
        """Each key names its block from here on."""
        bulk.spread(self.blocks, slots, blocks)
        bulk.spread(self.block_key, blocks, slots)

    def unlink(self, slots: Sequence[int]) -> None:
        """These keys name nothing any more."""
        blocks = bulk.gather(self.blocks, slots)
        if NONE in blocks:
            blocks = array("q", [block for block in blocks if block != NONE])
            if not blocks:
                return
        bulk.put(self.block_key, blocks, NONE)
        bulk.put(self.blocks, slots, NONE)

    def drop(self, slots: array[int]) -> None:
        """Forget absent keys; their slots are used again."""
        slots = bulk.run(slots)
        assert bulk.all_are(self.state, slots, self.table.INITIAL), f"keys {slots} are dropped while in use"
        homes = [space for space in bulk.listed(self.spaces_of, slots) if space is not None]
        for space, key in zip(homes, bulk.listed(self.keys, slots), strict=True):
            del space.index[key]
        for space in dict.fromkeys(homes):
            if not space.index:
                del self.spaces[space.pool, space.namespace]
        bulk.place(self.spaces_of, slots, [None] * len(slots))
        bulk.place(self.keys, slots, [b""] * len(slots))
        bulk.put(self.writers, slots, 0)
        bulk.put(self.uids, slots, 0)
        self.free.extend(slots)

    def named(self, ref: BlockRef) -> int:
        """The key that names this life of the block, or NONE."""
        if self.generation[ref.block] != ref.generation:
            return NONE
        return self.block_key[ref.block]

    def marks_of(self, blocks: Sequence[int]) -> array[int]:
        """The marks of the keys that name these blocks; each has one."""
        return bulk.gather(self.marks, bulk.gather(self.block_key, blocks))

    def name(self, slot: int) -> Name:
        """The full name of the key in this slot."""
        space = self.spaces_of[slot]
        assert space is not None, f"key slot {slot} holds no key"
        return Name(space.pool, space.namespace, self.keys[slot])

    def names(self) -> Iterator[tuple[int, Name]]:
        """Every slot that is in use, with the name of its key."""
        for slot, space in enumerate(self.spaces_of):
            if space is not None:
                yield slot, Name(space.pool, space.namespace, self.keys[slot])
