"""`kvstate prove`: what is proved of the data for any number of blocks, parts, jobs and generations."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from kvstate.cli.output import console, print_json
from kvstate.cli.words import counted, did_you_mean, own_spec

if TYPE_CHECKING:
    from kvstate.proof.theorems import Theorem

ABOUT = "model"
"""All theorems speak of the data. What speaks of the code is confirmed by tests."""
SHOWN = 5
"""Findings of a theorem that are printed; the first says the most, as others often follow from it."""


@click.command("prove")
@click.argument("theorems", nargs=-1, metavar="[THEOREM]...")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(theorems: tuple[str, ...], as_json: bool) -> int:
    """Prove the theorems about the data, for any number of blocks, parts, jobs and generations.

    THEOREM is one or more of their names; all of them without. Needs z3. The status is 1 if one is not proved.
    """
    from kvstate.proof.terms import ProverMissingError

    chosen, spec, rows = _chosen(theorems), own_spec(), []
    for theorem in chosen:
        start = time.perf_counter()
        try:
            findings = theorem.run(spec)
        except ProverMissingError:
            raise click.ClickException("nothing was proved: z3 is missing; pip install 'kvstate[proof]'") from None
        rows.append((theorem, findings, time.perf_counter() - start))
    if as_json:
        print_json({"spec": spec.version, "theorems": [_data(*row) for row in rows]})
    else:
        _show(rows)
    return 1 if any(findings for _, findings, _ in rows) else 0


def _chosen(names: tuple[str, ...]) -> list[Theorem]:
    from kvstate.proof.theorems import THEOREMS

    known = [theorem.name for theorem in THEOREMS]
    for name in names:
        if name not in known:
            raise click.UsageError(f"there is no theorem {name!r}{did_you_mean(name, known)}")
    return [theorem for theorem in THEOREMS if not names or theorem.name in names]


def _data(theorem: Theorem, findings: list[str], seconds: float) -> dict[str, object]:
    return {
        "name": theorem.name,
        "law": theorem.law,
        "claim": theorem.claim,
        "about": ABOUT,
        "proved": not findings,
        "findings": findings,
        "seconds": round(seconds, 3),
    }


def _show(rows: list[tuple[Theorem, list[str], float]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table("theorem", "law", "what it says", "about", "result", "seconds", box=box.SIMPLE_HEAD)
    for theorem, findings, seconds in rows:
        result = "NOT PROVED" if findings else "proved"
        table.add_row(theorem.name, theorem.law, Text(theorem.claim), ABOUT, result, f"{seconds:.2f}")
    out = console()
    out.print(table)
    for theorem, findings, _ in rows:
        for finding in findings[:SHOWN]:
            out.print(Text(f"{theorem.name}: {finding}"))
        if len(findings) > SHOWN:
            out.print(f"{theorem.name}: {counted(len(findings) - SHOWN, 'finding')} more")
    failed = sum(bool(findings) for _, findings, _ in rows)
    out.print(f"{failed} of {counted(len(rows), 'theorem')} not proved" if failed else
              f"{counted(len(rows), 'theorem')} proved, for any number of records")  # fmt: skip
