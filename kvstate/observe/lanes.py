"""Slices that overlap, each in a lane of its own: in the trace-event format a track shows only what nests."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any


class Lanes:
    """Numbers for what overlaps: each gets the lowest that is free, and gives it back."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._used = 0

    def take(self) -> int:
        """The lowest number that nobody has, from 0."""
        if self._free:
            return heappop(self._free)
        self._used += 1
        return self._used - 1

    def give(self, lane: int) -> None:
        """It is free again."""
        heappush(self._free, lane)


@dataclass(slots=True)
class Slice:
    """Something that has begun on a lane."""

    begun: float
    """In seconds."""
    pid: int
    """Its process in the trace, and `track` the word for the track there."""
    track: str
    lane: int
    """Which of the lanes of that track."""
    name: str
    """What stands on it; `cat` is the category by which viewers filter."""
    cat: str
    args: dict[str, Any]
    """What is known of it so far."""
