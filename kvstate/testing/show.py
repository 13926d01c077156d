"""The commands that only look: bytes, states, links, counters, and why a block is what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvstate.machines.records import Part
from kvstate.testing.commands import Words, command
from kvstate.testing.stage import Play, Stage


@command("bytes BLOCK...", fewest=1)
def bytes_(stage: Stage, words: Words) -> list[str]:
    """What the blocks physically hold."""
    physics, names = stage.play.physics, stage.play.names
    return [f"{word} holds {physics.all_of(names.find_block(word))}" for word in words.rest()]


@command("show WHAT...", fewest=1)
def show(stage: Stage, words: Words) -> list[str]:
    """States and links: blocks, free, keys, parts, jobs, loads, leases, counters, rest, or single blocks by name."""
    play, lines = stage.play, []
    for word in words.rest():
        view = VIEWS.get(word)
        if view is None and word not in play.names.blocks:
            raise words.wrong(f"{word} can't be shown; there are {', '.join(VIEWS)}, and the blocks")
        lines += list(view(play)) if view else [_block(play, play.names.find_block(word))]
    return lines


def _block(play: Play, block: int) -> str:
    books, ports = play.ledger.books, play.ledger.core.ports
    port = ports.foreign if block < books.engine.count else ports.block
    counts = [
        f", {var}" if var in ("published", "stained") else f", {var} {value}"
        for var in port.table.VARS
        if var != "generation" and (value := books.column(port.name, var)[block])
    ]
    return f"{play.names.ref(books.ref(block))} is {port.state_of(block)}{''.join(counts)}"


def _blocks(play: Play) -> Iterator[str]:
    return (_block(play, block) for block in range(len(play.names.blocks)))


def _free(play: Play) -> Iterator[str]:
    for pool in play.ledger.books.pools:
        yield f"free in {pool.config.name}: {' '.join(play.names.block(block) for block in reversed(pool.free)) or '-'}"


def _keys(play: Play) -> Iterator[str]:
    keys, port = play.ledger.books.keys, play.ledger.core.ports.key
    lines = []
    for slot, (pool, space, key) in keys.names():
        where = play.ledger.books.pools[pool].config.name
        block = f", names {play.names.now([keys.blocks[slot]])}" if keys.blocks[slot] >= 0 else ""
        lines.append(f"{play.names.key(space, key)} in {where} is {port.state_of(slot)}{block}")
    yield from sorted(lines) or ["no keys"]


def _owner(play: Play, part: Part) -> str:
    if part.owner is None:
        return ""
    machine, slot = part.owner
    job = machine == "offload"
    return f" for {play.names.job(play.ledger.books.jobs[slot].id) if job else play.names.batch(slot)}"


def _parts(play: Play) -> Iterator[str]:
    parts = play.ledger.books.parts.live()
    for part in parts:
        state = play.ledger.core.ports.part.state_of(part.slot)
        yield f"{play.names.token(part.token)} ({part.kind}{_owner(play, part)}) is {state}"
    if not parts:
        yield "no parts"


def _jobs(play: Play) -> Iterator[str]:
    jobs = play.ledger.books.job_ids
    for job, slot in jobs.items():
        yield f"{play.names.job(job)} is {play.ledger.core.ports.job.state_of(slot)}"
    if not jobs:
        yield "no jobs"


def _loads(play: Play) -> Iterator[str]:
    books, ports = play.ledger.books, play.ledger.core.ports
    for load, slot in books.load_ids.items():
        batches = ", ".join(
            f"{play.names.batch(batch)} {ports.batch.state_of(batch)}" for batch in books.loads[slot].batches
        )
        yield f"{play.names.load(load)} is {ports.load.state_of(slot)}: {batches}"
    if not books.load_ids:
        yield "no loads"


def _leases(play: Play) -> Iterator[str]:
    leases, names = play.ledger.books.leases, play.names
    for number, lease in leases.items():
        owned = list(play.ledger.books.owned(lease))
        yield f"{names.lease(number)} owns {names.now(owned)}, pins {names.now(list(lease.pins))}"
    if not leases:
        yield "no leases"


def _counters(play: Play) -> Iterator[str]:
    books = play.ledger.books
    yield f"stale {books.stale}, unknown {books.unknown}, retries {books.retries}"


def _rest(play: Play) -> Iterator[str]:
    yield from map(play.names.text, play.ledger.rest() or ["at rest"])


VIEWS: dict[str, Callable[[Play], Iterator[str]]] = {
    "blocks": _blocks,
    "free": _free,
    "keys": _keys,
    "parts": _parts,
    "jobs": _jobs,
    "loads": _loads,
    "leases": _leases,
    "counters": _counters,
    "rest": _rest,
}
"""What the command `show` can show, and how."""


@command("explain BLOCK...", fewest=1)
def explain(stage: Stage, words: Words) -> list[str]:
    """Why a block is in its state: who owns it, and what still touches it."""
    play, lines = stage.play, []
    for word in words.rest():
        block = play.names.find_block(word)
        reasons = list(_reasons(play, block)) or ["nobody owns or touches it"]
        lines.append(f"{_block(play, block)}: {'; '.join(reasons)}")
    return lines


def _reasons(play: Play, block: int) -> Iterator[str]:
    books, names = play.ledger.books, play.names
    for number, lease in books.leases.items():
        if books.owns(lease, block):
            yield f"owned by {names.lease(number)}"
        if block in lease.pins:
            yield f"pinned by {names.lease(number)}"
    for job in books.jobs.live():
        if block in job.srcs:
            yield f"held by {names.job(job.id)}"
        if block in job.dsts:
            yield f"owned by {names.job(job.id)}"
    for part in books.parts.live():
        state = play.ledger.core.ports.part.state_of(part.slot)
        if state in ("flying", "lost") and block in (*part.reads, *part.writes):
            does = "written" if block in part.writes else "read"
            age = f"{state} for {play.now - part.since:g} s" if state == "lost" else state
            yield f"{does} by {names.token(part.token)} ({part.kind}{_owner(play, part)}, {age})"
    slot = books.keys.block_key[block]
    if slot >= 0:
        _, space, key = books.keys.name(slot)
        yield f"named {names.key(space, key)}"
