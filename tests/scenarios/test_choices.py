"""What no law says and a reader of verdicts and records goes by all the same, pinned by a scenario each.

A fault in these rows breaks no law: something is found out later, or told with less. Only the answers here are others.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import pytest

from kvstate.testing import ScenarioError, check
from tests.scenarios.spec_mutants import ROWS, changed, without
from tests.scenarios.test_scenarios import read

FILES = sorted((Path(__file__).parent / "choices").glob("*.txt"))
LATE_WORD = FILES[0]

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@each_file
def test_the_scenario_holds(path: Path, rewrite: bool) -> None:
    reasons = check(path, rewrite=rewrite)
    assert not reasons, f"{reasons}\nif that is as it should be: pytest tests/scenarios --rewrite-scenarios"


@each_file
def test_its_steps_are_played_and_its_rows_exist(path: Path) -> None:
    scenario = read(path)
    assert {"Laws", "Rows"} == scenario.fields.keys()
    told = [int(number) for number in re.findall(r"(?m)^(\d+)\. ", scenario.story)]
    played = {int(step) for block in scenario.blocks for step in re.findall(r"Step (\d+)", block.said)}
    assert told == list(range(1, len(told) + 1))
    assert played == set(told)
    assert set(scenario.fields["Rows"].split()) <= ROWS.keys()


def rows_that_answer() -> list[tuple[Path, str]]:
    return [(path, row) for path in FILES for row in read(path).fields["Rows"].split()]


@pytest.mark.parametrize(("path", "row"), rows_that_answer(), ids=lambda value: getattr(value, "stem", value))
def test_it_fails_without_any_of_the_rows_that_answer(path: Path, row: str) -> None:
    with contextlib.suppress(ScenarioError):  # the next command could not be played
        assert check(path, machines=without(row)) != ""


@pytest.mark.parametrize("change", [{"to": state} for state in ("landed", "failed", "stopped", "gone")], ids=str)
def test_what_a_late_witness_says_is_written_down(change: dict[str, Any]) -> None:
    assert check(LATE_WORD, machines=changed("P16", **change)) != ""
