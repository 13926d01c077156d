"""Faults planted in the data: each is a spec that differs from the real one in one place.

`MUTANTS` says of every theorem which of them it must catch; `docs/proofs.md` has the same table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kvstate.spec.expr import TRUE, Expr, Type, parse
from kvstate.spec.model import Machine, Row, Spec

Mutant = Callable[[Spec], Spec]


def _with_rows(spec: Spec, row_id: str, change: Callable[[Machine, Row], list[Row]]) -> Spec:
    found = False
    machines = []
    for machine in spec.machines:
        rows: list[Row] = []
        for row in machine.rows:
            found |= row.id == row_id
            rows += change(machine, row) if row.id == row_id else [row]
        machines.append(replace(machine, rows=tuple(rows)))
    assert found, row_id
    return replace(spec, machines=tuple(machines))


def without_row(row_id: str) -> Mutant:
    """The row is gone."""
    return lambda spec: _with_rows(spec, row_id, lambda _, row: [])


def to(row_id: str, state: str) -> Mutant:
    """The row leads elsewhere."""
    return lambda spec: _with_rows(spec, row_id, lambda _, row: [replace(row, to=state)])


def when(row_id: str, text: str = "") -> Mutant:
    """The row has another guard, or none."""

    def guard(machine: Machine) -> Expr:
        types: dict[str, Type] = {var.name: var.type for var in machine.vars}
        types |= {param.name: "int" for param in machine.params}
        return parse(text, types) if text else TRUE

    return lambda spec: _with_rows(spec, row_id, lambda machine, row: [replace(row, when=guard(machine))])


def effects(row_id: str, *names: str) -> Mutant:
    """The row has these effects."""
    return lambda spec: _with_rows(spec, row_id, lambda _, row: [replace(row, effects=names)])


def without_set(row_id: str, name: str) -> Mutant:
    """The row leaves this variable as it is."""
    return lambda spec: _with_rows(
        spec, row_id, lambda _, row: [replace(row, sets=tuple(one for one in row.sets if one[0] != name))]
    )


def without_coupling(link_id: str) -> Mutant:
    """Nobody hears of the effect."""
    return lambda spec: replace(spec, couplings=tuple(one for one in spec.couplings if one.id != link_id))


def coupled(link_id: str, event: str, over: str = "") -> Mutant:
    """The effect is another event, or reaches others."""
    return lambda spec: replace(
        spec,
        couplings=tuple(
            replace(one, event=event, over=over or one.over) if one.id == link_id else one for one in spec.couplings
        ),
    )


def without_act(act_id: str) -> Mutant:
    """The ledger does not do it."""
    return lambda spec: replace(spec, acts=tuple(one for one in spec.acts if one.id != act_id))


MUTANTS: dict[str, dict[str, Mutant]] = {
    "rows": {
        "B04 without its guard": when("B04"),
        "P11 deleted": without_row("P11"),
    },
    "one_end": {
        "O02 says nothing": effects("O02", "drop_key", "unhold", "release_dst"),
        "O20 tells at once": effects("O20", "drop_key", "ask_cancel", "tell_cancelled"),
        "X70 tells again": effects("X70", "fell"),
        "A02 leads to settled": to("A02", "settled"),
    },
    "one_settlement": {
        "P09 leads back to flying": to("P09", "flying"),
        "P09 tells the owner once more": effects("P09", "late", "ok"),
        "P07 lets go": effects("P07", "let_go", "unproved"),
    },
    "stale": {
        "P11 lets go": effects("P11", "let_go"),
        "P11 leads to landed": to("P11", "landed"),
        "P10 marks twice": effects("P10", "lose"),
    },
    "counters": {
        "C03 deleted": without_coupling("C03"),
        "C06 deleted": without_coupling("C06"),
        "C07 over part_writes": coupled("C07", "read_late", "part_writes"),
        "C22 is release": coupled("C22", "release"),
        "P07 leads to stopped": to("P07", "stopped"),
        "P13 does not mark": effects("P13", "adopt"),
        "D02 deleted": without_act("D02"),
        "B36 deleted": without_row("B36"),
        "B50 keeps the mark": without_set("B50", "lost"),
        "B54 keeps the mark": without_set("B54", "lost"),
    },
    "free": {
        "B20 without its guard": when("B20"),
        "B13 without its guard": when("B13"),
        "B21 leads to free": to("B21", "free"),
        "B34 without its guard": when("B34"),
        "B42 leads to free": to("B42", "free"),
        "B23 moves the generation": lambda spec: _with_rows(
            spec, "B23", lambda machine, row: [replace(row, sets=(*row.sets, *machine.row("B20").sets[1:]))]
        ),
    },
    "lives": {
        "C44 deleted": without_coupling("C44"),
        "C53 deleted": without_coupling("C53"),
        "C59 is write_end": coupled("C59", "write_end"),
        "E06 does not taint": effects("E06", "pull"),
        "E04 leads outside": to("E04", "outside"),
        "E21 deleted": without_row("E21"),
        "E24 keeps the mark": without_set("E24", "lost"),
        "C57 deleted": without_coupling("C57"),
        "P14 does not mark": without_set("P14", "tainted"),
        "P15 does not mark": without_set("P15", "tainted"),
    },
    "all_stopped": {
        "C13 deleted": without_coupling("C13"),
        "O10 counts nothing": without_set("O10", "left"),
        "O14 leads to failed": to("O14", "failed"),
        "O55 does not give up": effects("O55", "unhold", "release_dst", "tell_failed"),
        "X11 does not check": effects("X11"),
        "X60 deleted": without_row("X60"),
        "P08 tells the owner": effects("P08", "lose", "unproved"),
        "P09 tells the owner": effects("P09", "late", "ok"),
    },
    "all_or_nothing": {
        "O14 does not remember": without_set("O14", "failed"),
        "X13 goes on": to("X13", "fetching"),
        "C15 is part_ok": coupled("C15", "part_ok"),
        "C26 is commit": coupled("C26", "commit"),
        "O11 publishes": effects("O11", "unhold", "persist", "commit_dst"),
        "O01 publishes first": effects("O01", "commit_key", "launch"),
    },
}
"""Theorem: what is done to the data, in words, and the spec that comes of it."""
