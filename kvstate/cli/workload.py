"""`kvstate workload`: a generated request trace as a file."""

from __future__ import annotations

from pathlib import Path

import click

from kvstate.cli.words import counted
from kvstate.replay.config import GENERATED_REQUESTS, MAX_REQUESTS, MAX_SEED


@click.command("workload")
@click.option(
    "--requests",
    type=click.IntRange(1, MAX_REQUESTS),
    default=GENERATED_REQUESTS,
    metavar="N",
    help="How many requests.",
)
@click.option(
    "--seed", type=click.IntRange(0, MAX_SEED), default=0, metavar="N", help="The same seed gives the same trace."
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file instead of stdout."
)
def command(requests: int, seed: int, output: Path | None) -> None:
    """Write a request trace, generated from a seed: what `kvstate replay` replays where it is given none.

    One JSON object a line: timestamp (milliseconds), input_length and output_length (tokens), hash_ids (one number a
    block). Conversations that grow turn by turn, a few shared system prompts, a tail block that nobody shares.

    \b
    kvstate workload --requests 100 -o trace.jsonl    100 requests, as a file
    kvstate workload --requests 3 --seed 7            three others, on stdout
    """
    from kvstate.replay.trace import format_request
    from kvstate.replay.workload import generate

    try:
        with click.open_file(str(output or "-"), "w", encoding="utf-8") as stream:
            for request in generate(requests, seed):
                stream.write(format_request(request) + "\n")
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f"{output} could not be written: {error.strerror}.") from error
    if output:
        click.echo(f"{output}: {counted(requests, 'request')} of seed {seed}", err=True)
