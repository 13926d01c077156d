"""Draws a machine: DOT, SVG through the `dot` program, and Mermaid for pages that render it.

A row that leads to another state is an edge; a row that stays is a line inside the state, which is where UML puts
internal transitions: half of the rows stay, and forty loops would hide the life cycle. Rows with the same two ends and
the same kind of event share one edge and its label. The kind shows in the stroke: a request solid (somebody asks, and
may be refused), a report dashed (the world says so), a signal dotted (another machine says so); the same stroke stands
before each line inside a state. A state with a double border is one where a record may rest for ever.

Nothing is laid out or coloured by hand, so a changed row is a changed picture and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from textwrap import wrap

from kvstate.spec.model import EventKind, Machine, Row

STYLES: dict[EventKind, str] = {"request": "solid", "report": "dashed", "signal": "dotted"}
STROKES: dict[EventKind, str] = {"request": "—", "report": "- -", "signal": "···"}
LABEL_WIDTH = 42
_OPERATOR = re.compile(r" (==|!=|<=|>=|<|>|\+|-|\*) ")
FONT = "Helvetica,Arial,sans-serif"


class DiagramError(RuntimeError):
    """A picture can't be drawn here; the sentence says what to install."""


def dot(machine: Machine) -> str:
    """The machine in the language of Graphviz."""
    lines = [
        f"digraph {_quote(machine.name)} {{",
        f"  label={_quote(_legend(machine))}; labelloc=t; fontname={_quote(FONT)}; fontsize=12;",
        "  rankdir=TB; nodesep=0.5; ranksep=0.6;",
        f"  node [shape=box, style=rounded, fontname={_quote(FONT)}, fontsize=12, margin=0.12];",
        f"  edge [fontname={_quote(FONT)}, fontsize=9, arrowsize=0.7];",
        '  " " [shape=point, width=0.15];',
    ]
    for state in machine.states:
        border = ", peripheries=2" if state.home else ""
        lines.append(f"  {_quote(state.name)} [label=<{_state_label(machine, state.name)}>{border}];")
    lines.append(f'  " " -> {_quote(machine.initial)};')
    for (source, target, kind), labels in edges(machine).items():
        text = "".join(f"  {_escape(line)}\\l" for label in labels for line in _wrapped(label))
        lines.append(f'  {_quote(source)} -> {_quote(target)} [style={STYLES[kind]}, label="{text}"];')
    return "\n".join([*lines, "}"]) + "\n"


def mermaid(machine: Machine) -> str:
    """The machine as a Mermaid `stateDiagram-v2`, which knows one stroke only: kinds are not shown there."""
    names = {state.name: _mermaid_name(state.name) for state in machine.states}
    lines = ["stateDiagram-v2"]
    lines += [f'    state "{state}" as {name}' for state, name in names.items() if state != name]
    lines.append(f"    [*] --> {names[machine.initial]}")
    merged: dict[tuple[str, str], list[str]] = {}
    for (source, target, _), labels in edges(machine).items():
        merged.setdefault((source, target), []).extend(labels)
    for state in machine.states:
        inside = [label for _, label in stays(machine, state.name)]
        if inside:
            merged[state.name, state.name] = merged.get((state.name, state.name), []) + inside
    for (source, target), labels in merged.items():
        lines.append(f"    {names[source]} --> {names[target]} : {'<br/>'.join(map(_mermaid_text, labels))}")
    home = [names[state.name] for state in machine.states if state.home]
    if home:
        lines += ["    classDef home stroke-width:4px", f"    class {','.join(home)} home"]
    return "\n".join(lines) + "\n"


def svg(machine: Machine) -> bytes:
    """The picture. Raises `DiagramError` where the package `graphviz` or the program `dot` is not there."""
    try:
        import graphviz
    except ModuleNotFoundError:
        raise DiagramError(
            "an SVG is drawn through the package graphviz; install it with: pip install 'kvstate[diagram]'"
        ) from None
    try:
        picture: bytes = graphviz.Source(dot(machine)).pipe(format="svg")
    except graphviz.ExecutableNotFound:
        raise DiagramError(
            "an SVG is drawn by the program dot, which is not on the PATH; install Graphviz "
            "(Debian and Ubuntu: apt-get install graphviz; macOS: brew install graphviz), "
            "or take the DOT or Mermaid text instead"
        ) from None
    return picture


# --- What is drawn --------------------------------------------------------------------------------------------------


def edges(machine: Machine) -> dict[tuple[str, str, EventKind], list[str]]:
    """From state, to state, kind of event: the labels of the rows that go there, in file order."""
    merged: dict[tuple[str, str, EventKind], list[str]] = {}
    for row in machine.rows:
        for source in row.sources:
            if row.to is None or row.to == source:
                continue
            for kind, label in _labels(machine, row):
                merged.setdefault((source, row.to, kind), []).append(label)
    return merged


def stays(machine: Machine, state: str) -> list[tuple[EventKind, str]]:
    """The labels of the rows that answer in `state` and stay there, in file order."""
    rows = (row for row in machine.rows if state in row.sources and row.to in (None, state))
    return [pair for row in rows for pair in _labels(machine, row)]


def _labels(machine: Machine, row: Row) -> Iterator[tuple[EventKind, str]]:
    """`events [guard] / effects`, once for each kind of event that the row answers."""
    guard = "" if row.when.is_true else f" [{row.when.source}]"
    effects = f" / {' '.join(row.effects)}" if row.effects else ""
    for kind in STYLES:
        events = [event for event in row.events if machine.event(event).kind == kind]
        if events:
            yield kind, f"{', '.join(events)}{guard}{effects}"


# --- Text in DOT ----------------------------------------------------------------------------------------------------


def _legend(machine: Machine) -> str:
    return (
        f"{machine.name}: {machine.title}\nsolid: request   dashed: report   dotted: signal   double border: may rest"
    )


def _state_label(machine: Machine, state: str) -> str:
    """The name, and below it what happens inside, as Graphviz's HTML."""
    small: list[str] = []
    for kind, label in stays(machine, state):
        first, *rest = _wrapped(label)
        small += [f"{STROKES[kind]} {first}", *(f"   {line}" for line in rest)]
    name = f"<B>{escape(state)}</B>"
    if not small:
        return name
    left = '<BR ALIGN="LEFT"/>'
    return left.join([name, *(f'<FONT POINT-SIZE="9">{escape(line)}</FONT>' for line in small), ""])


def _wrapped(label: str) -> list[str]:
    """Lines of a label, never broken inside a comparison."""
    kept = _OPERATOR.sub("\N{NO-BREAK SPACE}\\1\N{NO-BREAK SPACE}", label)
    first, *rest = wrap(kept, LABEL_WIDTH, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in (first, *(f"    {line}" for line in rest))]


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _quote(text: str) -> str:
    return f'"{_escape(text)}"'


# --- Text in Mermaid ------------------------------------------------------------------------------------------------

_MERMAID_WORDS = re.compile(
    "as|choice|class|classdef|click|default|direction|end|fork|hide|href|join|note|scale|state|style|title"
)
"""States of these names would be read as the language's own words."""


def _mermaid_name(state: str) -> str:
    return f"{state}_" if _MERMAID_WORDS.fullmatch(state) else state


def _mermaid_text(label: str) -> str:
    """A label ends at `;` or a line's end there, and `<` starts HTML; the entities are Mermaid's own."""
    for sign, entity in (("#", "#35;"), ("<", "#lt;"), (">", "#gt;"), (":", "#colon;")):
        label = label.replace(sign, entity)
    return label
