"""vLLM's own blocks, kept out of its free list while a copy of ours touches them.

vLLM hands its block pool to a connector, so that it can raise and lower the reference count of a block as a request
does. A block that is pinned here is not given to anybody, whatever becomes of its request: finished, aborted or
preempted. So nothing of ours ever waits for a copy before a block may be reused, and no copy is outrun.

Blocks that a load has not filled to the end hold bytes that nobody vouches for. They are let go of only after the
workers were told to zero them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kvstate.machines.messages import BlockRef, BlockRefs


class Pins:
    """The blocks of vLLM's that are pinned, each once, by the life that the ledger knows."""

    def __init__(self, pool: Any) -> None:
        """`pool` is vLLM's `BlockPool`."""
        self._pool = pool
        self._lives: dict[int, int] = {}
        self._dirty: set[BlockRef] = set()
        self._to_scrub: list[BlockRef] = []

    def __contains__(self, block: int) -> bool:
        return block in self._lives

    def __len__(self) -> int:
        return len(self._lives)

    def is_null(self, block: int) -> bool:
        """Is it the block that stands for none?"""
        return bool(self._pool.blocks[block].is_null)

    def take(self, refs: BlockRefs) -> None:
        """Pin these blocks, which a request holds at this moment; one that is pinned stays pinned once."""
        lives, blocks = self._lives, self._pool.blocks
        fresh = [pair for pair in zip(refs.blocks, refs.generations, strict=True) if pair[0] not in lives]
        lives.update(fresh)
        self._pool.touch([blocks[block] for block, _ in fresh])

    def spoil(self, refs: Iterable[BlockRef]) -> None:
        """What these hold is nothing whole: they have to be zeroed before they are anybody's again."""
        self._dirty.update(refs)

    def let_go(self, refs: BlockRefs) -> bool:
        """Nothing of ours touches these any more. Returns whether any was given back; what has to be zeroed is not."""
        if self._dirty:
            self._to_scrub += [ref for ref in refs if ref in self._dirty]
            refs = BlockRefs([ref for ref in refs if ref not in self._dirty])
        return self._release(refs)

    @property
    def to_scrub(self) -> bool:
        """Is there anything to be zeroed?"""
        return bool(self._to_scrub)

    def take_scrub(self) -> tuple[int, ...]:
        """Blocks that the workers have to zero before the next step. They are vLLM's again: whoever gets them comes
        with a step behind that.
        """
        if not self._to_scrub:
            return ()
        refs, self._to_scrub = self._to_scrub, []
        self._dirty.difference_update(refs)
        self._release(BlockRefs(refs))
        return tuple(ref.block for ref in refs)

    def _release(self, refs: BlockRefs) -> bool:
        """Give these lives back, last first, as vLLM does: the front of a prefix stays cached for longest."""
        lives, blocks = self._lives, self._pool.blocks
        mine = [block for block, life in zip(refs.blocks, refs.generations, strict=True) if lives.get(block) == life]
        for block in mine:
            del lives[block]
        if mine:
            self._pool.free_blocks([blocks[block] for block in reversed(mine)])
        return bool(mine)
