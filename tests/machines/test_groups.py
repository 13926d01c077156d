"""The arithmetic of KV groups, against a search through all lengths."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstate.machines.config import GroupConfig
from kvstate.machines.groups import (
    Line,
    batches_of,
    boundary,
    by_space,
    first_needed,
    kept_tokens,
    lines_of,
    load_order,
    longest,
    space,
    spans_of,
)
from tests.machines.hybrid import full, greatest, needed, sliding, some_groups


@given(some_groups(), st.data())
def test_the_longest_is_the_longest_and_no_block_is_asked_twice(groups: list[GroupConfig], data: st.DataObject) -> None:
    counts = [data.draw(st.integers(0, 24 // group.tokens_per_block)) for group in groups]
    holes = data.draw(st.sets(st.tuples(st.integers(0, 2), st.integers(0, 23)), max_size=6))
    asked: list[tuple[int, int]] = []

    def usable(group: int, place: int) -> bool:
        assert 0 <= place < counts[group]
        asked.append((group, place))
        return (group, place) not in holes

    most = min(count * group.tokens_per_block for count, group in zip(counts, groups, strict=True))
    found = longest(groups, counts, usable)
    assert len(asked) == len(set(asked))
    assert found == greatest(groups, most, lambda *line: line not in holes)
    assert needed(groups, found) <= set(asked), "what is promised was looked at"


@given(some_groups(), st.integers(0, 12))
def test_what_a_length_needs_and_in_which_order(groups: list[GroupConfig], times: int) -> None:
    tokens = boundary(groups) * times
    lines = lines_of(groups, tokens)
    assert set(lines) == needed(groups, tokens)
    assert len(lines) == len(set(lines))
    for shorter in range(0, tokens, boundary(groups)):
        front = [line for line in lines if line.place < shorter // groups[line.group].tokens_per_block]
        assert lines[: len(front)] == front, "what a shorter length needs of these stands in front"
    spans = spans_of(groups, tokens)
    for number, (group, span) in enumerate(zip(groups, spans, strict=True)):
        assert span.first == first_needed(group, tokens)
        assert [lines[at] for at in span.lines] == [
            Line(number, place) for place in range(span.first, tokens // group.tokens_per_block)
        ]


@given(some_groups(), st.integers(0, 8), st.data())
def test_what_is_left_of_a_length(groups: list[GroupConfig], times: int, data: st.DataObject) -> None:
    tokens = boundary(groups) * times
    lines = lines_of(groups, tokens)
    missing = set(data.draw(st.lists(st.sampled_from(lines), max_size=4)) if lines else [])
    there = set(lines) - missing
    assert kept_tokens(groups, tokens, missing) == greatest(groups, tokens, lambda *line: Line(*line) in there)


def test_a_window_that_reaches_back_to_the_first_token_leaves_a_shorter_length() -> None:
    groups = [full(1), sliding(2, 8)]
    assert kept_tokens(groups, 8, {Line(0, 5)}) == 4
    assert kept_tokens(groups, 8, {Line(1, 1)}) == 2


def test_one_that_does_not_leaves_nothing() -> None:
    """Four tokens would need blocks 0 and 1 of the sliding group, and only 2 and 3 are there."""
    groups = [full(2), sliding(2, 4)]
    assert lines_of(groups, 8) == [(0, 0), (0, 1), (0, 2), (1, 2), (0, 3), (1, 3)]
    assert kept_tokens(groups, 8, {Line(0, 3)}) == 0


@pytest.mark.parametrize(("window", "first"), [(1, 3), (4, 3), (5, 2), (8, 2), (9, 1), (16, 0), (17, 0), (100, 0)])
def test_the_last_window_tokens_in_blocks(window: int, first: int) -> None:
    """Of 16 tokens in blocks of 4. A window within a block needs that block; one token more needs the block before."""
    assert first_needed(sliding(4, window), 16) == first


def test_an_example_with_holes() -> None:
    """A hole before the window does no harm; one in it shortens the hit for both, below the hole and to a boundary."""
    groups = [full(4), sliding(2, 4)]

    def length(*holes: tuple[int, int]) -> int:
        return longest(groups, [4, 8], lambda *line: line not in holes)

    assert length() == 16
    assert length((1, 0), (1, 1), (1, 5)) == 16, "before the window of the last four tokens"
    assert length((1, 7)) == 12
    assert length((1, 6)) == 12
    assert length((1, 6), (1, 4)) == 8
    assert length((0, 2)) == 8
    assert length((0, 2), (1, 3), (1, 1)) == 0, "the walk goes on below each hole"


def test_each_group_has_a_space_of_its_own() -> None:
    groups = [full(1, "a"), full(1, "b")]
    assert [space("t@x", group) for group in groups] == ["a@t@x", "b@t@x"]
    assert by_space(["a", "b", "a"]) == {"a": [0, 2], "b": [1]}


# -- the order of a load -----------------------------------------------------------------------------------------------


def test_lines_of_one_pool_are_loaded_in_token_order() -> None:
    groups = [full(1), sliding(1, 4)]
    lines = lines_of(groups, 8)
    assert list(load_order(groups, lines, bytes([1]) * len(lines), 4, 48)) == list(range(len(lines)))


def test_where_the_pool_would_change_too_often_it_goes_by_stretches() -> None:
    groups = [full(1), full(1, "other")]
    lines = lines_of(groups, 16)
    pools = bytes([1, 2] * 16)
    order = load_order(groups, lines, pools, 8, 8)
    assert sorted(order) == list(range(32))
    assert [lines[at] for at in order[:8]] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)]
    assert batches_of(bytes(pools[at] for at in order), 8) == 8
    assert list(load_order(groups, lines, pools, 1, 32)) == list(range(32)), "as long as it is not too often"


@given(st.lists(st.integers(1, 3), min_size=1, max_size=40), st.integers(1, 5))
def test_batches_are_counted_as_they_are_cut(pools: list[int], size: int) -> None:
    by_hand = sum(-(-len(list(run)) // size) for _, run in groupby(pools))
    assert batches_of(bytes(pools), size) == by_hand
