"""Random walks: which moves are likely, and a walk of a seed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from kvstate.testing.adapter import Scope
from kvstate.testing.kit.laws import Found, Violation
from kvstate.testing.kit.oracle import Stats
from kvstate.testing.kit.play import VERBS, Build, Play, Step

BALANCED = {
    "admit": 10, "again": 4, "run": 8, "dispatch": 4, "retire": 4, "offload": 8, "finish": 4, "abort": 2, "preempt": 2,
    "abort_again": 1, "evict": 3, "warm": 4, "reset": 1, "complete": 8, "land": 5, "deliver": 5, "fail": 2,
    "timeout": 1, "twice": 1, "stop": 2, "lose": 1, "fence": 1, "refuse": 1, "corrupt": 2, "tick": 3,
}  # fmt: skip
"""A little of everything: weights by verb."""
MIXES = {
    "balanced": BALANCED,
    "abort-heavy": BALANCED | {"abort": 8, "preempt": 6, "again": 8, "abort_again": 3, "land": 8, "complete": 4},
    "reuse-heavy": BALANCED | {"admit": 16, "evict": 8, "finish": 8, "warm": 8, "complete": 4, "deliver": 3},
    "fault-heavy": BALANCED | {"fail": 8, "timeout": 4, "twice": 6, "lose": 3, "fence": 2, "refuse": 4, "corrupt": 5},
}
"""How often what happens, by the name of the mix."""
ALWAYS = ("admit", "run", "complete")
"""What no walk is without."""
LENGTH = 40
"""Steps of one walk, those that do not apply among them."""
LARGEST = 3
"""The largest number of a step, where nothing that is counted is larger."""


def largest(scope: Scope) -> int:
    """The largest number that a step needs in an engine of that size."""
    return max(LARGEST, scope.longest - 1, scope.chains - 1, scope.requests - 1)


def weights(mix: str, random: Random, verbs: Sequence[str]) -> tuple[list[str], list[int]]:
    """Verbs and weights of one walk; a different part of the mix is left out or made likely in each."""
    swarm = [(verb, MIXES[mix][verb] * random.choice((0, 1, 1, 1, 4))) for verb in verbs]
    always = [(verb, 2) for verb in ALWAYS if verb in verbs]
    names, chances = zip(*swarm, *always, strict=True)
    return list(names), list(chances)


def walk(
    build: Build, scope: Scope, random: Random, mix: str = "balanced", stats: Stats | None = None, length: int = LENGTH
) -> tuple[Violation, list[Step]] | None:
    """One walk on a new engine, and its rest; the violation and the steps that led to it, or None."""
    stats = stats or Stats()
    stats.walks += 1
    world = Play(build, scope, stats)
    names, chances = weights(mix, random, world.verbs())
    most = largest(scope)
    taken: list[Step] = []
    try:
        for verb in random.choices(names, chances, k=length):
            step: Step = (verb, *(random.randint(0, most) for _ in range(VERBS[verb])))
            taken.append(step)
            if not world.do(step):
                taken.pop()
            world.said.clear()
        world.rest()
        stats.mark(world.call("counted"))
    except Found as found:
        return found.violation, taken
    return None
