"""`python -m bench [--quick] [--json PATH]`: measure, print, and write the figures down."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from time import perf_counter, strftime

from rich import box
from rich.console import Console
from rich.table import Table

from bench import copies, disk, events, lives, memory, objects, observe, peers, steps
from bench.measure import FULL, QUICK, TINY, Line, Size
from kvstate import __version__
from kvstate.machines.tables import SPEC_VERSION

RESULTS = Path(__file__).resolve().parent / "results"
PARTS = (events, lives, steps, observe, copies, disk, objects, peers, memory)
SIZES = {size.name: size for size in (FULL, QUICK, TINY)}


def number(value: float) -> str:
    """Three digits that mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def shown(line: Line) -> tuple[str, ...]:
    """A line as the cells of the table."""
    target = "" if line.target is None else f"{line.sense} {number(line.target)}"
    met = {True: "met", False: "not met", None: ""}[line.met]
    if line.measured is None:
        return line.name, line.note, "", line.unit, target, "", ""
    found = line.measured
    reach = "" if found.count == 1 else f"{number(found.low)} to {number(found.high)}"
    return line.name, number(found.median), reach, line.unit, target, met, line.note


def show(lines: Sequence[Line]) -> None:
    """The table on stdout, wide where nobody says how wide a line may be."""
    table = Table("what", "median", "lowest to highest", "unit", "target", "today", "", box=box.SIMPLE_HEAD)
    for line in lines:
        table.add_row(*shown(line))
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else 180
    Console(width=width, highlight=False, markup=False).print(table)


def data(lines: Sequence[Line], size: Size, seconds: float) -> dict[str, object]:
    """All of it for a program."""
    return {
        "format": 1,
        "kvstate": __version__,
        "spec": SPEC_VERSION,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "gc": True,
        "size": asdict(size),
        "seconds": round(seconds, 1),
        "lines": [{**asdict(line), "met": line.met} for line in lines],
    }


def main(args: Sequence[str] | None = None) -> int:
    """Run all parts; the status says that it ran, not that the targets are met."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="What the tables, the ledger and copies cost.")
    parser.add_argument("--quick", action="store_const", const="quick", default="full", dest="size", help="look only")
    parser.add_argument("--tiny", action="store_const", const="tiny", dest="size", help="only show that it runs")
    parser.add_argument("--json", type=Path, metavar="PATH", help="where to write it; bench/results/ without")
    chosen = parser.parse_args(args)
    size = SIZES[chosen.size]
    begin = perf_counter()
    lines: list[Line] = []
    for part in PARTS:
        lines += part.lines(size)
        print(f"{part.__name__}: {perf_counter() - begin:.1f} s", file=sys.stderr)
    path = chosen.json or RESULTS / f"{strftime('%Y%m%dT%H%M%S')}-{size.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data(lines, size, perf_counter() - begin), indent=1) + "\n", encoding="utf-8")
    show(lines)
    print(f"written to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
