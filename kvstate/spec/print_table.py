"""The module of one machine, as text: `kvstate/machines/tables/<machine>.py`.

A module is, from top to bottom: the enums of states and events; a function for each (state, event) that has to look at
guards; a function for each row that changes something; CELLS, the whole machine at a glance (which row answers which
event in which state); BY_ROW, what each changes and its effects; and the class, whose `fire` is a lookup in CELLS, at
most one call for the guards and at most one for the changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import product

from kvstate.machines.columns_base import Columns
from kvstate.spec import expr
from kvstate.spec.expr import Expr
from kvstate.spec.model import Machine, Row

WIDTH = 120
HEADER = "# Generated from {} by `make tables`; do not edit."
TYPECODES = {"int": "q", "bool": "B"}
MAX_STATES = 256
MAX_FLAGS = 8
RESERVED = frozenset({*dir(Columns), "state", "choose", "fire"})


def print_table(machine: Machine) -> str:
    """The whole module. Raises ValueError where a machine can't be a table."""
    return "\n".join(_Printer(machine).module()) + "\n"


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


def _inside(items: Sequence[str]) -> str:
    return f"{items[0]}," if len(items) == 1 else ", ".join(items)


def _docstring(text: str) -> str:
    text = " ".join(text.split()).replace("\\", "/").replace('"', "'")
    return f'"""{text}{"" if text.endswith((".", "?", "!")) else "."}"""'


def _condition(guard: Expr, rename: Callable[[str], str]) -> list[str]:
    """`if guard:`, broken at its outermost `and` or `or` where it is too long for a line."""
    line = f"    if {guard.python(rename)}:"
    node = guard.node
    if len(line) <= WIDTH or not isinstance(node, expr.Logic):
        return [line]
    parts = []
    for arg in node.args:
        text = expr.of_node(arg).python(rename)
        binds_tighter = not isinstance(arg, expr.Logic) or (node.op, arg.op) == ("or", "and")
        parts.append(text if binds_tighter else f"({text})")
    return ["    if (", f"        {parts[0]}", *(f"        {node.op} {part}" for part in parts[1:]), "    ):"]


def _one_always_holds(rows: Sequence[Row]) -> bool:
    """Do the guards leave nothing over, whatever the values? Told only where flags alone are asked, by trying all."""
    nodes = [node for row in rows for node in expr.walk(row.when.node)]
    names = {node.name: node.type for node in nodes if isinstance(node, expr.Name)}
    if any(row.when.is_true for row in rows):
        return True
    if "int" in names.values() or len(names) > MAX_FLAGS:
        return False
    cases = [dict(zip(names, values, strict=True)) for values in product((False, True), repeat=len(names))]
    return all(any(row.when.evaluate(case) for row in rows) for case in cases)


class _Printer:
    """Prints the parts of a module; each method gives its lines."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.table = class_name(machine)
        self.params = [param.name for param in machine.params]
        self.columns = [("state", "B"), *((var.name, TYPECODES[var.type]) for var in machine.vars)]
        self.states = [state.name for state in machine.states]
        self.events = [event.name for event in machine.events]
        self.number = {row.id: number for number, row in enumerate(machine.rows)}
        self.taken: set[str] = set()
        self.row_function = {row.id: self.unique(row.id) for row in machine.rows if self.changes(row)}
        self.guards: dict[tuple[str, ...], str] = {}
        self.guard_lines: list[str] = []
        self.cells = self.look_up()
        for name in [name for name, _ in self.columns[1:]] + self.params:
            if name in RESERVED:
                raise ValueError(f"{machine.name}: no variable may be called {name!r}; a table has that name already")
        if len(self.states) > MAX_STATES:
            raise ValueError(f"{machine.name}: {len(self.states)} states; the column for them is made of bytes")

    def unique(self, wish: str) -> str:
        """The name of a function: close to `wish`, no other's."""
        name = "_" + re.sub(r"\W", "_", wish)
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def module(self) -> list[str]:
        machine = self.machine
        return [
            HEADER.format(f"spec/{machine.name}.toml"),
            "# ruff: noqa: N802 - the function of a row is called as the row is",
            _docstring(machine.title),
            "",
            "from __future__ import annotations",
            "",
            "from array import array",
            "from collections.abc import Callable",
            "from enum import IntEnum",
            "from typing import ClassVar",
            "",
            "from kvstate.machines.columns_base import Columns",
            "from kvstate.machines.table import REFUSED",
            *self.enums(),
            *self.guard_lines,
            *(line for row in machine.rows for line in self.apply(row)),
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
        lines = ["", "", "class State(IntEnum):"]
        lines += [f"    {state.upper()} = {number}" for number, state in enumerate(self.states)]
        lines += ["", "", "class Event(IntEnum):"]
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
        unguarded = next((number for number, row in enumerate(rows) if row.when.is_true), len(rows))
        rows = rows[: unguarded + 1]  # no row behind an unguarded one is ever reached
        ids = tuple(row.id for row in rows)
        if ids not in self.guards:  # equal cells share one function, which is named by the first of them
            self.guards[ids] = self.unique(f"{state}_{event}")
            self.guard_lines += self.guard(self.guards[ids], rows)
        return self.guards[ids]

    def read(self, name: str) -> str:
        """How a function of (t, i) reads a variable or a param."""
        return f"t.{name}" if name in self.params else f"t.{name}[i]"

    def guard(self, name: str, rows: Sequence[Row]) -> list[str]:
        """A function that returns the first of `rows` whose guard holds. What is read twice is read once."""
        asked, otherwise = list(rows), "REFUSED"
        if _one_always_holds(rows):
            last = asked.pop()
            otherwise = f"{self.number[last.id]}  # {last.id}: {last.when.source}"
        nodes = [node for row in asked for node in expr.walk(row.when.node)]
        uses = Counter(node.name for node in nodes if isinstance(node, expr.Name))
        local = {name: f"{name}_" if name in ("t", "i") else name for name in sorted(uses) if uses[name] > 1}
        lines = ["", "", f"def {name}(t: {self.table}, i: int) -> int:"]
        lines += [f"    {new} = {self.read(old)}" for old, new in local.items()]
        for row in asked:
            lines += _condition(row.when, lambda word: local.get(word) or self.read(word))
            lines.append(f"        return {self.number[row.id]}  # {row.id}")
        return [*lines, f"    return {otherwise}"]

    def changes(self, row: Row) -> list[str]:
        """The statements of a row. Where a right side reads what another writes, all are read before any is written."""
        lefts = [f"t.{var}[i]" for var, _ in row.sets]
        rights = [right.python(self.read) for _, right in row.sets]
        written = {var for var, _ in row.sets}
        if any(right.names & (written - {var}) for var, right in row.sets):
            lines = [f"{', '.join(lefts)} = {', '.join(rights)}"]
        else:
            lines = [f"{left} = {right}" for left, right in zip(lefts, rights, strict=True)]
        if row.to is not None and row.sources != (row.to,):
            lines.append(f"t.state[i] = {self.states.index(row.to)}  # {row.to}")
        return lines

    def apply(self, row: Row) -> list[str]:
        if row.id not in self.row_function:
            return []
        head = f"def {self.row_function[row.id]}(t: {self.table}, i: int) -> None:"
        return ["", "", head, *(f"    {line}" for line in self.changes(row))]

    def by_row(self) -> list[str]:
        lines = [f"BY_ROW: tuple[tuple[str, Callable[[{self.table}, int], None] | None, tuple[str, ...]], ...] = ("]
        for row in self.machine.rows:
            change = self.row_function.get(row.id, "None")
            lines.append(f'    ("{row.id}", {change}, ({_inside(quoted(row.effects))})),')
        return [
            *lines,
            ")",
            '"""For each row: its id, what it changes (None where it changes nothing), and its effects, in order."""',
            "",
            "APPLY = tuple(change for _, change, _ in BY_ROW)",
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
            "    ROWS = tuple(row_id for row_id, _, _ in BY_ROW)",
            "    EFFECTS = tuple(effects for _, _, effects in BY_ROW)",
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
        find = [f"        row = CELLS[self.state[slot] * {len(self.events)} + event]"]
        if self.guards:
            find += ["        if not isinstance(row, int):", "            row = row(self, slot)"]
        return [
            "",
            "    def choose(self, slot: int, event: int) -> int:",
            '        """The row that would answer `event`, or REFUSED. Changes nothing."""',
            *find,
            "        return row",
            "",
            "    def fire(self, slot: int, event: int) -> int:",
            '        """Fire the row that answers `event` and return it, or return REFUSED and change nothing."""',
            *find,
            "        if row >= 0:",
            "            change = APPLY[row]",
            "            if change is not None:",
            "                change(self, slot)",
            "        return row",
        ]
