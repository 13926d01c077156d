"""The same search by Hypothesis: it chooses the moves and their numbers, a rule for each move.

Only this file needs Hypothesis. What it finds is made short by the kit itself, which knows what a step means and is
quicker at it, and is told in the same way: the counterexample can be replayed where Hypothesis is not installed.
"""

from __future__ import annotations

import importlib.util
from typing import Any

from kvstate.testing.adapter import Scope
from kvstate.testing.kit.laws import AdapterError, Found
from kvstate.testing.kit.play import VERBS, Build, Play, Step, replay
from kvstate.testing.kit.search import Search
from kvstate.testing.kit.shrink import shrink
from kvstate.testing.kit.walks import MIXES, largest

EXAMPLES = 100
"""How many, where nothing is said."""
LENGTH = 40
"""Steps of one example, at most."""
NEEDED = "the search by Hypothesis needs hypothesis, which is not installed: pip install hypothesis"
"""What to do where it is missing."""


def installed() -> bool:
    """Is Hypothesis there?"""
    return importlib.util.find_spec("hypothesis") is not None


def by_hypothesis(
    build: Build,
    scope: Scope | None = None,
    *,
    mix: str = "balanced",
    examples: int = EXAMPLES,
    derandomize: bool = True,
) -> Search:
    """Let Hypothesis look for steps that break a law; the same ones every time unless `derandomize` is off.

    No database, no deadline, no health checks. Raises `AdapterError` with one sentence if Hypothesis is missing or the
    adapter breaks its protocol.
    """
    try:
        from hypothesis import HealthCheck, Phase, Verbosity, settings
        from hypothesis.stateful import run_state_machine_as_test
    except ImportError:
        raise AdapterError(NEEDED) from None
    done = Search(0, scope or Scope())
    failed: list[tuple[Found, list[Step]]] = []
    calm = settings(
        max_examples=examples,
        stateful_step_count=LENGTH,
        deadline=None,
        database=None,
        derandomize=derandomize,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
        print_blob=False,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    try:
        run_state_machine_as_test(_machine(build, done, mix, failed), settings=calm)
    except Found:
        found, taken = failed[-1]
        done.laws[found.violation.law] += 1
        done.steps = shrink(build, done.scope, taken, found.violation)
        done.played = replay(build, done.steps, done.scope)
        if done.played.violation is None:
            done.played.violation = found.violation
    return done


def _machine(build: Build, done: Search, mix: str, failed: list[tuple[Found, list[Step]]]) -> Any:
    """A class with a rule for each move; the likelier a move is in the mix, the more rules it has."""
    from hypothesis import strategies as st
    from hypothesis.stateful import RuleBasedStateMachine, rule

    numbers = st.integers(0, largest(done.scope))

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            done.stats.walks += 1
            self.world = Play(build, done.scope, done.stats)
            self.taken: list[Step] = []
            self.broken = False

        def step(self, step: Step) -> None:
            self.taken.append(step)
            try:
                if not self.world.do(step):
                    self.taken.pop()
            except Found as found:
                self.note(found)
                raise
            self.world.said.clear()

        def teardown(self) -> None:
            if self.broken:
                return
            try:
                self.world.rest()
            except Found as found:
                self.note(found)
                raise

        def note(self, found: Found) -> None:
            self.broken = True
            failed.append((found, self.taken))

    def rule_for(verb: str) -> Any:
        def move(self: Machine, first: int, second: int) -> None:
            self.step((verb, *(first, second)[: VERBS[verb]]))

        return rule(first=numbers, second=numbers)(move)

    for verb in Play(build, done.scope).verbs():
        for copy in range(1 + MIXES[mix][verb] // 4):
            setattr(Machine, f"{verb}_{copy}", rule_for(verb))
    return Machine
