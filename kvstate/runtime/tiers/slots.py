"""Which slot of a durable pool holds which object, and who may make one visible, replace it or remove it.

A slot holds one object, and an object is held by one slot, the last that was made visible under its name. Two kinds of
lock keep that so:

1. A *stripe*, one of `STRIPES` over all names, is held while a file is renamed, replaced or removed: one thread at a
   time does that to one name. A disk may take its time over it, so only threads that wait for the disk anyway take a
   stripe: never the one that gives out effects.
2. The *books* (who holds a name, which epoch it is) change under a lock under which no file is touched.

So a rename may be under way while a reset voids it, or while its slot is given away. It is looked at again when it is
over: what came too late is removed and told as such. After a reset it has landed among what was swept away, and nothing
else is made visible before that is out of the way (see `Shelves`).

A slot itself needs no lock: the ledger gives it to one part at a time (law L3).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import count
from typing import Final

from kvstate.errors import Code
from kvstate.machines.messages import Token, Work
from kvstate.runtime.memory import NoSuchBlockError
from kvstate.runtime.tiers.folder import Folder
from kvstate.runtime.tiers.sealed import ObjectError
from kvstate.runtime.tiers.shelves import Shelves

STRIPES: Final = 64
"""Locks over all names."""
NEVER: Final = -1
"""The epoch of what can't become visible."""
_LATE: Final = "it was swept away, or its slot given to another, meanwhile"


class Kept:
    """One object, from the moment in which its slot was given to it."""

    __slots__ = ("born", "epoch", "key", "name", "space", "token", "visible")

    def __init__(self, born: int, epoch: int, space: str, key: bytes, name: str) -> None:
        self.born = born
        """Numbers all of them, in the order in which they were begun; names its bytes until they are visible."""
        self.epoch = epoch
        """How many sweeps of everything there had been."""
        self.space = space
        """Its key space."""
        self.key = key
        """Its key there."""
        self.name = name
        """That of its file."""
        self.token: Token | None = None
        """Of the part that made it visible; None for one that was found."""
        self.visible = False
        """Does its name lead to it, as far as nobody else took the name?"""


class Slots:
    """See the module. Blocks of the pool are numbered from `base`, so many as `slots`."""

    def __init__(self, folder: Folder, base: int, slots: int, name: str) -> None:
        """`name` is that of the copier."""
        self.folder = folder
        """Where the files are."""
        self.name = name
        self._base = base
        self._slots: list[Kept | None] = [None] * slots
        self._holders: dict[str, Kept] = {}
        """Who has the name of a file."""
        self._stripes = [threading.Lock() for _ in range(STRIPES)]
        self._books = threading.Lock()
        self._calm = threading.Condition(self._books)
        """Told when a reset is out of the way."""
        self._births = count(1)
        self._epoch = 0
        self._sweeping = 0
        """Resets whose objects are not out of the way yet."""

    def slot_of(self, block: int) -> int:
        """Errors: `NoSuchBlockError`."""
        if not 0 <= block - self._base < len(self._slots):
            raise NoSuchBlockError(f"block {block} is none of {self.name}'s {len(self._slots)} from {self._base} on")
        return block - self._base

    def slots_of(self, blocks: Sequence[int]) -> list[int]:
        """Errors: `NoSuchBlockError`."""
        base = self._base
        if blocks and (min(blocks) < base or max(blocks) >= base + len(self._slots)):
            return [self.slot_of(block) for block in blocks]
        return [block - base for block in blocks]

    def begin(self, space: str, key: bytes) -> Kept:
        """A new object, which no slot holds yet."""
        return Kept(next(self._births), self._epoch, space, key, self.folder.name_of(space, key))

    def held(self, work: Work, line: int, slot: int, space: str, stage: str) -> Kept:
        """The object in a slot, if it is the one that is asked for. Errors: `ObjectError` with BLOCK_NOT_FOUND or
        KEY_MISMATCH.
        """
        key, kept = work.keys[line], self._slots[slot]
        if kept is None or not kept.visible or self._holders.get(kept.name) is not kept:
            raise ObjectError(Code.BLOCK_NOT_FOUND, stage, f"block {work.src[line]} holds nothing")
        if kept.key != key or kept.space != space:
            what = f"block {work.src[line]} holds key {kept.key.hex()} of {kept.space!r}, not {key.hex()}"
            raise ObjectError(Code.KEY_MISMATCH, stage, what)
        return kept

    def empty(self, block: int) -> None:
        """What a slot holds, visible or not, goes from the disk, as far as it is still the slot's."""
        slot = self.slot_of(block)
        kept = self._slots[slot]
        if kept is None:
            return
        with self._books:
            self._slots[slot], visible = None, kept.visible
        if visible:
            self.remove(kept)
        else:
            self.folder.discard(kept.born)

    def remove(self, kept: Kept) -> None:
        """Its file goes, and its name is free, unless somebody else has the name. Errors: `OSError`."""
        with self._stripe(kept.name):
            with self._books:
                if self._holders.get(kept.name) is not kept:
                    return
                del self._holders[kept.name]
            self.folder.remove_named(kept.name)

    def show(self, kept: Kept, slot: int, token: Token) -> None:
        """Make what this slot holds visible under its name. Errors: `ObjectError` with CANCELLED for what is void, and
        with BUSY while a reset waits for the disk; `OSError`.
        """
        with self._stripe(kept.name):
            shelves = self._admit(kept, token)
            if shelves is None:
                return
            try:
                self.folder.commit(kept.born, shelves=shelves, settle=False)
            except FileNotFoundError:
                if kept.epoch == self._epoch and self._slots[slot] is kept:
                    raise
                raise ObjectError(Code.CANCELLED, "commit", _LATE) from None
            with self._books:
                holder = self._holders.get(kept.name)
                late = kept.epoch != self._epoch or self._slots[slot] is not kept
                if late:
                    kept.epoch = NEVER
                else:
                    kept.visible, kept.token = True, token
                    if holder is None or holder.born < kept.born:  # else it was found, and adopted meanwhile
                        self._holders[kept.name] = kept
            if late and holder is None:
                self.folder.remove_named(kept.name)
        if late:
            raise ObjectError(Code.CANCELLED, "commit", _LATE)

    def _admit(self, kept: Kept, token: Token) -> Shelves | None:
        """Where it may be made visible; None, if it is already. Needs the stripe."""
        with self._books:
            holder = self._holders.get(kept.name)
            void = kept.epoch != self._epoch or (holder is not None and holder.born > kept.born)
            if not void and kept.visible:
                if holder is not kept:
                    raise ObjectError(Code.CANCELLED, "commit", "it was made visible before, and has been removed")
                kept.token = token
                return None
            if not void and self._sweeping:
                raise ObjectError(Code.BUSY, "commit", "the disk has not taken away yet what a reset made void")
            if not void:
                return self.folder.shelves
        if not kept.visible:
            self.folder.discard(kept.born)
            kept.epoch = NEVER
        raise ObjectError(Code.CANCELLED, "commit", "its key was given to another since, or was swept away")

    def take(self, slot: int, kept: Kept) -> Kept | None:
        """This slot holds that object, which is on the disk, from here on. Returns what was begun there and is not
        wanted any more.
        """
        kept.visible = True
        with self._books:
            before, self._slots[slot] = self._slots[slot], kept
            if before is not None and before.visible and self._holders.get(before.name) is before:
                del self._holders[before.name]
            self._holders[kept.name] = kept
        return before if before is not None and not before.visible else None

    def _stripe(self, name: str) -> threading.Lock:
        return self._stripes[int(name[:8], 16) % STRIPES]

    def path_of(self, block: int) -> str | None:
        """Where the bytes of a slot's object lie now, visible or not; for tests, and for whoever breaks them."""
        kept = self._slots[self.slot_of(block)]
        if kept is None or (kept.visible and self._holders.get(kept.name) is not kept):
            return None
        return self.folder.path_of(kept.name if kept.visible else kept.born)
