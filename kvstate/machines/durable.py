"""Pools that outlive the process: a part of `Ledger`, for what rests in a pool that is `durable`.

A ledger is born empty, and a disk is not. What keeps objects (a folder, a store) says at its start what it found whole,
and the ledger takes it in:

    taken = ledger.recover(pool, names)     names: (key space, key), the oldest first
    ...                                     the effects `Adopt` and `Sweep` go out, before any work on these blocks

From then on a recovered key is a hit like any other; each load of it is verified like any other. Nothing is evicted for
it: what finds no room is not taken in, and the `Sweep` has it removed.

`reset` is the other way round. The bytes of all keys are void (the weights have changed), so it emits a `Sweep` of
everything: a process that starts later must not find them again. Where only memory was lost, say with a rank,
`reset(keep_durable=True)` forgets the keys and leaves the objects, to be recovered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvstate.machines.books import Books
from kvstate.machines.door import door
from kvstate.machines.durables import Durables
from kvstate.machines.verdicts import Fatal, Recovered, Refusal


class Durable:
    """See the module."""

    books: Books
    """As in `Ledger`; so are the next two."""
    core: Durables
    """Brings an input to its end."""
    fatal: Fatal | None
    """Why the ledger is poisoned, if it is."""

    if TYPE_CHECKING:

        def _poison(self, fatal: Fatal) -> Refusal: ...

    @door
    def recover(self, pool: int, names: Sequence[tuple[str, bytes]]) -> Recovered | Refusal:
        """These objects were found whole, on every rank, in what keeps this pool: each gets a block and is a hit.

        A name is a key space (of a lease, or of one of its KV groups) and a key; the oldest comes first, and is the
        first to be evicted. A key that is on record already, or listed twice, is passed over, and so are the oldest
        where there are more than free blocks.
        """
        return self.core.recover(pool, names)

    def kept(self, pool: int) -> list[tuple[str, bytes]]:
        """Key space and key of all that is a hit in this pool, in the order in which it was stored. For looking."""
        return self.core.kept(pool)

    @door
    def reset(self, *, keep_durable: bool = False) -> int | Refusal:
        """Begin a new epoch: no key of before is a hit again. Returns how many keys were dropped.

        The objects of durable pools are removed, unless they are to be kept, for a `recover` that follows.
        """
        return self.core.reset(keep_durable=keep_durable)
