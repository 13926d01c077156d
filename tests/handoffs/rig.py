"""Two runtimes in this process, a producer and a consumer, joined by a real link and a real transport.

Bytes come from the content oracle. Both are turned by hand, with a clock of the test's own where it says the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.messages import BlockRefs
from kvstate.machines.verdicts import Grant, Hit, LoadVerdict, Started
from kvstate.replay import content
from kvstate.runtime.answers import Done
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.peers.news import HandoffVerdict, Offered, PeerNews
from kvstate.runtime.peers.settings import PeerConfig
from kvstate.runtime.settings import IntegrityChoice, RuntimeConfig

BLOCK = 1024
"""Bytes of a block."""
SPACE = "tenant"
PATIENT: dict[str, Any] = {"lease": 20.0, "resend": 0.05, "patience": 5.0, "greeting": 30.0}
"""Waits that no slow machine outlasts."""
SECONDS = 30.0
"""So long a test waits for what must come."""


def keys(count: int, first: int = 0) -> list[bytes]:
    """So many keys of 16 bytes, alike in every test."""
    return [b"key-%012d" % number for number in range(first, first + count)]


def settings(name: str, *, borrows: bool, ranks: int = 1, blocks: int = 16, **peers: Any) -> RuntimeConfig:
    """Of one side; `borrows` gives it a pool for what others offer."""
    pools = [PoolConfig("device", blocks)]
    if borrows:
        pools.append(PoolConfig("peer", blocks, verify=True, shared=True, copier="peer"))
    integrity, record = peers.pop("integrity", IntegrityChoice.BOUNDARY), peers.pop("record", None)
    return RuntimeConfig(
        ledger=LedgerConfig(tuple(pools), ranks=ranks, grace=0.5),
        block_bytes=BLOCK,
        integrity=integrity,
        record=record,
        load_for=peers.pop("load_for", 20.0),
        peers=PeerConfig(**{"name": name, "fingerprint": "model-1", **PATIENT, **peers}),
    )


class Side:
    """One runtime, and what its polls brought."""

    def __init__(self, kv: KVRuntime) -> None:
        self.kv = kv
        self.offers: list[Offered] = []
        self.ends: list[HandoffVerdict] = []
        self.peers: list[PeerNews] = []
        self.loads: list[LoadVerdict] = []
        self.troubles: list[str] = []
        self.step = 0

    def turn(self, now: float | None = None) -> Done:
        """One poll, the effects sent."""
        done = self.kv.poll(now)
        self.offers += done.offers
        self.ends += done.handoffs
        self.peers += done.peers
        self.loads += done.verdicts
        self.troubles += done.troubles
        assert done.fatal is None, done.fatal
        self.kv.take_effects()
        return done

    def prompt(self, count: int, first: int = 0) -> tuple[int, BlockRefs]:
        """A lease whose blocks are computed and sealed."""
        lease = self.kv.open(SPACE)
        assert isinstance(lease, int)
        got = self.kv.allocate(lease, count)
        assert isinstance(got, Grant), got
        self.write(list(got.blocks.blocks), keys(count, first))
        assert self.kv.seal(lease, got.blocks, keys(count, first))
        return lease, got.blocks

    def write(self, blocks: list[int], names: list[bytes]) -> None:
        """The bytes of these keys, into device blocks of every rank, another piece into each."""
        for rank, memory in enumerate(self.kv.memories):
            content.write_many(memory.pool_of(0).array, blocks, [name + bytes([rank]) for name in names])

    def wrong(self, blocks: list[int], names: list[bytes]) -> list[str]:
        """What of these blocks is not as their keys say."""
        found = []
        for rank, memory in enumerate(self.kv.memories):
            array = memory.pool_of(0).array
            bad = content.check_many(array, blocks, [name + bytes([rank]) for name in names])
            found += [content.explain(array[blocks[line]], names[line] + bytes([rank])) for line in bad]
        return found

    def borrow(self, count: int, first: int = 0) -> tuple[int, Hit, BlockRefs]:
        """A lease, its hit in what was offered, and blocks that a load fills; begun."""
        lease = self.kv.open(SPACE)
        assert isinstance(lease, int)
        hit = self.kv.lookup(lease, keys(count, first))
        assert isinstance(hit, Hit)
        assert len(hit.below) == count, hit
        got = self.kv.allocate(lease, count)
        assert isinstance(got, Grant)
        assert isinstance(self.kv.load(lease, hit, got.blocks), Started)
        self.kv.take_effects()
        return lease, hit, got.blocks


class Pair:
    """Both sides."""

    def __init__(self, producer: Side, consumer: Side) -> None:
        self.producer = producer
        self.consumer = consumer

    def until(self, there: Callable[[], object], what: str) -> None:
        """Turn both until that is so."""
        end = monotonic() + SECONDS
        while not there():
            assert monotonic() < end, f"{what} did not come: {self.producer.ends} {self.consumer.ends}"
            self.producer.turn()
            self.consumer.turn()
            sleep(0.001)

    def until_alone(self, there: Callable[[], object], what: str) -> None:
        """Turn the producer alone until that is so."""
        end = monotonic() + SECONDS
        while not there():
            assert monotonic() < end, f"{what} did not come: {self.producer.ends}"
            self.producer.turn()
            self.producer.kv.wait(0.01)

    def offered(self, count: int, first: int = 0, **more: Any) -> tuple[int, int, BlockRefs, Offered]:
        """A prompt of the producer that the consumer knows of: lease, number, blocks, and what was told."""
        lease, refs = self.producer.prompt(count, first)
        number = self.producer.kv.offer(lease, refs, to="decode", request=b"r%d" % first, **more)
        assert isinstance(number, int), number
        before = len(self.consumer.offers)
        self.until(lambda: len(self.consumer.offers) > before, "the offer")
        return lease, number, refs, self.consumer.offers[-1]


@contextmanager
def pair(
    *,
    producer: dict[str, Any] | None = None,
    consumer: dict[str, Any] | None = None,
    names: tuple[str, str] = ("prefill", "decode"),
    met: bool = True,
    **both: Any,
) -> Iterator[Pair]:
    """Two runtimes that know of each other. `producer`, `consumer` and `both` are settings of the sides."""
    ours = settings(names[0], borrows=False, **{**both, **(producer or {})})
    theirs = settings(names[1], borrows=True, **{**both, **(consumer or {})})
    with KVRuntime(ours) as lender, KVRuntime(theirs) as borrower:
        two = Pair(Side(lender), Side(borrower))
        lender.greet(names[1], borrower.listens_at)
        borrower.greet(names[0], lender.listens_at)
        if met:
            two.until(lambda: two.producer.peers and two.consumer.peers, "the greeting")
        yield two
