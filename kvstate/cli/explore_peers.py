"""`kvstate explore --peers`: every order of events between two processes that hand blocks to each other."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from kvstate.cli.output import console, print_json
from kvstate.cli.words import counted, did_you_mean

if TYPE_CHECKING:
    from kvstate.explore.peers_scopes import PeerScope
    from kvstate.explore.peers_search import PeersExplored


def explore_peers_command(names: Sequence[str], max_states: int | None, as_json: bool) -> int:
    """Search these scopes of two parties, all of them without a name; the status is 1 when a law was broken."""
    from kvstate.explore.peers_search import explore_peers
    from kvstate.peers.tables import SPEC_VERSION

    searches: list[tuple[PeersExplored, float]] = []
    for scope in _scopes(names):
        started = time.perf_counter()
        found = explore_peers(scope, max_states=max_states)
        searches.append((found, time.perf_counter() - started))
        if found.law:
            break
    fired: dict[str, int] = {}
    for found, _ in searches:
        for row, count in found.fired.items():
            fired[row] = fired.get(row, 0) + count
    result = {"spec": SPEC_VERSION, "scopes": [_one(*search) for search in searches], "rows": fired}
    if as_json:
        print_json(result)
    else:
        _show(result["scopes"])
        _say(result, [found for found, _ in searches])
    return 1 if searches[-1][0].law else 0


def _scopes(names: Sequence[str]) -> list[PeerScope]:
    from kvstate.explore.peers_scopes import PEER_SCOPES

    for name in names:
        if name not in PEER_SCOPES:
            sentence = f"two peers have no scope {name!r}{did_you_mean(name, PEER_SCOPES)}"
            raise click.UsageError(sentence, click.get_current_context())
    return [PEER_SCOPES[name] for name in names or PEER_SCOPES]


def _one(found: PeersExplored, seconds: float) -> dict[str, Any]:
    return {
        "name": found.scope.name,
        "title": found.scope.title,
        "states": found.states,
        "moves": found.transitions,
        "forms": found.forms,
        "depth": found.depth,
        "frontier": found.frontier,
        "finished": found.finished,
        "seconds": round(seconds, 3),
        "violation": {"law": found.law, "sentence": found.sentence, "moves": found.moves} if found.law else None,
    }


def _show(scopes: Any) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    for name in ("scope", "states", "moves", "forms", "depth", "not searched", "seconds"):
        table.add_column(name, justify="left" if name == "scope" else "right")
    for one in scopes:
        numbers = (f"{one[name]:,}" for name in ("states", "moves", "forms", "depth", "frontier"))
        table.add_row(one["name"], *numbers, f"{one['seconds']:.1f}")
    console().print(table)


def _say(result: dict[str, Any], searches: list[PeersExplored]) -> None:
    last = searches[-1]
    rows = result["rows"]
    if last.law:
        for number, move in enumerate(last.moves, 1):
            click.echo(f"{number:3}. {' '.join(map(str, move))}")
        moves = counted(len(last.moves), "move")
        click.echo(f"FAILED: {last.scope.name} breaks {last.law} in {moves}: {last.sentence}", err=True)
        return
    never = [row for row, count in rows.items() if not count]
    click.echo(f"rows fired: {len(rows) - len(never)} of {len(rows)}; never: {' '.join(never) or 'none'}")
    left = [f"{found.scope.name}, {found.frontier:,} states left" for found in searches if not found.finished]
    end = f"; not searched to the end: {'; '.join(left)}" if left else "; every scope was searched to its end"
    click.echo(f"PASSED: no law was broken{end}.")
