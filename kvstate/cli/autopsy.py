"""`kvstate autopsy`: what a record of a failed run says about how it came to that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvstate.cli.output import print_json
from kvstate.cli.trace import FILE, SPEC
from kvstate.cli.words import spec_in

if TYPE_CHECKING:
    from kvstate.trace.autopsy import Autopsy


@click.command("autopsy")
@click.argument("file", type=FILE, metavar="FILE")
@click.option("--spec", "folder", type=SPEC, metavar="DIR", help="The spec that ran.  [default: the package's own]")
@click.option("--last", type=click.IntRange(1, 10_000), default=20, metavar="N", help="Show so many of the last lines.")
@click.option("--mermaid", is_flag=True, help="Print the story as a Mermaid sequence diagram, and nothing else.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of sentences.")
@click.pass_context
def command(ctx: click.Context, file: Path, folder: Path | None, last: int, mermaid: bool, as_json: bool) -> None:
    """Take a record apart: its last lines, the first violation, the shortest story that leads to it.

    FILE is what `kvstate replay --trace-out FILE` writes, or what --crash-dump FILE leaves behind. The story is what
    touched the violating record in its present life, and ends with the violating line. The status is 1 if there is a
    violation.

    \b
    kvstate replay --chaos --break no-draining --trace-out run.ndjson
    kvstate autopsy run.ndjson
    kvstate autopsy run.ndjson --mermaid > story.mmd
    """
    from kvstate.trace.autopsy import autopsy
    from kvstate.trace.autopsy import mermaid as drawn
    from kvstate.trace.lines import RecordError

    try:
        found = autopsy(file, spec_in(folder), last)
    except RecordError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        _print_data(found)
    elif mermaid:
        click.echo(drawn(found.story or found.last), nl=False)
    else:
        _print_words(file, found)
    ctx.exit(1 if found.violation else 0)


def _print_data(found: Autopsy) -> None:
    from kvstate.trace.autopsy import mermaid

    wrong = found.violation
    print_json(
        {
            "lines": found.lines,
            "lost": found.lost,
            "violation": None if wrong is None else {"line": wrong.line.number, "sentence": wrong.sentence},
            "last": [dict(line.data) for line in found.last],
            "story": [dict(line.data) for line in found.story],
            "mermaid": mermaid(found.story or found.last),
        }
    )


def _print_words(file: Path, found: Autopsy) -> None:
    from kvstate.trace.autopsy import mermaid, said

    if found.lost:
        click.echo(f"the file is the end of a run: {found.lost} lines before it are missing")
    click.echo(f"the last of {found.lines} lines:")
    for line in found.last:
        click.echo(f"  {line.number:>8}  {line.time:.6f} s  {said(line)}")
    if found.violation is None:
        click.echo("no line violates the spec")
        return
    click.echo(f"the first violation: {file}:{found.violation.line.number}: {found.violation.sentence}")
    click.echo(f"the shortest story that leads there, {len(found.story)} of {found.lines} lines:")
    for line in found.story:
        click.echo(f"  {line.number:>8}  {line.time:.6f} s  {said(line)}")
    for dump in found.violation.line.data.get("dump", ()):
        click.echo(f"  then: {dump}")
    click.echo("as a Mermaid sequence diagram:")
    click.echo(mermaid(found.story), nl=False)
