"""The module of one machine, as text: `kvstate/machines/tables/<machine>.py`.

A module is, from top to bottom: the enums of states and events; two functions for each (state, event) that has to look
at guards, one that chooses and one that fires; a function for each row; CELLS, the whole machine at a glance (which row
answers which event in which state); BY_ROW, what each changes and its effects; and the class, whose `fire` is one
lookup and one call. A machine whose records come in numbers (none of its variables is given at birth) gets the forms
for many records, too: see `print_rows`, which prints everything that belongs to one row or one cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kvstate.machines.columns_base import Columns
from kvstate.spec.model import Machine, Row
from kvstate.spec.print_rows import MACHINES, WIDTH, Place, RowPrinter

MAX_STATES = 256
"""What fits into a byte of the column of states."""
HEADER = "# Generated from {} by `make tables`; do not edit."
"""The first line of a generated file."""
TYPECODES = {"int": "q", "bool": "B"}
"""The kind of array that a variable is kept in, by the variable's type."""
FORMS = "many.ARCS, many.NUMBERS, many.CASES, many.GUARDS, tuple(CHANGES.values())"
MANY = f"    MANY: ClassVar[Many | None] = Many({FORMS})"
FIRE_DOC = '"""For each cell: what fires it."""'
"""Lines of a module: `MANY` holds what the module beside it (`FORMS`) offers, `FIRE_DOC` tells FIRE."""
RESERVED = frozenset({*dir(Columns), "state", "choose", "fire", "each", "arcs", "slots", "now"})
"""No variable may be called so: a table or a loop of its functions has that name already."""


def print_table(machine: Machine, place: Place = MACHINES) -> str:
    """The whole module. Errors: `ValueError` for a machine that can't be a table."""
    return "\n".join(_Printer(machine, place).module()) + "\n"


def print_many(machine: Machine, place: Place = MACHINES) -> str:
    """The module with the forms for many records, for a machine whose records come in numbers."""
    rows = RowPrinter(machine, class_name(machine))
    table = class_name(machine)
    lines = [
        HEADER.format(f"{place.folder}/{machine.name}.toml"),
        _docstring(f"{machine.title}: the same rows for many records at a time"),
        "",
        "from __future__ import annotations",
        "",
        "from collections.abc import Callable, Iterable, Mapping",
        "from typing import TYPE_CHECKING, Any",
        "",
        "if TYPE_CHECKING:",
        f"    from {place.package}.{machine.name} import {table}",
        *(line for event in rows.events for line in rows.each(event)),
        "",
        "",
        f"EACH: tuple[Callable[[{table}, Iterable[int]], list[int]], ...] = (",
        *(f"    _each_{event}," for event in rows.events),
        ")",
        '"""For each event: what fires it on one slot after the other, and returns the arcs that were gone."""',
        "",
        "ARCS: tuple[tuple[int, int, int], ...] = (",
        *(f"    {line}" for line in rows.arc_lines()),
        ")",
        '"""What a row does from one state is an arc: row, state before, state after."""',
        "",
        "NUMBERS = {arc[:2]: number for number, arc in enumerate(ARCS)}",
        '"""The number of each arc, by row and state before."""',
        "",
        "CASES: Mapping[tuple[int, int], tuple[int, ...]] = {",
        *(f"    {line}" for line in rows.case_lines()),
        "}",
        '"""For each state and event that any row answers: these rows."""',
        "",
        "GUARDS: tuple[Callable[[Any, Any], Any] | None, ...] = (",
        *(f"    {line}" for line in rows.wide_lines()),
        ")",
        '"""For each row: its guard over whole columns, None where it has none."""',
    ]
    return "\n".join(lines) + "\n"


def class_name(machine: Machine) -> str:
    """What the table's class is called: `BlockTable` for the machine `block`."""
    return "".join(word.capitalize() for word in machine.name.split("_")) + "Table"


def quoted(words: Iterable[str]) -> list[str]:
    """Each word as a Python string; for names of the spec, which hold nothing that needs escaping."""
    return [f'"{word}"' for word in words]


def tuple_lines(head: str, items: Sequence[str], indent: str = "", *, broken: bool = False) -> list[str]:
    """`head` and a tuple of items; on one line where it fits and need not be broken, else one item a line."""
    line = f"{indent}{head}({_inside(items)})"
    if len(line) <= WIDTH and not broken:
        return [line]
    return [f"{indent}{head}(", *(f"{indent}    {item}," for item in items), f"{indent})"]


def broken_at_need(head: str, inside: str, tail: str) -> list[str]:
    """The three on one line where they fit, else on three."""
    line = f"{head}{inside}{tail}"
    return [line] if len(line) <= WIDTH else [head, f"    {inside}", tail]


def _inside(items: Sequence[str]) -> str:
    return f"{items[0]}," if len(items) == 1 else ", ".join(items)


def _docstring(text: str) -> str:
    text = " ".join(text.split()).replace("\\", "/").replace('"', "'")
    return f'"""{text}{"" if text.endswith((".", "?", "!")) else "."}"""'


class _Printer(RowPrinter):
    """Prints the parts of a module; each method gives its lines."""

    def __init__(self, machine: Machine, place: Place) -> None:
        super().__init__(machine, class_name(machine))
        self.place = place
        self.columns = [("state", "B"), *((var.name, TYPECODES[var.type]) for var in machine.vars)]
        self.guards: dict[tuple[str, ...], tuple[str, str]] = {}
        """For the rows of a cell: the function that chooses, and the one that fires."""
        self.guard_lines: list[str] = []
        self.cells = self.look_up()
        first = [rows[0].id for state in self.states for event in self.events if (rows := machine.cell(state, event))]
        unguarded = {row.id for row in machine.rows if row.when.is_true and row.id in first}
        self.alone = [row for row in machine.rows if machine.many or row.id in unguarded]
        """The rows that have a function of their own; the others are fired where their guards are asked."""
        for name in [name for name, _ in self.columns[1:]] + self.params:
            if name in RESERVED:
                raise ValueError(f"{machine.name}: no variable may be called {name!r}; a table has that name already")
        if len(self.states) > MAX_STATES:
            raise ValueError(f"{machine.name}: {len(self.states)} states; the column for them is made of bytes")

    def module(self) -> list[str]:
        machine = self.machine
        return [
            HEADER.format(f"{self.place.folder}/{machine.name}.toml"),
            "# ruff: noqa: ARG001, N802 - all functions of rows are called alike, and as the row is",
            _docstring(machine.title),
            "",
            "from __future__ import annotations",
            "",
            "from array import array",
            f"from collections.abc import Callable{', Iterable' if self.machine.many else ''}",
            "from enum import IntEnum",
            "from typing import ClassVar",
            "",
            "from kvstate.machines.columns_base import Columns",
            f"from kvstate.machines.table import REFUSED{', Many' if self.machine.many else ''}",
            *([f"from {self.place.package} import {machine.name}_many as many"] if machine.many else []),
            *self.enums(),
            "",
            "",
            f"def _refuse(t: {self.table}, i: int) -> int:",
            "    return REFUSED",
            *self.guard_lines,
            *(line for row in self.alone for line in self.row(row)),
            "",
            "",
            *self.cells,
            "",
            *self.by_row(),
            "",
            "",
            *self.table_class(),
            "",
            *self.constructor(),
            *self.methods(),
        ]

    def enums(self) -> list[str]:
        told = f'`{self.place.folder}/{self.machine.name}.toml` says what each means."""'
        lines = ["", "", "class State(IntEnum):", f'    """Where a record can be; {told}', ""]
        lines += [f"    {state.upper()} = {number}" for number, state in enumerate(self.states)]
        lines += ["", "", "class Event(IntEnum):", f'    """What can happen to a record; {told}', ""]
        for number, event in enumerate(self.machine.events):
            lines.append(f"    {event.name.upper()} = {number}  # {event.kind}")
        return lines

    def look_up(self) -> list[str]:
        """CELLS, and by the way the guard functions that it names."""
        lines = []
        for state in self.states:
            lines.append(f"    # {state}")
            for event in self.events:
                rows = self.machine.cell(state, event)
                ids = "".join(f" {row.id}" for row in rows)
                lines.append(f"    {self.cell(state, event, rows)},  # {event}{':' if rows else ''}{ids}")
        kind = f"int | Callable[[{self.table}, int], int]" if self.guards else "int"
        doc = f'"""For each state and event: the row that answers{", or what chooses it" if self.guards else ""}."""'
        return [f"CELLS: tuple[{kind}, ...] = (", *lines, ")", doc]

    def cell(self, state: str, event: str, rows: tuple[Row, ...]) -> str:
        if not rows:
            return "REFUSED"
        if rows[0].when.is_true:
            return str(self.number[rows[0].id])
        rows = self.reached(rows)
        ids = tuple(row.id for row in rows)
        if ids not in self.guards:  # equal cells share their functions, which are named by the first of them
            self.guards[ids] = (self.unique(f"{state}_{event}"), self.unique(f"fire_{state}_{event}"))
            self.guard_lines += self.choosing(self.guards[ids][0], rows)
            self.guard_lines += self.firing(self.guards[ids][1], rows)
        return self.guards[ids][0]

    def by_row(self) -> list[str]:
        kind = f"Callable[[{self.table}, int], int]"
        lines = [
            "BY_ROW: tuple[tuple[str, tuple[str, ...]], ...] = (",
            *(f'    ("{row.id}", ({_inside(quoted(row.effects))})),' for row in self.machine.rows),
            ")",
            '"""For each row: its id, and its effects, in order."""',
            "",
            f"CHANGES: dict[int, {kind}] = {{",
            *(f"    {self.number[row.id]}: {self.row_function[row.id]}," for row in self.alone),
            "}",
            '"""For a row that is fired without a look at its guard: what makes its changes."""',
            "",
        ]
        fire = "_refuse if cell == REFUSED else CHANGES[cell] for cell in CELLS"
        if not self.guards:
            return [*lines, *broken_at_need(f"FIRE: tuple[{kind}, ...] = tuple(", fire, ")"), FIRE_DOC]
        return [
            *lines,
            f"GUARDED: dict[{kind}, {kind}] = {{",
            *(f"    {chooses}: {fires}," for chooses, fires in self.guards.values()),
            "}",
            '"""For what chooses a row: what chooses and fires it."""',
            "",
            *broken_at_need(
                f"FIRE: tuple[{kind}, ...] = tuple(", f"GUARDED[cell] if not isinstance(cell, int) else {fire}", ")"
            ),
            FIRE_DOC,
        ]

    def table_class(self) -> list[str]:
        machine = self.machine
        variables = [name for name, _ in self.columns[1:]]
        home = ", ".join(str(number) for number, state in enumerate(machine.states) if state.home)
        given = [var.name for var in machine.vars if var.initial is None]
        first = [str(self.states.index(machine.initial)), *(str(int(var.initial or 0)) for var in machine.vars)]
        typed = ": ClassVar[tuple[str, ...]] = "
        constants = {
            "KINDS": quoted(event.kind for event in machine.events),
            "VARS": quoted(variables),
            "GIVEN": quoted(given),
            "PARAMS": quoted(self.params),
        }
        return [
            f"class {self.table}(Columns):",
            f"    {_docstring(machine.title)}",
            "",
            *tuple_lines("__slots__ = ", quoted(sorted(["state", *variables, *self.params])), "    "),
            f'    name = "{machine.name}"',
            "    STATES = tuple(state.name.lower() for state in State)",
            "    EVENTS = tuple(event.name.lower() for event in Event)",
            *(line for name, items in constants.items() for line in tuple_lines(f"{name}{typed}", items, "    ")),
            *tuple_lines("FIRST: ClassVar[tuple[int, ...]] = ", first, "    "),
            *([MANY] if self.machine.many else []),
            "    ROWS = tuple(row_id for row_id, _ in BY_ROW)",
            "    EFFECTS = tuple(effects for _, effects in BY_ROW)",
            f"    HOME = frozenset({{{home}}})" if home else "    HOME: ClassVar[frozenset[int]] = frozenset()",
            f"    INITIAL = {self.states.index(machine.initial)}",
        ]

    def constructor(self) -> list[str]:
        keywords = "".join(f", {param.name}: int = {param.default}" for param in self.machine.params)
        return [
            f"    def __init__(self{', *' if keywords else ''}{keywords}) -> None:",
            *(f"        self.{param} = {param}" for param in self.params),
            *(f'        self.{name}: array[int] = array("{code}")' for name, code in self.columns),
            *tuple_lines("self._arrays = ", [f"self.{name}" for name, _ in self.columns], "        "),
        ]

    def methods(self) -> list[str]:
        cell = f"[self.state[slot] * {len(self.events)} + event]"
        find = [f"        return CELLS{cell}"]
        if self.guards:
            find = [f"        row = CELLS{cell}", "        if not isinstance(row, int):"]
            find += ["            row = row(self, slot)", "        return row"]
        each = [
            "",
            "    def each(self, slots: Iterable[int], event: int) -> list[int]:",
            '        """Fire `event` on one slot after the other up to the first that refuses; returns the arcs."""',
            "        return many.EACH[event](self, slots)",
        ]
        return [
            *([] if self.machine.many else ["", *self.renewal()]),
            "",
            "    def choose(self, slot: int, event: int) -> int:",
            '        """The row that would answer `event`, or REFUSED. Changes nothing."""',
            *find,
            "",
            "    def fire(self, slot: int, event: int) -> int:",
            '        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""',
            f"        return FIRE{cell}(self, slot)",
            *(each if self.machine.many else []),
        ]
