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
from kvstate.machines.messages import Effect, Kind, Report, Token, Work
from kvstate.machines.verdicts import Verdict
from kvstate.replay.breaks import Broken, intact
from kvstate.replay.content import describe, poison, stamp
from kvstate.runtime.clock import VirtualClock
from kvstate.runtime.copiers.hand import HandCopier
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
"""One rank, and pools that need no worker to persist: what an engine of one process drives."""


@lru_cache(maxsize=4096)
def rendered(content: Bytes) -> npt.NDArray[np.uint8]:
    """What a block with this content holds, byte for byte."""
    if isinstance(content, Poison):
        return poison(content.block, content.life, BLOCK)
    return stamp(name_of(content), BLOCK)


def name_of(content: Content | Junk) -> bytes:
    """By which its words name it."""
    if isinstance(content, Junk):
        return b"junk %d" % content.accident
    return b"%s of %s in %d" % (content.key, content.space.encode(), content.epoch)


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
        pools, base = [], 0
        for pool in config.pools:
            pools.append(Pool(pool.name, base, pool.blocks, BLOCK))
            base += pool.blocks
        self.memory = Memory(pools)
        self.should = np.zeros((base, BLOCK), np.uint8)
        """What every block should hold, [blocks, bytes]."""
        law = self.law or intact()
        self.inbox, self.virtual = law.inbox(Inbox()), VirtualClock()
        self.copier = HandCopier(self.memory, self.inbox)
        self.serials: dict[int, int] = {}
        """By the world's own number of a copy: the copier's."""
        submit, started = self.copier.submit, law.submit(lambda work: None)

        def submitted(work: Work) -> None:
            started(work)
            submit(work)

        self.copier.submit = submitted  # type: ignore[method-assign]
        self.engine = Engine(ledger, {"cpu": self.copier}, self.inbox, self.virtual)
        for block in range(base):
            self.write(0, block, Poison(block, 0))
        return ledger

    def at_copier(self, token: Token) -> int | None:
        """The copier's number of the newest copy under this token."""
        numbers = [flight.serial for flight in self.copier.flights if flight.token == token]
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
        return flight.work.kind == HOLD or self.at_copier(flight.work.token) is not None

    def number(self, flight: Flight) -> int:
        """The copier's number of this copy."""
        if flight.hidden not in self.serials:
            number = self.at_copier(flight.work.token)
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
        self.copier.refuse = OSError(5, "the driver fails before it has begun")

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def write(self, rank: int, block: int, content: Bytes) -> None:
        super().write(rank, block, content)
        self.should[block] = rendered(content)
        self.memory.bytes_of(block)[:] = self.should[block]

    def copy(self, flight: Flight, line: int) -> None:
        super().copy(flight, line)
        dst = flight.work.dst[line]
        self.should[dst] = rendered(self.bytes[0][dst])

    def land_lines(self, flight: Flight, count: int) -> None:
        super().land_lines(flight, count)
        if flight.work.kind == HOLD:
            return
        real = self.copier.land(self.number(flight), count)
        bad = tuple(failure.line for failure in real.failures)
        assert bad == flight.bad, f"L9.bytes: the check of {flight.work} found {real.failures}, bad are {flight.bad}"

    def check(self) -> None:
        super().check()
        self.compare()

    def compare(self) -> None:
        """Every byte of every block is what it should be."""
        for pool in self.memory.pools:
            wrong = np.flatnonzero((pool.array != self.should[pool.base : pool.end]).any(axis=1))
            if len(wrong):
                slot = int(wrong[0])
                block, known = pool.base + slot, [name_of(content) for content in self.contents()]
                at = int(np.flatnonzero(pool.array[slot] != self.should[block])[0]) // 8 * 8
                found = describe(pool.array[slot][at : at + 8].tobytes(), known)
                raise AssertionError(f"L9.bytes: block {block} should hold {self.bytes[0][block]}, and has {found}")

    def contents(self) -> set[Content]:
        return {content for content in self.bytes[0] if isinstance(content, Content)}

    # -- reports -------------------------------------------------------------------------------------------------------

    def send(self, flight: Flight, report: Report) -> None:
        if flight.work.kind == HOLD:
            self.inbox.put(report)
        elif (flight.over and not report.failures) or (
            flight.work.kind == Kind.VERIFY and flight.bad and {f.line for f in report.failures} == set(flight.bad)
        ):
            self.copier.deliver(self.number(flight))
        else:
            self.copier.deliver(self.number(flight), report.outcome, report.failures)
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
        self.copier.lose(self.number(flight))

    def kill(self, flight: Flight) -> None:
        super().kill(flight)
        self.copier.flights[self.number(flight)].over = True

    def fence_one(self, rank: int, copier: str) -> None:
        """The engine finds out by itself up to where it may fence: the copier lands what it has."""
        self.engine.pump()
        super().fence_one(rank, copier)

    def tell_fenced(self, rank: int, copier: str, serial: int) -> None:
        self.engine.fence(rank)

    def begin_again(self) -> None:
        self.copier.kill()
        super().begin_again()
