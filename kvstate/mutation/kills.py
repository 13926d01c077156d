"""What is told of a mutant: which checks fail on it, and what is made of that."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from kvstate.mutation.mutants import Mutant

Means = Literal["loader", "z3", "rows", "theorem", "explorer", "scenario", "walk", "count"]
"""The kinds of checks.

`loader`: a static rule. `z3`: guards, gaps and invariants of the rows. `rows`: a law that is read off the rows.
`theorem`: one of `kvstate prove`. `explorer`: a law is broken in a small scope. `scenario`: an incident goes another
way. `walk`: a random walk breaks a law. `count`: no law is broken, but a scope has another state graph than the one
that is pinned; that something has changed is seen, and nobody says that it is wrong.
"""
MEANS: tuple[Means, ...] = get_args(Means)
"""The same words, in that order."""
Verdict = Literal["killed", "harmless", "survived"]
"""`harmless`: the state graph is the same in every scope that reaches the fault, with all that is sent and told."""


@dataclass(frozen=True)
class Kill:
    """One check that fails on a mutant: of what kind (`means`), and which."""

    means: Means
    what: str
    """The rule, the theorem, the scope, the scenario or the walk."""
    law: str = ""
    """The property that was seen broken (`L3.no_reuse`), or the law (`L3`); empty where none is named."""


@dataclass(frozen=True)
class Result:
    """What became of one mutant: the `name`, `kind`, `machine` and `row` that it has, and the rest."""

    name: str
    kind: str
    machine: str
    row: str
    killed_by: tuple[Kill, ...]
    """The first that was found, or all; see `kvstate.mutation.ladder`."""
    verdict: Verdict
    note: str = field(default="", compare=False)
    """Where nothing kills it: the scopes that were searched for it."""

    @classmethod
    def of(cls, mutant: Mutant, killed_by: tuple[Kill, ...], verdict: Verdict, note: str = "") -> Result:
        """The result of this mutant."""
        return cls(mutant.name, mutant.kind, mutant.machine, mutant.row, killed_by, verdict, note)

    def as_dict(self) -> dict[str, Any]:
        """As it stands in the file of results."""
        kills = [{"means": kill.means, "what": kill.what, "law": kill.law} for kill in self.killed_by]
        told = {"name": self.name, "kind": self.kind, "machine": self.machine, "row": self.row}
        note = {"note": self.note} if self.note else {}
        return {**told, "killed_by": kills, "verdict": self.verdict, **note}

    @classmethod
    def from_dict(cls, told: dict[str, Any]) -> Result:
        """The other way round. Errors: `KeyError` or `TypeError` for what is none."""
        kills = tuple(Kill(**kill) for kill in told["killed_by"])
        head = (told["name"], told["kind"], told["machine"], told["row"])
        return cls(*head, kills, told["verdict"], told.get("note", ""))
