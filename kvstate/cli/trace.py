"""`kvstate trace`: is a record what the spec allows, row by row and to its end; and a record as a trace to look at."""

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
    """Hold a record against the spec, or turn it into a trace to look at.

    \b
    kvstate replay --chaos --trace-out run.ndjson
    kvstate trace check run.ndjson
    kvstate trace export run.ndjson --format chrome -o run.json
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


@command.command("export")
@click.argument("file", type=FILE, metavar="FILE")
@click.option(
    "--format",
    "kind",
    type=click.Choice(["chrome"]),
    default="chrome",
    show_default=True,
    help="Of the trace: chrome is the trace-event format, for Perfetto's UI and chrome://tracing.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    metavar="OUT",
    help="Where to write it; a file that is there is replaced.",
)
@click.pass_context
def export(ctx: click.Context, file: Path, kind: str, output: Path) -> None:
    """Turn a record into a trace to look at.

    There is a track for each copier. FILE is a record, as for `kvstate trace check`; one that was cut off is exported
    up to there, and the status is 1.
    """
    from kvstate.observe.chrome import export as export_record
    from kvstate.trace.lines import RecordError

    assert kind == "chrome", "there is no other"
    part = output.with_name(output.name + ".part")
    if file in (output, part) or (output.exists() and output.samefile(file)):
        raise click.UsageError(f"{output} is the record itself; write the trace to another file")
    try:
        with part.open("w", encoding="utf-8") as stream:
            done = export_record(file, stream)
        part.replace(output)
    except RecordError as error:
        part.unlink(missing_ok=True)
        raise click.ClickException(str(error)) from None
    except OSError as error:
        part.unlink(missing_ok=True)
        raise click.ClickException(f"{output} can't be written: {error.strerror or error}") from None
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    click.echo(f"{output}: {counted(done.events, 'event')} of {counted(done.lines, 'line')}")
    if done.cut:
        click.echo(f"the record ends early, and what came before is exported: {done.cut}", err=True)
    ctx.exit(1 if done.cut else 0)
