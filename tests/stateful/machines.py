"""Rule machines of Hypothesis: it chooses the moves and every choice within them, and shrinks what fails.

Every move is a rule, and total: it does nothing where it does not apply, so a walk stays one whatever is taken out of
it. A move takes its choices from numbers that Hypothesis owns, so they shrink with it. What has failed is printed as
moves of our own (`World.log`) as well, to be kept in `tests/stateful/walks`.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.stateful.base import Dice, Scope
from tests.stateful.world import World

Make = Any
"""Makes a world from a source of choices and a scope."""


def calm(examples: int, steps: int) -> settings:
    """The settings of a machine. Many more walks than a test can afford are those of `make soak`."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )


def machine(make: Make, scope: Scope, mix: str) -> type[RuleBasedStateMachine]:
    """A machine over one world; the likelier a move is in the mix, the more rules it has."""

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.world: World = make((), scope)
            self.broken = False

        def do(self, name: str, random: Random) -> None:
            self.world.dice = Dice(random)
            try:
                self.world.rest() if name == "rest" else self.world.move(name)
            except BaseException:
                self.broken = True
                note("walk: " + "; ".join(self.world.log))
                raise

        def teardown(self) -> None:
            if not self.broken:
                self.do("rest", Random(0))
            self.world.close()

    def of(name: str) -> Any:
        def move(self: Machine, random: Random) -> None:
            self.do(name, random)

        move.__name__ = name
        return rule(random=st.randoms(use_true_random=False))(move)

    weights = World.moves(mix) if make is World else make.moves(mix)
    least = max(min(weights.values()), 1)
    for name, weight in weights.items():
        for copy in range(min(1 + weight // (3 * least), 4)):
            setattr(Machine, f"{name}_{copy}" if copy else name, of(name))
    Machine.__name__ = Machine.__qualname__ = f"{getattr(make, '__name__', 'Broken')}Machine"
    return Machine


def run(make: Make, scope: Scope, mix: str, examples: int, steps: int, **changes: Any) -> None:
    """Run a machine; raises what a law says of the shortest walk that breaks it."""
    run_state_machine_as_test(machine(make, scope, mix), settings=settings(calm(examples, steps), **changes))
