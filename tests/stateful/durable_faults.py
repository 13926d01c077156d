"""Faults planted by hand around pools that outlive the process: in what the ledger sends, and in who keeps the objects.

The second half breaks what `spec/properties.toml` only assumes of such a copier: each rule is one without which some
law does not hold. See `faults`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kvstate.machines import ranks
from kvstate.machines.books import Pool
from kvstate.machines.durables import Durables
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Adopt, BlockRefs, Effect, Sweep, Token, Work
from tests.stateful.base import Bytes
from tests.stateful.disk import Disk, Held, Name
from tests.stateful.durable_world import PERSISTS, DurableWorld
from tests.stateful.faults import Options, fault, without_act

HERE: dict[str, Any] = {"world": "durable", "scope": "a disk", "mix": "stores"}
TWO: dict[str, Any] = HERE | {"scope": "a disk on two ranks"}
ALONE: dict[str, Any] = HERE | {"scope": "a disk alone"}
CROSSED = (*PERSISTS, "reset", "land")
TWICE = (*PERSISTS, "cancel", *"store land deliver land deliver land deliver tick tick".split())


# -- the ledger --------------------------------------------------------------------------------------------------------


@fault("A reset leaves the objects where they are.", "L9.swept", seed=0, **HERE)
def reset_without_sweep(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(Durables, "_keepers", lambda self: iter(()))


@fault("A reset has the objects of one rank removed, and there are two.", "L9.swept", seed=0, **TWO)
def sweep_of_one_rank(mp: pytest.MonkeyPatch) -> None:
    keepers = Durables._keepers
    mp.setattr(Durables, "_keepers", lambda self: list(keepers(self))[:1])


@fault("The sweep comes behind work that was begun after the reset.", "L9.swept", seed=0, **HERE)
def sweep_that_comes_after(mp: pytest.MonkeyPatch) -> None:
    held: list[Effect] = []
    took = DurableWorld.took

    def late(self: DurableWorld, effects: list[Effect]) -> None:
        held.extend(effect for effect in effects if isinstance(effect, Sweep) and effect.everything)
        took(self, [effect for effect in effects if effect not in held])
        if any(isinstance(effect, Work) for effect in effects):
            took(self, held)
            held.clear()

    mp.setattr(DurableWorld, "took", late)


@fault("What no block holds is removed before it is said which block holds what.", "L9.bytes", seed=0, **HERE)
def sweep_before_adopt(mp: pytest.MonkeyPatch) -> None:
    adopt = Durables._adopt

    def reversed_(self: Durables, pool: Pool, refs: BlockRefs, names: Sequence[Name]) -> None:
        first = len(self.books.effects)
        adopt(self, pool, refs, names)
        self.books.effects[first:] = self.books.effects[first:][::-1]

    mp.setattr(Durables, "_adopt", reversed_)


@fault("Each block is said to hold the object of the next one.", "L9.bytes", seed=0, **HERE)
def adopt_under_anothers_name(mp: pytest.MonkeyPatch) -> None:
    adopt = Durables._adopt

    def shifted(self: Durables, pool: Pool, refs: BlockRefs, names: Sequence[Name]) -> None:
        adopt(self, pool, refs, [*names[1:], *names[:1]])

    mp.setattr(Durables, "_adopt", shifted)


@fault("One rank is told what it holds, and there are two.", "L9.bytes", seed=0, **TWO)
def adopt_on_one_rank(mp: pytest.MonkeyPatch) -> None:
    took = DurableWorld.took

    def first(self: DurableWorld, effects: list[Effect]) -> None:
        took(self, [effect for effect in effects if not (isinstance(effect, Adopt) and effect.rank)])

    mp.setattr(DurableWorld, "took", first)


@fault("Of what was found every second object is passed over.", "L9.recovered", seed=0, **HERE)
def half_is_taken_in(mp: pytest.MonkeyPatch) -> None:
    recover = Durables.recover
    mp.setattr(Durables, "recover", lambda self, pool, names: recover(self, pool, names[::2]))


@fault("The loss of a rank has its objects swept, which are then taken in.", "L9.bytes", seed=0, **TWO)
def a_lost_rank_sweeps(mp: pytest.MonkeyPatch) -> None:
    lost = ranks.rank_lost

    def sweeping(ledger: Ledger, rank: int) -> Any:
        keep = ledger.reset
        mp.setattr(ledger, "reset", lambda **_: keep())
        return lost(ledger, rank)

    mp.setattr("tests.stateful.durable_world.rank_lost", sweeping)


@fault("What a job that failed has made durable is left.", "L5.no_object", seed=0, **HERE)
def nothing_is_undone(mp: pytest.MonkeyPatch) -> Options:
    return without_act("undo_persist")


# -- who keeps the objects ---------------------------------------------------------------------------------------------


@fault("An undo removes what has the key, whoever made it.", "L9.bytes", seed=3, **HERE)
def undo_by_key(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(Disk, "made_by", lambda self, token, names: iter([name for name in names if name in self.held]))


@fault(
    "Of two persists of one key the last to land wins, not the last that was sent.",
    "L9.bytes",
    seed=72,
    moves=TWICE,
    **ALONE,
)
def the_last_to_land_wins(mp: pytest.MonkeyPatch) -> None:
    persist = Disk.persist

    def forgetful(self: Disk, slot: int, name: Name, token: Token, hidden: int) -> bool:
        if name in self.held:
            self.held[name] = Held(self.held[name].slot, 0)
        return persist(self, slot, name, token, hidden)

    mp.setattr(Disk, "persist", forgetful)


@fault("A persist that was begun before a sweep is carried out after it.", "L9.swept", seed=26, moves=CROSSED, **ALONE)
def nothing_is_void(mp: pytest.MonkeyPatch) -> None:
    sweep = Disk.sweep

    def forgetful(self: Disk, newest: int, *, everything: bool) -> None:
        sweep(self, newest, everything=everything)
        self.void = 0

    mp.setattr(Disk, "sweep", forgetful)


@fault("A slot that is written anew keeps the object that it held.", "L8.bound", seed=0,
       **HERE | {"scope": "a small disk"})  # fmt: skip
def a_slot_keeps_two(mp: pytest.MonkeyPatch) -> None:
    def store(self: Disk, slot: int, content: Bytes) -> None:
        self.let_go(slot)
        self.staged[slot] = content

    mp.setattr(Disk, "store", store)


@fault("What is fetched is not looked at.", "L5.proceed", seed=0, **HERE | {"mix": "faults"})
def nothing_is_checked(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(Disk, "fetch", lambda self, slot, name: self.holds(slot))


@fault("What is found bad stays, and is found again by the next process.", "L5.bad_keys", seed=0,
       **HERE | {"mix": "faults"})  # fmt: skip
def the_bad_stay(mp: pytest.MonkeyPatch) -> None:
    def fetch(self: Disk, slot: int, name: Name) -> Bytes | None:
        held = self.holds(slot)
        return held if held is not None and getattr(held, "key", None) == name[1] else None

    mp.setattr(Disk, "fetch", fetch)


@fault("A persist of before may take the name of an object that was taken in after it.", "L9.bytes", seed=247,
       **TWO | {"mix": "even"})  # fmt: skip
def adopted_and_lost(mp: pytest.MonkeyPatch) -> None:
    adopt = Disk.adopt
    mp.setattr(Disk, "adopt", lambda self, slot, name, newest: adopt(self, slot, name, 0))
