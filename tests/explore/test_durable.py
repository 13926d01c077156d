"""What outlives the process: without any of the rules about it a law is broken, in the scopes that have such a pool."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvstate.explore.matter import Flight
from kvstate.explore.moves import System
from kvstate.explore.objects import Objects
from kvstate.explore.scopes import SCOPES
from kvstate.explore.search import explore
from kvstate.explore.stage import Rules
from kvstate.explore.tell import tell
from kvstate.machines.durables import Durables
from kvstate.machines.messages import Adopt, Sweep, Undo, Work
from kvstate.testing.scenario import parse, play
from tests.long import long_but

MOST = 800
"""States; each fault is found sooner."""
Plant = Callable[[pytest.MonkeyPatch], None]


def nothing_is_swept(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(Durables, "_keepers", lambda self: iter(()))


def swept_before_it_is_adopted(mp: pytest.MonkeyPatch) -> None:
    adopt = Durables._adopt

    def reversed_(self: Durables, *args: object) -> None:
        first = len(self.books.effects)
        adopt(self, *args)  # type: ignore[arg-type]
        self.books.effects[first:] = self.books.effects[first:][::-1]

    mp.setattr(Durables, "_adopt", reversed_)


def the_wrong_block_is_named(mp: pytest.MonkeyPatch) -> None:
    hear = Objects.hear

    def confused(self: Objects, effect: Undo | Adopt | Sweep, newest: int) -> None:
        if isinstance(effect, Adopt):
            effect = effect._replace(blocks=tuple(block - 1 for block in effect.blocks))
        hear(self, effect, newest)

    mp.setattr(Objects, "hear", confused)


def nothing_is_void(mp: pytest.MonkeyPatch) -> None:
    hear = Objects.hear

    def forgetful(self: Objects, effect: Undo | Adopt | Sweep, newest: int) -> None:
        hear(self, effect, newest)
        self.void = 0

    mp.setattr(Objects, "hear", forgetful)


def an_undo_goes_by_the_key(mp: pytest.MonkeyPatch) -> None:
    def undo(self: Objects, undo: Undo | Work) -> None:
        for key in undo.keys:
            self.kept.pop(key.decode(), None)

    mp.setattr(Objects, "undo", undo)


def the_last_to_land_wins(mp: pytest.MonkeyPatch) -> None:
    persist = Objects._persist

    def forgetful(self: Objects, flight: Flight, line: int, contents: list[str]) -> None:
        for there in self.kept.values():
            there.serial = 0
        persist(self, flight, line, contents)

    mp.setattr(Objects, "_persist", forgetful)


FAULTS: dict[str, tuple[str, Plant, str]] = {
    "nothing is swept": ("recover", nothing_is_swept, "L9.swept"),
    "swept before it is adopted": ("recover", swept_before_it_is_adopted, "L9.bytes"),
    "the wrong block is named": ("recover", the_wrong_block_is_named, "L9.bytes"),
    "nothing is void": ("tiers", nothing_is_void, "L9.swept"),
    "an undo goes by the key": ("twice", an_undo_goes_by_the_key, "L9.bytes"),
    "the last to land wins": ("twice", the_last_to_land_wins, "L9.bytes"),
}
"""By what is wrong: the scope, how it is planted, and the law that is seen broken."""


@pytest.mark.parametrize("name", long_but(list(FAULTS)[::3], FAULTS))
def test_a_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scope, plant, law = FAULTS[name]
    plant(monkeypatch)
    found = explore(SCOPES[scope], max_states=MOST)
    assert found.broken is not None
    assert found.broken.law == law


def test_the_scenario_runner_sees_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moves are told as commands: kill, recover, reset; on what ships the same commands break nothing."""
    with monkeypatch.context() as broken:
        nothing_is_swept(broken)
        found = explore(SCOPES["recover"], max_states=MOST)
        assert found.broken is not None
        told = tell(SCOPES["recover"], Rules(), found.broken)
        assert told.confirmed, told.text
        assert ("reset",) in told.commands
    assert not play(parse(told.text, "found.txt")).problems


def test_a_killed_process_is_told_as_two_commands() -> None:
    system = System(SCOPES["recover"], Rules())
    said: list[str] = []
    system.said = said.extend
    for move in (("open", 0), ("go", 0), ("go", 0), ("go", 0), ("land", 0), ("deliver", 0, ""), ("land", 0)):
        assert move in system.moves()
        system.do(move)
    system.do(("restart",))
    system.look()
    assert said[-2:] == ["restart", "recover"]
    assert ("restart",) not in system.moves()
    assert [(there.content, there.adopted) for there in system.world.objects.kept.values()] == [("K1", True)]
    assert not system.world.runs[0].lease
    system.do(("open", 1))
    system.do(("go", 1))
    assert system.world.runs[1].hit, "what was not told to anybody was found, and is a hit"
