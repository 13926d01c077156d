"""Blocks over torch.distributed with gloo: what needs no further package.

Both sides take part. Whoever pulls asks on a socket, and the owner sends; each connection has a process group of its
own, so that one that is torn down disturbs no other, and a peer that was started again is another connection. What was
sent is said on the socket, too, and only then waited for: a wait of gloo's for a message of which a part has come does
not end with the connection, and there is no way to look without waiting.

Bytes come straight into the blocks where they lie in one run; small blocks that are scattered, and blocks in pieces, go
through a buffer on either side.

A connection is for a network on which nobody else can write: the handshake is signed, the bytes are not.
"""

from __future__ import annotations

import secrets
import select
import socket
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from kvstate.machines.messages import Failure
from kvstate.runtime.memory import Memory, NoSuchBlockError
from kvstate.runtime.peers.gloo_serving import STALL_SECONDS, WINDOW, WINDOW_BYTES, Serving, asking
from kvstate.runtime.peers.group import PULLER, Pair, scatter, straight
from kvstate.runtime.peers.handshake import HandshakeError, Wire
from kvstate.runtime.peers.layout import Layout, decode, layout_of
from kvstate.runtime.peers.line import Line
from kvstate.runtime.peers.transport import SETUP_SECONDS, Connection, DescriptionError, Transfer, missing

if TYPE_CHECKING:
    from torch.distributed import Work

MESSAGE_BYTES: Final = 4 << 20
"""Of blocks that lie side by side on both sides, in one message; more would only make a cancel wait."""
GATHER_BYTES: Final = 1 << 20
"""Of small blocks that do not."""
SMALL_BYTES: Final = 64 << 10
"""Blocks below this are gathered: a message costs as much as some copies of them."""
TAIL_SECONDS: Final = 10.0
"""What was sent as a whole may take so long to come."""
LOOK_SECONDS: Final = 1.0
"""How long a thread waits at most; it is woken by whatever comes."""


class GlooTransport:
    """As `Transport`, over gloo. If it serves, then from the moment on when it is made, to whoever knows the secret.

    Errors, when it is made: `OSError` for an address that can't be had; `ValueError` for an empty secret.
    """

    name = "gloo"

    def __init__(
        self,
        memory: Memory,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        secret: bytes,
        stall: float = STALL_SECONDS,
        serves: bool = True,
    ) -> None:
        """Listens at `host`, which others must be able to reach, at `port` or any. `secret` is the same on all sides.

        stall: after so many seconds a peer that takes nothing is not sent to any more
        """
        if not secret:
            raise ValueError("a gloo transport needs a secret that its peers know; an empty one keeps nobody out")
        self._memory, self._secret, self._stall = memory, secret, stall
        self._life = secrets.token_hex(8)
        self._socket = socket.create_server((host, port)) if serves else None
        where = {} if self._socket is None else {"host": host, "port": self._socket.getsockname()[1]}
        self._layout = layout_of(self.name, memory, {**where, "life": self._life})
        self._lock = threading.Lock()
        self._closed = False
        self._serving: dict[threading.Thread, Serving] = {}
        self._lines: list[GlooConnection] = []
        self._thread = threading.Thread(target=self._accept, name="kvstate-gloo", daemon=True)
        self._thread.start()

    def describe(self) -> bytes:
        """As `Transport.describe`."""
        return self._layout.encode()

    def connect(self, peer: str, description: bytes) -> Connection:
        """As `Transport.connect`. Errors: `DescriptionError`."""
        theirs = decode(description, self._layout)
        where = theirs.more
        if not (isinstance(where.get("host"), str) and type(where.get("port")) is int and where.get("life")):
            raise DescriptionError(
                f"the description of {peer} does not say where it listens; does it serve (peers.serves)?"
            )
        line = GlooConnection(peer, theirs, self._memory, self._secret)
        self._lines = [one for one in self._lines if not one.is_quiet] + [line]
        line.start()
        return line

    def close(self, within: float) -> bool:
        """As `Transport.close`."""
        end = monotonic() + within
        with self._lock:
            self._closed = True
            serving = dict(self._serving)
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
        for one in serving.values():
            one.stop()
        for line in self._lines:
            line.hush("the transport was closed")
        quiet = True
        for line in self._lines:
            try:
                line.quiet(max(end - monotonic(), 0.01))
            except TimeoutError:
                quiet = False
        for thread in (self._thread, *serving):
            thread.join(max(end - monotonic(), 0.01))
            quiet = quiet and not thread.is_alive()
        return quiet

    def _accept(self) -> None:
        while self._socket is not None:
            try:
                sock, _ = self._socket.accept()
            except OSError:
                return
            one = Serving(self._memory, self._life, Wire(sock), self._secret, self._stall)
            thread = threading.Thread(target=self._serve, args=(one,), name="kvstate-gloo-serve", daemon=True)
            with self._lock:
                if self._closed:
                    sock.close()
                    return
                self._serving[thread] = one
            thread.start()

    def _serve(self, one: Serving) -> None:
        try:
            with suppress(OSError, RuntimeError, NoSuchBlockError, ValueError):
                one.run()
        finally:
            one.stop()
            with self._lock:
                self._serving.pop(threading.current_thread(), None)


class _Message(NamedTuple):
    """What is under way: when it is there, its bytes go to these blocks, unless they lie there already."""

    transfer: Transfer
    work: Work
    data: torch.Tensor
    blocks: Sequence[int]
    staged: bool
    last: bool
    """Is it the last one of its transfer?"""


class GlooConnection(Line):
    """As `Connection`, to one `GlooTransport`."""

    def __init__(self, peer: str, theirs: Layout, memory: Memory, secret: bytes) -> None:
        """To the peer with this layout; pulls into `memory`."""
        super().__init__(peer)
        self._theirs, self._memory, self._secret = theirs, memory, secret
        self._wire: Wire | None = None
        self._pair: Pair | None = None
        self._messages: deque[_Message] = deque()
        self._bytes = 0
        """Of all of them."""
        self._sent = 0
        """Messages that are on their way as a whole, or here."""
        self._alarm, self._bell = socket.socketpair()
        for one in (self._alarm, self._bell):
            one.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._alarm, select.POLLIN)

    def check(self, transfer: Transfer) -> Failure | None:
        """As `Line.check`."""
        unknown = self._theirs.missing(transfer.remote)
        if unknown is not None:
            return missing(f"{self.peer} has no block {unknown}")
        try:
            self._memory.check(transfer.local)
        except NoSuchBlockError as error:
            return missing(str(error))
        if len(transfer.remote) != len(transfer.local):
            return missing(f"{len(transfer.remote)} blocks can't be pulled into {len(transfer.local)}")
        return None

    def poke(self) -> None:
        """As `Line.poke`."""
        with suppress(OSError):  # it is full, and so it rings already; or closed
            self._bell.send(b"!")
        if self._wish and not self._began and self._wire is not None:
            self._wire.close()  # it may wait for an answer there

    def _open(self) -> None:
        where: dict[str, Any] = self._theirs.more
        sock = socket.create_connection((where["host"], where["port"]), SETUP_SECONDS)
        self._wire = Wire(sock)
        if self._wire.greet("puller", self._secret, dialled=True) != where["life"]:
            raise HandshakeError(f"another process answers at {where['host']} port {where['port']} than was described")
        self._pair = Pair(self._wire, PULLER)
        self._wire.sock.setblocking(False)
        self._poll.register(self._wire.sock, select.POLLIN)

    def _room(self) -> bool:
        return len(self._messages) < WINDOW and self._bytes < WINDOW_BYTES

    def _begin(self, transfer: Transfer) -> None:
        assert self._wire is not None
        assert self._pair is not None
        groups = list(messages(transfer, self._memory.block_bytes))
        if not groups:
            self._land(transfer)
            return
        self._wire.sock.settimeout(SETUP_SECONDS)
        self._wire.send(asking([transfer.remote[lines] for lines in groups]))
        self._wire.sock.setblocking(False)
        for lines in groups:
            blocks = transfer.local[lines]
            data = straight(self._memory, blocks)
            staged = data is None
            if data is None:
                data = torch.empty(len(blocks) * self._memory.block_bytes, dtype=torch.uint8)
            work = self._pair.receive(data)
            self._messages.append(_Message(transfer, work, data, blocks, staged, lines is groups[-1]))
            self._bytes += data.numel()

    def _advance(self) -> None:
        assert self._wire is not None
        if not self._sent:
            for number, _ in self._poll.poll(LOOK_SECONDS * 1000):
                self._look(number)
        while self._sent and not self._wish:
            self._sent -= 1
            message = self._messages[0]
            message.work.wait(timedelta(seconds=TAIL_SECONDS))
            if message.staged:
                scatter(self._memory, message.blocks, message.data)
            self._messages.popleft()
            self._bytes -= message.data.numel()
            self.progress += 1
            if message.last:
                self._land(message.transfer)

    def _look(self, number: int) -> None:
        """Something came: a wish, or word of what was sent."""
        if number == self._alarm.fileno():
            self._alarm.recv(4096)
            return
        assert self._wire is not None
        found = self._wire.sock.recv(4096)
        if not found:
            raise ConnectionResetError("the peer has closed the connection")
        self._sent += len(found)
        if self._sent > len(self._messages):
            raise ConnectionError("the peer says that it sent more than it was asked for")

    def _tear_down(self) -> None:
        if self._wire is not None:
            self._wire.close()
        if self._pair is not None:
            self._pair.cut()
            self._messages.clear()
            self._pair.end()
        for one in (self._alarm, self._bell):
            one.close()


def messages(transfer: Transfer, block_bytes: int) -> Iterator[slice]:
    """Which lines come in one message: runs on both sides, and small blocks however they lie."""
    lines, start = len(transfer.remote), 0
    gather = block_bytes < SMALL_BYTES
    most = max(1, (GATHER_BYTES if gather else MESSAGE_BYTES) // block_bytes)
    remote, local = transfer.remote, transfer.local
    while start < lines:
        stop = start + 1
        while stop < min(lines, start + most) and (
            gather or remote[stop] - remote[stop - 1] == 1 == local[stop] - local[stop - 1]
        ):
            stop += 1
        yield slice(start, stop)
        start = stop
