"""What `spec/errors.toml` says once it has been read and checked: frozen values, from which `codes.py` is printed.

`kvstate.errors.registry` reads the file; nothing here runs.
"""

from __future__ import annotations

from dataclasses import dataclass

FAMILY_SIZE = 100
"""Numbers of a family."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A place on a block's way where an error can happen; `doc` says in words which."""

    name: str
    doc: str


@dataclass(frozen=True, slots=True)
class Family:
    """A hundred numbers that belong together, from `first` on; `doc` says what its codes have in common."""

    name: str
    first: int
    doc: str


@dataclass(frozen=True, slots=True)
class CodeEntry:
    """One code, as the file has it."""

    name: str
    number: int
    """Stable for ever, and never given to another."""
    outcome: str
    """What a copier reports for a part that failed for this reason alone (`kvstate.machines.messages.Outcome`)."""
    stages: tuple[str, ...]
    """Where it may be used, by name."""
    retryable: bool
    """The part may be tried again at once."""
    fatal: bool
    """The runtime cannot go on."""
    condemns: bool
    """The key is to blame: a miss until it is stored anew."""
    sentence: str
    """What happened, in one line."""
    remedy: str
    """What to do, in one line."""
    doc: str
    """More of it; empty where there is no more to say."""


@dataclass(frozen=True, slots=True)
class Driver:
    """One driver's own codes; `doc` says whose they are."""

    name: str
    doc: str
    raw: tuple[tuple[str, str], ...]
    """Its code, and the name of ours that it means; every spelling, those of `same` in the file included."""
    transient: tuple[str, ...]
    """Those of its codes that may work another time."""


@dataclass(frozen=True, slots=True)
class Registry:
    """The whole of `errors.toml`, in its order: `stages`, `families`, `codes`, `drivers`."""

    stages: tuple[Stage, ...]
    families: tuple[Family, ...]
    codes: tuple[CodeEntry, ...]
    drivers: tuple[Driver, ...]
    retired: tuple[int, ...]
    """Numbers that are never given again."""

    def code(self, name: str) -> CodeEntry:
        """The code of that name. Errors: `StopIteration` if there is none; look names from outside up first."""
        return next(code for code in self.codes if code.name == name)

    def family(self, code: CodeEntry) -> Family:
        """The family that the number of a code lies in; the loader has made sure that there is one."""
        return next(family for family in self.families if family.first == code.number // FAMILY_SIZE * FAMILY_SIZE)
