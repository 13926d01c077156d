"""Which cached block leaves first. A policy chooses; the ledger asks the machine whether the block may go."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain
from typing import Protocol

from kvstate.machines import bulk

NONE = -1
"""The number of a block that is not in the queue."""
CHUNK, MOST = 8, 512
"""Entries of the queue that are looked at together, at first, and where many are dead at most."""
SLACK = 256
"""Dead entries that the queue may have beside one for each living."""


Marks = Callable[[Sequence[int]], Sequence[int]]
"""The marks of the keys that name these blocks: 32 bits each, the same for a key for ever and nearly never for two."""


class Policy(Protocol):
    """Told of all blocks that become or stop being evictable; asked for victims, best first.

    A policy is made for one pool, with the range of its blocks' numbers and with `Marks`, by which it can know a key
    again that has left.
    """

    def cached(self, blocks: Sequence[int], turn: int) -> None:
        """These have no owner any more and keep their key; they were released in this order.

        What one lease or one job gives back has one `turn`, in one call or several: the tail of a prompt before its
        head.
        """

    def hit(self, blocks: Sequence[int]) -> None:
        """These were shared again."""

    def gone(self, blocks: Sequence[int]) -> None:
        """These were evicted, or lost their key; it can still be asked for its mark."""

    def victims(self, wanted: int) -> Iterator[Sequence[int]]:
        """All evictable blocks in runs, the first to go first; about so many will be taken.

        What comes out must not be used across a change.
        """
        ...

    def memory(self) -> Hashable:
        """What else decides who goes first, now and later, beside the order of the victims."""
        ...

    def __len__(self) -> int: ...


class LRU:
    """The block that was released longest ago leaves first.

    A lease gives its blocks back from the last to the first, so that of one prompt the tail goes before the head.

    A queue in which what is taken stays behind, dead, until enough of it has come together: each block knows the number
    of its living entry, and an entry lives if its block says so. So nothing is ever searched for, many blocks come and
    go by columns, and a block costs eight bytes and its place in the queue.
    """

    __slots__ = ("base", "first", "head", "living", "number", "queue")

    def __init__(
        self,
        blocks: range,
        marks: Marks,  # noqa: ARG002 - this one forgets who has left
        *,
        base: int = 0,
        number: array[int] | None = None,
    ) -> None:
        """Two queues that no block is in at once may share a column of numbers, from bases far apart."""
        self.number = array("q", [NONE]) * blocks.stop if number is None else number
        """By block: the number of its living entry."""
        self.base = base
        """The lowest number of an entry."""
        self.queue = array("q")
        """The block of each entry, living or dead."""
        self.first = base
        """The number of the entry at the front of the queue."""
        self.head = 0
        """How many entries at the front are known to be dead."""
        self.living = 0
        """How many entries live: as many as there are evictable blocks."""

    def cached(self, blocks: Sequence[int], turn: int) -> None:  # noqa: ARG002 - the order says it all
        """They join the queue at its end."""
        count = len(blocks)
        end = self.first + len(self.queue)
        if count == 1:
            self.number[blocks[0]] = end
            self.queue.append(blocks[0])
        else:
            bulk.spread(self.number, blocks, bulk.ascending(end, count))
            self.queue.extend(blocks)
        self.living += count

    def hit(self, blocks: Sequence[int]) -> None:
        """Their entries die where they are."""
        bulk.put(self.number, blocks, NONE)
        self.living -= len(blocks)
        if len(self.queue) > 2 * self.living + SLACK:
            self._shorten()

    gone = hit

    def victims(self, wanted: int) -> Iterator[Sequence[int]]:
        """From the front; entries that have died meanwhile are passed over, at the front once and for all."""
        start, size = self.head, max(wanted, CHUNK)
        while start < len(self.queue):
            chunk, numbers, living = self._look(start, size)
            alive = bulk.agreeing(living, numbers)
            if alive == len(chunk):
                yield chunk
            elif alive:
                yield bulk.where_agreeing(chunk, living, numbers)
            else:
                self.head += len(chunk) if start == self.head else 0
                size = max(size, min(4 * size, MOST))
            start += len(chunk)

    def _look(self, start: int, size: int) -> tuple[array[int], array[int], array[int]]:
        """Some entries of the queue, their numbers, and the number of each block's living entry."""
        chunk = self.queue[start : start + size]
        return chunk, bulk.ascending(self.first + start, len(chunk)), bulk.gather(self.number, chunk)

    def _shorten(self) -> None:
        """Drop the dead at the front, and if most of the others are dead, these as well."""
        next(self.victims(MOST), None)  # on the way to the first living entry, `head` is moved up
        del self.queue[: self.head]
        self.first, self.head = self.first + self.head, 0
        if len(self.queue) > 2 * self.living + SLACK:
            self.queue = array("q", chain.from_iterable(self.victims(len(self.queue))))
            self.first = self.base
            bulk.spread(self.number, self.queue, bulk.ascending(self.base, len(self.queue)))

    def memory(self) -> Hashable:
        """Nothing: the order is all."""
        return None

    def __len__(self) -> int:
        return self.living
