"""Are the arguments of an input what they say they are? Looked at before anything is touched.

A caller's mistake is a refusal and a worker's nonsense is counted: neither may reach the tables, where it would look
like a broken invariant and poison the ledger.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from kvstate.errors import Code
from kvstate.machines.messages import BlockRef, BlockRefs, Failure, Outcome, Report, Token
from kvstate.machines.verdicts import Hit, Refusal, Span

OUTCOMES = frozenset(Outcome)
"""The words that a report may say."""
LARGEST = 2**62
"""Of a block's number or generation: what a column holds, and some to spare."""
LATEST = 1e15
"""Seconds, some thirty million years; NaN and infinity are beyond it, too."""


def _bad_number(what: str, number: Any) -> Refusal | None:
    if type(number) is int and abs(number) <= LARGEST:
        return None
    return Refusal(f"{what} {_said(number)} is no whole number of 62 bits")


def _bad_numbers(what: str, numbers: Any) -> Refusal | None:
    if not isinstance(numbers, tuple | list):
        return Refusal(f"{what} {numbers!r} is no list")
    return next((bad for number in numbers if (bad := _bad_number("lease", number)) is not None), None)


def _bad_word(what: str, word: Any) -> Refusal | None:
    return None if type(word) is str else Refusal(f"{what} {word!r} is no word")


def _bad_namespace(what: str, namespace: Any) -> Refusal | None:
    if type(namespace) is str and namespace:
        return None
    return Refusal("a lease needs a namespace: without one the caches of two tenants or models would mix")


def _bad_count(what: str, count: Any) -> Refusal | None:
    return None if type(count) is int and count >= 0 else Refusal(f"{count!r} blocks can't be allocated")


def _bad_keys(what: str, keys: Any) -> Refusal | None:
    """Keys are bytes, and not empty."""
    if not isinstance(keys, tuple | list):
        return Refusal(f"{what} {keys!r} is no list")
    if set(map(type, keys)) <= {bytes} and all(keys):
        return None
    wrong = next(key for key in keys if type(key) is not bytes or not key)
    return Refusal(f"{wrong!r} is no key: a key is bytes, one at least")


def _bad_lists(what: str, lists: Any) -> Refusal | None:
    """A list of keys for each group."""
    if not isinstance(lists, tuple | list):
        return Refusal(f"{what} {_said(lists)} is no list of lists")
    return next((bad for keys in lists if (bad := _bad_keys("keys", keys)) is not None), None)


def _bad_names(what: str, names: Any) -> Refusal | None:
    """Full names of keys: pairs of a key space and a key."""
    if not isinstance(names, tuple | list):
        return Refusal(f"{what} {_said(names)} is no list")
    for name in names:
        if not isinstance(name, tuple | list) or len(name) != 2:
            return Refusal(f"{_said(name)} is no name of a key: give a pair of its key space and its bytes")
        space, key = name
        if type(space) is not str or not space or type(key) is not bytes or not key:
            return Refusal(f"{_said(name)} is no name of a key: a space is a word and a key is bytes, neither empty")
    return None


def _bad_refs(what: str, refs: Any) -> Refusal | None:
    """References are `BlockRef`, as the ledger gave them out."""
    if type(refs) is BlockRefs:
        return None
    if not isinstance(refs, tuple | list):
        return Refusal(f"{what} {refs!r} is no list")
    for ref in refs:
        if type(ref) is not BlockRef or any(type(part) is not int or abs(part) > LARGEST for part in ref):
            return Refusal(f"{ref!r} is no reference to a block: give the BlockRef that the ledger gave")
    return None


def _bad_time(what: str, time: Any) -> Refusal | None:
    """Times are finite: a deadline that never comes would be a wait without end (law L7)."""
    if isinstance(time, int | float) and not isinstance(time, bool) and abs(time) <= LATEST:
        return None
    return Refusal(f"the {what} is {time!r}: a time is a finite number of seconds")


def _bad_hit(what: str, hit: Any) -> Refusal | None:
    """A hit is what a lookup gave, unchanged."""
    if type(hit) is not Hit:
        return Refusal(f"{hit!r} is no hit: give what the lookup gave")
    if any(type(part) is not tuple for part in (hit.keys, hit.below, hit.pinned, hit.groups)):
        return Refusal("a part of the hit is no tuple: give what the lookup gave")
    if type(hit.blocks) not in (BlockRefs, tuple):
        return Refusal("the blocks of the hit are no references: give what the lookup gave")
    if not set(map(type, (hit.lease, hit.tokens, *hit.below, *hit.pinned))) <= {int}:
        return Refusal("a number in the hit is none: give what the lookup gave")
    if hit.below and not 0 <= min(hit.below) <= max(hit.below) < min(len(hit.blocks), len(hit.keys)):
        return Refusal("the hit names places beyond its blocks: give what the lookup gave")
    if not all(map(_is_span, hit.groups)):
        return Refusal("a group of the hit is none: give what the lookup gave")
    refs = _bad_refs("blocks", hit.blocks)
    return _bad_keys("keys", hit.keys) if refs is None else refs


def _is_span(span: Any) -> bool:
    return type(span) is Span and type(span.lines) is tuple and {*map(type, (span.first, *span.lines))} == {int}


def _bad_ids(what: str, ids: Any) -> Refusal | None:
    """The numbers of device blocks."""
    if not isinstance(ids, tuple | list | range) and not (isinstance(ids, array) and ids.typecode == "q"):
        return Refusal(f"{what} {_said(ids)} is no list of numbers")
    return next((bad for number in ids if (bad := _bad_number("block", number)) is not None), None)


CHECKS: dict[str, Callable[[str, Any], Refusal | None]] = {
    "lease": _bad_number,
    "leases": _bad_numbers,
    "number": _bad_number,
    "step": _bad_number,
    "rank": _bad_number,
    "serial": _bad_number,
    "pool": _bad_number,
    "group": lambda what, group: None if group is None else _bad_number(what, group),
    "copier": _bad_word,
    "namespace": _bad_namespace,
    "count": _bad_count,
    "keys": _bad_keys,
    "lists": _bad_lists,
    "names": _bad_names,
    "blocks": _bad_refs,
    "into": _bad_refs,
    "ids": _bad_ids,
    "hit": _bad_hit,
    "deadline": _bad_time,
    "now": lambda _, now: _bad_time("time", now),
}
"""What an argument of this name has to be; `Ledger` uses one name for one thing."""

QUICK: dict[str, type] = {
    **dict.fromkeys(("lease", "number", "step", "rank", "serial", "pool", "count"), int),
    **dict.fromkeys(("deadline", "now"), float),
    "blocks": BlockRefs,
    "into": BlockRefs,
    "copier": str,
}
"""By argument: the type that says it all. An argument of it needs no further look."""

BOUNDS = {int: (-LARGEST, LARGEST), float: (-LATEST, LATEST)}
"""By type: between which numbers none needs a further look. NaN is between no two."""
LEAST = {"count": 0}
"""By argument: from which number on it needs none, where that is not as for all of its type."""


def sound_report(report: Any) -> Report | None:
    """The report with failures that can be read, or `None` if it is none. Never raises."""
    if not (type(report) is Report and type(report.token) is Token and isinstance(report.outcome, str)):
        return None
    incarnation, serial = report.token
    if report.outcome not in OUTCOMES or type(incarnation) is not int or type(serial) is not int:
        return None
    if type(report.failures) is tuple and not report.failures:
        return report
    failures: Any = report.failures
    listed = failures if isinstance(failures, tuple | list) else (failures,)
    return report._replace(failures=tuple(_sound_failure(failure) for failure in listed))


def _sound_failure(failure: Any) -> Failure:
    """As it came if it is a failure; what is none is kept in words, under UNKNOWN: the first cause must not be lost."""
    if type(failure) is Failure and type(failure.line) is int and isinstance(failure.code, int):
        stage, driver, raw, kind, message = (word if type(word) is str else _said(word) for word in failure[2:7])
        return Failure(failure.line, failure.code, stage, driver, raw, kind, message, failure.transient is True)
    return Failure(-1, int(Code.UNKNOWN), "", message=f"the worker sent what is no failure: {_said(failure)}")


def _said(value: Any) -> str:
    try:
        return repr(value)
    except Exception:  # a value that can't even be shown
        return f"a {type(value).__name__}"
