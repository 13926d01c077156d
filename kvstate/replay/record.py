"""The record of a run: every input, every row that fired, every effect and verdict, one JSON line each.

A line is small and flat. The first says what wrote it; `n` counts lines, `t` is the ledger's time in seconds.

    {"kvstate": 2, "spec": "0.1.0", "params": {"ranks": 1, "attempts": 2}, "settings": {...}}
    {"n": 7, "t": 0.012, "in": "lookup", "lease": 3, ...}
    {"n": 8, "t": 0.012, "born": {"parts": 3}, "m": "offload", "id": 9}
    {"n": 9, "t": 0.012, "row": "B10", "m": "block", "id": 17, "from": "cached", "to": "active"}
    {"n": 10, "t": 0.012, "out": "fetch", "token": [1, 44], ...}
    {"n": 11, "t": 0.031, "verdict": "load", ...}

A record that is born with values of its own has a line that says so, before its first row. With the params in the first
line that is all that `kvstate trace check` needs to fire every row again.

Of one seed and one set of options in virtual time, the record is the same byte for byte: nothing in it comes from a
clock, a hash seed or an address.

Nearly all lines are rows, and of those only three numbers are new: line, time and record. So their text is kept and
only the numbers are put in; an encoder that saw each row as an object took more time than the ledger that fired it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Cancel, Effect, Report, Undo, Work
from kvstate.machines.tables import SPEC_VERSION
from kvstate.machines.verdicts import Fatal, JobVerdict, LoadVerdict, Settlement, Verdict
from kvstate.replay.rows import listen
from kvstate.spec.diagram_record import FORMAT

_encode = json.JSONEncoder(separators=(",", ":")).encode


class Recorder:
    """Writes the record to a text stream. Attach it before the first input: what was before is not told.

    Errors: whatever the stream raises when it is written to. From a row that is an error inside of the ledger, which
    poisons it.
    """

    def __init__(self, ledger: Ledger, stream: TextIO, settings: Mapping[str, Any]) -> None:
        """Write the first line, and listen to every machine. `settings` are plain values; `trace_out`, which says
        where the record lies, is left out.
        """
        self.ledger = ledger
        """Whose record it is; read for the time alone."""
        self.stream = stream
        """Where lines go, each with its newline. It is not closed here."""
        self.lines = 0
        """How many have been written, the first included."""
        self._states = {name: port.table.STATES for name, port in ledger.core.ports.ports.items()}
        self._rows: dict[tuple[str, int, int], tuple[str, str]] = {}
        """By row id and states before and after: what stands in a line before the record's number, and after it."""
        self._time = (-1.0, "")
        """The time of the last line, as a number and as text."""
        self._born: dict[str, set[int]] = {
            name: set() for name, port in ledger.core.ports.ports.items() if port.table.GIVEN
        }
        """By machine whose records are told something at birth: those of which it has been written."""
        params = {"ranks": ledger.config.ranks, "attempts": ledger.config.attempts}
        said = {name: value for name, value in settings.items() if name != "trace_out"}
        self._write(_encode({"kvstate": FORMAT, "spec": SPEC_VERSION, "params": params, "settings": said}))
        listen(ledger, self.on_rows, self._states)

    def _write(self, line: str) -> None:
        self.stream.write(line + "\n")
        self.lines += 1

    def _line(self, **values: Any) -> None:
        self._write(f'{{"n":{self.lines},"t":{self._now()},{_encode(values)[1:]}')

    def _now(self) -> str:
        """The ledger's time as JSON."""
        now = self.ledger.books.now
        if now != self._time[0]:
            self._time = (now, _encode(round(now, 9)))
        return self._time[1]

    def on_rows(self, machine: str, slots: Sequence[int], row: str, before: int, after: int) -> None:
        """A row has fired on these records of a machine, a line each; states are numbers, and names in the line."""
        parts = self._rows.get((row, before, after))
        if parts is None:
            states = self._states[machine]
            head = _encode({"row": row, "m": machine})[1:-1]
            tail = _encode({"from": states[before], "to": states[after]})[1:]
            parts = self._rows[row, before, after] = (f'{head},"id":', f",{tail}\n")
        books = self.ledger.books
        uids = slots if machine == "block" else [books.uid(machine, slot) for slot in slots]
        if machine in self._born:
            self._tell_births(machine, slots, uids)
        now, (head, tail) = self._now(), parts
        for uid in uids:
            self.stream.write(f'{{"n":{self.lines},"t":{now},{head}{uid}{tail}')
            self.lines += 1

    def _tell_births(self, machine: str, slots: Sequence[int], uids: Sequence[int]) -> None:
        """What a record is given at birth it keeps for life, so it can be read when its first row has fired."""
        books, known = self.ledger.books, self._born[machine]
        for slot, uid in zip(slots, uids, strict=True):
            if uid not in known:
                known.add(uid)
                given = {var: books.column(machine, var)[slot] for var in books.tables[machine].GIVEN}
                self._line(born=given, m=machine, id=uid)

    def on_input(self, name: str, **values: Any) -> None:
        """An input by its name; `values` are plain and say what it was about."""
        self._line(**{"in": name}, **values)

    def on_report(self, report: Report) -> None:
        """A report, as it came out of the inbox; of each failure the line, the code and the driver's own code."""
        failures = [[failure.line, failure.code, failure.raw] for failure in report.failures]
        self.on_input("report", token=list(report.token), outcome=str(report.outcome), failures=failures)

    def on_effect(self, effect: Effect) -> None:
        """An effect, as it goes out."""
        match effect:
            case Work():
                self._line(
                    out=str(effect.kind), token=list(effect.token), rank=effect.rank, attempt=effect.attempt,
                    src=list(effect.src), dst=list(effect.dst), keys=[key.hex() for key in effect.keys],
                    after=effect.after_step,
                )  # fmt: skip
            case Cancel():
                self._line(out="cancel", token=list(effect.token))
            case Undo():
                self._line(out="undo", token=list(effect.token))

    def on_verdict(self, verdict: Verdict) -> None:
        """What the scheduler was told; of each error the code by name."""
        match verdict:
            case LoadVerdict():
                codes = [error.code.name for error in verdict.errors]
                self._line(
                    verdict="load", load=verdict.load, ending=str(verdict.ending), blocks=verdict.blocks, errors=codes
                )
            case JobVerdict():
                codes = [error.code.name for error in verdict.errors]
                self._line(verdict="job", job=verdict.job, ending=str(verdict.ending), errors=codes)
            case Settlement():
                self._line(verdict="settled", load=verdict.load)
            case Fatal():
                self._line(verdict="fatal", law=verdict.law, sentence=verdict.sentence, dump=list(verdict.dump))
