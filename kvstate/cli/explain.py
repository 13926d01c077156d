"""`kvstate explain`: an error code, a driver's raw code, or a row of a machine, in sentences.

These are the words that stand in logs and records, so one command takes all three: somebody who greps a log should not
have to know first which kind of word it is that he found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kvstate.cli.output import console, print_json, reflowed
from kvstate.cli.words import did_you_mean, own_spec, peers_spec

if TYPE_CHECKING:
    from kvstate.errors.registry import CodeEntry, Registry
    from kvstate.spec.model import Machine, Row


@click.command("explain")
@click.argument("code", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of sentences.")
def command(code: str | None, as_json: bool) -> None:
    """Say what a word of a log means, and what to do.

    CODE is the name or number of an error code (CRC_MISMATCH, 2201), the raw code of a driver (ENOSPC, 404), or the id
    of a row (B21), in small letters or capitals. Without it: the list of all error codes.
    """
    registry = _registry()
    if code is None:
        _list(registry, as_json)
        return
    entry = _find(registry, code)
    raw = _translations(registry, code)
    row = _row(code)
    if not (entry or raw or row):
        names = [one.name for one in registry.codes]
        raise click.UsageError(f"there is no code, raw code or row {code!r}{did_you_mean(code, names)}")
    if as_json:
        print_json({"code": entry and _data(entry), "raw": raw, "row": row and _row_data(*row)})
        return
    out = console()
    for text in (entry and _about(registry, entry), raw and _about_raw(registry, code, raw), row and _about_row(*row)):
        if text:
            out.print(text, markup=False)


def _registry() -> Registry:
    from kvstate.errors.registry import load_errors
    from kvstate.spec import spec_dir

    return load_errors(spec_dir() / "errors.toml")


def _find(registry: Registry, word: str) -> CodeEntry | None:
    return next((one for one in registry.codes if word.upper() == one.name or word == str(one.number)), None)


def _translations(registry: Registry, word: str) -> list[dict[str, Any]]:
    """What each driver means by this raw code, whatever its case."""
    return [
        {"driver": driver.name, "raw": raw, "code": code, "transient": raw in driver.transient}
        for driver in registry.drivers
        for raw, code in driver.raw
        if raw.lower() == word.lower()
    ]


def _row(word: str) -> tuple[Machine, Row] | None:
    rows = ((machine, row) for spec in (own_spec(), peers_spec()) for machine in spec.machines for row in machine.rows)
    return next((pair for pair in rows if pair[1].id.lower() == word.lower()), None)


def _data(entry: CodeEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "number": entry.number,
        "outcome": entry.outcome,
        "stages": list(entry.stages),
        "retryable": entry.retryable,
        "fatal": entry.fatal,
        "condemns": entry.condemns,
        "sentence": entry.sentence,
        "remedy": entry.remedy,
        "doc": entry.doc,
    }


def _row_data(machine: Machine, row: Row) -> dict[str, Any]:
    from kvstate.cli.data import row_data

    return {"machine": machine.name, **row_data(row)}


def _about(registry: Registry, entry: CodeEntry) -> str:
    effects = {
        "may be tried again at once, with a new token": entry.retryable,
        "condemns the key: a miss until it is stored anew": entry.condemns,
        "fatal: the runtime is poisoned, nothing is freed": entry.fatal,
    }
    lines = [
        f"{entry.name} ({entry.number}, {registry.family(entry).name}): {entry.sentence}",
        f"What to do: {entry.remedy}",
        f"Reported as {entry.outcome}; at {', '.join(entry.stages)}.",
    ]
    follows = [text for text, holds in effects.items() if holds] or ["not tried again; the key is not to blame"]
    lines.append("Follows: " + "; ".join(follows) + ".")
    if entry.doc:
        lines.append(reflowed(entry.doc))
    spelled = [
        f"{driver.name} {', '.join(raw for raw, code in driver.raw if code == entry.name)}"
        for driver in registry.drivers
    ]
    known = [text for text in spelled if not text.endswith(" ")]
    lines.append("Translated from: " + ("; ".join(known) or "no raw code") + ".")
    return "\n".join(lines)


def _about_raw(registry: Registry, word: str, found: list[dict[str, Any]]) -> str:
    lines = [f"{word} is a raw code:"]
    for one in found:
        again = " It may be tried again." if one["transient"] else ""
        entry = registry.code(one["code"])
        lines.append(f"  {one['raw']} of the driver {one['driver']} is {entry.name}: {entry.sentence}{again}")
    lines.append("What to do: " + " ".join(dict.fromkeys(registry.code(one["code"]).remedy for one in found)))
    return "\n".join(lines)


def _about_row(machine: Machine, row: Row) -> str:
    guard = "" if row.when.is_true else f" when {row.when.source}"
    changes = "; ".join(f"{name} = {right.source}" for name, right in row.sets)
    lines = [
        f"{row.id} is a row of {machine.name}: in {' or '.join(row.sources)}, on {' or '.join(row.events)}{guard}, "
        + (f"to {row.to}." if row.to else "and stays."),
        f"Changes: {changes or 'nothing'}. Effects, in order: {' '.join(row.effects) or 'none'}.",
        f"Why: {reflowed(row.why)}",
    ]
    return "\n".join(lines)


def _list(registry: Registry, as_json: bool) -> None:
    if as_json:
        print_json({"codes": [_data(entry) for entry in registry.codes]})
        return
    from rich import box
    from rich.table import Table

    table = Table("number", "code", "outcome", "what happened", box=box.SIMPLE_HEAD)
    for entry in registry.codes:
        table.add_row(str(entry.number), entry.name, entry.outcome, entry.sentence)
    console().print(table)
