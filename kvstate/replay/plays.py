"""One request of a replay on its way, and the numbers that shape all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvstate.machines.messages import BlockRef
from kvstate.machines.verdicts import Hit
from kvstate.replay.trace import Request

NAMESPACE = "replay"
TOKENS_PER_BLOCK = 512
TOKENS_PER_ADMISSION = 8
"""A decode makes so many tokens between two admissions; it says how many admissions a lease outlives."""
WAITING = 48
"""So many requests may wait for a lookup or a load before the next one is admitted."""
FENCE_SHARE = 0.02
"""A fence is made when so much of a pool is in quarantine."""
STALLED_SECONDS = 60.0
"""So long may requests wait with none of them getting on; far beyond every deadline, it is a violation of law L11."""
TRIES = 3
"""A request that was preempted so often is not preempted again."""


@dataclass(slots=True, eq=False)
class Play:
    """One request on its way."""

    request: Request
    keys: list[bytes]
    lease: int = 0
    hit: Hit | None = None
    load: int = 0
    blocks: list[BlockRef] = field(default_factory=list)
    """The prompt's blocks by position, once all are there."""
    output: list[BlockRef] = field(default_factory=list)
    ends_at: int = 0
    """The admission at which its decode is over."""
    doom: str = ""
    """`abort` or `preempt`, if the dice said so; `Player._doomed` says when."""
    tries: int = 1


def key_of(hash_id: int) -> bytes:
    """The key of a block of a trace: 128 bits."""
    return hash_id.to_bytes(16, "little")
