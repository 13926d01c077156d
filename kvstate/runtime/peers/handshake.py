"""Two processes that know one secret prove it to each other, and say who they are, before anything else is said.

A proof is an HMAC over both sides' nonces and names, so that none can be used again, or by the other side. What is
said afterwards is neither signed nor encrypted: on a network that others can write to, this is no protection.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
from contextlib import suppress
from typing import Final

NONCE: Final = 16
"""Bytes of a nonce."""
PROOF: Final = 32
"""Bytes of a proof: SHA-256."""
MAX_NAME: Final = 255
"""Bytes of a name."""
MAX_FRAME: Final = 16 << 20
"""Bytes of a frame; a longer one ends the connection."""
HEAD: Final = 4
"""Bytes of a frame's length."""
_MAGIC: Final = b"kvstate-peer-1"


class HandshakeError(ConnectionError):
    """The other side does not know the secret, or speaks something else."""


def framed(payload: bytes) -> bytes:
    """A frame with these bytes. Errors: `ValueError` for more than `MAX_FRAME`."""
    if len(payload) > MAX_FRAME:
        raise ValueError(f"a frame of {len(payload)} bytes is too long; {MAX_FRAME} is the limit")
    return len(payload).to_bytes(HEAD, "big") + payload


class Handshake:
    """One side of it: frames out of `begin` and `hear`, until `peer` is known. No socket in here.

    Errors: `HandshakeError` from `hear`; `ValueError` for a secret that is empty or a name that is too long.
    """

    def __init__(self, name: str, secret: bytes, *, dialled: bool) -> None:
        """`dialled`: is it the side that called the other?"""
        self._own = name.encode()
        if not secret or not 0 < len(self._own) <= MAX_NAME:
            raise ValueError(f"a handshake needs a secret, and a name of 1 to {MAX_NAME} bytes")
        self._secret, self._dialled = secret, dialled
        self._nonce = secrets.token_bytes(NONCE)
        self._theirs = b""
        self.peer = ""
        """Who the other side is; empty until that is proved."""

    def begin(self) -> bytes:
        """The first frame's payload, from either side."""
        return _MAGIC + self._nonce + self._own

    def hear(self, payload: bytes) -> bytes | None:
        """Take a frame's payload; what is to be answered, if anything."""
        if not self._theirs:
            start = len(_MAGIC) + NONCE
            if not payload.startswith(_MAGIC) or not start < len(payload) <= start + MAX_NAME:
                raise HandshakeError("the other side does not speak this handshake; see its address and its version")
            self._theirs = payload
            return self._proof(dialled=self._dialled)
        if not hmac.compare_digest(payload, self._proof(dialled=not self._dialled)):
            raise HandshakeError("the other side does not know the secret; both need the same")
        self.peer = self._theirs[len(_MAGIC) + NONCE :].decode(errors="replace")
        return None

    def _proof(self, *, dialled: bool) -> bytes:
        """Of the side that dialled, or of the one that was."""
        both = [self.begin(), self._theirs]
        if not self._dialled:
            both.reverse()
        text = b"".join(len(one).to_bytes(HEAD, "big") + one for one in both)
        return hmac.new(self._secret, (b"D" if dialled else b"A") + text, hashlib.sha256).digest()


class Wire:
    """A socket that blocks, as frames. For threads that have nothing else to do.

    Errors: `ConnectionError` for a wire that was closed, `TimeoutError` where the socket has a limit.
    """

    def __init__(self, sock: socket.socket) -> None:
        """Over a socket that is connected; it is closed with it."""
        self.sock = sock
        """For its addresses and its limit."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def greet(self, name: str, secret: bytes, *, dialled: bool) -> str:
        """Make the handshake; the name of the other side. Errors: `HandshakeError`."""
        hands = Handshake(name, secret, dialled=dialled)
        self.send(hands.begin())
        while not hands.peer:
            answer = hands.hear(self.receive(len(_MAGIC) + NONCE + MAX_NAME))
            if answer is not None:
                self.send(answer)
        return hands.peer

    def send(self, payload: bytes) -> None:
        """Send a frame."""
        self.sock.sendall(framed(payload))

    def receive(self, most: int = MAX_FRAME) -> bytes:
        """The next frame; one that is longer than `most` is an error."""
        size = int.from_bytes(self._exactly(HEAD), "big")
        if size > most:
            raise ConnectionError(f"a frame of {size} bytes came where at most {most} may")
        return self._exactly(size)

    def close(self) -> None:
        """Close it, and wake whoever waits on it."""
        with suppress(OSError):  # it was never connected, or is closed already
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def _exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            more = self.sock.recv(min(size - len(found), 1 << 20))
            if not more:
                raise ConnectionError("the other side has closed the connection")
            found += more
        return bytes(found)
