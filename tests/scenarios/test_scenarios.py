"""What went wrong in real engines, retold on the ledger: one file each, and what the files themselves must be like."""

from __future__ import annotations

import contextlib
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvstate.testing import Scenario, ScenarioError, check, parse, play
from tests.scenarios.spec_mutants import ROWS, SPEC, changed, without

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.txt"))
RETOLD = [f"i{number:02}" for number in range(1, 41) if number != 17]
"""All incidents but I17, in which a reader elsewhere looks at generations: it waits for peers."""
STORIES = (HERE.parents[1] / "docs" / "late-callbacks.md").read_text(encoding="utf-8")

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@each_file
def test_the_scenario_holds(path: Path, rewrite: bool) -> None:
    reasons = check(path, rewrite=rewrite)
    assert not reasons, f"{reasons}\nif that is as it should be: pytest tests/scenarios --rewrite-scenarios"


# -- what a file has to be like ----------------------------------------------------------------------------------------


@cache
def read(path: Path) -> Scenario:
    return parse(path.read_text(encoding="utf-8"), path.name)


def test_every_incident_is_retold_once() -> None:
    assert [path.stem.partition("-")[0] for path in FILES] == RETOLD


@each_file
def test_it_says_where_it_comes_from_and_what_answers(path: Path) -> None:
    scenario = read(path)
    assert scenario.title.startswith(f"{path.stem[:3].upper()}: ")
    assert {"Report", "Laws", "Rows"} <= scenario.fields.keys() <= {"Report", "Story", "Laws", "Rows"}
    assert all(re.fullmatch(r"L([1-9]|1[01])", law) for law in scenario.fields["Laws"].split())
    story = scenario.fields.get("Story")
    assert story is None or f"\n## {story}\n" in STORIES, f"docs/late-callbacks.md tells no story {story!r}"


@each_file
def test_the_steps_of_the_story_are_the_steps_that_are_played(path: Path) -> None:
    scenario = read(path)
    told = [int(number) for number in re.findall(r"(?m)^(\d+)\. ", scenario.story)]
    assert told == list(range(1, len(told) + 1)), "the steps of the story are numbered from 1"
    assert told, "there is no story"
    played: set[int] = set()
    for block in scenario.blocks:
        for first, word, last in re.findall(r"Steps? (\d+)(?: (and|to) (\d+))?", block.said):
            played |= set(range(int(first), int(last) + 1)) if word == "to" else {int(first), int(last or first)}
    assert played == set(told), "each step is played, and none that was not told"


@each_file
def test_the_rows_that_it_speaks_of_exist(path: Path) -> None:
    known = set(ROWS) | {coupling.id for coupling in SPEC.couplings} | {act.id for act in SPEC.acts}
    said = "\n".join(part for part in read(path).parts if isinstance(part, str))
    for row in re.findall(r"\b[A-HJKM-Z]\d\d\b", said):
        assert row in known, f"there is no row {row}"


# -- a scenario can fail -----------------------------------------------------------------------------------------------


FAILED = ROWS["O18"][1].effects
"""What a job does that fails when nothing of it flies any more."""


def rows_that_answer() -> list[tuple[Path, str]]:
    return [(path, row) for path in FILES for row in read(path).fields["Rows"].split()]


@pytest.mark.parametrize(("path", "row"), rows_that_answer(), ids=lambda value: getattr(value, "stem", value))
def test_it_fails_without_any_of_the_rows_that_answer(path: Path, row: str) -> None:
    with contextlib.suppress(ScenarioError):  # the next command could not be played
        assert check(path, machines=without(row)) != ""


@pytest.mark.parametrize(
    ("incident", "row", "change", "law"),
    [
        ("i02", "B11", {"unset": "readers"}, "L8.recount: b7 has readers 1, the records say 2"),
        ("i03", "B33", {"unset": "readers"}, "the ledger is poisoned: block.commit: h3 is loading"),
        ("i04", "B13", {"when": "True"}, "L9.bytes: t3 files K9 by r2/1 as K1"),
        ("i06", "P09", {"effects": ()}, "L8.recount: h3 has readers 1, the records say 0"),
        ("i07", "B42", {"to": "free"}, "L3.no_reuse: t5 writes b7, which was given to another"),
        ("i08", "B21", {"to": "free"}, "L3.no_reuse: t3 writes b7, which was given to another"),
        ("i13", "B13", {"when": "True"}, "L3.no_reuse: t2 reads b7, which was given to another"),
        ("i14", "P12", {"effects": ()}, "L3.no_reuse: step 41 writes b7, which was given to another"),
        ("i16", "O20", {"effects": ("ask_cancel",)}, "L9.writing: key 4b31 is being written by job 0"),
        ("i18", "P05", {"effects": ("let_go", "ok")}, "L5.proceed: l1 promises K1, and b7 holds junk"),
        ("i19", "B21", {"to": "free"}, "L3.no_reuse: t11 writes b9, which was given to another"),
        ("i20", "X24", {"effects": ("leave", "ask_cancel")}, "row A22 is among the rows that answer, and did not fire"),
        ("i21", "P18", {"effects": ("let_go",)}, "L4.left: transfer 16 waits for 2 parts, 1 fly for it"),
        ("i22", "X14", {"to": "fell_back", "effects": ("rollback",)}, "the ledger is poisoned: block.rollback: b8"),
        ("i23", "B23", {"unset": "owners"}, "L8.recount: h3 has owners 2, the records say 1"),
        ("i24", "P08", {"to": "failed", "effects": ("let_go",)}, "L3.no_reuse: h4 is free and t3 is not over"),
        ("i25", "X41", {"effects": ("over",)}, "L4.no_orphan: fetch part t8 flies for nobody"),
        ("i26", "B20", {"sources": ("open", "loading", "cached")}, "should be poisoned in the end, and is not"),
        ("i27", "X22", {"effects": ("name", "commit")}, "the ledger is poisoned: block.publish: b7 is loading"),
        ("i28", "B13", {"when": "True"}, "L3.no_reuse: t2 reads b8, which was given to another"),
        ("i29", "O56", {"effects": ("release_dst", "tell_failed")}, "L4.no_orphan: persist part t4 flies for nobody"),
        ("i30", "B21", {"to": "free"}, "L3.no_reuse: b7 is free and t1 is not over"),
        ("i31", "A02", {"effects": ("tell_aborted",)}, "row X21 is among the rows that answer, and did not fire"),
        ("i32", "P18", {"effects": ("let_go",)}, "L4.left: transfer 14 waits for 1 parts, 0 fly for it"),
        ("i33", "X11", {"unset": "left"}, "L4.left: transfer 13 waits for 1 parts, 4 fly for it"),
        ("i34", "O53", {"effects": ("release_dst", "tell_cancelled")}, "L8.recount: b8 has readers 1"),
        ("i35", "O17", {"to": "failed", "effects": FAILED}, "L4.no_orphan: store part t2 flies for nobody"),
        ("i36", "B27", {"to": "free"}, "L3.no_reuse: b7 is free and t1 is not over"),
        ("i37", "O02", {"effects": ("tell_cancelled",)}, "L8.recount: h4 has owners 1, the records say 0"),
        ("i38", "O55", {"effects": ("release_dst", "tell_failed")}, "L4.no_orphan: store part t1 flies for nobody"),
        ("i40", "X35", {"effects": ("unpin", "fell", "over")}, "L5.loading_named: b7 is loading, and nothing fills it"),
    ],
)
def test_a_law_is_seen_broken_whatever_the_file_says(incident: str, row: str, change: dict[str, Any], law: str) -> None:
    path = FILES[RETOLD.index(incident)]
    problems = play(read(path), machines=changed(row, **change)).problems
    assert any(law in problem for problem in problems), problems
