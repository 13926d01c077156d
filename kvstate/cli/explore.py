"""`kvstate explore`: every order of events in small scopes, on the ledger itself.

The work is done in `kvstate.explore`; here options become searches, and what they found becomes a table and, if a law
was broken, a scenario file.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvstate.cli.explore_peers import explore_peers_command
from kvstate.cli.output import console, print_json
from kvstate.cli.words import counted, did_you_mean, spec_version

if TYPE_CHECKING:
    from kvstate.explore.scopes import Scope
    from kvstate.explore.search import Explored, Progress
    from kvstate.explore.stage import Rules
    from kvstate.explore.tell import Told

COPIERS_OWN = "match-by-block"
"""The one break that is in a copier and not in the ledger, so that nothing here could see it."""

FEW = 40
"""So many rows that never fired are listed; more of them say only that one scope is not all."""


@click.command("explore")
@click.option("--scope", "names", multiple=True, metavar="NAME", help="Search this scope; the quick ones without.")
@click.option("--max-states", type=click.IntRange(min=1), metavar="N", help="Stop each search after so many states.")
@click.option("--break", "law", metavar="LAW", help="Take a law out first, as `kvstate replay --break` does.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a counterexample there."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--peers", is_flag=True, help="Search the scopes of two processes that hand blocks to each other.")
@click.option("--quiet", is_flag=True, help="No progress.")
def command(
    names: tuple[str, ...],
    max_states: int | None,
    law: str | None,
    out: Path | None,
    as_json: bool,
    peers: bool,
    quiet: bool,
) -> int:
    """Make every move in every state of a small scope, breadth first, on the ledger itself, and look at each state.

    The world lands and loses copies, reports them late, failed or twice, and fences; the time moves from timer to
    timer; requests come, end and come again. From every state the clock alone must end what is under way.

    With --peers the ledger is left out, and two parties hand blocks to each other: every message may come late, twice
    or never, either of them may die, and their clocks go on as they like.

    The status is 1 when a law was broken; the shortest way there is printed as a scenario.
    """
    from kvstate.explore.search import explore
    from kvstate.explore.tell import tell

    if peers:
        if law is not None or out is not None:
            raise click.UsageError("--peers goes with --scope, --max-states and --json alone.")
        return explore_peers_command(names, max_states, as_json)
    rules = _rules(law)
    searches: list[tuple[Explored, float]] = []
    told: Told | None = None
    for scope in _scopes(names):
        started = time.perf_counter()
        with _progress(quiet or as_json, scope) as progress:
            found = explore(scope, rules, max_states=max_states, progress=progress)
        searches.append((found, time.perf_counter() - started))
        if found.broken is not None:
            told = tell(scope, rules, found.broken)
            break
    if out is not None and told is not None:
        out.write_text(told.text, encoding="utf-8")
    result = _as_dict(searches, told)
    if as_json:
        print_json(result)
    else:
        _show(result)
        _say(result, told, out)
    return 0 if told is None else 1


def _scopes(names: Sequence[str]) -> Sequence[Scope]:
    from kvstate.explore.scopes import QUICK, SCOPES

    for name in names:
        if name not in SCOPES:
            raise click.UsageError(
                f"there is no scope {name!r}{did_you_mean(name, SCOPES)}", click.get_current_context()
            )
    return [SCOPES[name] for name in names] or QUICK


def _rules(law: str | None) -> Rules:
    from kvstate.explore.stage import Rules
    from kvstate.replay.config import LAWS

    if law is None:
        return Rules()
    laws = [name for name in LAWS if name != COPIERS_OWN]
    if law == COPIERS_OWN:
        sentence = f"{law} is a fault of a copier, and the explorer has none; `kvstate replay --break {law}` shows it"
        raise click.UsageError(sentence, click.get_current_context())
    if law not in laws:
        raise click.UsageError(f"there is no break {law!r}{did_you_mean(law, laws)}", click.get_current_context())
    from kvstate.replay.breaks import break_law

    broken = break_law(next(name for name in LAWS if name == law))
    return Rules(broken.machines, broken.couplings, broken.acts)


def _as_dict(searches: Sequence[tuple[Explored, float]], told: Told | None) -> dict[str, Any]:
    fired: dict[str, int] = {}
    for found, _ in searches:
        for row, count in found.fired.items():
            fired[row] = fired.get(row, 0) + count
    last = searches[-1][0]
    violation = None
    if told is not None and last.broken is not None:
        violation = {
            "scope": last.scope.name,
            "law": last.broken.law,
            "sentence": last.broken.sentence,
            "commands": [line for lines in told.commands for line in lines],
            "confirmed": told.confirmed,
            "scenario": told.text,
        }
    return {
        "spec": spec_version(),
        "scopes": [_one(found, seconds) for found, seconds in searches],
        "rows": fired,
        "never_fired": [row for row, count in fired.items() if not count],
        "violation": violation,
    }


def _one(found: Explored, seconds: float) -> dict[str, Any]:
    return {
        "name": found.scope.name,
        "title": found.scope.title,
        "prefix": len(found.scope.prefix),
        "states": found.states,
        "moves": found.transitions,
        "depth": found.depth,
        "frontier": found.frontier,
        "finished": found.finished,
        "seconds": round(seconds, 3),
    }


def _show(result: Mapping[str, Any]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    for name in ("scope", "states", "moves", "depth", "not searched", "seconds"):
        table.add_column(name, justify="left" if name == "scope" else "right")
    for one in result["scopes"]:
        numbers = (f"{one[name]:,}" for name in ("states", "moves", "depth", "frontier"))
        table.add_row(one["name"], *numbers, f"{one['seconds']:.1f}")
    console().print(table)


def _say(result: Mapping[str, Any], told: Told | None, out: Path | None) -> None:
    """The rows, the counterexample and the last line."""
    rows, never = result["rows"], result["never_fired"]
    wrong = result["violation"]
    if wrong is None:
        listed = " ".join(never) if len(never) <= FEW else f"{len(never)}, in the object of --json"
        click.echo(f"rows fired: {len(rows) - len(never)} of {len(rows)}; never: {listed or 'none'}")
        left = [_left(one) for one in result["scopes"] if not one["finished"]]
        end = f"; not searched to the end: {'; '.join(left)}" if left else "; every scope was searched to its end"
        click.echo(f"PASSED: no law was broken{end}.")
        return
    assert told is not None
    click.echo(told.text)
    if not told.confirmed:
        click.echo("The scenario runner sees nothing wrong in it: the law is looked at by the explorer alone.")
    if out is not None:
        click.echo(f"written: {out}")
    moves = counted(len(told.commands), "move")
    click.echo(f"FAILED: {wrong['scope']} breaks {wrong['law']} in {moves}: {wrong['sentence']}", err=True)


def _left(one: Mapping[str, Any]) -> str:
    """How far a search came that did not come to its end."""
    return f"{one['name']}, to depth {one['depth']}, {one['frontier']:,} of {one['states']:,} states not searched from"


@contextmanager
def _progress(quiet: bool, scope: Scope) -> Iterator[Progress]:
    """A line on stderr that says how far it is."""
    from rich.progress import Progress as Bar
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    bar = Bar(*columns, console=console(stderr=True), disable=quiet, transient=True)
    task = bar.add_task(scope.name)

    def move(states: int, waiting: int, depth: int) -> None:
        bar.update(task, description=f"{scope.name}: {states:,} states, {waiting:,} to look at, depth {depth}")

    with bar:
        yield move
