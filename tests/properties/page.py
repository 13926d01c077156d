"""docs/laws.md: each law, how it is proved, of what, by which test, and which faults its checks were seen to catch.

    python -m tests.properties.page            write it
    python -m tests.properties.page --check    is it what the lists and the results give? (status 1 if not)

Nothing of it is written by hand. What checks a property is its `checked_by` in `spec/properties.toml`, and `GROUPS`
says by which test each of these places is run; theorems, scopes and breaks are read from the lists that their tests go
by; what the mutants of the spec were killed by is read from the results of `kvstate mutate`.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kvstate.explore.scopes import QUICK
from kvstate.proof.theorems import THEOREMS, Theorem
from kvstate.replay.config import LAWS
from kvstate.spec.properties import Properties, Property, load_properties
from kvstate.spec.reading import SpecErrors
from kvstate.spec.site_words import table
from tests.explore.pins import PINS
from tests.explore.test_breaks import FAULTS_OF_ACTS
from tests.explore.test_durable import FAULTS as DURABLE
from tests.explore.test_foreign import FAULTS as FOREIGN
from tests.explore.test_hints import FAULTS as HINTS
from tests.explore.test_laws import FAULTS as LOOKED_AT
from tests.proof.mutants import MUTANTS
from tests.properties.breaks import MEANS
from tests.properties.test_rows import CHANGED, CHANGED_WHOLE
from tests.properties.test_walks import MUTANTS as BROKEN_SPECS
from tests.properties.test_walks import PLANTS
from tests.stateful import (  # noqa: F401  they list their own
    durable_faults,
    foreign_faults,
    groups_faults,
    runtime_faults,
    shared_faults,
)
from tests.stateful.faults import FAULTS
from tests.tidy.files import ROOT

PAGE = ROOT / "docs" / "laws.md"
RESULTS = ROOT / "docs" / "data" / "mutation.json"
SEARCHES = ROOT / "docs" / "data" / "explore.json"
"""What `make soak` keeps of `kvstate explore --scope soak --scope soak-late --json`."""
SEEN = {
    "L7.sought": "tests/machines/test_audit.py::test_what_is_sought_by_nobody_is_found",
    "L3.foreign_dst": "tests/explore/test_state.py::test_a_destination_that_the_load_has_lost_is_seen",
    "L11.progress": "tests/replay/test_breaks.py::test_requests_that_wait_for_ever_are_missed",
    "L11.no_circle": "tests/explore/test_state.py::test_a_circle_of_hardware_and_clock_is_seen",
    "L11.rows": "tests/stateful/test_seen.py::test_the_closing_check_can_fail",
    "L11.couplings": "tests/stateful/test_seen.py::test_the_closing_check_can_fail",
}
"""By property: the test that sees its check fail, where that is on no list of faults."""
SHOWN = 3
"""So many faults of a kind are named; of the others it is said how many they are."""


class Group(NamedTuple):
    """Where checks lie, and what a check there is worth."""

    place: str
    """The beginning of its path."""
    how: str
    about: str
    tests: tuple[str, ...]
    """What runs it; none where the check is a test itself."""
    runs: str = ""
    """A module that must call what lies in `AUDIT` for this group to count it among its own."""


AUDIT = "kvstate/machines/audit.py"
"""The books counted anew: others call it, after every move or in every state, and so it is of each of their groups."""
GROUPS = (
    Group("kvstate/proof/", "unbounded", "model", ("tests/proof/test_theorems.py::test_the_theorem_is_proved",)),
    Group("kvstate/spec/laws.py", "read off every row", "model",
          ("tests/properties/test_rows.py::test_every_row_keeps_it",)),
    Group("kvstate/spec/rules.py", "a rule of the loader", "model",
          ("tests/spec/test_rules.py::test_the_spec_of_the_package_keeps_every_rule",)),
    Group("kvstate/explore/", "exhaustive in scope", "code",
          ("tests/explore/test_scopes.py::test_no_law_is_broken_in_any_state",), "kvstate/explore/moves.py"),
    Group("tests/stateful/", "fuzzed", "code",
          ("tests/stateful/test_walks.py::test_a_walk_breaks_no_law_and_comes_home",
           "tests/stateful/test_runtime.py::test_a_walk_with_real_bytes_breaks_no_law"), "tests/stateful/laws.py"),
    Group("kvstate/replay/", "replayed with chaos", "code",
          ("tests/replay/test_breaks.py::test_with_all_laws_the_run_is_sound",), "kvstate/replay/watch.py"),
    Group("kvstate/testing/", "in every scenario", "code",
          ("tests/scenarios/test_scenarios.py::test_the_scenario_holds",), "kvstate/testing/stage.py"),
    Group("tests/scenarios/", "in one scenario", "code",
          ("tests/scenarios/test_scenarios.py::test_the_scenario_holds",)),
    Group("tests/", "in an example", "code", ()),
)  # fmt: skip
"""From the strongest to the weakest; the first that fits a path."""

HEAD = """\
# Laws: how each is proved

What stands in [Properties](../spec/properties.toml) as a claim stands here with what checks it, how, and what was seen
to be caught. `tests/properties/page.py` makes this page, and a test holds it against what it is made from.
"""
HOW = """\
## How

Of the model: of the data in `spec/`, for any number of records. Of the code: of the ledger that runs."""
SCOPES = """\
Exhaustive is each of {count} scopes, {states:,} states in all: {names}. [Proofs](proofs.md#exhaustive-in-scope) says
what is in them and how large each is, and [how a theorem is proved](proofs.md#unbounded)."""
CAUGHT = """\
*Caught* are faults that the checks of a property were seen to fail on: those that a test plants in the data, in what
the ledger does or in the world around it, and laws taken out with `--break`.{mutation}"""
MEASURED = """ To these come the mutants of `kvstate mutate`, as
`docs/data/mutation.json` has them for spec {spec}: {killed:,} of {all:,} killed."""
UNMEASURED = " The mutants of `kvstate mutate` have not been run over this spec."


def page() -> str:
    """The page. Errors: `SpecErrors` for a fault in the list of properties."""
    laws = load_properties(ROOT / "spec" / "properties.toml", root=ROOT)
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else None
    ways = [(group.how, group.about, "the test that is named" if not group.tests else _codes(group.tests))
            for group in {group.how: group for group in GROUPS}.values()]  # fmt: skip
    states, names = sum(pin.states for pin in PINS.values()), _codes(scope.name for scope in QUICK)
    parts = [
        HEAD,
        HOW,
        table("how | of what | run by", ways),
        filled(SCOPES.format(count=len(QUICK), states=states, names=names)),
        filled(CAUGHT.format(mutation=_measured(results))),
        *(_law(law.name, laws, results) for law in laws.laws),
        "## Laws taken out",
        _BREAKS,
        table(f"law | {' | '.join(means.name for means in MEANS)}", [*_breaks()]),
        "Each column is what a test has seen:",
        "\n".join(f"* {means.name}, of the {means.about}: `{means.test}`" for means in MEANS),
        "## The large scopes",
        *_searches(),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


_LARGE = """\
Scopes of the explorer that are too large for a test, as they were last searched, over spec {spec}. A state that
was not searched from was looked at and brought to rest like the others, and no move was made from it."""


def _searches() -> list[str]:
    if not SEARCHES.is_file():
        return ["The large scopes have not been searched over this spec."]
    told = json.loads(SEARCHES.read_text(encoding="utf-8"))
    rows = [
        (f"`{one['name']}`", one["title"], *(f"{one[key]:,}" for key in ("prefix", "states", "moves", "depth")),
         "none: to its end" if one["finished"] else f"{one['frontier']:,}")
        for one in told["scopes"]
    ]  # fmt: skip
    wrong = told["violation"]
    end = (
        "No law was broken." if wrong is None else f"Broken in `{wrong['scope']}`: {wrong['law']}, {wrong['sentence']}."
    )
    head = "scope | what is in it | moves before | states | moves | deepest | not searched from"
    return [filled(_LARGE.format(spec=told["spec"])), table(head, rows), end]


def _measured(results: Mapping[str, Any] | None) -> str:
    if results is None:
        return UNMEASURED
    every = results["mutants"]
    killed = sum(one["verdict"] == "killed" for one in every)
    return MEASURED.format(spec=results["spec"], killed=killed, all=len(every))


def filled(text: str) -> str:
    """A paragraph in lines of the width that a document has."""
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def _codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


_BREAKS = """\
`kvstate replay --break` takes one law out of what runs, and each of these means notices: what it says stands in the
cell. An empty cell says that no test asked. The theorems speak of the data; all others of the code."""


def _breaks() -> Iterator[tuple[str, ...]]:
    for law in LAWS:
        yield f"`{law}`", *(means.seen.get(law, "") for means in MEANS)


def _law(name: str, laws: Properties, results: Mapping[str, Any] | None) -> str:
    law = next(each for each in laws.laws if each.name == name)
    proved = [f"* `{theorem.name}`: {theorem.claim}" for theorem in THEOREMS if theorem.law == name]
    rows = [_property(each, results) for each in laws.properties if each.law == name]
    parts = [f"## {law.name} {law.title}", filled(law.sentence)]
    if proved:
        parts.append("\n".join(["Theorems, of the model:", "", *proved]))
    return "\n\n".join([*parts, table("property | sentence | how, and by what | caught", rows)])


def _property(each: Property, results: Mapping[str, Any] | None) -> tuple[str, ...]:
    ways: dict[str, list[str]] = {}
    for check in each.checked_by:
        for group in groups(check):
            ways.setdefault(group.how, []).append(_short(check))
    told = [
        f"*{how}* by {_codes(dict.fromkeys(ways[how]))}" for how in dict.fromkeys(g.how for g in GROUPS) if how in ways
    ]
    return each.name, each.sentence, "; ".join(told) or "nothing checks it yet", "; ".join(caught(each, results))


def _short(check: str) -> str:
    """A check as the page names it: a theorem by its name, a scenario by its own, all else by the symbol."""
    file, _, symbol = check.partition("::")
    if file.startswith("kvstate/proof/"):
        return THEOREM_OF[check].name
    return symbol or Path(file).stem


def groups(check: str) -> Iterator[Group]:
    """What a check of `checked_by` belongs to; those of the audit belong to all that call it."""
    if check.startswith(AUDIT):
        yield from (group for group in GROUPS if group.runs and calls_the_audit(group.runs))
        return
    yield next(group for group in GROUPS if check.startswith(group.place))


@cache
def calls_the_audit(module: str) -> bool:
    """Does a module of the repository import the audit and call it?"""
    tree = ast.parse((ROOT / module).read_text(encoding="utf-8"))
    return any(isinstance(node, ast.Call) and getattr(node.func, "id", "") == "audit" for node in ast.walk(tree))


THEOREM_OF: dict[str, Theorem] = {
    f"{theorem.check.__module__.replace('.', '/')}.py::{theorem.check.__name__}": theorem for theorem in THEOREMS
}
"""The theorem that each function of `kvstate/proof` proves."""


# -- what was caught ---------------------------------------------------------------------------------------------------


def caught(each: Property, results: Mapping[str, Any] | None) -> Iterator[str]:
    """What the checks of a property were seen to fail on, a phrase for each kind of check."""
    found: dict[str, list[str]] = {}
    for theorem in (THEOREM_OF[check] for check in each.checked_by if check in THEOREM_OF):
        found[f"theorem `{theorem.name}`"] = list(MUTANTS[theorem.name])
    questions = {check.partition("::")[2] for check in each.checked_by if check.startswith("kvstate/spec/laws.py")}
    changed = [(question.__name__, row) for question, _, row, _ in CHANGED]
    changed += [(question.__name__, row) for question, _, row, _ in CHANGED_WHOLE]
    found["rows"] = [f"{row} changed" for question, row in changed if question in questions]
    for means in MEANS:
        if means.name != "conformance kit":  # it has names of its own
            said = [law for law in LAWS if each.name in re.findall(r"L\d+\.\w+", means.seen.get(law, ""))]
            found.setdefault(means.name, []).extend(f"`--break {law}`" for law in said)
    found["explorer"] += [name for name, _, _, law, _ in FAULTS_OF_ACTS if law == each.name]
    found["explorer"] += [name for name, (_, _, law, _) in (FOREIGN | LOOKED_AT).items() if law == each.name]
    found["explorer"] += [name for name, (_, _, law) in DURABLE.items() if law == each.name]
    found["explorer"] += [name for name, (_, law) in HINTS.items() if law == each.name]
    found["walks on the ledger"] += [words for law, _, words, _ in BROKEN_SPECS if law == each.name]
    found["walks on the ledger"] += [_words(plant) for plant, _, law in PLANTS if law == each.name]
    found["code"] = [fault.name for fault in FAULTS if fault.laws == (each.name,)]
    found["its own test"] = [f"`{SEEN[each.name]}`"] if each.name in SEEN else []
    if results is not None:
        for means_name, names in _mutants(each, results).items():
            found[f"mutants, by {means_name}"] = names
    return (_few(who, list(dict.fromkeys(names))) for who, names in found.items() if names)


def _words(plant: Callable[..., object]) -> str:
    return plant.__name__.replace("_", " ")


def _mutants(each: Property, results: Mapping[str, Any]) -> dict[str, list[str]]:
    """By the means that killed it: the mutants of `kvstate mutate`, of the data and of the code."""
    killed: dict[str, list[str]] = {}
    theorems = {THEOREM_OF[check].name for check in each.checked_by if check in THEOREM_OF}
    for one in (*results["mutants"], *results.get("code", ())):
        for kill in one["killed_by"]:
            if kill["law"] == each.name or (kill["means"] == "theorem" and kill["what"] in theorems):
                killed.setdefault(kill["means"], []).append(one["name"])
    return killed


def _few(who: str, names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{who}: {', '.join(names[:SHOWN])}{more}"


def main(args: Iterable[str] | None = None) -> int:
    """Write or compare; the status is 1 if the page is not what it should be, or the list is refused."""
    parser = argparse.ArgumentParser(prog="python -m tests.properties.page", description="Write docs/laws.md.")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args(None if args is None else list(args))
    try:
        made = page()
    except SpecErrors as refused:
        print(*refused.errors, sep="\n", file=sys.stderr)
        return 1
    if options.check:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != made:
            print("docs/laws.md is not what the laws and the results give: run make docs", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
