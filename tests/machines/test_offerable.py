"""What may be offered to a peer, and under which names: asked of a ledger, which stays as it is."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kvstate.machines.messages import BlockRef, BlockRefs
from kvstate.machines.offerable import names_of
from kvstate.machines.verdicts import Refusal
from tests.machines.rig import SPACE, Rig, key, keys


def ask(
    rig: Rig, lease: int, refs: Sequence[BlockRef], given: Sequence[bytes] | None = None, group: int | None = None
) -> list[tuple[str, bytes]] | Refusal:
    before = rig.shape()
    found = names_of(rig.ledger, lease, BlockRefs.of(refs), given, group)
    assert rig.shape() == before
    return found


def refused(found: object) -> str:
    assert isinstance(found, Refusal), found
    return found.reason


def test_published_blocks_have_the_names_that_the_ledger_knows(rig: Rig) -> None:
    lease, refs = rig.sealed(1, 2)
    assert ask(rig, lease, refs) == [(SPACE, key(1)), (SPACE, key(2))]
    assert ask(rig, lease, refs, keys(1, 2)) == [(SPACE, key(1)), (SPACE, key(2))]


def test_a_private_block_is_named_by_whoever_offers_it(rig: Rig) -> None:
    """Another lease was first with that key; the bytes are the same, so they may go out under it."""
    rig.sealed(1)
    lease = rig.open()
    [ref] = rig.allocate(lease, 1)
    assert rig.ledger.seal(lease, [ref], keys(1)) == (False,)
    assert "named by no key" in refused(ask(rig, lease, [ref]))
    assert ask(rig, lease, [ref], keys(1)) == [(SPACE, key(1))]


def test_what_may_still_be_written_is_not_offered(rig: Rig) -> None:
    lease = rig.open()
    [ref] = rig.allocate(lease, 1)
    assert "is open; only a sealed block is offered" in refused(ask(rig, lease, [ref], keys(1)))


def test_a_block_has_one_name(rig: Rig) -> None:
    lease, [ref] = rig.sealed(1)
    assert "has another key than the one given" in refused(ask(rig, lease, [ref], keys(2)))


def test_only_blocks_of_the_lease_are_offered(rig: Rig) -> None:
    _, [theirs] = rig.sealed(1)
    lease, [mine] = rig.sealed(2)
    assert "does not belong to lease" in refused(ask(rig, lease, [mine, theirs]))
    old = mine._replace(generation=mine.generation - 1)
    assert "does not belong to lease" in refused(ask(rig, lease, [old]))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_there_is_a_key_for_each_block(rig: Rig, count: int) -> None:
    lease, refs = rig.sealed(1, 2)
    assert f"2 blocks and {count} keys" in refused(ask(rig, lease, refs, keys(*range(1, 1 + count))))


def test_a_lease_that_is_over_offers_nothing(rig: Rig) -> None:
    lease, refs = rig.sealed(1)
    rig.ledger.finish(lease)
    assert "not open" in refused(ask(rig, lease, refs))


def test_a_group_that_is_not_there_offers_nothing(rig: Rig) -> None:
    lease, refs = rig.sealed(1)
    assert "group" in refused(ask(rig, lease, refs, keys(1), group=3))
