"""Timing by turns, and the lines that come of it.

A shared machine is now fast and now slow. Two things that are timed by turns are slowed alike, so the ratio of one turn
is worth more than the ratio of two medians: `versus` takes the median of the turns' ratios, and says how far they lie
apart.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter_ns
from typing import Literal

Sense = Literal["at least", "at most", "below", ""]


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured; `quick` gives figures to look at, `tiny` only shows that all of it runs."""

    name: str
    turns: int
    events: int
    """Events of a table in one turn; of `transitions` a twentieth of it."""
    blocks: int
    """Blocks that one turn of a ledger handles, at least."""
    steps: int
    """Simulated compute steps."""
    memory_blocks: int


FULL = Size("full", turns=15, events=40_000, blocks=2_048, steps=1_000, memory_blocks=1_000_000)
QUICK = Size("quick", turns=5, events=10_000, blocks=512, steps=200, memory_blocks=100_000)
TINY = Size("tiny", turns=2, events=400, blocks=256, steps=5, memory_blocks=2_000)


@dataclass(frozen=True, slots=True)
class Spread:
    """A median, and the lowest and highest of what it is the median of."""

    median: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the result: what was measured, and what it was to be."""

    name: str
    unit: str
    """`x` for a ratio, else a unit: ns, us, ms, bytes."""
    measured: Spread | None
    """None where there is nothing to measure; `note` says why."""
    sense: Sense = ""
    target: float | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Is the target met by the median? None where there is no target or nothing was measured."""
        if self.target is None or self.measured is None:
            return None
        value = self.measured.median
        match self.sense:
            case "at least":
                return value >= self.target
            case "below":
                return value < self.target
            case _:
                return value <= self.target


def spread(values: Sequence[float]) -> Spread:
    """The median of these and how far they lie apart."""
    return Spread(median(values), min(values), max(values), len(values))


def scaled(values: Spread, factor: float) -> Spread:
    """The same in another unit."""
    return Spread(values.median * factor, values.low * factor, values.high * factor, values.count)


def share(values: Sequence[float], part: float) -> float:
    """The value below which that part of the values lies (0.99: the 99th percentile)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


Timed = Callable[[], float]
"""Does a turn's work and returns nanoseconds per unit (event, block, life)."""


def timed(work: Callable[[], object], units: int) -> Timed:
    """`work` handles that many units; a turn of it is timed as a whole."""

    def turn() -> float:
        start = perf_counter_ns()
        work()
        return (perf_counter_ns() - start) / units

    return turn


@dataclass(frozen=True, slots=True)
class Versus:
    """Nanoseconds per unit of each of two things, and the ratio of the second to the first, turn by turn."""

    first: Spread
    second: Spread
    ratio: Spread


def versus(first: Timed, second: Timed, turns: int) -> Versus:
    """Time both by turns, after one turn of each that does not count."""
    assert gc.isenabled(), "the bench measures with the garbage collector on"
    first()
    second()
    pairs = [(first(), second()) for _ in range(turns)]
    return Versus(
        spread([one for one, _ in pairs]),
        spread([other for _, other in pairs]),
        spread([other / one for one, other in pairs]),
    )
