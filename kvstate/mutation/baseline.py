"""What the product does without a fault: which scopes, scenarios and walks fire each row, and how soon.

It takes a minute or two to find out and is the same for all mutants, so it is written to a file and read again, as long
as nothing that it was made from has changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kvstate.explore.scopes import QUICK
from kvstate.explore.stage import Rules
from kvstate.mutation import checkout
from kvstate.mutation.graph import NoBaselineError, Reach, reach
from kvstate.mutation.mutants import Mutant
from kvstate.mutation.static import machines_read
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Act, Coupling, Spec
from kvstate.testing.scenario import ScenarioError, play

Say = Callable[[str], None]
"""Told what is being done."""
MADE_FROM = (
    "spec/*.toml",
    *(f"kvstate/{folder}/**/*.py" for folder in ("machines", "errors", "explore", "testing", "proof")),
    "kvstate/mutation/graph.py",
    "kvstate/mutation/checkout.py",
    "tests/scenarios/**/*.txt",
    "tests/stateful/*.py",
)
"""The files of the checkout that it depends on."""


@dataclass(frozen=True)
class Baseline:
    """By scope, scenario and walk: what was seen of the product as it ships."""

    made_from: str
    """The fingerprint of the files that it was made from."""
    reach: dict[str, Reach]
    """By scope."""
    scenarios: dict[str, list[str]]
    """By scenario: the rows that fire in it."""
    walks: dict[str, dict[str, int]]
    """By walk: how often each row fires on it."""
    read: dict[str, frozenset[str]]
    """By theorem: the machines that it looks at."""

    def scenarios_of(self, rows: Iterable[str]) -> list[str]:
        """The scenarios in which one of these rows fires, the shortest first."""
        wanted = set(rows)
        found = [name for name, fired in self.scenarios.items() if wanted & set(fired)]
        return sorted(found, key=lambda name: len(self.scenarios[name]))

    def walks_of(self, rows: Iterable[str], most: int) -> list[checkout.Walk]:
        """The walks on which these rows fire most often, at most so many."""
        wanted = tuple(rows)
        counts = {name: sum(fired.get(row, 0) for row in wanted) for name, fired in self.walks.items()}
        found = sorted((name for name, count in counts.items() if count), key=lambda name: -counts[name])
        return [checkout.Walk.of(name) for name in found[:most]]


def rows_of(spec: Spec, mutant: Mutant) -> tuple[str, ...]:
    """The rows that have to fire for the fault to make a difference; `spec` is the one without it."""
    if not mutant.coupled:
        return (mutant.row,)
    lines: list[Coupling | Act] = [*spec.couplings, *spec.acts]
    line = next(one for one in lines if one.id == mutant.row)
    return tuple(row.id for row in spec.machine(line.machine).rows if line.effect in row.effects)


def fingerprint(root: Path) -> str:
    """Of all that a baseline is made from."""
    total = hashlib.blake2b(digest_size=16)
    for pattern in MADE_FROM:
        for path in sorted(root.glob(pattern)):
            total.update(f"{path.relative_to(root)}\n".encode())
            total.update(path.read_bytes())
    return total.hexdigest()


def make(executor: Executor, file: Path, say: Say) -> Path:
    """See to it that the file holds the baseline of this checkout; returns it. Errors: `NoBaselineError`, see below."""
    around = checkout.here()
    made_from = fingerprint(around.root)
    if _made_from(file) == made_from:
        return file
    scopes = {scope.name: executor.submit(reach, scope) for scope in QUICK}
    theorems = executor.submit(_theorems)
    walks = {str(walk): executor.submit(walked, walk) for walk in around.walks}
    scenarios = {name: executor.submit(played, name) for name in around.scenarios}
    reached = {}
    for name, future in scopes.items():
        say(f"the scope {name} as it ships")
        reached[name] = future.result()
    say("walks and scenarios as they ship")
    made = Baseline(
        made_from,
        reached,
        {name: future.result() for name, future in scenarios.items()},
        {name: future.result() for name, future in walks.items()},
        theorems.result(),
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(_written(made)), encoding="utf-8")
    return file


def _theorems() -> dict[str, frozenset[str]]:
    return machines_read(load_spec(check=False))


def walked(walk: checkout.Walk) -> dict[str, int]:
    """How often each row fires on a walk of the product. Errors: `NoBaselineError` if the walk breaks a law."""
    end = checkout.here().walk(walk, Rules())
    if end.broken:
        raise NoBaselineError(f"the walk {walk} breaks a law without any fault: {end.broken}")
    return end.fired


def played(name: str) -> list[str]:
    """The rows that fire in a scenario of the product. Errors: `NoBaselineError` if it does not hold."""
    around = checkout.here()
    try:
        done = play(around.scenarios[name])
    except ScenarioError as error:  # which no process can hand to another
        raise NoBaselineError(f"without any fault: {error}") from None
    if done.problems or done.text != around.texts[name]:
        raise NoBaselineError(f"the scenario {name} does not hold without any fault")
    return sorted(row for row, count in done.fired.items() if count)


def _written(made: Baseline) -> dict[str, Any]:
    told = asdict(made)
    told["read"] = {name: sorted(machines) for name, machines in made.read.items()}
    return told


def read(file: Path) -> Baseline:
    """The baseline in a file. Errors: `OSError`, `ValueError`, `KeyError`, `TypeError` if there is none."""
    told = json.loads(file.read_text(encoding="utf-8"))
    reached = {name: Reach(**one) for name, one in told["reach"].items()}
    theorems = {name: frozenset(machines) for name, machines in told["read"].items()}
    return Baseline(told["made_from"], reached, told["scenarios"], told["walks"], theorems)


def _made_from(file: Path) -> str:
    try:
        return read(file).made_from
    except (OSError, ValueError, KeyError, TypeError):
        return ""
