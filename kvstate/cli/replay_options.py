"""Options of `kvstate replay` that are made of others, or stand together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from kvstate.replay import config as settings
from kvstate.replay.config import ConfigError, ReplayConfig

DEFAULTS: Final = ReplayConfig()
"""What an option is where nobody gives it."""
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
"""An option of click, put around the function below it."""


def parsed(parse: Callable[[str, str], Any]) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """A callback of click that reads an option's text with one of the parsers of `kvstate.replay.config`."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            if isinstance(value, tuple):
                return tuple(parse(param.opts[0], one) for one in value)
            return None if value is None else parse(param.opts[0], value)
        except ConfigError as error:
            raise click.UsageError(str(error), ctx) from None

    return callback


def rate(name: str, what: str) -> Decorator:
    """An option for one of the rates, of which `--chaos` has a default."""
    text = f"{what}.  [default: 0; {settings.CHAOS[name]:.1%} with --chaos]"
    return click.option(f"--{name}", callback=parsed(settings.parse_rate), metavar="RATE", help=text)


DISK: Final[tuple[Decorator, ...]] = (
    click.option(
        "--disk",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="PATH",
        help="A folder for a third tier; what a run leaves there, the next one with the same PATH finds.",
    ),
    click.option(
        "--disk-bytes",
        callback=parsed(settings.parse_bytes),
        metavar="N",
        help="What that tier may take, in all: 500MiB, 2GiB.  [default: 1GiB]",
    ),
    click.option(
        "--disk-sync",
        type=click.Choice(settings.SYNCS),
        default=DEFAULTS.disk_sync,
        show_default=True,
        help="What is on the disk when a block counts as stored: nothing, its bytes, its name as well.",
    ),
    click.option(
        "--tiers",
        type=click.Choice(settings.FEEDS),
        default=DEFAULTS.tiers,
        show_default=True,
        help="A lower tier is given what the one above has stored, at once or when that is about to be full.",
    ),
    click.option(
        "--store",
        metavar="URL",
        help="An object store for the lowest tier: s3://BUCKET/PREFIX?endpoint=URL, file:///FOLDER or memory://; "
        "credentials are taken from the environment.",
    ),
    click.option(
        "--store-blocks",
        type=int,
        metavar="N",
        help=f"How many of its objects may be known at once.  [default: {DEFAULTS.store_blocks}]",
    ),
    click.option(
        "--kill-after",
        type=float,
        metavar="S",
        help="The process kills itself (SIGKILL) S seconds after the first request.",
    ),
    click.option(
        "--commits-to",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Append a line for each key that the disk has from now on (+) or has no more (-).",
    ),
)
"""What there is to say of the tiers below the host, in the order in which the help has it."""


def disk_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All of them, around this command."""
    for option in reversed(DISK):
        command = option(command)
    return command
