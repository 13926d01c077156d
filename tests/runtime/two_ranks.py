"""A runtime over two workers in this process: all that passes between them is bytes, and a test carries them by hand.

Each rank has memory of its own, and bytes of its own: what a key holds differs by rank, so that a piece which reaches
the wrong one is seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.messages import BlockRef
from kvstate.machines.verdicts import Hit, Short
from kvstate.replay.content import check_many, poison, poison_many, write_many
from kvstate.runtime.answers import Done
from kvstate.runtime.copiers.hand import Flight, HandCopier
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.memory import Memory
from kvstate.runtime.settings import RuntimeConfig, Workers
from kvstate.runtime.worker import Worker
from tests.runtime.parts import BLOCK, pools
from tests.runtime.rig import got

RANKS = (0, 1)


class Rank:
    """A worker and what it has. It is replaced as a whole when it is lost."""

    def __init__(self, rank: int, incarnation: int, device: int, host: int) -> None:
        self.rank = rank
        self.memory: Memory = pools(BLOCK, device, host)
        self.inbox = Inbox()
        self.copier = HandCopier(self.memory, self.inbox)
        self.worker = Worker(rank, incarnation, {"cpu": self.copier}, self.inbox)

    def key(self, key: bytes) -> bytes:
        """What this rank's piece of a key holds."""
        return key + bytes([self.rank])

    def write(self, refs: Sequence[BlockRef], keys: Sequence[bytes]) -> None:
        write_many(self.memory.pools[0].array, [ref.block for ref in refs], [self.key(key) for key in keys])

    def holds(self, blocks: Sequence[int], keys: Sequence[bytes]) -> bool:
        pool = self.memory.pool_of(blocks[0])
        rows = [block - pool.base for block in blocks]
        return check_many(pool.array, rows, [self.key(key) for key in keys]) == []


class TwoRanks:
    """Time stands still until `wait` moves it; messages go nowhere until `down` and `up` carry them."""

    def __init__(self, device: int = 4, host: int = 4, *, parts: int = 16, jobs: int = 256) -> None:
        self.size = device, host
        pools = (PoolConfig("device", device), PoolConfig("host", host, verify=True))
        ledger = LedgerConfig(pools=pools, ranks=2, part_blocks=parts, max_jobs=jobs)
        self.now = 0.0
        self.kv = KVRuntime(RuntimeConfig(ledger=ledger, block_bytes=BLOCK, workers=Workers.OWN))
        self.ranks = [Rank(rank, 1, device, host) for rank in RANKS]
        self.last_step = 0

    # -- the channel ---------------------------------------------------------------------------------------------------

    def down(self) -> None:
        """What there is to do reaches the workers."""
        for rank, message in self.kv.take_effects().items():
            self.ranks[rank].worker.feed(message)

    def up(self) -> Done:
        """What they have to say reaches the ledger, and a turn of the loop."""
        for rank in self.ranks:
            self.kv.report(rank.worker.take_reports())
        return self.turn()

    def turn(self) -> Done:
        return self.kv.poll(self.now)

    def wait(self, seconds: float) -> Done:
        self.now += seconds
        return self.turn()

    def flying(self, rank: int) -> list[Flight]:
        self.down()
        return self.ranks[rank].copier.in_flight()

    def land(self, rank: int, flight: Flight) -> None:
        """Its bytes land, and its report is on the way."""
        if not flight.over:
            self.ranks[rank].copier.land(flight.serial)
        self.ranks[rank].copier.deliver(flight.serial)

    def run(self) -> list[Done]:
        """Everything lands and is reported, with what follows from it."""
        turns = []
        while flights := [(rank, flight) for rank in RANKS for flight in self.flying(rank)]:
            for rank, flight in flights:
                self.land(rank, flight)
            turns.append(self.up())
        return turns

    def restart(self, rank: int) -> None:
        """Another worker for a rank that was lost."""
        self.ranks[rank] = Rank(rank, self.kv.incarnation(rank), *self.size)

    # -- requests ------------------------------------------------------------------------------------------------------

    def open(self) -> int:
        return got(self.kv.open("test"))

    def allocate(self, lease: int, count: int) -> Sequence[BlockRef]:
        """Blocks as an engine gets them: what was in them is poison, on every rank."""
        refs = got(self.kv.allocate(lease, count)).blocks
        for rank in self.ranks:
            array, blocks = rank.memory.pools[0].array, [ref.block for ref in refs]
            poison_many(array, blocks, blocks, [ref.generation for ref in refs])
        return refs

    def short(self, lease: int, count: int) -> Short:
        answer = self.kv.allocate(lease, count)
        assert isinstance(answer, Short), answer
        return answer

    def compute(self, lease: int, refs: Sequence[BlockRef], keys: Sequence[bytes]) -> None:
        """One step that fills these blocks, and publishes them."""
        self.last_step += 1
        assert self.kv.step_dispatched(self.last_step, [lease])
        assert all(got(self.kv.seal(lease, refs, keys)))
        self.down()
        for rank in self.ranks:
            rank.write(refs, keys)
        assert self.kv.step_retired(self.last_step)

    def offload(self, lease: int, refs: Sequence[BlockRef]) -> int:
        return got(self.kv.offload(lease, refs)).job

    def only_in_host(self, keys: Sequence[bytes]) -> None:
        """Somebody before us has stored these keys; on the device nothing of them is left."""
        lease = self.open()
        refs = self.allocate(lease, len(keys))
        self.compute(lease, refs, keys)
        self.offload(lease, refs)
        self.run()
        self.kv.finish(lease)
        lease = self.open()
        self.allocate(lease, self.size[0])
        self.kv.finish(lease)

    def load(self, lease: int, keys: Sequence[bytes], seconds: float = 5.0) -> tuple[int, Sequence[BlockRef]]:
        hit: Hit = got(self.kv.lookup(lease, keys))
        assert len(hit.below) == len(keys)
        into = self.allocate(lease, len(keys))
        return got(self.kv.load(lease, hit, into, deadline=self.now + seconds)).load, into

    def holds(self, blocks: Sequence[int], keys: Sequence[bytes]) -> bool:
        return all(rank.holds(blocks, keys) for rank in self.ranks)

    def untouched(self, refs: Sequence[BlockRef]) -> bool:
        """Do these blocks hold the poison of this very life, every byte of it, on every rank?"""
        return all(
            np.array_equal(rank.memory.bytes_of(ref.block), poison(*ref, BLOCK)) for rank in self.ranks for ref in refs
        )
