"""What is remembered of each tier that is on, and of each store that is on its way into one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from kvstate.machines.messages import BlockRef, BlockRefs
from kvstate.tiering.config import Feed
from kvstate.tiering.counts import Counts

PAUSE: Final = 0.05
"""Seconds until the next write-back after a first failure; doubled by each further one."""
LONGEST_PAUSE: Final = 5.0
"""Seconds, however often it failed."""
MOST_BAD: Final = 1024
"""So many blocks are remembered that could not be stored, and then it is tried with all of them again."""


@dataclass(slots=True, eq=False)
class Flight:
    """A store on its way."""

    tier: Tier
    """Where it goes."""
    namespace: str
    """Of the lease that asked."""
    sources: BlockRefs
    """The blocks that it reads, line by line."""
    landing: BlockRefs
    """The blocks that it fills, line by line."""
    origin: int
    """The pool that its blocks were loaded from; 0 for what was not."""


@dataclass(slots=True, eq=False)
class Tier:
    """A tier that is on."""

    feed: Feed
    """Where it is, and what it is told."""
    above: Tier | None = None
    """The tier that feeds it; None where that is the device."""
    below: Tier | None = None
    """The tier that is fed from this one."""
    counts: Counts = field(default_factory=Counts)
    """What became of its blocks."""
    clean: int | None = None
    """What `news` said when nothing was left to write back here; None where that is not known."""
    size: int = 0
    """So many blocks are written back together: fewer after failures, until the one that is to blame is alone."""
    failures: int = 0
    """Stores that failed since the last that did not."""
    not_before: float = 0.0
    """Nothing is written back before that time, in seconds."""
    bad: set[BlockRef] = field(default_factory=set)
    """Blocks of the tier above that can't be stored: not even alone, or for nobody."""

    suspects: set[BlockRef] = field(default_factory=set)
    """Those of the bad that were found since a store last arrived."""

    def __post_init__(self) -> None:
        self.size = self.feed.config.turn_blocks

    def news(self, keys: int) -> int:
        """A count that grows with every block that may have to be written back here; `keys` is that of all keys."""
        if self.above is None:
            return keys
        counts = self.above.counts
        return counts.stored + counts.failed + counts.in_flight

    def went_well(self) -> None:
        """A store has arrived. Where several blocks failed alone before it, it was the tier that was to blame."""
        if len(self.suspects) > 1:
            self.bad -= self.suspects
        self.failures, self.not_before, self.suspects = 0, 0.0, set()
        self.size = min(2 * self.size, self.feed.config.turn_blocks)

    def leave_out(self, sources: BlockRefs) -> None:
        """These can't be stored, and are not to stand in the way of others."""
        self.bad = set(sources) if len(self.bad) >= MOST_BAD else self.bad.union(sources)

    def went_wrong(self, sources: BlockRefs, now: float) -> None:
        """A store has failed. What failed alone is left out from here on, and the next attempt is made later."""
        if len(sources) == 1:
            self.leave_out(sources)
            self.suspects.add(sources[0])
        self.not_before = now + min(PAUSE * 2.0 ** min(self.failures, MOST_DOUBLINGS), LONGEST_PAUSE)
        self.failures += 1
        self.size = max(self.size // 2, 1)


MOST_DOUBLINGS: Final = 10
"""More would not make the pause longer."""
