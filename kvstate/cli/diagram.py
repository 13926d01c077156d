"""`kvstate diagram`: a machine as a picture, or as text that others draw."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from kvstate.cli.words import find_machine, own_spec

FORMATS = ("svg", "dot", "mermaid")


@click.command("diagram")
@click.argument("machine", required=False, metavar="[MACHINE | FILE]")
@click.option("--format", "kind", type=click.Choice(FORMATS), help="Default: what the output's name ends in, else svg.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="A file instead of stdout.")
def command(machine: str | None, kind: str | None, output: Path | None) -> None:
    """Draw a machine of the spec, or of a file of your own.

    DOT and Mermaid are text and need nothing; SVG is drawn by the program `dot`.
    """
    if machine is None:
        names = ", ".join(one.name for one in own_spec().machines)
        raise click.UsageError(f"name a machine or a file; there are {names}.")
    kind = kind or _kind_of(output)
    picture = _draw(machine, kind)
    if output is None:
        if kind == "svg" and sys.stdout.isatty():
            raise click.UsageError("an SVG is not for a terminal; give -o FILE, or --format dot or mermaid.")
        click.echo(picture, nl=False)
        return
    try:
        output.write_bytes(picture)
    except OSError as error:
        raise click.ClickException(f"{output} could not be written: {error.strerror}.") from None


def _kind_of(output: Path | None) -> str:
    endings = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid"}
    return endings.get(output.suffix, "svg") if output else "svg"


def _draw(word: str, kind: str) -> bytes:
    from kvstate.spec import diagram

    machine = find_machine(word)
    if kind == "dot":
        return diagram.dot(machine).encode()
    if kind == "mermaid":
        return diagram.mermaid(machine).encode()
    try:
        return diagram.svg(machine)
    except diagram.DiagramError as error:
        raise click.ClickException(f"{error}.") from None
