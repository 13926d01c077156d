"""What a scope is: one bounded world, and the requests in it."""

from __future__ import annotations

from typing import NamedTuple


class Request(NamedTuple):
    """A request: its prompt as keys, what it does in order, how often it may come, and how it may be cut short."""

    name: str
    keys: tuple[str, ...]
    program: tuple[str, ...]
    """Of lookup, seek, allocate, take, load, compute, step, seal, store, demote, finish; see `requests`."""
    lives: int = 1
    """How many leases it may have in all."""
    ends: tuple[str, ...] = ()
    """`abort` or `preempt`: may come at any time while the lease is open."""


class Scope(NamedTuple):
    """One bounded world."""

    name: str
    title: str
    """What is in it, in a line."""
    ledger: str
    """The command of a scenario that makes the ledger."""
    requests: tuple[Request, ...]
    given: str = ""
    """The keys that are in the host pool at the beginning."""
    fails: tuple[str, ...] = ()
    """How a copy may fail, by outcome; only a fetch may be `broken`, only what was asked to stop `cancelled`."""
    resets: int = 0
    """How often the cache may be reset; `corrupt` likewise: how often bytes in the host pool may go bad unnoticed."""
    corrupt: int = 0
    steals: int = 0
    """How often an engine that allocates by itself may hand on what another has, or what it was asked to keep."""
    cancels: int = 0
    """How often the caller may call a job or a load off."""
    drains: int = 0
    """1 if the ledger may be drained; nothing new begins after that."""
    deaths: int = 0
    """How often the process of a rank may be lost, with all that it holds."""
    restarts: int = 0
    """How often the process may be killed and begin again with what outlived it. Nothing is `given` then."""
    others: str = ""
    """The keys that others have at the beginning, where a pool is shared with them."""
    news: int = 0
    """How often others may do something to a key, or somebody say something of it, true or not."""
    fences: bool = True
    """May the copier be fenced in the middle of things? It is at the end, in any case."""
    depth: int | None = None
    """So many moves at most; None is until nothing new is found."""
    prefix: tuple[tuple[str | int, ...], ...] = ()
    """Moves that are made first, so that the search begins in the middle of things; they do not count as depth."""


LOAD = ("lookup", "allocate", "load", "compute", "finish")
"""What a request does that loads what it can and computes the rest."""
STORE = ("allocate", "compute", "store", "finish")
"""What a request does that stores what it computed."""

PROMPT = ("full:K1", "full:K2", "slide:W1", "slide:W2", "slide:W3", "slide:W4")
"""Four tokens, in blocks of two and of one."""
