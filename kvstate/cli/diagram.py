"""`kvstate diagram`: a machine as a picture, or as text that others draw; and how the machines are coupled."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvstate.cli.words import find_machine, own_spec, peers_spec

if TYPE_CHECKING:
    from kvstate.spec.diagram import Picture

FORMATS = ("svg", "png", "dot", "mermaid")
"""Two pictures and two texts; what an output's name ends in chooses one, too."""
COUPLINGS = "couplings"
PEERS = "peers"
"""`COUPLINGS` and this: the words for all machines together, where one would be named."""
PLACE = click.Path(path_type=Path, dir_okay=False)
"""A file, which need not be there yet."""


@click.command("diagram")
@click.argument("machine", required=False, metavar="[MACHINE | FILE | couplings | peers]")
@click.option(
    "--format",
    "kind",
    type=click.Choice(FORMATS),
    help="What to print.  [default: what the name of the output ends in; else svg]",
)
@click.option(
    "-o", "--output", type=PLACE, help="Write to this file instead of stdout: .svg .png .dot .gv .mmd .mermaid"
)
@click.option(
    "--couplings", "coupled", is_flag=True, help="Draw how the machines are coupled; the same as the word `couplings`."
)
@click.option(
    "--highlight", type=PLACE, metavar="RECORD", help="Colour what fired in a run, with how often, and what never did."
)
def command(machine: str | None, kind: str | None, output: Path | None, coupled: bool, highlight: Path | None) -> None:
    """Draw a machine of the spec or of a file of your own, or how the machines are coupled.

    DOT and Mermaid are text and need nothing. SVG and PNG are drawn by graphviz-pure, which `kvstate[diagram]` brings,
    or by the program `dot`. A RECORD is what `kvstate replay --trace-out RECORD` writes.

    \b
    kvstate diagram block -o block.svg                        a picture
    kvstate diagram mine.toml --format mermaid                text, of a machine of your own
    kvstate diagram block --highlight run.ndjson -o run.svg   what a run did
    """
    if coupled and machine not in (None, COUPLINGS):
        raise click.UsageError("--couplings draws all machines of the spec, so name none.")
    if machine is None and not coupled:
        names = ", ".join(one.name for one in own_spec().machines)
        raise click.UsageError(f"name a machine or a file; there are {names}, and couplings.")
    kind = kind or _kind_of(output)
    if output is None and kind in ("svg", "png") and sys.stdout.isatty():
        raise click.UsageError(f"{kind.upper()} is not for a terminal; give -o FILE, or --format dot or mermaid.")
    picture = _draw(COUPLINGS if machine is None else machine, kind, highlight)
    if output is None:
        click.echo(picture, nl=False)
        return
    try:
        output.write_bytes(picture)
    except OSError as error:
        raise click.ClickException(f"{output} could not be written: {error.strerror}.") from None


def _kind_of(output: Path | None) -> str:
    endings = {".svg": "svg", ".png": "png", ".dot": "dot", ".gv": "dot", ".mmd": "mermaid", ".mermaid": "mermaid"}
    return endings.get(output.suffix, "svg") if output else "svg"


def _draw(word: str, kind: str, highlight: Path | None) -> bytes:
    from kvstate.spec.diagram import DiagramError, mermaid
    from kvstate.spec.diagram_dot import dot
    from kvstate.spec.diagram_render import render

    try:
        drawn = _picture(word, highlight)
        if kind == "mermaid":
            return mermaid(drawn).encode()
        text = dot(drawn)
        return text.encode() if kind == "dot" else render(text, "png" if kind == "png" else "svg")
    except DiagramError as error:
        raise click.ClickException(f"{error}.") from None


def _picture(word: str, highlight: Path | None) -> Picture:
    from kvstate.spec import diagram
    from kvstate.spec.diagram_record import read_counts

    counts = read_counts(highlight) if highlight else None
    if word == COUPLINGS:
        return diagram.couplings(own_spec(), counts)
    if word == PEERS:
        return diagram.couplings(peers_spec(), counts)
    return diagram.picture(find_machine(word), counts)
