"""KV groups in a scope: keys are written `slide:K1`, and what a length needs is counted token by token.

A second opinion on `kvstate.machines.groups`, which reckons in blocks. Places are those of the prompt as the scope
writes it, over all groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvstate.machines.config import GroupConfig
from kvstate.machines.verdicts import LoadVerdict

Groups = Sequence[GroupConfig]
"""Those of the ledger, in its order; empty where it has none."""


def group_of(groups: Groups, key: str) -> int | None:
    """The number of the key's group; None where there are no groups."""
    return [group.name for group in groups].index(key.partition(":")[0]) if groups else None


def lists(groups: Groups, keys: Sequence[str]) -> list[list[bytes]]:
    """The keys by group, as a lookup wants them."""
    return [[key.encode() for key in keys if group_of(groups, key) == number] for number in range(len(groups))]


def needed(groups: Groups, keys: Sequence[str], tokens: int) -> set[int]:
    """The places whose blocks the first `tokens` tokens need."""
    found = set()
    for number, group in enumerate(groups):
        mine = [place for place, key in enumerate(keys) if group_of(groups, key) == number]
        first = 0 if group.window is None else max(0, tokens - group.window)
        found |= {mine[token // group.tokens_per_block] for token in range(first, tokens)}
    return found


def passed(groups: Groups, keys: Sequence[str], tokens: int) -> tuple[int, ...]:
    """The places that lie before the window of so many tokens: nobody needs them any more."""
    wanted = needed(groups, keys, tokens)
    before = set()
    for number, group in enumerate(groups):
        mine = [place for place, key in enumerate(keys) if group_of(groups, key) == number]
        before |= set(mine[: tokens // group.tokens_per_block])
    return tuple(sorted(before - wanted))


def believed(groups: Groups, keys: Sequence[str], verdict: LoadVerdict) -> set[int]:
    """The places that hold what they should, if the verdict is true."""
    return needed(groups, keys, verdict.tokens) if groups else set(range(verdict.blocks))
