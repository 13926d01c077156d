"""The commands about a pool that is shared with others; see `others`.

Errors: each raises `Mistake` for words that name nothing, and for what can't happen.
"""

from __future__ import annotations

from kvstate.machines.messages import Work
from kvstate.machines.verdicts import Refusal
from kvstate.testing.commands import Words, command
from kvstate.testing.matter import JUNK, NOTHING, Bytes
from kvstate.testing.names import COMMON, Mistake
from kvstate.testing.stage import Play, Stage


def _shared(play: Play) -> int:
    """The pool that is shared. Errors: `Mistake` where there is none."""
    blocks = play.physics.others.blocks
    if not blocks:
        raise Mistake("no pool is shared; `ledger device=b7 store=s1,s2 shared=store` makes one that is")
    return play.ledger.books.pool_of[blocks[0]]


def _names(words: Words) -> list[tuple[str, bytes]]:
    space = words.options.get("space", COMMON)
    return [(space, word.encode()) for word in words.rest()]


@command("others have|lose|spoil KEY... [rank=N] [space=TENANT]", options="rank space", fewest=2)
def others(stage: Stage, words: Words) -> list[str]:
    """Others put these there, delete them, or put others' bytes in their place; on all ranks, or on one."""
    play = stage.play
    _shared(play)
    verb = words.take()
    if verb not in ("have", "lose", "spoil"):
        raise words.wrong(f"{verb} stands where have, lose or spoil should be")
    ranks = range(play.ledger.config.ranks)
    if "rank" in words.options:
        rank = words.number(words.options["rank"])
        if rank not in ranks:
            raise Mistake(f"there is no rank {rank}; there are {len(ranks)}, from 0 up")
        ranks = range(rank, rank + 1)
    lines = []
    for space, key in _names(words):
        whole = {"have": Bytes(space, key.decode(), "others"), "lose": NOTHING, "spoil": JUNK}[verb]
        play.physics.others.put(ranks, (space, key), whole)
        lines.append(f"others {verb} {play.names.key(space, key)}")
    return lines


@command("announce KEY... [space=TENANT]", options="space", fewest=1)
def announce(stage: Stage, words: Words) -> list[str]:
    """Somebody says that others have these, true or not."""
    play = stage.play
    pool, names = _shared(play), _names(words)
    play.physics.others.sayings.announced(names)
    told = play.ledger.announce(pool, names)
    if isinstance(told, Refusal):
        return [play.refused(told)]
    pairs = zip((names[line] for line in told.lines), told.refs, strict=True)
    return [f"{play.names.key(*name)} is named, {play.names.ref(ref)} stands for it" for name, ref in pairs] or [
        "nothing"
    ]


@command("vanish KEY... [space=TENANT]", options="space", fewest=1)
def vanish(stage: Stage, words: Words) -> list[str]:
    """Somebody says that others have these no more."""
    play = stage.play
    pool, names = _shared(play), _names(words)
    play.physics.others.sayings.vanished(names)
    answer = play.ledger.vanish(pool, names)
    return [play.refused(answer) if isinstance(answer, Refusal) else f"keys dropped: {answer}"]


@command("seek REQUEST KEY... [deadline=SECONDS]", options="deadline", fewest=2)
def seek(stage: Stage, words: Words) -> list[str]:
    """Ask the store which of these keys it has; the deadline counts from now (5)."""
    play = stage.play
    pool, lease = _shared(play), play.names.find_lease(words.take())
    named = [(play.names.find_group(word), word.encode()) for word in words.rest()]
    group, keys = named[0][0], [key for _, key in named]
    deadline = play.now + words.seconds(words.options.get("deadline", "5"))
    asked = play.ledger.seek(lease, keys, pool=pool, deadline=deadline, group=group)
    if isinstance(asked, Refusal):
        return [play.refused(asked)]
    works = [
        effect for effect in play.ledger.books.effects if isinstance(effect, Work) and effect.token in asked.tokens
    ]
    play.physics.others.sayings.asked(works, deadline, play.ledger.config.ranks)
    wanted = " ".join(keys[line].decode() for line in asked.lines)
    return [f"{', '.join(map(play.names.token, asked.tokens))}: looking for {wanted}"]
