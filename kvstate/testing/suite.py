"""A class of tests to subclass: the kit on your engine, as part of your own pytest run.

    from kvstate.testing.suite import KVStateSuite

    class TestMyEngine(KVStateSuite):
        adapter = MyAdapter

Needs pytest; the test by Hypothesis is skipped where Hypothesis is missing. A test that fails tells the shortest
sequence of steps that it found, and writes it as a test of its own where `out` says.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from kvstate.testing.adapter import Adapter, Scope
from kvstate.testing.kit.hypo import by_hypothesis, installed
from kvstate.testing.kit.oracle import Stats
from kvstate.testing.kit.search import Search, search
from kvstate.testing.kit.story import literal, story, write
from kvstate.testing.kit.walks import MIXES

LIKE_OWN = "compare the adapter with examples/naive_engines/tiny.py"
"""What to do when the walks get nowhere."""


class KVStateSuite:
    """See the module. What stands here can be set in the subclass."""

    adapter: ClassVar[type[Adapter] | None] = None
    """The engine."""
    scope: ClassVar[Scope] = Scope()
    """How large it is built."""
    seed: ClassVar[int] = 0
    """Of the walks."""
    steps: ClassVar[int] = 2000
    """Moves for each mix; some two thousand to twenty thousand take a second, if the engine is quick."""
    examples: ClassVar[int] = 60
    """Examples of Hypothesis for each mix; 0 is none."""
    out: ClassVar[Path | None] = None
    """A folder for the counterexample: the sequence, a record, and a test."""

    @pytest.mark.parametrize("mix", MIXES)
    def test_no_walk_breaks_a_law(self, mix: str) -> None:
        """Random walks of the seed."""
        self._judge(search(self._built(), self.scope, seed=self.seed, steps=self.steps, mixes=[mix]))

    @pytest.mark.parametrize("mix", MIXES)
    def test_hypothesis_breaks_no_law(self, mix: str) -> None:
        """Examples that Hypothesis chooses."""
        if not self.examples or not installed():
            pytest.skip("hypothesis is not installed" if self.examples else "examples is 0")
        self._judge(by_hypothesis(self._built(), self.scope, mix=mix, examples=self.examples))

    def test_the_walks_get_somewhere(self) -> None:
        """A kit that never sees a copy proves nothing of copies."""
        adapter = self._built()
        done = search(adapter, self.scope, seed=self.seed, steps=self.steps)
        missing = sights(adapter, done.stats)
        if missing and done.violation is None:
            pytest.fail("; ".join(missing) + f"; {LIKE_OWN}", pytrace=False)

    def _built(self) -> type[Adapter]:
        if self.adapter is None:
            pytest.fail(f"{type(self).__name__} names no adapter; write adapter = MyAdapter into it", pytrace=False)
        return self.adapter

    def _judge(self, done: Search) -> None:
        if done.played is None:
            return
        adapter = self._built()
        name = f"{adapter.__module__}:{adapter.__qualname__}"
        told = [story(done.played), "", "STEPS = [", *(f"    {literal(step)}," for step in done.steps), "]"]
        if self.out is not None:
            written = write(self.out, name, done.steps, self.scope, done.played)
            told.append(f"written: {', '.join(map(str, written))}")
        pytest.fail("\n".join(told), pytrace=False)


def sights(adapter: type[Adapter], stats: Stats) -> list[str]:
    """What no walk has come to, a sentence each with what may be the reason."""
    seen = stats.counts
    missing: list[str] = []
    if not seen["hits"]:
        missing.append("no request ever found a block that was ready: is what compute() fills kept for others?")
    if adapter.loads and not seen["store"]:
        missing.append("no copy was ever stored: does offload() call the copier?")
    if adapter.loads and not seen["load"]:
        missing.append("no copy was ever loaded: does admit() look below the device? If it can't, set loads = False")
    return missing
