"""The commands of a scenario in which the engine allocates the device blocks by itself (`ledger device=... foreign`).

Errors: each raises `Mistake` for words that name nothing, and for what no engine could do.
"""

from __future__ import annotations

from kvstate.machines.verdicts import Freed, Given
from kvstate.testing.commands import Words, command
from kvstate.testing.names import Mistake
from kvstate.testing.stage import Play, Stage


@command("engine gives REQUEST BLOCK... | engine reuses REQUEST BLOCK... | engine frees BLOCK...", fewest=2)
def engine(stage: Stage, words: Words) -> list[str]:
    """The engine gives free blocks to a request, hands others on to it that nobody freed, or takes blocks back."""
    play, verb = stage.play, words.take()
    if not play.ledger.books.engine.count:
        raise Mistake("the device pool is the ledger's own; `ledger device=b7 foreign ...` makes one that is not")
    if verb == "frees":
        return _free(play, words)
    if verb not in ("gives", "reuses"):
        raise words.wrong(f"an engine gives, reuses or frees, and does not {verb!r}")
    lease = play.names.find_lease(words.take())
    blocks = [play.names.find_block(word) for word in words.rest()]
    report = play.ledger.foreign_allocated if verb == "gives" else play.ledger.foreign_reused
    given = report(blocks)
    if not isinstance(given, Given):
        return [play.refused(given)]
    play.physics.handed(dict.fromkeys(blocks))
    play.engine_gave.update(dict.fromkeys(blocks, lease))
    how = "gets" if verb == "gives" else "gets without their being freed"
    written = f"; a copy may still write {play.names.now(given.writing)}" if given.writing else ""
    return [f"{play.names.lease(lease)} {how} {play.names.refs(given.refs)}{written}"]


def _free(play: Play, words: Words) -> list[str]:
    refs = [play.names.find_ref(word) for word in words.rest()]
    freed = play.ledger.foreign_freed(refs)
    if not isinstance(freed, Freed):
        return [play.refused(freed)]
    for ref in refs:
        if play.ledger.books.current(ref):
            play.engine_gave.pop(ref.block, None)
    asked = f"is asked to keep {play.names.refs(freed.held)}" if freed.held else "keeps none for us"
    return [f"the engine takes {play.names.refs(refs)} back and {asked}"]
