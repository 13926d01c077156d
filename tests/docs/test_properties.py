"""The list of properties is true to what there is: every law is checked, findings bear their names, debts are told.

That it is whole, and that each check that it names is there, are rules of its loader (`tests/spec/test_properties.py`).
"""

from __future__ import annotations

import re

from kvstate.spec.properties import load_properties
from kvstate.testing.kit.laws import LAWS as OF_THE_KIT
from tests.tidy.files import ROOT

DATA = load_properties(ROOT / "spec" / "properties.toml", root=ROOT)
LAWS = [law.name for law in DATA.laws]
PROPERTIES = {each.name: each for each in DATA.properties}
STATUS = (ROOT / "docs" / "status.md").read_text(encoding="utf-8")
CHECKERS = (
    "kvstate/machines/audit.py", "kvstate/explore", "kvstate/replay", "kvstate/testing", "tests/properties",
    "tests/stateful",
)  # fmt: skip
"""Where a sentence that begins with the name of a property is a finding."""


def test_every_law_has_a_property_that_is_checked() -> None:
    checked = {each.law for each in PROPERTIES.values() if each.checked_by}
    assert checked == set(LAWS) == {f"L{number}" for number in range(1, 12)}


def test_the_debts_are_told() -> None:
    """What nothing checks is listed in the status, and nothing else is."""
    debts = {name for name, each in PROPERTIES.items() if not each.checked_by}
    section = STATUS.partition("\n## What nothing checks\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"(?m)^\* `(L\d+\.\w+)`", section)) == debts


def test_a_finding_bears_the_name_of_a_property() -> None:
    """What the kit finds in an engine that it can't look into has names of the kit's own, each under a law of ours."""
    assert {name.partition(".")[0] for name in OF_THE_KIT if "." in name} <= set(LAWS)
    for place in CHECKERS:
        root = ROOT / place
        for path in sorted(root.rglob("*.py")) if root.is_dir() else [root]:
            for name in re.findall(r"[\"']f?(L\d+\.[a-z_]+)\b", path.read_text(encoding="utf-8")):
                known = OF_THE_KIT if "kit" in path.parts else PROPERTIES
                assert name in known, f"{path.name} speaks of {name}"
