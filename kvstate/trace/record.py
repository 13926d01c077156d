"""The record of a run: every input, every row that fired, every effect and verdict, one JSON line each.

A line is small and flat. The first says what wrote it; `n` counts lines, `t` is the ledger's time in seconds.

    {"kvstate": 2, "spec": "0.1.0", "params": {"ranks": 1, "attempts": 2}, "settings": {...}}
    {"n": 7, "t": 0.012, "in": "lookup", "lease": 3, ...}
    {"n": 8, "t": 0.012, "born": {"parts": 3}, "m": "offload", "id": 9, "job": 44, ...}
    {"n": 9, "t": 0.012, "row": "B10", "m": "block", "id": 17, "from": "cached", "to": "active"}
    {"n": 10, "t": 0.012, "out": "fetch", "token": [1, 44], ...}
    {"n": 11, "t": 0.012, "in": "report", "token": [1, 44], ...}
    {"n": 19, "t": 0.031, "verdict": "load", ...}
    {"n": 20, "t": 0.031, "in": "turn", "reports": 1}

A request stands behind what it did, since its answer may be part of the line, and a report in front of what it did. A
report comes before the ledger is told the time; the line of the *turn* says when those before it were heard.

A record that is born with values of its own has a line that says so, before its first row. With the params in the first
line that is all that `kvstate trace check` needs to fire every row again.

Of one seed and one set of options in virtual time, the record is the same byte for byte: nothing in it comes from a
clock, a hash seed or an address.

`Recorder` writes it while the run lasts. `kvstate.trace.ring` keeps the end of it in memory, for the day when something
breaks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Protocol

from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Effect, Report
from kvstate.machines.tables import SPEC_VERSION
from kvstate.machines.verdicts import Verdict
from kvstate.spec.diagram_record import FORMAT
from kvstate.trace.observer import Observer
from kvstate.trace.rows import listen
from kvstate.trace.words import Values, birth, of_birth, of_effect, of_report, of_turn, of_verdict

_encode = json.JSONEncoder(separators=(",", ":"), default=list).encode
"""What JSON does not know, and a line has, is a column of numbers."""
PLACES = ("trace_out", "crash_dump", "record", "report")
"""Settings that are no part of a run."""


class Written(Protocol):
    """What lines are written to: any text stream."""

    def write(self, text: str, /) -> object:
        """Write it at the end."""
        ...


class Lines:
    """Puts what happened into lines and writes them to a text stream.

    Nearly all lines are rows, and of those only three numbers are new: line, time and record. So their text is kept and
    only the numbers are put in; an encoder that saw each row as an object took more time than the ledger that fired it.

    Errors: whatever the stream raises when it is written to.
    """

    def __init__(self, ledger: Ledger, stream: Written, settings: Values, **more: Any) -> None:
        """Write the first line. `settings` are plain values; those that say where files lie are left out. `more`
        stands beside them.
        """
        self.stream = stream
        """Where lines go, each with its newline. It is not closed here."""
        self.lines = 0
        """How many have been written, the first included."""
        self._states = {name: port.table.STATES for name, port in ledger.core.ports.ports.items()}
        self._rows: dict[tuple[str, int, int], tuple[str, str]] = {}
        """By row id and states before and after: what stands in a line before the record's number, and after it."""
        self._time = (-1.0, "")
        """The time of the last line, as a number and as text."""
        params = {"ranks": ledger.config.ranks, "attempts": ledger.config.attempts}
        said = {name: value for name, value in settings.items() if name not in PLACES}
        self._write(_encode({"kvstate": FORMAT, "spec": SPEC_VERSION, "params": params, **more, "settings": said}))

    def _write(self, line: str) -> None:
        self.stream.write(line + "\n")
        self.lines += 1

    def line(self, now: float, values: Values) -> None:
        """A line of plain values."""
        self._write(f'{{"n":{self.lines},"t":{self._at(now)},{_encode(values)[1:]}')

    def rows(self, now: float, machine: str, uids: Sequence[int], row: str, before: int, after: int) -> None:
        """A row that fired on these records, a line each; states are numbers, and names in the line."""
        parts = self._rows.get((row, before, after))
        if parts is None:
            states = self._states[machine]
            head = _encode({"row": row, "m": machine})[1:-1]
            tail = _encode({"from": states[before], "to": states[after]})[1:]
            parts = self._rows[row, before, after] = (f'{head},"id":', f",{tail}\n")
        at, (head, tail) = self._at(now), parts
        for uid in uids:
            self.stream.write(f'{{"n":{self.lines},"t":{at},{head}{uid}{tail}')
            self.lines += 1

    def _at(self, now: float) -> str:
        """The time as JSON."""
        if now != self._time[0]:
            self._time = (now, _encode(round(now, 9)))
        return self._time[1]


class Listener(Observer):
    """Hears what happens to a ledger, row by row, and hands it on; what to do with it is for those who come after.

    Attach it before the first input: what was before is not told.
    """

    def __init__(self, ledger: Ledger) -> None:
        """Listen to every machine."""
        self.ledger = ledger
        """Whose run it is; read for the time, for numbers and for what records are born with."""
        ports = ledger.core.ports.ports
        self._heard = 0
        """Reports of this turn."""
        self._born: dict[str, dict[int, int]] = {name: {} for name, port in ports.items() if port.table.GIVEN}
        """By machine whose records are told something at birth, and slot: the last record of which it has been told."""
        listen(ledger, self.on_rows, ports)

    def rows(self, now: float, machine: str, uids: Sequence[int], row: str, before: int, after: int) -> None:
        """A row has fired on these records; the sequence is the caller's, and may change when this has returned."""
        raise NotImplementedError

    def line(self, now: float, values: Values) -> None:
        """Anything else has happened; what, is said in plain values."""
        raise NotImplementedError

    def on_rows(self, machine: str, slots: Sequence[int], row: str, before: int, after: int) -> None:
        """A row has fired on these records of a machine; a `Sink`."""
        books = self.ledger.books
        uids = slots if machine == "block" else [books.uid(machine, slot) for slot in slots]
        known = self._born.get(machine)
        if known is not None:
            for slot, uid in zip(slots, uids, strict=True):
                if known.get(slot) != uid:
                    known[slot] = uid
                    given = books.tables[machine].GIVEN
                    self.line(books.now, of_birth(birth(books, machine, slot, uid), given))
        self.rows(books.now, machine, uids, row, before, after)

    def on_input(self, name: str, _answer: object = None, /, **values: Any) -> None:
        """An input by its name; `values` say what it was about."""
        self.line(self.ledger.books.now, {"in": name, **values})

    def on_report(self, report: Report) -> None:
        """A report, before the rows that it fires. The ledger has not been told yet what time it is."""
        self._heard += 1
        self.line(self.ledger.books.now, of_report(report))

    def on_effect(self, effect: Effect) -> None:
        """An effect, behind the rows that it comes from."""
        self.line(self.ledger.books.now, of_effect(effect))

    def on_verdict(self, verdict: Verdict) -> None:
        """A verdict, likewise."""
        self.line(self.ledger.books.now, of_verdict(verdict))

    def on_turn(self) -> None:
        """The time at which the reports of this turn were heard; of a turn without any nothing is said."""
        if self._heard:
            reports, self._heard = self._heard, 0
            self.line(self.ledger.books.now, of_turn(reports))


class Recorder(Listener):
    """Writes the record to a text stream while the run lasts.

    Errors: whatever the stream raises when it is written to. From a row that is an error inside of the ledger, which
    poisons it.
    """

    def __init__(self, ledger: Ledger, stream: Written, settings: Values) -> None:
        """Write the first line, and listen; `settings` as in `Lines`."""
        self._lines = Lines(ledger, stream, settings)
        self.rows = self._lines.rows  # type: ignore[method-assign]  # one call less for each row
        self.line = self._lines.line  # type: ignore[method-assign]
        super().__init__(ledger)

    @property
    def lines(self) -> int:
        """How many have been written, the first included."""
        return self._lines.lines
