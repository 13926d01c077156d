"""Blocks to disk and back against a plain write and read of the same bytes, with the same sync.

What they are held against is what somebody would write who keeps files and no promises: one file a block, opened,
written, synced if that is asked for, closed; and opened, read into the block's memory, closed. No header, no sum, no
name that is a hash, no rename, all of them in one folder. Both go through one thread, part by part in turns, over the
same blocks, into files that are new, on the same disk; what is read was written a moment before, and so comes out of
the system's memory. Puts are also held against the same files with one promise more: nobody finds half of one, since
it is renamed when it is whole.

What a turn made is removed before the next one, and not while anything is timed. On ext4 that makes it slower to create
a file for a minute (an inode is not given out again so soon, and is passed over), for the one as for the other: so a
ratio of puts says more on a file system that is new.

A put is STORE and PERSIST of parts of 4 MiB or more, a get is FETCH of them, by the disk alone: the ledger's share is
measured elsewhere. Of each turn the best part counts, of the one and of the other: where others use the machine, or its
disk, most parts are held up by them.

So much for one thread beside one. What a tier has is a copier with as many threads as the settings say, two where they
say nothing: that is measured as well, all blocks of a turn at once, in the parts that a ledger makes, against the plain
files written and read by one thread, and by as many threads as the copier has.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter_ns

import numpy as np

from bench.measure import Line, Size, spread
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.messages import Kind, Outcome, Token, Work
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory, Pool
from kvstate.runtime.tiers.copier import DiskCopier
from kvstate.runtime.tiers.disk import Disk
from kvstate.runtime.tiers.folder import Folder
from kvstate.runtime.tiers.sealed import Seal, Sum
from kvstate.runtime.tiers.settings import DiskConfig, Sync

BLOCKS = (256 << 10, 2 << 20)
"""Bytes of a block."""
PART_BYTES = 4 << 20
"""Bytes of a part; of large blocks it has `LEAST` all the same."""
LEAST = 4
"""Blocks of a part."""
SETTINGS = DiskConfig(path=Path(), fingerprint="bench")
"""With the threads that a tier has where nothing is said."""
PART_BLOCKS = LedgerConfig(pools=(PoolConfig("device", 1),)).part_blocks
"""Blocks of a part of what goes through the copier: as many as a ledger's have."""
TARGETS = {Sum.NONE: (0.85, 0.85), Sum.XXH3: (0.75, 0.6)}
"""Put and get, at least so many times as fast as plain."""
FILE = "KVSTATE_BENCH_DISK"
"""The variable with the folder that is measured in; without it, one for temporary files."""


def total_bytes(size: Size) -> int:
    """Of the blocks of a turn."""
    return {"full": 64 << 20, "quick": 32 << 20}.get(size.name, 4 << 20)


class Case:
    """One size of block, one sum, one sync: a disk, and a folder for plain files beside it."""

    def __init__(self, path: Path, count: int, block_bytes: int, sum_: Sum, sync: Sync) -> None:
        self.path, self.count, self.sync = path, count, sync
        self.memory = Memory([Pool("device", 0, count, block_bytes)])
        self.memory.pools[0].array[:] = np.random.default_rng(1).integers(0, 256, (count, block_bytes), np.uint8)
        self.disk = Disk(Folder(path / "kv", Seal("bench", algorithm=sum_), sync=sync), self.memory, count, count)
        self.inbox = Inbox()
        self.copier = DiskCopier(self.disk, self.memory, self.inbox, SETTINGS.threads)
        self.threads = ThreadPoolExecutor(SETTINGS.threads)
        self.serial = 0

    def part(self, kind: Kind, blocks: range, turn: int) -> Work:
        """These blocks, as a part of that kind."""
        self.serial += 1
        near, far = tuple(blocks), tuple(block + self.count for block in blocks)
        keys = tuple(b"%8d %8d" % (turn, block) for block in near)
        src, dst = {Kind.STORE: (near, far), Kind.PERSIST: (far, ()), Kind.FETCH: (far, near)}[kind]
        return Work(Token(1, self.serial), kind.value, 0, "disk", 1, src, dst, keys, 0, ("bench",))

    def carry(self, kinds: Sequence[Kind], blocks: range, turn: int) -> int:
        """These blocks, as a part of each kind; nanoseconds."""
        work = [self.part(kind, blocks, turn) for kind in kinds]
        begin = perf_counter_ns()
        outcomes = {self.disk.carry(part).outcome for part in work}
        took = perf_counter_ns() - begin
        assert outcomes == {Outcome.DONE}, outcomes
        return took

    def through(self, kinds: Sequence[Kind], turn: int) -> int:
        """All blocks through the copier, each part as one of each kind behind the other; nanoseconds."""
        parts = [range(at, min(at + PART_BLOCKS, self.count)) for at in range(0, self.count, PART_BLOCKS)]
        coming = [[self.part(kind, blocks, turn) for kind in kinds] for blocks in parts]
        waiting: dict[Token, list[Work]] = {}
        begin = perf_counter_ns()
        for first, *rest in coming:
            waiting[first.token] = rest
            self.copier.submit(first)
        while waiting:
            self.inbox.wait(1.0)
            for report in self.inbox.drain(64):
                assert report.outcome == Outcome.DONE, report
                rest = waiting.pop(report.token)
                if rest:
                    waiting[rest[0].token] = rest[1:]
                    self.copier.submit(rest[0])
        return perf_counter_ns() - begin

    def side_by_side(self, one: Callable[[range], int]) -> int:
        """All blocks by so many threads as the copier has, a run of them each; nanoseconds."""
        step = -(-self.count // SETTINGS.threads)
        begin = perf_counter_ns()
        list(self.threads.map(one, [range(at, min(at + step, self.count)) for at in range(0, self.count, step)]))
        return perf_counter_ns() - begin

    def plain_put(self, blocks: range) -> int:
        """The same bytes, a file a block; nanoseconds."""
        folder, array, synced = str(self.path / "plain"), self.memory.pools[0].array, self.sync is not Sync.NONE
        begin = perf_counter_ns()
        for block in blocks:
            file = os.open(f"{folder}/{block}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(file, array[block].data)
            if synced:
                os.fdatasync(file)
            os.close(file)
        return perf_counter_ns() - begin

    def whole_put(self, blocks: range) -> int:
        """The same, under another name until it is whole; nanoseconds."""
        folder, array, synced = str(self.path / "whole"), self.memory.pools[0].array, self.sync is not Sync.NONE
        begin = perf_counter_ns()
        for block in blocks:
            file = os.open(f"{folder}/{block}.part", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            os.write(file, array[block].data)
            if synced:
                os.fdatasync(file)
            os.close(file)
            os.rename(f"{folder}/{block}.part", f"{folder}/{block}")  # noqa: PTH104
        return perf_counter_ns() - begin

    def plain_get(self, blocks: range) -> int:
        """And back into the same memory; nanoseconds."""
        folder, array = str(self.path / "plain"), self.memory.pools[0].array
        begin = perf_counter_ns()
        for block in blocks:
            file = os.open(f"{folder}/{block}", os.O_RDONLY)
            os.readv(file, [array[block].data])
            os.close(file)
        return perf_counter_ns() - begin

    def turn(self, number: int) -> tuple[float, float, float, float, float]:
        """How many times as fast puts (as plain files, and as files that are whole) and gets are, and how fast in bytes
        a nanosecond.

        Part by part each comes first by turns: a disk that others use is now fast and now slow.
        """
        self.clear()
        step = max(LEAST, PART_BYTES // self.memory.block_bytes)
        parts = [range(start, min(start + step, self.count)) for start in range(0, self.count, step)]
        put, plain, whole = best(
            parts,
            lambda part: self.carry([Kind.STORE, Kind.PERSIST], part, number),
            self.plain_put,
            self.whole_put,
        )
        get, plain_get = best(parts, lambda part: self.carry([Kind.FETCH], part, number), self.plain_get)
        bytes_ = len(parts[0]) * self.memory.block_bytes
        return plain / put, whole / put, plain_get / get, bytes_ / put, bytes_ / get

    def clear(self) -> None:
        """What the last turn stored is gone before the next is timed."""
        for block in range(self.count):
            self.disk.empty(block + self.count)
        for name in ("plain", "whole"):
            shutil.rmtree(self.path / name, ignore_errors=True)
            (self.path / name).mkdir()

    def tier_turn(self, number: int) -> tuple[float, float, float, float]:
        """How many times as fast as plain files the tier is, by its copier: puts, beside one thread and beside as many
        as it has, and gets.

        Each is timed alone, on a folder where nothing is: all of its blocks at once leave no turns to take.
        """
        took: dict[str, tuple[int, int]] = {}
        ways: dict[str, tuple[Callable[[], int], Callable[[], int]]] = {
            "tier": (
                lambda: self.through([Kind.STORE, Kind.PERSIST], number),
                lambda: self.through([Kind.FETCH], number),
            ),
            "one": (lambda: self.plain_put(range(self.count)), lambda: self.plain_get(range(self.count))),
            "many": (lambda: self.side_by_side(self.plain_put), lambda: self.side_by_side(self.plain_get)),
        }
        names = list(ways)
        for name in names[number % 3 :] + names[: number % 3]:
            self.clear()
            put, get = ways[name]
            took[name] = put(), get()
        tier = took["tier"]
        return (
            took["one"][0] / tier[0],
            took["many"][0] / tier[0],
            took["one"][1] / tier[1],
            took["many"][1] / tier[1],
        )


def best(parts: Sequence[range], *ways: Callable[[range], int]) -> list[int]:
    """Nanoseconds of the best part of each way; all have all parts."""
    took: list[list[int]] = [[] for _ in ways]
    for number, part in enumerate(parts):
        for place in range(len(ways)):
            which = (number + place) % len(ways)
            took[which].append(ways[which](part))
    return [min(one) for one in took]


def case(size: Size, folder: Path, block_bytes: int, sum_: Sum, sync: Sync) -> list[Line]:
    """Three lines for one thread, and four for the tier's own."""
    one = Case(folder, max(2 * LEAST, total_bytes(size) // block_bytes), block_bytes, sum_, sync)
    turns = [one.turn(number) for number in range(size.turns + 1)][1:]
    tier = [one.tier_turn(number) for number in range(size.turns + 1)][1:]
    one.copier.close(10.0)
    one.threads.shutdown()
    puts, wholes, gets, put_speed, get_speed = zip(*turns, strict=True)
    by_one, by_many, gets_one, gets_many = zip(*tier, strict=True)
    what = f"blocks of {block_bytes >> 10} KiB / {{}} files (integrity={sum_}, sync={sync})"
    name = f"disk: {{}} of {what}"
    name_tier = f"disk: {{}} through the copier of {what}"
    put, get = TARGETS[sum_]
    many = f"plain, by {SETTINGS.threads} threads,"
    return [
        Line(name.format("put", "plain"), "x", spread(puts), note=f"best {max(put_speed):.2f} GB/s"),
        Line(name.format("put", "whole"), "x", spread(wholes)),
        Line(name.format("warm get", "plain"), "x", spread(gets), note=f"best {max(get_speed):.2f} GB/s"),
        Line(name_tier.format("put", "plain"), "x", spread(by_one), "at least", put),
        Line(name_tier.format("put", many), "x", spread(by_many)),
        Line(name_tier.format("warm get", "plain"), "x", spread(gets_one), "at least", get),
        Line(name_tier.format("warm get", many), "x", spread(gets_many)),
    ]


def lines(size: Size) -> list[Line]:
    """Sizes, sums and syncs."""
    result: list[Line] = []
    for block_bytes in BLOCKS:
        for sum_ in (Sum.NONE, Sum.XXH3):
            for sync in (Sync.NONE, Sync.DATA):
                with tempfile.TemporaryDirectory(dir=os.environ.get(FILE)) as folder:
                    result += case(size, Path(folder), block_bytes, sum_, sync)
    return result
