"""What the scheduler's half remembers of a request: one life of it, from an admission to its end or its preemption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from kvstate.machines.messages import NO_REFS, BlockRefs
from kvstate.machines.verdicts import Hit


@dataclass(slots=True)
class Life:
    """One life, and so one lease. A request that is preempted and admitted again begins another."""

    request: Any
    """vLLM's own."""
    lease: int
    local: int
    """How many blocks of its prefix vLLM had on the device when it was looked up."""
    keys: Sequence[bytes]
    """Of the blocks behind those, as far as they were looked up."""
    hit: Hit | None = None
    """What was found of them, pinned below, until it is loaded or given back."""
    admitted: int = 0
    """The step in which it got its blocks; 0 before."""
    load: int = 0
    """The load that is under way, by the ledger's number; 0 if none is."""
    refs: BlockRefs = NO_REFS
    """The blocks that it fills."""
    loading: Hit | None = None
    """What it loads."""
    lower: int = 0
    """Behind `local`, so many blocks were loaded: the tier below has them."""
    offered: dict[int, int] = field(default_factory=dict)
    """By KV group: so many blocks from the start were offered to the tier below."""
    offered_to: int = 0
    """So many were when it was last looked."""
    seen: int = 0
    """So many tokens from the start were computed by steps of this life, or will have been when those have retired."""

    @property
    def id(self) -> str:
        """vLLM's id of the request."""
        return str(self.request.request_id)

    def to_offer(self, full: int, group: int) -> list[int]:
        """The places of the group up to `full` that were not offered yet and did not come from below."""
        loaded, offered = range(self.local, self.local + self.lower), self.offered.get(group, 0)
        self.offered[group] = max(offered, full)
        self.offered_to = max(self.offered_to, full)
        return [place for place in range(offered, full) if place not in loaded]
