"""vLLM's own blocks, kept out of its free list while a copy of ours touches them.

vLLM hands its block pool to a connector, so that it can raise and lower the reference count of a block as a request
does. A block that is pinned here is not given to anybody, whatever becomes of its request: finished, aborted or
preempted. So nothing of ours ever waits for a copy before a block may be reused, and no copy is outrun.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvstate.machines.messages import BlockRef


class Pins:
    """The blocks of vLLM's that are pinned, each once, by the life that the ledger knows."""

    def __init__(self, pool: Any) -> None:
        """`pool` is vLLM's `BlockPool`."""
        self._pool = pool
        self._refs: dict[int, BlockRef] = {}

    def __contains__(self, block: int) -> bool:
        return block in self._refs

    def __len__(self) -> int:
        return len(self._refs)

    def is_null(self, block: int) -> bool:
        """Is it the block that stands for none?"""
        return bool(self._pool.blocks[block].is_null)

    def take(self, refs: Iterable[BlockRef]) -> None:
        """Pin these blocks, which a request holds at this moment; one that is pinned stays pinned once."""
        fresh = [ref for ref in refs if ref.block not in self._refs]
        self._refs |= {ref.block: ref for ref in fresh}
        self._pool.touch([self._pool.blocks[ref.block] for ref in fresh])

    def release(self, refs: Iterable[BlockRef]) -> None:
        """Let these lives go, last first, as vLLM does: the front of a prefix stays cached for longest."""
        mine = [ref for ref in refs if self._refs.get(ref.block) == ref]
        for ref in mine:
            del self._refs[ref.block]
        self._pool.free_blocks([self._pool.blocks[ref.block] for ref in reversed(mine)])
