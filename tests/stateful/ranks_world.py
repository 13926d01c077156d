"""Two ranks on the real runtime: memory and a copier for each, bytes that differ by rank, and a worker that may die.

The moves are those of `runtime_world`, over both ranks, and one more: the process of a rank is gone, with all that it
held, in the middle of whatever is under way.
"""

from __future__ import annotations

from kvstate.errors import Code
from kvstate.machines.verdicts import Verdict
from kvstate.runtime.dispatcher import Dispatcher
from tests.stateful.base import Poison, Scope, Tier
from tests.stateful.requests import HOLD
from tests.stateful.runtime_world import RuntimeWorld

RANK_SCOPES = {
    "two ranks": Scope(tiers=(Tier(6),), ranks=2),
    "parts": Scope(device=8, tiers=(Tier(8),), ranks=2, part_blocks=2, batch_blocks=4, keys=8, longest=6),
    "two tiers": Scope(device=6, tiers=(Tier(4), Tier(6)), ranks=2, part_blocks=2, batch_blocks=3, keys=7),
}


class RanksWorld(RuntimeWorld):
    """See the module."""

    lost_ranks = 0
    """How many, in this process and in those before it."""

    def begin(self, incarnation: int) -> None:
        self.early: list[Verdict] = []
        """What the turn brought in which a rank was lost."""
        super().begin(incarnation)

    @classmethod
    def moves(cls, mix: str) -> dict[str, int]:
        return {**super().moves(mix), "lose_rank": 5}

    def turn(self) -> list[Verdict]:
        early, self.early = self.early, []
        return [*early, *super().turn()]

    def lose_rank(self) -> None:
        """A worker is killed, noticed and replaced; not as often as other things happen."""
        if not self.dice.chance(60):
            return
        rank, books = self.dice.below(self.scope.ranks), self.ledger.books
        self.engine.pump()  # what was asked for so far is with its worker
        self.copiers_of[rank].kill()
        for flight in [f for f in (*self.flights, *self.waiting) if f.work.rank == rank and f.work.kind != HOLD]:
            (self.flights if flight in self.flights else self.waiting).remove(flight)
            self.past.append(flight.work.token)
            self.note_fenced(flight)
        leases = tuple(request.lease for request in self.requests)
        self.preempted, self.requests = [*self.preempted, *self.requests][-4:], []
        self.epoch += 1
        self.memories[rank] = self.make_memory(self.ledger.config)
        self.copiers_of[rank] = self.make_copier(rank)
        for block in range(self.scope.total):
            self.write(rank, block, Poison(block, books.generation[block]))
        link = self.engine.links[rank]
        assert isinstance(link, Dispatcher)
        link.lost = "it was killed"
        done = self.engine.poll(0)
        (loss,) = done.lost
        assert (loss.rank, sorted(loss.leases), loss.error.code) == (rank, sorted(leases), Code.PEER_LOST)
        assert self.engine.poll(0).lost == (), "a rank is lost once"
        self.early += [*done.loads, *done.jobs, *done.settled]
        self.engine.replace(rank, self.link(rank))
        self.lost_ranks += 1
