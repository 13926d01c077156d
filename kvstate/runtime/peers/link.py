"""The link on which scheduler processes talk: small messages, both ways, that may be lost.

One thread drives all sockets, none of which blocks. A peer that is stopped, slow or gone keeps nobody waiting: what it
does not take waits in a queue of its own, and when that is full the oldest is dropped and counted. A connection that
is lost is made again. So a message arrives once, or not at all, or, where two connections changed over, late; what is
said on the link must bear that. Both sides may call each other, or only one.

Who talks knows the secret (see `handshake`); the messages themselves are neither signed nor encrypted.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, NamedTuple, Protocol

from kvstate.runtime.peers.channel import Channel
from kvstate.runtime.peers.handshake import MAX_FRAME, HandshakeError

QUEUED: Final = 1024
"""Messages that wait for one peer, where nobody says otherwise."""
HEARD: Final = 1 << 16
"""Messages that wait to be received, from all peers together."""
RETRY_SECONDS: Final = (0.05, 1.0)
"""Between two attempts to reach a peer: at first, and at most."""
LOOK_SECONDS: Final = 0.5
"""How often the thread looks at what has run out, if nothing else wakes it."""
FLUSH_SECONDS: Final = 0.5
"""So long a close goes on sending what waits for peers that are there."""
STRANGERS: Final = 64
"""Connections at once on which nobody has proved yet who they are."""

Address = tuple[str, int]
"""Host and port."""


class LinkLike(Protocol):
    """What is needed of a link: this one, one in memory, or one that loses things on purpose. For one thread."""

    def send(self, peer: str, message: bytes) -> None:
        """Send, or try to. Never blocks; a peer that is not there is no error."""
        ...

    def receive(self) -> list[tuple[str, bytes]]:
        """What has come since the last time, with who sent it. Never blocks."""
        ...

    def close(self) -> None:
        """Send and receive no more."""
        ...


class LinkCounts(NamedTuple):
    """What a link did."""

    sent: int = 0
    """Messages that were given to a connection."""
    received: int = 0
    """Messages that came."""
    dropped: int = 0
    """Messages that found no room, here: to a peer that does not take them, or from peers whom nobody heard."""
    refused: int = 0
    """Connections of those who did not know the secret, or spoke something else."""
    connected: int = 0
    """Connections on which both sides proved who they are."""


@dataclass(slots=True)
class _Peer:
    """What is known of one peer. `queue` is under the link's lock; the rest is its thread's."""

    address: Address | None = None
    queue: deque[bytes] = field(default_factory=deque)
    channels: list[Channel] = field(default_factory=list)
    """On which it has proved who it is, the newest last."""
    calling: Channel | None = None
    retry_at: float = 0.0
    pause: float = RETRY_SECONDS[0]


class Link:
    """See the module. `send` and `receive` may be called from any thread.

    Errors: `OSError` for an address that can't be had, when it is made; `ValueError` for an empty secret, for a limit
    below 1, and for a message that is too long.
    """

    def __init__(
        self,
        name: str,
        *,
        listen: Address | None = ("127.0.0.1", 0),
        secret: bytes,
        most: int = QUEUED,
        wake: Callable[[], None] | None = None,
    ) -> None:
        """Peers know this side as `name`. `listen` is where they call it, None for nowhere; `most` messages wait for a
        peer; `wake` is called, in the link's thread, when something has come.
        """
        if not secret or most < 1:
            raise ValueError("a link needs a secret that its peers know, and room for at least one message")
        self.name = name
        """As peers know it."""
        self._secret, self._most, self._wake = secret, most, wake
        self._lock = threading.Lock()
        self._peers: dict[str, _Peer] = {}
        self._heard: deque[tuple[str, bytes]] = deque()
        self._counts = LinkCounts()
        self._closing: float | None = None
        self._selector = selectors.DefaultSelector()
        self._strangers: list[Channel] = []
        self._alarm, self._bell = socket.socketpair()
        for one in (self._alarm, self._bell):
            one.setblocking(False)
        self._selector.register(self._alarm, selectors.EVENT_READ, self._rung)
        self._door: socket.socket | None = None
        self.address: Address = ("", 0)
        """Where peers call it; empty where it listens nowhere."""
        if listen is not None:
            self._door = socket.create_server(listen)
            self._door.setblocking(False)
            self.address = self._door.getsockname()[:2]
            self._selector.register(self._door, selectors.EVENT_READ, self._knock)
        self._thread = threading.Thread(target=self._run, name=f"kvstate-link-{name}", daemon=True)
        self._thread.start()

    @property
    def counts(self) -> LinkCounts:
        """What it did up to now."""
        return self._counts

    def meet(self, peer: str, address: Address) -> None:
        """Call this peer there, again and again while it is not connected. A new address replaces the old one."""
        with self._lock:
            one = self._peers.setdefault(peer, _Peer())
            one.address, one.retry_at, one.pause = address, 0.0, RETRY_SECONDS[0]
        self._ring()

    def send(self, peer: str, message: bytes) -> None:
        """As `LinkLike.send`: it waits until the peer is there, and takes it. Errors: `ValueError`."""
        if len(message) > MAX_FRAME:
            raise ValueError(f"a message of {len(message)} bytes is too long for a link; {MAX_FRAME} is the limit")
        with self._lock:
            one = self._peers.setdefault(peer, _Peer())
            one.queue.append(bytes(message))
            if len(one.queue) > self._most:
                one.queue.popleft()
                self._count(dropped=1)
        self._ring()

    def receive(self) -> list[tuple[str, bytes]]:
        """As `LinkLike.receive`."""
        with self._lock:
            taken, self._heard = list(self._heard), deque()
        return taken

    def connected(self) -> tuple[str, ...]:
        """The peers that are connected now."""
        with self._lock:
            return tuple(sorted(name for name, one in self._peers.items() if one.channels))

    def close(self) -> None:
        """As `LinkLike.close`: what waits for peers that are there is sent first, if they take it at once."""
        if self._thread.is_alive():
            self._closing = monotonic() + FLUSH_SECONDS
            self._ring()
            self._thread.join(2 * FLUSH_SECONDS + LOOK_SECONDS)

    # -- in the link's thread ------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._closing is None or (monotonic() < self._closing and self._has_to_send()):
                for key, events in self._selector.select(self._tend()):
                    key.data(events)
        finally:
            for channel in self._channels():
                channel.close(self._selector)
            self._selector.close()
            for one in (self._door, self._alarm, self._bell):
                if one is not None:
                    one.close()

    def _channels(self) -> list[Channel]:
        with self._lock:
            return [*self._strangers, *(channel for one in self._peers.values() for channel in one.channels)]

    def _has_to_send(self) -> bool:
        with self._lock:
            return any(one.channels and (one.queue or one.channels[-1].sending) for one in self._peers.values())

    def _tend(self) -> float:
        """Fill what can send, call who is not there, end what has run out; for how long there is nothing to do."""
        now, sleep = monotonic(), LOOK_SECONDS
        for channel in [one for one in self._strangers if now > one.until]:
            self._ended(channel)
        with self._lock:
            peers = list(self._peers.items())
        for name, one in peers:
            if one.channels:
                self._fill(one)
            elif one.address is not None and one.calling is None and self._closing is None:
                if now >= one.retry_at:
                    self._call(name, one)
                sleep = min(sleep, max(one.retry_at - now, 0.001))
        return sleep

    def _fill(self, one: _Peer) -> None:
        channel = one.channels[-1]
        with self._lock:
            while one.queue and channel.has_room:
                channel.put(one.queue.popleft())
                self._count(sent=1)
        channel.watch(self._selector)

    def _call(self, name: str, one: _Peer) -> None:
        one.retry_at = monotonic() + one.pause
        one.pause = min(2 * one.pause, RETRY_SECONDS[1])
        assert one.address is not None
        with suppress(OSError):
            one.calling = self._greet(Channel.call(one.address, self.name, self._secret, expected=name))

    def _greet(self, channel: Channel) -> Channel:
        self._strangers.append(channel)
        channel.register(self._selector, lambda events: self._ready(channel, events))
        return channel

    def _knock(self, _: int) -> None:
        assert self._door is not None
        with suppress(OSError):
            sock, _address = self._door.accept()
            if len(self._strangers) >= STRANGERS:
                sock.close()
                self._count(refused=1)
            else:
                self._greet(Channel(sock, self.name, self._secret, dialled=False))

    def _ready(self, channel: Channel, events: int) -> None:
        """A socket has something, or takes something. Whatever goes wrong there is the end of it."""
        before = channel.peer
        try:
            messages = channel.move(events)
        except OSError as error:
            self._count(refused=int(isinstance(error, HandshakeError)))
            self._ended(channel)
            return
        if channel.peer and not before:
            self._known(channel)
        if messages:
            with self._lock:
                self._heard.extend((channel.peer, message) for message in messages)
                over = max(len(self._heard) - HEARD, 0)
                for _ in range(over):
                    self._heard.popleft()
                self._count(received=len(messages), dropped=over)
            if self._wake is not None:
                self._wake()
        channel.watch(self._selector)

    def _known(self, channel: Channel) -> None:
        """The other side has proved who it is: from now on what is for it goes there."""
        self._strangers.remove(channel)
        with self._lock:
            one = self._peers.setdefault(channel.peer, _Peer())
            one.channels.append(channel)
            one.pause = RETRY_SECONDS[0]
            for other in self._peers.values():
                other.calling = None if other.calling is channel else other.calling
            self._count(connected=1)

    def _ended(self, channel: Channel) -> None:
        channel.close(self._selector)
        if channel in self._strangers:
            self._strangers.remove(channel)
        with self._lock:
            for one in self._peers.values():
                one.channels = [other for other in one.channels if other is not channel]
                one.calling = None if one.calling is channel else one.calling

    def _count(self, **more: int) -> None:
        self._counts = self._counts._replace(**{name: getattr(self._counts, name) + by for name, by in more.items()})

    def _ring(self) -> None:
        with suppress(OSError):  # it is full, and so it rings already; or closed
            self._bell.send(b"!")

    def _rung(self, _: int) -> None:
        with suppress(OSError):
            self._alarm.recv(4096)
