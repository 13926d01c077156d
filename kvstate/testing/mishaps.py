"""The commands for what nobody planned: bytes in the wrong place, reports of no shape, meddled books, a new process.

Errors: each raises `Mistake` for words that name nothing, and for what can't happen.
"""

from __future__ import annotations

from ast import literal_eval
from dataclasses import replace
from typing import Any

from kvstate.errors import Code
from kvstate.machines.audit import audit
from kvstate.machines.messages import Failure, Report, Token
from kvstate.machines.ranks import rank_lost
from kvstate.machines.verdicts import Refusal
from kvstate.testing.commands import Words, command
from kvstate.testing.names import Mistake
from kvstate.testing.stage import Play, Stage

COUNTERS = ("owners", "readers", "writers", "lost")
"""What of a block can be meddled with."""


def _hear(play: Play, report: Report) -> str:
    """Let the ledger have a report, and say what became of it."""
    books = play.ledger.books
    stale, unknown = books.stale, books.unknown
    play.ledger.report(report)
    return "stale" if books.stale > stale else "unknown" if books.unknown > unknown else "heard"


@command("swap BLOCK BLOCK", fewest=2, most=2)
def swap(stage: Stage, words: Words) -> list[str]:
    """The bytes of two blocks have changed places, and nobody notices."""
    names, physics = stage.play.names, stage.play.physics
    one, other = (names.find_block(word) for word in words.rest())
    for rank in range(names.books.config.ranks):
        contents = physics.contents
        contents[rank, one], contents[rank, other] = physics.at(other, rank), physics.at(one, rank)
    return [f"{names.block(block)} holds {physics.all_of(block)}" for block in (one, other)]


@command("garble TOKEN OUTCOME [alone] VALUE...", fewest=3)
def garble(stage: Stage, words: Words) -> list[str]:
    """A report whose failures are these: error codes, and Python values as they are; `alone` is one without a list."""
    play = stage.play
    name, outcome = words.take(), words.take()
    alone = words.list[0] == "alone"
    values = [_value(words, word) for word in words.rest()[alone:]]
    if alone and len(values) != 1:
        raise words.wrong("what is alone is one value")
    failures: Any = values[0] if alone else tuple(values)
    report = play.physics.say(name, outcome, failures)
    return [f"{name} {outcome}, and a garbled list: {_hear(play, report)}"]


def _value(words: Words, word: str) -> object:
    if word in Code.__members__:
        return Failure(-1, int(Code[word]), "fetch")
    try:
        return literal_eval(word)
    except (ValueError, SyntaxError):
        raise words.wrong(f"{word} is no error code and no Python value") from None


@command("meddle BLOCK COUNTER=NUMBER", fewest=2, most=2)
def meddle(stage: Stage, words: Words) -> list[str]:
    """A bug writes into the books, behind every row. An audit says what it sees of it, and no other is made."""
    play = stage.play
    word = words.take()
    block = play.names.find_block(word)
    [(counter, value)] = words.pairs()
    if counter not in COUNTERS:
        raise words.wrong(f"{counter} is no counter of a block (there are {' '.join(COUNTERS)})")
    play.ledger.books.column("block", counter)[block] = words.number(value)
    play.meddled = True
    return [f"{word} has {counter} {value}", *(f"an audit says: {play.names.text(law)}" for law in audit(play.ledger))]


@command("lose RANK", fewest=1, most=1)
def lose(stage: Stage, words: Words) -> list[str]:
    """The process of a rank is gone, with its piece of every block and all of its copies; see `machines.ranks`."""
    play = stage.play
    rank = words.number(words.take())
    lost = rank_lost(play.ledger, rank)
    if isinstance(lost, Refusal):
        return [play.refused(lost)]
    play.physics.lose(rank)
    return [f"leases aborted: {len(lost.leases)}, keys dropped: {lost.keys}, proved over: {lost.parts}"]


@command("restart", most=0)
def restart(stage: Stage, _: Words) -> list[str]:
    """The process is gone with all its memory, and another takes its place: the next incarnation, with empty books."""
    play = stage.play
    config, objects = play.ledger.config, play.physics.objects
    objects.outlive(range(config.ranks), play.physics.contents)
    stage.begin(replace(config, incarnation=config.incarnation + 1), list(play.names.blocks))
    stage.play.physics.objects = objects
    return [f"a new process, incarnation {config.incarnation + 1}"]


@command("earlier TOKEN OUTCOME", fewest=2, most=2)
def earlier(stage: Stage, words: Words) -> list[str]:
    """A report of the process before, which nobody had read. Its token may look like one of ours."""
    play = stage.play
    life = play.ledger.config.incarnation
    if life == 1:
        raise Mistake("there is no process before this one; start it anew first (restart)")
    token = Token(life - 1, play.names.find_token(words.take()).serial)
    outcome = words.take()
    return [f"{play.names.token(token)} {outcome}: {_hear(play, Report(token, outcome))}"]
