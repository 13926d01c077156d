"""What a runtime tells of its peers: what they offer, how handoffs ended, and who is there. Plain values."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kvstate.peers.words import Gone, Met, Strange


class Offered(NamedTuple):
    """A peer has blocks for us: look its keys up as any others, and `close_offer` it when that is over."""

    number: int
    """For `close_offer`, and of the verdict."""
    peer: str
    """Its name."""
    request: bytes
    """What the peer calls the request, as it said with the offer."""
    tokens: int
    """How many tokens of the prompt the blocks are for."""
    spaces: tuple[str, ...]
    """The key space of each line; one word stands for all."""
    keys: tuple[bytes, ...]
    """The key of each line."""
    named: int
    """So many of these lines got a handle; the others are hits already, or found no room."""


class HandoffVerdict(NamedTuple):
    """How a handoff ended for this side. One for each."""

    number: int
    """As `offer` gave it, or as it came with `Offered`."""
    side: Literal["lend", "borrow"]
    """Were the blocks ours, or the peer's?"""
    peer: str
    """Its name."""
    request: bytes
    """What the producer called the request."""
    end: str
    """Ours: `delivered`, `returned`, `withdrawn`, `expired`, `lost`; the peer's: `taken`, `refused`, `withdrawn`,
    `expired`, `lost`."""
    code: int
    """Why, as the number of an error code; 0 where there is nothing to say."""
    vouched: bool
    """May the consumer have committed something of it? With an end of ours that is not `delivered`, True is doubt."""


PeerNews = Met | Strange | Gone
"""What became known of a peer."""


class News(NamedTuple):
    """What one turn brought."""

    offers: tuple[Offered, ...] = ()
    """What peers offer."""
    verdicts: tuple[HandoffVerdict, ...] = ()
    """How handoffs ended, ours and theirs."""
    peers: tuple[PeerNews, ...] = ()
    """Who came, who went, and who is strange."""

    def and_then(self, later: News) -> News:
        """This, and after it that."""
        return News(self.offers + later.offers, self.verdicts + later.verdicts, self.peers + later.peers)
