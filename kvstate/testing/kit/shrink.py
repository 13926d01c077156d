"""Make a list of steps short: take steps out, make numbers small, as long as the same law is broken."""

from __future__ import annotations

from kvstate.testing.adapter import Scope
from kvstate.testing.kit.laws import Violation
from kvstate.testing.kit.play import Build, Step, replay

MOST = 3000
"""Replays, at most; a walk of forty steps takes some hundreds."""
FEW = 8
"""A list that stays as short as this is told without `warm`, which is many calls in one step."""


WARM = 6
"""So many steps a `warm` is made of, at least."""


class Shrinker:
    """Shrinks against one law; `steps` is always a list that breaks it."""

    def __init__(self, build: Build, scope: Scope, steps: list[Step], law: str) -> None:
        self.build, self.scope, self.law = build, scope, law
        self.steps = steps
        self.replays = 0

    def shrunk(self) -> list[Step]:
        """The shortest list that is found; taking any one step out of it mends it, unless `MOST` was reached."""
        self._round()
        short = self.steps
        while (warm := next((at for at, step in enumerate(self.steps) if step[0] == "warm"), None)) is not None:
            if not self._expand(warm) or len(self.steps) > FEW:
                return short
        return self.steps

    def _round(self) -> None:
        before: list[Step] | None = None
        while before != self.steps:
            before = self.steps
            self._fewer()
            self._smaller()

    def _breaks(self, steps: list[Step]) -> bool:
        if self.replays >= MOST:
            return False
        self.replays += 1
        played = replay(self.build, steps, self.scope)
        if played.violation is None or played.violation.law != self.law:
            return False
        self.steps = played.steps  # what did nothing is gone with it
        return True

    def _fewer(self) -> None:
        """Chunks first, from half of it down to single steps; the later ones first, since they matter least."""
        size = max(len(self.steps) // 2, 1)
        while size:
            start = len(self.steps) - size
            while start >= 0:
                self._breaks(self.steps[:start] + self.steps[start + size :])
                start = min(start - size, len(self.steps) - size) if start >= size else start - 1
            size //= 2

    def _smaller(self) -> None:
        """Smaller numbers; and of a `warm` that ends at once, the beginning."""
        for at in range(len(self.steps)):
            place = 1
            while at < len(self.steps) and place < len(self.steps[at]):
                for smaller in range(int(self.steps[at][place])):
                    step = (*self.steps[at][:place], smaller, *self.steps[at][place + 1 :])
                    if self._breaks(self._with(at, [step])):
                        break
                place += 1
            if at < len(self.steps) and self.steps[at][0] == "warm":
                self._breaks(self._with(at, [("admit", *self.steps[at][1:])]))

    def _expand(self, at: int) -> bool:
        """Write a `warm` as the steps that it is made of; which request they are about is tried out."""
        copies: list[Step] = [("complete", which) for which in range(self.scope.longest - 1, -1, -1)]
        for which in range(self.scope.requests):
            literal: list[Step] = [
                ("admit", *self.steps[at][1:]), ("run", which), ("offload", which), *copies, ("finish", which),
                ("evict",),
            ]  # fmt: skip
            if self._breaks(self._with(at, literal)):
                self._round()
                return True
        return False

    def _with(self, at: int, steps: list[Step]) -> list[Step]:
        return [*self.steps[:at], *steps, *self.steps[at + 1 :]]


def shrink(build: Build, scope: Scope, steps: list[Step], violation: Violation) -> list[Step]:
    """The steps, made short, that break the same law on a new engine; as they are if they do not break it again."""
    return Shrinker(build, scope, steps, violation.law).shrunk()
