"""Which cached block leaves first. A policy chooses; the ledger asks the machine whether the block may go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Policy(Protocol):
    """Told of every block that becomes or stops being evictable; asked for victims, best first."""

    def cached(self, block: int) -> None:
        """The block has no owner any more and keeps its key."""

    def taken(self, block: int) -> None:
        """The block was shared again, evicted or lost its key."""

    def victims(self) -> Iterator[int]:
        """All evictable blocks, the first to go first. Must not be used across a change."""
        ...

    def __len__(self) -> int: ...


class LRU:
    """The block that was released longest ago leaves first.

    A lease gives its blocks back from the last to the first, so that of one prompt the tail goes before the head.
    """

    __slots__ = ("order",)

    def __init__(self) -> None:
        self.order: dict[int, None] = {}

    def cached(self, block: int) -> None:
        self.order[block] = None

    def taken(self, block: int) -> None:
        del self.order[block]

    def victims(self) -> Iterator[int]:
        return iter(self.order)

    def __len__(self) -> int:
        return len(self.order)
