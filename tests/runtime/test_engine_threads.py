"""The engine over threads that copy in the background: the same promises, in real time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
import pytest

from kvstate.errors import Code
from kvstate.machines.audit import audit
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef
from kvstate.machines.verdicts import Ending, Hit, Short
from kvstate.replay.content import poison, poison_many
from kvstate.runtime.clock import RealClock
from kvstate.runtime.copiers.threads import ThreadCopier
from kvstate.runtime.copy import Integrity
from kvstate.runtime.engine import Engine, Poll
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory
from tests.runtime.parts import fill, holds, key, pools
from tests.runtime.rig import got, keys_of, only_load

BIG = 1 << 16
"""Bytes of a block here: long enough that requests end while a copy moves."""
DEVICE, HOST = 24, 64


class Threads:
    """An engine whose copies are made by two threads. The memory may be smaller than the ledger believes."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.inbox = Inbox()
        self.copier = ThreadCopier(memory, self.inbox, 2, integrity=Integrity.HOST)
        pools = (PoolConfig("device", DEVICE), PoolConfig("host", HOST, verify=True))
        self.ledger = Ledger(LedgerConfig(pools=pools, part_blocks=2, batch_blocks=4))
        self.engine = Engine(self.ledger, {"cpu": self.copier}, self.inbox, RealClock())

    def quiet(self) -> list[Poll]:
        """Turn until no job and no load is under way."""
        turns = [self.engine.poll()]
        while self.ledger.books.job_ids or self.ledger.books.load_ids:
            self.inbox.wait(0.05)
            turns.append(self.engine.poll())
        return turns

    def computed(self, lease: int, *numbers: int) -> Sequence[BlockRef]:
        refs = got(self.ledger.allocate(lease, len(numbers))).blocks
        fill(self.memory, [ref.block for ref in refs], keys_of(*numbers))
        got(self.ledger.seal(lease, refs, keys_of(*numbers)))
        return refs


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads(pools(BIG, DEVICE, HOST))
    yield threads
    assert threads.copier.close(5.0) == ()


def test_what_is_stored_comes_back(threads: Threads) -> None:
    ledger, numbers = threads.ledger, range(12)
    lease = got(ledger.open("test"))
    job = got(ledger.offload(lease, threads.computed(lease, *numbers))).job
    jobs = [verdict for turn in threads.quiet() for verdict in turn.jobs]
    assert [(verdict.job, verdict.ending) for verdict in jobs] == [(job, Ending.COMMITTED)]
    ledger.finish(lease)
    lease = got(ledger.open("test"))
    got(ledger.allocate(lease, DEVICE))
    ledger.abort(lease)

    lease = got(ledger.open("test"))
    hit = got(ledger.lookup(lease, keys_of(*numbers)))
    assert hit.below == tuple(numbers)
    into = got(ledger.allocate(lease, 12)).blocks
    got(ledger.load(lease, hit, into, deadline=30.0))
    assert only_load(threads.quiet()).ending is Ending.PROCEED
    assert holds(threads.memory, [ref.block for ref in into], keys_of(*numbers))


def test_an_exception_in_a_copy_is_one_failed_job() -> None:
    """The ledger was told of more host blocks than there are. Whoever is given one fails, and the others do not."""
    threads = Threads(pools(BIG, DEVICE, 4))
    lease = got(threads.ledger.open("test"))
    jobs = [got(threads.ledger.offload(lease, threads.computed(lease, number))).job for number in range(8)]
    verdicts = {verdict.job: verdict for turn in threads.quiet() for verdict in turn.jobs}
    assert [verdicts[job].ending is Ending.COMMITTED for job in jobs] == [True] * 4 + [False] * 4
    (error,) = verdicts[jobs[7]].errors
    assert (error.code, error.stage) == (Code.INTERNAL, "write")
    assert error.type.endswith("NoSuchBlockError")
    assert threads.copier.close(5.0) == ()


def test_a_fence_waits_for_the_threads(threads: Threads) -> None:
    lease = got(threads.ledger.open("test"))
    got(threads.ledger.offload(lease, threads.computed(lease, *range(20))))
    threads.engine.fence()
    assert [part for part in threads.ledger.books.parts.live() if part.copier == "cpu"] == []
    jobs = threads.engine.poll().jobs
    assert [verdict.ending for verdict in jobs] == [Ending.COMMITTED]  # all had been reported when the fence came


def test_no_request_ever_finds_another_ones_bytes(threads: Threads) -> None:
    """Requests that end whenever they like. Each block that is given out is poisoned, and stays so until it is filled
    by whoever has it: a copy that outlives its request would leave its bytes there.
    """
    dice, ledger, memory = Random(7), threads.ledger, threads.memory
    given: dict[int, Sequence[BlockRef]] = {}
    loads = aborted = 0
    for turn in range(400):
        lease = got(ledger.open("test"))
        numbers = [dice.randrange(3), *range(dice.randrange(8))]
        keys = [key(100 * numbers[0] + number) for number in numbers[1:]]
        hit: Hit = got(ledger.lookup(lease, keys))
        missing = len(keys) - len(hit.blocks) + len(hit.below) + 2
        grant = ledger.allocate(lease, missing)
        if isinstance(grant, Short) or hit.pending:
            ledger.abort(lease)
            threads.inbox.wait(0.001)
        else:
            fresh = got(grant).blocks
            blocks = [ref.block for ref in fresh]
            poison_many(memory.pools[0].array, blocks, blocks, [ref.generation for ref in fresh])
            given[lease] = fresh[-2:]
            into, computed = fresh[: len(hit.below)], fresh[len(hit.below) : -2]
            if hit.below:
                got(ledger.load(lease, hit, into, deadline=30.0))
                loads += 1
            elif computed:
                fill(memory, [ref.block for ref in computed], keys[len(hit.blocks) :])
                got(ledger.seal(lease, computed, keys[len(hit.blocks) :]))
                ledger.offload(lease, computed)
        for done in threads.engine.poll().loads:
            aborted += done.ending is Ending.ABORTED
        while len(given) > dice.randrange(5):
            old = dice.choice(list(given))
            for ref in given.pop(old):
                assert np.array_equal(memory.bytes_of(ref.block), poison(*ref, BIG)), turn
            ledger.abort(old)
    for old in given:
        ledger.finish(old)
    threads.quiet()
    threads.engine.fence()
    threads.engine.poll()
    assert (audit(ledger), ledger.fatal, ledger.rest()) == ([], None, [])
    assert (loads > 20, aborted > 5) == (True, True), (loads, aborted)
