"""A rank is gone: its worker has died, and with it everything that it held.

A block has a piece on every rank, so with one rank's memory the bytes of *every* block are gone, in every pool. What
follows is no new machine: it is four inputs that the ledger has, in this order.

1. Every open lease is aborted. What a request owns on the device is worth nothing any more, so it has to come again,
   and its loads must not be told that a prefix is there.
2. The cache is reset: no key of before is a hit again, and every job is called off. What rests in durable pools is not
   lost, and its objects stay: it can be recovered when there is a worker again (`Ledger.recover`).
3. The rank is fenced, for all copiers and all tokens that were minted: a process that is gone touches no memory. What
   other ranks still copy goes on draining there until they report.

Between 1 and 3 the order decides nothing about safety (a block drains until its last toucher is proved over), and yet
it has to be this one: a part that a fence ends is a part that stopped, and a batch whose lease is open would be tried
again, into a process that does not have the bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from kvstate.machines.ledger import Ledger
from kvstate.machines.verdicts import Refusal


class RankLost(NamedTuple):
    """What was given up with a rank."""

    leases: tuple[int, ...]
    """They were open, and are aborted: their requests have to come again, with new leases."""
    keys: int
    """So many were dropped, over all pools."""
    parts: int
    """So many were ended: those of this rank that were not proved over before."""


def rank_lost(ledger: Ledger, rank: int) -> RankLost | Refusal:
    """The process of this rank is gone, with its memory. To be said once it is *known* to be gone, and not before.

    Effects for the rank that were not handed out yet must never be; `Ledger.take_effects` is to be called first.
    Refused where the ledger has no such rank or is poisoned, which frees nothing anyhow.
    """
    if not 0 <= rank < ledger.config.ranks:
        return Refusal(f"there is no rank {rank}; the ledger counts {ledger.config.ranks}, from 0 up")
    leases = tuple(ledger.books.leases)
    for lease in leases:
        ledger.abort(lease)
    keys = ledger.reset(keep_durable=True)
    parts = 0
    for copier in dict.fromkeys(pool.copier for pool in ledger.config.pools):
        ended = ledger.fenced(rank, copier, ledger.books.serial)
        if isinstance(ended, Refusal):
            return ended
        parts += ended
    return RankLost(leases, 0 if isinstance(keys, Refusal) else keys, parts)
