"""What may be believed of a shared pool: whatever is a hit there, somebody has said to be there (law L9).

It is told what the ledger is told, and knows nothing of what the ledger makes of it. A key may be believed when it was
announced, or when every rank has answered one seek for it with yes: in this epoch, before its deadline, and before the
part was given up. It may be believed no more when it has vanished, or the cache was reset.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kvstate.machines.audit import NAMING
from kvstate.machines.books import Books
from kvstate.machines.messages import Outcome, Report, Token, Work

Name = tuple[str, bytes]
"""A key space and a key."""


@dataclass
class Asked:
    """A seek, as far as it may still be answered."""

    deadline: float
    """In seconds; what is answered when that is over counts for nothing."""
    parts: dict[Token, tuple[int, tuple[Name, ...]]]
    """By token: the rank that is asked, and for what."""
    ranks: int
    yes: dict[int, frozenset[Name]] = field(default_factory=dict)
    """By rank: what it has by its own word."""
    struck: frozenset[Name] = frozenset()
    """What has vanished while it was asked for."""


@dataclass
class Sayings:
    """See the module."""

    said: frozenset[Name] = frozenset()
    """All that may be a hit by the word of others."""
    ours: frozenset[Name] = frozenset()
    """What we have put there ourselves: a job that ends well makes it a hit, whatever is said while it is under way."""
    open: list[Asked] = field(default_factory=list)
    """The oldest first."""

    def asked(self, works: Iterable[Work], deadline: float, ranks: int) -> None:
        """A seek goes down as these parts."""
        parts = {work.token: (work.rank, _names(work)) for work in works}
        self.open.append(Asked(deadline, parts, ranks))

    def announced(self, names: Iterable[Name]) -> None:
        """Others say that they have these."""
        self.said |= frozenset(names)

    def stored(self, names: Iterable[Name]) -> None:
        """We have put these there."""
        self.ours |= frozenset(names)

    def vanished(self, names: Iterable[Name]) -> None:
        """Others say that they have these no more."""
        gone = frozenset(names)
        self.said -= gone
        for asked in self.open:
            asked.struck |= gone

    def heard(self, report: Report) -> None:
        """A worker says something, of whatever part. The first word about a part is the only one that counts."""
        for asked in [one for one in self.open if report.token in one.parts]:
            rank, names = asked.parts.pop(report.token)
            lines = [failure.line for failure in report.failures]
            if report.outcome == Outcome.DONE and set(lines) <= set(range(len(names))):
                found = frozenset(name for line, name in enumerate(names) if line not in lines)
                asked.yes[rank] = asked.yes.get(rank, frozenset()) | found
                if len(asked.yes) == asked.ranks:
                    self.said |= frozenset.intersection(*asked.yes.values()) - asked.struck
        self.open = [asked for asked in self.open if asked.parts]

    def passed(self, now: float) -> None:
        """So late it is."""
        self.open = [asked for asked in self.open if asked.deadline > now]

    def called_off(self) -> None:
        """Nobody waits for an answer any more."""
        self.open = []

    def reset(self) -> None:
        """Whatever was said is of an epoch that is over."""
        self.said, self.ours, self.open = frozenset(), frozenset(), []

    def look(self, books: Books) -> Iterator[str]:
        """Law L9: the hits of shared pools that nobody has ever spoken of."""
        known = self.said | self.ours
        for slot, (pool, space, key) in books.keys.names():
            if books.pools[pool].config.shared and books.keys.state[slot] in NAMING and (space, key) not in known:
                yield f"L9.hint: {key.decode()} is a hit in {books.pools[pool].config.name}, and nobody said so"


def _names(work: Work) -> tuple[Name, ...]:
    return tuple((work.space(line), key) for line, key in enumerate(work.keys))
