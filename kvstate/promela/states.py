"""All states of the real ledger in a scope, as vectors of the model.

Breadth-first over the explorer's own moves. Two states count as one here if their vectors are equal; while searching
they are told apart by the explorer's form, too, so that what the vector leaves out can't hide a state behind another.
"""

from __future__ import annotations

from collections import deque

from kvstate.explore.moves import System
from kvstate.explore.scopes import Scope
from kvstate.explore.stage import Rules
from kvstate.promela.shape import Shape
from kvstate.promela.vector import Viewer
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Spec


def begin(scope: Scope, spec: Spec | None = None, rules: Rules | None = None) -> Viewer:
    """The ledger of the scope at its beginning, and how to look at it. Errors: `UnprintableError`."""
    system = System(scope, rules or Rules())
    shape = Shape(load_spec(check=False) if spec is None else spec, scope, system.ledger.books.config)
    return Viewer(shape, system)


def reached(viewer: Viewer) -> set[tuple[int, ...]]:
    """The vectors of all states that the ledger can reach. Errors: `LawBroken` for a move that breaks a law."""
    system = viewer.system
    beginning, start = system.save(), viewer.beginning
    key = (system.digest(), viewer.vector(start))
    known = {key}
    queue = deque([(beginning, start)])
    while queue:
        saved, numbers = queue.popleft()
        system.restore(saved)
        for place, move in enumerate(system.moves()):
            if place:
                system.restore(saved)
            system.do(move)
            later = numbers.later(system)
            key = (system.digest(), viewer.vector(later))
            if key not in known:
                known.add(key)
                queue.append((system.save(), later))
    system.restore(beginning)
    return {vector for _, vector in known}
