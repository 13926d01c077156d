"""The search over two parties: breadth-first, every move in every state, each state once; and the laws of a state."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kvstate.explore.matter import LawBroken
from kvstate.explore.peers_choices import Move
from kvstate.explore.peers_laws import look
from kvstate.explore.peers_moves import PeerSystem
from kvstate.explore.peers_scopes import PeerScope
from kvstate.explore.peers_world import World
from kvstate.peers.rules import Rules

Progress = Callable[[int, int, int], None]
"""As in `kvstate.explore.search`."""
EVERY: Final = 5000
"""States between two words of progress."""


@dataclass(slots=True)
class PeersExplored:
    """What came of a search of a `scope`: how large it was, its `depth` in moves, and the `sentence` of a law that was
    broken."""

    scope: PeerScope
    states: int = 0
    """Different states that were reached."""
    transitions: int = 0
    """Moves that were made from them."""
    forms: int = 0
    """Different forms of the two parties."""
    frontier: int = 0
    """States from which no move was made."""
    depth: int = 0
    fired: dict[str, int] = field(default_factory=dict)
    """How often each row has fired, where an input was worked out."""
    ends: set[tuple[str, str, bool]] = field(default_factory=set)
    """Side, end and whether something may have been committed: what was told in some run."""
    law: str = ""
    """The law that was broken, if one was."""
    sentence: str = ""
    moves: tuple[Move, ...] = ()
    """The shortest way there."""

    @property
    def finished(self) -> bool:
        """Was everything in the scope seen?"""
        return not self.law and not self.frontier


def explore_peers(
    scope: PeerScope,
    rules: Rules | None = None,
    *,
    max_states: int | None = None,
    progress: Progress = lambda *_: None,
) -> PeersExplored:
    """Search the scope, up to so many states, until a law is broken."""
    system, found = PeerSystem(scope, rules), PeersExplored(scope)
    came: dict[World, tuple[World, Move] | None] = {}
    depths: dict[World, int] = {}
    world: World | None = None
    move: Move | None = None
    try:
        first = system.begin()
        look(system.actors, first)
        came[first], depths[first] = None, 0
        queue = deque([first])
        while queue and (max_states is None or len(came) < max_states):
            world = queue.popleft()
            for move in system.moves(world):
                found.transitions += 1
                after = system.do(world, move)
                if after not in came and system.within(after):
                    came[after], depths[after] = (world, move), depths[world] + 1
                    look(system.actors, after)
                    queue.append(after)
            if not len(came) % EVERY:
                progress(len(came), len(queue), depths[world])
        found.frontier = len(queue)
    except LawBroken as law:
        found.law, _, found.sentence = str(law).partition(": ")
        found.moves = _way(came, world, move)
    found.states, found.forms = len(came), len(system.actors.forms)
    found.depth = max(depths.values(), default=0)
    found.fired = system.actors.fired()
    found.ends = {("lend", *end) for one in came for deal in one.deals for end in deal.lend_end}
    found.ends |= {("borrow", end, False) for one in came for deal in one.deals for end in deal.borrow_end}
    return found


def _way(came: dict[World, tuple[World, Move] | None], world: World | None, move: Move | None) -> tuple[Move, ...]:
    way = [] if move is None else [move]
    while world is not None and (before := came[world]) is not None:
        world, made = before
        way.append(made)
    return tuple(reversed(way))
