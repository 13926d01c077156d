"""What a runtime without generations, tokens or proofs has: a pool of block numbers with counts, in plain Python.

This is the yardstick, so it is written as its author would write it: no objects per block, no needless checks, and as
quick as lists and a deque allow. It refuses what would break it (too few blocks, a block given back twice) and knows
nothing of copies, which is why it is cheaper, and why it frees a block that a copy still writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence


class Pool:
    """`blocks` numbers, each free or counted."""

    __slots__ = ("counts", "free")

    def __init__(self, blocks: int) -> None:
        self.counts = [0] * blocks
        self.free = deque(range(blocks))

    def allocate(self, count: int) -> list[int]:
        """That many blocks with a count of one each; `ValueError` where there are fewer."""
        free, counts = self.free, self.counts
        if count > len(free):
            raise ValueError(f"{count} blocks wanted and {len(free)} free")
        blocks = [free.popleft() for _ in range(count)]
        for block in blocks:
            counts[block] = 1
        return blocks

    def share(self, blocks: Sequence[int]) -> None:
        """One more user of each."""
        for block in blocks:
            self.counts[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """One user less of each; what nobody uses is free. The last block first, so that a prefix stays longest."""
        free, counts = self.free, self.counts
        for block in reversed(blocks):
            left = counts[block] - 1
            if left < 0:
                raise ValueError(f"block {block} is free already")
            counts[block] = left
            if not left:
                free.append(block)
