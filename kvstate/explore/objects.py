"""What rests in a pool that outlives the process, in a search: objects by key, and which slot holds each.

One rank, one key space. An object is made visible by a persist, out of what a store has written; see `copier.*` in
`spec/properties.toml` for what is assumed of whoever keeps them. An object of before a reset is *old*: the bytes of its
key are others by then, so nobody may find it (law L9).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kvstate.explore.matter import Flight
from kvstate.machines.messages import Adopt, Kind, Outcome, Sweep, Undo, Work

NOWHERE = -1
"""Stands for the slot of an object that no slot holds."""


@dataclass(slots=True)
class Object:
    """One of them."""

    content: str
    """The key whose bytes it holds."""
    block: int
    """The slot that holds it."""
    serial: int
    """Of the persist that made it visible, or of the newest work when it was taken in."""
    adopted: bool = False
    """Was it taken in? Then it is no part's, and nothing undoes it."""
    old: bool = False
    """Was it begun before the cache was reset?"""
    committed: bool = False
    """Was it said of a job that made it that it has committed? What becomes of its key after that is another matter."""


@dataclass(slots=True)
class Objects:
    """See the module."""

    blocks: range = range(0)
    """The blocks of the pool that keeps them."""
    kept: dict[str, Object] = field(default_factory=dict)
    """By key, the oldest first."""
    void: int = 0
    """What has this serial or a lesser one was begun before all was swept."""
    expired: int = 0
    """And this before the cache was reset."""

    # -- what happens to them ------------------------------------------------------------------------------------------

    def land(self, flight: Flight, contents: list[str]) -> bool:
        """A copy to or from the pool moves its bytes. False if it is none, or moves them as anywhere else."""
        work = flight.work
        if work.kind == Kind.STORE and work.dst[0] in self.blocks:
            for block in work.dst:
                self.vacate(block)
            return False
        if not self.blocks or work.src[0] not in self.blocks:
            return False
        for line, key in enumerate(work.keys):
            if work.kind == Kind.PERSIST:
                self._persist(flight, line, contents)
            elif (there := self.kept.get(key.decode())) is not None and there.block == work.src[line]:
                contents[work.dst[line]] = there.content
            else:
                flight.found = Outcome.BROKEN
        return True

    def _persist(self, flight: Flight, line: int, contents: list[str]) -> None:
        work = flight.work
        block, key, serial = work.src[line], work.keys[line].decode(), work.token.serial
        before = self.kept.get(key)
        if serial <= self.void:
            flight.found = Outcome.CANCELLED
        elif before is None or before.serial < serial:
            self.vacate(block)
            self.kept.pop(key, None)
            self.kept[key] = Object(contents[block], block, serial, old=serial <= self.expired)

    def vacate(self, block: int) -> None:
        """What the slot held is removed."""
        self.kept = {key: there for key, there in self.kept.items() if there.block != block}

    def undo(self, undo: Undo | Work) -> None:
        """What this very part made visible is removed."""
        serial = undo.token.serial
        self.kept = {key: there for key, there in self.kept.items() if there.adopted or there.serial != serial}

    def hear(self, effect: Undo | Adopt | Sweep, newest: int) -> None:
        """The ledger says what is to become of them; `newest` is the newest work that was sent."""
        if isinstance(effect, Undo):
            self.undo(effect)
        elif isinstance(effect, Adopt):
            for block, key in zip(effect.blocks, effect.keys, strict=True):
                there = self.kept.get(key.decode())
                if there is not None:
                    there.block, there.serial, there.adopted, there.committed = block, newest, True, False
        elif effect.everything:
            self.kept, self.void = {}, newest
        else:
            self.kept = {key: there for key, there in self.kept.items() if there.block != NOWHERE}

    def commit(self, keys: Iterable[bytes]) -> None:
        """A job that has stored these keys has committed."""
        for key in keys:
            if (there := self.kept.get(key.decode())) is not None:
                there.committed = True

    def expire(self, newest: int) -> None:
        """The cache is reset."""
        self.expired = newest
        for there in self.kept.values():
            there.old = True

    def restart(self) -> None:
        """The process is gone, and another begins, which knows nothing of them."""
        self.void = self.expired = 0
        for there in self.kept.values():
            there.block, there.serial, there.adopted, there.committed = NOWHERE, 0, True, False

    def found(self) -> list[tuple[str, bytes]]:
        """What another process finds, the oldest first."""
        return [("main", key.encode()) for key in self.kept]

    # -- what must be true ---------------------------------------------------------------------------------------------

    def named(self, block: int, key: str) -> Iterator[str]:
        """Law L9: what a key names is there, whole."""
        there = self.kept.get(key)
        if there is None or there.block != block:
            yield f"L9.bytes: {key} names block {block}, which holds no object of it"

    def look(self) -> Iterator[str]:
        """Law L9: what can be found holds the bytes of its name, of today."""
        for key, there in self.kept.items():
            if there.old:
                yield f"L9.swept: the object {key} is of before the reset, and can be found"
            elif there.content != key:
                yield f"L9.bytes: the object {key} holds {there.content or 'nothing'}"
        held = [there.block for there in self.kept.values() if there.block != NOWHERE]
        if len(held) != len(set(held)):
            yield "L8.bound: one slot holds two objects"

    def orphans(self) -> Iterator[str]:
        """Law L5: when nothing is under way any more, each object is that of a job which has committed."""
        for key, there in self.kept.items():
            if not there.adopted and not there.committed:
                yield f"L5.no_object: the object {key} in block {there.block} is left behind by a job that is over"

    # -- their form ----------------------------------------------------------------------------------------------------

    def form(self, new: dict[int, int], serials: dict[int, int], flights: list[Work]) -> tuple[object, ...]:
        """What of it tells two states apart, with blocks and parts by their new numbers; see `form`."""
        names = [
            (work.keys, work.token.serial <= self.void, work.token.serial <= self.expired)
            for work in flights
            if work.kind in (Kind.STORE, Kind.PERSIST)
        ]
        kept = tuple(
            (
                *(key, there.content, new.get(there.block, NOWHERE), there.old, there.committed),
                NOWHERE if there.adopted else serials.get(there.serial, NOWHERE),
                tuple(there.serial > work.token.serial for work in flights if key.encode() in work.keys),
            )
            for key, there in self.kept.items()
        )
        return tuple(names), kept
