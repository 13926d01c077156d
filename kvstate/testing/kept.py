"""The commands about what outlives the process; see `objects`.

Errors: each raises `Mistake` for words that name nothing, and for what can't happen.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvstate.machines.verdicts import Refusal
from kvstate.testing.commands import Words, command
from kvstate.testing.names import COMMON, Mistake
from kvstate.testing.stage import Play, Stage


def _keeper(play: Play) -> int:
    """The pool that keeps objects. Errors: `Mistake` where there is none."""
    pools = play.ledger.books.pool_of
    if not play.physics.objects.blocks:
        raise Mistake("no pool keeps objects; `ledger device=b7 disk=d1,d2 keeps=disk` makes one that does")
    return pools[play.physics.objects.blocks[0]]


@command("recover [KEY...] [space=TENANT]", options="space")
def recover(stage: Stage, words: Words) -> list[str]:
    """What was found whole on every rank is taken in, the oldest first; or these keys are said to have been found."""
    play = stage.play
    pool = _keeper(play)
    space = words.options.get("space", COMMON)
    names = [(space, word.encode()) for word in words.rest()] or play.physics.objects.found()
    taken = play.ledger.recover(pool, names)
    if isinstance(taken, Refusal):
        return [play.refused(taken)]
    pairs = zip((names[line] for line in taken.lines), taken.refs, strict=True)
    return [f"{play.names.key(*name)} is taken in, by {play.names.ref(ref)}" for name, ref in pairs] or ["nothing"]


@command("objects", most=0)
def objects(stage: Stage, _: Words) -> list[str]:
    """What can be found in the pools that outlive the process, rank by rank."""
    _keeper(stage.play)
    return list(_objects(stage.play)) or ["no objects"]


def _objects(play: Play) -> Iterator[str]:
    kept, names = play.physics.objects, play.names
    where = "" if play.ledger.config.ranks == 1 else " on rank {}"
    for rank, name in kept.loose:
        yield f"{names.key(*name)} is there, and no block holds it{where.format(rank)}"
    for (rank, name), place in kept.names.items():
        yield f"{names.key(*name)} is there, held by {names.block(place.block)}{where.format(rank)}"
