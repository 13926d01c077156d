"""docs/proofs.md says of the quick scopes what is pinned."""

from __future__ import annotations

import re

from kvstate.explore.scopes import QUICK
from tests.explore.pins import NEVER, PINS
from tests.tidy.files import ROOT

PAGE = (ROOT / "docs" / "proofs.md").read_text(encoding="utf-8")
SECTION = re.split(r"(?m)^## ", PAGE.partition("## Exhaustive in scope\n")[2])[0]


def test_the_table_is_that_of_the_pins() -> None:
    rows = [
        f"| `{scope.name}` | {scope.title} | {pin.states:,} | {pin.moves:,} | {pin.depth} |"
        for scope, pin in zip(QUICK, PINS.values(), strict=True)
    ]
    assert re.findall(r"(?m)^\| `.*$", SECTION) == rows


def test_the_rows_that_never_fire_are_listed() -> None:
    assert f"these fire in no quick scope: {NEVER}." in " ".join(SECTION.split())
