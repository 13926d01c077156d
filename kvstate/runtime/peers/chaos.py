"""Links for tests and replays: one in memory, and one that loses, doubles, delays and reorders what is sent."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from random import Random
from time import monotonic

from kvstate.runtime.peers.link import LinkLike


class MemoryLink:
    """A link within one process; `memory_links` makes some that know each other. Nothing is lost on it."""

    def __init__(self, name: str, others: dict[str, MemoryLink]) -> None:
        """One of `others`, which it joins under its name."""
        self.name = name
        self._others = others
        self._heard: list[tuple[str, bytes]] = []
        self._closed = False
        others[name] = self

    def send(self, peer: str, message: bytes) -> None:
        """As `LinkLike.send`."""
        other = self._others.get(peer)
        if other is not None and not other._closed and not self._closed:  # noqa: SLF001 - its own kind
            other._heard.append((self.name, bytes(message)))  # noqa: SLF001

    def receive(self) -> list[tuple[str, bytes]]:
        """As `LinkLike.receive`."""
        taken, self._heard = self._heard, []
        return taken

    def close(self) -> None:
        """As `LinkLike.close`: what is sent to it from now on is lost."""
        self._closed = True


def memory_links(*names: str) -> dict[str, MemoryLink]:
    """Links in memory with these names, each of which reaches all others."""
    links: dict[str, MemoryLink] = {}
    for name in names:
        MemoryLink(name, links)
    return links


class ChaosLink:
    """A link over another, on whose way out messages are lost, come twice, late, and in another order.

    What happens to a message is drawn from the seed, in the order in which messages are sent: the same sends meet the
    same fate. Errors: `ValueError` for what is no probability.
    """

    def __init__(
        self,
        link: LinkLike,
        seed: int,
        *,
        lose: float = 0.0,
        double: float = 0.0,
        delay: float = 0.0,
        delay_for: float = 0.05,
        reorder: float = 0.0,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Of all messages, `lose` are lost and `double` sent twice. Of the copies, `delay` leave later by up to
        `delay_for` seconds, and `reorder` only after the next one to the same peer has, or that time has passed.
        """
        for name, chance in (("lose", lose), ("double", double), ("delay", delay), ("reorder", reorder)):
            if not 0 <= chance <= 1:
                raise ValueError(f"{name}: {chance} is no probability; give 0 to 1")
        self.link = link
        """What it sends over."""
        self.lost, self.doubled, self.delayed, self.reordered = 0, 0, 0, 0
        """How often each befell a message."""
        self._random = Random(seed)
        self._lose, self._double, self._delay, self._reorder = lose, double, delay, reorder
        self._delay_for, self._clock = delay_for, clock
        self._numbers = count()
        self._late: list[tuple[float, int, str, bytes]] = []
        self._behind: dict[str, list[bytes]] = {}

    def send(self, peer: str, message: bytes) -> None:
        """As `LinkLike.send`; what is due of earlier messages leaves, too."""
        self.let_go()
        draws = [self._random.random() for _ in range(2)]
        copies = 0 if draws[0] < self._lose else 2 if draws[1] < self._double else 1
        self.lost += copies == 0
        self.doubled += copies == 2
        for _ in range(2):  # the same number of draws, whatever came of the first two
            late, behind, by = (self._random.random() for _ in range(3))
            if not copies:
                continue
            copies -= 1
            if behind < self._reorder:
                self.reordered += 1
                self._behind.setdefault(peer, []).append(message)
                self._later(peer, b"", self._delay_for)
            elif late < self._delay:
                self.delayed += 1
                self._later(peer, message, by * self._delay_for)
            else:
                self._pass(peer, message)

    def receive(self) -> list[tuple[str, bytes]]:
        """As `LinkLike.receive`."""
        self.let_go()
        return self.link.receive()

    def close(self) -> None:
        """As `LinkLike.close`; what is late by then is lost."""
        self.link.close()

    def let_go(self) -> None:
        """Send what is late and due now."""
        now = self._clock()
        while self._late and self._late[0][0] <= now:
            _, _, peer, message = heapq.heappop(self._late)
            if message:
                self._pass(peer, message)
            else:
                self._release(peer)

    def _later(self, peer: str, message: bytes, by: float) -> None:
        heapq.heappush(self._late, (self._clock() + by, next(self._numbers), peer, message))

    def _pass(self, peer: str, message: bytes) -> None:
        self.link.send(peer, message)
        self._release(peer)

    def _release(self, peer: str) -> None:
        for message in self._behind.pop(peer, ()):
            self.link.send(peer, message)
