"""What a request does, operation by operation, on the ledger and in the world; each answers with its scenario lines.

An operation that has to wait (a lookup that is pending, too few blocks) leaves the request where it is; a request that
has begun a load does nothing more until its verdict. What is not to be done (no block to load or seal) is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import NamedTuple

from kvstate.explore.allocator import own
from kvstate.explore.groups import group_of, lists, passed
from kvstate.explore.matter import LawBroken, LoadOut, Run, StepOut
from kvstate.explore.scopes import Request
from kvstate.explore.world import World, places
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Work
from kvstate.machines.verdicts import Closed, Grant, Hit, Started, Stored

DEADLINE = 2.0
"""Seconds that each load and job has in all."""
SEEK_FOR = 1.0
"""Seconds that a seek has."""


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
    first = free(scene, run) if verb == "preempt" else []
    answer = getattr(scene.ledger, verb)(run.lease)
    last = free(scene, run) if verb != "preempt" else []
    if isinstance(answer, Closed):
        run.over()
    return [*first, f"{verb} {request.name}", *last]


def free(scene: Scene, run: Run) -> Lines:
    """An engine that allocates by itself takes the blocks of a request back."""
    world = scene.world
    if not world.allocator.count:
        return []
    freed = world.allocator.give_back(scene.ledger, world.number(run), run.refs)
    run.refs = [None] * len(run.refs)
    return [f"engine frees {' '.join(f'{scene.names[ref.block]}@{ref.generation}' for ref in freed)}"] if freed else []


def take(scene: Scene, request: Request, run: Run) -> Lines:
    """Get a block for every place from an engine that allocates by itself."""
    run.refs = run.refs or [None] * len(request.keys)
    missing = [place for place in places(request) if run.refs[place] is None]
    world = scene.world
    blocks = world.allocator.free()[: len(missing)]
    if len(blocks) < len(missing):
        return []
    run.at += 1
    if not missing:
        return []
    refs = world.allocator.take(scene.ledger, world, world.number(run), blocks)
    for place, ref in zip(missing, refs, strict=False):
        run.refs[place] = ref
    return [f"engine gives {request.name} {_named(scene, refs)}"]


def steal(scene: Scene, request: Request, run: Run, block: int) -> Lines:
    """Get a block for the first place that has none, and one that another request has or a copy still needs."""
    run.refs = run.refs or [None] * len(request.keys)
    world = scene.world
    verb = "gives" if block in world.allocator.asked else "reuses"
    refs = world.allocator.steal(scene.ledger, world, world.number(run), block)
    run.refs[run.refs.index(None)] = next(iter(refs), None)
    return [f"engine {verb} {request.name} {scene.names[block]}"]


def lookup(scene: Scene, request: Request, run: Run) -> Lines:
    """Law L9: what is a hit holds the bytes of its key, or will; only what bytes went bad unnoticed may be junk."""
    groups = scene.ledger.config.groups
    keys = [key.encode() for key in request.keys]
    ledger, lease = scene.ledger, run.lease
    hit = ledger.lookup_groups(lease, lists(groups, request.keys)) if groups else ledger.lookup(lease, keys)
    if isinstance(hit, Hit) and not hit.pending:
        run.hit, run.at = hit, run.at + 1
        run.refs = [None] * len(request.keys)
        for number, (key, ref) in enumerate(zip(hit.keys, hit.blocks, strict=True)):
            if number not in hit.below:
                run.refs[keys.index(key)] = ref
        run.passed = passed(groups, request.keys, hit.tokens)
    return [" ".join(("lookup", request.name, *request.keys))]


def seek(scene: Scene, request: Request, run: Run) -> Lines:
    """Ask others for what the lookup missed."""
    ledger, keys = scene.ledger, [key.encode() for key in request.keys]
    run.at += 1
    until = ledger.books.now + SEEK_FOR
    if ledger.seek(run.lease, keys, pool=scene.world.others.pool(ledger), deadline=until):
        works = [effect for effect in ledger.books.effects if isinstance(effect, Work)]
        scene.world.others.sayings.asked(works, until, scene.world.ranks)
    return [f"seek {request.name} {' '.join(request.keys)} deadline={SEEK_FOR:g}"]


def allocate(scene: Scene, request: Request, run: Run) -> Lines:
    """Get a block for every place that has none."""
    run.refs = run.refs or [None] * len(request.keys)
    missing = [place for place in places(request) if run.refs[place] is None and place not in run.passed]
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
    wanted = [request.keys.index(hit.keys[number].decode()) for number in hit.below]
    into = [ref for place in wanted if (ref := run.refs[place]) is not None]
    started = scene.ledger.load(run.lease, hit, into, deadline=scene.ledger.books.now + DEADLINE)
    if isinstance(started, Started):
        lines = zip(wanted, into, strict=True)
        out = tuple((at, ref.block, request.keys[at]) for at, ref in lines)
        scene.world.loads[started.load] = LoadOut(out, request.keys)
        run.load = started.load
    return [f"load {request.name} into {_named(scene, into)} deadline={DEADLINE:g}"]


def compute(scene: Scene, request: Request, run: Run) -> Lines:
    """Compute what is missing in a step that is over at once, and seal it."""
    pairs = _open_blocks(scene, request, run)
    if not pairs:
        run.at += 1
        return []
    for ref, key in pairs:
        scene.world.put(ref.block, key)
    if scene.world.allocator.count:  # there it is sealed by being stored
        run.at += 1
        return [f"compute {request.name} {_paired(scene, pairs)}"]
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
    groups = scene.ledger.config.groups
    for group, listed in groupby(pairs, lambda pair: group_of(groups, pair[1])):
        refs, keys = zip(*listed, strict=True)
        scene.ledger.seal(run.lease, refs, [key.encode() for key in keys], group=group)
    return [f"seal {request.name} {_paired(scene, pairs)}"]


def store(scene: Scene, request: Request, run: Run) -> Lines:
    """Store every block that the request has."""
    pairs = [(ref, key) for ref, key in zip(run.refs, request.keys, strict=False) if ref is not None]
    refs, keys = [ref for ref, _ in pairs], None
    said = _named(scene, refs)
    if scene.world.allocator.count:  # also what was taken from it meanwhile: that has to be found out
        keys = [key.encode() for _, key in pairs]
        said = " ".join(f"{scene.names[ref.block]}@{ref.generation}={key}" for ref, key in pairs)
    run.at += 1
    if not refs:
        return []
    now = scene.ledger.books.now
    stored = scene.ledger.offload(run.lease, refs, deadline=now + DEADLINE, keys=keys)
    if isinstance(stored, Stored):
        scene.world.jobs.append(stored.job)
    return [f"offload {request.name} {said} deadline={DEADLINE:g}"]


def demote(scene: Scene, request: Request, run: Run) -> Lines:
    """Store what a lookup finds in the host pool on the tier below it, and give the hit back."""
    ledger, books, keys = scene.ledger, scene.ledger.books, [key.encode() for key in request.keys]
    hit = ledger.lookup(run.lease, keys)
    lines = [" ".join(("lookup", request.name, *request.keys))]
    if not isinstance(hit, Hit) or hit.pending:
        return lines
    run.at += 1
    if not hit:
        return lines
    last = len(books.pools) - 1
    refs = [hit.blocks[line] for line in hit.below if books.pool_of[hit.blocks[line].block] < last]
    if refs:
        stored = ledger.offload(run.lease, refs, pool=last, deadline=books.now + DEADLINE)
        if isinstance(stored, Stored):
            scene.world.jobs.append(stored.job)
        lines.append(f"offload {request.name} {_named(scene, refs)} to={books.pools[last].config.name} deadline=2")
    ledger.unpin(hit)
    return [*lines, f"unpin {request.name}"]


def finish(scene: Scene, request: Request, run: Run) -> Lines:
    """The request is done."""
    return close(scene, request, run, "finish")


OPERATIONS: dict[str, Operation] = {
    "lookup": lookup,
    "seek": seek,
    "allocate": allocate,
    "take": take,
    "load": load,
    "compute": compute,
    "step": step,
    "seal": seal,
    "store": store,
    "demote": demote,
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
    if scene.world.allocator.count:
        mine = own(request, run, scene.world)
        return [(ref, request.keys[place]) for place, ref in mine if place >= run.done]
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
