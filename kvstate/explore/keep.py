"""Puts a ledger's books aside and back again in place, quicker than `Ledger.snapshot` and `restore`.

The ports of a ledger are wired to the columns of its tables, to its rosters and to its book of keys, so these stay the
same objects and get their old contents; wiring a new ledger costs more than a move. All the rest of the books goes
through `pickle` together with the world, which keeps two references to one record two references to one record.
"""

from __future__ import annotations

import pickle
from array import array
from typing import Any

from kvstate.machines.ledger import Ledger

WIRED = (
    "batches block_state columns config engine generation jobs keys loads parts parts_state pool_of pools tables "
    "total uids".split()
)
"""The fields of the books that are never replaced: what they hold is saved piece by piece, or never changes."""
ROSTER = ("items", "free", "uids", "used")
"""What is saved of each roster."""
KEYBOOK = ("spaces", "spaces_of", "keys", "marks", "blocks", "block_key", "writers", "uids", "free", "used")
"""What is saved of the book of keys."""
SHARED = ("items", "uids")
"""Lists and arrays of which others of the ledger hold the very same, so that these stay the same objects, too."""
POOL = ("free", "evictable", "counts")
"""What is saved of each pool."""


class Keeper:
    """For one ledger. `save` gives bytes and `restore` takes them, any number of times and in any order."""

    def __init__(self, ledger: Ledger) -> None:
        books = ledger.books
        self.ledger = ledger
        self.columns: list[array[int]] = [column for machine in books.columns.values() for column in machine.values()]
        self.fields = [name for name in vars(books) if name not in WIRED]
        self.pieces: list[tuple[Any, str]] = [
            *((roster, name) for roster in (books.parts, books.jobs, books.batches, books.loads) for name in ROSTER),
            *((books.keys, name) for name in KEYBOOK),
            (books.engine, "filling"),
            *((pool, name) for pool in books.pools for name in POOL),
            *((books, name) for name in self.fields),
        ]

    def save(self, world: object) -> bytes:
        """The books and this world, as they are now. A poisoned ledger is not to be saved."""
        columns = [column.tobytes() for column in self.columns]
        return pickle.dumps((columns, [getattr(owner, name) for owner, name in self.pieces], world), 5)

    def restore(self, saved: bytes) -> Any:
        """The books are again as they were; returns the world that was saved with them."""
        columns, values, world = pickle.loads(saved)
        for column, content in zip(self.columns, columns, strict=True):
            column[:] = array(column.typecode, content)
        for (owner, name), value in zip(self.pieces, values, strict=True):
            if name in SHARED:
                getattr(owner, name)[:] = value
            else:
                setattr(owner, name, value)
        self.ledger.fatal = None
        return world
