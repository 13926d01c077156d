"""The scopes: what there is in each, and how much of it. Everything that could grow without end is bounded here.

Time needs no bound of its own: it moves only from one timer to the next, and jobs, loads and lives are bounded.
Attempts are bounded by the ledger's own setting. A report may come twice in every state of every scope, and a lost one
is one that never comes; see `home` and `world`.
"""

from __future__ import annotations

from typing import Final

from kvstate.explore.rare import RARE
from kvstate.explore.scope import LOAD, PROMPT, STORE, Request, Scope

__all__ = ["LATE", "LOAD", "QUICK", "SCOPES", "SOAK", "STORE", "Request", "Scope"]

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
        "groups",
        "two KV groups with blocks of two sizes, one with a window and a hole before it; a second lookup",
        "ledger device=b0,b1,b2,b3 host=h0,h1,h2,h3 groups=full:2,slide:1:1 part=1 batch=2 attempts=1",
        (Request("r1", PROMPT, ("lookup", "allocate", "load", "lookup", "finish")),),
        given="full:K1 full:K2 slide:W2 slide:W4",
        fails=("broken",),
        fences=False,
    ),
    Scope(
        "ranks",
        "one block on two ranks, stored and loaded, two lives, and a rank that is lost",
        "ledger device=b0 host=h0 ranks=2 part=1 batch=1 attempts=1",
        (
            Request(
                "r1", ("K1",), ("lookup", "allocate", "load", "compute", "store", "finish"), lives=2, ends=("abort",)
            ),
        ),
        given="K1",
        fails=("failed",),
        deaths=1,
        fences=False,
    ),
    Scope(
        "foreign",
        "an engine that allocates by itself; a store, and its block handed on under it",
        "ledger device=b0 foreign host=h0 part=1 batch=1 attempts=2",
        (
            Request("r1", ("K1",), ("take", "compute", "store", "finish"), ends=("preempt",)),
            Request("r2", ("K3",), ("take", "compute", "finish")),
        ),
        fails=("failed", "timeout"),
        steals=1,
        fences=False,
    ),
    Scope(
        "foreign-load",
        "the same with a load, and a store of the block by who gets it",
        "ledger device=b0 foreign host=h0,h1 part=1 batch=1 attempts=1",
        (
            Request("r1", ("K1",), ("lookup", "take", "load", "finish"), ends=("preempt",)),
            Request("r2", ("K3",), ("take", "compute", "store", "finish")),
        ),
        given="K1",
        fails=("broken",),
        steals=1,
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
    Scope(
        "tiers",
        "three tiers: a demotion from the host to the disk, a load out of either, two lives, a reset",
        "ledger device=b0 host=h0 disk=d0 keeps=disk part=1 batch=1 attempts=1",
        (
            Request("r1", ("K1",), ("demote",)),
            Request("r2", ("K1",), ("lookup", "allocate", "load", "finish"), lives=2),
        ),
        given="K1",
        fails=("broken",),
        resets=1,
        fences=False,
    ),
    Scope(
        "recover",
        "a job into a durable pool, called off or reset; a process that is killed, and a load of what it left",
        "ledger device=b0 disk=d0 keeps=disk part=1 batch=1 attempts=1",
        (
            Request("r1", ("K1",), STORE, lives=2),
            Request("r2", ("K1",), ("lookup", "allocate", "load")),
        ),
        resets=1,
        restarts=1,
        fences=False,
    ),
    Scope(
        "twice",
        "two stores of one key into a durable pool, the first called off while it is made durable",
        "ledger device=b0 disk=d0,d1 keeps=disk part=1 batch=1 attempts=1",
        (Request("r1", ("K1",), ("lookup", "allocate", "compute", "store", "finish"), lives=2),),
        fails=("failed", "cancelled"),
        cancels=1,
        fences=False,
    ),
    Scope(
        "hints",
        "a store that others write to: a seek that is answered or not, a load of what is there or gone, a reset",
        "ledger device=b0 store=s0 shared=store part=1 batch=1 attempts=1",
        (Request("r1", ("K1",), ("lookup", "seek", "lookup", "allocate", "load", "finish")),),
        fails=("timeout",),
        resets=1,
        others="K1",
        news=1,
        fences=False,
    ),
    *RARE,
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
    depth=12,
)
"""Searched as deep as it says, which takes minutes."""
LATE = SOAK._replace(
    name="soak-late",
    title="soak, begun where the first life of three is over and nothing went wrong in it",
    depth=None,
    prefix=(
        *(("open", 0), ("go", 0), ("go", 0), ("go", 0)),
        *(("land", 0), ("deliver", 0, ""), ("land", 0), ("deliver", 0, ""), ("deliver", 0, ""), ("deliver", 0, "")),
        *(("go", 0), ("go", 0)),
    ),
)
"""The same scope, and to its end, from where the other search does not come: after twelve moves."""
SCOPES: Final = {scope.name: scope for scope in (*QUICK, SOAK, LATE)}
"""All of them, by name."""
