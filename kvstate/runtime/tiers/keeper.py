"""What an engine needs of a copier whose pool outlives the process, beside what it needs of every copier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from kvstate.codec.shapes import MAX_KEY, MAX_SPACE
from kvstate.machines.messages import Adopt, Sweep, Undo
from kvstate.wire import Found

LINES = 16_384
"""Names in one `Found`, so that no message is too long for a channel."""


@runtime_checkable
class Keeper(Protocol):
    """Keeps objects in the slots of a durable pool. All methods are called by the thread that gives out effects.

    None of them raises: what could not be done is told by `take_troubles`. They are called in the order of the effects,
    and hold from then on for all work that is submitted later.
    """

    def found(self) -> Found:
        """What was there when it was made, the oldest first; and what was not believed."""
        ...

    def undo(self, effect: Undo) -> None:
        """Remove what this very part made visible; nothing, if anybody has the name or the slot since."""
        ...

    def adopt(self, effect: Adopt) -> None:
        """These slots hold these objects from here on."""
        ...

    def sweep(self, effect: Sweep) -> None:
        """Remove what no slot holds; or everything, and then nothing that was begun before may become visible."""
        ...

    def take_troubles(self) -> list[str]:
        """What could not be removed since the last time, a sentence each."""
        ...


def in_parts(found: Found) -> Iterator[Found]:
    """The same as messages that a channel can carry, the last one with the counts. Names too long for one are left
    out: no work could ever name them.
    """
    spaces = found.spaces * len(found.keys) if len(found.spaces) == 1 else found.spaces
    names = [
        (space, key)
        for space, key in zip(spaces, found.keys, strict=True)
        if len(space) <= MAX_SPACE and len(key) <= MAX_KEY
    ]
    starts = range(0, len(names), LINES) or range(1)
    for start in starts:
        some = names[start : start + LINES]
        last = start == starts[-1]
        counts = (found.removed, found.refused, found.strange) if last else (0, 0, 0)
        yield Found(found.copier, one_word([space for space, _ in some]), tuple(key for _, key in some), *counts, last)


def one_word(spaces: list[str]) -> tuple[str, ...]:
    """A key space for each line, as `Found` has them: one stands for all where they are equal."""
    return (spaces[0],) if len(set(spaces)) == 1 else tuple(spaces)
