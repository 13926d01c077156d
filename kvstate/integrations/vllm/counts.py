"""What the connector counts, as vLLM wants it: for the log line of its metrics, and for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from kvstate.errors import Code


class Counts:
    """Counters since they were last taken, and since the start."""

    def __init__(self) -> None:
        self.total: Counter[str] = Counter()
        """Since the start."""
        self._fresh: Counter[str] = Counter()

    def add(self, what: str, count: int = 1) -> None:
        """So many more of it."""
        if count:
            self.total[what] += count
            self._fresh[what] += count

    def add_codes(self, stage: str, codes: Iterable[str]) -> None:
        """Each code of a failure, by what failed: `load` or `store`."""
        for code in codes:
            self.add(f"{stage}_errors.{code}")

    def take(self) -> dict[str, int]:
        """What came since the last time."""
        taken, self._fresh = dict(self._fresh), Counter()
        return taken


def summed(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Two of these, put together."""
    return dict(Counter(one) + Counter(other))


PLAIN: Mapping[str, str] = {
    "lookups_hit": "Requests of which a part of the prefix was found in the host pool.",
    "lookups_missed": "Requests of which nothing was found there.",
    "lookups_pending": "Lookups that were put off, since another request loads the block.",
    "loads": "Loads that were started.",
    "loads_failed": "Loads that failed; the rest is computed, or the request fails, as vLLM is told.",
    "loads_aborted": "Loads whose request ended first.",
    "blocks_asked": "Blocks that loads were started for.",
    "blocks_loaded": "Blocks that were loaded and are whole.",
    "stores": "Stores that were started.",
    "stores_failed": "Stores that failed; their blocks stay a miss.",
    "blocks_offered": "Blocks that stores were started for.",
    "blocks_stored": "Blocks that were stored.",
    "blocks_promoted": "Blocks that came from the disk and are stored in the host pool again; they were begun.",
    "tier_blocks_stored": "Blocks that arrived in a tier out of another one's load or store: on the disk, say.",
    "tier_stores_failed": "Stores of that kind that failed.",
    "preempted": "Lives of requests that a preemption ended.",
    "out_of_service": "1 once a broken invariant has taken the connector out of service.",
}
"""Each counter without a code, and what it says."""
CODED: Mapping[str, str] = {
    "load_errors": "What went wrong in loads, by code.",
    "store_errors": "What went wrong in stores, by code.",
}
"""Each that is counted by code."""
CODES = tuple(code.name for code in Code)
"""The values of the label `code`."""
