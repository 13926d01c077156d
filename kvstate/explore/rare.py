"""Small scopes that are made to come to rows and orders of events which the larger ones pass by."""

from __future__ import annotations

from typing import Final

from kvstate.explore.scope import STORE, Request, Scope

RARE: Final = (
    Scope(
        "backoff",
        "a job of two parts into a durable pool, tried twice, whose back-off outlasts its deadline",
        "ledger device=b0,b1 disk=d0,d1 keeps=disk part=1 batch=2 attempts=2 retry=3",
        (Request("r1", ("K1", "K2"), STORE),),
        fails=("failed", "denied"),
        cancels=1,
        fences=False,
    ),
    Scope(
        "late-retry",
        "a load of two batches, whose back-off outlasts its deadline",
        "ledger device=b0,b1 host=h0,h1 unverified part=1 batch=1 attempts=2 retry=2.5",
        (Request("r1", ("K1", "K2"), ("lookup", "allocate", "load", "finish")),),
        given="K1 K2",
        fails=("failed",),
        fences=False,
    ),
    Scope(
        "holes",
        "a load of three batches, where what was cut is cut again, or its time is up, or it is aborted",
        "ledger device=b0,b1,b2 host=h0,h1,h2 unverified part=1 batch=1 attempts=1",
        (Request("r1", ("K1", "K2", "K3"), ("lookup", "allocate", "load"), ends=("abort",)),),
        given="K1 K2 K3",
        fails=("failed",),
        fences=False,
    ),
    Scope(
        "parts",
        "one batch of three parts, some of which may be lost while the others stop",
        "ledger device=b0,b1,b2 host=h0,h1,h2 unverified part=1 batch=3 attempts=1",
        (Request("r1", ("K1", "K2", "K3"), ("lookup", "allocate", "load")),),
        given="K1 K2 K3",
        fails=("failed", "timeout"),
        fences=False,
    ),
    Scope(
        "silent-rank",
        "one block on two ranks, loaded and tried twice, where one rank may fall silent",
        "ledger device=b0 host=h0 unverified ranks=2 part=1 batch=1 attempts=2",
        (Request("r1", ("K1",), ("lookup", "allocate", "load", "finish"), ends=("abort",)),),
        given="K1",
        fails=("failed", "timeout"),
        fences=False,
    ),
    Scope(
        "foreign-ranks",
        "an engine that allocates by itself, on two ranks; its block is freed under a load",
        "ledger device=b0 foreign host=h0 unverified ranks=2 part=1 batch=1 attempts=1",
        (Request("r1", ("K1",), ("lookup", "take", "load", "finish"), ends=("preempt",)),),
        given="K1",
        fails=("timeout",),
        fences=False,
    ),
    Scope(
        "demoted",
        "a copy from the host to the disk, tried twice, whose source a load finds bad meanwhile",
        "ledger device=b0 host=h0 disk=d0 unverified part=1 batch=1 attempts=2",
        (Request("r1", ("K1",), ("demote",)), Request("r2", ("K1",), ("lookup", "allocate", "load"))),
        given="K1",
        fails=("failed", "broken"),
        fences=False,
    ),
)
"""Searched until nothing new is found, each; part of `scopes.QUICK`."""
