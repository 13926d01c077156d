"""Each rung kills something, and what kills nothing says why it may be harmless."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvstate.explore.moves import System
from kvstate.explore.scopes import SCOPES
from kvstate.explore.stage import Rules
from kvstate.machines.acts import Acts
from kvstate.mutation import checkout, ladder, planted, static, unfired
from kvstate.mutation.graph import firing, look
from kvstate.mutation.kills import Kill
from kvstate.mutation.ladder import Ladder
from kvstate.mutation.lockstep import SAME, Asked, differing
from kvstate.mutation.mutants import Mutant
from kvstate.spec.model import Machine
from tests.explore.pins import NEVER, PINS
from tests.mutation.parts import MUTANTS, SCOPE, SPEC, around, reached, small


def machine_of(name: str) -> Machine | None:
    one = MUTANTS[name]
    return None if one.coupled else SPEC.machine(one.machine)


# -- the data alone ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kill"),
    [
        ("B01 deleted", Kill("loader", "events_are_answered")),
        ("P10 deleted", Kill("loader", "reports_have_rows_everywhere", "L6.total")),
        ("O20 without ask_cancel", None),
        ("C07 deleted", Kill("loader", "signals_are_fired")),
        ("K09 without wait_warm", Kill("loader", "couplings name effects that rows have")),
    ],
)
def test_the_loader_kills(name: str, kill: Kill | None) -> None:
    found = list(static.by_loader(MUTANTS[name]))
    assert kill in found if kill else not found


@pytest.mark.parametrize(
    ("name", "kill"),
    [
        ("B04 without its guard", Kill("z3", "an invariant is kept")),
        ("O45 deleted", Kill("z3", "a report has a gap", "L6.total")),
        ("O18 with the opposite guard", Kill("z3", "guards are disjoint")),
    ],
)
def test_z3_kills(name: str, kill: Kill) -> None:
    assert kill in list(static.by_z3(MUTANTS[name], machine_of(name)))


@pytest.mark.long
def test_z3_asks_of_one_row_what_it_would_ask_of_all() -> None:
    """What is left out of the question has no fault, so no finding is lost."""
    from kvstate.proof.rows import check_rows

    for name in ("B21 leads to free", "B21 deleted", "K05 leads to ready", "B24 without the condition published"):
        machine = MUTANTS[name].spec.machine(MUTANTS[name].machine)
        assert bool(check_rows(machine)) == any(static.by_z3(MUTANTS[name], machine_of(name)))
    assert not list(static.by_z3(MUTANTS["C03 deleted"], None))


@pytest.mark.parametrize(
    ("name", "kill"),
    [
        ("B21 leads to free", Kill("rows", "a_life_ends_once", "L2.life")),
        ("O31 stays where it was", Kill("rows", "a_job_tells_its_end", "L1.end_told")),
        ("O41 keeps attempt", Kill("rows", "a_retry_is_counted", "L7.attempts")),
    ],
)
def test_a_law_of_the_rows_kills(name: str, kill: Kill) -> None:
    assert kill in list(static.by_rows(MUTANTS[name]))


def test_a_theorem_kills_and_only_those_are_asked_that_look_there() -> None:
    name = "P07 without lose"
    asked = static.theorems_about(
        MUTANTS[name], {"counters": frozenset({"part", "block"}), "one_end": frozenset({"load"})}
    )
    assert asked == ["counters"]
    assert list(static.by_theorem(MUTANTS[name], asked)) == [Kill("theorem", "counters", "L8")]
    assert static.theorems_about(MUTANTS["D02 deleted"], {"one_end": frozenset({"load"})}) == ["one_end"]


@pytest.mark.long
def test_which_machines_a_theorem_reads() -> None:
    read = static.machines_read(replace(SPEC))
    assert {"part", "block"} <= read["counters"]
    assert "block" not in read["one_settlement"]


def test_a_prover_that_gives_up_kills_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "check_rows", lambda *_, **__: ["block.toml: the prover gave up (timeout); nothing"])
    assert not list(static.by_z3(MUTANTS["B04 without its guard"], machine_of("B04 without its guard")))


def test_a_condition_that_the_invariant_implies_makes_no_difference() -> None:
    same = MUTANTS["B34 without the condition writers == 0"]
    assert static.equal(same, SPEC.machine("block"))
    assert not static.equal(MUTANTS["B04 without its guard"], SPEC.machine("block"))
    assert not static.equal(MUTANTS["B01 deleted"], SPEC.machine("block"))
    assert not static.equal(MUTANTS["B21 keeps owners"], SPEC.machine("block"))


# -- the ledger --------------------------------------------------------------------------------------------------------


def test_the_explorer_kills() -> None:
    broken = look(SCOPES[SCOPE], planted.rules(MUTANTS["O03 without release_dst"]), 600)
    assert broken is not None
    assert broken.law == "L8.recount"


def test_it_looks_at_so_many_states_and_no_more() -> None:
    assert look(SCOPES[SCOPE], planted.rules(MUTANTS["O03 without release_dst"]), 20) is None
    assert look(SCOPES[SCOPE], Rules(), 200) is None


@pytest.mark.long
def test_where_a_row_fires() -> None:
    assert firing({SCOPE: reached()}, ["O01", "X01"]) == [(reached().first["O01"], SCOPE)]
    assert firing({SCOPE: reached()}, ["X01"]) == []
    assert reached().states == PINS[SCOPE].states


def lockstep(**asked: tuple[Mutant, str]) -> dict[str, int]:
    """What the scope shows of these mutants; each with the row that has to fire."""
    named = [Asked(replace(mutant, name=name), (row,)) for name, (mutant, row) in asked.items()]
    return differing(SPEC, SCOPES[SCOPE], named)


@pytest.mark.long
def test_which_mutants_have_another_state_graph() -> None:
    """Of one search: what ships and what makes no difference are the same to the end, what is different is not."""
    same = replace(MUTANTS["O01 deleted"], spec=SPEC)
    found = lockstep(
        same=(same, "O01"),
        at_home=(replace(MUTANTS["B24 leads to free"], spec=SPEC), "B24"),
        broken=(MUTANTS["O03 without release_dst"], "O03"),
        redirected=(MUTANTS["K04 leads to ready"], "K04"),
        idle_guard=(MUTANTS["B06 without the condition readers == 0"], "B06"),
        guard=(MUTANTS["O11 with the opposite guard"], "O11"),
        unreached=(MUTANTS["X01 without launch"], "X01"),
    )
    assert {name for name, states in found.items() if states == SAME} == {"same", "at_home", "idle_guard"}
    assert {name for name, states in found.items() if states != SAME} == {"broken", "redirected", "guard"}


def test_a_beginning_that_is_another_one_is_another_graph() -> None:
    """In this scope the host holds a key at the beginning, and a mutant may not come so far."""
    asked = [Asked(MUTANTS["O01 deleted"], ("O01",)), Asked(replace(MUTANTS["O02 deleted"], spec=SPEC), ("O02",))]
    scope = SCOPES["store-load"]._replace(given="K1", depth=1)
    assert differing(SPEC, scope, asked) == {"O01 deleted": 1}


def test_what_is_told_is_part_of_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict that says something else changes no state of this scope, and shows all the same."""
    tell = Acts.tell_job
    made: list[object] = []

    def other(self: Acts, job: Any, effect: str) -> None:
        tell(self, job, effect)
        if self.books is not made[0]:
            told: Any = self.books.verdicts[-1]
            self.books.verdicts[-1] = told._replace(keys=(b"another",))

    begun = System.__init__

    def begin(self: System, *arguments: Any) -> None:
        begun(self, *arguments)
        made.append(self.ledger.books)

    monkeypatch.setattr(System, "__init__", begin)
    monkeypatch.setattr(Acts, "tell_job", other)
    assert lockstep(told=(replace(MUTANTS["O30 deleted"], spec=SPEC), "O30"))["told"] != SAME


@pytest.mark.parametrize(
    ("mutant", "scenario", "kill"),
    [
        ("B42 leads to free", "i07-the-peer-that-died", Kill("scenario", "i07-the-peer-that-died", "L3.no_reuse")),
        ("X22 says name before commit", "i27-visible-before-it-was-there", None),
    ],
)
def test_a_scenario_kills(mutant: str, scenario: str, kill: Kill | None) -> None:
    found = list(around().by_scenario(scenario, planted.rules(MUTANTS[mutant])))
    assert [one.means for one in found] == ["scenario"]
    assert kill is None or found == [kill]


def test_a_scenario_holds_without_a_fault() -> None:
    assert not list(around().by_scenario("i07-the-peer-that-died", Rules()))


def test_a_walk_kills() -> None:
    walk = checkout.Walk("ledger", "two ranks", "loads", 3)
    assert not list(around().by_walk(walk, Rules()))
    found = list(around().by_walk(walk, planted.rules(MUTANTS["C06 deleted"])))
    assert [one.means for one in found] == ["walk"]
    assert checkout.Walk.of(str(walk)) == walk


# -- the whole of it ---------------------------------------------------------------------------------------------------


def test_the_first_kill_is_told_or_all_of_them() -> None:
    judge = Ladder(SPEC, small(), around())
    first = judge.judge(MUTANTS["B21 leads to free"])
    every = judge.judge(MUTANTS["B21 leads to free"], every=True)
    assert first is not None
    assert every is not None
    assert first.killed_by == (Kill("rows", "a_life_ends_once", "L2.life"),)
    assert [kill.means for kill in every.killed_by] == ["rows", "z3"]
    assert every.verdict == "killed"


def test_what_nothing_kills_is_left_for_lockstep(monkeypatch: pytest.MonkeyPatch) -> None:
    for rung in ("by_loader", "by_rows", "by_z3"):
        monkeypatch.setattr(static, rung, lambda *_: iter(()))
    same = replace(MUTANTS["O01 deleted"], spec=SPEC)
    assert Ladder(SPEC, small(), around()).judge(same) is None


@pytest.mark.long
def test_what_lockstep_says_decides() -> None:
    same = replace(MUTANTS["O01 deleted"], spec=SPEC)
    judge = Ladder(SPEC, small(reach={SCOPE: reached()}), around())
    assert judge.asked(same, SCOPE) == Asked(same, ("O01",))
    assert judge.asked(MUTANTS["X01 without launch"], SCOPE) is None
    assert judge.finish(same, {SCOPE: SAME}).note == f"identical state graph in {SCOPE}"
    assert judge.finish(same, {SCOPE: SAME}).verdict == "harmless"
    assert judge.finish(same, {SCOPE: 1}).killed_by == (Kill("count", f"{SCOPE}: another state graph"),)
    broken = judge.finish(MUTANTS["O03 without release_dst"], {SCOPE: 1})
    assert broken.killed_by == (Kill("explorer", SCOPE, "L8.recount"),)
    nowhere = Ladder(SPEC, small(), around()).finish(same, {})
    assert (nowhere.verdict, nowhere.note) == ("survived", "no scope reaches it")


def test_a_row_that_is_shown_not_to_fire_makes_no_difference() -> None:
    mutant = MUTANTS["X02 says unpin before rollback"]
    judge = Ladder(SPEC, small(), around())
    assert judge.at_once(mutant) is None, "no rung kills it"
    shown = judge.finish(mutant, {})
    assert shown.verdict == "harmless"
    assert shown.note.startswith("L7.started: ")
    assert unfired.why(SPEC, MUTANTS["O01 deleted"]) == "", "of that row nothing is shown"
    assert unfired.why(SPEC, replace(mutant, kind="guard dropped")) == "", "another guard may fire elsewhere"


def test_what_fires_after_all_is_not_shown_not_to() -> None:
    mutant = MUTANTS["X02 says unpin before rollback"]
    fires = Ladder(SPEC, small(scenarios={"i07-the-peer-that-died": ["X02"]}), around())
    assert fires.finish(mutant, {}).verdict == "survived"
    machine = SPEC.machine("load")
    start = replace(machine.row("A01"), effects=("start", "expire"))
    rows = tuple(start if row.id == "A01" else row for row in machine.rows)
    whole = tuple(replace(machine, rows=rows) if one is machine else one for one in SPEC.machines)
    assert unfired.why(SPEC, replace(mutant, spec=replace(SPEC, machines=whole))) == ""


def test_every_row_that_is_shown_not_to_fire_is_of_the_spec_and_no_scope_fires_it() -> None:
    assert set(unfired.SHOWN) <= {row.id for machine in SPEC.machines for row in machine.rows}
    assert set(unfired.SHOWN) <= set(NEVER.split())


def test_the_scenarios_of_all_folders_are_there() -> None:
    names = set(around().scenarios)
    assert {"i07-the-peer-that-died", "foreign/i05-received-and-sent-at-once"} <= names
    files = list((around().root / "tests" / "scenarios").rglob("*.txt"))
    assert len(names) == len(files)


def test_a_check_that_does_not_end_is_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "SECONDS", 0.05)

    def for_ever() -> list[Kill]:
        while True:
            pass

    assert list(ladder._ended("walk", "ledger/one rank/even/1", for_ever)) == [
        Kill("walk", "ledger/one rank/even/1: goes on without end")
    ]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("B21 leads to free", None),
        ("B21 leads to free", Kill("rows", "a_life_ends_once", "L2.life")),
        ("O03 without release_dst", Kill("explorer", "queue", "L8.recount")),
        ("B42 leads to free", Kill("scenario", "i07-the-peer-that-died", "L3.no_reuse")),
        ("P07 without lose", Kill("theorem", "counters", "L8")),
    ],
)
def test_a_check_that_killed_before_is_asked_first(name: str, hint: Kill | None) -> None:
    result = Ladder(SPEC, None, around()).at_once(MUTANTS[name], hint)
    assert result is not None
    assert result.verdict == "killed"
    assert hint is None or result.killed_by[0].means in (hint.means, "rows")


def test_a_check_that_is_gone_is_no_answer() -> None:
    judge = Ladder(SPEC, None, around())
    mutant = MUTANTS["O03 without release_dst"]
    assert judge.at_once(mutant, Kill("scenario", "i99-nothing")) is None
    assert judge.at_once(mutant, Kill("count", "queue: another state graph")) is None
    assert judge.at_once(mutant) is None
