"""`kvstate replay`: the main job. This file turns options into a `ReplayConfig`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvstate.cli.output import console, print_json
from kvstate.cli.replay_checks import check_machine, check_options
from kvstate.cli.replay_errors import put_right
from kvstate.cli.replay_options import DEFAULTS, disk_options, parsed, rate
from kvstate.cli.replay_peers import OF_PEERS, check_alone, peers_options, replay_peers
from kvstate.cli.replay_table import show
from kvstate.replay import config as settings
from kvstate.replay.config import ConfigError, ReplayConfig

if TYPE_CHECKING:
    from kvstate.replay.result import ReplayResult


@click.command("replay")
@click.argument("trace", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--limit",
    type=int,
    metavar="N",
    help=f"Stop after so many requests.  [default: the whole TRACE; {settings.GENERATED_REQUESTS} without one]",
)
@click.option(
    "--seed",
    type=int,
    default=DEFAULTS.seed,
    help="Of the dice of the chaos, and of the workload if there is no TRACE.",
)
@click.option(
    "--device-blocks", type=int, default=DEFAULTS.device_blocks, help="Blocks of the device pool: a tensor on the CPU."
)
@click.option(
    "--host-blocks",
    type=int,
    default=DEFAULTS.host_blocks,
    help="Blocks of the host pool; 0 for none: nothing is stored then, nothing loaded.",
)
@click.option(
    "--block-bytes", type=int, default=DEFAULTS.block_bytes, help="Bytes of a block, a multiple of 8, 64 at least."
)
@disk_options
@peers_options
@click.option("--concurrency", type=int, default=DEFAULTS.concurrency, help="How many threads copy.")
@click.option(
    "--workers",
    type=int,
    metavar="N",
    default=DEFAULTS.workers,
    help="Copy in N processes, each with a piece of every block; 0 copies here.",
)
@click.option(
    "--kill-workers",
    type=int,
    metavar="K",
    default=DEFAULTS.kill_workers,
    help="Kill a worker K times in the middle of what it does, and start another one.",
)
@click.option(
    "--hold",
    type=float,
    metavar="FACTOR",
    default=DEFAULTS.hold,
    help="Stretches how long a decode holds its blocks, which follows from output_length; 0 ends it at once.",
)
@click.option(
    "--policy",
    type=click.Choice(settings.POLICIES),
    default=DEFAULTS.policy,
    show_default=True,
    help="Which cached block leaves first: the one that was never asked for again, or the one that rested longest.",
)
@click.option(
    "--integrity",
    type=click.Choice(settings.INTEGRITY),
    help="Which checksums are kept and verified: none, of bytes that leave the process, of the host pool, too.  "
    "[default: boundary; host with --corrupt]",
)
@click.option("--chaos", is_flag=True, help="All rates below and a delay, at once; what is given beside it wins.")
@rate("abort", "Requests that are aborted")
@rate("preempt", "Requests that are preempted")
@click.option(
    "--fail",
    callback=parsed(settings.parse_fail),
    multiple=True,
    metavar="RATE|CODE=RATE",
    help="Parts that fail, with any code or with this one; may be given several times.  "
    f"[default: 0; {settings.CHAOS['fail']:.1%} with --chaos]",
)
@rate("late", "Parts that land and report after their deadline")
@rate("duplicate", "Reports that come twice")
@rate("lost", "Reports that never come")
@rate("corrupt", "Parts with a wrong byte in the host pool")
@click.option(
    "--delay",
    callback=parsed(settings.parse_delay),
    metavar="MIN:MAX",
    help="Each copy waits from MIN to MAX milliseconds before it lands.  "
    f"[default: 0; {settings.CHAOS_DELAY_MS[0]:g}:{settings.CHAOS_DELAY_MS[1]:g} with any rate]",
)
@click.option(
    "--deterministic", is_flag=True, help="Seeded order and virtual time: a seed gives the same record every time."
)
@click.option(
    "--break",
    "break_law",
    type=click.Choice(settings.LAWS),
    metavar="LAW",
    help="Take this law out, to see that it is missed; brings --chaos where no rate is given.",
)
@click.option(
    "--must-race/--no-race",
    default=None,
    help="Fail if too little happened at once to prove anything.  [default: only where --abort and --late are not 0]",
)
@click.option("--skip-bad", is_flag=True, help="Count broken lines of TRACE and go on, where one would end the run.")
@click.option(
    "--trace-out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="RECORD",
    help="Write a record of the run: every input, row, effect and verdict, a JSON object a line.",
)
@click.option(
    "--crash-dump",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="RECORD",
    help="Keep the last events in memory, and write them down when the ledger is poisoned.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.html",
    help="Write the numbers, and plots of how it went over time, as one file for a browser.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object instead of the table.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def command(as_json: bool, quiet: bool, **options: Any) -> int:
    """Replay a request trace through ledger and runtime with real bytes, and compare every byte that was loaded.

    TRACE is a file of JSON objects, one a line: timestamp (milliseconds), input_length and output_length (tokens),
    hash_ids (one number a block). Without it, a workload is generated from the seed. RATE is a share such as 5% or
    0.05, of requests (--abort, --preempt) or of parts, the single copies; CODE is one that `kvstate explain` lists.

    The status is 1 when the run failed: wrong bytes, a violated law, a leaked block, too few races, a broken line of
    TRACE.

    LAW is one of no-draining, match-by-block, publish-before-commit, timeout-frees, no-condemned-keys,
    end-at-first-failure.

    \b
    kvstate replay --limit 500                     a generated workload, nothing goes wrong
    kvstate replay trace.jsonl --chaos --seed 7    a trace of your own, with all kinds of trouble
    kvstate replay --chaos --break timeout-frees   watch a law being missed
    kvstate replay --disk kv --kill-after 5        die, run it again, and see what was recovered
    kvstate replay --peers 2 --kill-peers 3        a prefill and a decode that hand blocks over, and die
    """
    try:
        if options.pop("peers") is not None:
            return replay_peers(options, _progress, as_json=as_json, quiet=quiet)
        check_alone(options)
        config = _config(**{name: value for name, value in options.items() if name not in OF_PEERS})
    except ConfigError as error:
        raise click.UsageError(str(error), click.get_current_context()) from None
    result = _run(config, quiet)
    if as_json:
        print_json(result.as_dict())
    else:
        show(result.as_dict())
        if not result.problems:
            click.echo("PASSED: every byte that was loaded was right, no law was violated, no block leaked.")
    for sentence in result.problems:
        click.echo(f"FAILED: {sentence}", err=True)
    return 1 if result.problems else 0


def _config(
    chaos: bool,
    fail: Sequence[tuple[str | None, float]],
    delay: tuple[float, float] | None,
    **options: Any,
) -> ReplayConfig:
    """The settings: what was given, else the preset if it was asked for, else the default."""
    # Without anything going wrong, nobody would notice that a law is missing.
    told = [name for name in settings.RATES if name != "fail" and options[name]]
    chaos = chaos or (options["break_law"] is not None and not fail and not told)
    preset = settings.CHAOS if chaos else dict.fromkeys(settings.RATES, 0.0)
    for name in settings.RATES:
        if name != "fail" and options[name] is None:
            options[name] = preset[name]
    options["fail"] = sum(rate for code, rate in fail if code is None) if fail else preset["fail"]
    options["fail_codes"] = tuple((code, rate) for code, rate in fail if code is not None)
    chaotic = any(options[name] for name in settings.RATES) or bool(options["fail_codes"])
    options["delay"] = delay or (settings.CHAOS_DELAY_MS if chaotic else DEFAULTS.delay)
    if options["must_race"] is None:
        options["must_race"] = bool(options["abort"] and options["late"])
    if options["integrity"] is None:
        # A wrong byte in the host pool can only be seen by whoever looks there; without that the run has to fail.
        options["integrity"] = "host" if options["corrupt"] else DEFAULTS.integrity
    check_options(options)
    config = ReplayConfig(**options)
    check_machine(config)
    return config


def _run(config: ReplayConfig, quiet: bool) -> ReplayResult:
    with put_right("Mend the line, or count and skip such lines with --skip-bad."):
        from kvstate.replay import driver

        with _progress(quiet) as progress:
            result = driver.run(config, progress)
    return result


@contextmanager
def _progress(quiet: bool) -> Iterator[settings.Progress]:
    """A bar on stderr, and what the driver calls to move it."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=console(stderr=True), disable=quiet, transient=True)
    task = bar.add_task("replay", total=None)

    def move(done: int, total: int | None) -> None:
        bar.update(task, completed=done, total=total)

    with bar:
        yield move
