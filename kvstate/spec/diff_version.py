"""Which part of `spec/VERSION` a difference moves: the rule of `spec/README.md`, as a function.

The third part moves with words, the second with what was added, the first with what breaks; up to 1.0.0 the second
stands for the first one too.
"""

from __future__ import annotations

import re

from kvstate.spec.diff import Difference
from kvstate.spec.diff_change import Weight

_VERSION = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")
_PLACES: dict[Weight, int] = {"breaking": 0, "added": 1, "words": 2}
_NAMES = ("first", "second", "third")


def parts(version: str) -> tuple[int, int, int] | None:
    """The three numbers of a version; None where it is not of that form."""
    found = _VERSION.fullmatch(version)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def place(weight: Weight, version: str) -> int:
    """Which part moves: 0 is the first one."""
    numbers = parts(version)
    early = numbers is not None and numbers < (1, 0, 0)
    return max(_PLACES[weight], 1 if early else 0)


def least(weight: Weight, version: str) -> str:
    """The lowest version that NEW may have; empty where the old one is not of three numbers."""
    numbers = parts(version)
    if numbers is None:
        return ""
    moving = place(weight, version)
    moved = [*numbers[:moving], numbers[moving] + 1, 0, 0]
    return ".".join(str(number) for number in moved[:3])


def is_enough(difference: Difference) -> bool | None:
    """Has NEW's version moved far enough? None where the versions can't be compared, or are not known."""
    old, new = parts(difference.old_version), parts(difference.new_version)
    if old is None or new is None:
        return None
    if difference.weight is None:
        return new >= old
    wanted = parts(least(difference.weight, difference.old_version))
    return wanted is not None and new >= wanted


def sentence(difference: Difference) -> str:
    """What is to be done about the version, in one sentence."""
    old, new = difference.old_version, difference.new_version
    weight = difference.weight
    if weight is None:
        return "VERSION need not move."
    what = f"the {_NAMES[place(weight, old)]} part of VERSION must move"
    if not old:
        return f"{what} (up to 1.0.0 the second stands for the first)." if weight == "breaking" else f"{what}."
    enough = is_enough(difference)
    if enough is None:
        return f"{what}; OLD is {old} and NEW is {new}."
    wanted = least(weight, old)
    return f"{what}, from {old} to {wanted} or later; NEW is {new}, which is {'enough' if enough else 'not enough'}."
