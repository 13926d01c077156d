"""What a picture shows: a machine as boxes and arrows, how the machines are coupled, and Mermaid for pages.

A row that leads to another state is a line on an arrow; a row that stays is a line inside the state, which is where UML
puts internal transitions: half of the rows stay, and forty loops would hide the life cycle. Rows with the same two ends
share one arrow and its label, whatever asked for them, so there are never two arrows side by side. The kind of event
shows twice, in colour and in stroke: a request is a solid blue line (somebody asks, and may be refused), a report a
dashed orange one (the world says so), a signal a dotted violet one (another machine says so). The same stroke stands
before each line of text; an arrow of several kinds shows all their colours.

A state with a double border is one where a record may rest for ever; a dark one is an end, which no row leaves.

Nothing is laid out or coloured by hand, so a changed row is a changed picture and nothing else. How it is put into the
language of Graphviz stands in `diagram_dot`, who draws that in `diagram_render`, what `make docs` writes in
`diagram_pictures`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kvstate.spec.model import Coupling, EventKind, Machine, Row, Spec

KINDS: tuple[EventKind, ...] = ("request", "report", "signal")
"""The kinds of event, in the order of a legend."""
STROKES: dict[EventKind, str] = {"request": "—", "report": "- -", "signal": "···"}
"""How the line of each is named in a legend of text."""

Counts = Mapping[tuple[str, str, str], int]
"""Machine, row, state it fired in: how often, in a recorded run."""


class DiagramError(RuntimeError):
    """A picture can't be drawn; the sentence says why, and what to install where that helps."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text: what happens, under which guard, with which effects; `id` is that of the row or coupling."""

    id: str
    kind: EventKind | None
    """`None` for what the ledger does itself, and for a coupling."""
    events: str
    guard: str = ""
    effects: str = ""
    count: int | None = None
    """How often it happened in the run whose record is shown; `None` if none is."""

    @property
    def text(self) -> str:
        """`events [guard] / effects`."""
        guard = f" [{self.guard}]" if self.guard else ""
        slash = " /" if self.kind is not None else ""
        return f"{self.events}{guard}{f'{slash} {self.effects}' if self.effects else ''}"


@dataclass(frozen=True, slots=True)
class Box:
    """A state, or a machine among the couplings, with the rows that stay in it."""

    name: str
    """What stands in it, and what arrows name."""
    lines: tuple[Line, ...]
    home: bool = False
    end: bool = False
    """Does nothing lead on from here?"""
    seen: bool = True
    """Was a record ever here, in the run that is shown?"""


@dataclass(frozen=True, slots=True)
class Arrow:
    """All that leads from the box `source` to the box `target`, as one arrow with a line for each."""

    source: str
    target: str
    lines: tuple[Line, ...]

    @property
    def kinds(self) -> tuple[EventKind, ...]:
        """The kinds of event among its lines, in the order of `KINDS`."""
        return tuple(kind for kind in KINDS if any(line.kind == kind for line in self.lines))


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn, whoever draws it: the `boxes`, and the `arrows` between them, in the order of the file."""

    name: str
    """The machine's, or `couplings`; a file is called so."""
    title: str
    """What stands above it."""
    start: str | None
    """The box that records are born in; `None` where there is no such thing."""
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    counted: bool = False
    """Is it of a recorded run?"""

    @property
    def lines(self) -> Iterable[Line]:
        """Every line of text in the picture."""
        for box in self.boxes:
            yield from box.lines
        for arrow in self.arrows:
            yield from arrow.lines


# --- A machine ------------------------------------------------------------------------------------------------------


def picture(machine: Machine, counts: Counts | None = None) -> Picture:
    """The machine as boxes and arrows. With `counts` it says how often each row fired; see `diagram_record`."""
    if counts is not None:
        _known(machine, counts)
    boxes = []
    for state in machine.states:
        leaves = any(state.name in row.sources and row.to not in (None, state.name) for row in machine.rows)
        boxes.append(
            Box(
                state.name,
                stays(machine, state.name, counts),
                state.home,
                not leaves,
                _seen(machine, state.name, counts),
            )
        )
    arrows = [Arrow(source, target, tuple(lines)) for (source, target), lines in edges(machine, counts).items()]
    title = f"{machine.name}: {machine.title}"
    return Picture(machine.name, title, machine.initial, tuple(boxes), tuple(arrows), counts is not None)


def edges(machine: Machine, counts: Counts | None = None) -> dict[tuple[str, str], list[Line]]:
    """From state, to state: the lines of the rows that go there, in file order."""
    merged: dict[tuple[str, str], list[Line]] = {}
    for row in machine.rows:
        for source in row.sources:
            if row.to is not None and row.to != source:
                merged.setdefault((source, row.to), []).extend(_lines(machine, row, source, counts))
    return merged


def stays(machine: Machine, state: str, counts: Counts | None = None) -> tuple[Line, ...]:
    """The lines of the rows that answer in `state` and stay there, in file order."""
    rows = (row for row in machine.rows if state in row.sources and row.to in (None, state))
    return tuple(line for row in rows for line in _lines(machine, row, state, counts))


def _lines(machine: Machine, row: Row, source: str, counts: Counts | None) -> Iterable[Line]:
    """One for each kind of event that the row answers."""
    guard = "" if row.when.is_true else row.when.source
    count = None if counts is None else counts.get((machine.name, row.id, source), 0)
    for kind in KINDS:
        events = [event for event in row.events if machine.event(event).kind == kind]
        if events:
            yield Line(row.id, kind, ", ".join(events), guard, " ".join(row.effects), count)


def _known(machine: Machine, counts: Counts) -> None:
    """A record of another spec would give a picture that is wrong without looking it."""
    cells = {(row.id, source) for row in machine.rows for source in row.sources}
    for name, row, source in counts:
        if name == machine.name and (row, source) not in cells:
            raise DiagramError(f"the record has row {row} of {name} in state {source}, which the spec has not")


def _seen(machine: Machine, state: str, counts: Counts | None) -> bool:
    if counts is None:
        return True
    into = {(row.id, source) for row in machine.rows for source in row.sources if (row.to or source) == state}
    return any(
        count and name == machine.name and (source == state or (row, source) in into)
        for (name, row, source), count in counts.items()
    )


# --- How the machines are coupled -----------------------------------------------------------------------------------


def couplings(spec: Spec, counts: Counts | None = None) -> Picture:
    """The machines as boxes; an arrow says which effects of one are which events of the other, and over which relation.

    Inside a box stands what the ledger itself does at an effect of the machine. With `counts` each line says how often
    its effect happened; on how many records the relation then fired the event is not in a record.
    """
    happened: dict[tuple[str, str], int] = {}
    for machine in spec.machines:
        if counts is not None:
            _known(machine, counts)
        for (name, row, _), times in (counts or {}).items():
            for effect in machine.row(row).effects if name == machine.name else ():
                happened[name, effect] = happened.get((name, effect), 0) + times

    def count(machine: str, effect: str) -> int | None:
        return None if counts is None else happened.get((machine, effect), 0)

    boxes: list[Box] = []
    for machine in spec.machines:
        acts = (act for act in spec.acts if act.machine == machine.name)
        lines = tuple(
            Line(act.id, None, f"{act.effect}:", "", act.act, count(machine.name, act.effect)) for act in acts
        )
        seen = counts is None or any(name == machine.name for name, _, _ in counts)
        boxes.insert(0, Box(machine.name, lines, seen=seen))  # who works on whom comes first, the block last
    merged: dict[tuple[str, str], list[Line]] = {}
    for one in spec.couplings:
        merged.setdefault((one.machine, one.target), []).append(_coupling(one, count(one.machine, one.effect)))
    arrows = [Arrow(source, target, tuple(lines)) for (source, target), lines in merged.items()]
    title = "couplings: an effect of one machine is an event of another"
    return Picture("couplings", title, None, tuple(boxes), tuple(arrows), counts is not None)


def _coupling(one: Coupling, count: int | None) -> Line:
    ask = "?" if one.ask else ""
    return Line(one.id, None, f"{one.effect} -> {one.event}{ask}", "", f"over {one.over}", count)


# --- Mermaid --------------------------------------------------------------------------------------------------------

_MERMAID_WORDS = re.compile(
    "as|choice|class|classdef|click|default|direction|end|fork|hide|href|join|note|scale|state|style|title"
)
"""States of these names would be read as the language's own words."""


def mermaid(drawn: Picture) -> str:
    """The picture as a Mermaid `stateDiagram-v2`, which knows one stroke only: kinds are not shown there."""
    names = {box.name: _mermaid_name(box.name) for box in drawn.boxes}
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{state}" as {name}' for state, name in names.items() if state != name]
    if not drawn.arrows:
        lines += [f"    {name}" for name in names.values()]
    if drawn.start is not None:
        lines.append(f"    [*] --> {names[drawn.start]}")
    merged: dict[tuple[str, str], list[Line]] = {(one.source, one.target): list(one.lines) for one in drawn.arrows}
    for box in drawn.boxes:
        if box.lines:
            merged.setdefault((box.name, box.name), []).extend(box.lines)
    for (source, target), group in merged.items():
        text = "<br/>".join(_mermaid_text(line) for line in group)
        lines.append(f"    {names[source]} --> {names[target]} : {text}")
    for word, style, chosen in (
        ("home", "stroke-width:4px", [box for box in drawn.boxes if box.home]),
        ("never", "stroke-dasharray:4", [box for box in drawn.boxes if not box.seen]),
    ):
        if chosen:
            lines += [f"    classDef {word} {style}", f"    class {','.join(names[box.name] for box in chosen)} {word}"]
    return "\n".join(lines) + "\n"


def _mermaid_name(state: str) -> str:
    return f"{state}_" if _MERMAID_WORDS.fullmatch(state) else state


def _mermaid_text(line: Line) -> str:
    """A label ends at `;` or a line's end there, and `<` starts HTML; the entities are Mermaid's own."""
    label = line.text if line.count is None else f"{line.text} ×{line.count}"
    for sign, entity in (("#", "#35;"), ("<", "#lt;"), (">", "#gt;"), (":", "#colon;")):
        label = label.replace(sign, entity)
    return label
