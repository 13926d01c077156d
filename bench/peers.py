"""Blocks of another process through the copier of a rank, against the same transport driven by hand.

By hand is what somebody would write who has one batch to move and keeps no promises: over gloo a process group of two
and a send and a receive a block, all posted before the first is waited for; over NIXL one read of all blocks from
prepared lists, looked at every 100 us, by an agent without a thread of its own, which is the faster. Ours is
the same blocks as parts of a job, through `PeerCopier`: routes looked up, pulls asked for on a socket or cut into
chunks, reports put into an inbox; with sums, VERIFY of each part when it is there. The sums of the producer are made
when it offers, before anybody pulls, and are not in here.

Each case has two processes of its own, and both ways take turns in them, over the same blocks in the same order, which
has no two side by side. Where others use the machine's cores, the ratio of one turn says little, and the median of many
something.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from time import perf_counter_ns, sleep
from typing import Any

import numpy as np

from bench.measure import Line, Size, spread
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.messages import Adopt, Kind, Outcome, Token, Work
from kvstate.runtime.copy import Integrity
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory, Pool
from kvstate.runtime.peers.copier import PeerCopier
from kvstate.runtime.peers.group import OWNER, PULLER, Pair
from kvstate.runtime.peers.handshake import Wire
from kvstate.runtime.peers.layout import decode, layout_of
from kvstate.runtime.peers.transport import Transport

BLOCKS = (256 << 10, 2 << 20)
"""Bytes of a block."""
PART_BLOCKS = LedgerConfig(pools=(PoolConfig("device", 1),)).part_blocks
"""Blocks of a part: as many as a ledger's have."""
TARGETS = {Integrity.OFF: 0.9, Integrity.BOUNDARY: 0.75}
"""At least so many times as fast as by hand."""
SECRET = b"of the bench"
HANDLES = 1 << 20
"""The first handle."""


def total_bytes(size: Size) -> int:
    """Of the batch of a turn, which is some parts: what begins and ends it is in the time, and counts more for less."""
    return {"full": 512 << 20, "quick": 256 << 20}.get(size.name, 8 << 20)


def transport_of(kind: str, memory: Memory, *, serves: bool) -> Transport:
    """One of that kind."""
    if kind == "nixl":
        from kvstate.runtime.peers.nixl import NixlTransport

        return NixlTransport(memory, serves=serves)
    from kvstate.runtime.peers.gloo import GlooTransport

    return GlooTransport(memory, secret=SECRET, serves=serves)


def has_nixl() -> bool:
    """Is it installed?"""
    try:
        import nixl_cu12  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401
    except ImportError:
        return False
    return True


def serve(pipe: Connection, kind: str, count: int, block_bytes: int) -> None:
    """The other process: it serves its memory, and sends by hand when it is told to."""
    memory = Memory([Pool("device", 0, count, block_bytes)])
    memory.pools[0].array[:] = np.random.default_rng(1).integers(0, 256, (count, block_bytes), np.uint8)
    transport = transport_of(kind, memory, serves=True)
    copier = PeerCopier(transport, memory, Inbox(), base=HANDLES, count=0)
    pipe.send((transport.describe(), copier.seal(range(count))))
    pair = None
    while (order := pipe.recv()) is not None:
        if isinstance(order, int):
            wire = Wire(socket.create_connection(("127.0.0.1", order)))
            pair = Pair(wire, OWNER)
        elif pair is not None:
            for work in [pair.send(memory.pools[0].tensor[block]) for block in order]:
                work.wait()
    copier.close(5.0)


class Case:
    """One transport and one size of block: our end, and both ways to pull."""

    def __init__(self, kind: str, integrity: Integrity, count: int, block_bytes: int, pipe: Connection) -> None:
        self.count, self.pipe = count, pipe
        self.memory = Memory([Pool("device", 0, count, block_bytes)])
        self.description, self.sums = pipe.recv()
        self.order = [*range(0, count, 2), *range(1, count, 2)]
        random.Random(1).shuffle(self.order)
        self.inbox, self.serial = Inbox(), 0
        self.wire: Wire | None = None
        self.by_hand: Callable[[], int] = self.gloo() if kind == "gloo" else self.nixl()
        transport = transport_of(kind, self.memory, serves=False)
        self.copier = PeerCopier(transport, self.memory, self.inbox, base=HANDLES, count=count, integrity=integrity)
        self.copier.meet("peer", 1, self.description)
        handles = tuple(range(HANDLES, HANDLES + count))
        self.copier.route(handles, "peer", 1, range(count), self.sums if integrity is not Integrity.OFF else ())
        self.copier.adopt(Adopt(0, "peer", handles, ("bench",) * count, tuple(map(self.key, range(count)))))

    @staticmethod
    def key(block: int) -> bytes:
        """Of a block of the peer's."""
        return b"%16d" % block

    def gloo(self) -> Callable[[], int]:
        """By hand, over gloo."""
        server = socket.create_server(("127.0.0.1", 0))
        self.pipe.send(server.getsockname()[1])
        self.wire = Wire(server.accept()[0])
        pair = Pair(self.wire, PULLER)
        server.close()

        def turn() -> int:
            begin = perf_counter_ns()
            self.pipe.send(self.order)
            for work in [pair.receive(self.memory.pools[0].tensor[block]) for block in self.order]:
                work.wait()
            return perf_counter_ns() - begin

        return turn

    def nixl(self) -> Callable[[], int]:
        """By hand, over NIXL."""
        import base64

        from kvstate.runtime.peers.nixl_agent import Agent

        ours = layout_of("nixl", self.memory, {})
        theirs = decode(self.description, ours)
        agent: Any = Agent("by-hand", ours, serves=False).agent
        name = agent.add_remote_agent(base64.b64decode(theirs.more["agent"]))
        lists = []
        for whose, plan in (("", ours.plans[0]), (name.decode() if isinstance(name, bytes) else name, theirs.plans[0])):
            row = plan.rows[0]
            table = np.array([(row.address, row.length, 0, row.stride, plan.blocks)], np.uint64)
            lists.append(agent.prep_xfer_dlist(whose, table, "DRAM"))
        at = np.array(self.order, np.int32)

        def turn() -> int:
            begin = perf_counter_ns()
            handle = agent.make_prepped_xfer("READ", lists[0], at, lists[1], at)
            state = agent.transfer(handle)
            while state == "PROC":
                sleep(1e-4)
                state = agent.check_xfer_state(handle)
            assert state == "DONE", state
            handle.release()
            return perf_counter_ns() - begin

        return turn

    def ours(self) -> int:
        """The same blocks as parts; nanoseconds."""
        parts = [self.order[at : at + PART_BLOCKS] for at in range(0, self.count, PART_BLOCKS)]
        fetches, verifies = ([self.work(kind, part) for part in parts] for kind in (Kind.FETCH, Kind.VERIFY))
        after = {fetch.token: verify for fetch, verify in zip(fetches, verifies, strict=True)}
        left = len(fetches) + len(verifies)
        begin = perf_counter_ns()
        for work in fetches:
            self.copier.submit(work)
        while left:
            self.inbox.wait(1.0)
            for report in self.inbox.drain(512):
                assert report.outcome == Outcome.DONE, report
                left -= 1
                if report.token in after:
                    self.copier.submit(after[report.token])
        return perf_counter_ns() - begin

    def work(self, kind: Kind, blocks: list[int]) -> Work:
        """One part."""
        self.serial += 1
        src, keys = tuple(HANDLES + block for block in blocks), tuple(map(self.key, blocks))
        return Work(Token(1, self.serial), kind.value, 0, "peer", 1, src, tuple(blocks), keys, 0, ("bench",))

    def close(self) -> None:
        """End both sides."""
        self.copier.close(5.0)
        self.pipe.send(None)
        if self.wire is not None:
            self.wire.close()


@contextmanager
def case(kind: str, integrity: Integrity, count: int, block_bytes: int) -> Iterator[Case]:
    """One, with its other process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, kind, count, block_bytes), daemon=True)
    process.start()
    theirs.close()
    one = Case(kind, integrity, count, block_bytes, ours)
    try:
        yield one
    finally:
        one.close()
        process.join(10)
        process.kill()


def lines(size: Size) -> list[Line]:
    """Transports, sizes and sums."""
    found: list[Line] = []
    for kind in ("gloo", "nixl"):
        for block_bytes in BLOCKS:
            title = f"peers: {kind}, blocks of {block_bytes >> 10} KiB, PeerCopier / by hand (integrity={{}})"
            if kind == "nixl" and not has_nixl():
                found += [Line(title.format(one), "x", None, note="NIXL is not installed") for one in TARGETS]
                continue
            count = max(4, total_bytes(size) // block_bytes)
            for integrity, target in TARGETS.items():
                with case(kind, integrity, count, block_bytes) as one:
                    turns = [(one.by_hand(), one.ours()) for _ in range(size.turns + 1)][1:]
                hand, ours = min(turn[0] for turn in turns), min(turn[1] for turn in turns)
                note = f"best {count * block_bytes / ours:.2f} GB/s; minima {hand / ours:.2f} x"
                ratios = [turn[0] / turn[1] for turn in turns]
                found.append(Line(title.format(integrity), "x", spread(ratios), "at least", target, note))
    return found


def main() -> None:
    """`python -m bench.peers [full|quick|tiny]`: these lines alone."""
    from bench.__main__ import SIZES, show

    os.environ.setdefault("UCX_LOG_LEVEL", "error")
    show(lines(SIZES[sys.argv[1] if len(sys.argv) > 1 else "full"]))


if __name__ == "__main__":
    main()
