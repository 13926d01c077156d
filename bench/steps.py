"""A simulated compute step of 256 requests: what the ledger adds to each step of a serving engine.

Every request gets a token a step; one in sixteen fills its block, seals it and takes another; whole prompts are looked
up when requests come, sealed blocks are offloaded, and requests end in the order in which they came. What is timed is
all of the ledger's part of a step, with garbage collection where it falls. Reports are answered in the step after.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from time import perf_counter_ns

from bench.lives import given
from bench.measure import Line, Size, Spread, share, spread
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Effect, Outcome, Report, Work

REQUESTS = 256
TOKENS = 16
"""Of a block."""
PROMPT = 32
"""Blocks of a prompt; the first half is shared by all requests of one of `FAMILIES`."""
FAMILIES = 16
LIFE = 128
"""Steps that a request lives, so two of 256 end and two come in each step."""


@dataclass(slots=True)
class Request:
    """One request that is being served: its lease, the block that it fills, and how far it is."""

    lease: int
    filling: BlockRef
    token: int
    born: int


class Serving:
    """An engine that computes nothing: it only asks the ledger for what an engine asks."""

    def __init__(self) -> None:
        pools = (PoolConfig("device", 16_384), PoolConfig("host", 65_536))
        self.ledger = Ledger(LedgerConfig(pools))
        self.number = 0
        self.requests: deque[Request] = deque()
        self.waiting: list[Effect] = []
        self.come = 0
        self.keys = 0
        while len(self.requests) < REQUESTS:
            self.step()

    def step(self) -> int:
        """One step in nanoseconds: answers, ends, arrivals, tokens, dispatch, and the retirement of the last one."""
        begin = perf_counter_ns()
        ledger = self.ledger
        self.number += 1
        ledger.tick(self.number * 0.02)
        for effect in self.waiting:
            if isinstance(effect, Work):
                ledger.report(Report(effect.token, Outcome.DONE))
        ledger.take_verdicts()
        while self.requests and self.number - self.requests[0].born >= LIFE:
            given(ledger.finish(self.requests.popleft().lease))
        while len(self.requests) < min(REQUESTS, self.number * REQUESTS // LIFE):
            self.requests.append(self._arrive())
        for request in self.requests:
            request.token += 1
            if request.token % TOKENS == 0:
                self._turn_page(request)
        given(ledger.step_dispatched(self.number, [request.lease for request in self.requests]))
        if self.number > 1:
            given(ledger.step_retired(self.number - 1))
        self.waiting = ledger.take_effects()
        return perf_counter_ns() - begin

    def _arrive(self) -> Request:
        """Look the prompt up, compute what is not there at once, and store it below."""
        ledger = self.ledger
        family = self.come % FAMILIES
        self.come += 1
        keys = [b"family%d.%d" % (family, line) for line in range(PROMPT // 2)]
        keys += [b"own%d.%d" % (self.come, line) for line in range(PROMPT // 2)]
        lease = given(ledger.open("bench"))
        hit = given(ledger.lookup(lease, keys))
        assert not hit.pending
        assert not hit.below, "the device is large enough for all that is shared"
        *prompt, filling = given(ledger.allocate(lease, PROMPT - len(hit.blocks) + 1)).blocks
        given(ledger.seal(lease, prompt, keys[len(hit.blocks) :]))
        ledger.offload(lease, prompt)
        return Request(lease, filling, self.come, self.number)

    def _turn_page(self, request: Request) -> None:
        """The block is full: seal it, store it, take the next."""
        ledger = self.ledger
        self.keys += 1
        given(ledger.seal(request.lease, [request.filling], [b"page%d" % self.keys]))
        ledger.offload(request.lease, [request.filling])
        [request.filling] = given(ledger.allocate(request.lease, 1)).blocks


def lines(size: Size) -> list[Line]:
    """The median and the 99th percentile over all steps but those that fill the engine up."""
    serving = Serving()
    times = [serving.step() / 1e6 for _ in range(size.steps)]
    assert serving.ledger.fatal is None
    middle, tail = spread(times), share(times, 0.99)
    return [
        Line(f"a step of {REQUESTS} requests, p50", "ms", middle, note="lowest and highest are of all steps"),
        Line(f"a step of {REQUESTS} requests, p99", "ms", Spread(tail, tail, max(times), len(times))),
    ]
