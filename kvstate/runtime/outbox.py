"""The way to a worker over a channel of the embedder's: what goes down is kept until it is taken, as bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from kvstate.machines.messages import Effect, Token
from kvstate.runtime.dispatcher import encoded
from kvstate.runtime.inbox import Inbox
from kvstate.wire import AskFence, AskProbe, DownItem, Found, Retired


class Outbox:
    """As `kvstate.runtime.dispatcher.Link`. Its fence asks, and proves nothing by itself: the answer comes up later."""

    def __init__(self, rank: int, incarnation: int, inbox: Inbox) -> None:
        """To the worker of this rank in this life; `inbox` hears of work that can't be handed out any more."""
        self.rank = rank
        """Which worker it is."""
        self.incarnation = incarnation
        """Which life of it."""
        self.lost = ""
        """As in `Link`; said by the embedder."""
        self.asked = 0
        """How many fences were asked for; the number of the last one."""
        self.troubles: list[str] = []
        """What could not be sent, a sentence each."""
        self.found: list[Found] = []
        """What the worker said that it found; for whoever reads its messages to add to."""
        self._inbox = inbox
        self._items: list[DownItem] = []
        self._ready: deque[bytes] = deque()

    def give(self, effects: Iterable[Effect]) -> None:
        """As in `Link`. What is given after the end of its worker is never taken, and over when the loss is told."""
        self._items += effects

    def step_retired(self, step: int) -> None:
        """As in `Link`."""
        self._items.append(Retired(step))

    def probe(self, token: Token) -> None:
        """As in `Link`; answered later, if at all."""
        self._items.append(AskProbe(token))

    def take_found(self) -> list[Found]:
        """As in `Link`."""
        taken, self.found = self.found, []
        return taken

    def fence(self) -> Iterator[tuple[str, int]]:
        """Ask, and wait for nothing."""
        self.asked += 1
        self._items.append(AskFence(self.asked))
        return iter(())

    def take(self) -> bytes:
        """What has to be sent to the worker, in order; empty if there is nothing, or nobody to send it to. What is too
        long for one message comes with the next calls.
        """
        items, self._items = self._items, []
        if self.lost:
            return b""
        if items:
            messages, trouble = encoded(self.rank, self.incarnation, items, self._inbox)
            self.troubles += [trouble] if trouble else []
            self._ready += messages
        return self._ready.popleft() if self._ready else b""
