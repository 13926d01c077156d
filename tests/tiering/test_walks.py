"""Random walks through a world of three tiers: right bytes, kept budgets, counted losses, and home in the end."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from tests.long import long_but
from tests.tiering.rig import tier
from tests.tiering.world import LENGTH, PROMPTS, SPACES, TierWorld

TIERS = {
    "through": (tier("host", inflight_blocks=3), tier("disk", inflight_blocks=3, high=0.5, low=0.2)),
    "back": (tier("host"), tier("disk", "back", high=0.5, low=0.2, turn_blocks=2, inflight_blocks=3)),
    "device too": (tier("host", "back", high=0.3, low=0.0, turn_blocks=2), tier("disk", "back", high=0.0, low=0.0)),
    "no host": (tier("host", "off"), tier("disk", inflight_blocks=2)),
    "no promotion": (tier("host", promote=False), tier("disk")),
}
SOME = st.integers(0, 31)


def machine(name: str, *, foreign: bool) -> type[RuleBasedStateMachine]:
    """The rules over one world."""

    class Walk(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.world = TierWorld(TIERS[name], foreign=foreign)

        @rule(space=st.integers(0, len(SPACES) - 1), prompt=st.integers(0, PROMPTS - 1), length=st.integers(1, LENGTH))
        def admit(self, space: int, prompt: int, length: int) -> None:
            self.world.admit(space, prompt, length)

        @rule(number=SOME, count=st.integers(1, 6))
        def copies(self, number: int, count: int) -> None:
            for _ in range(count):
                self.world.copy(number, "done")

        @rule(number=SOME, outcome=st.sampled_from(["failed", "denied", "cancelled", "broken"]))
        def copy_fails(self, number: int, outcome: str) -> None:
            self.world.copy(number, outcome)

        @rule()
        def hear(self) -> None:
            self.world.hear()

        @rule(number=SOME)
        def abort(self, number: int) -> None:
            self.world.abort(number)

        @rule(block=SOME)
        def rot(self, block: int) -> None:
            self.world.rot(block)

        @rule(seconds=st.sampled_from([0.1, 1.0, 5.0, 40.0]))
        def tick(self, seconds: float) -> None:
            self.world.tick(seconds)

        @rule(roll=SOME)
        def reset(self, roll: int) -> None:
            if not roll:
                self.world.reset()

        @invariant()
        def check(self) -> None:
            self.world.hear()
            self.world.check()

        def teardown(self) -> None:
            self.world.home()

    return Walk


def walk(name: str, *, foreign: bool = False, examples: int = 30, steps: int = 40) -> None:
    """Walk that far, that often."""
    calm = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(machine(name, foreign=foreign), settings=calm)


@pytest.mark.parametrize("name", long_but(list(TIERS)[:2], TIERS))
def test_tiers_keep_what_they_promise(name: str) -> None:
    walk(name)


@pytest.mark.parametrize("name", long_but(["back"], ["through", "back", "no host"]))
def test_tiers_below_an_allocator_of_the_engines(name: str) -> None:
    walk(name, foreign=True)


def strolled(name: str, seed: int, steps: int = 400, *, foreign: bool = False) -> TierWorld:
    """A world after so many moves of a seeded walk."""
    dice, world = Random(seed), TierWorld(TIERS[name], foreign=foreign)
    for _ in range(steps):
        move = dice.choices(("admit", "done", "fail", "abort", "rot", "tick"), (8, 20, 1, 1, 1, 2))[0]
        if move == "admit":
            world.admit(dice.randrange(2), dice.randrange(PROMPTS), dice.randint(1, LENGTH))
        elif move == "done":
            world.copy(dice.randrange(32), "done")
        elif move == "fail":
            world.copy(dice.randrange(32), dice.choice(("failed", "denied", "broken")))
        elif move == "tick":
            world.tick(dice.choice((0.1, 1.0)))
        else:
            getattr(world, move)(dice.randrange(32))
        world.hear()
        world.check()
    return world


@pytest.mark.parametrize("foreign", [False, True], ids=["own", "engine"])
def test_walks_get_somewhere(foreign: bool) -> None:
    """Else the walks above would prove nothing: each thing that is counted happens, and loads are delivered."""
    seen: Counter[str] = Counter()
    for name in ("through", "back"):
        for seed in range(4):
            world = strolled(name, seed, foreign=foreign)
            seen["delivered"] += world.delivered
            for pool, counts in world.tiering.counts.items():
                seen.update(
                    {f"{pool}.{one}": getattr(counts, one) for one in ("stored", "failed", "known", "promoted")}
                )
                seen.update({f"{pool}.{one}": getattr(counts, one) for one in ("written_back", "lost")})
                seen.update({f"{pool}.{drop}": count for drop, count in counts.dropped.items()})
            world.home()
    wanted = {"delivered", "host.stored", "disk.stored", "disk.failed", "host.promoted", "disk.written_back"}
    wanted |= {"host.lost", "host.budget", "host.known"}
    assert not {one for one in wanted if not seen[one]}, seen
