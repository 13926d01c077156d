"""The search: breadth-first from the beginning of a scope, every move in every state, each state once."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kvstate.explore.home import comes_home, late_reports
from kvstate.explore.matter import LawBroken
from kvstate.explore.moves import WORLD, Move, System
from kvstate.explore.scopes import Scope
from kvstate.explore.stage import Rules

Progress = Callable[[int, int, int], None]
"""Told now and then how many states are known, how many of them are still to be looked at, and how deep it is."""
EVERY = 500
"""States between two words of progress."""


class Counterexample(NamedTuple):
    """A law, how it was seen broken, and the shortest way there."""

    law: str
    sentence: str
    """What was seen, with the values."""
    moves: tuple[Move, ...]
    """From the beginning."""
    home: bool
    """Is it only seen on the way home from there?"""


@dataclass(slots=True)
class Explored:
    """What came of a search."""

    scope: Scope
    """What was searched."""
    states: int = 1
    """Different states that were reached and looked at."""
    transitions: int = 0
    """Moves that were made from them, those that changed nothing included."""
    depth: int = 0
    """Moves to the state that is farthest from the beginning, the scope's prefix not counted."""
    frontier: int = 0
    """States from which no move was made; 0 says that the scope was searched to its end."""
    fired: dict[str, int] = field(default_factory=dict)
    """How often each row has fired, by id, on moves and on the ways home."""
    broken: Counterexample | None = None

    @property
    def finished(self) -> bool:
        """Was everything in the scope seen?"""
        return self.broken is None and self.frontier == 0


def explore(
    scope: Scope,
    rules: Rules | None = None,
    *,
    max_states: int | None = None,
    depth: int | None = None,
    home: bool = True,
    progress: Progress = lambda *_: None,
) -> Explored:
    """Search the scope, up to so many states and so deep (`None`: as the scope says), until a law is broken.

    With `home` false nothing is brought to rest, which is quicker, and law L11 is not looked at.
    """
    search = _Search(scope, rules or Rules(), scope.depth if depth is None else depth, home)
    collects = gc.isenabled()
    gc.disable()  # nothing here makes circles of references, and looking for them costs a tenth of the time
    try:
        search.run(max_states, progress)
    finally:
        if collects:
            gc.enable()
    return search.found


class _Search:
    """One search. States are known by digest; only those that are still to be looked at are kept whole."""

    def __init__(self, scope: Scope, rules: Rules, deepest: int | None, home: bool) -> None:
        self.system = System(scope, rules)
        self.found = Explored(scope)
        self.deepest = deepest
        self.home = home
        self.known: dict[bytes, int] = {}
        self.came: list[tuple[int, Move]] = []
        """By state: the one it was reached from, and the move."""
        self.depths: list[int] = []
        self.onward: list[list[int]] = []
        """By state: where the moves of hardware and clock lead from it."""

    def run(self, most: int | None, progress: Progress) -> None:
        """Search until nothing is new, a law is broken, or there are so many states."""
        queue: deque[tuple[int, bytes]] = deque()
        saved = self._begin()
        if saved is not None:
            queue.append((0, saved))
        while queue and self.found.broken is None:
            if most is not None and len(self.came) >= most:
                break
            if self.deepest is not None and self.depths[queue[0][0]] >= self.deepest:
                break
            number, saved = queue.popleft()
            self._from(number, saved, queue)
            if not number % EVERY:
                progress(len(self.came), len(queue), self.depths[number])
        self.found.frontier = len(queue)
        self.found.states = len(self.came)
        self.found.depth = max(self.depths, default=0)
        self.found.fired = self.system.ledger.fired()
        if self.found.finished:
            self._no_endless_way()

    def _begin(self) -> bytes | None:
        """Make the moves of the scope's prefix, and enter the state that they lead to. None if a law is broken."""
        for made, move in enumerate(self.system.scope.prefix, 1):
            try:
                self.system.do(move)
                self.system.look()
            except LawBroken as law:
                name, _, sentence = str(law).partition(": ")
                self.found.broken = Counterexample(name, sentence, self.system.scope.prefix[:made], False)
                return None
        return self._enter(self.system.digest(), -1, ())

    def _from(self, number: int, saved: bytes, queue: deque[tuple[int, bytes]]) -> None:
        """Make every move from this state."""
        system = self.system
        system.restore(saved)
        for place, move in enumerate(system.moves()):
            if place:
                system.restore(saved)
            self.found.transitions += 1
            try:
                system.do(move)
            except LawBroken as law:
                self._break(law, number, move)
                return
            key = self.system.digest()
            target = self.known.get(key)
            if target is None:
                target = len(self.came)
                kept = self._enter(key, number, move)
                if kept is None:
                    return
                queue.append((target, kept))
            if move[0] in WORLD and target != number:
                self.onward[number].append(target)

    def _enter(self, key: bytes, source: int, move: Move) -> bytes | None:
        """A new state: look at it, save it, bring it home. None if a law is broken in it."""
        system, number = self.system, len(self.came)
        self.known[key] = number
        self.came.append((source, move))
        self.depths.append(self.depths[source] + 1 if source >= 0 else 0)
        self.onward.append([])
        try:
            system.look()
        except LawBroken as law:
            self._break(law, number, None)
            return None
        saved = system.save()
        try:
            late_reports(system, key)
            if self.home:
                comes_home(system)
        except LawBroken as law:
            self._break(law, number, None, home=True)
            return None
        return saved

    def _break(self, law: LawBroken, number: int, move: Move | None, *, home: bool = False) -> None:
        moves = [] if move is None else [move]
        while number > 0:
            number, move = self.came[number]
            moves.append(move)
        name, _, sentence = str(law).partition(": ")
        way = (*self.system.scope.prefix, *reversed(moves))
        self.found.broken = Counterexample(name, sentence, way, home)

    def _no_endless_way(self) -> None:
        """Hardware and clock alone never come to a state a second time: else something could go on for ever."""
        left = [len(self.onward[number]) for number in range(len(self.came))]
        sources: list[list[int]] = [[] for _ in self.came]
        for number, targets in enumerate(self.onward):
            for target in targets:
                sources[target].append(number)
        over = [number for number, count in enumerate(left) if not count]
        seen = 0
        while over:
            seen += 1
            for source in sources[over.pop()]:
                left[source] -= 1
                if not left[source]:
                    over.append(source)
        if seen < len(self.came):
            number = next(number for number, count in enumerate(left) if count)
            law = LawBroken("L11.no_circle: hardware and clock can go round in a circle without end")
            self._break(law, number, None)
