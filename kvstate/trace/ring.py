"""The end of a record, kept in memory: cheap enough to be always on, and written out when something broke.

Nothing is put into words before that: an event is kept as it came, and costs about as much as the call that tells of
it. What falls out of the ring is only counted. The file is a record like any other, whose first line says how many
lines are missing before its second; `kvstate autopsy` and `kvstate trace check` read it. What they can't know of a
record that was there before is what its variables were, so a guard that asks for them is not held against it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kvstate.machines.ledger import Ledger
from kvstate.trace.record import Lines, Listener, Values

EVENTS: Final = 20_000
"""How many events a ring keeps where nothing is said; a row that fired on many records at once is one."""

_Rows = tuple[float, str, tuple[int, ...], str, int, int]


class Ring(Listener):
    """Keeps the last `events` events of a ledger. Errors: `ValueError` for less than one."""

    def __init__(self, ledger: Ledger, events: int = EVENTS) -> None:
        """Listen to the ledger, which has had no input yet."""
        if events < 1:
            raise ValueError(f"a ring of {events} events keeps nothing; keep at least 1")
        self.lost = 0
        """How many lines have fallen out."""
        self._kept: deque[_Rows | tuple[float, Values]] = deque()
        self._events = events
        super().__init__(ledger)

    def rows(self, now: float, machine: str, uids: Sequence[int], row: str, before: int, after: int) -> None:
        """Keep them; a copy, since the ledger's lists live on."""
        self._keep((now, machine, tuple(uids), row, before, after))

    def line(self, now: float, values: Values) -> None:
        """Keep it."""
        self._keep((now, values))

    def _keep(self, event: _Rows | tuple[float, Values]) -> None:
        kept = self._kept
        if len(kept) == self._events:
            gone = kept.popleft()
            self.lost += 1 if len(gone) == 2 else len(gone[2])
        kept.append(event)

    def dump(self, path: Path, settings: Values | None = None) -> int:
        """Write what is kept as a record; returns the number of its lines.

        A file that is there is replaced when the new one is whole. Errors: `OSError`.
        """
        part = path.with_name(path.name + ".part")
        more: dict[str, Any] = {"lost": self.lost} if self.lost else {}
        with part.open("w", encoding="utf-8") as stream:
            lines = Lines(self.ledger, stream, settings or {}, **more)
            for event in tuple(self._kept):
                lines.line(*event) if len(event) == 2 else lines.rows(*event)
        part.replace(path)
        return lines.lines


class Crash:
    """Where the ring is written when the ledger is poisoned. It must not add to the trouble, so it never raises."""

    def __init__(self, ring: Ring, path: Path, settings: Values | None = None) -> None:
        """`path` is the file; `settings` stand in its first line."""
        self.ring = ring
        """What is written."""
        self.path = path
        """Where."""
        self.written: int | None = None
        """How many lines were written; None as long as nothing was."""
        self.trouble: OSError | None = None
        """Why nothing could be written."""
        self._settings = settings

    @property
    def said(self) -> str:
        """What became of it, in a sentence."""
        if self.trouble is not None:
            return f"the end of the run could not be written to {self.path}: {self.trouble.strerror or self.trouble}"
        if self.written is None:
            return f"nothing was written to {self.path}: the ledger was never poisoned"
        return f"the end of the run, {self.written} lines, is in {self.path}: kvstate autopsy {self.path}"

    def write(self) -> None:
        """Write what is kept, `Ring.dump`; what goes wrong is kept in `trouble`."""
        try:
            self.written = self.ring.dump(self.path, self._settings)
        except OSError as error:
            self.trouble = error
