"""Look for a walk that breaks a law: random walks of a seed, one mix after the other, until the time is over.

No part of Hypothesis: the same seed gives the same walks in every version. What is found is made short, and a little
time is spent on whether there is something shorter still.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from time import monotonic

from kvstate.testing.adapter import Scope
from kvstate.testing.kit.laws import Violation
from kvstate.testing.kit.oracle import Stats
from kvstate.testing.kit.play import Build, Replayed, Step, replay
from kvstate.testing.kit.shrink import WARM, shrink
from kvstate.testing.kit.walks import MIXES, walk

SHORT = 5
"""A counterexample of so many steps is short enough not to look for a shorter one."""
POLISH = 2.0
"""Seconds, at most, that are spent on looking for a shorter one."""
TRIES = 12
"""Walks that break something, at most, that are made short."""

Progress = Callable[[Stats], None]
"""Called after every walk."""


@dataclass
class Search:
    """What was looked at (`stats`, with this `seed`, in this `scope`, for so many `seconds`), and what was found."""

    seed: int
    scope: Scope
    stats: Stats = field(default_factory=Stats)
    seconds: float = 0.0
    laws: Counter[str] = field(default_factory=Counter)
    """Which laws were broken, and in how many walks."""
    steps: list[Step] = field(default_factory=list)
    """The shortest list of steps that breaks one; empty where nothing was found."""
    played: Replayed | None = None
    """That list, played."""

    @property
    def violation(self) -> Violation | None:
        """What it breaks."""
        return self.played.violation if self.played is not None else None


def walks_of(build: Build, search: Search, mixes: Sequence[str]) -> Iterator[tuple[Violation, list[Step]] | None]:
    """Walk for ever, mix by mix; what each walk found."""
    number = 0
    while True:
        for mix in mixes:
            yield walk(build, search.scope, Random(f"{search.seed} {mix} {number}"), mix, search.stats)
        number += 1


def search(
    build: Build,
    scope: Scope | None = None,
    *,
    seed: int = 0,
    seconds: float | None = None,
    steps: int | None = None,
    mixes: Sequence[str] = tuple(MIXES),
    progress: Progress | None = None,
) -> Search:
    """Walk until a law is broken, the seconds have passed, or so many steps were taken; one of the two must be given.

    With `steps` alone the result is the same every time.

    Errors: `AdapterError` if the adapter breaks its protocol, `ValueError` for a search without an end.
    """
    if seconds is None and steps is None:
        raise ValueError("a search without an end: give seconds or steps")
    done = Search(seed, scope or Scope())
    begin = monotonic()
    found: list[tuple[Violation, list[Step]]] = []
    until: float | None = None
    for result in walks_of(build, done, mixes):
        if progress is not None:
            progress(done.stats)
        if result is not None:
            found.append(result)
            done.laws[result[0].law] += 1
            _keep_shorter(build, done, result)
            until = until or monotonic() + POLISH
        now = monotonic()
        if until is not None and (cost(done.steps) <= SHORT or len(found) >= TRIES or now >= until):
            break
        if until is None and seconds is not None and now - begin >= seconds:
            break
        if steps is not None and done.stats.steps >= steps:
            break
    done.seconds = monotonic() - begin
    return done


def cost(steps: Sequence[Step]) -> int:
    """How many steps it is to read; a `warm` is many calls, and counts as the steps that it is made of."""
    return sum(WARM if step[0] == "warm" else 1 for step in steps)


def _keep_shorter(build: Build, done: Search, result: tuple[Violation, list[Step]]) -> None:
    """Make what was found short, and keep it if it is the shortest so far."""
    violation, taken = result
    short = shrink(build, done.scope, taken, violation)
    if done.played is None or cost(short) < cost(done.steps):
        played = replay(build, short, done.scope)
        if played.violation is None:
            # The engine does not do the same twice; say what was seen, with the steps that led to it.
            played.violation = violation
        done.steps, done.played = short, played
