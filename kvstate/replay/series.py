"""What a replay was like over time: looked at after each request, and kept to a bounded number of looks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kvstate.machines.ledger import Ledger
from kvstate.replay.result import ReplayResult
from kvstate.replay.watch import Watch

MOST: Final = 1200
"""Looks that are kept. When there are more, every other one is dropped, and from then on every other one is skipped."""


@dataclass(frozen=True, slots=True)
class Look:
    """What there was at one moment. All but `blocks` and `in_flight` is counted from the start."""

    time: float
    """Seconds since the first."""
    hits: tuple[int, ...]
    """Blocks, by pool."""
    misses: int
    """Blocks that no pool had."""
    moved: tuple[tuple[int, int], ...]
    """Bytes that were stored into each pool and that were loaded from it."""
    blocks: tuple[tuple[int, ...], ...]
    """By pool, and there by state."""
    in_flight: int
    """Jobs and loads."""


@dataclass(slots=True)
class Series:
    """Looks of one run, in order. `look` is cheap and may be called as often as one likes."""

    ledger: Ledger
    """Whose blocks are counted."""
    watch: Watch
    """Who counts what was copied."""
    result: ReplayResult
    """Where hits are counted."""
    block_bytes: int
    """Of a block, over all ranks."""
    looks: list[Look] = field(default_factory=list)
    """Those that were kept, in order."""
    every: int = 1
    """One call of so many is kept."""
    calls: int = 0
    """How often `look` was called."""
    began: float | None = None
    """When the first look was, on the caller's clock."""

    def look(self, now: float) -> None:
        """Look, unless it is not this call's turn; `now` is in seconds, on any clock."""
        self.calls += 1
        if (self.calls - 1) % self.every:
            return
        if self.began is None:
            self.began = now
        books, moved, size = self.ledger.books, self.watch.moved, self.block_bytes
        pools = range(len(books.pools))
        self.looks.append(
            Look(
                now - self.began,
                tuple(self.result.hits.values()),
                self.result.misses,
                tuple((moved["store", pool] * size, moved["fetch", pool] * size) for pool in pools),
                tuple(tuple(pool.counts) for pool in books.pools),
                len(books.job_ids) + len(books.load_ids),
            )
        )
        if len(self.looks) > MOST:
            del self.looks[1::2]
            self.every *= 2
