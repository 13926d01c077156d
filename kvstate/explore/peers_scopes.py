"""The scopes of the search over two parties: what is in them, and how much of it may happen.

In each of them every message that was ever sent may come at any time after, any number of times, or never; the two
clocks go on independently of each other; and blocks that were let go of are written at once or later.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class PeerScope(NamedTuple):
    """What a search may do; the `title` says it in words. Numbers are how often, all together: `offers`, deaths of the
    producer and the consumer (`producers_die`), `byes`. `renewals`, `lease` and `resend` are as in `Terms`."""

    name: str
    title: str
    ranks: int = 1
    """Of the consumer: a load commits when all of them have the blocks."""
    offers: int = 1
    withdrawals: int = 0
    """By the caller of the producer."""
    aborts: int = 0
    """By the caller of the consumer, before its load has an end."""
    retries: int = 0
    """Copies that are made once more after one that failed."""
    failures: int = 0
    """Copies that report that they failed."""
    doubles: int = 0
    """Reports of ranks that come a second time."""
    loads: int = 1
    """How many loads copy from each offer, or from all together."""
    joined: bool = False
    """Does one part copy from all offers together?"""
    producers_die: int = 0
    consumers_die: int = 0
    """Deaths; another process of the same name may come up after each."""
    losses: int = 0
    """Times that a transport says that it has lost the other side."""
    byes: int = 0
    clocks: str = "PC"
    """Whose clocks go on: the producer's, the consumer's. That they would end everything is looked at in any case."""
    greet: bool = False
    """Do the two begin as strangers?"""
    keep: bool = False
    """Do the messages of their first meeting stay on the wire?"""
    differs: str = ""
    """The field of `Terms` in which the producer differs."""
    questions: int = 9
    """The numbers that a process may mint for questions and challenges; beyond that a move is not made. A stray message
    begins a greeting each time that it comes, so without a bound there is no end."""
    renewals: int = 0
    lease: int = 4
    resend: int = 2
    patience: int = 4
    """The last four as in `Terms`; what is sent again is the same, so once is as good as often."""


_ALL = (
    PeerScope("handoff", "one offer, one rank: taken, refused, or run out"),
    PeerScope("withdraw", "the producer calls it off, the consumer aborts", withdrawals=1, aborts=1),
    PeerScope("renew", "the lease is extended", renewals=1, lease=4, resend=1, patience=2),
    PeerScope(
        "again",
        "a copy that nobody vouched for in time is made again, and the first answer comes late",
        withdrawals=1,
        retries=1,
        failures=1,
        doubles=1,
        clocks="C",
        lease=8,
    ),
    PeerScope("ranks", "two ranks, of which both must be vouched for", ranks=2, aborts=1, clocks="P"),
    PeerScope("loads", "two loads of one offer, of which one is over first", loads=2, clocks=""),
    PeerScope("lost", "a transport gives up, on either side", losses=1, questions=2),
    PeerScope("bye", "one of the two says goodbye", byes=1, questions=2),
    PeerScope("greet", "two strangers meet", offers=0, greet=True, questions=2),
    PeerScope("strange", "two that do not fit", offers=0, greet=True, differs="fingerprint", questions=2),
    PeerScope(
        "reborn",
        "strangers, of whom one dies and comes back",
        offers=0,
        producers_die=1,
        greet=True,
        questions=2,
        clocks="",
    ),
    PeerScope("producer", "the producer dies, and another comes up", producers_die=1, questions=3, clocks=""),
    PeerScope("undead", "and its old words come back", producers_die=1, keep=True, questions=2, clocks=""),
    PeerScope("consumer", "the consumer dies, and another comes up", consumers_die=1, questions=3, clocks=""),
    PeerScope("joined", "one part copies from two offers", offers=2, joined=True, withdrawals=1, clocks=""),
)
PEER_SCOPES: Final = {scope.name: scope for scope in _ALL}
"""By name."""
