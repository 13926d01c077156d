"""What several commands need: finding a machine by name or file, and being helpful about a word that is not known."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kvstate.spec.model import Machine, Spec
    from kvstate.spec.reading import SpecErrors


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a sentence about a word that is not known: the nearest one that is, or all of them if they are few."""
    names = list(known)
    lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.6) or [
        name for name in lower if word.lower() in name
    ]
    if near and word:
        return f"; did you mean {lower[near[0]]}?"
    return f"; there are {', '.join(names)}." if 0 < len(names) <= 12 else "."


def spec_version() -> str:
    """The version of the spec that this package carries; `unknown` where its files are missing."""
    from kvstate.spec import spec_dir

    try:
        return (spec_dir() / "VERSION").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return "unknown"


def own_spec() -> Spec:
    """The package's own spec. Its rules are not checked again: they were when it was tested."""
    from kvstate.spec import spec_dir
    from kvstate.spec.loader import load_spec
    from kvstate.spec.reading import SpecErrors

    try:
        return load_spec(check=False)
    except SpecErrors as faults:
        raise _refused(str(spec_dir()), faults) from None


def peers_spec() -> Spec:
    """The package's own spec of two processes that hand blocks to each other."""
    from kvstate.spec import peers_dir
    from kvstate.spec.loader import load_spec
    from kvstate.spec.reading import SpecErrors

    try:
        return load_spec(peers_dir(), check=False)
    except SpecErrors as faults:
        raise _refused(str(peers_dir()), faults) from None


def spec_in(folder: Path | None) -> Spec:
    """The spec in a folder of somebody's own; the package's own without one.

    Errors: a folder with faults says each on stderr and raises `ClickException`.
    """
    from kvstate.spec.loader import load_spec
    from kvstate.spec.reading import SpecErrors

    if folder is None:
        return own_spec()
    try:
        return load_spec(folder)
    except SpecErrors as faults:
        raise _refused(str(folder), faults) from None


def find_machine(word: str) -> Machine:
    """The machine that `word` names: one of the package's own, or the file of somebody's own.

    Errors: `UsageError` for a word that is neither; a file with faults says each on stderr and raises `ClickException`.
    """
    from kvstate.spec.loader import load_machine
    from kvstate.spec.reading import SpecErrors

    path = Path(word)
    if path.suffix == ".toml" or (path.parent != Path() and path.exists()):
        try:
            return load_machine(path)
        except SpecErrors as faults:
            raise _refused(word, faults) from None
    machines = {machine.name: machine for spec in (own_spec(), peers_spec()) for machine in spec.machines}
    if word not in machines:
        raise click.UsageError(f"there is no machine {word!r}{did_you_mean(word, machines)} A file ends in .toml.")
    return machines[word]


def _refused(what: str, faults: SpecErrors) -> click.ClickException:
    for fault in faults.errors:
        click.echo(str(fault), err=True)
    return click.ClickException(f"{what} was refused: {counted(len(faults.errors), 'fault')}.")


def counted(number: int, noun: str) -> str:
    """`1 fault`, `2 faults`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
