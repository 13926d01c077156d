"""Blocks to an object store and back against the same bytes put and got by obstore, by hand.

What they are held against is what somebody would write who has keys and no promises: `obstore.put` of a block's memory
on condition that nothing is there, and `obstore.get` of it, copied into the block. No header, no sum, no name that is a
hash. Both go through as many threads, part by part in turns, over the same blocks, to the same store: a folder, which
shows what our own work costs. An S3 server of one's own is measured where `KVSTATE_BENCH_STORE` has its URL; over a
network its latency is most of it, for the one as for the other.

A put is STORE and PERSIST of a part, a get is FETCH of one, by the tier alone. Of each turn the best part counts, of
the one and of the other: where others use the machine, most parts are held up by them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter_ns
from typing import Any
from uuid import uuid4

import numpy as np

from bench.measure import Line, Size, spread
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.messages import Adopt, Kind, Outcome, Token, Work
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory, Pool
from kvstate.runtime.tiers.objects.copier import StoreCopier, make_objects
from kvstate.runtime.tiers.objects.settings import StoreConfig

BLOCKS = (256 << 10, 2 << 20)
"""Bytes of a block."""
PART_BYTES = 8 << 20
"""Bytes of a part."""
THREADS = 4
"""Requests at once, of the one and of the other."""
STORE = "KVSTATE_BENCH_STORE"
"""The variable with the URL of a store that is measured as well."""


def total_bytes(size: Size) -> int:
    """Of the blocks of a turn."""
    return {"full": 64 << 20, "quick": 32 << 20}.get(size.name, 16 << 20)


class Case:
    """One store and one size of block, with and without sums."""

    def __init__(self, url: str, count: int, block_bytes: int, *, summed: bool) -> None:
        self.count = count
        self.memory = Memory([Pool("device", 0, count, block_bytes)])
        self.memory.pools[0].array[:] = np.random.default_rng(1).integers(0, 256, (count, block_bytes), np.uint8)
        store = PoolConfig("store", count, durable=True, shared=True, verify=True, copier="store")
        ledger = LedgerConfig((PoolConfig("device", count), store))
        config = StoreConfig(url=url, fingerprint=f"bench {uuid4()}", concurrency=THREADS)
        self.inbox = Inbox()
        self.objects = make_objects(config, ledger, self.memory, 0, summed=summed)
        self.copier = StoreCopier(self.objects, self.memory, self.inbox, THREADS)
        self.threads = ThreadPoolExecutor(THREADS)
        self.serial = 0

    def carry(self, kinds: Sequence[Kind], blocks: range, turn: int) -> int:
        """These blocks, as a part of each kind, one after the other; nanoseconds."""
        near, far = tuple(blocks), tuple(block + self.count for block in blocks)
        keys = tuple(b"%8d %8d" % (turn, block) for block in near)
        sides = {Kind.STORE: (near, far), Kind.PERSIST: (far, ()), Kind.FETCH: (far, near)}
        if kinds[0] is Kind.FETCH:
            self.objects.adopt(Adopt(0, "store", far, ("bench",) * len(far), keys))
        begin = perf_counter_ns()
        for kind in kinds:
            self.serial += 1
            self.copier.submit(
                Work(Token(1, self.serial), kind.value, 0, "store", 1, *sides[kind], keys, 0, ("bench",))
            )
            while not self.inbox.wait(10.0):
                pass
            (report,) = self.inbox.drain(8)
            assert report.outcome == Outcome.DONE, report
        return perf_counter_ns() - begin

    def by_hand(self, do: Callable[[int], Any], blocks: range) -> int:
        """One call a block, in as many threads; nanoseconds."""
        begin = perf_counter_ns()
        list(self.threads.map(do, blocks))
        return perf_counter_ns() - begin

    def turn(self, number: int) -> tuple[float, float, float, float]:
        """How many times as fast put and get are, and how fast in bytes a nanosecond."""
        bucket, array = self.objects.versions.bucket, self.memory.pools[0]
        api, store = bucket._api, bucket._store  # noqa: SLF001 - the very client that the tier uses

        def put(block: int) -> None:
            api.put(store, f"plain-{number}/{block}", array.array[block].data, mode="create", use_multipart=False)

        def get(block: int) -> None:
            np.copyto(array.array[block], np.frombuffer(api.get(store, f"plain-{number}/{block}").bytes(), np.uint8))

        step = max(PART_BYTES // self.memory.block_bytes, THREADS)
        parts = [range(start, min(start + step, self.count)) for start in range(0, self.count, step)]
        puts = self.both(parts, lambda part: self.carry([Kind.STORE, Kind.PERSIST], part, number), put)
        gets = self.both(parts, lambda part: self.carry([Kind.FETCH], part, number), get)
        bytes_ = len(parts[0]) * self.memory.block_bytes
        names = [f"plain-{number}/{block}" for block in range(self.count)]
        names += [self.objects.names.of("bench", b"%8d %8d" % (number, block)) for block in range(self.count)]
        api.delete(store, names)
        return puts[1] / puts[0], gets[1] / gets[0], bytes_ / puts[0], bytes_ / gets[0]

    def both(
        self, parts: Sequence[range], ours: Callable[[range], int], plain: Callable[[int], Any]
    ) -> tuple[int, int]:
        """Nanoseconds of the best part of the one and of the other, which come first by turns."""
        took: tuple[list[int], list[int]] = ([], [])
        for number, part in enumerate(parts):
            for which in (0, 1) if number % 2 else (1, 0):
                took[which].append(self.by_hand(plain, part) if which else ours(part))
        return min(took[0]), min(took[1])

    def close(self) -> None:
        """End the threads."""
        self.copier.close(10.0)
        self.threads.shutdown()


def case(size: Size, url: str, what: str, block_bytes: int, *, summed: bool) -> list[Line]:
    """A line for put and one for get."""
    one = Case(url, max(2 * THREADS, total_bytes(size) // block_bytes), block_bytes, summed=summed)
    turns = [one.turn(number) for number in range(size.turns + 1)][1:]
    one.close()
    puts, gets, put_speed, get_speed = zip(*turns, strict=True)
    sums = "xxh3_128" if summed else "none"
    name = f"store: {{}} of blocks of {block_bytes >> 10} KiB / obstore by hand ({what}, integrity={sums})"
    return [
        Line(name.format("put"), "x", spread(puts), note=f"best {max(put_speed):.2f} GB/s"),
        Line(name.format("get"), "x", spread(gets), note=f"best {max(get_speed):.2f} GB/s"),
    ]


def lines(size: Size) -> list[Line]:
    """Stores, sizes and sums."""
    result: list[Line] = []
    for block_bytes in BLOCKS:
        for summed in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                stores = {"a folder": Path(folder).as_uri()}
                if STORE in os.environ:
                    stores["a server"] = os.environ[STORE]
                for what, url in stores.items():
                    result += case(size, url, what, block_bytes, summed=summed)
    return result
