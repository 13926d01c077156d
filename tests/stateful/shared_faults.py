"""Faults planted by hand around a pool that others write to; see `faults`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kvstate.machines.acts import Acts
from kvstate.machines.ledger import ACTS
from kvstate.machines.messages import Kind
from kvstate.machines.records import Batch, Part
from kvstate.machines.seek_acts import SeekActs
from kvstate.machines.shareds import Name, Shareds
from tests.stateful.faults import Options, fault, without_act

HERE: dict[str, Any] = {"world": "shared", "scope": "a store", "mix": "loads"}
TWO: dict[str, Any] = HERE | {"scope": "a store on two ranks"}
PEER: dict[str, Any] = HERE | {"scope": "a peer"}


@fault("A reset calls no question off.", "L9.hint", "L7.sought", seed=17, **HERE | {"mix": "reuse"})
def a_reset_forgets_no_question(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(Shareds, "_call_off", lambda self: None)


@fault("Of two ranks the first one's word is enough.", "L9.hint", seed=0, **TWO)
def one_rank_is_enough(mp: pytest.MonkeyPatch) -> None:
    hear = SeekActs.hear_seek

    def hasty(self: SeekActs, part: Part, effect: str) -> None:
        seek = self.books.seeks.by_part.get(part.slot)
        before = set() if seek is None else set(seek.missing)
        hear(self, part, effect)
        if seek is not None and part.rank:
            seek.missing = before

    mp.setattr(Acts, "hear_seek", hasty)


@fault("Nobody hears the answers.", "L7.sought", "L7.clock", seed=0, **HERE)
def nobody_hears_the_answers(mp: pytest.MonkeyPatch) -> Options:
    return without_act("hear_seek")


@fault("The deadline of a seek ends no wait.", "L7.sought", "L7.clock", seed=1, **HERE)
def the_deadline_ends_no_wait(mp: pytest.MonkeyPatch) -> Options:
    return {"acts": [act for act in ACTS if act.id != "D43"]}


@fault("What vanishes stays a hit.", "L9.hint", seed=0, **PEER)
def what_vanishes_stays(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(Shareds, "vanish", lambda self, pool, names: 0)


@fault("What vanishes while it is sought is found all the same.", "L9.hint", "L7.sought", seed=1, **HERE)
def what_vanishes_is_found(mp: pytest.MonkeyPatch) -> None:
    def vanish(self: Shareds, pool: int, names: Sequence[Name]) -> int:
        live, self.books.seeks.live = self.books.seeks.live, {}
        dropped = kept(self, pool, names)
        self.books.seeks.live = live
        return dropped  # type: ignore[return-value]

    kept = Shareds.vanish
    mp.setattr(Shareds, "vanish", vanish)


@fault("What comes from others is not looked at.", "L5.proceed", "L9.bytes", seed=9, **PEER)
def nothing_is_verified(mp: pytest.MonkeyPatch) -> None:
    def launch_verify(self: Acts, batch: Batch, effect: str) -> None:
        self._launch(batch, "transfer", Kind.VERIFY, 0, at_once=True)

    mp.setattr(Acts, "launch_verify", launch_verify)


@fault("A wait that a seek began goes on for ever.", "L7.sought", "L7.clock", seed=0, **HERE)
def nobody_is_struck(mp: pytest.MonkeyPatch) -> None:
    mp.setattr("kvstate.machines.records.Seeks.unlist", lambda self, seek, keys: [])
