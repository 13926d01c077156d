"""What rests in a pool that outlives the process: `ledger device=b7 disk=d1,d2 keeps=disk`.

A store writes bytes into a slot, and nobody can find them. A persist gives them a name: from then on there is an
*object*, which outlives the process; which slot holds it does not. A fetch looks at what it reads, and removes what is
bad. All of it is as `spec/properties.toml` assumes of whoever keeps objects, and each rank has its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kvstate.machines.messages import Adopt, Sweep, Undo, Work
from kvstate.testing.matter import NOTHING, Bytes

Name = tuple[str, bytes]
"""A key space and a key."""


class Place(NamedTuple):
    """Where an object is in this process."""

    block: int
    """The slot that holds it."""
    serial: int
    """Of the persist that made it visible; of one that was taken in, of the newest work that had been begun then."""
    adopted: bool
    """What was taken in is no part's of this process, so nothing undoes it."""


@dataclass
class Objects:
    """See the module. What bytes a slot holds is known to the physics; here is which of them can be found."""

    blocks: range = range(0)
    """The blocks of the pools that keep objects."""
    names: dict[tuple[int, Name], Place] = field(default_factory=dict)
    """By rank and name, the oldest first: the objects that slots hold."""
    slots: dict[tuple[int, int], Name] = field(default_factory=dict)
    """By rank and block: what the slot holds."""
    loose: dict[tuple[int, Name], Bytes] = field(default_factory=dict)
    """By rank and name, the oldest first: objects that no slot holds, and their bytes."""
    void: dict[int, int] = field(default_factory=dict)
    """By rank: what has this serial or a lesser one was begun before all was swept."""
    spoilt: set[tuple[int, int]] = field(default_factory=set)
    """By rank and block: where an object was found bad, and nothing has been written since."""
    expired: int = 0
    """What has this serial or a lesser one was begun before the cache was reset."""
    old: set[tuple[int, Name]] = field(default_factory=set)
    """By rank and name: the objects of before a reset, as far as they can be found."""

    def holds(self, rank: int, block: int, name: Name) -> bool:
        """Does the slot hold the object of that name?"""
        return self.slots.get((rank, block)) == name

    def persist(self, work: Work, line: int) -> str:
        """Make a line visible; says why not, if it must not be: `swept`, or `newer` where a newer one has the name."""
        rank, name = work.rank, (work.space(line), work.keys[line])
        if work.token.serial <= self.void.get(rank, 0):
            return "swept"
        before = self.names.get((rank, name))
        if before is not None and before.serial > work.token.serial:
            return "newer"
        self.let_go(rank, name)
        self.loose.pop((rank, name), None)
        self.old.discard((rank, name))
        if work.token.serial <= self.expired:
            self.old.add((rank, name))
        self._hold(rank, work.src[line], name, Place(work.src[line], work.token.serial, False))
        return ""

    def _hold(self, rank: int, block: int, name: Name, place: Place) -> None:
        self.vacate(rank, block)
        self.names[rank, name] = place
        self.slots[rank, block] = name

    def let_go(self, rank: int, name: Name) -> None:
        """The object is no slot's any more."""
        place = self.names.pop((rank, name), None)
        if place is not None:
            del self.slots[rank, place.block]

    def vacate(self, rank: int, block: int) -> None:
        """The slot holds nothing any more; the object that it held is gone."""
        self.spoilt.discard((rank, block))
        name = self.slots.get((rank, block))
        if name is not None:
            self.let_go(rank, name)

    def undo(self, undo: Undo | Work) -> list[int]:
        """Remove what that very part made visible; returns the slots that are empty now."""
        rank, gone = undo.rank, []
        for (of, name), place in list(self.names.items()):
            if of == rank and name[1] in undo.keys and place.serial == undo.token.serial and not place.adopted:
                gone.append(place.block)
                self.let_go(rank, name)
        return gone

    def adopt(
        self, adopt: Adopt, newest: int, bytes_of: Mapping[tuple[int, int], Bytes]
    ) -> Iterator[tuple[int, Bytes]]:
        """From here on these slots hold these objects: yields each block and the bytes that it holds now."""
        for block, space, key in zip(adopt.blocks, adopt.spaces, adopt.keys, strict=True):
            name = (space, key)
            before = self.names.get((adopt.rank, name))
            held = self.loose.pop((adopt.rank, name), None)
            held = bytes_of.get((adopt.rank, before.block)) if before is not None else held
            self.let_go(adopt.rank, name)
            if held is not None:
                self._hold(adopt.rank, block, name, Place(block, newest, True))
                yield block, held

    def sweep(self, sweep: Sweep, newest: int) -> list[int]:
        """Remove what no slot holds, or all; returns the slots that are empty now."""
        rank = sweep.rank
        self.loose = {place: held for place, held in self.loose.items() if place[0] != rank}
        gone = [block for of, block in self.slots if of == rank] if sweep.everything else []
        for block in gone:
            self.vacate(rank, block)
        if sweep.everything:
            self.void[rank] = newest
        return gone

    def expire(self, newest: int) -> None:
        """The cache is reset: all that is here is old, and all that was begun up to `newest` will be."""
        self.expired = newest
        self.old = {*self.names, *self.loose}

    def stale(self) -> Iterator[Name]:
        """The names under which something of before a reset can be found."""
        self.old = {place for place in self.old if place in self.names or place in self.loose}
        return (name for _, name in sorted(self.old))

    def found(self) -> list[Name]:
        """The names that every rank has an object of, the oldest first."""
        all_of_them = [*self.loose, *self.names]
        ranks = {rank for rank, _ in all_of_them}
        names = dict.fromkeys(name for _, name in all_of_them)
        return [name for name in names if all((rank, name) in all_of_them for rank in ranks)]

    def outlive(self, ranks: Iterable[int], bytes_of: Mapping[tuple[int, int], Bytes]) -> None:
        """The processes of these ranks are gone: no slot holds anything, and the objects are there."""
        for rank in ranks:
            mine = [(name, place) for (of, name), place in self.names.items() if of == rank]
            for name, place in mine:
                self.loose[rank, name] = bytes_of.get((rank, place.block), NOTHING)
                self.let_go(rank, name)
            self.void.pop(rank, None)
        self.expired = 0
        self.spoilt.clear()
