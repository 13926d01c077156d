"""`spec/peers/properties.toml` keeps its rules, and what it names is there."""

from __future__ import annotations

import json
import re
import tomllib

import pytest

from kvstate.spec import spec_dir
from kvstate.spec.loader import load_spec
from kvstate.spec.properties import load_properties
from tests.tidy.files import ROOT

FILE = spec_dir() / "peers" / "properties.toml"
PAGE = (ROOT / "docs" / "handoff.md").read_text(encoding="utf-8")
STORIES = {re.sub(r"[^a-z]+", "-", title.lower()) for title in re.findall(r"(?m)^## (The .+)$", PAGE)}


def test_the_file_is_whole_and_its_checks_are_there() -> None:
    found = load_properties(FILE, root=ROOT)
    assert [law.name for law in found.laws] == [f"P{number}" for number in range(1, 8)]
    assert all(one.checked_by for one in found.properties)


def test_an_editor_agrees() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schemas = spec_dir() / "schema"
    for name in ("properties", "coupling", "machine"):
        schema = json.loads((schemas / f"{name}.schema.json").read_text(encoding="utf-8"))
        files = [FILE.parent / f"{name}.toml"]
        if name == "machine":
            files = [FILE.parent / machine.file for machine in load_spec(FILE.parent).machines]
        for file in files:
            data = tomllib.loads(file.read_text(encoding="utf-8"))
            assert list(jsonschema.Draft202012Validator(schema).iter_errors(data)) == [], file.name


def test_the_page_names_each_law_and_each_story_that_a_row_points_at() -> None:
    for law in load_properties(FILE).laws:
        assert f"| {law.name} | {law.title} |" in PAGE
    spec = load_spec(FILE.parent)
    texts = [row.why for machine in spec.machines for row in machine.rows]
    texts += [machine.doc for machine in spec.machines] + [one.why for one in spec.couplings]
    texts += [one.sentence for one in load_properties(FILE).properties]
    named = {name for text in texts for name in re.findall(r"\bthe(?:-[a-z]+){2,}", text)}
    assert named == STORIES


def test_the_page_shows_the_pictures_and_only_rows_that_exist() -> None:
    spec = load_spec(FILE.parent)
    for name in [machine.name for machine in spec.machines]:
        assert f"pictures/{name}.svg" in PAGE
    ids = {row.id for machine in spec.machines for row in machine.rows}
    assert set(re.findall(r"\b[GHRV]\d\d\b", PAGE)) <= ids
