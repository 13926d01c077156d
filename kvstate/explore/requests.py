"""What a request does, operation by operation, on the ledger and in the world; each answers with its scenario lines.

An operation that has to wait (a lookup that is pending, too few blocks) leaves the request where it is; a request that
has begun a load does nothing more until its verdict. What is not to be done (no block to load or seal) is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kvstate.explore.scopes import Request
from kvstate.explore.world import LawBroken, LoadOut, Run, StepOut, World, places
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef
from kvstate.machines.verdicts import Closed, Grant, Hit, Started, Stored

DEADLINE = 2.0
"""Seconds that each load and job has in all."""


class Scene(NamedTuple):
    """What an operation works on."""

    ledger: Ledger
    """Takes what is asked."""
    world: World
    """Is told what came of it."""
    names: tuple[str, ...]
    """The names of all blocks."""


Lines = list[str]
"""Commands of a scenario."""
Operation = Callable[[Scene, Request, Run], Lines]
"""Does one thing for a request and returns the commands that do the same."""


def open_(scene: Scene, request: Request, run: Run) -> Lines:
    """Begin the next life."""
    lease = scene.ledger.open("main")
    if isinstance(lease, int):
        run.lease, run.lives = lease, run.lives - 1
    return [f"open {request.name}"]


def close(scene: Scene, request: Request, run: Run, verb: str) -> Lines:
    """End the lease, with `finish`, `abort` or `preempt`."""
    answer = getattr(scene.ledger, verb)(run.lease)
    if isinstance(answer, Closed):
        run.lease, run.at, run.hit, run.refs, run.load, run.step = 0, 0, None, [], 0, 0
    return [f"{verb} {request.name}"]


def lookup(scene: Scene, request: Request, run: Run) -> Lines:
    """Law L9: what is a hit holds the bytes of its key, or will; only what bytes went bad unnoticed may be junk."""
    hit = scene.ledger.lookup(run.lease, [key.encode() for key in request.keys])
    if isinstance(hit, Hit) and not hit.pending:
        run.hit, run.at = hit, run.at + 1
        run.refs = [None] * len(request.keys)
        for place, ref in enumerate(hit.blocks):
            if place not in hit.below:
                run.refs[place] = ref
    return [" ".join(("lookup", request.name, *request.keys))]


def allocate(scene: Scene, request: Request, run: Run) -> Lines:
    """Get a block for every place that has none."""
    run.refs = run.refs or [None] * len(request.keys)
    missing = [place for place in places(request) if run.refs[place] is None]
    if not missing:
        run.at += 1
        return []
    grant = scene.ledger.allocate(run.lease, len(missing))
    if isinstance(grant, Grant):
        scene.world.hand(grant.blocks.blocks)
        for place, ref in zip(missing, grant.blocks, strict=True):
            run.refs[place] = ref
        run.at += 1
    return [f"allocate {request.name} {len(missing)}"]


def load(scene: Scene, request: Request, run: Run) -> Lines:
    """Load what of the hit lies below."""
    hit, run.hit, run.at = run.hit, None, run.at + 1
    if hit is None or not hit.below:
        return []
    into = [ref for place in hit.below if (ref := run.refs[place]) is not None]
    started = scene.ledger.load(run.lease, hit, into, deadline=scene.ledger.books.now + DEADLINE)
    if isinstance(started, Started):
        lines = zip(hit.below, into, strict=True)
        scene.world.loads[started.load] = LoadOut(tuple((at, ref.block, request.keys[at]) for at, ref in lines))
        run.load = started.load
    return [f"load {request.name} into {_named(scene, into)} deadline={DEADLINE:g}"]


def compute(scene: Scene, request: Request, run: Run) -> Lines:
    """Compute what is missing in a step that is over at once, and seal it."""
    pairs = _open_blocks(scene, request, run)
    if not pairs:
        run.at += 1
        return []
    for ref, key in pairs:
        scene.world.contents[ref.block] = key
    return [f"compute {request.name} {_paired(scene, pairs)}", *seal(scene, request, run)]


def step(scene: Scene, request: Request, run: Run) -> Lines:
    """Send a step down that computes what is missing."""
    world = scene.world
    pairs = _open_blocks(scene, request, run)
    number = world.last_step + 1
    run.at += 1
    if not pairs or not scene.ledger.step_dispatched(number, [run.lease]):
        return []
    world.last_step = run.step = number
    world.steps[number] = StepOut(tuple((ref.block, world.tenants[ref.block], key) for ref, key in pairs))
    return [f"step {number} {request.name} {_paired(scene, pairs)}"]


def seal(scene: Scene, request: Request, run: Run) -> Lines:
    """Seal the blocks that were computed, or that a step under way computes."""
    pairs = _open_blocks(scene, request, run)
    run.at += 1
    if not pairs:
        return []
    scene.ledger.seal(run.lease, [ref for ref, _ in pairs], [key.encode() for _, key in pairs])
    return [f"seal {request.name} {_paired(scene, pairs)}"]


def store(scene: Scene, request: Request, run: Run) -> Lines:
    """Store every block that the request has."""
    refs = [ref for ref in run.refs if ref is not None]
    run.at += 1
    if not refs:
        return []
    now = scene.ledger.books.now
    stored = scene.ledger.offload(run.lease, refs, deadline=now + DEADLINE)
    if isinstance(stored, Stored):
        scene.world.jobs.append(stored.job)
    return [f"offload {request.name} {_named(scene, refs)} deadline={DEADLINE:g}"]


def finish(scene: Scene, request: Request, run: Run) -> Lines:
    """The request is done."""
    return close(scene, request, run, "finish")


OPERATIONS: dict[str, Operation] = {
    "lookup": lookup,
    "allocate": allocate,
    "load": load,
    "compute": compute,
    "step": step,
    "seal": seal,
    "store": store,
    "finish": finish,
}
"""By the word that stands in a program."""


def check_known(scope_programs: list[Request]) -> None:
    """Errors: `LawBroken` for a word that is no operation, so that a scope with a slip says so at once."""
    for request in scope_programs:
        for word in request.program:
            if word not in OPERATIONS:
                raise LawBroken(f"{request.name} is to {word!r}, and there is no such operation")


def _open_blocks(scene: Scene, request: Request, run: Run) -> list[tuple[BlockRef, str]]:
    """The blocks of the request that the engine may write, with their keys."""
    books = scene.ledger.books
    lease = books.leases.get(run.lease)
    if lease is None:
        return []
    state_of = scene.ledger.core.ports.block.state_of
    return [
        (ref, key)
        for ref, key in zip(run.refs, request.keys, strict=True)
        if ref is not None and books.owns(lease, ref.block) and state_of(ref.block) == "open"
    ]


def _named(scene: Scene, refs: list[BlockRef]) -> str:
    return " ".join(scene.names[ref.block] for ref in refs)


def _paired(scene: Scene, pairs: list[tuple[BlockRef, str]]) -> str:
    return " ".join(f"{scene.names[ref.block]}={key}" for ref, key in pairs)
