"""What can happen to two parties next: the moves of a state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvstate.explore.peers_actors import Actors
from kvstate.explore.peers_scopes import PeerScope
from kvstate.explore.peers_world import CONSUMER, DEAD, NAMES, PRODUCER, World
from kvstate.peers.rules import Rules
from kvstate.peers.words import Letter, Out

Move = tuple[Any, ...]
"""What happens, as words and numbers."""


class Choices:
    """What can happen in a scope."""

    def __init__(self, scope: PeerScope, rules: Rules | None = None) -> None:
        self.scope = scope
        self.actors = Actors(rules or Rules())
        self.letters: list[tuple[Out, Letter]] = []
        """By number: every message that was ever sent."""
        self.numbers: dict[Out, int] = {}

    def _to(self, number: int) -> int:
        return NAMES.index(self.letters[number][0].peer)

    # -- what can happen -----------------------------------------------------------------------------------------------

    def moves(self, world: World) -> Iterator[Move]:
        """All that can happen next."""
        for who in (PRODUCER, CONSUMER):
            if NAMES[who] in self.scope.clocks and world.forms[who] != DEAD and self.actors.due(world.forms[who]):
                yield "clock", who
        for number in range(world.sent.bit_length()):
            if world.sent >> number & 1 and world.forms[self._to(number)] != DEAD:
                yield "hear", number
        yield from self._producer_moves(world)
        for place in range(len(world.loads)):
            yield from self._load_moves(world, place)
        yield from self._faults(world)

    def _producer_moves(self, world: World) -> Iterator[Move]:
        form = world.forms[PRODUCER]
        if form != DEAD and world.left.offers and self.actors.look(form).met:
            yield ("offer",)
        for place, deal in enumerate(world.deals):
            ours = form != DEAD and deal.handoff.life == world.lives[PRODUCER]
            if ours and world.left.withdrawals and not deal.let_go:
                yield "withdraw", place
            if not deal.written and (deal.let_go or not ours):
                yield "write", place

    def _load_moves(self, world: World, place: int) -> Iterator[Move]:
        load = world.loads[place]
        if load.verdict == "died" or world.forms[CONSUMER] == DEAD:
            return
        for rank, copy in enumerate(load.copies):
            if copy.stage == "idle" and not load.verdict:
                yield "copy", place, rank
            if copy.stage == "copied":
                yield "done", place, rank
                if world.left.failures:
                    yield "fail", place, rank
            if copy.stage in ("done", "out") and world.left.doubles:
                yield "double", place, rank
        if load.verdict in ("committed", "fell") and not load.told:
            yield "close", place
        if load.verdict == "fell" and not load.told and world.left.retries:
            yield "retry", place
        if not load.verdict and world.left.aborts:
            yield "abort", place

    def _faults(self, world: World) -> Iterator[Move]:
        for who, dies in ((PRODUCER, world.left.producers_die), (CONSUMER, world.left.consumers_die)):
            if world.forms[who] == DEAD:
                yield "rise", who
                continue
            if dies:
                yield "die", who
            if world.left.losses:
                yield "lost", who
            if world.left.byes:
                yield "bye", who

    def within(self, world: World) -> bool:
        """Have the processes minted no more numbers than the scope allows?"""
        return all(form == DEAD or self.actors.asked(form) <= self.scope.questions for form in world.forms)
