"""The pictures that are checked in, docs/pictures: one of each machine and one of the couplings, of either spec.

    python -m kvstate.spec.diagram_pictures           write them
    python -m kvstate.spec.diagram_pictures --check   are they what spec/ gives? (status 1 if not)

They are drawn by `graphviz-pure` and by nothing else: it gives the same bytes on every machine, where `dot` would give
others for each version and set of fonts, and a picture would change in a diff though the spec has not. A check where
that package is missing says so and fails; it never compares with another program's drawing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kvstate.spec import peers_dir, spec_dir
from kvstate.spec.diagram import DiagramError, couplings, picture
from kvstate.spec.diagram_dot import dot
from kvstate.spec.diagram_render import pure_renderer, render
from kvstate.spec.loader import load_spec


def pictures() -> Iterator[tuple[str, bytes]]:
    """File name and SVG of every picture. Errors: `DiagramError` where graphviz-pure is missing or fails."""
    if pure_renderer() is None:
        raise DiagramError(
            "the checked-in pictures are drawn by graphviz-pure, which is not here: pip install 'kvstate[diagram]'"
        )
    spec, peers = load_spec(), load_spec(peers_dir())
    handed = replace(couplings(peers), name="peers")
    for drawn in (*map(picture, spec.machines), couplings(spec), *map(picture, peers.machines), handed):
        yield f"{drawn.name}.svg", render(dot(drawn), "svg")


def main(args: Sequence[str] | None = None) -> int:
    """Write or compare; the status is 1 if a picture is not what the spec gives, or nothing can be drawn."""
    parser = argparse.ArgumentParser(description="Write docs/pictures.")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("--folder", type=Path, default=spec_dir().parent / "docs" / "pictures")
    options = parser.parse_args(args)
    folder: Path = options.folder
    try:
        made = dict(pictures())
    except DiagramError as error:
        print(f"{error}.", file=sys.stderr)
        return 1
    there = {path.name: path for path in sorted(folder.glob("*.svg"))}
    wrong = [name for name, svg in made.items() if name not in there or there[name].read_bytes() != svg]
    wrong += [name for name in there if name not in made]
    if options.check:
        for name in wrong:
            print(f"docs/pictures/{name} is not what spec/ gives: run make docs", file=sys.stderr)
        return 1 if wrong else 0
    folder.mkdir(parents=True, exist_ok=True)
    for name in wrong:
        if name in made:
            (folder / name).write_bytes(made[name])
        else:
            there[name].unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
