"""The scopes: what there is in each, and how much of it. Everything that could grow without end is bounded here.

Time needs no bound of its own: it moves only from one timer to the next, and jobs, loads and lives are bounded.
Attempts are bounded by the ledger's own setting. A report may come twice in every state of every scope, and a lost one
is one that never comes; see `home` and `world`.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Request(NamedTuple):
    """A request: its prompt as keys, what it does in order, how often it may come, and how it may be cut short."""

    name: str
    keys: tuple[str, ...]
    program: tuple[str, ...]
    """Of lookup, allocate, load, compute, step, seal, store, finish; see `requests`."""
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
    cancels: int = 0
    """How often the caller may call a job or a load off."""
    drains: int = 0
    """1 if the ledger may be drained; nothing new begins after that."""
    fences: bool = True
    """May the copier be fenced in the middle of things? It is at the end, in any case."""
    depth: int | None = None
    """So many moves at most; None is until nothing new is found."""


LOAD = ("lookup", "allocate", "load", "compute", "finish")
"""What a request does that loads what it can and computes the rest."""
STORE = ("allocate", "compute", "store", "finish")
"""What a request does that stores what it computed."""

QUICK: Final = (
    Scope(
        "batch",
        "one batch of two parts, two lives",
        "ledger device=b0,b1 host=h0,h1 part=1 batch=2 attempts=1",
        (Request("r1", ("K1", "K2"), LOAD, lives=2, ends=("abort",)),),
        given="K1 K2",
        fails=("failed", "broken"),
        fences=False,
    ),
    Scope(
        "job",
        "a job of two parts, a reset",
        "ledger device=b0,b1 host=h0,h1 part=1 batch=2 attempts=2",
        (Request("r1", ("K1", "K2"), STORE, ends=("abort",)),),
        fails=("failed", "cancelled"),
        resets=1,
        fences=False,
    ),
    Scope(
        "store-load",
        "a job, then a load over what it stored, whose bytes may have gone bad",
        "ledger device=b0 host=h0 part=1 batch=1 attempts=1",
        (
            Request("r1", ("K1",), STORE),
            Request("r2", ("K2",), ("allocate", "finish")),
            Request("r3", ("K1",), LOAD, ends=("abort",)),
        ),
        fails=("failed",),
        corrupt=1,
        fences=False,
    ),
    Scope(
        "shared",
        "two leases sharing a prefix, one aborted, one loading",
        "ledger device=b0,b1 host=h0,h1 part=1 batch=1 attempts=1",
        (
            Request("r1", ("K1", "K2"), LOAD, ends=("abort",)),
            Request("r2", ("K1",), ("lookup", "allocate", "load", "finish")),
        ),
        given="K1",
        fails=("broken", "timeout"),
        fences=False,
    ),
    Scope(
        "steps",
        "compute steps, with preempt and re-admission",
        "ledger device=b0,b1 host=h0 part=1 batch=1 attempts=1",
        (
            Request("r1", ("K1", "K2"), ("lookup", "allocate", "step", "seal", "finish"), lives=2, ends=("preempt",)),
            Request("r2", ("K3",), ("allocate", "step", "seal", "store", "finish"), ends=("preempt",)),
        ),
        fails=("denied",),
    ),
    Scope(
        "batches",
        "a load of two batches, tried twice",
        "ledger device=b0,b1 host=h0,h1 part=1 batch=1 attempts=2",
        (Request("r1", ("K1", "K2"), ("lookup", "allocate", "load", "finish")),),
        given="K1 K2",
        fails=("failed",),
        fences=False,
    ),
    Scope(
        "retries",
        "one batch of two parts, tried twice, whose copies may go silent",
        "ledger device=b0,b1 host=h0,h1 part=1 batch=2 attempts=2",
        (Request("r1", ("K1", "K2"), ("lookup", "allocate", "load", "finish")),),
        given="K1 K2",
        fails=("failed", "broken", "timeout"),
        fences=False,
    ),
    Scope(
        "queue",
        "two jobs, and a place for one; either may be called off",
        "ledger device=b0,b1 host=h0,h1 part=1 batch=2 attempts=1 jobs=1",
        (Request("r1", ("K1",), STORE), Request("r2", ("K2",), STORE)),
        fails=("failed",),
        cancels=1,
        fences=False,
    ),
    Scope(
        "durable",
        "a job into a durable pool, and a drain",
        "ledger device=b0 host=h0 durable part=1 batch=1 attempts=2",
        (Request("r1", ("K1",), STORE, ends=("abort",)),),
        fails=("failed", "denied", "cancelled", "timeout"),
        resets=1,
        cancels=1,
        drains=1,
    ),
)
"""Searched until nothing new is found, each."""
SOAK = Scope(
    "soak",
    "two device and two host blocks, two leases, one job and one load of two batches, three lives",
    "ledger device=b0,b1 host=h0,h1 part=1 batch=1 attempts=2 jobs=1",
    (
        Request("r1", ("K1", "K2"), LOAD, lives=2, ends=("abort", "preempt")),
        Request("r2", ("K1", "K3"), ("lookup", "allocate", "step", "seal", "store", "finish"), ends=("preempt",)),
    ),
    given="K1 K2",
    fails=("failed", "broken", "timeout"),
    resets=1,
    depth=10,
)
"""Searched as deep as it says, which takes minutes."""
SCOPES: Final = {scope.name: scope for scope in (*QUICK, SOAK)}
"""All of them, by name."""
