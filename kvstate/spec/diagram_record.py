"""How often each row fired in a recorded run: what `kvstate replay --trace-out` wrote, for the pictures to show."""

from __future__ import annotations

import json
from pathlib import Path

from kvstate.spec.diagram import DiagramError

FORMAT = 2
"""The format of records that is understood here; `kvstate.trace.record` writes it."""


def read_counts(path: Path) -> dict[tuple[str, str, str], int]:
    """Machine, row, state it fired in: how often. Raises `DiagramError` where the file is no record of a run."""
    counts: dict[tuple[str, str, str], int] = {}
    try:
        with path.open(encoding="utf-8") as lines:
            for number, text in enumerate(lines, start=1):
                line = _parsed(path, number, text)
                if number == 1 and line.get("kvstate") != FORMAT:
                    raise DiagramError(f"{path} is no record of a run; kvstate replay --trace-out writes one")
                if "row" in line:
                    cell = (line.get("m"), line["row"], line.get("from"))
                    if not all(isinstance(word, str) for word in cell):
                        raise DiagramError(f"{path}, line {number}: a row without its machine and state")
                    key = (str(cell[0]), str(cell[1]), str(cell[2]))
                    counts[key] = counts.get(key, 0) + 1
    except OSError as error:
        raise DiagramError(f"{path} could not be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise DiagramError(f"{path} is no record of a run: it is not text") from None
    if not counts:
        raise DiagramError(f"{path} has no row that fired")
    return counts


def _parsed(path: Path, number: int, text: str) -> dict[str, object]:
    try:
        line = json.loads(text)
    except ValueError:
        line = None
    if not isinstance(line, dict):
        raise DiagramError(f"{path}, line {number}: not a JSON object, as each line of a record is")
    return line
