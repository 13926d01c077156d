"""One connection of a link: a socket that never blocks, its handshake, and frames."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

from kvstate.runtime.peers.handshake import HEAD, MAX_FRAME, Handshake, HandshakeError, framed

GREET_SECONDS: Final = 5.0
"""So long the other side may take to prove who it is."""
SILENT_MS: Final = 15_000
"""What was sent and is not acknowledged by then, by the other machine's kernel, ends the connection."""
ROOM: Final = 1 << 18
"""Bytes that are given to a connection at once; all else waits in a queue, from which it can be dropped."""
STEP: Final = 1 << 16
"""Bytes that are read at once."""
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
"""What a socket is watched for."""


class Channel:
    """See the module. For the thread of the link.

    Errors: `OSError` from `move`, which ends it: `ConnectionResetError`, `HandshakeError` and whatever a socket raises.
    """

    def __init__(self, sock: socket.socket, name: str, secret: bytes, *, dialled: bool, expected: str = "") -> None:
        """Over a socket that is connected, or on its way; `expected` is who is to be there."""
        sock.setblocking(False)
        with suppress(OSError):  # not every system has all of them
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_MS)
        self.until = monotonic() + GREET_SECONDS
        """When it must be known who is there."""
        self.peer = ""
        """Who is there; empty until that is proved."""
        self._expected = expected
        self._sock, self._hands = sock, Handshake(name, secret, dialled=dialled)
        self._out, self._in = bytearray(framed(self._hands.begin())), bytearray()
        self._watched = 0

    @classmethod
    def call(cls, address: tuple[str, int], name: str, secret: bytes, *, expected: str) -> Channel:
        """Begin to connect to that address. Errors: `OSError`."""
        family, kind, proto, _, where = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, proto)
        sock.setblocking(False)
        sock.connect_ex(where)  # what is wrong with it shows when it is written to
        return cls(sock, name, secret, dialled=True, expected=expected)

    @property
    def has_room(self) -> bool:
        """May more be put?"""
        return len(self._out) < ROOM

    @property
    def sending(self) -> bool:
        """Is something put that is not sent?"""
        return bool(self._out)

    def put(self, message: bytes) -> None:
        """Send this when the socket takes it."""
        self._out += framed(message)

    def register(self, selector: selectors.BaseSelector, ready: Callable[[int], None]) -> None:
        """Be told by `ready` when the socket has or takes something."""
        self._watched = READ | WRITE
        selector.register(self._sock, self._watched, ready)

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Be told of what matters now."""
        wanted = READ | (WRITE if self._out else 0)
        if wanted != self._watched and self._sock.fileno() >= 0:
            selector.modify(self._sock, wanted, selector.get_key(self._sock).data)
            self._watched = wanted

    def move(self, events: int) -> list[bytes]:
        """Read and write what can be; the messages that came."""
        if events & WRITE:
            failed = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if failed:
                raise OSError(failed, "the peer could not be reached")
            with suppress(BlockingIOError):
                del self._out[: self._sock.send(memoryview(bytes(self._out[:STEP])))]
        if events & READ:
            with suppress(BlockingIOError):
                found = self._sock.recv(STEP)
                if not found:
                    raise ConnectionResetError("the peer has closed the connection")
                self._in += found
        return self._frames()

    def close(self, selector: selectors.BaseSelector) -> None:
        """Close the socket; may be called again."""
        with suppress(KeyError, ValueError, OSError):
            selector.unregister(self._sock)
        self._sock.close()

    def _frames(self) -> list[bytes]:
        messages: list[bytes] = []
        while len(self._in) >= HEAD:
            size = int.from_bytes(self._in[:HEAD], "big")
            if size > (MAX_FRAME if self.peer else 1 << 10):
                raise HandshakeError(f"a frame of {size} bytes is longer than any may be")
            if len(self._in) < HEAD + size:
                break
            payload = bytes(self._in[HEAD : HEAD + size])
            del self._in[: HEAD + size]
            if self.peer:
                messages.append(payload)
            else:
                self._greeted(payload)
        return messages

    def _greeted(self, payload: bytes) -> None:
        answer = self._hands.hear(payload)
        if answer is not None:
            self._out += framed(answer)
        if self._expected and self._hands.peer not in ("", self._expected):
            raise HandshakeError(f"{self._hands.peer} answers where {self._expected} was expected")
        self.peer = self._hands.peer
