"""`kvstate spec diff`: what a change of the spec means for whoever relies on the older one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvstate.cli.output import console, print_json
from kvstate.cli.words import counted

if TYPE_CHECKING:
    from kvstate.spec.diff import Difference

FORMAT = "kvstate-spec-diff-1"
"""Moves when a key changes its meaning or goes away; a new key does not move it."""


@click.command("diff", short_help="Is the difference of two specs compatible or breaking?")
@click.argument("old", type=click.Path(path_type=Path, exists=True))
@click.argument("new", type=click.Path(path_type=Path, exists=True))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def diff(old: Path, new: Path, as_json: bool) -> int:
    """Compare two spec directories, or two files of one machine: compatible or breaking, row by row.

    Whether a guard became narrower is decided by z3; without it, a guard that changed counts as breaking. The status is
    0 for compatible, 1 for breaking, and 2 where there was nothing to compare.
    """
    if old.is_dir() != new.is_dir():
        raise click.UsageError("OLD and NEW must both be directories or both be files of one machine.")
    difference = _directories(old, new) if old.is_dir() else _files(old, new)
    if as_json:
        print_json(_data(difference))
    else:
        _show(difference)
    return 1 if difference.breaking else 0


def _files(old: Path, new: Path) -> Difference:
    from kvstate.proof.rows import implied
    from kvstate.spec.diff import compare_machines
    from kvstate.spec.loader import load_machine
    from kvstate.spec.reading import SpecErrors

    try:
        before, after = load_machine(old, check=False), load_machine(new)
    except SpecErrors as faults:
        raise _unread(faults) from None
    if before.name != after.name:
        raise click.UsageError(f"OLD is the machine {before.name} and NEW is {after.name}; they must be the same one.")
    return compare_machines(before, after, implied)


def _directories(old: Path, new: Path) -> Difference:
    from kvstate.proof.rows import implied
    from kvstate.spec.diff import compare
    from kvstate.spec.loader import load_spec
    from kvstate.spec.reading import SpecErrors

    try:
        difference = compare(load_spec(old, check=False), load_spec(new), implied)
        difference = _with_codes(difference, old / "errors.toml", new / "errors.toml")
        return _with_laws(difference, old / "properties.toml", new / "properties.toml")
    except SpecErrors as faults:
        raise _unread(faults) from None


def _with_codes(difference: Difference, old: Path, new: Path) -> Difference:
    """The error codes besides, where a spec has any."""
    from kvstate.errors.registry import load_errors
    from kvstate.spec.diff_change import Change
    from kvstate.spec.diff_errors import code_changes

    if old.exists() and new.exists():
        return replace(difference, changes=(*difference.changes, *code_changes(load_errors(old), load_errors(new))))
    if old.exists():
        gone = Change("errors.toml", "breaking", "the error codes are gone", ("records", "workers", "verdicts"))
        return replace(difference, changes=(*difference.changes, gone))
    if new.exists():
        return replace(difference, changes=(*difference.changes, Change("errors.toml", "added", "error codes")))
    return difference


def _with_laws(difference: Difference, old: Path, new: Path) -> Difference:
    """What is promised besides, where a spec says so."""
    from kvstate.spec.diff_change import Change
    from kvstate.spec.diff_laws import RELY, law_changes
    from kvstate.spec.properties import load_properties

    if old.exists() and new.exists():
        changes = tuple(law_changes(load_properties(old), load_properties(new)))
        return replace(difference, changes=(*difference.changes, *changes))
    if old.exists():
        gone = Change("properties.toml", "breaking", "the laws are gone", RELY)
        return replace(difference, changes=(*difference.changes, gone))
    if new.exists():
        return replace(difference, changes=(*difference.changes, Change("properties.toml", "added", "the laws")))
    return difference


def _unread(faults: Any) -> click.UsageError:
    """A spec that can't be read can't be compared: a mistake of the caller's, and no verdict on a difference."""
    for fault in faults.errors:
        click.echo(str(fault), err=True)
    return click.UsageError(f"nothing was compared: {counted(len(faults.errors), 'fault')}.")


def _show(difference: Difference) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if difference.changes:
        table = Table("where", "is", "what changed", "whom it breaks", box=box.SIMPLE_HEAD)
        for change in difference.changes:
            table.add_row(change.place, change.weight, Text(change.what), " ".join(change.who))
        console().print(table)
    click.echo(_last_line(difference))


def _last_line(difference: Difference) -> str:
    from kvstate.spec.diff_change import WEIGHTS
    from kvstate.spec.diff_version import sentence

    if difference.weight is None:
        return f"the same: {sentence(difference)}"
    weights = [change.weight for change in difference.changes]
    counts = ", ".join(f"{weights.count(weight)} {weight}" for weight in reversed(WEIGHTS) if weight in weights)
    verdict = "breaking" if difference.breaking else "compatible"
    return f"{verdict} ({counts}): {sentence(difference)}"


def _data(difference: Difference) -> dict[str, Any]:
    from kvstate.spec.diff_version import is_enough, least

    weight = difference.weight
    return {
        "format": FORMAT,
        "compatible": not difference.breaking,
        "weight": weight,
        "old_version": difference.old_version or None,
        "new_version": difference.new_version or None,
        "least_version": (least(weight, difference.old_version) if weight else difference.old_version) or None,
        "version_is_enough": is_enough(difference),
        "changes": [
            {"where": change.place, "is": change.weight, "what": change.what, "breaks": list(change.who)}
            for change in difference.changes
        ],
    }
