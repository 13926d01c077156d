"""The stories of `docs/late-callbacks.md`, the scenarios that play them, and the rows that point at them, agree."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from kvstate.spec.loader import load_spec
from kvstate.testing import Scenario, check, parse
from tests.tidy.files import ROOT

SPEC = load_spec(check=False)
ROWS = {row.id for machine in SPEC.machines for row in machine.rows}
IDS = ROWS | {coupling.id for coupling in SPEC.couplings} | {act.id for act in SPEC.acts}
HERE = Path(__file__).parent
SCENARIOS = sorted([*HERE.glob("*.txt"), *(ROOT / "tests" / "scenarios").glob("*.txt")])
PATH = ROOT / "docs" / "late-callbacks.md"
STORIES = dict(re.findall(r"(?ms)^## (.+?)\n(.*?)(?=^## |\Z)", PATH.read_text(encoding="utf-8")))

PROPERTY = "a property"

each_story = pytest.mark.parametrize("title", STORIES)


def slug(title: str) -> str:
    """`the-first-failure`, as a `why` points at it."""
    return re.sub(r"[^a-z]+", "-", title.lower())


SLUGS = {slug(title) for title in STORIES}


@cache
def read(path: Path) -> Scenario:
    return parse(path.read_text(encoding="utf-8"), path.name)


def steps(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"(?m)^(\d+)\. ", text)]


def played_in(title: str) -> list[Path]:
    found = re.search(r"(?ms)^\*\*Played in\*\* (.+?)\.$", STORIES[title])
    assert found, f"{title}: no scenario is named"
    return [ROOT / name for name in re.findall(r"`(.+?)`", found[1])]


# -- stories -----------------------------------------------------------------------------------------------------------


@each_story
def test_a_story_has_its_parts(title: str) -> None:
    text = STORIES[title]
    assert steps(text) == list(range(1, len(steps(text)) + 1))
    parts = [text.find(f"\n**{part}") for part in ("The fix.**", "The price.**", "Played in**")]
    assert -1 not in parts
    assert parts == sorted(parts)


@each_story
def test_the_rows_that_it_names_exist(title: str) -> None:
    named = re.findall(r"\b[A-Z]\d\d\b", STORIES[title])
    assert named, "no row is named"
    assert set(named) <= IDS, f"there is no {', '.join(sorted(set(named) - IDS))}"


@each_story
def test_its_scenarios_play_it(title: str) -> None:
    """All of them point back at it, and the first tells the same steps under the same numbers."""
    paths = played_in(title)
    for path in paths:
        assert path.exists(), f"{title} is played in {path.name}, which is not there"
        assert read(path).fields.get("Story") == title
    assert steps(read(paths[0]).story) == steps(STORIES[title])


def test_every_scenario_of_a_story_is_listed_there() -> None:
    told = {path: read(path).fields["Story"] for path in SCENARIOS if "Story" in read(path).fields}
    listed = {path: title for title in STORIES for path in played_in(title)}
    assert listed == told


# -- who points at them ------------------------------------------------------------------------------------------------


def sayings() -> list[tuple[str, str]]:
    """Every text of the spec that may point at a story, and where it stands."""
    found = [(f"{coupling.id}", coupling.why) for coupling in SPEC.couplings]
    found += [(f"{act.id}", act.why) for act in SPEC.acts]
    for machine in SPEC.machines:
        found.append((machine.name, machine.doc))
        found += [(row.id, row.why) for row in machine.rows]
    properties = tomllib.loads((ROOT / "spec" / "properties.toml").read_text(encoding="utf-8"))
    return found + [(PROPERTY, each["sentence"]) for each in properties["property"]]


def pointers() -> list[tuple[str, str]]:
    """Words of three or more parts, joined by hyphens. The spec has no others."""
    return [(place, word.lower()) for place, text in sayings() for word in re.findall(r"\b\w+(?:-\w+){2,}", text)]


def test_whoever_points_at_a_story_points_at_one_that_is_told() -> None:
    wrong = {(place, word) for place, word in pointers() if word not in SLUGS}
    assert not wrong, f"docs/late-callbacks.md has no such story: {wrong}"


def test_every_story_is_pointed_at_by_a_row_and_by_a_property() -> None:
    rows = Counter(word for place, word in pointers() if place in IDS)
    properties = Counter(word for place, word in pointers() if place == PROPERTY)
    assert set(rows) == SLUGS
    assert set(properties) == SLUGS


# -- the scenarios that are here because only a story asks for them ----------------------------------------------------


@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_the_scenario_holds(path: Path) -> None:
    assert check(path) == ""
    scenario = read(path)
    assert slug(scenario.title) == path.stem
    assert set(scenario.fields["Rows"].split()) <= ROWS
    played: set[int] = set()
    for block in scenario.blocks:
        played |= {int(number) for number in re.findall(r"Step (\d+)", block.said)}
    assert sorted(played) == steps(scenario.story)
