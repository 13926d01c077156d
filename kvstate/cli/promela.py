"""`kvstate promela`: a scope as a Promela model, and the number of states that Spin has to find in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kvstate.cli.output import console
from kvstate.cli.words import did_you_mean

if TYPE_CHECKING:
    from kvstate.promela.vector import Viewer

DEFAULT = "store-load"
"""A small scope that has both a job and a load."""


@click.command("promela")
@click.option("--scope", "name", default=DEFAULT, metavar="NAME", help="Print this scope of `kvstate explore`.")
@click.option("--states", is_flag=True, help="Print the vector of each state as it is reached (a pan with -DPRINTF).")
@click.option("--count", is_flag=True, help="Print no model but the number of states that the ledger reaches.")
def command(name: str, states: bool, count: bool) -> int:
    """Print a scope as a Promela model, for Spin.

    Every row and coupling in it is read from the data. After `spin -o2 -a`, a pan that was compiled with `-DNOREDUCE
    -DSAFETY -DNOCLAIM` stores as many states as the ledger itself reaches: `--count` searches it and says how many.
    """
    from kvstate.promela.printer import print_model
    from kvstate.promela.shape import UnprintableError
    from kvstate.promela.states import reached

    viewer = _viewer(name)
    try:
        model = print_model(viewer, tell=states)
    except UnprintableError as error:
        raise click.UsageError(str(error), click.get_current_context()) from None
    if count:
        with console(stderr=True).status(f"{name}: searching the ledger"):
            found = len(reached(viewer))
        click.echo(f"{found} states")
    else:
        click.echo(model, nl=False)
    return 0


def _viewer(name: str) -> Viewer:
    """The ledger of that scope, at its beginning."""
    from kvstate.explore.scopes import SCOPES
    from kvstate.promela.shape import UnprintableError
    from kvstate.promela.states import begin

    if name not in SCOPES:
        raise click.UsageError(f"there is no scope {name!r}{did_you_mean(name, SCOPES)}", click.get_current_context())
    try:
        return begin(SCOPES[name])
    except UnprintableError as error:
        raise click.UsageError(str(error), click.get_current_context()) from None
