"""What stands in tables on docs/proofs.md: printed from the lists that the checks go by, and never by hand.

    python -m tests.proof.page            write them
    python -m tests.proof.page --check    are they what the lists and the results give? (status 1 if not)

A table stands behind a line that names it, `<!-- table: laws -->`, and an empty one.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kvstate.explore.scopes import QUICK
from kvstate.proof.theorems import THEOREMS
from kvstate.spec.properties import Properties, load_properties
from kvstate.spec.site_words import table
from tests.explore.pins import PINS
from tests.proof.mutants import MUTANTS
from tests.properties.page import GROUPS, RESULTS, SHOWN, groups
from tests.tidy.files import ROOT

PAGE = ROOT / "docs" / "proofs.md"


def laws() -> str:
    """Each law: how much of it is shown how, and which mutants that kills. Errors: `SpecErrors`."""
    listed = load_properties(ROOT / "spec" / "properties.toml", root=ROOT)
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    about = {group.how: group.about for group in GROUPS}
    rows = []
    for law in listed.laws:
        ways = _ways(law.name, listed)
        told = ["; ".join(f"{how} {count}" for how, count in ways if about[how] == of) for of in ("model", "code")]
        rows.append(
            (f"[{law.name}](laws.md#{_anchor(law.name, law.title)}) {law.title}", *told, _killed(law.name, results))
        )
    return table("law | of the model | of the code | mutants that it kills", rows)


def _ways(law: str, listed: Properties) -> list[tuple[str, int]]:
    """How the properties of a law are checked, from the strongest means to the weakest, and how many of them so."""
    found: Counter[str] = Counter()
    for each in (each for each in listed.properties if each.law == law):
        found.update({group.how for check in each.checked_by for group in groups(check)})
    return [(how, found[how]) for how in dict.fromkeys(group.how for group in GROUPS) if found[how]]


def _anchor(name: str, title: str) -> str:
    return f"{name} {title}".lower().replace(" ", "-")


def _killed(law: str, results: Mapping[str, Any]) -> str:
    """The first mutants whose first killer is a check of the law, and how many they are in all."""
    named = [
        one["name"]
        for one in (*results["mutants"], *results["code"])
        if any(re.match(rf"{law}(\.|$)", kill["law"]) for kill in one["killed_by"][:1])
    ]
    if not named:
        return "none by name"
    return f"{', '.join(named[:SHOWN])}{f' and {len(named) - SHOWN:,} more' if len(named) > SHOWN else ''}"


def ways() -> str:
    """Each means: of what it speaks, and the test that runs it."""
    rows = [
        (group.how, group.about, ", ".join(f"`{test}`" for test in group.tests) or "the test that the property names")
        for group in {group.how: group for group in GROUPS}.values()
    ]
    return table("how | of what | by which test", rows)


def scopes() -> str:
    """Each quick scope and its size."""
    rows = [(f"`{scope.name}`", scope.title, *(f"{number:,}" for number in PINS[scope.name])) for scope in QUICK]
    return table("scope | what is in it | states | moves | deepest", rows)


def theorems() -> str:
    """Each theorem and the mutants that it has to kill."""
    rows = [(f"`{one.name}`", one.law, one.claim, "; ".join(MUTANTS[one.name])) for one in THEOREMS]
    return table("theorem | law | what it says | mutants that it kills", rows)


TABLES: dict[str, Callable[[], str]] = {"laws": laws, "ways": ways, "scopes": scopes, "theorems": theorems}
"""What stands behind `<!-- table: NAME -->`."""


def printed(text: str) -> str:
    """The page with its tables as they should be. Errors: `ValueError` if a table has no place, or another one has."""
    if sorted(re.findall(r"(?m)^<!-- table: (\w+) -->$", text)) != sorted(TABLES):
        raise ValueError(f"docs/proofs.md has to have a place for each of these tables, once: {', '.join(TABLES)}")
    place = r"(?m)^<!-- table: (\w+) -->\n\n(?:\|.*\n)*\n?"
    return re.sub(place, lambda at: f"<!-- table: {at[1]} -->\n\n{TABLES[at[1]]().strip()}\n\n", text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the tables; with `--check` only say, by the status 1, that they are others."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.proof.page", description="Print the tables of docs/proofs.md."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is stale")
    check: bool = parser.parse_args(arguments).check
    text = PAGE.read_text(encoding="utf-8")
    made = printed(text)
    if check and made != text:
        print("docs/proofs.md has other tables than its lists give: run make docs", file=sys.stderr)
        return 1
    if not check:
        PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
