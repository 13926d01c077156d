"""The functions of a machine's rows, as text: what chooses a row, what fires one, and the forms for many records.

Each of them is the same rows again, in the shape that is quickest where it is used:

* a *choosing* function for each cell (state, event) that has guards: which row, and nothing is changed;
* a *firing* function for each row, and for each cell with guards one that chooses and changes in one go;
* an *each* function for each event, where records come in numbers: one loop over many slots, guards inline;
* a *wide* guard for each guarded row, over whole columns: `and`, `or` and `not` become `&`, `|` and `== 0`. What a
  firing function does needs no second form: `t.owners[i] = t.owners[i] + 1` is right for one slot and for an array of
  them (no slot twice), if `t` holds NumPy columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from kvstate.spec import expr
from kvstate.spec.expr import Expr
from kvstate.spec.model import Machine, Row
from kvstate.spec.nodes import Compare, Const, Logic, Name, Node, Unary

WIDTH = 120
"""No line of a generated file is longer than so many characters."""
MAX_FLAGS = 8
"""Guards over more flags than these are not tried out with all values."""


def condition(guard: Expr, rename: Callable[[str], str], word: str = "if", indent: str = "    ") -> list[str]:
    """`if guard:` (or `elif`), broken at its outermost `and` or `or` where it is too long for a line."""
    line = f"{indent}{word} {guard.python(rename)}:"
    node = guard.node
    if len(line) <= WIDTH or not isinstance(node, expr.Logic):
        return [line]
    parts = []
    for arg in node.args:
        text = expr.of_node(arg).python(rename)
        binds_tighter = not isinstance(arg, expr.Logic) or (node.op, arg.op) == ("or", "and")
        parts.append(text if binds_tighter else f"({text})")
    inner = [f"{indent}    {parts[0]}", *(f"{indent}    {node.op} {part}" for part in parts[1:])]
    return [f"{indent}{word} (", *inner, f"{indent}):"]


def one_always_holds(rows: Sequence[Row]) -> bool:
    """Do the guards leave nothing over, whatever the values? Told only where they ask flags alone, by trying all."""
    nodes = [node for row in rows for node in expr.walk(row.when.node)]
    names = {node.name: node.type for node in nodes if isinstance(node, expr.Name)}
    if any(row.when.is_true for row in rows):
        return True
    if "int" in names.values() or len(names) > MAX_FLAGS:
        return False
    cases = [dict(zip(names, values, strict=True)) for values in product((False, True), repeat=len(names))]
    return all(any(row.when.evaluate(case) for row in rows) for case in cases)


def wide(node: Node, read: Callable[[str], str]) -> str:
    """The text of a condition or a number over columns, every inner term in parentheses."""

    def inner(child: Node) -> str:
        text = wide(child, read)
        return text if isinstance(child, Name | Const) and re.fullmatch(r"[\w.\[\]]+", text) else f"({text})"

    match node:
        case Name(type="bool"):
            return f"{read(node.name)} != 0"
        case Name() | Const():
            return expr.of_node(node).python(read)
        case Unary(op="not"):
            if isinstance(node.arg, Name):
                return f"{read(node.arg.name)} == 0"
            return f"{inner(node.arg)} == 0"
        case Compare():
            pairs = [f"{inner(left)} {op} {inner(right)}" for left, op, right in node.pairs]
            return pairs[0] if len(pairs) == 1 else " & ".join(f"({pair})" for pair in pairs)
        case Logic():
            return {"and": " & ", "or": " | "}[node.op].join(inner(arg) for arg in node.args)
        case _:
            return expr.of_node(node).python(read)


def _nothing(row: Row, local: dict[str, str]) -> list[str]:  # noqa: ARG001 - stands where changes are printed
    return []


class Place(NamedTuple):
    """Where the machines of a folder of the spec have their tables."""

    folder: str
    """The folder of the files, from the root of the checkout."""
    package: str
    """The package of the tables."""


MACHINES = Place("spec", "kvstate.machines.tables")
"""The machines of the ledger."""


class RowPrinter:
    """Prints what belongs to rows and cells; `print_table` puts it together with the rest of the module."""

    def __init__(self, machine: Machine, table: str) -> None:
        self.machine = machine
        self.table = table
        self.params = [param.name for param in machine.params]
        self.states = [state.name for state in machine.states]
        self.events = [event.name for event in machine.events]
        self.number = {row.id: number for number, row in enumerate(machine.rows)}
        self.taken: set[str] = set()
        self.row_function = {row.id: self.unique(row.id) for row in machine.rows}
        self.arcs = {
            (row.id, source): number
            for number, (row, source) in enumerate((row, source) for row in machine.rows for source in row.sources)
        }
        """What a row does from one of its states, by row and state."""

    def unique(self, wish: str) -> str:
        """The name of a function: close to `wish`, no other's."""
        name = "_" + re.sub(r"\W", "_", wish)
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def read(self, name: str) -> str:
        """How a function of (t, i) reads a variable or a param."""
        return f"t.{name}" if name in self.params else f"t.{name}[i]"

    def reached(self, rows: Sequence[Row]) -> tuple[Row, ...]:
        """The rows of a cell without those behind an unguarded one, which can't be reached."""
        last = next((number for number, row in enumerate(rows) if row.when.is_true), len(rows))
        return tuple(rows[: last + 1])

    # -- one record ----------------------------------------------------------------------------------------------------

    def choosing(self, name: str, rows: Sequence[Row]) -> list[str]:
        """A function that returns the first of `rows` whose guard holds. What is read twice is read once."""
        return self._deciding(name, rows, _nothing)

    def firing(self, name: str, rows: Sequence[Row]) -> list[str]:
        """The same, and the row's changes are made."""
        return self._deciding(name, rows, self._inlined)

    def _inlined(self, row: Row, local: dict[str, str]) -> list[str]:
        return self.changes(row, lambda name: local.get(name) or self.read(name))

    def _deciding(
        self, name: str, rows: Sequence[Row], changes: Callable[[Row, dict[str, str]], list[str]]
    ) -> list[str]:
        asked, last = list(rows), None
        if one_always_holds(rows):
            last = asked.pop()
        nodes = [node for row in asked for node in expr.walk(row.when.node)]
        uses = Counter(node.name for node in nodes if isinstance(node, expr.Name))
        local = {name: f"{name}_" if name in ("t", "i") else name for name in sorted(uses) if uses[name] > 1}
        lines = ["", "", f"def {name}(t: {self.table}, i: int) -> int:"]
        lines += [f"    {new} = {self.read(old)}" for old, new in local.items()]
        for row in asked:
            lines += condition(row.when, lambda word: local.get(word) or self.read(word))
            lines += [f"        {line}" for line in changes(row, local)]
            lines.append(f"        return {self.number[row.id]}  # {row.id}")
        if last is None:
            return [*lines, "    return REFUSED"]
        lines += [f"    {line}" for line in changes(last, local)]
        return [*lines, f"    return {self.number[last.id]}  # {last.id}: {last.when.source}"]

    def changes(self, row: Row, read: Callable[[str], str] | None = None, at: str = "t.{}[i]") -> list[str]:
        """The statements of a row. Where a right side reads what another writes, all are read before any is written."""
        read = read or self.read
        lefts = [at.format(var) for var, _ in row.sets]
        rights = [right.python(read) for _, right in row.sets]
        written = {var for var, _ in row.sets}
        if any(right.names & (written - {var}) for var, right in row.sets):
            lines = [f"{', '.join(lefts)} = {', '.join(rights)}"]
        else:
            lines = [f"{left} = {right}" for left, right in zip(lefts, rights, strict=True)]
        if row.to is not None and row.sources != (row.to,):
            lines.append(f"{at.format('state')} = {self.states.index(row.to)}  # {row.to}")
        return lines

    def row(self, row: Row) -> list[str]:
        """The function of one row: makes its changes, returns its number."""
        head = f"def {self.row_function[row.id]}(t: {self.table}, i: int) -> int:"
        lines = [*self.changes(row), f"return {self.number[row.id]}"]
        return ["", "", head, *(f"    {line}" for line in lines)]

    def renewal(self) -> list[str]:
        """Writes column by column what a newborn record has: first what is given, as an array may refuse that."""
        birth = {"state": self.states.index(self.machine.initial)}
        birth |= {var.name: int(var.initial) for var in self.machine.vars if var.initial is not None}
        given = [var.name for var in self.machine.vars if var.initial is None]
        return [
            f"    def renew(self, slot: int, **{'given' if given else '_'}: int) -> None:",
            '        """Put the record at `slot` back to its birth; what is given is taken as it comes."""',
            *(f'        self.{name}[slot] = given["{name}"]' for name in given),
            *(f"        self.{name}[slot] = {value}" for name, value in birth.items()),
        ]

    # -- many records --------------------------------------------------------------------------------------------------

    def arc_lines(self) -> Iterator[str]:
        """What each arc is: row, state before, state after."""
        for row_id, source in self.arcs:
            row = self.machine.row(row_id)
            after = source if row.to is None else row.to
            numbers = (self.number[row_id], self.states.index(source), self.states.index(after))
            yield f"({', '.join(map(str, numbers))}),  # {row_id}: {source} -> {after}"

    def case_lines(self) -> Iterator[str]:
        """The rows of each cell that has any, by state and event."""
        for state, event in product(self.states, self.events):
            rows = self.reached(self.machine.cell(state, event))
            if rows:
                numbers = [str(self.number[row.id]) for row in rows]
                inside = f"{numbers[0]}," if len(numbers) == 1 else ", ".join(numbers)
                yield f"({self.states.index(state)}, {self.events.index(event)}): ({inside}),  # {state}, {event}"

    def wide_lines(self) -> Iterator[str]:
        """The guard of each row over columns; None where it has none."""
        for row in self.machine.rows:
            guard = "None" if row.when.is_true else f"lambda t, i: {wide(row.when.node, self.read)}"
            yield f"{guard},  # {row.id}"

    def each(self, event: str) -> list[str]:
        """A loop over many slots: the guards of one event inline, one branch a state; stops where nothing answers."""
        cells = [(state, self.reached(self.machine.cell(state, event))) for state in self.states]
        cells = [(state, rows) for state, rows in cells if rows]
        head = f"def _each_{event}(t: {self.table}, slots: Iterable[int]) -> list[int]:"
        names = {name for _, rows in cells for row in rows for name in self._names(row)}
        lines = ["", "", head, "    arcs: list[int] = []"]
        lines += [f"    {name} = t.{name}" for name in sorted({"state"} | names)]
        lines += ["    for i in slots:", "        now = state[i]"]
        if not cells:  # no row answers: the loop stops at once
            return [*lines[:4], "    return arcs"]
        for turn, (state, rows) in enumerate(cells):
            word = "elif" if turn else "if"
            lines.append(f"        {word} now == {self.states.index(state)}:  # {state}")
            lines += self._branches(state, rows)
        return [*lines, "        else:", "            break", "    return arcs"]

    def _names(self, row: Row) -> frozenset[str]:
        return row.when.names.union(*({var} | right.names for var, right in row.sets))

    def _branches(self, state: str, rows: Sequence[Row]) -> list[str]:
        def read(name: str) -> str:
            return name if name in self.params else f"{name}[i]"

        lines, indent, word = [], " " * 12, "if"
        open_end = one_always_holds(rows)
        for place, row in enumerate(rows):
            done = [*self.changes(row, read, "{}[i]"), f"arcs.append({self.arcs[row.id, state]})  # {row.id}"]
            if open_end and place == len(rows) - 1:
                lines += [f"{indent}else:"] if place else []
                lines += [f"{indent}{'    ' if place else ''}{line}" for line in done]
                return lines
            lines += condition(row.when, read, word, indent)
            lines += [f"{indent}    {line}" for line in done]
            word = "elif"
        return [*lines, f"{indent}else:", f"{indent}    break"]
