"""Offload and load with real bytes against `np.copyto` of the same blocks in a loop.

Blocks are scattered in both pools, which are larger than any cache. Each size is measured twice: the copier alone, from
the first part that it is given until the last report is there; and all of it, from the first request to the last
verdict of jobs of 32 blocks, in a thread that owns the engine and turns its loop every millisecond, as one that serves
does between steps. What they are held against is what somebody would write who knows which blocks to copy and keeps no
account of anything: a loop. They are timed by turns.

`integrity` is named in each line. Where it is `host`, sums are taken and compared, which the loop does not do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random
from time import perf_counter_ns

import numpy as np

from bench.measure import Line, Sense, Size, Spread, spread
from bench.road import AtOnce, Road
from kvstate.machines.messages import Kind, Outcome, Token, Work
from kvstate.runtime.copiers.threads import ThreadCopier
from kvstate.runtime.copy import Integrity
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory, Pool

BLOCKS = (256 << 10, 2 << 20)
"""Bytes of a block."""
LINK = 50e9
"""Bytes a second, one way, of a fast link to a GPU: what the account of a copy is held against."""
COUNTS = (1, 16, 256)
"""Blocks of a job, from which the cost of a job and of a block are taken apart."""
PART = 16
"""Blocks of a part where the copier is timed alone; what `LedgerConfig` has if it is not told."""
JOB = 32
"""Blocks of a job where copies are timed: a request's."""


def total_bytes(size: Size) -> int:
    """Of each pool."""
    return {"full": 128 << 20, "quick": 64 << 20}.get(size.name, 8 << 20)


def memory_of(count: int, block_bytes: int) -> Memory:
    """Two pools of as many blocks."""
    return Memory([Pool("device", 0, count, block_bytes), Pool("host", count, count, block_bytes)])


def loop(memory: Memory, pairs: list[tuple[int, int]]) -> int:
    """The same copies, one after the other; nanoseconds."""
    places = [(memory.place(src), memory.place(dst)) for src, dst in pairs]
    plain = [(one.array, source, other.array, target) for (one, source), (other, target) in places]
    begin = perf_counter_ns()
    for source, src, target, dst in plain:
        np.copyto(target[dst], source[src])
    return perf_counter_ns() - begin


class Turns:
    """What the turns of one case found: how many times as fast as the loop, and the best of each in GB/s."""

    def __init__(self, size: int) -> None:
        self.size = size
        """Bytes that each of the two directions copies in a turn."""
        self.ratios: list[tuple[float, float]] = []
        self.best = (float("inf"),) * 3

    def add(self, store: int, load: int, plain: tuple[int, int]) -> None:
        """Nanoseconds of a store and a load, and of the same copies by the loop."""
        self.ratios.append((plain[0] / store, plain[1] / load))
        one, other, third = self.best
        self.best = min(one, store), min(other, load), min(third, *plain)

    def lines(self, name: str, least: float | None) -> list[Line]:
        """A line for stores and one for loads."""
        speeds = [self.size / each for each in self.best]
        note = f"best of {len(self.ratios)}: store {speeds[0]:.1f}, load {speeds[1]:.1f}, loop {speeds[2]:.1f} GB/s"
        sense: Sense = "" if least is None else "at least"
        store, load = zip(*self.ratios, strict=True)
        return [
            Line(name.format(what=what), "x", spread(found), sense, least, note)
            for what, found in (("store", store), ("load", load))
        ]


def alone(size: Size, block_bytes: int, threads: int, integrity: Integrity) -> Turns:
    """The copier by itself, in parts of 16 blocks. What is loaded is compared where a ledger would ask for that."""
    count = max(16, total_bytes(size) // block_bytes)
    memory, inbox = memory_of(count, block_bytes), Inbox()
    copier = ThreadCopier(memory, inbox, threads, integrity=integrity)
    dice, found, serial = Random(1), Turns(count * block_bytes), 0

    def carry(kinds: Sequence[Kind], pairs: Sequence[tuple[int, int]]) -> int:
        nonlocal serial
        work = []
        for kind in kinds:
            for start in range(0, count, PART):
                serial += 1
                src, dst = zip(*pairs[start : start + PART], strict=True)
                keys = (b"key",) * len(src)
                work.append(Work(Token(1, serial), kind.value, 0, "cpu", 1, src, dst, keys, 0))
        begin = perf_counter_ns()
        for part in work:
            copier.submit(part)
        copier.fence()
        took = perf_counter_ns() - begin
        assert {report.outcome for report in inbox.drain(len(work))} == {Outcome.DONE}
        return took

    for turn in range(size.turns + 1):  # the first does not count
        src, dst = dice.sample(range(count), count), dice.sample(range(count, 2 * count), count)
        down, up = list(zip(src, dst, strict=True)), list(zip(dst, src, strict=True))
        checks = [Kind.FETCH, Kind.VERIFY] if integrity.of_memory else [Kind.FETCH]
        store, load = carry([Kind.STORE], down), carry(checks, up)
        plain = loop(memory, down), loop(memory, up)
        if turn:
            found.add(store, load, plain)
    assert copier.close(10.0) == ()
    return found


def through_all(size: Size, block_bytes: int, threads: int, integrity: Integrity) -> Turns:
    """Ledger, engine and copier together."""
    count = max(16, total_bytes(size) // block_bytes)
    memory, inbox = memory_of(count, block_bytes), Inbox()
    copier = ThreadCopier(memory, inbox, threads, integrity=integrity)
    road, found = Road(memory, copier, inbox, verify=integrity.of_memory), Turns(count * block_bytes)
    road.trip(count, JOB)
    for _ in range(size.turns):
        store, load = road.trip(count, JOB)
        half = len(road.pairs) // 2
        found.add(store, load, (loop(memory, road.pairs[:half]), loop(memory, road.pairs[half:])))
    assert copier.close(10.0) == ()
    return found


def copies(size: Size) -> list[Line]:
    """Block size by block size, with one thread and with two, and with the other settings of integrity."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    cases = [(1, Integrity.OFF, 0.9), (2, Integrity.OFF, 1.5), (1, Integrity.BOUNDARY, None), (1, Integrity.HOST, None)]
    result = []
    for way, measure in (("copier", alone), ("ledger, engine and copier", through_all)):
        for block_bytes in BLOCKS:
            for threads, integrity, least in cases:
                words = "1 thread" if threads == 1 else f"{threads} threads"
                name = (
                    f"{way}: {{what}} of blocks of {block_bytes >> 10} KiB / np.copyto in a loop "
                    f"({words}, integrity={integrity})"
                )
                if threads > cores:
                    missing = [name.format(what=what) for what in ("store", "load")]
                    result += [Line(each, "x", None, "at least", least, "there is one core") for each in missing]
                else:
                    result += measure(size, block_bytes, threads, integrity).lines(name, least)
    return result


def account(size: Size) -> list[Line]:
    """What ledger and engine take of the owner's time beside the copies: a job, and each block of it."""
    found: dict[int, tuple[Spread, Spread]] = {}
    for count in COUNTS:
        inbox = Inbox()
        road = Road(memory_of(count, 64), AtOnce(inbox), inbox)
        road.trip(count)
        trips = [road.trip(count) for _ in range(size.turns * 4)]
        found[count] = spread([store / 1e3 for store, _ in trips]), spread([load / 1e3 for _, load in trips])
    few, many = COUNTS[0], COUNTS[-1]
    result = []
    for place, what in enumerate(("store", "load")):
        one, all_ = found[few][place], found[many][place]
        each = Spread(
            (all_.median - one.median) / (many - few),
            (all_.low - one.low) / (many - few),
            (all_.high - one.low) / (many - few),
            one.count,
        )
        share = all_.low / (many * BLOCKS[0] / LINK * 1e6)
        result += [
            Line(f"ledger and engine, a {what}, the job", "us", one, "at most", 30, f"a job of {few} block, whole"),
            Line(f"ledger and engine, a {what}, each further block", "us", each, "at most", 1, f"of {many} in a job"),
            Line(
                f"the same, share of a {what} of {many} blocks of {BLOCKS[0] >> 10} KiB at 50 GB/s", "%",
                Spread(100 * share, 100 * share, 100 * share, 1), note="at best",
            ),
        ]  # fmt: skip
    return result


def lines(size: Size) -> list[Line]:
    """The account, and then the copies."""
    return [*account(size), *copies(size)]
