"""What the loop hands to other threads: numbers of one moment, frozen."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

BOUNDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds: the upper bounds of the buckets in which copies are counted; the last bucket has none."""


class Durations:
    """How long things took: a sum, and how many were in each bucket of `BOUNDS`."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        """How many took no longer than the bound at this place, and longer than the one before."""
        self.seconds = 0.0
        """All of them together."""

    def add(self, seconds: float) -> None:
        """One more."""
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


class Snapshot(NamedTuple):
    """All numbers of one moment; nothing in it changes any more."""

    at: float
    """When it was taken, in seconds of `time.monotonic`."""
    counts: Mapping[str, Mapping[tuple[str, ...], float]]
    """What only grows: by name, and by the values of its labels."""
    durations: Mapping[tuple[str, ...], tuple[tuple[int, ...], float]]
    """By direction and pool: copies in each bucket, and seconds in all."""
    levels: Mapping[str, Mapping[tuple[str, ...], float]]
    """What goes up and down: by name, and by the values of its labels."""


EMPTY: Final[Snapshot] = Snapshot(float("-inf"), MappingProxyType({}), MappingProxyType({}), MappingProxyType({}))
"""Before the first turn."""
