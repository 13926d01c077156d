"""Tables of a spec that is wrong on purpose, so that scenarios can be seen to fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kvstate.machines import tables
from kvstate.machines.books import Tables
from kvstate.machines.interpreted import interpreted
from kvstate.spec.expr import parse
from kvstate.spec.loader import load_spec
from kvstate.spec.model import Machine, Row

SPEC = load_spec(check=False)
ROWS = {row.id: (machine, row) for machine in SPEC.machines for row in machine.rows}


def _tables(machine: Machine, rows: tuple[Row, ...]) -> Tables:
    return {**tables.TABLES, machine.name: interpreted(replace(machine, rows=rows))}


def without(row_id: str) -> Tables:
    """The spec lacks this row."""
    machine, gone = ROWS[row_id]
    return _tables(machine, tuple(row for row in machine.rows if row is not gone))


def changed(row_id: str, **change: Any) -> Tables:
    """The row goes elsewhere (`to`), has other `effects`, always fires (`when="True"`), or sets one variable less."""
    machine, old = ROWS[row_id]
    if "when" in change:
        change["when"] = parse(change["when"], {var.name: var.type for var in machine.vars})
    if "unset" in change:
        gone = change.pop("unset")
        change["sets"] = tuple(pair for pair in old.sets if pair[0] != gone)
    new = replace(old, **change)
    return _tables(machine, tuple(new if row is old else row for row in machine.rows))
