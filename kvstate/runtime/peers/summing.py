"""Offers whose blocks are being summed, in a thread of their own: a prompt may take longer than a turn of the loop."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from kvstate.machines.messages import Token
from kvstate.peers.words import Goods

if TYPE_CHECKING:
    from kvstate.runtime.peers.copier import PeerCopier


class Summed(NamedTuple):
    """One offer that is being summed, or has been."""

    number: int
    """What the embedder knows the offer by."""
    peer: str
    """For whom it is."""
    goods: Goods
    """All but the sums."""
    hold: Token
    """Under which the ledger keeps the blocks as they are."""
    sums: tuple[Future[tuple[bytes, ...]], ...]
    """One for each rank; none where nothing is summed."""

    def seals(self) -> tuple[tuple[bytes, ...], ...]:
        """The sums, rank by rank and line by line. Errors: what the summing raised."""
        return tuple(sums.result() for sums in self.sums)


class Summing:
    """All of them. For the thread that owns the ledger."""

    def __init__(self, copiers: Sequence[PeerCopier]) -> None:
        """`copiers`, one a rank, sum their pieces; without any, nothing is summed."""
        self._copiers = tuple(copiers)
        self._offers: dict[int, Summed] = {}
        self._dropped: list[Summed] = []
        self._threads = ThreadPoolExecutor(1, "kvstate-offers")

    def begin(self, number: int, peer: str, goods: Goods, hold: Token) -> None:
        """Sum these goods, after those that were begun before."""
        sums = tuple(self._threads.submit(copier.seal, goods.blocks) for copier in self._copiers)
        self._offers[number] = Summed(number, peer, goods, hold, sums)

    def ready(self) -> list[Summed]:
        """Take out those whose sums are there, the oldest first."""
        done = [number for number, one in self._offers.items() if all(sums.done() for sums in one.sums)]
        return [self._offers.pop(number) for number in done]

    def drop(self, number: int) -> Summed | None:
        """One is not wanted any more; None if it is none of these. It is `read_no_more` before long."""
        offer = self._offers.pop(number, None)
        self._dropped += [] if offer is None else [offer]
        return offer

    def read_no_more(self) -> list[Token]:
        """The holds of those that were dropped, and whose blocks nobody reads now. Each once."""
        for offer in self._dropped:
            for sums in offer.sums:
                sums.cancel()
        over = [offer for offer in self._dropped if all(sums.done() for sums in offer.sums)]
        self._dropped = [offer for offer in self._dropped if offer not in over]
        return [offer.hold for offer in over]

    def close(self) -> None:
        """Sum no more; waits for the one that is under way."""
        self._threads.shutdown(wait=True, cancel_futures=True)
