"""Requests at random over real copies, every byte of which is compared with what its key must hold.

A request looks its blocks up, loads what lies below, computes the rest, stores it, and is checked. It may be aborted or
preempted at any moment, copies of it under way or not; now and then the cache is reset. The device is small, so blocks
are given out anew all the time: memory that is used too early is seen as bytes of another key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from time import perf_counter, sleep
from typing import NamedTuple

import numpy as np

from bench.lives import given
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef
from kvstate.machines.verdicts import Ending, Grant, Started
from kvstate.replay.content import poison, stamp
from kvstate.runtime.clock import RealClock
from kvstate.runtime.copiers import Copier
from kvstate.runtime.engine import Engine
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory

KEYS = 150
"""Keys of which requests want a run: more than the device has blocks, and about as many as the host."""
LONGEST = 12
"""Blocks of a request at most."""
AT_ONCE = 12
"""Requests at once."""


class ChaosResult(NamedTuple):
    """What a run did, and what it found wrong."""

    name: str = ""
    requests: int = 0
    """Requests that came."""
    checked: int = 0
    """Blocks that were compared, byte for byte."""
    loaded: int = 0
    """Blocks that came up from the host."""
    aborted: int = 0
    """Requests that were aborted or preempted."""
    drained: int = 0
    """Blocks that a copy still touched when their request let go of them."""
    wrong: int = 0
    """Blocks with a wrong byte."""
    problems: tuple[str, ...] = ()
    """What else is wrong: a fatal error, what is not at rest in the end."""

    @property
    def good(self) -> bool:
        """Nothing wrong, and enough done to say so."""
        return not self.wrong and not self.problems and self.checked > 0

    def sentence(self) -> str:
        """All of it in words."""
        text = (
            f"{self.requests} requests, {self.checked} blocks compared, {self.loaded} loaded, {self.aborted} aborted "
            f"or preempted, {self.drained} drained, {self.wrong} wrong"
        )
        return "; ".join([text, *self.problems])


@dataclass
class _Request:
    lease: int
    keys: list[bytes]
    blocks: dict[int, BlockRef] = field(default_factory=dict)
    """By place in `keys`."""
    todo: list[int] = field(default_factory=list)
    load: int = 0
    """The load that it waits for, 0 if none."""


class _Play:
    """One run."""

    def __init__(self, memory: Memory, copier: Copier, inbox: Inbox, seed: int) -> None:
        device, host = memory.pools
        self.device = device
        pools = (PoolConfig("device", device.count), PoolConfig("host", host.count, verify=True))
        self.ledger = Ledger(LedgerConfig(pools, part_blocks=4, grace=5.0, cool_for=0.0, pending_for=0.05))
        self.engine = Engine(self.ledger, {"cpu": copier}, inbox, RealClock())
        self.copier = copier
        self.dice = Random(seed)
        self.keys = [blake2b(b"%d.%d" % (seed, number), digest_size=16).digest() for number in range(KEYS)]
        self.serving: list[_Request] = []
        self.step = 0
        self.requests = self.checked = self.loaded = self.aborted = self.drained = self.wrong = 0
        self.problems: list[str] = []

    def turn(self) -> None:
        """Some of everything, in an order that the dice make."""
        self.hear()
        if len(self.serving) < AT_ONCE:
            self.arrive()
        for request in [one for one in self.serving if not one.load]:
            if self.dice.random() < 0.5:
                self.compute(request)
        for request in list(self.serving):
            luck = self.dice.random()
            if luck < 0.06:
                self.close(request, self.ledger.abort if luck < 0.04 else self.ledger.preempt)
                self.aborted += 1
            elif luck < 0.4 and not request.load and not request.todo:
                self.check(request, list(request.blocks))
                self.close(request, self.ledger.finish)
        if self.dice.random() < 0.002:
            given(self.ledger.reset())
        self.engine.pump()

    def hear(self) -> None:
        """Verdicts of loads, each to its request."""
        done = self.engine.poll()
        if done.fatal is not None:
            self.problems.append(f"fatal: {done.fatal.sentence}")
            return
        for verdict in done.loads:
            request = next((one for one in self.serving if one.load == verdict.load), None)
            if request is None:
                continue
            request.load = 0
            if verdict.ending is Ending.ABORTED or verdict.left:
                self.close(request, self.ledger.abort)
                continue
            self.loaded += verdict.blocks
            request.todo = list(range(verdict.blocks, len(request.keys)))
            self.check(request, list(range(verdict.blocks)))

    def arrive(self) -> None:
        """Admit one, if there is room."""
        first, length = self.dice.randrange(KEYS - LONGEST), self.dice.randint(1, LONGEST)
        request = _Request(given(self.ledger.open("chaos")), self.keys[first : first + length])
        self.requests += 1
        hit = given(self.ledger.lookup(request.lease, request.keys))
        below, cached = list(hit.below), len(hit.blocks)
        missing = [*below, *range(cached, length)]
        grant = self.ledger.allocate(request.lease, len(missing)) if not hit.pending else None
        if not isinstance(grant, Grant):
            given(self.ledger.abort(request.lease))
            return
        for ref in grant.blocks:
            self.device.put(ref.block, poison(*ref, self.device.block_bytes))
        request.blocks = dict(enumerate(hit.blocks)) | dict(zip(missing, grant.blocks, strict=True))
        request.todo = list(range(cached, length))
        if below:
            into = [request.blocks[place] for place in below]
            started = self.ledger.load(request.lease, hit, into, deadline=self.engine.clock.now() + 60.0)
            assert isinstance(started, Started), started
            request.load = started.load
        self.serving.append(request)

    def compute(self, request: _Request) -> None:
        """One step fills what is missing; it is sealed and stored, for the copy to begin when the step is over."""
        if not request.todo:
            return
        self.step += 1
        given(self.engine.step_dispatched(self.step, [request.lease]))
        refs = [request.blocks[place] for place in request.todo]
        keys = [request.keys[place] for place in request.todo]
        given(self.ledger.seal(request.lease, refs, keys))
        self.ledger.offload(request.lease, refs)
        self.engine.pump()
        for ref, key in zip(refs, keys, strict=True):
            self.device.put(ref.block, stamp(key, self.device.block_bytes))
        given(self.engine.step_retired(self.step))
        request.todo = []

    def check(self, request: _Request, places: list[int]) -> None:
        """Every byte of these blocks."""
        for place in places:
            found = self.device.bytes_of(request.blocks[place].block)
            self.checked += 1
            self.wrong += not np.array_equal(found, stamp(request.keys[place], self.device.block_bytes))

    def close(self, request: _Request, how: object) -> None:
        """Its lease ends; what a copy still touches drains."""
        self.drained += given(how(request.lease)).draining  # type: ignore[operator]
        self.serving.remove(request)

    def end(self) -> ChaosResult:
        """Let all end, and look whether anything is left."""
        for request in list(self.serving):
            self.close(request, self.ledger.finish)
        limit = perf_counter() + 30.0
        while self.ledger.rest() and perf_counter() < limit and not self.problems:
            self.hear()
            sleep(0.001)
        self.problems += self.ledger.rest()
        self.problems += [f"part {token.serial} may touch memory" for token in self.copier.close(10.0)]
        return ChaosResult(
            "", self.requests, self.checked, self.loaded, self.aborted, self.drained, self.wrong, tuple(self.problems)
        )


def chaos(memory: Memory, copier: Copier, inbox: Inbox, *, seconds: float, seed: int) -> ChaosResult:
    """Play for so many seconds, and at least until something has been loaded and drained; closes the copier."""
    play = _Play(memory, copier, inbox, seed)
    begin = perf_counter()
    while not play.problems:
        play.turn()
        seen = play.loaded > 0 and play.drained > 0 and play.aborted > 0
        if perf_counter() - begin > (seconds if seen else 4 * seconds + 30.0):
            break
    return play.end()
