"""The record of a run: every input, every row that fired, every effect and verdict, one JSON line each.

A line is small and flat. The first says what wrote it; `n` counts lines, `t` is the ledger's time in seconds.

    {"kvstate": 1, "spec": "0.1.0", "settings": {...}}
    {"n": 7, "t": 0.012, "in": "lookup", "lease": 3, ...}
    {"n": 8, "t": 0.012, "row": "B10", "m": "block", "id": 17, "from": "cached", "to": "active"}
    {"n": 9, "t": 0.012, "out": "fetch", "token": [1, 44], ...}
    {"n": 10, "t": 0.031, "verdict": "load", ...}

Of one seed and one set of options in virtual time, the record is the same byte for byte: nothing in it comes from a
clock, a hash seed or an address.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TextIO

from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Cancel, Effect, Report, Undo, Work
from kvstate.machines.tables import SPEC_VERSION
from kvstate.machines.verdicts import Fatal, JobVerdict, LoadVerdict, Settlement, Verdict

FORMAT = 1


class Recorder:
    """Writes the record to a text stream. Attach it before the first input."""

    def __init__(self, ledger: Ledger, stream: TextIO, settings: Mapping[str, Any]) -> None:
        self.ledger = ledger
        self.stream = stream
        self.lines = 0
        said = {name: value for name, value in settings.items() if name != "trace_out"}
        self._write({"kvstate": FORMAT, "spec": SPEC_VERSION, "settings": said})
        for port in ledger.core.ports.ports.values():
            port.sink = self.on_row
        self._states = {name: port.table.STATES for name, port in ledger.core.ports.ports.items()}

    def _write(self, line: dict[str, Any]) -> None:
        self.stream.write(json.dumps(line, separators=(",", ":")))
        self.stream.write("\n")
        self.lines += 1

    def _line(self, **values: Any) -> None:
        self._write({"n": self.lines, "t": round(self.ledger.books.now, 9), **values})

    def on_row(self, machine: str, uid: int, row: str, before: int, after: int) -> None:
        states = self._states[machine]
        self._line(row=row, m=machine, id=uid, **{"from": states[before], "to": states[after]})

    def on_input(self, name: str, **values: Any) -> None:
        self._line(**{"in": name}, **values)

    def on_report(self, report: Report) -> None:
        failures = [[failure.line, failure.code, failure.raw] for failure in report.failures]
        self.on_input("report", token=list(report.token), outcome=str(report.outcome), failures=failures)

    def on_effect(self, effect: Effect) -> None:
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
