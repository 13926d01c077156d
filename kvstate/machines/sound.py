"""Are the arguments of an input what they say they are? Looked at before anything is touched.

A caller's mistake is a refusal and a worker's nonsense is counted: neither may reach the tables, where it would look
like a broken invariant and poison the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Any

from kvstate.errors import Code
from kvstate.machines.messages import BlockRef, Failure, Outcome, Report, Token
from kvstate.machines.verdicts import Refusal

OUTCOMES = frozenset(Outcome)


def bad_keys(keys: Iterable[Any]) -> Refusal | None:
    """Keys are bytes, and not empty."""
    for key in keys:
        if type(key) is not bytes or not key:
            return Refusal(f"{key!r} is no key: a key is bytes, one at least")
    return None


def bad_refs(refs: Iterable[Any]) -> Refusal | None:
    """References are `BlockRef`, as the ledger gave them out."""
    for ref in refs:
        if type(ref) is not BlockRef:
            return Refusal(f"{ref!r} is no reference to a block: give the BlockRef that the ledger gave")
    return None


def bad_time(what: str, time: Any) -> Refusal | None:
    """Times are finite: a deadline that never comes would be a wait without end (law L7)."""
    if isinstance(time, int | float) and isfinite(time):
        return None
    return Refusal(f"{what} is {time!r}: a time is a finite number of seconds")


def sound_report(report: Any) -> Report | None:
    """The report with failures that can be read, or `None` if it is none. Never raises."""
    if not (type(report) is Report and type(report.token) is Token and isinstance(report.outcome, str)):
        return None
    if report.outcome not in OUTCOMES or any(type(number) is not int for number in report.token):
        return None
    if report.failures == ():
        return report
    failures: Any = report.failures
    listed = failures if isinstance(failures, tuple | list) else (failures,)
    return report._replace(failures=tuple(_sound_failure(failure) for failure in listed))


def _sound_failure(failure: Any) -> Failure:
    """As it came if it is a failure; what is none is kept in words, under UNKNOWN: the first cause must not be lost."""
    if type(failure) is Failure and type(failure.line) is int and isinstance(failure.code, int):
        stage, driver, raw, kind, message = (word if type(word) is str else _said(word) for word in failure[2:7])
        return Failure(failure.line, failure.code, stage, driver, raw, kind, message, failure.transient is True)
    return Failure(-1, int(Code.UNKNOWN), "fetch", message=f"the worker sent what is no failure: {_said(failure)}")


def _said(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # a value that can't even be shown
        return f"a {type(value).__name__}"
