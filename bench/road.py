"""Blocks on their way to the host pool and back, through a real ledger and engine, for `bench.copies`."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from time import perf_counter_ns

from bench.lives import given
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Effect, Kind, Outcome, Report, Token, Work
from kvstate.machines.verdicts import Ending
from kvstate.runtime.clock import RealClock
from kvstate.runtime.copiers import Copier, Progress
from kvstate.runtime.engine import Engine
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory

POLL = 0.001
"""Seconds from one turn of the loop to the next, where no report comes in between."""


class Road:
    """A device and a host pool of as many blocks, all free, and an engine that moves blocks between them."""

    def __init__(self, memory: Memory, copier: Copier, inbox: Inbox, *, verify: bool = False) -> None:
        self.memory, self.copier = memory, copier
        device, host = memory.pools
        pools = (PoolConfig("device", device.count), PoolConfig("host", host.count, verify=verify))
        self.ledger = Ledger(LedgerConfig(pools, offload_for=300.0))
        self.engine = Engine(self.ledger, {"cpu": copier}, inbox, RealClock())
        self.engine.tap = self._seen
        self.inbox = inbox
        self.pairs: list[tuple[int, int]] = []
        """Source and destination of every block that the last trip copied."""
        self.born = 0
        self._dice = Random(1)

    def _seen(self, effect: Effect) -> None:
        if isinstance(effect, Work) and effect.kind in (Kind.STORE, Kind.FETCH):
            self.pairs += zip(effect.src, effect.dst, strict=True)

    def _shuffle(self) -> None:
        """Whoever allocates next gets blocks in no order."""
        for pool in self.ledger.books.pools:
            free = list(pool.free)
            self._dice.shuffle(free)
            pool.free[:] = type(pool.free)("q", free)

    def trip(self, count: int, job: int = 0) -> tuple[int, int]:
        """Store so many blocks and load them again, elsewhere: nanoseconds of each. All is free afterwards.

        Each `job` blocks are one request's, with a job and a load of their own; 0 is all of them.
        """
        ledger = self.ledger
        job = job or count
        keys = [(self.born + number).to_bytes(16, "big") for number in range(count)]
        chunks = [keys[start : start + job] for start in range(0, count, job)]
        self.born += count
        self._shuffle()
        leases = [given(ledger.open("bench")) for _ in chunks]
        blocks = [given(ledger.allocate(*each)).blocks for each in zip(leases, map(len, chunks), strict=True)]
        for lease, refs, some in zip(leases, blocks, chunks, strict=True):
            assert all(given(ledger.seal(lease, refs, some)))
        self.pairs = []
        begin = perf_counter_ns()
        for lease, refs in zip(leases, blocks, strict=True):
            given(ledger.offload(lease, refs))
            self.engine.pump()
        self._until("jobs", len(chunks), Ending.COMMITTED)
        store_ns = perf_counter_ns() - begin
        self._close(leases)
        self._evict()
        leases = [given(ledger.open("bench")) for _ in chunks]
        hits = [given(ledger.lookup(lease, some)) for lease, some in zip(leases, chunks, strict=True)]
        assert sum(len(hit.below) for hit in hits) == count
        blocks = [given(ledger.allocate(*each)).blocks for each in zip(leases, map(len, chunks), strict=True)]
        begin = perf_counter_ns()
        for lease, hit, into in zip(leases, hits, blocks, strict=True):
            given(ledger.load(lease, hit, into, deadline=self.engine.clock.now() + 300.0))
            self.engine.pump()
        self._until("loads", len(chunks), Ending.PROCEED)
        load_ns = perf_counter_ns() - begin
        self._close(leases)
        self._until_rest()
        ledger.reset()
        return store_ns, load_ns

    def _close(self, leases: Sequence[int]) -> None:
        for lease in leases:
            given(self.ledger.finish(lease))

    def _until(self, what: str, count: int, ending: Ending) -> None:
        """Turn the loop until it has brought so many verdicts of that kind, all with this ending."""
        while count:
            done = self.engine.poll()
            assert done.fatal is None, done.fatal
            verdicts = getattr(done, what)
            assert all(verdict.ending is ending for verdict in verdicts), verdicts
            count -= len(verdicts)
            if count and not self.inbox:
                self.inbox.wait(POLL)

    def _until_rest(self) -> None:
        while self.ledger.rest():
            assert self.engine.poll().fatal is None
            if not self.inbox:
                self.inbox.wait(POLL)

    def _evict(self) -> None:
        """Drop what is cached on the device, so that the next hit lies below."""
        self._until_rest()
        lease = given(self.ledger.open("bench"))
        given(self.ledger.allocate(lease, self.ledger.config.pools[0].blocks))
        given(self.ledger.finish(lease))
        self._shuffle()


class AtOnce:
    """A copier that copies nothing and reports at once: what is left is the cost of ledger and engine."""

    name = "cpu"

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox

    def submit(self, work: Work) -> None:
        self.inbox.put(Report(work.token, Outcome.DONE))

    def cancel(self, token: Token) -> None:
        """Nothing is under way."""

    def probe(self, token: Token) -> Progress:  # noqa: ARG002
        return Progress.OVER

    def fence(self) -> int:
        return 0

    def close(self, within: float) -> tuple[Token, ...]:  # noqa: ARG002
        return ()
