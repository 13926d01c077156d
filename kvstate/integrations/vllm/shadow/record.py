"""The end of what was seen, kept in memory, and written as a record when a law is broken.

The file is a record like that of a runtime: `kvstate trace check` holds its rows against the spec, and stops at the
last line, which says what was broken; `kvstate autopsy` tells the story of the block or the part that it is about. In
it a part has the number of vLLM's job, and host slots are blocks behind those of the device.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from kvstate.integrations.vllm.shadow.kinds import Violation
from kvstate.machines.tables import SPEC_VERSION

FORMAT: Final = 2
"""Of the record, as `kvstate.trace` reads it; a test holds the two together."""

Row = tuple[float, Any, int, int, int, int]
"""A row that has fired: when, the table of its machine, its number there, the record, the state before and after."""
Said = tuple[float, Mapping[str, Any]]
"""Anything else: when, and what was seen or follows from it, in plain values."""


class Ring:
    """Keeps the last `events` of them, and what time it is."""

    def __init__(self, events: int) -> None:
        self.kept: deque[Row | Said] = deque(maxlen=events)
        """They."""
        self.rows = 0
        """How many of them were rows; who fires one adds it, and counts it here."""
        self.said = 0
        """How many were not."""
        self.now = 0.0
        """The time that new ones are kept with; it never goes back."""

    def at(self, now: float) -> None:
        """It is this time; an earlier one than is known already is not believed."""
        self.now = max(self.now, now)

    def say(self, **values: Any) -> None:
        """Keep what is no row."""
        self.said += 1
        self.kept.append((self.now, values))

    def dump(self, path: Path, violation: Violation, settings: Mapping[str, Any]) -> int:
        """Write what is kept and what was broken; returns the number of lines. Errors: `OSError`."""
        head: dict[str, Any] = {"kvstate": FORMAT, "spec": SPEC_VERSION, "params": {"ranks": 1, "attempts": 1}}
        lost = self.rows + self.said - len(self.kept)
        head |= {"lost": lost} if lost else {}
        fatal = {"verdict": "fatal", "law": violation.law, "sentence": violation.sentence, "kind": violation.kind}
        part = path.with_name(path.name + ".part")
        with part.open("w", encoding="utf-8") as stream:
            stream.write(json.dumps(head | {"settings": dict(settings)}) + "\n")
            for number, event in enumerate((*self.kept, (self.now, fatal)), 1):
                stream.write(json.dumps({"n": number, "t": round(event[0], 6)} | _words(event)) + "\n")
        part.replace(path)
        return len(self.kept) + 2


def _words(event: Row | Said) -> dict[str, Any]:
    if len(event) == 2:
        return dict(event[1])
    _, table, row, number, before, after = event
    names = table.STATES
    return {"row": table.ROWS[row], "m": table.name, "id": number, "from": names[before], "to": names[after]}
