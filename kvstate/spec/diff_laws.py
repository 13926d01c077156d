"""What changed in laws, properties and assumptions; they are of the spec, and its version moves with them.

A promise that went is breaking, and so is one more thing that is taken on trust. Of a sentence that was written anew
only a reader can say whether it promises as much, so it counts as breaking, as that of a relation does. Who checks a
property is told to people alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvstate.spec.diff_change import Change, Who
from kvstate.spec.properties import Assumption, Law, Properties, Property

RELY: tuple[Who, ...] = ("embedders", "ledgers")
"""Who relies on a promise, or has to keep it."""
TRUSTED: dict[str, tuple[Who, ...]] = {"copiers": ("workers",), "engine": ("embedders",), "clock": ("embedders",)}
"""Whom it breaks when more is assumed of them."""
READ = "its sentence changed: whether it still {} the same, only a reader can say"
"""Said of a sentence that was written anew."""


def law_changes(old: Properties, new: Properties) -> Iterator[Change]:
    """Laws, then properties, then assumptions, each in the order of the older file."""
    yield from _promises("law", old.laws, new.laws)
    yield from _promises("property", old.properties, new.properties)
    before, after = {one.name: one for one in old.assumptions}, {one.name: one for one in new.assumptions}
    for name, one in before.items():
        other = after.get(name)
        if other is None:
            yield Change(f"assumption {name}", "added", "gone: less is taken on trust")
        elif one != other:
            yield Change(f"assumption {name}", "breaking", READ.format("asks for"), _trusted(one, other))
    for name, other in after.items():
        if name not in before:
            yield Change(f"assumption {name}", "breaking", "new: more is taken on trust", _trusted(other))


def _promises(kind: str, old: Sequence[Law | Property], new: Sequence[Law | Property]) -> Iterator[Change]:
    before, after = {one.name: one for one in old}, {one.name: one for one in new}
    for name, one in before.items():
        other, place = after.get(name), f"{kind} {name}"
        if other is None:
            yield Change(place, "breaking", "gone: it is promised no more", RELY)
        elif _kind(one) != _kind(other):
            yield Change(place, "breaking", f"is promised {_kind(other)}, and was {_kind(one)}", RELY)
        elif one.sentence != other.sentence:
            yield Change(place, "breaking", READ.format("promises"), RELY)
        elif one != other:
            yield Change(place, "words", "title" if isinstance(one, Law) else _checks(one, other))
    yield from (Change(f"{kind} {name}", "added", "new") for name in after if name not in before)


def _kind(one: Law | Property) -> str:
    return one.kind if isinstance(one, Property) else ""


def _checks(one: Property, other: Law | Property) -> str:
    """Who looks for it now, and who did."""
    after = other.checked_by if isinstance(other, Property) else ()
    more = [f"checked by {check}" for check in after if check not in one.checked_by]
    less = [f"no longer by {check}" for check in one.checked_by if check not in after]
    return "; ".join([*more, *less]) or "the order of its checks"


def _trusted(*those: Assumption) -> tuple[Who, ...]:
    return tuple(dict.fromkeys(who for one in those for who in TRUSTED[one.of]))
