"""What others have, where a pool is shared: `ledger device=b7 store=s1,s2 shared=store`.

A block of such a pool is a handle, and holds no bytes here: what is read through it is what others have under the key
at that moment. They write, delete and spoil it as they like (`others have K1`). A store of ours copies into a buffer,
and its persist puts what is there under the key, unless somebody has it already; each rank has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kvstate.errors import Code
from kvstate.machines.messages import Failure, Sweep, Undo, Work
from kvstate.testing.matter import NOTHING, Bytes, Flight, shown
from kvstate.testing.sayings import Name, Sayings


@dataclass
class Others:
    """See the module."""

    blocks: range = range(0)
    """The blocks of the shared pool."""
    has: dict[tuple[int, Name], Bytes] = field(default_factory=dict)
    """By rank and name: what can be read there."""
    sayings: Sayings = field(default_factory=Sayings)
    """What may be believed of it."""
    made: dict[tuple[int, Name], int] = field(default_factory=dict)
    """The serial of the persist that put it there, if that was ours."""
    void: dict[int, int] = field(default_factory=dict)
    """By rank: what has this serial or a lesser one was begun before all was swept, and goes by other names."""

    def put(self, ranks: Iterable[int], name: Name, content: Bytes) -> None:
        """Others have this now, on these ranks; NOTHING is that they have it no more."""
        for rank in ranks:
            self.made.pop((rank, name), None)
            if content == NOTHING:
                self.has.pop((rank, name), None)
            else:
                self.has[rank, name] = content

    def fetch(
        self, flight: Flight, line: int, contents: dict[tuple[int, int], Bytes], name: Callable[[int], str]
    ) -> str:
        """A line reads through a handle: says what has come, by the `name` of its block, or that nobody has it."""
        work = flight.work
        found = self._read(flight, line, "fetch")
        if found == NOTHING:
            return f"nobody has {work.keys[line].decode()}"
        contents[work.rank, work.dst[line]] = found
        return f"{name(work.dst[line])} holds {shown(found)}"

    def seek(self, flight: Flight, line: int) -> str:
        """Somebody looks for the key of the line: says whether it is there."""
        found = self._read(flight, line, "lookup")
        return f"{flight.work.keys[line].decode()} is {'not there' if found == NOTHING else f'there: {shown(found)}'}"

    def _read(self, flight: Flight, line: int, stage: str) -> Bytes:
        work = flight.work
        found = self.has.get((work.rank, (work.space(line), work.keys[line])), NOTHING)
        if found == NOTHING:
            flight.bad += (Failure(line, int(Code.BLOCK_NOT_FOUND), stage),)
        return found

    def persist(self, work: Work, line: int, content: Bytes) -> str:
        """Put a line there; says why not, if it must not be: `swept`, or `there` where somebody has it already."""
        place = work.rank, (work.space(line), work.keys[line])
        if work.token.serial <= self.void.get(work.rank, 0):
            return "swept"
        self.sayings.stored([place[1]])
        if place in self.has:
            return "there"
        self.has[place], self.made[place] = content, work.token.serial
        return ""

    def undo(self, made: Undo | Work) -> None:
        """Remove what that very part put there."""
        self._remove(
            place for place, serial in self.made.items() if (place[0], serial) == (made.rank, made.token.serial)
        )

    def tend(self, effect: Undo | Sweep, newest: int) -> None:
        """As `undo`; or, at a reset, go by other names from here on."""
        if isinstance(effect, Undo):
            self.undo(effect)
        elif effect.everything:
            self.void[effect.rank] = newest
            self._remove(place for place in self.has if place[0] == effect.rank)

    def _remove(self, places: Iterable[tuple[int, Name]]) -> None:
        for place in list(places):
            del self.has[place]
            self.made.pop(place, None)
