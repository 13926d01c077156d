"""The same world on the real runtime: an `Engine`, real tensors, and a copier whose copies land when the world says so.

The laws are the same, and so are most moves. Beside the real bytes the world keeps those that should be there, as it
has seen copies land and steps retire, and compares all of them after every move: each 8 bytes of a block say which key
or which life of which block they are of, and where in the block they stand (`kvstate.replay.content`), so that a stray
write is seen wherever it falls.
"""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from kvstate.machines.config import LedgerConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Effect, Kind, Report, Work
from kvstate.machines.verdicts import Verdict
from kvstate.replay.breaks import Broken, intact
from kvstate.replay.content import describe, poison, stamp
from kvstate.runtime.clock import VirtualClock
from kvstate.runtime.copiers.hand import HandCopier
from kvstate.runtime.dispatcher import Dispatcher
from kvstate.runtime.engine import Engine
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory, Pool
from tests.stateful.base import Bytes, Content, Flight, Junk, Poison, Scope, Tier
from tests.stateful.requests import HOLD
from tests.stateful.world import World

BLOCK = 64
RUNTIME_SCOPES = {
    "small": Scope(),
    "parts": Scope(device=8, tiers=(Tier(8),), part_blocks=2, batch_blocks=4, keys=8, longest=6),
    "two tiers": Scope(device=6, tiers=(Tier(4), Tier(6)), part_blocks=2, batch_blocks=3, keys=7),
    "wide": Scope(
        device=96, tiers=(Tier(128),), part_blocks=36, batch_blocks=40, keys=90, longest=88, requests=5, max_jobs=2
    ),
}
"""One rank, and pools that need no worker to persist: what a process drives by itself. More ranks: `ranks_world`."""


@lru_cache(maxsize=4096)
def rendered(content: Bytes, rank: int = 0) -> npt.NDArray[np.uint8]:
    """What a block with this content holds on this rank, byte for byte."""
    if isinstance(content, Poison):
        return poison(content.block, content.life, BLOCK)
    return stamp(name_of(content, rank), BLOCK)


def name_of(content: Content | Junk, rank: int = 0) -> bytes:
    """By which its words name it; each rank holds a piece of its own."""
    if isinstance(content, Junk):
        return b"junk %d on %d" % (content.accident, rank)
    return b"%s of %s in %d on %d" % (content.key, content.space.encode(), content.epoch, rank)


class RuntimeWorld(World):
    """See the module."""

    LEFT_OUT: ClassVar[tuple[str, ...]] = ()
    """Moves of the pure world that this one can't make."""

    def __init__(
        self,
        source: int | Random | tuple[int, ...],
        scope: Scope | None = None,
        *,
        law: Broken | None = None,
        **ledger: object,
    ) -> None:
        self.law = law
        if law is not None:
            ledger |= {"machines": law.machines, "couplings": law.couplings, "acts": law.acts}
        super().__init__(source, scope or RUNTIME_SCOPES["small"], **ledger)

    @classmethod
    def moves(cls, mix: str) -> dict[str, int]:
        return {name: weight for name, weight in super().moves(mix).items() if name not in cls.LEFT_OUT}

    # -- the runtime ---------------------------------------------------------------------------------------------------

    def make_ledger(self, config: LedgerConfig) -> Ledger:
        """A process: memory, an inbox, a copier and an engine around a ledger."""
        ledger = super().make_ledger(config)
        law = self.law or intact()
        self.inbox, self.virtual = law.inbox(Inbox()), VirtualClock()
        self.started = law.submit(lambda work: None)
        self.serials: dict[int, int] = {}
        """By the world's own number of a copy: that of its rank's copier."""
        self.memories = [self.make_memory(config) for _ in range(config.ranks)]
        self.copiers_of = [self.make_copier(rank) for rank in range(config.ranks)]
        self.should = np.zeros((config.ranks, self.scope.total, BLOCK), np.uint8)
        """What every block should hold, [ranks, blocks, bytes]."""
        self.engine = Engine(ledger, [self.link(rank) for rank in range(config.ranks)], self.inbox, self.virtual)
        for rank in range(config.ranks):
            for block in range(self.scope.total):
                self.write(rank, block, Poison(block, 0))
        return ledger

    @staticmethod
    def make_memory(config: LedgerConfig) -> Memory:
        pools, base = [], 0
        for pool in config.pools:
            pools.append(Pool(pool.name, base, pool.blocks, BLOCK))
            base += pool.blocks
        return Memory(pools)

    def make_copier(self, rank: int) -> HandCopier:
        copier = HandCopier(self.memories[rank], self.inbox)
        submit, started = copier.submit, self.started

        def submitted(work: Work) -> None:
            started(work)
            submit(work)

        copier.submit = submitted  # type: ignore[method-assign]
        return copier

    def link(self, rank: int) -> Dispatcher:
        return Dispatcher({"cpu": self.copiers_of[rank]}, self.inbox)

    def copier(self, work: Work) -> HandCopier:
        """Whoever is given this work."""
        return self.copiers_of[work.rank]

    def at_copier(self, work: Work) -> int | None:
        """The copier's number of the newest copy under this token."""
        numbers = [flight.serial for flight in self.copier(work).flights if flight.token == work.token]
        return numbers[-1] if numbers else None

    def took(self, effects: list[Effect]) -> None:
        """Seen before a copier is given them, since it may answer at once."""
        for effect in effects:
            if isinstance(effect, Work):
                self.sent(effect)
            else:
                self.news.append(effect)

    def can_stop(self, flight: Flight) -> bool:
        return self.given(flight)

    def given(self, flight: Flight) -> bool:
        return flight.work.kind == HOLD or self.at_copier(flight.work) is not None

    def number(self, flight: Flight) -> int:
        """The copier's number of this copy."""
        if flight.hidden not in self.serials:
            number = self.at_copier(flight.work)
            assert number is not None, f"no copier has {flight.work}"
            self.serials[flight.hidden] = number
        return self.serials[flight.hidden]

    def turn(self) -> list[Verdict]:
        self.virtual.advance_to(max(self.now, self.virtual.now()))
        done = self.engine.poll(max_reports=1 + self.dice.below(8))
        while len(self.inbox):
            more = self.engine.poll()
            done = more._replace(
                loads=done.loads + more.loads, jobs=done.jobs + more.jobs, settled=done.settled + more.settled
            )
        return [*done.loads, *done.jobs, *done.settled]

    def refused(self, flight: Flight) -> None:
        """Nothing to do: the copier has refused, and the engine has said so."""

    def fail_to_submit(self) -> None:
        rank = self.dice.below(self.scope.ranks) if self.scope.ranks > 1 else 0
        self.copiers_of[rank].refuse = OSError(5, "the driver fails before it has begun")

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def write(self, rank: int, block: int, content: Bytes) -> None:
        super().write(rank, block, content)
        self.should[rank, block] = rendered(content, rank)
        self.memories[rank].bytes_of(block)[:] = self.should[rank, block]

    def copy(self, flight: Flight, line: int) -> None:
        super().copy(flight, line)
        dst, rank = flight.work.dst[line], flight.work.rank
        self.should[rank, dst] = rendered(self.bytes[rank][dst], rank)

    def land_lines(self, flight: Flight, count: int) -> None:
        super().land_lines(flight, count)
        if flight.work.kind == HOLD:
            return
        real = self.copier(flight.work).land(self.number(flight), count)
        bad = tuple(failure.line for failure in real.failures)
        assert bad == flight.bad, f"L9.bytes: the check of {flight.work} found {real.failures}, bad are {flight.bad}"

    def check(self) -> None:
        super().check()
        self.compare()

    def compare(self) -> None:
        """Every byte of every block is what it should be, on every rank."""
        for rank, memory in enumerate(self.memories):
            for pool in memory.pools:
                should = self.should[rank, pool.base : pool.end]
                wrong = np.flatnonzero((pool.array != should).any(axis=1))
                if len(wrong):
                    slot, block = int(wrong[0]), pool.base + int(wrong[0])
                    at = int(np.flatnonzero(pool.array[slot] != should[slot])[0]) // 8 * 8
                    found = describe(pool.array[slot][at : at + 8].tobytes(), self.names())
                    held, where = self.bytes[rank][block], f" of rank {rank}" if len(self.memories) > 1 else ""
                    raise AssertionError(f"L9.bytes: block {block}{where} should hold {held}, and has {found}")

    def names(self) -> set[bytes]:
        """Of all that is held, each as its rank has it."""
        ranks = range(self.scope.ranks)
        held = {content for rank in ranks for content in self.bytes[rank] if isinstance(content, Content)}
        return {name_of(content, rank) for rank in ranks for content in held}

    # -- reports -------------------------------------------------------------------------------------------------------

    def send(self, flight: Flight, report: Report) -> None:
        if flight.work.kind == HOLD:
            self.inbox.put(report)
        elif (flight.over and not report.failures) or (
            flight.work.kind == Kind.VERIFY and flight.bad and {f.line for f in report.failures} == set(flight.bad)
        ):
            self.copier(flight.work).deliver(self.number(flight))
        else:
            self.copier(flight.work).deliver(self.number(flight), report.outcome, report.failures)
        self.hear_all()

    def post(self, report: Report) -> None:
        self.inbox.put(report)
        self.hear_all()

    def hear_all(self) -> None:
        """The ledger hears what is in the inbox; the verdicts wait for the next turn."""
        self.engine._hear(len(self.inbox))

    # -- what the engine passes on -------------------------------------------------------------------------------------

    def tell_time(self) -> None:
        """The next turn does."""

    def tell_dispatched(self, step: int, leases: list[int]) -> None:
        self.engine.pump()
        assert self.engine.step_dispatched(step, leases)

    def tell_retired(self, step: int) -> None:
        assert self.engine.step_retired(step), f"L3.no_reuse: step {step} was over in the books before it ended"

    def lost(self, flight: Flight) -> None:
        super().lost(flight)
        self.copier(flight.work).lose(self.number(flight))

    def kill(self, flight: Flight) -> None:
        super().kill(flight)
        self.copier(flight.work).flights[self.number(flight)].over = True

    def fence_one(self, rank: int, copier: str) -> None:
        """The engine finds out by itself up to where it may fence. The copier lands all that it has: more than it
        proves, where older work waits for its step. What it refused has been reported by then, and is heard.
        """
        self.engine.pump()
        self.hear_all()
        for flight in [f for f in (*self.flights, *self.waiting) if f.work.rank == rank and f.work.kind != HOLD]:
            if self.given(flight):
                self.land_fully(flight)
        super().fence_one(rank, copier)

    def tell_fenced(self, rank: int, copier: str, serial: int) -> None:
        self.engine.fence(rank)

    def begin_again(self) -> None:
        for copier in self.copiers_of:
            copier.kill()
        super().begin_again()
