"""What changed in the error codes; they are of the spec, and its version moves with them."""

from __future__ import annotations

from collections.abc import Iterator

from kvstate.errors.registry import CodeEntry, Registry
from kvstate.spec.diff_change import Change, Who

READERS: tuple[Who, ...] = ("records", "workers", "verdicts")
"""Codes are sent by workers, kept in records and told in verdicts."""


def code_changes(old: Registry, new: Registry) -> Iterator[Change]:
    """Code by code, and then how each driver's own codes are translated."""
    after = {code.name: code for code in new.codes}
    for code in old.codes:
        place = f"code {code.name}"
        other = after.get(code.name)
        if other is None:
            yield Change(place, "breaking", f"gone, and with it number {code.number}", READERS)
        elif meaning(code) != meaning(other):
            now, was = meaning(other), meaning(code)
            what = "; ".join(f"{key} is {now[key]}, and was {was[key]}" for key in was if now[key] != was[key])
            yield Change(place, "breaking", what, READERS)
        elif code != other:
            yield Change(place, "words", "sentence, remedy or doc")
    before = {code.name for code in old.codes}
    for other in new.codes:
        if other.name not in before:
            yield Change(f"code {other.name}", "added", f"new, number {other.number}")
    yield from _translations(old, new)


def meaning(code: CodeEntry) -> dict[str, object]:
    """All of a code that programs go by."""
    return {
        "number": code.number,
        "outcome": code.outcome,
        "stages": " ".join(code.stages),
        "retryable": code.retryable,
        "fatal": code.fatal,
        "condemns": code.condemns,
    }


def _translations(old: Registry, new: Registry) -> Iterator[Change]:
    after = {driver.name: driver for driver in new.drivers}
    for driver in old.drivers:
        place = f"driver {driver.name}"
        other = after.get(driver.name)
        if other is None:
            yield Change(place, "breaking", "gone", ("workers",))
            continue
        was, now = dict(driver.raw), dict(other.raw)
        moved = [raw for raw, code in was.items() if now.get(raw) != code]
        if moved or not set(driver.transient) <= set(other.transient):
            what = f"translates otherwise: {' '.join(moved) or 'what is transient'}"
            yield Change(place, "breaking", what, READERS)
        elif (now, set(driver.transient)) != (was, set(other.transient)):
            yield Change(place, "added", "translates more")
        elif driver.doc != other.doc:
            yield Change(place, "words", "doc")
    before = {driver.name for driver in old.drivers}
    yield from (Change(f"driver {name}", "added", "new") for name in after if name not in before)
