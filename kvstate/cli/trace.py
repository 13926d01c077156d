"""`kvstate trace`: is a record what the spec allows, row by row and to its end?"""

from __future__ import annotations

from pathlib import Path

import click

from kvstate.cli.output import print_json
from kvstate.cli.words import counted, spec_in

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
"""What a record is given as."""
SPEC = click.Path(exists=True, file_okay=False, path_type=Path)
"""What the spec that ran is given as: a folder."""


@click.group("trace")
def command() -> None:
    """Hold a record against the spec.

    \b
    kvstate replay --chaos --trace-out run.ndjson
    kvstate trace check run.ndjson
    """


@command.command("check")
@click.argument("file", type=FILE, metavar="FILE")
@click.option("--spec", "folder", type=SPEC, metavar="DIR", help="The spec that ran.  [default: the package's own]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of sentences.")
@click.pass_context
def check(ctx: click.Context, file: Path, folder: Path | None, as_json: bool) -> None:
    """Replay a record row by row through the spec, to its last line.

    FILE is what `kvstate replay --trace-out FILE` writes, or what --crash-dump FILE leaves behind. The status is 1 if a
    line is not allowed (the first is named) or the file is cut off.
    """
    from kvstate.trace.check import check as check_record
    from kvstate.trace.lines import RecordError

    try:
        found = check_record(file, spec_in(folder))
    except RecordError as error:
        raise click.ClickException(str(error)) from None
    wrong = found.violation
    if as_json:
        violation = None if wrong is None else {"line": wrong.line.number, "sentence": wrong.sentence}
        rows = dict(sorted(found.rows.items()))
        print_json(
            {
                "lines": found.lines,
                "lost": found.lost,
                "guards_not_asked": found.unasked,
                "rows": rows,
                "violation": violation,
            }
        )
    elif wrong is not None:
        click.echo(f"{file}:{wrong.line.number}: {wrong.sentence}")
    else:
        fired = counted(found.rows.total(), "row")
        click.echo(
            f"{file}: {counted(found.lines, 'line')}, {fired} of {len(found.rows)} kinds, all as the spec allows"
        )
        if found.lost:
            missing, unasked = counted(found.lost, "line"), counted(found.unasked, "guard")
            click.echo(f"{missing} before that are missing, so {unasked} could not be asked")
    ctx.exit(1 if wrong else 0)
