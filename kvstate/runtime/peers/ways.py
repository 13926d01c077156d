"""How each peer is reached: a connection for the life of it that was met last, made when it is needed."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from kvstate.machines.messages import Failure
from kvstate.runtime.peers.routes import Leave, Meet
from kvstate.runtime.peers.transport import Connection, Told, Transfer, Transport, lost


class Ways:
    """See the module. Any thread may call any method; none of them raises or waits for a peer."""

    def __init__(self, transport: Transport) -> None:
        """Connections are made by this transport."""
        self._transport = transport
        self._lock = threading.Lock()
        self._met: dict[str, Meet] = {}
        self._lines: dict[tuple[str, int], Connection] = {}
        self._old: list[Connection] = []
        self.troubles: list[str] = []
        """Descriptions with which nothing can be begun, a sentence each."""

    def meet(self, item: Meet) -> None:
        """From now on this life of the peer is pulled from; a connection to another one is given up."""
        with self._lock:
            before = self._met.get(item.peer)
            if before != item:
                self._met[item.peer] = item
                if before is not None:
                    self._drop(item.peer, before.life)

    def leave(self, item: Leave) -> None:
        """That life is not pulled from any more."""
        with self._lock:
            met = self._met.get(item.peer)
            if met is not None and met.life == item.life:
                del self._met[item.peer]
            self._drop(item.peer, item.life)

    def pull(
        self, peer: str, life: int, remote: Sequence[int], local: Sequence[int], told: Told
    ) -> tuple[Transfer, Connection | None]:
        """Begin to pull from this life of the peer; one that can't be reached is a failure of the transfer."""
        found = self._line(peer, life)
        if isinstance(found, Failure):
            transfer = Transfer(remote, local, told)
            transfer.end(found)
            return transfer, None
        return found.pull(remote, local, told), found

    def take_old(self) -> list[Connection]:
        """Connections that were given up, and are to be made quiet; each is given out once."""
        with self._lock:
            taken, self._old = self._old, []
        return taken

    def _drop(self, peer: str, life: int) -> None:
        line = self._lines.pop((peer, life), None)
        if line is not None:
            self._old.append(line)

    def _line(self, peer: str, life: int) -> Connection | Failure:
        with self._lock:
            met = self._met.get(peer)
            if met is None or met.life != life:
                now = "nobody of that name is known" if met is None else f"it is in life {met.life} now"
                return lost(peer, f"life {life} of it can't be reached; {now}")
            line = self._lines.get((peer, life))
            if line is not None and line.broken is not None:
                self._drop(peer, life)
                line = None
            if line is None:
                try:
                    line = self._transport.connect(peer, met.description)
                except Exception as error:  # a description that is none, or a driver that can't begin
                    sentence = f"peer {peer} in life {life} can't be reached: {error}"
                    if sentence not in self.troubles:
                        self.troubles.append(sentence)
                    return lost(peer, error)
                self._lines[peer, life] = line
            return line
