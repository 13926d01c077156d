"""KV groups in a scenario: how the command `ledger` reads them, and how they are shown.

A key is written with its group in front, `slide:K1`, and the whole word is its name. So bytes of two groups can't be
taken for each other in the world of a scenario, whatever the ledger does.
"""

from __future__ import annotations

from kvstate.machines.config import GroupConfig, GroupKind
from kvstate.machines.verdicts import Hit, LoadVerdict
from kvstate.testing.names import Mistake, Names


def read_groups(word: str) -> tuple[GroupConfig, ...]:
    """`full:2,slide:1:3`: two tokens in a block, and one with a window of three. Errors: `Mistake`."""
    return tuple(_group(listed) for listed in word.split(",") if listed)


def _group(listed: str) -> GroupConfig:
    name, *numbers = listed.split(":")
    if not 1 <= len(numbers) <= 2 or not all(number.isdecimal() for number in numbers):
        raise Mistake(f"{listed} is no group; write its name, tokens in a block and window, as slide:1:3 or full:2")
    tokens, *window = map(int, numbers)
    kind = GroupKind.SLIDING if window else GroupKind.FULL
    return GroupConfig(name, tokens, kind, window[0] if window else None)


def shown(group: GroupConfig) -> str:
    """`group slide of 1, window 3`."""
    window = "" if group.window is None else f", window {group.window}"
    return f"group {group.name} of {group.tokens_per_block}{window}"


def passed(names: Names, hit: Hit) -> str:
    """`; slide from its block 5 on`, where the window has passed what lies before."""
    groups = zip(names.books.config.groups, hit.groups, strict=True)
    return "".join(f"; {group.name} from its block {span.first} on" for group, span in groups if span.first)


def length(names: Names, verdict: LoadVerdict) -> str:
    """`4 tokens: full 0-1, slide 1-3; spare b7@0`: of each group the places that the length needs."""
    told = list(zip(names.books.config.groups, verdict.groups, strict=True))
    places = ", ".join(f"{group.name} {said.first}-{said.blocks - 1}" for group, said in told if said.blocks)
    spare = [block for _, said in told for block in said.spare]
    line = f"{verdict.tokens} tokens{f': {places}' if places else ''}"
    return f"{line}; spare {names.now(spare)}" if spare else line


def promised(verdict: LoadVerdict, group: int, place: int) -> bool:
    """Does the verdict say that this block is there?"""
    told = verdict.groups[group] if verdict.groups else None
    return place < verdict.blocks if told is None else told.first <= place < told.blocks
