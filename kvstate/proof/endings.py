"""What is proved of a job or a batch and its parts, in the world of `kvstate.proof.owners`: laws L4 and L5."""

from __future__ import annotations

from kvstate.proof.owners import FLYING, LANDED, OWNERS, Move, Owners
from kvstate.proof.terms import Record, Step, Term, unproved
from kvstate.spec.model import Spec


def all_stopped(spec: Spec) -> list[str]:
    """L4: `left` is the number of parts that fly, an owner that has ended has none, and no part is refused by it.

    A part that does not fly any more never reaches its owner, so a late report settles no job and no batch.
    """
    return [found for machine in OWNERS for found in _stopped(Owners(spec, machine))]


def all_or_nothing(spec: Spec) -> list[str]:
    """L5: an owner publishes only when each part of its last attempt, of both phases, has landed and none flies, and
    not before it has launched any.

    It publishes at all, only jobs and batches do, and all blocks of one are published by one effect, over one relation.
    Includes what L4 says, on which it rests.
    """
    found = [f"{link.id}: a block is committed by a machine that is no job and no batch" for link in spec.couplings
             if (link.target, link.event) == ("block", "commit") and link.machine not in OWNERS]  # fmt: skip
    found += all_stopped(spec)
    return found or [fault for machine in OWNERS for fault in _whole(Owners(spec, machine))]


def _stopped(owners: Owners) -> list[str]:
    world = owners.before
    none = [world.flying == 0, *(world.state(part) != owners.part.number[FLYING] for part in (owners.p, owners.q))]
    lemmas = owners.lemmas(world)
    birth = Step(f"{owners.name}, birth", (owners.owner.born(world.owner), *owners.owner.bounds, *none,
                                           *_given(owners, world.owner)), tuple(lemmas))  # fmt: skip
    ended = owners.owner.is_in(world.owner.state, owners.ends)
    rest = Step(f"{owners.name}, at the end", (*(term for _, term in lemmas), *owners.counting(world), ended), (
        ("a part flies", world.state(owners.q) != owners.part.number[FLYING]),
        ("left is not 0", world.owner.env["left"] == 0),
    ))  # fmt: skip
    found = [*unproved(birth, []), *unproved(rest, [])]
    for move in owners.moves():
        found += unproved(_step(owners, move, [*move.owed, *(owners.lemmas(move.after) if move.whole else [])]), [])
    return found


def _given(owners: Owners, record: Record) -> list[Term]:
    """What whoever makes a record gives it: at least one part. `parts >= 1` is the invariant of both owners."""
    return [record.env[var.name] >= 1 for var in owners.owner.machine.vars if var.initial is None]


def _whole(owners: Owners) -> list[str]:
    z3 = owners.z3
    kept = owners.searched()
    everywhere = list(owners.owner.number)
    before = [term for part in (owners.p, owners.q)
              for name, term in owners.claims(owners.before, part, everywhere).items() if name in kept]  # fmt: skip
    found, publishes = [], False
    for move in owners.moves():
        owed: list[tuple[str, Term]] = []
        for world in move.commits:
            publishes = True
            landed = world.state(owners.q) == owners.part.number[LANDED]
            owed += [(f"publishes although a part of {effect} has not landed", z3.Implies(minted(owners.q), landed))
                     for effect, minted in world.minted.items()]  # fmt: skip
            owed += [("publishes while parts fly", world.flying == 0)]
            owed += [("publishes before anything was launched", world.begun)]
        if owed:
            found += unproved(_step(owners, move, owed), before)
    return found if publishes else [*found, f"{owners.name}: publishes nothing"]


def _step(owners: Owners, move: Move, owed: list[tuple[str, Term]]) -> Step:
    lemmas = [term for _, term in owners.lemmas(owners.before)]
    facts = [*owners.counting(owners.before), *owners.counting(move.after), *lemmas]
    return Step(f"{owners.name}, {move.name}", (*move.given, *facts), tuple(owed))
