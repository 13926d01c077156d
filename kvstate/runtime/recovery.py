"""What durable pools held when the process came up: heard from every rank, and taken in by the ledger once all agree.

A block has a piece on each rank, so what counts is what *all* of them found. At a start that is every rank. After a
rank was lost, and another process is there for it, it is what the ledger had in the pool and what the new process
found: the other ranks have kept theirs.

A reset makes void what was found before it, and what was awaited then as well: nothing of it is taken in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvstate.machines.ledger import Ledger
from kvstate.machines.verdicts import Refusal
from kvstate.wire import Found

Name = tuple[str, bytes]
"""Key space and key."""


class Recovery(NamedTuple):
    """What became of what a durable pool held."""

    pool: str
    """Its name."""
    recovered: int
    """Blocks that are hits again."""
    left_out: int
    """Blocks that some ranks found and not all, or that found no room, or are stored anew already."""
    removed: int
    """Files that a process had begun when it died, and that are gone; over all ranks, as the next two."""
    refused: int
    """Objects that can't be served: of another version, cut off, or under a wrong name."""
    strange: int
    """Files that are none of ours, left alone."""


class _Pool:
    """What is known of one durable pool so far."""

    def __init__(self, number: int, name: str, ranks: Sequence[int], epoch: int) -> None:
        self.number = number
        self.name = name
        self.epoch = epoch
        """Of the ledger, in which what is awaited is still good."""
        self.awaited = set(ranks)
        """Ranks that have not said all."""
        self.names: list[Name] | None = None
        """What all ranks that have said all hold, the oldest first; None while none has."""
        self.heard: dict[int, list[Name]] = {}
        """What a rank has said so far."""
        self.most = 0
        """The most that any of them holds."""
        self.counts = (0, 0, 0)
        """Removed, refused, strange."""

    def all_of(self, rank: int, found: Found) -> None:
        """A rank has said all."""
        names = self.heard.pop(rank)
        self.awaited.discard(rank)
        self.most = max(self.most, len(names))
        removed, refused, strange = self.counts
        self.counts = removed + found.removed, refused + found.refused, strange + found.strange
        held = set(names)
        self.names = names if self.names is None else [name for name in self.names if name in held]


class Recoveries:
    """The durable pools of a ledger, and which ranks have yet to say what they found. For the ledger's own thread."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        """What takes it in."""
        self.done: dict[str, Recovery] = {}
        """The last recovery of each pool, by its name."""
        self._pools = {
            pool.copier: _Pool(number, pool.name, range(ledger.config.ranks), ledger.books.epoch)
            for number, pool in enumerate(ledger.config.pools)
            if pool.durable
        }

    @property
    def awaited(self) -> set[int]:
        """The ranks that have not said what they found."""
        return {rank for pool in self._pools.values() for rank in pool.awaited}

    def heard(self, rank: int, found: Found) -> None:
        """A rank says what it found, or a part of it. What was not asked for is passed over."""
        pool = self._pools.get(found.copier)
        if pool is None or rank not in pool.awaited:
            return
        spaces = found.spaces * len(found.keys) if len(found.spaces) == 1 else found.spaces
        pool.heard.setdefault(rank, []).extend(zip(spaces, found.keys, strict=False))
        if found.last:
            pool.all_of(rank, found)

    def lost(self, rank: int) -> None:
        """A rank is about to be given up, and with it all keys: remember which of them rest in durable pools.

        The ledger begins another epoch with that, and it is the one reset that leaves them good.
        """
        epoch = self.ledger.books.epoch
        for pool in self._pools.values():
            if not pool.awaited:
                pool.names = self.ledger.kept(pool.number)
                pool.most, pool.counts = len(pool.names), (0, 0, 0)
            elif pool.epoch != epoch:
                pool.names = []
            pool.epoch = epoch + 1
            pool.heard.pop(rank, None)
            pool.awaited.add(rank)

    def take(self) -> tuple[Recovery, ...]:
        """Have the ledger take in what all ranks hold, of the pools of which everything is known now."""
        made = []
        for pool in self._pools.values():
            if pool.awaited or pool.names is None:
                continue
            names = pool.names if pool.epoch == self.ledger.books.epoch else []
            taken = self.ledger.recover(pool.number, names)
            pool.names, count = None, 0 if isinstance(taken, Refusal) else len(taken.refs)
            made.append(Recovery(pool.name, count, pool.most - count, *pool.counts))
            self.done[pool.name] = made[-1]
        return tuple(made)
