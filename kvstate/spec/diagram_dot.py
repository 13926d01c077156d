"""A picture in the language of Graphviz.

The label of an arrow is a node of its own that the arrow goes through. Graphviz keeps lines out of nodes and nodes
apart, and promises neither of an arrow's label; and a label that sits on its line can't be taken for its neighbour's.

The ground is left transparent. Boxes and labels bring a light ground of their own for their dark text, and strokes have
colours that stand out from white and from black alike, so one file does for light pages and for dark ones; a style
sheet that asks which it is on would be ignored by half of the programs that show an SVG.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape

from kvstate.spec.diagram import KINDS, STROKES, Arrow, Box, Line, Picture
from kvstate.spec.model import EventKind

STYLES: dict[EventKind, str] = {"request": "solid", "report": "dashed", "signal": "dotted"}
"""What kind of event it is can be told from a stroke without its colour, too."""
COLOURS: dict[EventKind, str] = {"request": "#1f75e0", "report": "#bb6200", "signal": "#9558e8"}
PLAIN = "#76808c"
FIRED = "#2a8f45"
NEVER = "#d9433d"
STROKE_COLOURS = (*COLOURS.values(), PLAIN, FIRED, NEVER)
"""All of them keep a contrast of three to one with white and with a dark page; a test computes it.

`COLOURS` are those of the kinds of event, `PLAIN` is that of couplings, `FIRED` and `NEVER` those of a recorded run.
"""

GROUND = "#f3f5f8"
STATE_GROUND = "#dde8f7"
END_GROUND = "#33404f"
TEXT = "#15191f"
FAINT = "#5a6470"
EFFECT = "#14632c"
"""Boxes stand on `GROUND`, the name of a state on `STATE_GROUND`, that of a state at an end on `END_GROUND`; words are
`TEXT`, ids and guards `FAINT`, effects `EFFECT`."""
WIDTH = 54
"""Letters in a line of a label, before it is broken."""
FONT = "Helvetica"
"""One whose widths every drawing program knows."""
_OPERATOR = re.compile(r" (==|!=|<=|>=|<|>|\+|-|\*) ")
GAP = "\N{NO-BREAK SPACE}"
"""Where no line may be broken. It is printed as a plain space, which is what the drawing program knows the width of."""
_BREAK = '<BR ALIGN="LEFT"/>'


def dot(drawn: Picture) -> str:
    """The picture as DOT text; the same picture gives the same text."""
    lines = [
        f"digraph {_quote(drawn.name)} {{",
        f"  label=<{_legend(drawn)}>; labelloc=t; bgcolor=transparent; outputorder=edgesfirst;",
        f"  rankdir=TB; nodesep=0.3; ranksep=0.32; pad=0.2; fontname={_quote(FONT)}; fontsize=11;",
        f"  node [shape=plain, fontname={_quote(FONT)}, fontsize=9, fontcolor={_quote(TEXT)}];",
        f"  edge [color={_quote(PLAIN)}, penwidth=1.5, arrowsize=0.8];",
    ]
    lines += [f"  {_quote(box.name)} [{_box(box)}];" for box in drawn.boxes]
    if drawn.start is not None:
        lines.append(f'  " " [shape=circle, style=filled, color={_quote(PLAIN)}, label="", width=0.16];')
        lines.append(f'  " " -> {_quote(drawn.start)} [weight=9];')
    order = {box.name: number for number, box in enumerate(drawn.boxes)}
    for arrow in drawn.arrows:
        lines += _arrow(arrow, forward=order[arrow.source] <= order[arrow.target])
    return "\n".join([*lines, "}"]) + "\n"


def _box(box: Box) -> str:
    ground, ink = (END_GROUND, "#ffffff") if box.end else (STATE_GROUND, TEXT)
    style = "rounded,filled" if box.seen else "rounded,filled,dashed"
    label = f'<FONT POINT-SIZE="14" COLOR="{ink}"><B>{escape(box.name)}</B></FONT>'
    if box.lines:
        # Dark text can't stand on the dark ground of an end: there the lines bring the light one of a label.
        inside = _table(_rows(box.lines), GROUND if box.end else None)
        label = (
            '<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="2">'
            f'<TR><TD ALIGN="LEFT">{label}</TD></TR><TR><TD>{inside}</TD></TR></TABLE>'
        )
    more = ", peripheries=2" if box.home else ""
    return (
        f"shape=box, style={_quote(style)}, fillcolor={_quote(ground)}, color={_quote(PLAIN if box.seen else NEVER)}, "
        f"penwidth=1.6, margin=0.1, label=<{label}>{more}"
    )


def _arrow(arrow: Arrow, *, forward: bool) -> Iterator[str]:
    """Two lines and the label between them. An arrow back is turned round for the layout, which then need not guess."""
    middle = _quote(f"{arrow.source} to {arrow.target}")
    ground = f"style={_quote('rounded,filled')}, fillcolor={_quote(GROUND)}, penwidth=0, width=0, height=0"
    yield f"  {middle} [shape=box, margin={_quote('0.06,0.03')}, {ground}, label=<{_table(_rows(arrow.lines))}>];"
    stroke = _stroke(arrow)
    if forward:
        yield f"  {_quote(arrow.source)} -> {middle} [{stroke}, dir=none];"
        yield f"  {middle} -> {_quote(arrow.target)} [{stroke}];"
    else:
        yield f"  {_quote(arrow.target)} -> {middle} [{stroke}, dir=back];"
        yield f"  {middle} -> {_quote(arrow.source)} [{stroke}, dir=none];"


def _stroke(arrow: Arrow) -> str:
    kinds = arrow.kinds
    style = STYLES[kinds[0]] if kinds else "solid"
    more = ", penwidth=2.2" if style == "dotted" else ""
    counts = [line.count for line in arrow.lines if line.count is not None]
    if counts:
        colour, width = (FIRED, 2.2) if any(counts) else (NEVER, 1.2)
        return f"style={style}, color={_quote(colour)}, penwidth={width}"
    colours = ":".join(COLOURS[kind] for kind in kinds) or PLAIN
    return f"style={style}, color={_quote(colours)}{more}"


# --- Text -----------------------------------------------------------------------------------------------------------


def _table(rows: Iterable[str], ground: str | None = None) -> str:
    fill = f' BGCOLOR="{ground}" STYLE="ROUNDED" CELLPADDING="4"' if ground else ' CELLPADDING="1"'
    return f'<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="0"{fill}>{"".join(rows)}</TABLE>'


def _rows(lines: tuple[Line, ...]) -> Iterator[str]:
    """The stroke in a column of its own, so that the texts begin below each other."""
    for line in lines:
        mark = ""
        if line.kind is not None:
            mark = f'<TD ALIGN="LEFT" VALIGN="TOP" WIDTH="16">{_mark(line.kind)}</TD>'
        yield f'<TR>{mark}<TD ALIGN="LEFT" BALIGN="LEFT">{_text(line)}</TD></TR>'


def _mark(kind: EventKind) -> str:
    return f'<FONT COLOR="{COLOURS[kind]}"><B>{STROKES[kind]}</B></FONT>'


def _text(line: Line) -> str:
    """Events bold, guard plain, effects green, in lines that are never broken inside a comparison."""
    guard = _OPERATOR.sub(f"{GAP}\\1{GAP}", f"[{line.guard}]") if line.guard else ""
    texts = [("id", line.id), ("event", line.events), ("guard", guard), ("effect", _effects(line))]
    words = [(word, style) for style, text in texts for word in text.split(" ") if word]
    if line.count is not None:
        words.append((f"×{line.count:,}" if line.count else "never", "fired" if line.count else "never"))
    rows: list[list[tuple[str, str]]] = [[]]
    used = 0
    for word, style in words:
        if used and used + 1 + len(word) > WIDTH:
            rows.append([])
            used = 0
        rows[-1].append((word, style))
        used += 1 + len(word)
    return f"{_BREAK}      ".join("  ".join(_styled(row)) for row in rows) + "   "


def _effects(line: Line) -> str:
    """A slash before a row's effects, as in UML; a coupling's relation says `over` by itself."""
    return f"/{GAP}{line.effects}" if line.effects and line.kind is not None else line.effects


def _styled(row: list[tuple[str, str]]) -> Iterator[str]:
    """Neighbours of one style under one mark."""
    start = 0
    for at in range(1, len(row) + 1):
        if at == len(row) or row[at][1] != row[start][1]:
            text = escape(" ".join(word for word, _ in row[start:at]).replace(GAP, " "))
            yield _MARKS[row[start][1]].format(text)
            start = at


_MARKS = {
    "id": f'<FONT COLOR="{FAINT}">{{}}</FONT>',
    "event": "<B>{}</B>",
    "guard": "{}",
    "effect": f'<FONT COLOR="{EFFECT}">{{}}</FONT>',
    "fired": f'<FONT COLOR="{EFFECT}"><B>{{}}</B></FONT>',
    "never": '<FONT COLOR="#b3261e"><B>{}</B></FONT>',
}


def _legend(drawn: Picture) -> str:
    kinds = [kind for kind in KINDS if any(line.kind == kind for line in drawn.lines)]
    words = [f"{_mark(kind)} {kind}" for kind in kinds]
    if any(box.home for box in drawn.boxes):
        words.append("double border: may rest here")
    if any(box.end for box in drawn.boxes):
        words.append("dark: an end")
    if not kinds:
        words.append("an arrow: effect -&gt; event, over a relation; “?”: only where a row accepts it")
        words.append("in a box: what the ledger itself does at an effect")
    rows = [f'<FONT POINT-SIZE="15"><B>{escape(drawn.title)}</B></FONT>', "    ".join(words)]
    if drawn.counted:
        counts = [line.count for line in drawn.lines]
        never = sum(count == 0 for count in counts)
        rows.append(
            f"of {len(counts)} lines {len(counts) - never} happened in this run (green), {never} never did (red)"
        )
    table = _table((f"<TR><TD> {row} </TD></TR>" for row in rows), GROUND)
    return f'<FONT COLOR="{TEXT}">{table}</FONT>'


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
