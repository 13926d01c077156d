"""`kvstate fuzz`: random walks over an engine until a law is broken or the time is over.

Without an adapter the engine is kvstate's own ledger. The work is done in `kvstate.testing.kit`; here options become a
search, and what it found becomes a table, a sequence and three files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvstate._version import __version__
from kvstate.cli.output import console, print_json, shown
from kvstate.cli.words import counted
from kvstate.testing.kit.find import OWN, find_adapter
from kvstate.testing.kit.laws import AdapterError

if TYPE_CHECKING:
    from kvstate.testing.adapter import Scope
    from kvstate.testing.kit.play import Replayed, Step
    from kvstate.testing.kit.search import Progress, Search

SECONDS = 20.0
"""How long, where nothing is said."""


@click.command("fuzz")
@click.option("--seconds", type=click.FloatRange(min=0.0), metavar="N", help="Stop after so long; 20 without --steps.")
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Stop after so many steps that did something.")
@click.option("--seed", type=int, default=0, help="Of the walks; the same seed and --steps give the same walks.")
@click.option("--adapter", default=OWN, metavar="MODULE:CLASS", help="The engine.")
@click.option("--device-blocks", type=int, help="Device blocks of the engine; 4 where nothing is said.")
@click.option("--host-blocks", type=int, help="Slots below the device; 4 where nothing is said.")
@click.option("--longest", type=int, help="Blocks of the longest prompt; 3 where nothing is said.")
@click.option("--requests", type=int, help="Requests at once; 3 where nothing is said.")
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write a counterexample there."
)
@click.option(
    "--replay",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Play a record that was written with --out, and nothing else.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--quiet", is_flag=True, help="No progress.")
def command(adapter: str, out: Path | None, replay: Path | None, as_json: bool, quiet: bool, **options: Any) -> int:
    """Play scheduler and hardware for an engine, in every order that chance gives, and look for a broken law.

    The engine's copies are moved by hand: bytes land and reports come at any time, in any order, twice, late, or never.
    What is found is made short, told step by step, and with --out written as a sequence, a record and a test.

    The status is 1 when a law was broken.
    """
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        if replay is not None:
            return _replay(replay, as_json)
        return _search(adapter, out, as_json, quiet, **options)
    except AdapterError as error:
        raise click.ClickException(str(error)) from None


def _search(adapter: str, out: Path | None, as_json: bool, quiet: bool, **options: Any) -> int:
    from kvstate.testing.kit.search import search
    from kvstate.testing.kit.story import story, write

    scope = _scope(options)
    engine = find_adapter(adapter)
    seed, steps, seconds = options["seed"], options["steps"], options["seconds"]
    if seconds is None and steps is None:
        seconds = SECONDS
    if not as_json:
        click.echo(f"kvstate {__version__}, seed {seed}, adapter {adapter}")
    with _progress(quiet or as_json, seconds) as progress:
        done = search(engine, scope, seed=seed, seconds=seconds, steps=steps, progress=progress)
    files = write(out, adapter, done.steps, scope, done.played) if out is not None and done.played is not None else []
    if as_json:
        print_json(_as_dict(adapter, done) | {"files": [str(file) for file in files]})
    else:
        _show(_as_dict(adapter, done))
        if done.played is not None:
            click.echo(f"\nThe shortest that was found, in {counted(len(done.steps), 'step')}:\n{story(done.played)}")
        for file in files:
            click.echo(f"written: {file}")
    return _verdict(adapter, done.played, done.steps, as_json)


def _scope(options: Mapping[str, Any]) -> Scope:
    from kvstate.testing.adapter import Scope

    names = {"device_blocks": "device", "host_blocks": "host", "longest": "longest", "requests": "requests"}
    try:
        return Scope(**{name: options[option] for option, name in names.items() if options[option] is not None})
    except ValueError as error:
        raise click.UsageError(str(error), click.get_current_context()) from None


def _replay(file: Path, as_json: bool) -> int:
    from kvstate.testing.kit.play import replay
    from kvstate.testing.kit.story import read_record, story

    try:
        adapter, steps, scope = read_record(file.read_text(encoding="utf-8"))
    except (AdapterError, UnicodeDecodeError) as error:
        raise AdapterError(f"{file} is no record: {error}") from None
    played = replay(find_adapter(adapter), steps, scope)
    law, sentence = played.violation or (None, None)
    if as_json:
        print_json({"adapter": adapter, "violations": int(law is not None), "law": law, "sentence": sentence})
    else:
        click.echo(story(played))
    return _verdict(adapter, played, steps, as_json)


def _verdict(adapter: str, played: Replayed | None, steps: list[Step], as_json: bool) -> int:
    """The last line, and the status."""
    if played is not None and played.violation is not None:
        if not as_json:
            law = played.violation.law
            click.echo(f"FAILED: {adapter} breaks {law} in {counted(len(steps), 'step')}.", err=True)
        return 1
    if not as_json:
        click.echo("PASSED: no law was broken, every walk came to rest.")
    return 0


def _as_dict(adapter: str, done: Search) -> dict[str, Any]:
    law, sentence = done.violation or (None, None)
    return {
        "adapter": adapter,
        "seed": done.seed,
        "seconds": round(done.seconds, 3),
        "steps": done.stats.steps,
        "walks": done.stats.walks,
        "violations": sum(done.laws.values()),
        "law": law,
        "sentence": sentence,
        "counterexample": [list(step) for step in done.steps],
        "seen": dict(done.stats.counts),
        "marks": dict(done.stats.marks),
    }


def _show(result: Mapping[str, Any]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table("", "", box=box.SIMPLE, show_header=False)
    never = [name for name, count in result["marks"].items() if not count]
    lines = {name: result[name] for name in ("walks", "steps", "seconds", "seen", "violations")}
    if result["marks"]:
        lines["rows fired"] = f"{len(result['marks']) - len(never)} of {len(result['marks'])}"
        lines["never fired"] = never
    for name, value in lines.items():
        style = "bold red" if name == "violations" and value else ""
        table.add_row(Text(name, style="bold"), Text(shown(value), style=style))
    console().print(table)


@contextmanager
def _progress(quiet: bool, seconds: float | None) -> Iterator[Progress]:
    """A line on stderr that says how far it is."""
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    from kvstate.testing.kit.oracle import Stats

    end = f" of {seconds:g} s" if seconds is not None else ""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TextColumn(end))
    bar = Bar(*columns, console=console(stderr=True), disable=quiet, transient=True)
    task = bar.add_task("fuzz")

    def move(stats: Stats) -> None:
        bar.update(task, description=f"{stats.walks:,} walks, {stats.steps:,} steps")

    with bar:
        yield move
