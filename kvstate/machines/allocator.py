"""What an engine with an allocator of its own tells the ledger: a part of `Ledger`, where the device pool is `foreign`.

In such an engine (vLLM is one) the device blocks are not the ledger's to give. The engine reports what it does with
them, and the ledger answers with references to the lives that it has heard of, and with effects.

    given = ledger.foreign_allocated(ids)          the engine has given these to a request: keep given.refs
    ledger.offload(lease, given.refs, keys=keys)   a copy reads them from now on
    freed = ledger.foreign_freed(given.refs)       the request is over: freed.held are to be kept out of the free list
    ...                                            until the `Unhold` of each comes out, as an effect
    ledger.foreign_reused(ids)                     or they were handed on at once: the store fails, and stores nothing

A hit is never on the device: what the engine has there it finds by itself, before it asks for the rest. So `lookup`
looks below, and `load` fills blocks that the engine has given, `into=given.refs`.

If the engine takes or hands on a block that a load fills, the load falls at that place. What is assumed of the engine
stands in `spec/properties.toml`, under `foreign`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvstate.machines.books import Books
from kvstate.machines.door import door
from kvstate.machines.durables import Durables
from kvstate.machines.messages import BlockRef, BlockRefs
from kvstate.machines.tables.foreign import Event as F
from kvstate.machines.verdicts import Fatal, Freed, Given, Refusal


class Allocator:
    """The reports of an engine that owns the device pool. Blocks are given as numbers, lives of them as references.

    Nothing of it can be refused but nonsense: numbers that are no device blocks, or a ledger whose pools are its own.
    """

    books: Books
    """As in `Ledger`; so are the next two."""
    core: Durables
    """Brings an input to its end."""
    fatal: Fatal | None
    """Why the ledger is poisoned, if it is."""

    if TYPE_CHECKING:

        def _poison(self, fatal: Fatal) -> Refusal: ...

    @door
    def foreign_allocated(self, ids: Sequence[int]) -> Given | Refusal:
        """The engine has given these blocks, out of its free list, to a request: each begins another life.

        To be told before anything is computed into them.
        """
        return self.core.foreign_given(ids, F.ALLOCATED)

    @door
    def foreign_reused(self, ids: Sequence[int]) -> Given | Refusal:
        """The engine has handed these on without having freed them: each begins another life.

        A store that has not read such a block to its end fails, and a load that fills it falls there.
        """
        return self.core.foreign_given(ids, F.REUSED)

    @door
    def foreign_freed(self, blocks: Sequence[BlockRef]) -> Freed | Refusal:
        """The engine has taken these blocks back, and names those lives of them that were its request's.

        The answer says at once what is said as an effect, too: which of them it is asked to keep for now. What it had
        taken back before is counted as stale.
        """
        return self.core.foreign_freed(BlockRefs.of(blocks))
