"""How results look: tables for people on stdout, one JSON object for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 160
"""Columns of a table that goes into a file or a pipe, where no terminal says how wide it is."""


def console(*, stderr: bool = False) -> Console:
    """A console on stdout (or stderr) that doesn't fold tables to 80 columns when it is piped."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else PIPE_WIDTH
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False)


def print_json(data: object) -> None:
    """One JSON object on stdout."""
    click.echo(json.dumps(data, indent=1, ensure_ascii=False))


def reflowed(text: str) -> str:
    """Words of a file without its line ends, so that they fill a terminal of any width; an item of a list is a line."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        goes_on = bool(lines) and bool(lines[-1]) and bool(line.strip()) and not line.startswith("* ")
        if goes_on:
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line.strip())
    return "\n".join(lines)


def shown(value: Any) -> str:
    """A value of a result as a cell: numbers with separators, counts by name in one line, lists as length and start."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.1f}"
        case None:
            return "-"
        case Mapping():
            return ", ".join(f"{name} {shown(count)}" for name, count in value.items()) or "none"
        case str():
            return value
        case Sequence():
            return f"{len(value):,}" + (f": {_some(value)}" if value else "")
        case _:
            return str(value)


def _some(words: Sequence[object], most: int = 12) -> str:
    """The first of them, and whether there are more."""
    return " ".join(str(word) for word in words[:most]) + (" ..." if len(words) > most else "")
