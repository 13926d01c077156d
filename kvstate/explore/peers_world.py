"""Two processes, the messages between them, the blocks, and the loads of the consumer, as one value.

What is physical has no names that the parties know of: a copy remembers whether it read what was offered, and not by
which token.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

from kvstate.peers.words import Handoff

T = TypeVar("T")
PRODUCER: Final = 0
CONSUMER: Final = 1
"""`PRODUCER` and this: the two processes, as places."""
NAMES: Final = ("P", "C")
"""Of the processes, in that order."""
DEAD: Final = -1
"""The form of a process that is not there."""


class Copy(NamedTuple):
    """What one rank of the consumer has of a load."""

    stage: str = "idle"
    """Then `copied`, `done` (it has said so), `out` (the ledger has heard)."""
    good: bool = False
    """Did it read what was offered?"""
    outcome: str = ""
    """What the ledger heard."""


class Load(NamedTuple):
    """A load of the consumer: of which `deals`, its `copies` by rank, the `tries` before, and what came of it."""

    deals: tuple[int, ...]
    copies: tuple[Copy, ...]
    tries: int = 0
    verdict: str = ""
    """`committed`, `fell`, `aborted` or `died`."""
    told: bool = False
    """Has the caller closed the handoffs?"""


class Deal(NamedTuple):
    """A handoff, as the world sees it; `announced` is what the consumer was told to do with it."""

    handoff: Handoff
    consumer: int
    """The life that it was offered to."""
    let_go: int = 0
    """How often the producer has let go of the blocks."""
    written: bool = False
    """Are the bytes others by now?"""
    announced: bool = False
    vanished: int = 0
    """How often its names were taken back."""
    lend_end: tuple[tuple[str, bool], ...] = ()
    """The verdicts of the producer: the end, and whether something may have been committed."""
    borrow_end: tuple[str, ...] = ()
    """The verdicts of the consumer."""


class Left(NamedTuple):
    """How often something may still happen, as in the scope: `offers`, `withdrawals`, `aborts`, `retries`, `failures`,
    `doubles`, `producers_die`, `consumers_die`, `losses`, `byes`."""

    offers: int
    withdrawals: int
    aborts: int
    retries: int
    failures: int
    doubles: int
    producers_die: int
    consumers_die: int
    losses: int
    byes: int


class World(NamedTuple):
    """All of it: two processes with their `lives`, the wire, the `deals` and loads, and what is `left` to happen."""

    forms: tuple[int, int]
    """Of the two processes."""
    lives: tuple[int, int]
    sent: int
    """Which messages were ever sent, a bit for each."""
    deals: tuple[Deal, ...]
    loads: tuple[Load, ...]
    left: Left


def put(items: tuple[T, ...], place: int, item: T) -> tuple[T, ...]:
    """The same with another item at that place."""
    return (*items[:place], item, *items[place + 1 :])
