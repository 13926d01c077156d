"""The commands about what is stored in which tier, by `kvstate.tiering` and not by an `offload` of the scenario's own.

What it opens and closes for its own stores is a request called `tiers`.

Errors: each raises `Mistake` for words that name nothing, and for what can't happen.
"""

from __future__ import annotations

from typing import Any

from kvstate.machines.config import ConfigError
from kvstate.machines.messages import BlockRefs
from kvstate.machines.verdicts import Closed, Ending, JobVerdict, LoadVerdict, Refusal, Stored
from kvstate.testing.commands import Words, command
from kvstate.testing.names import Mistake
from kvstate.testing.stage import Play, Stage
from kvstate.tiering import Counts, TierConfig, Tiering, Write

SHARES = {"high": "high", "low": "low"}
"""Options of a tier that are numbers, and `COUNTS` those that are whole ones, with their names in the settings."""
COUNTS = {"inflight": "inflight_blocks", "turn": "turn_blocks"}


class Opened:
    """The ledger of a scenario, as tiers ask it: each lease that they open gets a name."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self.offload = play.ledger.offload
        """As `Ledger.offload`."""

    def open(self, namespace: str) -> int | Refusal:
        """As `Ledger.open`."""
        lease = self._play.ledger.open(namespace)
        if isinstance(lease, int):
            self._play.names.opened(lease, "tiers", namespace)
        return lease

    def finish(self, lease: int) -> Closed | Refusal:
        """As `Ledger.finish`."""
        return self._play.ledger.finish(lease)


@command("tier POOL through|back|off [high=SHARE] [low=SHARE] [inflight=BLOCKS] [turn=BLOCKS] [promote=no]",
         options="high low inflight turn promote", fewest=2, most=2)  # fmt: skip
def tier(stage: Stage, words: Words) -> list[str]:
    """From here on this pool is fed so. What is on its way for the tiers as they were is not waited for."""
    play = stage.play
    pool, write = words.take(), words.take()
    settings: dict[str, Any] = {"promote": words.options.pop("promote", "yes") != "no"}
    for option, value in words.options.items():
        settings[{**SHARES, **COUNTS}[option]] = words.number(value) if option in COUNTS else words.seconds(value)
    try:
        made = TierConfig(pool=pool, write=write, **settings)  # type: ignore[arg-type] # a word stands for a member
        play.tiers = (*(one for one in play.tiers if one.pool != pool), made)
        play.tiering = Tiering(play.ledger, play.tiers, Opened(play))
    except ConfigError as error:
        raise Mistake(str(error)) from None
    said = {Write.THROUGH: "written through", Write.BACK: "written back", Write.OFF: "not written"}
    return [f"{pool} is {said[made.write]}"]


def _tiering(play: Play) -> Tiering:
    """What the scenario was told of tiers. Errors: `Mistake` where that is nothing."""
    if play.tiering is None:
        raise Mistake("there are no tiers yet; `tier host through` makes one")
    return play.tiering


@command("store REQUEST BLOCK[=KEY]...", fewest=2)
def store(stage: Stage, words: Words) -> list[str]:
    """These blocks of the request are full: the first tier is given them, as far as it takes any."""
    play = stage.play
    lease = play.names.find_lease(words.take())
    listed = [word.partition("=") for word in words.rest()]
    keys = [key.encode() for _, _, key in listed if key]
    group = play.names.find_group(listed[0][2]) if keys else None
    refs = [play.names.find_ref(name) for name, _, _ in listed]
    stored = _tiering(play).sealed(lease, refs, keys=keys or None, group=group)
    return [_said(play, stored)]


def _said(play: Play, stored: Stored | None) -> str:
    return (
        "nothing is stored" if stored is None else f"{play.names.job(stored.job)} stores {play.names.refs(stored.refs)}"
    )


@command("promote REQUEST", fewest=1, most=1)
def promote(stage: Stage, words: Words) -> list[str]:
    """The last load of the request has brought all of its hit: it goes into the tiers between as well."""
    play = stage.play
    lease = play.names.find_lease(words.take())
    mine = [one for one in play.verdicts if isinstance(one, LoadVerdict) and one.lease == lease]
    if not mine or mine[-1].ending is not Ending.PROCEED:
        raise Mistake(f"no load of {play.names.lease(lease)} has brought anything yet")
    into = BlockRefs(play.ledger.books.ref(block) for block in mine[-1].kept)
    return [f"{_tiering(play).loaded(mine[-1], play.hits[lease], into)} to be stored nearer"]


@command("turn [flush]", most=1)
def turn(stage: Stage, words: Words) -> list[str]:
    """A turn of the loop: the tiers are told which stores have ended, and write back."""
    play = stage.play
    flush = bool(words.list)
    if flush:
        words.keyword("flush")
    tiering = _tiering(play)
    for verdict in play.verdicts:
        if isinstance(verdict, JobVerdict):
            tiering.told(verdict)
    play.verdicts = [verdict for verdict in play.verdicts if isinstance(verdict, LoadVerdict)]
    begun = tiering.turn(flush=flush)
    return [f"{begun} written back", *(f"{name}: {_counted(counts)}" for name, counts in tiering.counts.items())]


def _counted(counts: Counts) -> str:
    plain = {name: getattr(counts, name) for name in counts.__slots__ if name != "dropped"}
    dropped = {f"dropped ({reason})": count for reason, count in counts.dropped.items()}
    found = [f"{count} {name.replace('_', ' ')}" for name, count in {**plain, **dropped}.items() if count]
    return ", ".join(found) or "nothing yet"
