"""What a ledger remembers: a snapshot is all of it, and its age is none of it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kvstate.machines.audit import audit
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Report, Work
from kvstate.machines.policy import LRU
from kvstate.machines.verdicts import Grant
from tests.long import long_but
from tests.stateful.world import SCOPES, World

INPUTS = (
    "open lookup unpin allocate seal release finish abort preempt offload load cancel step_dispatched step_retired "
    "hold report fenced tick reset drain shut"
).split()

# -- a snapshot is all of it -------------------------------------------------------------------------------------------


class Tape:
    """Writes down every input of a ledger, with the answer, what was sent, and what was told after it."""

    def __init__(self, ledger: Ledger) -> None:
        self.inputs: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.ledger = ledger
        for name in INPUTS:
            setattr(ledger, name, self.through(name, getattr(ledger, name)))

    def through(self, name: str, method: Any) -> Any:
        def recorded(*args: Any, **kwargs: Any) -> Any:
            self.inputs.append((name, args, kwargs))
            return method(*args, **kwargs)

        return recorded

    def stop(self) -> None:
        for name in INPUTS:
            delattr(self.ledger, name)


def replayed(ledger: Ledger, inputs: list[tuple[str, tuple[Any, ...], dict[str, Any]]]) -> list[Any]:
    """The same inputs again: every answer, effect and verdict, and the canonical form after each."""
    seen = []
    for name, args, kwargs in inputs:
        answer = getattr(ledger, name)(*args, **kwargs)
        seen.append((name, answer, ledger.take_effects(), ledger.take_verdicts(), ledger.canonical_hash()))
    return [*seen, ledger.fired(), ledger.books.stale, ledger.books.unknown, audit(ledger)]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("seed", long_but([0], range(3)))
def test_from_a_snapshot_the_same_inputs_have_the_same_answers(scope: str, seed: int) -> None:
    """Any number of times, in this ledger or another; what happens afterwards does not reach into the snapshot."""
    world = World(seed, SCOPES[scope])
    world.walk(120)
    ledger = world.ledger
    snapshot, at = ledger.snapshot(), ledger.canonical_hash()
    tape = Tape(ledger)
    world.walk(80)
    tape.stop()
    end = (ledger.canonical_hash(), ledger.fired(), ledger.books.stale)
    other = Ledger(ledger.config)
    runs = []
    for player in (ledger, other, ledger):
        player.restore(snapshot)
        assert player.canonical_hash() == at
        runs.append(replayed(player, tape.inputs))
    assert runs[0] == runs[1] == runs[2]
    assert end == (ledger.canonical_hash(), ledger.fired(), ledger.books.stale)


def test_sinks_stay_attached_through_a_restore() -> None:
    world = World(1)
    world.walk(50)
    heard: list[str] = []
    for port in world.ledger.core.ports.ports.values():
        port.sink = lambda machine, slots, row, before, after: heard.extend([row] * len(slots))
    snapshot = world.ledger.snapshot()
    before = world.ledger.fired()
    world.walk(50)
    world.ledger.restore(snapshot)
    assert world.ledger.fired() == before
    heard.clear()
    assert isinstance(world.ledger.open("a"), int)
    assert heard == ["S01"]


# -- its age is none of it ---------------------------------------------------------------------------------------------


class Quarters(World):
    """Counts time in quarters, so that a sum is the same wherever it begins; no process ends."""

    def tick(self) -> None:
        self.now += self.dice.one((0.25, 0.25, 1.0, 2.5))
        self.ledger.tick(self.now)

    def restart(self) -> None:
        """A ledger that was just born is neither young nor old."""

    def shut_down(self) -> None:
        """Nor is one that is shut and born again."""


def grow_old(world: World, rounds: int) -> None:
    """Let the ledger live, and bring it to rest with nothing cached and its free lists in one order."""
    ledger, pools = world.ledger, world.ledger.config.pools
    for number in range(rounds):
        one_life(ledger, number, timeout=number % 3 == 2)
        ledger.tick(ledger.books.now + 128.0)
        ledger.reset()
    for number in range(pools[1].blocks):
        one_life(ledger, 1000 + number, timeout=False)
    ledger.reset()
    lease = ledger.open("z")
    assert isinstance(lease, int)
    grant = ledger.allocate(lease, pools[0].blocks)
    assert isinstance(grant, Grant)
    for ref in sorted(grant.blocks, reverse=True):
        assert ledger.release(lease, [ref])
    ledger.finish(lease)
    ledger.take_verdicts()
    assert ledger.rest() == []
    world.now, world.step, world.news = ledger.books.now, ledger.books.last_step, []


def one_life(ledger: Ledger, number: int, *, timeout: bool) -> None:
    """A request that computes one block and stores it; now and then its copy is lost and then fenced."""
    lease = ledger.open("old")
    assert isinstance(lease, int)
    grant = ledger.allocate(lease, 1)
    assert isinstance(grant, Grant)
    step = ledger.books.last_step + 3
    ledger.step_dispatched(step, [lease])
    ledger.seal(lease, grant.blocks, [b"old%d" % number])
    ledger.step_retired(step)
    ledger.offload(lease, grant.blocks)
    ledger.finish(lease)
    while works := [effect for effect in ledger.take_effects() if isinstance(effect, Work)]:
        for work in works:
            ledger.report(Report(work.token, "timeout" if timeout else "done"))
    for rank in range(ledger.config.ranks):
        ledger.fenced(rank, "cpu", ledger.books.serial)
    ledger.take_effects()


@pytest.mark.parametrize("scope", long_but(list(SCOPES)[::3], SCOPES))
@pytest.mark.parametrize("seed", long_but([0], range(3)))
def test_a_young_and_an_old_ledger_behave_alike(scope: str, seed: int) -> None:
    """Other ids, tokens, generations, slots, epochs, steps and times; the same canonical form, and the same future.

    Of LRU: what the default policy has learnt from the traffic before is not forgotten in a reset.
    """
    worlds = [Quarters(seed, SCOPES[scope], policy=LRU) for _ in range(2)]
    for world, rounds in zip(worlds, (0, 7), strict=True):
        grow_old(world, rounds)
    young, old = worlds
    assert young.ledger.books.serial < old.ledger.books.serial
    assert young.now < old.now
    names, weights = zip(*World.moves("loads").items(), strict=True)
    moves = Random(seed).choices(names, weights, k=300)
    for name in moves:
        for world in worlds:
            world.move(name)
        assert young.ledger.canonical_hash() == old.ledger.canonical_hash(), name
    assert len(young.told) == len(old.told) > 0
    for world in worlds:
        world.rest()
