"""Faults planted by hand in what a ledger does with KV groups: see `faults`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from kvstate.machines import acts, grouped, groups
from kvstate.machines.config import GroupConfig
from kvstate.machines.grouped import Grouped
from kvstate.machines.groups import Line
from kvstate.machines.verdicts import GroupVerdict
from tests.stateful.faults import fault


def need_from(mp: pytest.MonkeyPatch, first: Any) -> None:
    """This is the first block that a length needs, wherever it is asked."""
    mp.setattr(groups, "first_needed", first)
    mp.setattr(grouped, "first_needed", first)


@fault("A lookup looks at the last block of a window alone, and promises the rest.", "L9.length", world="groups",
       scope="hybrid", seed=0)  # fmt: skip
def the_last_chunk_alone(mp: pytest.MonkeyPatch) -> None:
    def first(group: GroupConfig, tokens: int) -> int:
        return 0 if group.window is None else max(0, tokens // group.tokens_per_block - 1)

    need_from(mp, first)


@fault("A window is forgotten: its group needs all of its blocks.", "L9.length", world="groups", scope="hybrid",
       seed=0)  # fmt: skip
def no_window(mp: pytest.MonkeyPatch) -> None:
    need_from(mp, lambda group, tokens: 0)


@fault("A window is one token short, so that the last token of a full hit can't be computed again.", "L9.length",
       world="groups", scope="three groups", seed=2)  # fmt: skip
def a_window_too_short(mp: pytest.MonkeyPatch) -> None:
    def first(group: GroupConfig, tokens: int) -> int:
        return 0 if group.window is None else max(0, tokens - group.window + 1) // group.tokens_per_block

    need_from(mp, first)


@fault("A verdict says what is left of the first group.", "L9.length", "L5.proceed", world="groups",
       scope="reaching back", seed=4)  # fmt: skip
def the_first_group_speaks_for_all(mp: pytest.MonkeyPatch) -> None:
    kept = groups.kept_tokens

    def alone(configs: Sequence[GroupConfig], tokens: int, missing: Iterable[Line]) -> int:
        found = kept(configs[:1], tokens, {line for line in missing if line.group == 0})
        return found - found % groups.boundary(configs)

    mp.setattr(groups, "kept_tokens", alone)


@fault("A verdict counts the committed tokens and forgets that a shorter length needs other blocks.", "L9.length",
       "L5.proceed", world="groups", scope="hybrid", seed=7)  # fmt: skip
def what_lies_before_the_hole_is_enough(mp: pytest.MonkeyPatch) -> None:
    def front(configs: Sequence[GroupConfig], tokens: int, missing: Iterable[Line]) -> int:
        step = groups.boundary(configs)
        holes = [line.place * configs[line.group].tokens_per_block for line in missing]
        return min([tokens, *holes]) // step * step

    mp.setattr(groups, "kept_tokens", front)


@fault("What was loaded for nothing is not told of.", "L5.proceed", world="groups", scope="hybrid", seed=7)
def nothing_is_spare(mp: pytest.MonkeyPatch) -> None:
    told = groups._told_of

    def silent(*args: Any) -> GroupVerdict:
        return told(*args)._replace(spare=())

    mp.setattr(groups, "_told_of", silent)


@fault("All groups share one key space.", "L9.bytes", world="groups", scope="hybrid", seed=0)
def one_space_for_all(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(grouped, "space", lambda namespace, group: f"full@{namespace}")


@fault("A batch publishes all of its blocks as those of the first one's group.", "L9.bytes", world="groups",
       scope="hybrid", seed=2)  # fmt: skip
def a_batch_of_one_group(mp: pytest.MonkeyPatch) -> None:
    by_space = groups.by_space

    def first(spaces: Sequence[str]) -> dict[str, list[int]]:
        return by_space([spaces[0]] * len(spaces)) if spaces else {}

    mp.setattr(acts, "by_space", first)


@fault("A store files the blocks of all groups as those of the first one.", "L9.bytes", "L8.poison", world="groups",
       scope="hybrid", mix="stores", seed=0)  # fmt: skip
def a_store_of_one_group(mp: pytest.MonkeyPatch) -> None:
    def slots(self: Grouped, pool: int, namespace: str, refs: Any, keys: Sequence[bytes]) -> Any:
        book = self.books.keys
        return book.make(pool, book.name(book.block_key[refs.blocks[0]]).namespace, keys)

    mp.setattr(Grouped, "key_slots", slots)
