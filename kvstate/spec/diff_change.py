"""What a change of the spec is: the words in which `kvstate.spec.diff` speaks, and where their meaning stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from kvstate.spec.expr import Expr
from kvstate.spec.model import Machine

Weight = Literal["words", "added", "breaking"]
"""Told to people alone; new, and nothing old is different; somebody who relies on the old one is wrong now."""
Who = Literal["records", "embedders", "workers", "verdicts", "ledgers"]
"""Whom a change breaks: recorded runs, callers, the other end of the codec, who reads verdicts, other ledgers."""
WEIGHTS: tuple[Weight, ...] = ("words", "added", "breaking")
"""From the lightest to the heaviest."""

Implies = Callable[[Machine, Sequence[Expr], Expr], bool | None]
"""For all values of the machine's variables and params: do these imply that? None where it can't be said."""


def undecided(_machine: Machine, _given: Sequence[Expr], _then: Expr) -> bool | None:
    """What stands for a prover where there is none."""
    return None


@dataclass(frozen=True, slots=True)
class Change:
    """One difference and its `weight`."""

    place: str
    """Where: `block row B21`, `coupling C05`."""
    weight: Weight
    what: str
    """A sentence with the old and the new."""
    who: tuple[Who, ...] = ()
    """Whom it breaks; nobody unless it is breaking."""


def is_told(name: str) -> bool:
    """Effects and acts that tell a caller something are called so: `tell_failed`."""
    return name == "tell" or name.startswith("tell_")
