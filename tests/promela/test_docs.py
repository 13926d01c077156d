"""docs/spin.md has the numbers that are pinned, and the laws with the faults that break them."""

from __future__ import annotations

import re

from kvstate.explore.scopes import QUICK
from kvstate.promela.printer import LAWS
from tests.promela.pins import STATES
from tests.proof.test_spin import BROKEN
from tests.tidy.files import ROOT

PAGE = (ROOT / "docs" / "spin.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| `")]


def test_the_page_has_the_number_of_every_scope() -> None:
    told = {row[0].strip("`"): row[1:] for row in ROWS if row[1][0].isdigit()}
    assert told == {name: [f"{count:,}"] * 2 for name, count in STATES.items()}


def test_the_page_has_every_law_and_its_fault() -> None:
    told = {row[0].strip("`"): row[2].split("; ") for row in ROWS if not row[1][0].isdigit()}
    assert told == {law: [fault for fault, (broken, _, _) in BROKEN.items() if broken == law] for law in LAWS}
    assert list(told) == list(LAWS)


def test_every_quick_scope_is_printed_or_the_page_says_why_it_is_not() -> None:
    listed = [name for line in re.findall(r"(?m)^\* (`[^:]+`):", PAGE) for name in re.findall(r"`([a-z-]+)`", line)]
    assert sorted([*STATES, *listed]) == sorted(scope.name for scope in QUICK)
