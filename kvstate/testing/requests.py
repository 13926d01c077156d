"""The commands that are requests of a scheduler: leases, blocks, offloads, loads, steps.

Errors: each raises `Mistake` for words that name nothing, and for what no scheduler could do.
"""

from __future__ import annotations

from itertools import groupby

from kvstate.machines.groups import lines_of
from kvstate.machines.messages import Kind, Work
from kvstate.machines.verdicts import Closed, Grant, Hit, Refusal, Short, Started, Stored
from kvstate.testing.commands import Words, command
from kvstate.testing.groups import passed
from kvstate.testing.matter import Bytes, Step
from kvstate.testing.names import COMMON, Mistake
from kvstate.testing.stage import Line, Play, Stage


def _counts(answer: Closed | Short) -> str:
    return ", ".join(f"{value} {field}" for field, value in answer._asdict().items())


# -- leases ------------------------------------------------------------------------------------------------------------


@command("open REQUEST... [space=TENANT]", options="space", fewest=1)
def open_(stage: Stage, words: Words) -> list[str]:
    """Begin the next life of each request, in a namespace."""
    play, space, lines = stage.play, words.options.get("space", COMMON), []
    for request in words.rest():
        lease = play.ledger.open(space)
        if isinstance(lease, Refusal):
            lines.append(play.refused(lease))
        else:
            lines.append(f"{play.names.opened(lease, request, space)} is open")
    return lines


@command("lookup REQUEST KEY...", fewest=2)
def lookup(stage: Stage, words: Words) -> list[str]:
    """Find and pin the longest prefix of the keys that is cached; of a key with a group, `slide:K1`, in that group."""
    play = stage.play
    lease = play.names.find_lease(words.take())
    named = [(play.names.find_group(word), word.encode()) for word in words.rest()]
    groups = range(len(play.ledger.config.groups))
    lists = [[key for of, key in named if of == group] for group in groups]
    hit = play.ledger.lookup_groups(lease, lists) if groups else play.ledger.lookup(lease, [key for _, key in named])
    if isinstance(hit, Refusal):
        return [play.refused(hit)]
    who = play.names.lease(lease)
    if hit.pending:
        sought = any(space in play.ledger.books.seeks.sought for space in play.ledger.core.spaces(_space(play, lease)))
        return [f"pending for {who}: {'it is sought' if sought else 'another load brings it'}"]
    play.hits[lease] = hit
    if not hit:
        return [f"{who} misses"]
    found = ", ".join(f"{key.decode()} in {play.names.ref(ref)}" for key, ref in zip(hit.keys, hit.blocks, strict=True))
    below = " ".join(hit.keys[place].decode() for place in hit.below)
    return [
        f"{who} hits {found}: {hit.tokens} tokens" + passed(play.names, hit) + (f"; to load: {below}" if below else ""),
        *play.found(lease, hit),
    ]


def _space(play: Play, lease: int) -> str:
    return play.ledger.books.leases[lease].namespace


def _hit(play: Play, lease: int) -> Hit:
    if lease not in play.hits:
        raise Mistake(f"{play.names.lease(lease)} has no hit; look one up first")
    return play.hits[lease]


@command("unpin REQUEST", fewest=1, most=1)
def unpin(stage: Stage, words: Words) -> list[str]:
    """Give the last hit of the request back."""
    play = stage.play
    lease = play.names.find_lease(words.take())
    answer = play.ledger.unpin(_hit(play, lease))
    return [play.refused(answer) if isinstance(answer, Refusal) else f"{play.names.lease(lease)} gives its hit back"]


@command("allocate REQUEST COUNT", fewest=2, most=2)
def allocate(stage: Stage, words: Words) -> list[str]:
    """Ask for so many device blocks."""
    play = stage.play
    lease = play.names.find_lease(words.take())
    answer = play.ledger.allocate(lease, words.number(words.take()))
    if isinstance(answer, Grant):
        play.physics.handed(ref.block for ref in answer.blocks)
        return [f"{play.names.lease(lease)} gets {play.names.refs(answer.blocks)}"]
    return [play.refused(answer) if isinstance(answer, Refusal) else f"short: {_counts(answer)}"]


@command("compute REQUEST BLOCK=KEY...", fewest=2)
def compute(stage: Stage, words: Words) -> list[str]:
    """The engine computes these bytes into open blocks of the request, in a step that is over at once."""
    play, lines = stage.play, []
    lease = play.names.find_lease(words.take())
    life = play.names.leases[lease]
    for name, key in words.pairs():
        if _may_write(play, lease, play.names.find_block(name)):
            play.physics.put(play.names.find_block(name), Bytes(life.space, key, str(life)))
            lines.append(f"{name} holds {key}{'' if life.space == COMMON else f' of {life.space}'} by {life}")
        else:
            lines.append(f"{life} does not own {name} as an open block, so it writes nothing")
    return lines


def _may_write(play: Play, lease: int, block: int) -> bool:
    """An engine writes only where the ledger says that it may: in open blocks of the request."""
    if block < play.ledger.books.engine.count:
        return play.engine_gave.get(block) == lease
    held = play.ledger.books.leases.get(lease)
    return (
        held is not None
        and play.ledger.books.owns(held, block)
        and play.ledger.core.ports.block.state_of(block) == "open"
    )


@command("seal REQUEST BLOCK=KEY...", fewest=2)
def seal(stage: Stage, words: Words) -> list[str]:
    """These blocks are full: publish each under its key."""
    play = stage.play
    lease = play.names.find_lease(words.take())
    pairs = words.pairs()
    lines: list[str] = []
    for group, listed in groupby(pairs, lambda pair: play.names.find_group(pair[1])):
        refs, keys = zip(*((play.names.find_ref(name), key) for name, key in listed), strict=True)
        answer = play.ledger.seal(lease, refs, [key.encode() for key in keys], group=group)
        if isinstance(answer, Refusal):
            return [*lines, play.refused(answer)]
        lines += [
            f"{play.names.ref(ref)} is published as {key}" if published else f"{play.names.ref(ref)} stays private"
            for ref, key, published in zip(refs, keys, answer, strict=True)
        ]
    return lines


@command("release REQUEST BLOCK...", fewest=2)
def release(stage: Stage, words: Words) -> list[str]:
    """Give some blocks back; the request lives on."""
    play = stage.play
    lease = play.names.find_lease(words.take())
    answer = play.ledger.release(lease, [play.names.find_ref(word) for word in words.rest()])
    return [play.refused(answer) if isinstance(answer, Refusal) else f"given back: {_counts(answer)}"]


def _close(stage: Stage, words: Words, verb: str) -> list[str]:
    play = stage.play
    lease = play.names.find_lease(words.take())
    answer = getattr(play.ledger, verb)(lease)
    if isinstance(answer, Refusal):
        return [play.refused(answer)]
    return [f"{play.names.lease(lease)} is closed: {_counts(answer)}"]


@command("finish REQUEST", fewest=1, most=1)
def finish(stage: Stage, words: Words) -> list[str]:
    """The request is done."""
    return _close(stage, words, "finish")


@command("abort REQUEST", fewest=1, most=1)
def abort(stage: Stage, words: Words) -> list[str]:
    """The request is no longer wanted."""
    return _close(stage, words, "abort")


@command("preempt REQUEST", fewest=1, most=1)
def preempt(stage: Stage, words: Words) -> list[str]:
    """The request has to make room; it comes again as another life."""
    return _close(stage, words, "preempt")


# -- copies ------------------------------------------------------------------------------------------------------------


@command("offload REQUEST BLOCK[=KEY]... [to=POOL] [deadline=SECONDS]", options="to deadline", fewest=2)
def offload(stage: Stage, words: Words) -> list[str]:
    """Store these blocks one tier down, under the keys that name them; the deadline counts from now.

    No key names a block of a `foreign` device, so there each is given with its key.
    """
    play = stage.play
    lease = play.names.find_lease(words.take())
    listed = [word.partition("=") for word in words.rest()]
    refs = [play.names.find_ref(name) for name, _, _ in listed]
    keys = [key.encode() for _, _, key in listed if key]
    group = play.names.find_group(listed[0][2]) if keys else None
    pool = play.names.find_pool(words.options["to"]) if "to" in words.options else 1
    deadline = play.now + words.seconds(words.options["deadline"]) if "deadline" in words.options else None
    answer = play.ledger.offload(lease, refs, pool=pool, deadline=deadline, keys=keys or None, group=group)
    if not isinstance(answer, Stored):
        return [play.refused(answer)]
    dropped = [f"dropped {play.names.ref(line.ref)}: {line.reason}" for line in answer.dropped]
    return [f"{play.names.job(answer.job)} stores {play.names.refs(answer.refs)}", *dropped]


@command("load REQUEST into BLOCK... [deadline=SECONDS]", options="deadline", fewest=3)
def load(stage: Stage, words: Words) -> list[str]:
    """Load what of the last hit lies below the device into these blocks; the deadline counts from now (5)."""
    play = stage.play
    lease = play.names.find_lease(words.take())
    words.keyword("into")
    into = [play.names.find_ref(word) for word in words.rest()]
    hit = _hit(play, lease)
    answer = play.ledger.load(lease, hit, into, deadline=play.now + words.seconds(words.options.get("deadline", "5")))
    if not isinstance(answer, Started):
        return [play.refused(answer)]
    space = play.names.leases[lease].space
    lines = lines_of(play.ledger.config.groups, hit.tokens)
    play.loading[answer.load] = [
        Line(lines[place] if lines else (0, place), ref.block, space, hit.keys[place])
        for place, ref in zip(hit.below, into, strict=False)
    ]
    return [f"{play.names.load(answer.load)} is started, batches: {answer.batches}"]


@command("cancel JOB-OR-LOAD", fewest=1, most=1)
def cancel(stage: Stage, words: Words) -> list[str]:
    """Call a job or a load off."""
    play, name = stage.play, words.take()
    answer = play.ledger.cancel(play.names.find_ended(name))
    return [play.refused(answer) if isinstance(answer, Refusal) else f"{name} is called off"]


# -- steps and holds ---------------------------------------------------------------------------------------------------


@command("step NUMBER REQUEST [BLOCK=KEY...]", fewest=2)
def step(stage: Stage, words: Words) -> list[str]:
    """Dispatch a compute step over the request; it will write these blocks when it lands."""
    play = stage.play
    number = words.number(words.take())
    lease = play.names.find_lease(words.take())
    life = play.names.leases[lease]
    pairs = [(play.names.find_block(name), key) for name, key in words.pairs()]
    for block, _ in pairs:
        if not _may_write(play, lease, block):
            raise Mistake(f"{life} does not own {play.names.block(block)} as an open block, so no step may write it")
    tenant = play.physics.tenant
    writes = tuple((block, tenant(block), Bytes(life.space, key, str(life))) for block, key in pairs)
    answer = play.ledger.step_dispatched(number, [lease])
    if isinstance(answer, Refusal):
        return [play.refused(answer)]
    play.physics.steps[number] = Step(play.ledger.books.serial, writes)
    return [f"step {number} is out over {play.names.lease(lease)}"]


@command("retire STEP", fewest=1, most=1)
def retire(stage: Stage, words: Words) -> list[str]:
    """The step, and all before it, are over; what they write has landed."""
    play = stage.play
    number = words.number(words.take())
    for older in [older for older in play.physics.steps if older <= number]:
        if not play.physics.steps[older].landed:
            raise Mistake(f"step {older} has not landed, so it can't retire; land it first (land step {older})")
        del play.physics.steps[older]
    answer = play.ledger.step_retired(number)
    return [play.refused(answer) if isinstance(answer, Refusal) else f"step {number} is retired"]


@command("hold REQUEST BLOCK... [deadline=SECONDS]", options="deadline", fewest=2)
def hold(stage: Stage, words: Words) -> list[str]:
    """The embedder will touch these blocks until it reports the token done; the deadline counts from now (5)."""
    play = stage.play
    lease = play.names.find_lease(words.take())
    refs = [play.names.find_ref(word) for word in words.rest()]
    token = play.ledger.hold(lease, refs, deadline=play.now + words.seconds(words.options.get("deadline", "5")))
    if isinstance(token, Refusal):
        return [play.refused(token)]
    play.physics.sent([Work(token, Kind.HOLD, 0, "engine", 1, tuple(ref.block for ref in refs), (), (), 0)])
    return [f"{play.names.token(token)} holds {play.names.refs(tuple(dict.fromkeys(refs)))}"]
