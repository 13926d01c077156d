"""In a sentence: who holds this block, job, load or lease, since when, and what would free it."""

from __future__ import annotations

from collections.abc import Iterator

from kvstate.machines.books import Books
from kvstate.machines.keybook import NONE
from kvstate.machines.records import Batch, Job, Load, Part
from kvstate.machines.tables.block import State as B
from kvstate.machines.tables.foreign import State as F
from kvstate.machines.tables.part import State as P

FREED_BY = {
    B.FREE: "it can be had by whoever asks next",
    B.OPEN: "it is free when its lease closes or releases it",
    B.LOADING: "it is open or active again when what fills it ends",
    B.ACTIVE: "it is cached or free when its last owner lets go of it",
    B.CACHED: "it is free when the policy evicts it or its key is dropped, and nobody reads it then",
    B.DRAINING: "it is free when the last of these has reported, or a fence proves them over",
    B.QUARANTINED: "nobody is expected to report any more: it is free by a late report or a fence alone",
}
"""For each state of a block: what it takes to be free."""


FOREIGN_BY = {
    F.OUTSIDE: "it is free in the engine, as far as that has told",
    F.OWNED: "the engine has given it to a request, and frees it",
    F.LOADING: "it is the engine's request's again when the load ends",
    F.HELD: "the engine keeps it for us until the last of these has reported, or a fence proves them over",
}
"""The same for each state of a block that the engine allocates."""


def explain(books: Books, block: int | None, work: int | None, lease: int | None) -> str:
    """The sentence about the first of these that is given; of what does not exist, that it does not."""
    try:
        if block is not None:
            return explain_block(books, block)
        if work is not None:
            return explain_work(books, work)
        return explain_lease(books, -1 if lease is None else lease)
    except LookupError as unknown:
        return f"{unknown.args[0]}."
    except TypeError:
        return "what is to be explained is no number."


def explain_block(books: Books, block: int) -> str:
    """Errors: `LookupError` if there is no such block."""
    if not 0 <= block < len(books.generation):
        raise LookupError(f"there is no block {block}; there are {len(books.generation)}, numbered from 0")
    state: B | F = B(books.block_state[block])
    if block < books.engine.count:
        state = F(books.engine.state[block])
    pool = books.pools[books.pool_of[block]].config.name
    slot = books.keys.block_key[block]
    named = "" if slot == NONE else f", named by key {books.keys.name(slot)[2].hex()}{_of_group(books, slot)}"
    holders = [*_owners(books, block), *_touchers(books, block)]
    held = f": {', '.join(holders)}" if holders else ""
    since = f" {_ago(books, books.held_since[block])}" if block in books.held_since else ""
    head = f"block {block} ({pool}, gen {books.ref(block).generation}{named}) is {state.name.lower()}{since}"
    return f"{head}{held}; {FREED_BY[state] if isinstance(state, B) else FOREIGN_BY[state]}."


def _of_group(books: Books, slot: int) -> str:
    """The group of the key, where there are groups: its key space begins with the group's name."""
    space = books.keys.name(slot).namespace
    return f" of group {space.partition('@')[0]}" if books.config.groups else ""


def _ago(books: Books, since: float) -> str:
    return f"for {books.now - since:.3g} s"


def _owners(books: Books, block: int) -> Iterator[str]:
    for lease in books.leases.values():
        if books.owns(lease, block):
            yield f"owned by lease {lease.id}, open {_ago(books, lease.since)}"
        if block in lease.pins:
            yield f"pinned by lease {lease.id}, open {_ago(books, lease.since)}"
    for job in books.jobs.live():
        if block in job.dsts:
            yield f"filled by job {job.id} {_ago(books, job.since)}"
        if block in job.srcs:
            yield f"held by job {job.id} {_ago(books, job.since)}"


def _touchers(books: Books, block: int) -> Iterator[str]:
    for part in books.parts.live():
        if books.parts_state[part.slot] in (P.FLYING, P.LOST):
            verb = "written" if block in part.writes else "read" if block in part.reads else ""
            if verb:
                yield f"{verb} by {describe_part(books, part)}"


def describe_part(books: Books, part: Part) -> str:
    """A part as one names it in a sentence."""
    state = books.parts.table.STATES[books.parts_state[part.slot]]
    attempt = f" attempt {part.attempt}" if part.attempt > 1 else ""
    begun = f"begun {books.now - part.since:.3g} s ago"
    return f"{part.kind.value} part {part.token.serial}{_of(books, part)}{attempt} ({state}, {begun})"


def _of(books: Books, part: Part) -> str:
    if part.owner is None:
        return ""
    machine, slot = part.owner
    if machine == "offload":
        return f" of job {books.jobs[slot].id}"
    batch = books.batches[slot]
    return f" of load {books.loads[batch.load].id} batch {batch.index}"


def explain_work(books: Books, number: int) -> str:
    """A job or a load, by its number. Errors: `LookupError` if neither is under way under that number."""
    if number in books.job_ids:
        return _job(books, books.jobs[books.job_ids[number]])
    if number in books.load_ids:
        return _load(books, books.loads[books.load_ids[number]])
    raise LookupError(f"{number} is no job and no load that is under way; what has ended was told in a verdict")


def _waits_for(books: Books, owner: Job | Batch) -> str:
    flying = [books.parts[slot] for slot in owner.parts if books.parts_state[slot] == P.FLYING]
    return ", ".join(describe_part(books, part) for part in flying) or "no part"


def _job(books: Books, job: Job) -> str:
    state = books.jobs.table.STATES[books.column("offload", "state")[job.slot]]
    pool = books.pools[job.pool].config.name
    attempt = books.column("offload", "attempt")[job.slot]
    return (
        f"job {job.id} of lease {job.lease} stores {len(job.keys)} blocks in {pool} and is {state} "
        f"{_ago(books, job.since)} (attempt {attempt} of {books.config.attempts}); it waits for "
        f"{_waits_for(books, job)}, and ends at the latest {books.config.grace:g} s after its deadline in "
        f"{job.deadline - books.now:.3g} s."
    )


def _load(books: Books, load: Load) -> str:
    state = books.loads.table.STATES[books.column("load", "state")[load.slot]]
    states = books.batches.table.STATES
    column = books.column("transfer", "state")
    batches = [books.batches[slot] for slot in load.live]
    waits = "; ".join(
        f"batch {batch.index} is {states[column[batch.slot]]} and waits for {_waits_for(books, batch)}"
        for batch in batches
    )
    return (
        f"load {load.id} of lease {load.lease} brings {len(load.positions)} blocks and is {state} "
        f"{_ago(books, load.since)}: {load.turn} of {len(load.batches)} batches are committed; "
        f"{waits}; its deadline is in {load.deadline - books.now:.3g} s."
    )


def explain_lease(books: Books, number: int) -> str:
    """Errors: `LookupError` if the lease is not open."""
    lease = books.leases.get(number)
    if lease is None:
        raise LookupError(f"lease {number} is not open; a request that is admitted again gets another lease")
    loads = ", ".join(str(books.loads[slot].id) for slot in lease.loads) or "none"
    steps = ", ".join(str(step) for step, slot in books.steps.items() if slot in lease.steps) or "none"
    old = "" if lease.epoch == books.epoch else ", from before a reset"
    return (
        f"lease {lease.id} in namespace {lease.namespace} is open {_ago(books, lease.since)}{old}: it owns "
        f"{len(books.owned(lease))} device blocks, pins {len(lease.pins)} below, loads under way: {loads}, "
        f"out on steps: {steps}; finish, abort or preempt gives all of it back."
    )
