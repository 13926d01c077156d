"""What happened, from a record: the last lines, the first that the spec does not allow, and the story that led there.

The story is the shortest part of the record that still violates: nothing behind the violating line, and of what is
before it only what touched the record that it is about, in its present life. It is told line by line, and as a
sequence diagram in Mermaid.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvstate.spec.model import Spec
from kvstate.trace.check import Checker, Violation
from kvstate.trace.lines import Line, read

FATAL = re.compile(r"^(\w+) (\d+) is ")
"""How the sentence of a broken invariant names the record that no row took."""


@dataclass(frozen=True, slots=True)
class Autopsy:
    """See the module."""

    lines: int
    """How many lines were read: all of them, or those up to the violation."""
    violation: Violation | None
    """The first line that the spec does not allow."""
    last: tuple[Line, ...]
    """The last lines before the end, or up to the violation."""
    story: tuple[Line, ...]
    """The shortest part that still violates, the violating line included; empty where none is."""
    lost: int = 0
    """How many lines are missing before the second: the file is the end of a run."""


def autopsy(path: Path, spec: Spec, last: int = 20) -> Autopsy:
    """Read a record up to its first violation, and once more for the story; `last` lines are kept from before it.

    Errors: `RecordError` as `read`.
    """
    header, lines = read(path)
    checker = Checker(spec, header.params, header.lost)
    recent: deque[Line] = deque(maxlen=last)
    count = 1
    for line in lines:
        count = line.number
        recent.append(line)
        sentence = checker.feed(line)
        if sentence is not None:
            record = line.record if line.kind in ("row", "born") else _named(line)
            violation = Violation(line, sentence, record)
            return Autopsy(count, violation, tuple(recent), tuple(_story(path, violation, spec)), header.lost)
    return Autopsy(count, None, tuple(recent), (), header.lost)


def _named(line: Line) -> tuple[str, int] | None:
    """The record that a fatal verdict speaks of."""
    found = FATAL.match(str(line.data.get("sentence", "")))
    return (found[1], int(found[2])) if found else None


def _story(path: Path, violation: Violation, spec: Spec) -> list[Line]:
    """What touched the record since its present life began, and the violating line."""
    culprit, record = violation.line, violation.record
    if record is None:
        return [culprit]
    states = next((machine.states for machine in spec.machines if machine.name == record[0]), ())
    home = {state.name for state in states if state.home}
    story: list[Line] = []
    tokens: list[Any] = []
    for line in read(path)[1]:
        if line.number == culprit.number:
            break
        if line.kind in ("row", "born"):
            if line.record == record:
                if line.data.get("from") in home:
                    story, tokens = [], []  # what was before belongs to an earlier life
                story.append(line)
        elif _touches(line, record):
            story.append(line)
            tokens.append(line.data.get("token"))
        elif line.data.get("in") == "report" and line.data.get("token") in tokens:
            story.append(line)
    return [*story, culprit]


def _touches(line: Line, record: tuple[str, int]) -> bool:
    """Is it an effect or an input about this block, or about this part, whose number is that of its token?"""
    machine, number = record
    if line.kind not in ("in", "out"):
        return False
    if machine == "part":
        token = line.data.get("token")
        return isinstance(token, list) and token[-1:] == [number]
    lists = [line.data.get(key) for key in ("src", "dst", "into", "ids")] + [line.data.get("ref")]
    lists[-1] = lists[-1][:1] if isinstance(lists[-1], list) else None  # what follows the block is its life
    return machine in ("block", "foreign") and any(isinstance(blocks, list) and number in blocks for blocks in lists)


# -- told --------------------------------------------------------------------------------------------------------------


def said(line: Line) -> str:
    """A line of a record as a person says it."""
    data = line.data
    match line.kind:
        case "row":
            moved = f"{data['from']} -> {data['to']}" if data["from"] != data["to"] else f"stays {data['to']}"
            return f"{data['m']} {data['id']}: {data['row']}, {moved}"
        case "born":
            given = ", ".join(f"{name} {value}" for name, value in data["born"].items())
            return f"{data['m']} {data['id']} is born with {given}"
        case "in" if data["in"] == "report":
            return f"report {data['outcome']} for token {_token(data['token'])}"
        case "in":
            return f"{data['in']} {_rest(data, 'in')}".rstrip()
        case "out":
            return f"{data['out']} {_token(data.get('ref', data.get('token')))} {_copied(data)}".rstrip()
        case _:
            return f"verdict {data['verdict']}: {_rest(data, 'verdict', 'dump')}"


def _token(token: Any) -> str:
    return ".".join(map(str, token)) if isinstance(token, list) else str(token)


def _copied(data: Any) -> str:
    src, dst = data.get("src"), data.get("dst")
    return "" if not src else f"{src} to {dst}" if dst else f"{src}"


def _rest(data: Any, *known: str) -> str:
    return ", ".join(f"{name} {value}" for name, value in data.items() if name not in ("n", "t", *known))


def mermaid(lines: Iterable[Line]) -> str:
    """These lines as a sequence diagram: the scheduler, the ledger and its records, the workers."""
    lines = list(lines)
    records = dict.fromkeys(line.record for line in lines if line.kind in ("row", "born"))
    names = {record: f"{record[0]}{record[1]}" for record in records}
    text = ["sequenceDiagram", "    participant S as scheduler", "    participant L as ledger"]
    text += [f"    participant {name} as {record[0]} {record[1]}" for record, name in names.items()]
    text.append("    participant W as worker")
    for line in lines:
        words = said(line).replace(";", ",").replace("#", "no. ")
        match line.kind:
            case "row" | "born":
                text.append(f"    Note over {names[line.record]}: {words.partition(': ')[2] or words}")
            case "in":
                text.append(f"    {'W' if line.data['in'] == 'report' else 'S'}->>L: {words}")
            case "out":
                text.append(f"    L->>{'S' if 'ref' in line.data else 'W'}: {words}")
            case _:
                text.append(f"    L->>S: {words}")
    return "\n".join(text) + "\n"
