"""Pools whose bytes others write and delete: a part of `Ledger`, for what stands in a pool that is `shared`.

A block of such a pool is a handle. A key names it, a lookup pins it, a load reads from it, and the policy evicts it, as
in any other pool; but what it stands for lies with others, and may be gone or changed. So a hit there is a hint: the
load that follows is verified, and fails by its code where the hint was wrong (law L9).

What is there is learned in two ways. Whoever knows says so, as a peer does that offers blocks:

    told = ledger.announce(pool, names)     names: (key space, key), the head of the prefix first
    ...                                     the effects `Adopt` go out, before any work on these blocks
    ledger.vanish(pool, names)              no longer: a miss from here on

Or a store is asked, for the keys that a lookup missed:

    asked = ledger.seek(lease, keys, pool=2, deadline=now + 0.05)
    ...                                     lookups of these keys are `pending` meanwhile, `pending_for` at most
    hit = ledger.lookup(lease, keys)        what every rank has is named by then, and a hit

A seek that is not answered by its deadline has found nothing, and a late answer changes that no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvstate.machines.books import Books
from kvstate.machines.door import door
from kvstate.machines.durables import Durables
from kvstate.machines.records import Lease
from kvstate.machines.verdicts import Announced, Fatal, Refusal, Sought


class Shared:
    """See the module."""

    books: Books
    """As in `Ledger`; so are the next two."""
    core: Durables
    """Brings an input to its end."""
    fatal: Fatal | None
    """Why the ledger is poisoned, if it is."""

    if TYPE_CHECKING:

        def _poison(self, fatal: Fatal) -> Refusal: ...

        def _admitted(self, lease: int) -> Lease | Refusal: ...

    @door
    def announce(self, pool: int, names: Sequence[tuple[str, bytes]]) -> Announced | Refusal:
        """These are there, with others: each that is new gets a block of this shared pool, and is a hit there.

        Where no block is free, cached ones are evicted as the policy says, but none of these names; those that find no
        room are left out, the last ones first. What is known there is left as it is.
        """
        return self.core.announce(pool, names)

    @door
    def vanish(self, pool: int, names: Sequence[tuple[str, bytes]]) -> int | Refusal:
        """These are not there any more. Returns how many of them were, as far as was known, and are misses now.

        One that is being sought there counts as missing, whatever is answered from then on.

        Loads from there that are under way go on, and fail by what they find.
        """
        return self.core.vanish(pool, names)

    @door
    def seek(
        self, lease: int, keys: Sequence[bytes], *, pool: int, deadline: float, group: int | None = None
    ) -> Sought | Refusal:
        """Ask a store, a pool that is shared and durable, which of these keys it has; of one KV group, where there are.

        Only keys are asked for that are a hit nowhere, not known in that pool, and not being sought; refused if that is
        none. Until the answer, or the deadline, a lookup that comes to one of them is `pending`.
        """
        held = self._admitted(lease)
        return held if isinstance(held, Refusal) else self.core.seek(held, keys, pool, deadline, group)
