"""What a `KVRuntime` answers, the time that it goes by, and how its workers end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import Final, NamedTuple

from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Token
from kvstate.machines.records import Part
from kvstate.machines.verdicts import Fatal, JobVerdict, LoadVerdict, Settlement
from kvstate.runtime.clock import Clock
from kvstate.runtime.copiers import Copier
from kvstate.runtime.dispatcher import Link
from kvstate.runtime.engine import Engine, Loss
from kvstate.runtime.outbox import Outbox
from kvstate.runtime.peers.news import HandoffVerdict, Offered, PeerNews
from kvstate.runtime.processes import ProcessLink
from kvstate.runtime.recovery import Recovery
from kvstate.wire import Probed

Copiers = Mapping[str, Copier]
"""The copiers of one rank, by the names that the pools give them."""


class Done(NamedTuple):
    """What one turn brought. In this order it is to be looked at."""

    lost: tuple[Loss, ...]
    """Ranks whose process is gone, and what went with them."""
    verdicts: tuple[LoadVerdict, ...]
    """How loads ended: proceed with a token count, or recompute with every code, or aborted."""
    jobs: tuple[JobVerdict, ...]
    """How offloads ended."""
    settled: tuple[Settlement, ...]
    """Loads none of whose copies is waited for any more."""
    probed: tuple[Probed, ...]
    """What came of probes."""
    troubles: tuple[str, ...]
    """Messages that could not be read, here or by a worker, and workers that could not do what they were told."""
    fatal: Fatal | None
    """A broken invariant, in every turn from then on: stop serving, keep the dump."""
    reports: int
    """How many were heard. `max_reports` of them: there may be more."""
    recovered: tuple[Recovery, ...] = ()
    """What was taken in from durable pools, at the start or after a loss."""
    offers: tuple[Offered, ...] = ()
    """What peers offer us."""
    handoffs: tuple[HandoffVerdict, ...] = ()
    """How handoffs ended, ours to peers and theirs to us."""
    peers: tuple[PeerNews, ...] = ()
    """Peers that are there now, that can't be dealt with, or that are gone."""


class Left(NamedTuple):
    """What a shutdown left behind. Empty, and so false, if it is clean."""

    sentences: tuple[str, ...]
    """What was not at rest at the end."""
    tokens: tuple[Token, ...]
    """Copies that may touch memory *even now*: while there is one, the memory must not be given back."""
    blocks: tuple[int, ...]
    """The blocks that they may touch."""

    def __bool__(self) -> bool:
        return bool(self.sentences or self.tokens)


SENTENCES: Final = 256
"""So many troubles a runtime tells in all, each of them once."""


class Troubles:
    """Sentences that wait for the next poll, from whatever thread."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._told: set[str] = set()

    def tell(self, sentence: str) -> None:
        """Keep it, unless it was told before, or so many were that nobody would read them."""
        if sentence not in self._told and len(self._told) < SENTENCES:
            self._told.add(sentence)
            self._waiting.append(sentence)

    def take(self) -> tuple[str, ...]:
        """Those that were told since the last time."""
        return tuple(self._waiting.popleft() for _ in range(len(self._waiting)))


class Told:
    """The time as it was told last; before that, and where it is not told, that of a clock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        """Asked where nobody tells."""
        self.told: float | None = None
        """Seconds, on the clock of whoever tells it."""

    def now(self) -> float:
        """Seconds."""
        return self.clock.now() if self.told is None else self.told


def end_all(links: Iterable[Link], copiers: Iterable[Copiers], within: float) -> tuple[Token, ...]:
    """Close all copiers and end all processes; the tokens of parts that may touch memory even now."""
    end, left = monotonic() + within, list[Token]()
    for copier in [copier for one in copiers for copier in one.values()]:
        left += copier.close(max(0.0, end - monotonic()))
    for link in links:
        if isinstance(link, ProcessLink):
            link.stop(max(0.0, end - monotonic()))
    return tuple(left)


def parts_of(ledger: Ledger, tokens: Iterable[Token]) -> list[Part]:
    """The parts that these tokens name, of those that are on record."""
    books = ledger.books
    return [books.parts[books.tokens[token.serial]] for token in tokens if token.serial in books.tokens]


def prove_closed(engine: Engine, left: Sequence[Token]) -> None:
    """What is closed and not among these is over: its copier is gone, or has never been given it."""
    parts = parts_of(engine.ledger, left)
    names = dict.fromkeys(pool.copier for pool in engine.ledger.config.pools)
    for rank, link in enumerate(engine.links):
        for name in () if isinstance(link, Outbox) else names:
            older = [part.token.serial - 1 for part in parts if (part.rank, part.copier) == (rank, name)]
            engine.proved(rank, name, min(older, default=engine.ledger.books.serial))
