"""Faults planted by hand in what a ledger does for an engine that allocates by itself: see `faults`."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

import pytest

from kvstate.machines.engine_blocks import EngineBlocks
from kvstate.machines.foreigns import Foreigns
from kvstate.machines.messages import BlockRef
from kvstate.machines.records import Lease
from tests.scenarios.spec_mutants import changed
from tests.stateful.faults import Options, fault, without_act, without_coupling

HERE: dict[str, Any] = {"world": "foreign", "scope": "an engine"}


@fault("A copy whose block was given away counts as one that did its work.", "L9.bytes", mix="stores", seed=28, **HERE)
def copies_are_not_tainted(mp: pytest.MonkeyPatch) -> Options:
    return without_coupling("C44")


@fault("A job whose source was given away is started, or tries again.", "L9.bytes", mix="stores",
       seed=0, **HERE | {"scope": "an engine in a hurry"})  # fmt: skip
def jobs_are_not_tainted(mp: pytest.MonkeyPatch) -> Options:
    return without_coupling("C45")


@fault("A job tries again although a source was given away.", "L9.bytes", mix="stores", seed=30, **HERE)
def another_attempt_after_all(mp: pytest.MonkeyPatch) -> Options:
    return {"machines": changed("O60", unset="again")}


@fault("The engine is not asked to keep what a copy touches.", "L3.hold", seed=0, **HERE)
def no_hold(mp: pytest.MonkeyPatch) -> Options:
    return without_act("emit_hold")


@fault("The engine is not told that it may go on.", "L3.hold", "L11.home", seed=0, **HERE)
def no_unhold(mp: pytest.MonkeyPatch) -> Options:
    return without_act("emit_unhold")


@fault(
    "A load goes on although the engine has taken its block.",
    "L5.proceed",
    "L5.loading_named",
    "L8.poison",
    seed=9,
    **HERE,
)
def nothing_is_pulled(mp: pytest.MonkeyPatch) -> Options:
    return without_coupling("C46")


@fault("A closed lease leaves its loads' blocks as they are.", "L5.loading_named", mix="aborts", seed=8, **HERE)
def blocks_stay_loading(mp: pytest.MonkeyPatch) -> None:
    def none(self: Foreigns, lease: Lease) -> array[int]:
        return array("q")

    mp.setattr(Foreigns, "filled_for", none)


@fault(
    "A late report of what was overtaken is believed.",
    "L5.innocent",
    mix="faults",
    seed=6,
    **HERE | {"scope": "an engine in a hurry"},
)
def late_and_believed(mp: pytest.MonkeyPatch) -> Options:
    return {"machines": changed("P17", to="broken", effects=("late", "late_bad"))}


@fault(
    "What had been given up is not tainted.",
    "L5.innocent",
    mix="faults",
    seed=6,
    **HERE | {"scope": "an engine in a hurry"},
)
def the_lost_stay_clean(mp: pytest.MonkeyPatch) -> Options:
    return {"machines": changed("P15", unset="tainted")}


@fault("A check that read another's bytes is believed.", "L5.innocent", seed=9, **HERE)
def a_spoiled_check_is_believed(mp: pytest.MonkeyPatch) -> Options:
    return {"machines": changed("P06", to="broken")}


@fault("A life that began under a writer is stored.", "L3.writer_place", "L9.bytes", mix="reuse", seed=5, **HERE)
def no_stain(mp: pytest.MonkeyPatch) -> Options:
    return {"machines": changed("E06", unset="stained")}


@fault(
    "A block that a load has left behind with a writer passes for whole.",
    "L3.writer_place",
    mix="aborts",
    seed=8,
    **HERE,
)
def left_and_whole(mp: pytest.MonkeyPatch) -> Options:
    return {"machines": changed("E31", unset="stained")}


@fault("A store is made of what the engine has given to another since.", "L2.identity", "L9.bytes", mix="stores",
       seed=3, **HERE)  # fmt: skip
def any_life_will_do(mp: pytest.MonkeyPatch) -> None:
    unfit = Foreigns._unfit_to_store

    def careless(self: Foreigns, ref: BlockRef, key: bytes, space: str, pool: int) -> str | None:
        return unfit(self, self.books.ref(ref.block), key, space, pool)

    mp.setattr(Foreigns, "_unfit_to_store", careless)


@fault("A load does not wait for the steps that are under way.", "L3.no_reuse", seed=9, **HERE)
def no_step_is_waited_for(mp: pytest.MonkeyPatch) -> None:
    def at_once(self: EngineBlocks, steps: Iterable[int]) -> int:
        return 0

    mp.setattr(EngineBlocks, "fetch_after", at_once)


@fault("A life that the engine reports has the number of the one before.", "L2.life", seed=1, **HERE)
def lives_are_not_told_apart(mp: pytest.MonkeyPatch) -> Options:
    return {"machines": changed("E05", unset="generation")}
