"""The command line. A command's module is imported when the command is called, so that `kvstate --version` is quick.

A mistake of the user is one sentence on stderr and a status: 2 for a command line that makes no sense, 1 for a run or a
file that failed. A traceback means that kvstate itself is wrong.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from kvstate._version import __version__

COMMANDS = {
    "replay": ("kvstate.cli.replay", "Replay a request trace, real or generated, with real copies."),
    "workload": ("kvstate.cli.workload", "Write a generated request trace to a file."),
    "fuzz": ("kvstate.cli.fuzz", "Fuzz kvstate's ledger, or an engine of your own, for broken laws."),
    "explore": ("kvstate.cli.explore", "Make every move in every state of a small scope, and look for a broken law."),
    "trace": ("kvstate.cli.trace", "Hold the record of a run against the spec, row by row."),
    "autopsy": ("kvstate.cli.autopsy", "Say from the record of a run what went wrong first, and how it came to that."),
    "spec": ("kvstate.cli.spec", "Show the machines, check a file of your own, compare two versions."),
    "prove": ("kvstate.cli.prove", "Prove the laws from the data, for any number of blocks, parts and jobs."),
    "promela": ("kvstate.cli.promela", "Print a small scope as a Promela model, for Spin to search."),
    "mutate": ("kvstate.cli.mutate", "Plant one fault at a time, and say which check notices it."),
    "diagram": ("kvstate.cli.diagram", "Draw a machine, or how they are coupled: SVG, PNG, DOT, Mermaid."),
    "explain": ("kvstate.cli.explain", "Say what an error code or a row means, and what to do."),
    "doctor": ("kvstate.cli.doctor", "Say what is installed here, and whether a replay would run."),
}
"""Name: the module (whose `command` is the command) and the line for the list; the list is shown without importing."""

INTERRUPTED = 130
"""The status of a program that was ended by control-C, as shells have it."""


class _LazyGroup(click.Group):
    """A group that imports a command's module when the command is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name][0]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from kvstate.cli.words import did_you_mean

            raise click.UsageError(f"there is no command {args[0]!r}{did_you_mean(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from kvstate.cli.words import spec_version

        click.echo(f"kvstate {__version__} (spec {spec_version()})")
        ctx.exit()


@click.group(
    cls=_LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the versions of kvstate and of its spec.",
)
@click.pass_context
def app(ctx: click.Context) -> None:
    """Life cycles of KV blocks, offload jobs and batch loads, declared as data and used to drive the real copies.

    `kvstate COMMAND --help` says more of each. The status is 0 where all is well, 1 for a run or a file that failed, 2
    for a command line that makes no sense.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line on `args` (the program's own without any) and return its status."""
    try:
        status = app.main(args=None if args is None else list(args), prog_name="kvstate", standalone_mode=False)
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "kvstate"
        click.echo(f"{where}: {error.format_message()}", err=True)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("kvstate: interrupted", err=True)
        return INTERRUPTED
    except OSError as error:  # a full disk, a device that went away: the user's to mend, so no traceback
        if error.errno != errno.EPIPE:
            where = f" {error.filename}" if error.filename else ""
            click.echo(f"kvstate: can't read or write{where}: {error.strerror or error}", err=True)
        return 1
    return status if isinstance(status, int) else 0


def main() -> NoReturn:
    """The program `kvstate`."""
    status = run()
    try:
        sys.stdout.flush()
    except OSError as error:
        if error.errno != errno.EPIPE:
            click.echo(f"kvstate: can't write the output: {error.strerror}", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter tries once more
        status = status or 1
    sys.exit(status)
