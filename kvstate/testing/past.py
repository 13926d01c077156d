"""The command `given`: what was stored before a scenario begins.

Errors: `Mistake` for words that name nothing, and where there is no room.
"""

from __future__ import annotations

from itertools import takewhile

from kvstate.machines.messages import BlockRefs, Kind, Outcome
from kvstate.machines.verdicts import Given, Grant, Short, Stored
from kvstate.testing.commands import Words, command
from kvstate.testing.matter import NOTHING, Bytes
from kvstate.testing.names import COMMON, Mistake
from kvstate.testing.stage import Play, Stage


@command("given KEY... in POOL [space=TENANT]", options="space", fewest=3)
def given(stage: Stage, words: Words) -> list[str]:
    """Somebody has stored these keys there long ago. It is done with real offloads; nothing stays on the device."""
    play, space = stage.play, words.options.get("space", COMMON)
    fired = stage.fired.copy()
    keys = list(takewhile(lambda word: word != "in", words.list))
    words.list = words.list[len(keys) :]
    words.keyword("in")
    pool = play.names.find_pool(words.take())
    lines = [_store_long_ago(play, key, space, pool) for key in keys]
    _clear_the_device(play, space)
    stage.fired.clear()
    stage.fired.update(fired)
    return lines


def _clear_the_device(play: Play, space: str) -> None:
    """Evict what is cached there, and give the blocks back so that the lowest number is handed out first again."""
    lease = play.ledger.open(space) if not play.ledger.books.engine.count else None
    short = play.ledger.allocate(lease, 10**9) if isinstance(lease, int) else None
    if isinstance(lease, int) and isinstance(short, Short):
        grant = play.ledger.allocate(lease, short.free)
        play.ledger.release(lease, sorted(grant.blocks) if isinstance(grant, Grant) else [])
        play.ledger.finish(lease)
    play.harvest(rows=False)
    for block in range(play.ledger.books.config.pools[0].blocks):
        play.physics.put(block, NOTHING)


def _a_block(play: Play, lease: int) -> BlockRefs | None:
    """A device block to compute in, from whoever allocates."""
    grant = play.ledger.foreign_allocated([0]) if play.ledger.books.engine.count else play.ledger.allocate(lease, 1)
    return grant.refs if isinstance(grant, Given) else grant.blocks if isinstance(grant, Grant) else None


def _store_long_ago(play: Play, key: str, space: str, pool: int) -> str:
    lease = play.ledger.open(space)
    refs = _a_block(play, lease) if isinstance(lease, int) else None
    if not isinstance(lease, int) or refs is None:
        raise Mistake(f"there is no room on the device to compute {key}; `given` belongs at the beginning")
    life = play.names.opened(lease, "past", space)
    play.physics.handed(ref.block for ref in refs)
    play.physics.put(refs[0].block, Bytes(space, key, str(life.request)))
    group = play.names.find_group(key)
    if play.ledger.books.engine.count:
        stored = play.ledger.offload(lease, refs, pool=pool, keys=[key.encode()], group=group)
    else:
        play.ledger.seal(lease, refs, [key.encode()], group=group)
        stored = play.ledger.offload(lease, refs, pool=pool)
    if not isinstance(stored, Stored):
        raise Mistake(f"{key} can't be stored in {play.ledger.books.pools[pool].config.name}: {stored.reason}")
    slot = next(part for part in play.ledger.books.parts.live() if part.writes)
    where = play.names.block(slot.writes[0])
    before = set(play.physics.flights)
    for _ in (Kind.STORE, Kind.PERSIST):
        play.harvest(rows=False)
        for serial in [serial for serial in play.physics.flights if serial not in before]:
            before.add(serial)
            play.physics.land(f"t{serial}")
            play.ledger.report(play.physics.say(f"t{serial}", Outcome.DONE, ()))
    play.ledger.finish(lease)
    if play.ledger.books.engine.count:
        play.ledger.foreign_freed(refs)
    play.harvest(rows=False)
    del play.names.jobs[stored.job]
    return f"{where} holds {key} by {life.request}"
