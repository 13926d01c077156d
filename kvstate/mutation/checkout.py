"""What of a checkout the mutants are held against: scenarios, walks and planted faults, all in its folder `tests`.

An installed package has none of it, and says so: without these, "nothing notices" would only mean that nobody looked.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from kvstate.explore.stage import RuledStage, Rules
from kvstate.mutation.kills import Kill
from kvstate.testing.scenario import Scenario, ScenarioError, parse, play

POISON = "the ledger is poisoned"
"""In a problem of a scenario whose ledger came upon a broken invariant."""
POISONED = "L8.poison"
"""The property that is broken then."""
SEEDS = range(2)
"""Of the walks in each scope and mix."""
ROUNDS, MOVES = 6, 30
"""How long a walk is: as long as those that are known to come to the rarest rows."""
LARGE = ("wide",)
"""The scopes whose walks take too long."""


class NoCheckoutError(Exception):
    """There is no checkout here; the sentence says what to do."""


class Walk(NamedTuple):
    """A walk of the stateful suite, as `ledger/two ranks/loads/17`: the kind of world, its scope, the mix, the seed."""

    kind: str
    scope: str
    mix: str
    seed: int

    def __str__(self) -> str:
        return "/".join(map(str, self))

    @classmethod
    def of(cls, text: str) -> Walk:
        """The walk that is written so. Errors: `ValueError`."""
        kind, scope, mix, seed = text.split("/")
        return cls(kind, scope, mix, int(seed))


class Walked(NamedTuple):
    """The end of a walk."""

    fired: dict[str, int]
    """How often each row has fired."""
    broken: str
    """What was seen broken, with its law in front; empty if nothing was."""


@dataclass(frozen=True)
class Checkout:
    """A checkout of kvstate at `root`, from which this package runs."""

    root: Path

    @cached_property
    def scenarios(self) -> Mapping[str, Scenario]:
        """By name (`i08-landing-on-a-freed-block`, `tiers/t1-...`): every scenario of the checkout."""
        folder = self.root / "tests" / "scenarios"
        files = {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.txt"))}
        return {name: parse(path.read_text(encoding="utf-8"), path.name) for name, path in files.items()}

    @cached_property
    def texts(self) -> Mapping[str, str]:
        """By name: the text of each scenario, answers included."""
        folder = self.root / "tests" / "scenarios"
        return {name: (folder / f"{name}.txt").read_text(encoding="utf-8") for name in self.scenarios}

    def module(self, name: str) -> Any:
        """A module of the folder `tests`."""
        if str(self.root) not in sys.path:
            sys.path.insert(0, str(self.root))
        return importlib.import_module(f"tests.{name}")

    @cached_property
    def walks(self) -> tuple[Walk, ...]:
        """The walks that mutants are sent on: those known to come to the rarest rows, and some of each kind.

        Worlds around the pure ledger alone: a runtime would bring rules of its own.
        """
        search, world = self.module("stateful.search"), self.module("stateful.world")
        runtime = self.module("stateful.runtime_world").RuntimeWorld
        pure = {kind: scopes for kind, (make, scopes) in search.WORLDS.items() if not issubclass(make, runtime)}
        some = [
            Walk(kind, scope, mix, seed)
            for seed in SEEDS
            for kind, scopes in pure.items()
            for scope in scopes
            for mix in world.MIXES
            if scope not in LARGE
        ]
        seen = self.module("stateful.test_seen")
        known = [Walk("ledger", *walk) for walk in seen.KNOWN]
        known += [Walk("foreign", *walk) for walk in seen.RARE_FOREIGN]
        return tuple(dict.fromkeys([*known, *some]))

    def walk(self, walk: Walk, rules: Rules) -> Walked:
        """Walk on a ledger with these rules. Errors: whatever a world raises that is not about a law."""
        make, scopes = self.module("stateful.search").WORLDS[walk.kind]
        options = {"machines": rules.machines, "couplings": rules.couplings, "acts": rules.acts}
        world = make(walk.seed, scopes[walk.scope], **options)
        broken = ""
        try:
            for _ in range(ROUNDS):
                world.round(MOVES, walk.mix)
                world.clock()
            world.rest()
        except AssertionError as error:
            broken = str(error) or "something is not as it should be"
        finally:
            world.close()
        return Walked({row: count for row, count in world.rows().items() if count}, broken)

    def by_walk(self, walk: Walk, rules: Rules) -> Iterator[Kill]:
        """The law that this walk sees broken."""
        try:
            broken = self.walk(walk, rules).broken
        except Exception as error:
            yield Kill("walk", f"{walk}: {type(error).__name__} in the world")
            return
        if broken:
            law = broken.partition(":")[0]
            yield Kill("walk", str(walk), law if law[:1] == "L" and "." in law else "")

    def by_scenario(self, name: str, rules: Rules) -> Iterator[Kill]:
        """A scenario that goes another way: a law if one is seen broken, none if only the answers differ."""
        scenario = self.scenarios[name]
        try:
            played = play(scenario, stage=RuledStage(rules))
        except ScenarioError:
            yield Kill("scenario", f"{name}: can't be played on")
            return
        except Exception as error:
            yield Kill("scenario", f"{name}: {type(error).__name__} in the world")
            return
        for problem in played.problems:
            said = problem.partition("BROKEN ")[2]
            law = POISONED if POISON in problem else said.partition(":")[0] if said[:1] == "L" else ""
            if law:
                yield Kill("scenario", name, law)
                return
        if played.problems or played.text != self.texts[name]:
            yield Kill("scenario", f"{name}: other answers")


def here() -> Checkout:
    """The checkout that this package is part of. Errors: `NoCheckoutError`."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "tests" / "stateful" / "search.py").is_file() or not (root / "spec").is_dir():
        raise NoCheckoutError(
            "mutants are held against the scenarios and walks of a checkout, and this kvstate is installed without "
            "them; clone the repository and run it there"
        )
    return Checkout(root)
