"""A pool that others write to: without any of the rules about it a law is broken, in the scope that has one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvstate.explore.moves import System
from kvstate.explore.scopes import SCOPES
from kvstate.explore.search import explore
from kvstate.explore.stage import Rules
from kvstate.explore.tell import tell
from kvstate.machines.acts import Acts
from kvstate.machines.ledger import ACTS
from kvstate.machines.messages import Kind
from kvstate.machines.records import Batch, Seek
from kvstate.machines.seek_acts import SeekActs
from kvstate.machines.shareds import Shareds
from kvstate.testing.scenario import parse, play

MOST = 1500
"""States; each fault is found sooner."""
HINTS = SCOPES["hints"]
Plant = Callable[[pytest.MonkeyPatch], None]


def a_reset_forgets_no_question(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(Shareds, "_call_off", lambda self: None)


def what_is_missing_is_named(mp: pytest.MonkeyPatch) -> None:
    enter = Shareds.conclude

    def conclude(self: Shareds) -> None:
        for seek in self.books.seeks.live.values():
            seek.missing = _Nothing()
        enter(self)

    mp.setattr(Shareds, "conclude", conclude)


class _Nothing(set[int]):
    """Whatever is put in, nothing is in it."""

    def __contains__(self, line: object) -> bool:
        return False


def a_late_answer_counts(mp: pytest.MonkeyPatch) -> None:
    hear = SeekActs.hear_seek

    def patient(self: SeekActs, part: object, effect: str) -> None:
        if effect != "unproved":
            hear(self, part, effect)  # type: ignore[arg-type]

    mp.setattr(Acts, "hear_seek", patient)


def what_vanishes_stays(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(Shareds, "vanish", lambda self, pool, names: 0)


def nothing_is_verified(mp: pytest.MonkeyPatch) -> None:
    def launch_verify(self: Acts, batch: Batch, effect: str) -> None:
        self._launch(batch, "transfer", Kind.VERIFY, 0, at_once=True)

    mp.setattr(Acts, "launch_verify", launch_verify)


def a_found_key_is_sought_on(mp: pytest.MonkeyPatch) -> None:
    def unlist(self: object, seek: Seek, keys: object) -> list[bytes]:
        return []

    mp.setattr("kvstate.machines.records.Seeks.unlist", unlist)


FAULTS: dict[str, tuple[Plant, str]] = {
    "a reset forgets no question": (a_reset_forgets_no_question, "L9.hint"),
    "what is missing is named": (what_is_missing_is_named, "L9.hint"),
    "a late answer counts": (a_late_answer_counts, "L7.clock"),
    "what vanishes stays": (what_vanishes_stays, "L9.hint"),
    "nothing is verified": (nothing_is_verified, "L5.proceed"),
    "a found key is sought on": (a_found_key_is_sought_on, "L7.clock"),
}
"""By what is wrong: how it is planted, and the law that is seen broken."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, law = FAULTS[name]
    plant(monkeypatch)
    found = explore(HINTS._replace(news=1, fails=("timeout",) if law == "L7.clock" else ()), max_states=MOST)
    assert found.broken is not None
    assert found.broken.law == law


@pytest.mark.parametrize("number", ["D40", "D41", "D42", "D43"])
def test_without_a_line_of_the_data_a_law_is_broken(number: str) -> None:
    rules = Rules(acts=[row for row in ACTS if row.id != number])
    fails = {"D41": ("failed",), "D42": ("denied",)}.get(number, ("timeout",))
    found = explore(HINTS._replace(fails=fails, news=0, resets=0), rules, max_states=MOST)
    assert found.broken is not None
    assert found.broken.law in ("L7.clock", "L7.sought")


def test_the_scenario_runner_sees_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moves are told as commands: seek, announce, vanish, others; on what ships the same commands break nothing."""
    with monkeypatch.context() as broken:
        a_reset_forgets_no_question(broken)
        found = explore(HINTS, max_states=MOST)
        assert found.broken is not None
        told = tell(HINTS, Rules(), found.broken)
        assert told.confirmed, told.text
        assert ("seek r1 K1 deadline=1",) in told.commands
    assert not play(parse(told.text, "found.txt")).problems


def test_what_others_do_is_told_as_commands() -> None:
    system = System(HINTS._replace(news=9), Rules())
    said: list[str] = []
    system.said = said.extend
    for move in (
        *(("others", "lose", "K1"), ("others", "have", "K1"), ("others", "spoil", "K1")),
        *(("others", "announce", "K1"), ("others", "vanish", "K1")),
    ):
        assert move in system.moves()
        system.do(move)
        system.look()
    assert said == ["others lose K1", "others have K1", "others spoil K1", "announce K1", "vanish K1"]
    assert system.world.news == 4
    assert ("others", "spoil", "K1") not in system.moves(), "it is spoilt already"
