"""What an engine tells whoever watches it: a record, metrics, a log.

Rows that fire are not told here; who wants them listens to the ledger itself (`kvstate.trace.rows`).
"""

from __future__ import annotations

from typing import Any

from kvstate.machines.messages import Effect, Report
from kvstate.machines.verdicts import Verdict


class Observer:
    """Hears of everything that passes through an engine; each method does nothing until it is overridden.

    All of it is called by the thread that owns the ledger, in the middle of its loop: a method has to be quick, must
    not make requests of the ledger, and must not raise.
    """

    def on_input(self, name: str, answer: object = None, /, **values: Any) -> None:
        """A request was made. `values` are plain and say what it was about; `answer` is the ledger's, where whoever
        tells has it, and no part of a record.
        """

    def on_report(self, report: Report) -> None:
        """A report, as it came out of the inbox. The ledger has not heard it yet, so its part is still on record."""

    def on_effect(self, effect: Effect) -> None:
        """An effect, as it goes out."""

    def on_verdict(self, verdict: Verdict) -> None:
        """What the scheduler is told."""

    def on_turn(self) -> None:
        """A turn of the loop is over: the ledger knows the time, and all verdicts were told."""
