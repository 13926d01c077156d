"""One engine in play: steps by name, what is asked of it in the end, and the replay of a list of steps.

A step is a verb and small numbers: `("land", 1)` is the second of the copies that can land. What numbers mean is in
`scheduler` and `hardware`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from kvstate.testing.adapter import Adapter, Scope
from kvstate.testing.kit.copier import Yard
from kvstate.testing.kit.hardware import Hardware
from kvstate.testing.kit.laws import Found, Violation

Step = tuple[str | int, ...]
"""A verb and its numbers."""
Build = Callable[[Scope, Yard], Adapter]
"""An adapter's class, or whatever builds one."""

VERBS = {
    "admit": 2, "again": 1, "run": 1, "dispatch": 1, "retire": 0, "offload": 1, "finish": 1, "abort": 1, "preempt": 1,
    "abort_again": 1, "evict": 0, "warm": 2, "reset": 0, "complete": 1, "land": 1, "deliver": 1, "fail": 2,
    "timeout": 1, "twice": 1, "stop": 1, "lose": 1, "fence": 0, "refuse": 0, "corrupt": 1, "tick": 1,
}  # fmt: skip
"""Every verb, and how many numbers it takes."""
COPIES = (
    "offload",
    "warm",
    "complete",
    "land",
    "deliver",
    "fail",
    "timeout",
    "stop",
    "lose",
    "fence",
    "refuse",
    "corrupt",
)
"""Those that are about copies."""
AT_THE_END = "at the end"
"""Stands for a step in what is told of the rest."""
LONG = 100.0
"""Seconds; longer than any deadline that an engine in a test should have."""
ROUNDS = 20
"""So often everything is answered before copies count as endless."""


class Play(Hardware):
    """See the module.

    Errors: `Found` with the first law that is broken.
    """

    def do(self, step: Step) -> bool:
        """Take one step; False if it did not apply and nothing happened. Raises `Found`."""
        verb, *numbers = step
        done: bool = getattr(self, str(verb))(*numbers)
        self.stats.steps += done
        return done

    def take_said(self) -> list[str]:
        """What has happened since the last time, a line each."""
        said, self.said = self.said, []
        return said

    def verbs(self) -> list[str]:
        """The verbs that can ever apply to this engine."""
        engine, faults = self.engine, set(self.engine.faults)
        needed = {
            "dispatch": engine.steps, "retire": engine.steps, "reset": engine.resets,
            "fail": bool(faults & {"failed", "denied", "broken"}), "timeout": "timeout" in faults,
            "twice": "twice" in faults, "lose": "lost" in faults, "fence": "lost" in faults,
            "refuse": "refused" in faults, "corrupt": "corrupt" in faults,
        }  # fmt: skip
        return [verb for verb in VERBS if needed.get(verb, True) and (engine.loads or verb not in COPIES)]

    # -- the end -------------------------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Answer everything, let time pass, end all requests: nobody may wait, nothing may be left (L7, L8, L11)."""
        self.yard.refuse = False
        while self.memory.steps:
            self._retire()
        self.answer_all()
        for _ in range(3):
            self.pass_time(LONG)
            if "lost" in self.engine.faults:
                self.fence()
            self.answer_all()
        self._nobody_waits()
        self.end_all()
        self.probe()
        for work in self.yard.untold:
            raise Found("L1.verdict_once", f"nobody was told how work {work!r} ended, and every copy has been answered")
        for sentence in self.call("close"):
            raise Found("L11.rest", sentence)

    def _nobody_waits(self) -> None:
        for request in self.requests.values():
            if request.view.waiting:
                raise Found("L7.wait", f"{request.name} waits for a load, and every copy has been answered")

    def answer_all(self) -> None:
        """Every step ends, everything lands and is reported, the oldest first."""
        for _ in range(ROUNDS):
            while self.memory.steps:
                self._retire()
            for flight in [flight for flight in self.memory.flights if not flight.lost]:
                while self.memory.steps and not flight.landed and not self.memory.may_land(flight):
                    self._retire()
                if not flight.over:
                    self._finish_copy(flight)
        for flight in self.memory.flights:
            if not flight.lost:
                raise Found("L11.rest", f"after {ROUNDS} rounds in which all was answered, {flight} is under way")

    def end_all(self) -> None:
        """What runs is computed, read and finished."""
        while self.requests:
            if not self.run(0):
                self.answer_all()
                self._nobody_waits()
            elif self.requests:
                self.finish(0)
        self.answer_all()

    def probe(self) -> None:
        """All can be had, and every prompt can be served."""
        self.all_free("everything has ended and was answered")
        size = self.scope.device
        if not self._fill("probe", size):
            raise Found("L8.leak", f"everything has ended, and no request can have {size} of the {size} device blocks")
        for chain in range(self.scope.chains):
            keys = self.keys(chain, self.scope.longest - 1)
            for _ in range(3):
                self._begin(f"probe {keys[0]}", keys, again=False)
                self.answer_all()
                if self.requests:
                    break
                self.pass_time(LONG)
            if not self.requests:
                raise Found("L7.wait", f"nothing else is running, and no request with {' '.join(keys)} is admitted")
            self._nobody_waits()
            self.end_all()
        self.all_free("prompts were served once more, all has ended")

    def all_free(self, when: str) -> None:
        """What can be had at once is all there is."""
        free = self.call("free")
        if free.device != self.scope.device:
            raise Found("L8.leak", f"{when}, and free() says {free.device} of {self.scope.device} device blocks")
        if free.host is not None and free.host != self.scope.host:
            raise Found("L8.leak", f"{when}, and free() says {free.host} of {self.scope.host} host slots")


@dataclass
class Replayed:
    """What came of a list of steps."""

    violation: Violation | None
    """The first law that was broken, if any."""
    steps: list[Step] = field(default_factory=list)
    """Those that did something, up to the violation."""
    told: list[tuple[str, list[str]]] = field(default_factory=list)
    """Step by step: how it is written, and what happened."""

    @property
    def in_the_end(self) -> bool:
        """Was it found only when all came to rest?"""
        return bool(self.told) and self.told[-1][0] == AT_THE_END


def written(step: Step) -> str:
    """`land 1`."""
    return " ".join(map(str, step))


def checked(steps: Iterable[Sequence[str | int]]) -> list[Step]:
    """The steps as tuples. Raises `ValueError` with a sentence for what is none."""
    found: list[Step] = []
    for number, step in enumerate(steps, start=1):
        verb, *numbers = step
        if verb not in VERBS:
            raise ValueError(f"step {number}: there is no {verb!r}; there are {', '.join(VERBS)}")
        if len(numbers) != VERBS[str(verb)] or any(type(one) is not int or one < 0 for one in numbers):
            raise ValueError(f"step {number}: {verb} takes {VERBS[str(verb)]} whole numbers from 0 up, not {numbers}")
        found.append(tuple(step))
    return found


def replay(build: Build, steps: Iterable[Sequence[str | int]], scope: Scope | None = None) -> Replayed:
    """Play these steps on a new engine, then bring it to rest; ends with the first law that is broken.

    Needs nothing but the engine: the same steps give the same story, every time. Raises `AdapterError` if the adapter
    does not keep to its protocol, and `ValueError` for a step that is none.
    """
    played = Replayed(None)
    world = Play(build, scope or Scope())
    try:
        for step in checked(steps):
            played.steps.append(step)
            played.told.append((written(step), world.said))
            if not world.do(step):
                played.steps.pop()
                played.told.pop()
            world.said = []
        played.told.append((AT_THE_END, world.said))
        world.rest()
    except Found as found:
        played.violation = found.violation
    return played
