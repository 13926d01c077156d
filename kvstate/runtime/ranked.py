"""What a `KVRuntime` does about the workers of its ranks: their lives, their ends, and what they say beside reports."""

from __future__ import annotations

from collections import deque
from functools import partial
from time import monotonic
from typing import Final

from kvstate.runtime.answers import Troubles
from kvstate.runtime.guarded import Requests
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.outbox import Outbox
from kvstate.runtime.processes import ProcessLink
from kvstate.runtime.settings import RuntimeConfig
from kvstate.runtime.standard import guest
from kvstate.wire import Fenced, Found, Probed, Trouble, Up

TURN_SECONDS: Final = 0.05
"""How long one who waits sleeps between two looks."""


class Ranked(Requests):
    """A part of `KVRuntime`, which says who may call what."""

    inbox: Inbox
    """Where reports wait."""

    def __init__(self, config: RuntimeConfig) -> None:
        super().__init__(config)
        self._up: deque[Up] = deque()
        self._troubles, self._closing = Troubles(), False
        self._restarts = [0] * config.ledger.ranks

    def tell(self, sentence: str) -> None:
        """Have a trouble told by the next poll; from any thread, and the same once."""
        self._troubles.tell(sentence)

    def _process(self, rank: int, incarnation: int) -> ProcessLink:
        return ProcessLink(partial(guest, self.config), rank, incarnation, self.inbox)

    def incarnation(self, rank: int) -> int:
        """Which life of this rank's worker the messages are meant for; 1 for a rank of this process."""
        link = self.engine.links[rank]
        return link.incarnation if isinstance(link, Outbox | ProcessLink) else 1

    def worker_lost(self, rank: int, why: str) -> None:
        """A worker of the embedder's is gone for good, with its memory: said once that is *known*. See `Done.lost`.

        From the next poll on, the rank has a new incarnation; a worker that is started for it has to have that one.
        Raises `ValueError` for workers that are not the embedder's.
        """
        self._enter("worker_lost")
        link = self.engine.links[rank]
        if not isinstance(link, Outbox):
            raise ValueError(f"rank {rank} has no worker of the embedder's; the runtime sees by itself when it is gone")
        link.lost = why or "the embedder says so"

    def ready(self, within: float) -> bool:
        """Wait until every process of ours has made its memory, and what durable pools held is taken in.

        What a process is given before that waits for it.
        """
        self._enter("ready")
        end, links = monotonic() + within, [link for link in self.engine.links if isinstance(link, ProcessLink)]
        there = all(link.ready(max(0.0, end - monotonic())) for link in links)
        while there and links and not self.engine.recover() and self.engine.recoveries.awaited and monotonic() < end:
            self.inbox.wait(TURN_SECONDS, partial(any, [link.found for link in links]))
        self.engine.pump()
        return there and not (links and self.engine.recoveries.awaited)

    def _restart(self, rank: int) -> None:
        """Another life for a rank that is lost, if it has not had too many."""
        link = self.engine.links[rank]
        self._restarts[rank] += 1
        if isinstance(link, Outbox):
            self.engine.replace(rank, Outbox(rank, link.incarnation + 1, self.inbox))
        elif isinstance(link, ProcessLink):
            for sentence in link.troubles:
                self._troubles.tell(sentence)
            link.stop(0.0)
            if self._restarts[rank] > self.config.restarts:
                self._troubles.tell(f"rank {rank} was started again {self.config.restarts} times, and is given up")
            elif not self._closing:
                try:
                    self.engine.replace(rank, self._process(rank, link.incarnation + 1))
                except OSError as error:  # there is no process to be had, or no pipe
                    self._troubles.tell(f"rank {rank} could not be started again, and is given up: {error}")

    def _answered(self) -> None:
        """What workers said beside reports. A proof of an earlier life is one of parts that are over anyhow."""
        while self._up:
            up = self._up.popleft()
            if not 0 <= up.rank < len(self.engine.links):
                self._troubles.tell(f"a message came from rank {up.rank}; there are {len(self.engine.links)} ranks")
                continue
            for item in up.items:
                if isinstance(item, Trouble):
                    self._troubles.tell(item.sentence)
                elif isinstance(item, Probed):
                    self._probed.append(item)
                elif isinstance(item, Found) and isinstance(link := self.engine.links[up.rank], Outbox):
                    link.found += [item] if up.incarnation == link.incarnation else []
                elif isinstance(item, Fenced):
                    for copier, serial in item.proved:
                        self.engine.proved(up.rank, copier, serial)
