"""A model of what keeps the objects of a durable pool on one rank, and of what outlives its process.

A slot is a block of the pool. A store fills it with bytes that nobody can find; a persist gives them a name, and from
then on they outlive the process. Which slot holds which object is known to the process alone, and goes with it. Every
object has a hidden number, counted by the world, by which it is told from another of the same name.

What is here is what `spec/properties.toml` assumes of such a copier, as plainly as it can be said; see the faults in
`durable_faults` for what becomes of the laws without each of the rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kvstate.machines.messages import Token
from tests.stateful.base import Bytes, Junk

Name = tuple[str, bytes]
"""A key space and a key."""


@dataclass
class Thing:
    """An object on the disk."""

    hidden: int
    """Its own number; the oldest has the least."""
    content: Bytes
    maker: Token | None
    """The persist that made it visible, if that was in this process."""


class Held(NamedTuple):
    """Who an object belongs to in this process."""

    slot: int
    serial: int
    """Of the newest work that had been begun when it got there: an older persist takes its name from nobody."""


@dataclass
class Disk:
    """One rank's; see the module."""

    things: dict[Name, Thing] = field(default_factory=dict)
    """What outlives the process, by name."""
    slots: dict[int, Name] = field(default_factory=dict)
    """Of this process: what each slot holds."""
    held: dict[Name, Held] = field(default_factory=dict)
    """And the other way round."""
    staged: dict[int, Bytes] = field(default_factory=dict)
    """By slot: what was written there and has no name."""
    spoilt: dict[int, Bytes] = field(default_factory=dict)
    """By slot: the bad bytes that a fetch found there, and removed."""
    void: int = 0
    """What has this serial, or a lesser one, was begun before everything was swept."""

    # -- a process begins ----------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """The process is gone, and what it knew."""
        self.slots, self.held, self.staged, self.spoilt, self.void = {}, {}, {}, {}, 0
        for thing in self.things.values():
            thing.maker = None

    def scan(self) -> list[Name]:
        """The names of all objects, the oldest first."""
        return sorted(self.things, key=lambda name: self.things[name].hidden)

    def adopt(self, slot: int, name: Name, newest: int) -> None:
        """From here on the slot holds this object, whatever it held, and whoever had the object."""
        self.let_go(slot)
        before = self.held.get(name)
        if before is not None:
            self.let_go(before.slot)
        if name in self.things:
            self.slots[slot] = name
            self.held[name] = Held(slot, newest)
            self.things[name].maker = None

    def let_go(self, slot: int) -> None:
        """The slot holds nothing any more."""
        self.spoilt.pop(slot, None)
        name = self.slots.pop(slot, None)
        if name is not None:
            del self.held[name]

    def sweep(self, newest: int, *, everything: bool) -> None:
        """Remove what no slot holds, or all; what was begun up to `newest` stays invisible then."""
        if everything:
            self.things.clear()
            self.slots.clear()
            self.held.clear()
            self.void = newest
        for name in [name for name in self.things if name not in self.held]:
            del self.things[name]

    # -- work ----------------------------------------------------------------------------------------------------------

    def store(self, slot: int, content: Bytes) -> None:
        """Write bytes, invisibly. What the slot held before is removed."""
        name = self.slots.get(slot)
        self.let_go(slot)
        if name is not None:
            del self.things[name]
        self.staged[slot] = content

    def persist(self, slot: int, name: Name, token: Token, hidden: int) -> bool:
        """Make the bytes in the slot visible under this name; False if they must not be."""
        if token.serial <= self.void:
            return False
        before = self.held.get(name)
        if before is not None:
            if token.serial < before.serial:
                return True  # a newer one of the same name is there; it stays
            self.let_go(before.slot)
        self.let_go(slot)
        self.slots[slot] = name
        self.held[name] = Held(slot, token.serial)
        self.things[name] = Thing(hidden, self.staged[slot], token)
        return True

    def fetch(self, slot: int, name: Name) -> Bytes | None:
        """The bytes of the object that the slot holds; None for what is bad or another's, which is removed."""
        has = self.slots.get(slot)
        thing = self.things.get(has) if has is not None else None
        if has is None or thing is None:
            return None
        if has == name and not isinstance(thing.content, Junk):
            return thing.content
        del self.things[has]
        self.let_go(slot)
        self.spoilt[slot] = thing.content
        return None

    def undo(self, token: Token, names: Sequence[Name]) -> None:
        """Remove what that very persist made visible."""
        for name in self.made_by(token, names):
            self.let_go(self.held[name].slot)
            del self.things[name]

    def made_by(self, token: Token, names: Sequence[Name]) -> Iterator[Name]:
        """Those of the names whose objects that persist has made."""
        made = {name: thing.maker for name, thing in self.things.items()}
        return (name for name in dict.fromkeys(names) if made.get(name) == token)

    # -- what is true --------------------------------------------------------------------------------------------------

    def holds(self, slot: int) -> Bytes | None:
        """The bytes of the object that the slot holds, or those that were found bad there; None where there is none."""
        name = self.slots.get(slot)
        return self.spoilt.get(slot) if name is None else self.things[name].content

    def spoil(self, slot: int, junk: Junk) -> None:
        """What is in the slot goes bad."""
        if slot in self.staged:
            self.staged[slot] = junk
        if slot in self.slots:
            self.things[self.slots[slot]].content = junk
