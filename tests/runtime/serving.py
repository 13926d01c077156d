"""A very small serving engine in virtual time, and a tape of all that its runtime was told and of what its world did.

The tape has five kinds of entries. The first two are all that a dispatcher is ever given; the third is the model's own
writing; the last two are the world's: when bytes landed, and when a report was heard.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import numpy as np

from kvstate.codec import encode_effects
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Effect, Report, Token, Work
from kvstate.machines.tables.block import State as B
from kvstate.machines.verdicts import Grant, Hit, LoadVerdict
from kvstate.replay.chaos import Chaos
from kvstate.replay.chaos_copiers import VirtualCopier
from kvstate.replay.content import poison, stamp
from kvstate.runtime.clock import VirtualClock
from kvstate.runtime.copy import Integrity
from kvstate.runtime.engine import Engine
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory
from tests.runtime.parts import BLOCK, key, pools
from tests.runtime.rig import got

DEVICE, HOST = 28, 40
TURN = 0.004
"""Virtual seconds between two requests; a copy takes up to five of them."""
PIPELINE = 2


class Given(NamedTuple):
    message: bytes
    """Effects, as they go to a worker."""


class Retired(NamedTuple):
    step: int


class Wrote(NamedTuple):
    block: int
    data: bytes


class Landed(NamedTuple):
    token: Token
    lines: int


class Heard(NamedTuple):
    token: Token


Entry = Given | Retired | Wrote | Landed | Heard


def fresh_memory() -> Memory:
    return pools(BLOCK, DEVICE, HOST)


class Step(NamedTuple):
    number: int
    writes: list[tuple[int, bytes]]


@dataclass(slots=True)
class Waiting:
    lease: int
    keys: list[bytes]
    blocks: list[BlockRef]


class Serving:
    """Admits one request a turn. Ends requests whenever it likes, if `aborts`; else only those that are not loading."""

    def __init__(self, seed: int, chaos: Chaos, *, aborts: bool) -> None:
        self.dice = Random(seed)
        self.aborts = aborts
        self.tape: list[Entry] = []
        self.works: list[Work] = []
        self.memory = fresh_memory()
        self.clock = VirtualClock()
        config = LedgerConfig(
            pools=(PoolConfig("device", DEVICE), PoolConfig("host", HOST, verify=True)),
            part_blocks=2,
            batch_blocks=4,
            retry_delay=TURN,
        )
        self.ledger = Ledger(config)
        inbox = Inbox()
        self.copier = VirtualCopier(
            self.memory, inbox, self.clock, chaos, integrity=Integrity.HOST, on_land=self._landed
        )
        self.engine = Engine(self.ledger, {"cpu": self.copier}, inbox, self.clock)
        self.engine.tap, self.engine.heard = self._given, self._heard
        self.steps: deque[Step] = deque()
        self.last_step = 0
        self.loading: dict[int, Waiting] = {}
        self.living: list[int] = []

    # -- the tape ------------------------------------------------------------------------------------------------------

    def _given(self, effect: Effect) -> None:
        self.tape.append(Given(encode_effects([effect])))
        if isinstance(effect, Work):
            self.works.append(effect)

    def _landed(self, work: Work, when: float) -> None:
        self.tape.append(Landed(work.token, len(work.src)))

    def _heard(self, report: Report) -> None:
        self.tape.append(Heard(report.token))

    def _write(self, block: int, data: bytes) -> None:
        self.tape.append(Wrote(block, data))
        self.memory.bytes_of(block)[:] = np.frombuffer(data, np.uint8)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def run(self, requests: int) -> None:
        for _ in range(requests):
            self._admit()
            self._turn()
            if self.living and self.dice.random() < 0.45:
                self._end(self.dice.choice(self.living))
        while self.living or self.loading:
            self._turn()
            for lease in list(self.living):
                self._end(lease)
        self._retire(0)
        while self.ledger.books.job_ids:
            self._turn()
        assert self.ledger.fatal is None

    def _turn(self) -> None:
        self.clock.advance(TURN)
        self.copier.advance(self.clock.now())
        for verdict in self.engine.poll().loads:
            self._loaded(verdict)
        self.engine.pump()
        self._retire(PIPELINE)

    def _admit(self) -> None:
        family, length = self.dice.randrange(12), 2 + self.dice.randrange(7)
        keys = [key(1000 * family + place) for place in range(length)]
        lease = got(self.ledger.open("test"))
        hit: Hit = got(self.ledger.lookup(lease, keys))
        missing = length - len(hit.blocks) + len(hit.below)
        fresh = None if hit.pending else self._fresh(lease, missing)
        if fresh is None:
            self.ledger.abort(lease)
            return
        blocks = dict(enumerate(hit.blocks))
        blocks.update(zip(hit.below, fresh, strict=False))
        blocks.update(zip(range(len(hit.blocks), length), fresh[len(hit.below) :], strict=True))
        waiting = Waiting(lease, keys, [blocks[place] for place in range(length)])
        self.living.append(lease)
        if hit.below:
            into = fresh[: len(hit.below)]
            started = got(self.ledger.load(lease, hit, into, deadline=self.clock.now() + 0.1))
            self.loading[started.load] = waiting
        else:
            self._prefill(waiting)

    def _fresh(self, lease: int, count: int) -> Sequence[BlockRef] | None:
        grant = self.ledger.allocate(lease, count)
        if not isinstance(grant, Grant):
            return None
        for ref in grant.blocks:
            self._write(ref.block, poison(*ref, BLOCK).tobytes())
        return grant.blocks

    def _loaded(self, verdict: LoadVerdict) -> None:
        waiting = self.loading.pop(verdict.load)
        if waiting.lease not in self.living:
            return
        if verdict.left:
            self._end(waiting.lease)
        else:
            self._prefill(waiting)

    def _prefill(self, waiting: Waiting) -> None:
        """A step that will write what is open; published and offered to the host before that has happened."""
        state = self.ledger.books.block_state
        opened = [
            (ref, key) for ref, key in zip(waiting.blocks, waiting.keys, strict=True) if state[ref.block] == B.OPEN
        ]
        self.last_step += 1
        self.engine.step_dispatched(self.last_step, [waiting.lease])
        self.steps.append(Step(self.last_step, [(ref.block, stamp(key, BLOCK).tobytes()) for ref, key in opened]))
        if opened:
            refs = [ref for ref, _ in opened]
            got(self.ledger.seal(waiting.lease, refs, [key for _, key in opened]))
            self.ledger.offload(waiting.lease, refs, deadline=self.clock.now() + 0.2)

    def _retire(self, keep: int) -> None:
        while len(self.steps) > keep:
            step = self.steps.popleft()
            for block, data in step.writes:
                self._write(block, data)
            self.tape.append(Retired(step.number))
            assert self.engine.step_retired(step.number)

    def _end(self, lease: int) -> None:
        if not self.aborts and any(waiting.lease == lease for waiting in self.loading.values()):
            return
        self.living.remove(lease)
        self.ledger.abort(lease)
