"""Eviction that lets go first of what was never asked for again, and learns how much room that needs.

Most blocks of real traffic are seen once. Under LRU each of them drives something out that would have been hit. So
there are two queues: blocks that were seen *once*, and blocks that were asked for *again*. The first gives up blocks as
long as it holds more than its share; then the second does.

**What left is remembered.** A key that comes back was evicted too early. If it had been seen once, that queue was too
short, and its share grows; if it had been asked for again, the other was, and the share shrinks. It shrinks `SHRINK`
times as fast, since what was asked for again once is likelier to be asked for a third time. ARC (Megiddo and Modha,
FAST 2003) does the same with two exact lists; here there are four bytes a key in a table of fixed size, where what
comes later overwrites what was there.

**A key names its whole prefix.** So a table that forgets here and there does no harm: who has seen a block has seen all
in front of it, and of the blocks that are given back together, the tail first, all behind the first that is known
(towards the head of the prompt) are known as well. Without that rule a prompt would fall apart over both queues, and
one missing block at its head costs the hits of all behind it.

The price: eight bytes a block for the table, one more than `LRU` for who was asked for, and a look into the table for
each block that gets its first rest.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterator, Sequence
from typing import Final

from kvstate.machines import bulk
from kvstate.machines.policy import LRU, Marks

REMEMBERED: Final = 2
"""Keys that the table has room for, by blocks of the pool."""
SHRINK: Final = 4
"""Blocks by which the share of the once seen shrinks when a key comes back that had been asked for again; when one does
that had been seen once, it grows by one."""


AGAIN: Final = 1 << 62
"""The lowest number of an entry in the second queue; no first queue ever counts so far."""


class Adaptive:
    """See the module. A `Policy`."""

    __slots__ = ("again", "asked", "blocks", "gone_keys", "known", "marks", "once", "share", "turn")

    def __init__(self, blocks: range, marks: Marks) -> None:
        self.blocks = blocks
        self.marks = marks
        self.once = LRU(blocks, marks)
        """Blocks whose key was never asked for since it came; `again` are the others."""
        self.again = LRU(blocks, marks, base=AGAIN, number=self.once.number)
        self.share = len(blocks) // 2
        """So many blocks of `once` are safe while there is anything in `again`."""
        self.asked = array("B", [0]) * blocks.stop
        """By block: 1 if its key was asked for while it was here."""
        self.gone_keys = array("I", [0]) * max(REMEMBERED * len(blocks), 1)
        """Keys that were evicted, each at the place that its mark leads to: the mark, its last bit replaced by a 1 if
        it had been asked for again, else by a 0. 0 is nobody."""
        self.turn = -1
        """Which blocks were given back last, and whether one of them was known."""
        self.known = False

    def cached(self, blocks: Sequence[int], turn: int) -> None:
        """They join one queue or the other at its end."""
        if turn != self.turn:
            self.turn, self.known = turn, False
        first = self._first_known(blocks)
        if first:
            self.once.cached(blocks if first == len(blocks) else blocks[:first], turn)
        if first < len(blocks):
            self.again.cached(blocks if not first else blocks[first:], turn)

    def _first_known(self, blocks: Sequence[int]) -> int:
        """The place of the first of these that is known; all of them are looked up, for the share."""
        marks = self.marks(blocks)
        first = self._first_of_many(blocks, marks) if bulk.is_wide(marks) else None
        if first is None:
            first = self._first_by_one(blocks, marks)
        first = 0 if self.known else first
        self.known = first < len(blocks)
        return first

    def _first_of_many(self, blocks: Sequence[int], marks: Sequence[int]) -> int | None:
        """The same by columns; None, and nothing learned, where they have to go one by one."""
        asked = bulk.gather(self.asked, blocks).tobytes()
        if 0 not in asked:
            return 0
        together = None if 1 in asked else bulk.columns.recall(self.gone_keys, marks)  # type: ignore[union-attr]
        if together is None:
            return None
        first, known, were_asked = together
        self._learn(known, asked=were_asked)
        return int(first)

    def _first_by_one(self, blocks: Sequence[int], marks: Sequence[int]) -> int:
        asked, gone, size, first = self.asked, self.gone_keys, len(self.gone_keys), len(blocks)
        for place, block in enumerate(blocks):
            mark = marks[place]
            left = gone[mark % size]
            if asked[block]:
                first = min(first, place)
            elif left >> 1 == mark >> 1 and left:
                gone[mark % size] = 0
                first = min(first, place)
                self._learn(1, asked=bool(left & 1))
        return first

    def _learn(self, keys: int, *, asked: bool) -> None:
        if asked:
            self.share = max(0, self.share - SHRINK * keys)
        else:
            self.share = min(len(self.blocks), self.share + keys)

    def hit(self, blocks: Sequence[int]) -> None:
        """They are asked for, and will rest among the asked for."""
        self._leave(blocks, *self._queues(blocks))
        bulk.put(self.asked, blocks, 1)

    def gone(self, blocks: Sequence[int]) -> None:
        """Their keys are remembered, each with the queue that it left."""
        keys, size, marks = self.gone_keys, len(self.gone_keys), self.marks(blocks)
        numbers, lowest, highest = self._queues(blocks)
        if bulk.is_wide(marks) and (lowest >= AGAIN or highest < AGAIN):
            bulk.columns.note(keys, marks, int(lowest >= AGAIN))  # type: ignore[union-attr]
        else:
            for mark, number in zip(marks, numbers, strict=True):
                keys[mark % size] = mark & ~1 if number < AGAIN else mark | 1
        bulk.put(self.asked, blocks, 0)
        self._leave(blocks, numbers, lowest, highest)

    def _queues(self, blocks: Sequence[int]) -> tuple[array[int], int, int]:
        """The numbers of their entries, the lowest and the highest of them: from `AGAIN` on they are in `again`."""
        numbers = bulk.gather(self.once.number, blocks)
        return numbers, *bulk.bounds(numbers)

    def _leave(self, blocks: Sequence[int], numbers: array[int], lowest: int, highest: int) -> None:
        """Their entries die."""
        if lowest >= AGAIN:
            self.again.hit(blocks)
        elif highest < AGAIN:
            self.once.hit(blocks)
        else:
            pairs = list(zip(blocks, numbers, strict=True))
            self.again.hit(array("q", [block for block, number in pairs if number >= AGAIN]))
            self.once.hit(array("q", [block for block, number in pairs if number < AGAIN]))

    def victims(self, wanted: int) -> Iterator[Sequence[int]]:
        """What the once seen hold beyond their share, then the others, then the rest of the once seen."""
        spare = max(len(self.once) - self.share, 0)
        runs, left = self.once.victims(min(wanted, spare) if spare else wanted), spare
        rest: Sequence[int] = ()
        while left:
            run = next(runs)
            yield run[:left]
            rest, left = run[left:], left - min(left, len(run))
        yield from self.again.victims(wanted)
        if rest:
            yield rest
        yield from runs

    def memory(self) -> Hashable:
        """The share, who was asked for, and what is remembered of those that left."""
        return self.share, self.known, self.asked.tobytes(), self.gone_keys.tobytes(), len(self.once)

    def __len__(self) -> int:
        return len(self.once) + len(self.again)
