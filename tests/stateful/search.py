"""Walks in numbers: the worlds by name, one walk from a seed, a failure made short, and the search for a seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.stateful.base import SCOPES, Scope
from tests.stateful.durable_world import DURABLE_SCOPES, DurableWorld
from tests.stateful.foreign_world import FOREIGN_SCOPES, ForeignWorld
from tests.stateful.groups_world import GROUPS_SCOPES, GroupsWorld
from tests.stateful.ranks_world import RANK_SCOPES, RanksWorld
from tests.stateful.runtime_world import RUNTIME_SCOPES, RuntimeWorld
from tests.stateful.shared_world import SHARED_SCOPES, SharedWorld
from tests.stateful.threads_world import ThreadsWorld
from tests.stateful.world import World

WORLDS: dict[str, tuple[type[World], dict[str, Scope]]] = {
    "ledger": (World, SCOPES),
    "runtime": (RuntimeWorld, RUNTIME_SCOPES),
    "threads": (ThreadsWorld, RUNTIME_SCOPES),
    "groups": (GroupsWorld, GROUPS_SCOPES),
    "foreign": (ForeignWorld, FOREIGN_SCOPES),
    "durable": (DurableWorld, DURABLE_SCOPES),
    "shared": (SharedWorld, SHARED_SCOPES),
    "ranks": (RanksWorld, RANK_SCOPES),
    "ranks on threads": (ThreadsWorld, RANK_SCOPES),
}


class Failed(NamedTuple):
    """A walk that broke a law."""

    law: str
    sentence: str
    walk: list[str]


def walked(
    kind: str, scope: str, mix: str, seed: int, rounds: int = 6, moves: Sequence[str] = (), **options: Any
) -> World | Failed:
    """One walk to its rest: rounds of a mix, or, where moves are named, these and no others."""
    make, scopes = WORLDS[kind]
    world = make(seed, scopes[scope], **options)

    def go() -> None:
        for name in moves:
            world.move(name)
        for _ in range(0 if moves else rounds):
            world.round(25, mix)
            world.clock()
        world.rest()

    return _watched(world, go)


def _watched(world: World, go: Any) -> World | Failed:
    try:
        go()
    except AssertionError as broken:
        sentence = str(broken)
        law = sentence.partition(":")[0]
        return Failed(law if law[:1] == "L" and "." in law else "unnamed", sentence, world.log)
    finally:
        world.close()
    return world


def replayed(kind: str, scope: str, walk: Iterable[str], **options: Any) -> World | Failed:
    """A walk that was written down."""
    make, scopes = WORLDS[kind]
    world = make((), scopes[scope], **options)
    return _watched(world, lambda: world.play(walk))


def read(path: Path) -> tuple[str, str, list[str]]:
    """A walk that was kept: its world, its scope, its moves. Lines that begin with # say what it is about."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    kind, scope = lines[0].split(" / ")
    return kind, scope, lines[1:]


def shortest(kind: str, scope: str, failed: Failed, **options: Any) -> Failed:
    """The same law, broken in fewer moves: what can be left out is, halves first."""
    size = len(failed.walk) // 2
    while size:
        at = 0
        while at < len(failed.walk):
            cut = [*failed.walk[:at], *failed.walk[at + size :]]
            shorter = replayed(kind, scope, cut, **options)
            if isinstance(shorter, Failed) and shorter.law == failed.law:
                failed = shorter
            else:
                at += size
        size //= 2
    return failed


def first_failure(
    kind: str, scope: str, mix: str, seeds: Sequence[int] | Iterable[int], named: str = "", **options: Any
) -> tuple[int, Failed] | None:
    """The first of these seeds whose walk breaks a law, the one of that name if there is one."""
    for seed in seeds:
        failed = walked(kind, scope, mix, seed, **options)
        if isinstance(failed, Failed) and named in ("", failed.law):
            return seed, failed
    return None
