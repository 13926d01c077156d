"""What holds of every scenario that retells no incident: its text is what happens, and its rows matter.

What is told of one folder alone stands in the file of its name.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest

from kvstate.testing import ScenarioError, check
from tests.scenarios.spec_mutants import ROWS, without
from tests.scenarios.test_scenarios import read

HERE = Path(__file__).parent
FIELDS = {folder: {"Laws", "Rows"} for folder in ("choices", "durable", "shared", "tiers")} | {
    "foreign": {"Report", "Laws", "Rows"}
}
"""By folder, what the head of a file says."""
FILES = [path for folder in FIELDS for path in sorted((HERE / folder).glob("*.txt"))]

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")


def test_every_folder_is_here() -> None:
    assert {path.name for path in HERE.iterdir() if any(path.glob("*.txt"))} == FIELDS.keys()


@each_file
def test_the_scenario_holds(path: Path, rewrite: bool) -> None:
    reasons = check(path, rewrite=rewrite)
    assert not reasons, f"{reasons}\nif that is as it should be: pytest tests/scenarios --rewrite-scenarios"


@each_file
def test_its_steps_are_played_and_its_rows_exist(path: Path) -> None:
    scenario = read(path)
    assert FIELDS[path.parent.name] == scenario.fields.keys()
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
