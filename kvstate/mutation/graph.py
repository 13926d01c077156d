"""Searches of small scopes: how soon a row fires in what ships, and whether a law is broken under a fault."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from kvstate.explore.moves import Move
from kvstate.explore.scopes import Scope
from kvstate.explore.search import Counterexample, _Search
from kvstate.explore.stage import Rules

EVERY = 50
"""How exactly `Reach.first` is known, in states."""


@dataclass(frozen=True)
class Reach:
    """What a search of a scope came by."""

    states: int
    """Different states in all."""
    first: dict[str, int] = field(default_factory=dict)
    """By row: how many states were known when it was first seen to have fired."""


class NoBaselineError(Exception):
    """What ships breaks a law without any fault, so no mutant can be held against it. The sentence says where."""


class Over(Exception):  # noqa: N818 - not an error: there is nothing more to look for
    """Raised in the middle of a search to end it."""


class _Bounded(_Search):
    """A search that ends after so many states, and notes when each row fires first."""

    def __init__(self, scope: Scope, rules: Rules, most: int | None) -> None:
        super().__init__(scope, rules, scope.depth, True)
        self.most = most
        self.first: dict[str, int] = {}

    def _enter(self, key: bytes, source: int, move: Move) -> bytes | None:
        saved = super()._enter(key, source, move)
        known = len(self.came)
        if self.most is None and known % EVERY == 0:
            self.note()
        if self.found.broken is None and self.most is not None and known >= self.most:
            raise Over
        return saved

    def note(self) -> None:
        """Which rows have fired by now?"""
        for row, count in self.system.ledger.fired().items():
            if count:
                self.first.setdefault(row, len(self.came))


@contextmanager
def searching() -> Iterator[None]:
    """Without the collector of garbage, as every search goes; an `Over` ends it."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    except Over:
        pass
    finally:
        if collects:
            gc.enable()


def reach(scope: Scope) -> Reach:
    """Search a scope of what ships to its end. Errors: `NoBaselineError` if a law is broken there."""
    search = _Bounded(scope, Rules(), None)
    with searching():
        search.run(None, lambda *_: None)
    if search.found.broken is not None:
        raise NoBaselineError(f"the scope {scope.name} breaks a law without any fault: {search.found.broken.sentence}")
    search.note()
    return Reach(search.found.states, search.first)


def look(scope: Scope, rules: Rules, most: int) -> Counterexample | None:
    """The law that is broken within so many states under these rules.

    Errors: whatever the explorer's world raises when a ledger does what no ledger does.
    """
    search = _Bounded(scope, rules, most)
    with searching():
        search.run(None, lambda *_: None)
    return search.found.broken


def firing(reached: Mapping[str, Reach], rows: Sequence[str]) -> list[tuple[int, str]]:
    """The scopes in which one of these rows fires, and after how many states; the quickest first."""
    found = [
        (min(one.first[row] for row in rows if row in one.first), name)
        for name, one in reached.items()
        if any(row in one.first for row in rows)
    ]
    return sorted(found)
