"""`kvstate replay --peers`: options for two processes, of which one prefills and the other decodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import click
from click.core import ParameterSource

from kvstate.cli.output import console, print_json, shown
from kvstate.cli.replay_errors import put_right
from kvstate.cli.replay_options import Decorator
from kvstate.replay.checks import ConfigError
from kvstate.replay.peers import config as settings
from kvstate.replay.peers.config import PeersConfig

DEFAULTS: Final = PeersConfig()
"""What an option is where nobody gives it."""
PROCESSES: Final = 2
"""One prefills, one decodes."""
OPTIONS: Final[tuple[Decorator, ...]] = (
    click.option(
        "--peers",
        type=click.IntRange(PROCESSES, PROCESSES),
        metavar="2",
        help="Replay in two processes that hand blocks over: a prefill, and a decode that answers.",
    ),
    click.option(
        "--transport",
        type=click.Choice(settings.TRANSPORTS),
        help=f"What carries the bytes between the two.  [default: {DEFAULTS.transport}, with --peers]",
    ),
    click.option(
        "--kill-peers",
        type=int,
        metavar="K",
        help="Kill one of the two K times in the middle of what it does, and start another under its name.",
    ),
    click.option(
        "--stop-peers", type=int, metavar="K", help="Stop one of the two K times for a while, and let it go on."
    ),
)
"""What there is to say of peers, in the order in which the help has it."""
OF_PEERS: Final = ("transport", "kill_peers", "stop_peers")
"""Options that mean nothing without `--peers`."""
TAKEN: Final = (
    "trace", "limit", "seed", "device_blocks", "host_blocks", "block_bytes", "integrity", "store", "abort", "chaos",
    "as_json", "quiet", "peers", *OF_PEERS,
)  # fmt: skip
"""Options that mean something with `--peers`."""
MUST_BE_0: Final = ("wrong_bytes", "violations", "leaked_blocks", "quarantined_after_fence")
"""What makes a run fail."""


def peers_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All of them, around this command."""
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def check_alone(options: Mapping[str, Any]) -> None:
    """Without `--peers`. Errors: `ConfigError` for an option that is of peers."""
    for name in OF_PEERS:
        if options[name] is not None:
            raise ConfigError(f"--{name.replace('_', '-')}", "is about peers, and there are none; give --peers 2 too.")


def replay_peers(options: Mapping[str, Any], progress: Callable[[bool], Any], *, as_json: bool, quiet: bool) -> int:
    """Run it and print what was found; the status of the command. `progress` makes a bar."""
    config = _config(options)
    with put_right("Mend the line."):
        from kvstate.replay.peers import driver

        with progress(quiet) as moved:
            result = driver.run(config, moved)
    if as_json:
        print_json(result.as_dict())
    else:
        show(result.as_dict())
        if not result.problems:
            click.echo("PASSED: every byte that was handed over was right, no law was violated, no block leaked.")
    for sentence in result.problems:
        click.echo(f"FAILED: {sentence}", err=True)
    return 1 if result.problems else 0


def _config(options: Mapping[str, Any]) -> PeersConfig:
    """Errors: `ConfigError` for an option that means nothing here, and for a value that can't be."""
    context = click.get_current_context()
    given = {
        name
        for name in context.params
        if context.get_parameter_source(name) not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP, None)
    }
    for name in sorted(given - set(TAKEN)):
        raise ConfigError(f"--{name.replace('_', '-')}", "means nothing with --peers; leave it out.")
    rates = settings.CHAOS if options["chaos"] else dict.fromkeys(settings.RATES, 0.0)
    values: dict[str, Any] = {name: options[name] for name in ("trace", "limit", "seed")}
    for name in ("device_blocks", "host_blocks", "block_bytes"):
        values[name] = options[name] if name in given else getattr(DEFAULTS, name)
    for name in ("integrity", "store", *OF_PEERS):
        value = options.get(name)
        values[name] = getattr(DEFAULTS, name) if value is None else value
    values |= rates
    if options["abort"] is not None:
        values["abort"] = options["abort"]
    return PeersConfig(peer_blocks=values["device_blocks"], **values)


def show(result: Mapping[str, Any]) -> None:
    """Print the numbers of a result; what must be 0 and is not stands out."""
    from rich.table import Table

    table = Table(show_header=True, header_style="bold")
    for heading in ("", "prefill", "decode"):
        table.add_column(heading, overflow="fold")
    nodes = result["nodes"]
    rows = ("hits", "loaded", "computed", "loads", "handoffs", "failures", "aborts", "too_long", "messages")
    for row in rows:
        table.add_row(row, *(shown(nodes.get(role, {}).get(row, "")) for role in ("prefill", "decode")))
    out = console()
    out.print(table)
    for name in ("requests", "seconds", "resent", "kills", "stops", "longest_handoff", *MUST_BE_0):
        style = "bold red" if name in MUST_BE_0 and result[name] else ""
        out.print(f"{name.replace('_', ' ')}: {shown(result[name])}", style=style, highlight=False)
