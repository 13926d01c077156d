"""Two processes and the transports between them: one that serves blocks, and the copier of a rank that pulls them.

The bytes of the peer's block n in generation g are the content of `name(n, g)`: every 8 bytes say key, generation and
position, so that a byte that comes from elsewhere, or lands elsewhere, shows.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from itertools import count
from multiprocessing.connection import Connection
from time import monotonic, sleep
from typing import Any

from kvstate.machines.messages import Adopt, Kind, Outcome, Report, Token, Work
from kvstate.replay.content import check_many, poison_many, write_many
from kvstate.runtime.copy import Integrity, sum_of
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory, Pool
from kvstate.runtime.peers.copier import PeerCopier
from kvstate.runtime.peers.transport import Transport

SECRET = b"of the tests"
SPACE = "tenant"
HANDLES = 1 << 20
"""The first handle: a number that no pool has."""
PATIENCE = 60.0
"""A test that waits longer has failed; a busy machine needs some of it."""


@cache
def has_nixl() -> bool:
    """Is NIXL installed, and does an agent start here?"""
    try:
        from kvstate.runtime.peers.nixl import NixlTransport

        NixlTransport(Memory([Pool("device", 0, 1, 4096)])).close(5.0)
    except Exception:
        return False
    return True


def name(block: int, generation: int = 0) -> bytes:
    """The key of the peer's block in that generation."""
    return blake2b(b"%d %d" % (block, generation), digest_size=16).digest()


def make(kind: str, memory: Memory, *, serves: bool = True) -> Transport:
    """A transport of that kind."""
    if kind == "nixl":
        from kvstate.runtime.peers.nixl import NixlTransport

        return NixlTransport(memory, serves=serves)
    from kvstate.runtime.peers.gloo import GlooTransport

    return GlooTransport(memory, secret=SECRET, serves=serves)


def write(memory: Memory, blocks: Sequence[int], generation: int) -> None:
    """As the peer's compute does."""
    pool = memory.pools[0]
    for start in range(0, len(blocks), 256):
        some = blocks[start : start + 256]
        write_many(pool.array, [block - pool.base for block in some], [name(block, generation) for block in some])


class Served:
    """Blocks that are served, in this process or in a child: some memory and a transport over it."""

    def __init__(self, kind: str, blocks: int, block_bytes: int, generation: int, base: int) -> None:
        self.memory = Memory([Pool("device", base, blocks, block_bytes)])
        write(self.memory, range(base, base + blocks), generation)
        self.transport = make(kind, self.memory)

    def answer(self, word: tuple[Any, ...]) -> Any:
        match word:
            case ("describe",):
                return self.transport.describe()
            case ("write", blocks, generation):
                return write(self.memory, blocks, generation)
            case ("sums", blocks):
                return [sum_of(self.memory.bytes_of(block)) for block in blocks]
        return self.transport.close(10.0)


def _serve(pipe: Connection) -> None:
    """A child's whole life: serve, and do what the pipe says."""
    served: dict[int, Served] = {}
    pipe.send("here")
    with suppress(EOFError, BrokenPipeError):
        while True:
            number, environ, word = pipe.recv()
            os.environ.update(environ)
            if number not in served:
                served[number] = Served(*word)
                pipe.send(None)
            else:
                pipe.send(served[number].answer(word))


class Host:
    """A process in which peers live."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("forkserver")  # of a server that has done nothing but import
        context.set_forkserver_preload(["tests.transport.harness"])
        self.pipe, child = context.Pipe()
        self.process = context.Process(target=_serve, args=(child,), daemon=True)
        self.process.start()
        child.close()
        assert self.pipe.poll(PATIENCE), "the process of the peer did not start"
        self.pipe.recv()
        self._numbers = count()

    def serve(self, kind: str, blocks: int, block_bytes: int, generation: int = 0, base: int = 0) -> Peer:
        """Another peer, of `blocks` blocks from number `base` on."""
        number = next(self._numbers)
        self.ask(number, kind, blocks, block_bytes, generation, base)
        return Peer(self, number, range(base, base + blocks))

    def ask(self, number: int, *word: Any) -> Any:
        environ = {name: value for name, value in os.environ.items() if name.startswith("UCX_")}
        self.pipe.send((number, {"UCX_TLS": "all", **environ}, word))
        assert self.pipe.poll(PATIENCE), "the peer does not answer"
        return self.pipe.recv()

    def signal(self, number: int) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        self.process.kill()
        self.process.join(PATIENCE)
        self.pipe.close()


class Peer:
    """Whoever serves blocks in another process."""

    def __init__(self, host: Host, number: int, blocks: range) -> None:
        self.host, self.number, self.blocks = host, number, blocks
        self.description: bytes = self.ask("describe")

    def ask(self, *word: Any) -> Any:
        return self.host.ask(self.number, *word)


class Puller:
    """The rank that pulls: memory, a transport, and a copier, driven as an engine drives it."""

    def __init__(
        self,
        kind: str,
        blocks: int,
        block_bytes: int,
        *,
        integrity: Integrity = Integrity.BOUNDARY,
        transport: Transport | None = None,
        memory: Memory | None = None,
        **options: Any,
    ) -> None:
        self.memory = memory or Memory([Pool("device", 0, blocks, block_bytes)])
        self.blocks = blocks
        self.inbox = Inbox()
        self.transport = transport or make(kind, self.memory)
        self.copier = PeerCopier(
            self.transport, self.memory, self.inbox, base=HANDLES, count=max(blocks, 1), integrity=integrity, **options
        )
        self.reports: dict[Token, list[Report]] = {}
        self._serials = count(1)

    def offer(
        self,
        handles: Sequence[int],
        peer: str,
        life: int,
        remote: Sequence[int],
        generation: int = 0,
        sums: Sequence[bytes] = (),
    ) -> None:
        """Route and adopt, as an announced offer does; handles count from 0."""
        blocks = [HANDLES + handle for handle in handles]
        self.copier.route(blocks, peer, life, remote, sums)
        keys = tuple(name(block, generation) for block in remote)
        self.copier.adopt(Adopt(0, self.copier.name, tuple(blocks), (SPACE,) * len(blocks), keys))

    def work(self, kind: Kind, handles: Sequence[int], dst: Sequence[int], keys: Sequence[bytes]) -> Work:
        src = tuple(HANDLES + handle for handle in handles)
        token = Token(1, next(self._serials))
        return Work(token, kind.value, 0, self.copier.name, 1, src, tuple(dst), tuple(keys), 0, (SPACE,))

    def submit(self, kind: Kind, handles: Sequence[int], dst: Sequence[int], keys: Sequence[bytes]) -> Token:
        work = self.work(kind, handles, dst, keys)
        self.copier.submit(work)
        return work.token

    def fetch(self, handles: Sequence[int], dst: Sequence[int], remote: Sequence[int], generation: int = 0) -> Token:
        return self.submit(Kind.FETCH, handles, dst, [name(block, generation) for block in remote])

    def verify(self, handles: Sequence[int], dst: Sequence[int], remote: Sequence[int], generation: int = 0) -> Report:
        return self.wait(self.submit(Kind.VERIFY, handles, dst, [name(block, generation) for block in remote]))

    def hear(self) -> list[Report]:
        """Take reports out, without waiting."""
        taken = self.inbox.drain(1 << 16)
        for report in taken:
            self.reports.setdefault(report.token, []).append(report)
        return taken

    def wait(self, token: Token, seconds: float = PATIENCE) -> Report:
        """The first report of this part."""
        end = monotonic() + seconds
        while token not in self.reports and monotonic() < end:
            self.inbox.wait(0.05)
            self.hear()
        assert token in self.reports, f"part {token.serial} has not reported in {seconds:g} s"
        return self.reports[token][0]

    def done(self, token: Token) -> Report:
        report = self.wait(token)
        assert report.outcome == Outcome.DONE, report
        return report

    def wrong(self, dst: Sequence[int], remote: Sequence[int], generation: int = 0) -> list[int]:
        """Which of these blocks are not, byte for byte, the peer's."""
        array = self.memory.pools[0].array
        found = []
        for start in range(0, len(dst), 256):
            keys = [name(block, generation) for block in remote[start : start + 256]]
            found += [start + line for line in check_many(array, list(dst[start : start + 256]), keys)]
        return found

    def poison(self, dst: Sequence[int]) -> None:
        poison_many(self.memory.pools[0].array, list(dst), list(dst), [7] * len(dst))

    def snapshot(self) -> bytes:
        return self.memory.pools[0].array.tobytes()

    def untouched_for(self, seconds: float) -> bool:
        """Does no byte of ours change for so long?"""
        before, end = self.snapshot(), monotonic() + seconds
        while monotonic() < end:
            sleep(0.05)
            if self.snapshot() != before:
                return False
        return True

    def close(self) -> tuple[Token, ...]:
        return self.copier.close(5.0)
