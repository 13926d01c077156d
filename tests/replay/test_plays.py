"""What a request of a replay is made of."""

from __future__ import annotations

import pytest

from kvstate.machines.messages import BlockRef, BlockRefs
from kvstate.replay.plays import NO_BLOCKS, joined, keys_of, replaced

REFS = BlockRefs.of([(4, 0), (9, 2), (1, 7)])


def test_a_key_is_its_id_and_comes_once() -> None:
    assert keys_of([5, 2**64 - 1, 5, 0]) == [b"\x05" + bytes(15), b"\xff" * 8 + bytes(8), bytes(16)]
    assert keys_of([]) == []


def test_blocks_are_joined_in_order() -> None:
    both = joined(REFS, BlockRefs.of([(20, 1)]))
    assert both == (*REFS, BlockRef(20, 1))
    assert all(0 <= ref.block < both.bound for ref in both)
    assert joined(NO_BLOCKS, REFS) == joined(REFS, NO_BLOCKS) == REFS


def test_blocks_are_replaced_where_it_was_said() -> None:
    changed = replaced(REFS, (0, 2), BlockRefs.of([(30, 3), (31, 4)]))
    assert changed == ((30, 3), (9, 2), (31, 4))
    assert all(0 <= ref.block < changed.bound for ref in changed)
    assert REFS == ((4, 0), (9, 2), (1, 7))
    assert replaced(REFS, (), NO_BLOCKS) == REFS
    with pytest.raises(ValueError, match=r"longer|shorter"):
        replaced(REFS, (0,), REFS)
    with pytest.raises(IndexError):
        replaced(REFS, (3,), BlockRefs.of([(30, 3)]))
