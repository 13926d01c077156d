"""The ladder: every check that may kill a mutant, tried from the cheapest to the dearest until one does.

What a rung costs was measured, and that decides the order: rules and laws of rows take milliseconds, z3, a scenario, a
walk and the beginning of a scope a tenth of a second or two, theorems seconds, a scope to its end many. So the
explorer looks only a little way beyond the state where the row first fires. What nothing kills is held against what
ships in lockstep, all such mutants at once, to the end of every scope that fires the row; and where the state graph is
another one, the explorer looks once more.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from types import FrameType

from kvstate.explore.scopes import SCOPES
from kvstate.explore.stage import Rules
from kvstate.mutation import checkout, planted, static, unfired
from kvstate.mutation.baseline import Baseline, rows_of
from kvstate.mutation.graph import firing, look
from kvstate.mutation.kills import Kill, Means, Result
from kvstate.mutation.lockstep import SAME, Asked
from kvstate.mutation.mutants import Mutant
from kvstate.spec.model import Machine, Spec

NEAR = 300
"""A row that first fires after more states than this is not looked for the first time."""
BEYOND = 120
"""So many states beyond the first time that it fires are looked at then."""
SCOPES_NEAR = 2
"""And in no more scopes than this."""
PATIENCE = 600
"""So many states beyond the first difference a law is looked for that may be broken by it."""
WALKS = 12
"""So many walks are tried, those that fire the row most often."""
MORE_WALKS = 200
"""And so many for a row that fires in no scope."""
AGAIN = 6000
"""States in which a law is looked for that was seen broken in the scope before."""
SAME_GRAPH = "identical state graph in "
"""Then the scopes that fire the row."""
EQUAL = "z3: the same row wherever the invariants of its states hold"
"""Why such a mutant is harmless."""
SECONDS = 60.0
"""Of the processor's time, which a single check may take; one that takes longer goes round in a circle."""


class _Stuck(BaseException):
    """A check does not end. No `Exception`, so that no door of a ledger takes it for its own."""


@dataclass(frozen=True)
class Ladder:
    """What mutants of `spec` are held against: what is known of it (`base`, if it is) and the checkout `around` it."""

    spec: Spec
    base: Baseline | None
    around: checkout.Checkout

    def at_once(self, mutant: Mutant, hint: Kill | None = None) -> Result | None:
        """What becomes of it, if the data alone says so, or `hint`, a check that has killed it before.

        None if neither does. Needs no baseline.
        """
        if self._equal(mutant):
            return Result.of(mutant, (), "harmless", EQUAL)
        asked = self._static(mutant) if hint is None else self._again(mutant, hint)
        kills = [kill for kill in islice(asked, 1) if kill.means != "count"]
        return Result.of(mutant, tuple(kills), "killed") if kills else None

    def judge(self, mutant: Mutant, *, every: bool = False) -> Result | None:
        """What becomes of it: the first kill, or all of them with `every`. None if nothing kills it so far.

        Then it has to be held against what ships in lockstep; see `left` and `finish`.
        """
        if self._equal(mutant):
            return Result.of(mutant, (), "harmless", EQUAL)
        kills: list[Kill] = []
        for kill in self._kills(mutant):
            kills += [kill] if kill not in kills else []
            if not every:
                break
        return Result.of(mutant, tuple(kills), "killed") if kills else None

    def asked(self, mutant: Mutant, scope: str) -> Asked | None:
        """The mutant as it goes along in lockstep; None if it is known that its row does not fire in this scope."""
        rows = rows_of(self.spec, mutant)
        reach = self.base.reach.get(scope) if self.base is not None else None
        return None if reach is not None and not reach.first.keys() & set(rows) else Asked(mutant, rows)

    def finish(self, mutant: Mutant, seen: Mapping[str, int]) -> Result:
        """What becomes of one that nothing killed; `seen` is what lockstep says of each scope (see `differing`).

        Where its graph is another, a law is looked for some way beyond. If none is broken there, the graph itself is
        what notices it.
        """
        rules = planted.rules(mutant)
        differs = {name: known for name, known in seen.items() if known != SAME}
        for name, known in sorted(differs.items(), key=lambda one: one[1]):
            for kill in self._in_scope(name, rules, known + PATIENCE):
                return Result.of(mutant, (kill,), "killed")
        if differs:
            kills = [Kill("count", f"{name}: another state graph") for name in sorted(differs)]
            return Result.of(mutant, tuple(kills[:1]), "killed")
        if seen:
            return Result.of(mutant, (), "harmless", SAME_GRAPH + ", ".join(sorted(seen)))
        reason = "" if self._fires(mutant) else unfired.why(self.spec, mutant)
        if reason:
            return Result.of(mutant, (), "harmless", reason)
        return Result.of(mutant, (), "survived", "no scope reaches it")

    def _fires(self, mutant: Mutant) -> bool:
        """Does anything that was tried fire its row? Where nothing is known of what ships, nothing was tried."""
        rows, base = self._rows(mutant), self.base
        return base is not None and bool(firing(base.reach, rows) or base.scenarios_of(rows) or base.walks_of(rows, 1))

    @property
    def known(self) -> Baseline:
        """The baseline, where there has to be one."""
        assert self.base is not None
        return self.base

    def _equal(self, mutant: Mutant) -> bool:
        return not mutant.coupled and static.equal(mutant, self.spec.machine(mutant.machine))

    def _kills(self, mutant: Mutant) -> Iterator[Kill]:
        yield from self._static(mutant)
        rules, rows, base = planted.rules(mutant), self._rows(mutant), self.known
        scopes = firing(base.reach, rows)
        for first, name in scopes[:SCOPES_NEAR]:
            if first <= NEAR:
                yield from self._in_scope(name, rules, first + BEYOND)
        for name in base.scenarios_of(rows):
            yield from _ended("scenario", name, partial(self.around.by_scenario, name, rules))
        for walk in base.walks_of(rows, WALKS if scopes else MORE_WALKS):
            yield from _ended("walk", str(walk), partial(self.around.by_walk, walk, rules))
        yield from static.by_theorem(mutant, static.theorems_about(mutant, base.read))

    def _rows(self, mutant: Mutant) -> tuple[str, ...]:
        return rows_of(self.spec, mutant)

    def _static(self, mutant: Mutant) -> Iterator[Kill]:
        shipped: Machine | None = None if mutant.coupled else self.spec.machine(mutant.machine)
        yield from static.by_loader(mutant)
        yield from static.by_rows(mutant)
        yield from static.by_z3(mutant, shipped)

    def _in_scope(self, name: str, rules: Rules, most: int) -> Iterator[Kill]:
        def search() -> Iterator[Kill]:
            try:
                broken = look(SCOPES[name], rules, most)
            except Exception as error:
                yield Kill("explorer", f"{name}: {type(error).__name__} in the world")
                return
            if broken is not None:
                yield Kill("explorer", name, checkout.POISONED if broken.law.startswith("fatal") else broken.law)

        yield from _ended("explorer", name, search)

    def _again(self, mutant: Mutant, hint: Kill) -> Iterator[Kill]:
        """Ask the check that has killed it before. Nothing, if there is no such check any more."""
        name = hint.what.partition(":")[0]
        match hint.means:
            case "loader" | "z3" | "rows":
                yield from self._static(mutant)
            case "theorem":
                yield from static.by_theorem(mutant, [name])
            case "explorer" if name in SCOPES:
                yield from self._in_scope(name, planted.rules(mutant), AGAIN)
            case "scenario" if name in self.around.scenarios:
                yield from _ended("scenario", name, lambda: self.around.by_scenario(name, planted.rules(mutant)))
            case "walk":
                walk = checkout.Walk.of(name)
                yield from _ended("walk", name, lambda: self.around.by_walk(walk, planted.rules(mutant)))
            case _:
                return


def _ended(means: Means, what: str, check: Callable[[], Iterable[Kill]]) -> Iterator[Kill]:
    """What the check says; a kill, too, if it does not come to an end."""
    try:
        with _within(SECONDS):
            found = list(check())
    except _Stuck:
        found = [Kill(means, f"{what}: goes on without end")]
    yield from found


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    def stop(_: int, __: FrameType | None) -> None:
        raise _Stuck

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
