"""Prints the tables that run from the data: `make tables`, or `python -m kvstate.spec.generate [--check]`.

What runs must be as fast as what one would write by hand, and it must be the spec. Code that is printed from the data
and checked in is both: a reader can follow it, an editor and mypy see every state, nothing is parsed at import, and a
change of the spec shows in the diff as a changed row beside the changed code. `--check` (and a test) says when what is
checked in is not what the data would print.

The text comes out as `ruff format` would leave it, without needing ruff. Nothing of a machine file gets into code but
names, numbers and expressions that the loader has taken apart, and titles as docstrings. How the module of one machine
looks is in `print_table`, the error codes' in `kvstate.errors.generate`; here is what holds them together, and
the command.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kvstate.errors.generate import render_errors
from kvstate.spec import peers_dir
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Spec
from kvstate.spec.print_rows import MACHINES, Place
from kvstate.spec.print_table import (
    HEADER,
    class_name,
    print_many,
    print_table,
    quoted,
    tuple_lines,
)

ROOT = Path(__file__).resolve().parents[2]
"""The checkout. An installed package prints nothing."""
TABLES = Path("kvstate/machines/tables")
"""Where the tables of the ledger's machines are, from `ROOT`."""
PEERS = Place("spec/peers", "kvstate.peers.tables")
"""The machines of two processes that hand blocks to each other."""
PEERS_TABLES = Path("kvstate/peers/tables")
"""Where their tables are."""


def render(spec: Spec, place: Place = MACHINES) -> dict[str, str]:
    """The package of tables: file name -> text. The same spec gives the same text, byte for byte.

    Errors: `ValueError` where a machine has a name that the package needs, or can't be a table.
    """
    many = {f"{machine.name}_many" for machine in spec.machines if machine.many}
    taken = {"coupling", "__init__", *many} & {machine.name for machine in spec.machines}
    if taken:
        raise ValueError(f"no machine may be called {taken.pop()!r}: the tables have a module of that name")
    tables = {f"{machine.name}.py": print_table(machine, place) for machine in spec.machines}
    more = {f"{machine.name}_many.py": print_many(machine, place) for machine in spec.machines if machine.many}
    return {"__init__.py": _package(spec, place), "coupling.py": _coupling(spec, place), **tables, **more}


def _package(spec: Spec, place: Place) -> str:
    machines = sorted(spec.machines, key=lambda machine: machine.name)
    lines = [
        HEADER.format(f"{place.folder}/"),
        '"""The tables of all machines, by the name of the machine."""',
        "",
        "from __future__ import annotations",
        "",
        "from kvstate.machines.table import Table",
        *(f"from {place.package}.{machine.name} import {class_name(machine)}" for machine in machines),
        "",
        f'SPEC_VERSION = "{spec.version}"',
        '"""The version of the data that these tables were printed from."""',
        "",
        "TABLES: dict[str, type[Table]] = {",
        *(f'    "{machine.name}": {class_name(machine)},' for machine in spec.machines),
        "}",
        '"""For each machine, by name: the class that keeps all of its records."""',
    ]
    return "\n".join(lines) + "\n"


def _coupling(spec: Spec, place: Place) -> str:
    relations = [(relation.name, relation.of, relation.to) for relation in spec.relations]
    acts = [(act.id, act.machine, act.effect, act.act, act.order) for act in spec.acts]
    lines = [
        HEADER.format(f"{place.folder}/coupling.toml"),
        '"""What couples the machines, in the order in which it happens."""',
        "",
        "from __future__ import annotations",
        "",
        *_listing("RELATIONS: tuple[tuple[str, str, str], ...] = ", [quoted(relation) for relation in relations]),
        '"""name, of which machine, to which machine"""',
        "",
        *_listing(
            "COUPLINGS: tuple[tuple[str, str, str, str, str, str, bool], ...] = ",
            [[*quoted((c.id, c.machine, c.effect, c.target, c.event, c.over)), str(c.ask)] for c in spec.couplings],
        ),
        '"""id, machine, effect, target machine, its event, over which relation, ask first"""',
        "",
        *_listing("ACTS: tuple[tuple[str, str, str, str, str], ...] = ", [quoted(act) for act in acts]),
        '"""id, machine, effect, act of the ledger, before or after the couplings of the same effect"""',
    ]
    return "\n".join(lines) + "\n"


def _listing(head: str, entries: Sequence[Sequence[str]]) -> list[str]:
    return tuple_lines(head, [f"({', '.join(entry)})" for entry in entries], broken=bool(entries))


# --- The command ----------------------------------------------------------------------------------------------------


def outputs(spec: Spec, peers: Spec | None = None) -> dict[Path, str]:
    """Every generated file of the project, relative to its root: the tables and the error codes.

    `peers` is the spec of handoffs, the one of this package if none is given.
    """
    tables = {TABLES / name: text for name, text in render(spec).items()}
    peers = load_spec(peers_dir()) if peers is None else peers
    tables |= {PEERS_TABLES / name: text for name, text in render(peers, PEERS).items()}
    return tables | {Path(name): text for name, text in render_errors().items()}


def stale(files: dict[Path, str], root: Path) -> list[Path]:
    """The files below `root` that are not what the data prints: changed, missing, or of a machine that is gone."""
    wrong = [path for path, text in files.items() if _read(root / path) != text]
    return wrong + _left_over(files, root)


def _read(path: Path) -> str | None:
    return path.read_bytes().decode("utf-8", "replace") if path.is_file() else None


def _left_over(files: dict[Path, str], root: Path) -> list[Path]:
    """Modules among the tables that nothing prints any more. The directories are the generator's own."""
    folders = (root / TABLES, root / PEERS_TABLES)
    there = sorted(path.relative_to(root) for folder in folders for path in folder.glob("*.py"))
    return [path for path in there if path not in files]


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Write what is stale below `root`, remove what nothing prints; the exit code is 1 if `--check` found any."""
    parser = argparse.ArgumentParser(prog="python -m kvstate.spec.generate", description="Print the tables from spec/.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 and name the files that are stale")
    check: bool = parser.parse_args(arguments).check
    files = outputs(load_spec())
    wrong = stale(files, root)
    if check:
        for path in wrong:
            print(f"{path} is not what spec/ says; run `make tables`", file=sys.stderr)
        return 1 if wrong else 0
    for path in wrong:
        if path in files:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(files[path].encode())
        else:
            (root / path).unlink()
        print(f"{'wrote' if path in files else 'removed'} {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
