"""`kvstate workload`: a generated request trace as a file."""

from __future__ import annotations

from pathlib import Path

import click

from kvstate.cli.words import counted
from kvstate.replay.config import GENERATED_REQUESTS, MAX_REQUESTS, MAX_SEED


@click.command("workload")
@click.option("--requests", type=click.IntRange(1, MAX_REQUESTS), default=GENERATED_REQUESTS, help="How many requests.")
@click.option("--seed", type=click.IntRange(0, MAX_SEED), default=0, help="The same seed gives the same trace.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="A file instead of stdout.")
def command(requests: int, seed: int, output: Path | None) -> None:
    """Write a request trace, generated from a seed: JSON lines of timestamp, input_length, output_length, hash_ids.

    Conversations that grow turn by turn, a few shared system prompts, a tail block that nobody shares.
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
