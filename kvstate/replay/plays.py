"""One request of a replay on its way, and the numbers that shape all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from kvstate.machines.messages import BlockRefs
from kvstate.machines.verdicts import Hit
from kvstate.replay.trace import Request

NAMESPACE: Final = "replay"
"""The namespace of all leases: a trace has one tenant."""
TOKENS_PER_ADMISSION: Final = 8
"""A decode makes so many tokens between two admissions; it says how many admissions a lease outlives."""
WAITING: Final = 48
"""So many requests may wait for a lookup or a load before the next one is admitted."""
FENCE_SHARE: Final = 0.02
"""A fence is made when so much of a pool is in quarantine."""
STALLED_SECONDS: Final = 60.0
"""So long may requests wait with none of them getting on; far beyond every deadline, it is a violation of law L11."""
TRIES: Final = 3
"""A request that was preempted so often is not preempted again."""

NO_BLOCKS: Final = BlockRefs.of(())
"""Of a prompt that has none yet."""

Doom = Literal["", "abort", "preempt"]
"""What the dice have in store for a request; empty is nothing, or nothing more."""


@dataclass(slots=True, eq=False)
class Play:
    """One request on its way. It gets a new lease, and begins anew, each time that it was preempted."""

    request: Request
    """What the trace says of it."""
    keys: list[bytes]
    """The keys of its prompt's blocks, each once, first to last."""
    lease: int = 0
    """Its present lease; 0 before the first."""
    hit: Hit | None = None
    """What its lookup pinned; `None` while it waits for that."""
    load: int = 0
    """The load that it waits for; 0 for none."""
    blocks: BlockRefs = NO_BLOCKS
    """The prompt's blocks by position, as long as `keys`, once all are there."""
    ends_at: int = 0
    """The admission at which its decode is over."""
    doom: Doom = ""
    """What the dice said; `Serving` says when."""
    tries: int = 1
    """Which lease of it this is, counted from 1; one that went with a rank does not count."""
    counted: bool = False
    """Have its hits and misses been counted? Those of its first lookup are."""
    sought: int = 0
    """A store was asked for its keys up to this one."""
    ahead: int = 0
    """So many at once the last time."""


def keys_of(hash_ids: Iterable[int]) -> list[bytes]:
    """The keys of a trace's blocks, 16 bytes each; of an id that comes again, the first place."""
    return [hash_id.to_bytes(16, "little") for hash_id in dict.fromkeys(hash_ids)]


def joined(first: BlockRefs, then: BlockRefs) -> BlockRefs:
    """The one behind the other."""
    return BlockRefs.trusted(
        first.blocks + then.blocks, first.generations + then.generations, max(first.bound, then.bound)
    )


def replaced(refs: BlockRefs, places: Sequence[int], by: BlockRefs) -> BlockRefs:
    """The same, but for these places, where these blocks stand now.

    Errors: `ValueError` if there are more of the ones than of the others; `IndexError` for a place that there is not.
    """
    blocks, generations = refs.blocks[:], refs.generations[:]
    for place, block, generation in zip(places, by.blocks, by.generations, strict=True):
        blocks[place], generations[place] = block, generation
    return BlockRefs.trusted(blocks, generations, max(refs.bound, by.bound))
