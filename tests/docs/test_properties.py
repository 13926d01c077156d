"""The list of properties is true to what there is: checks exist, findings bear their names, debts are told."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from kvstate.testing.kit.laws import LAWS as OF_THE_KIT
from tests.tidy.files import ROOT, parsed

DATA = tomllib.loads((ROOT / "spec" / "properties.toml").read_text(encoding="utf-8"))
LAWS = [law["name"] for law in DATA["law"]]
PROPERTIES = {each["name"]: each for each in DATA["property"]}
STATUS = (ROOT / "docs" / "status.md").read_text(encoding="utf-8")
KINDS = {"always", "never", "leads-to", "sometimes"}
CHECKERS = (
    "kvstate/machines/audit.py", "kvstate/replay", "kvstate/testing", "tests/properties", "tests/stateful",
)  # fmt: skip
"""Where a sentence that begins with the name of a property is a finding."""


@cache
def symbols(path: Path) -> frozenset[str]:
    """Functions, classes and methods of a file, methods as `Class.method`."""
    found: set[str] = set()
    for node in parsed(path).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return frozenset(found)


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_is_whole(name: str) -> None:
    each = PROPERTIES[name]
    assert each.keys() == {"name", "law", "kind", "sentence", "checked_by"}
    assert each["law"] in LAWS
    assert name.startswith(f"{each['law']}.")
    assert each["kind"] in KINDS
    assert each["sentence"].strip().endswith(".")


@pytest.mark.parametrize("name", PROPERTIES)
def test_what_checks_a_property_exists(name: str) -> None:
    for check in PROPERTIES[name]["checked_by"]:
        file, separator, symbol = check.partition("::")
        path = ROOT / file
        assert path.is_file(), f"{name} is checked by {file}, which is not there"
        if path.suffix == ".txt":
            assert not separator
        else:
            assert symbol in symbols(path), f"{name} is checked by {symbol}, which is not in {file}"


def test_every_law_has_a_property_that_is_checked() -> None:
    checked = {each["law"] for each in PROPERTIES.values() if each["checked_by"]}
    assert checked == set(LAWS) == {f"L{number}" for number in range(1, 12)}


def test_names_are_given_once() -> None:
    names = [each["name"] for kind in ("law", "property", "assumption") for each in DATA[kind]]
    assert len(names) == len(set(names))


def test_the_debts_are_told() -> None:
    """What nothing checks is listed in the status, and nothing else is."""
    debts = {name for name, each in PROPERTIES.items() if not each["checked_by"]}
    section = STATUS.partition("\n## What nothing checks\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"(?m)^\* `(L\d+\.\w+)`", section)) == debts


def test_a_finding_bears_the_name_of_a_property() -> None:
    """What the kit finds in an engine that it can't look into has names of the kit's own, each under a law of ours."""
    assert {name.partition(".")[0] for name in OF_THE_KIT if "." in name} <= {each["name"] for each in DATA["law"]}
    for place in CHECKERS:
        root = ROOT / place
        for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            for name in re.findall(r"[\"']f?(L\d+\.[a-z_]+)\b", path.read_text(encoding="utf-8")):
                known = OF_THE_KIT if "kit" in path.parts else PROPERTIES
                assert name in known, f"{path.name} speaks of {name}"
