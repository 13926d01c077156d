"""One process of a replay with peers: a `KVRuntime`, its role, and a pipe to the parent.

From the parent come tuples: ("peer", name, address), ("serve", requests), ("end",). To it go ("ready", address),
("prefilled" | "decoded", line), ("wrong", sentence), ("result", a dict), ("failed", sentence).
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any, Final

from kvstate.machines.audit import audit
from kvstate.machines.tables.block import State as B
from kvstate.replay.peers.config import PREFILL, PeersConfig
from kvstate.replay.peers.roles import Decode, Prefill
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.peers.chaos import ChaosLink

Say = Callable[[tuple[Any, ...]], object]
"""Tells the parent."""
TURN_SECONDS: Final = 0.005
"""A turn of the loop that finds nothing to do waits so long."""
REQUESTS_AT_ONCE: Final = 4
"""So many requests begin in one turn."""
HOME_SECONDS: Final = 30.0
"""All must be at rest so long after the last request."""


def main(role: str, config: PeersConfig, life: int, pipe: Connection) -> None:
    """Serve until the parent says `end`, or is gone. What goes wrong is told to it, not raised."""
    try:
        with KVRuntime(config.runtime(role)) as kv:
            _chaos(kv, config, life)
            node = (Prefill if role == PREFILL else Decode)(kv, config)
            pipe.send(("ready", kv.listens_at))
            _serve(kv, node, pipe)
            pipe.send(("result", _end(kv, node)))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the parent is gone
    except BaseException:
        pipe.send(("failed", f"the {role} died of {traceback.format_exc()}"))


def _chaos(kv: KVRuntime, config: PeersConfig, life: int) -> None:
    """Messages get lost, doubled, late and out of order, as the settings say."""
    assert kv.handoffs is not None
    if any((config.lose, config.double, config.delay, config.reorder)):
        kv.handoffs.link = ChaosLink(
            kv.handoffs.link, config.seed + life, lose=config.lose, double=config.double, delay=config.delay,
            reorder=config.reorder,
        )  # fmt: skip


def _serve(kv: KVRuntime, node: Prefill | Decode, pipe: Connection) -> None:
    waiting: list[Any] = []
    while True:
        while pipe.poll():
            word, *values = pipe.recv()
            if word == "end":
                return
            if word == "peer":
                kv.greet(*values)
            elif word == "serve":
                waiting += values[0]
        for request in waiting[:REQUESTS_AT_ONCE]:
            node.serve(request)
        busy = bool(waiting)
        del waiting[:REQUESTS_AT_ONCE]
        _turn(kv, node, pipe.send, 0.0 if busy else TURN_SECONDS)


def _turn(kv: KVRuntime, node: Prefill | Decode, say: Say, seconds: float) -> None:
    done = kv.poll()
    if done.fatal is not None:
        raise RuntimeError(f"{done.fatal.law}: {done.fatal.sentence}")
    node.turn(done)
    kv.take_effects()
    for word in node.said:
        say(word)
    for sentence in node.counts.wrong:
        say(("wrong", sentence))
    for sentence in done.troubles:
        say(("trouble", sentence))
    node.said, node.counts.wrong = [], []
    if seconds:
        kv.wait(seconds)


def _end(kv: KVRuntime, node: Prefill | Decode) -> dict[str, Any]:
    """Let everything end, and say what was counted and what is left."""
    until = monotonic() + HOME_SECONDS
    while node.decoding:
        node.end(node.decoding.popleft())
    said: list[tuple[Any, ...]] = []
    while (node.under_way() or kv.ledger.books.job_ids or kv.ledger.books.load_ids) and monotonic() < until:
        _turn(kv, node, said.append, TURN_SECONDS)
        while node.decoding:
            node.end(node.decoding.popleft())
    left = node.under_way()
    kv.fence()
    _turn(kv, node, said.append, 0.0)
    node.compare_all()
    said += [("wrong", sentence) for sentence in node.counts.wrong]
    node.counts.wrong = []
    books = kv.ledger.books
    counts = [sum(pool.counts[state] for pool in books.pools) for state in B]
    sentences = [*audit(kv.ledger), *(f"lease {lease} is open" for lease in books.leases), *_wrong(said)]
    if left:
        sentences.append(f"{left} requests and handoffs had not ended after {HOME_SECONDS:g} s")
    assert kv.handoffs is not None
    party = kv.handoffs.party
    if party.broken:
        sentences.append(f"the party broke: {party.broken}")
    return {
        **node.counts.as_dict(),
        "quarantined": counts[B.QUARANTINED],
        "leaked": sum(counts) - counts[B.FREE] - counts[B.CACHED] - counts[B.QUARANTINED],
        "sentences": sentences + kv.ledger.rest(),
        "messages": dict(party.counts),
        "longest_handoff": round(node.longest, 3),
        "rows_fired": {row: number for row, number in party.fired().items() if number},
    }


def _wrong(said: list[tuple[Any, ...]]) -> list[str]:
    return [sentence for word, sentence in said if word == "wrong"]
