"""A ledger with KV groups: what a lookup promises, what a load keeps, and of which group each key is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstate.machines.config import GroupConfig, GroupKind
from kvstate.machines.groups import Line, lines_of, space, spans_of
from kvstate.machines.verdicts import Hit, Refusal, Span, Stored
from tests.machines.hybrid import (
    HYBRID,
    Hybrid,
    full,
    greatest,
    needed,
    sliding,
    some_groups,
)
from tests.machines.rig import Rig, key, keys

MakeRig = Callable[..., Rig]


@pytest.fixture
def hybrid() -> Hybrid:
    return Hybrid()


# -- lookup ------------------------------------------------------------------------------------------------------------


def test_the_hit_is_what_the_length_needs_and_nothing_else_is_pinned(hybrid: Hybrid) -> None:
    hybrid.put(0, range(4))
    hybrid.put(1, [2, *range(5, 8)])
    lease = hybrid.open()
    hit = hybrid.ask(lease, 8)
    assert hit.tokens == 8
    assert hit.groups == (Span(0, (0, 1, 2, 5)), Span(5, (3, 4, 6)))
    assert hit.groups == spans_of(HYBRID, 8)
    assert set(hybrid.blocks_of(hit)) == needed(HYBRID, 8)
    assert sorted(hit.pinned) == sorted(ref.block for ref in hit.blocks)
    states = [hybrid.state(block) for block in range(8)]
    assert states.count("active") == 7
    assert states.count("cached") == 1, "block 2 of the sliding group lies before the window"
    assert hybrid.ledger.unpin(hit) is True
    assert [hybrid.state(block) for block in range(8)] == ["cached"] * 8


def test_the_chunk_before_the_last(hybrid: Hybrid) -> None:
    """The last block of the window is there, the one before it is not: the hit is shorter in both groups."""
    hybrid.put(0, range(4), 1)
    hybrid.put(1, [0, 1, 2, 3, 4, 5, 7], 1)
    hit = hybrid.ask(hybrid.open(), 8)
    assert hit.tokens == 6
    assert set(hybrid.blocks_of(hit)) == needed(HYBRID, 6)


def test_the_same_key_is_another_content_in_another_group(hybrid: Hybrid) -> None:
    hybrid.put(0, [0])
    assert hybrid.ask(hybrid.open(), 2).tokens == 0
    hybrid.put(1, [0, 1])
    hit = hybrid.ask(hybrid.open(), 2)
    assert hit.tokens == 2
    assert len({ref.block for ref in hit.blocks}) == 3


def test_a_key_that_stands_twice_is_a_hit_once() -> None:
    rig = Hybrid([sliding(1, 2)])
    rig.put(0, [0, 1])
    hit = rig.ledger.lookup_groups(rig.open(), [[key(1), key(2), key(1)]])
    assert isinstance(hit, Hit)
    assert hit.tokens == 2


def test_a_lease_from_before_a_reset_finds_nothing(hybrid: Hybrid) -> None:
    hybrid.put(0, [0])
    hybrid.put(1, [0, 1])
    lease = hybrid.open()
    hybrid.ledger.reset()
    hybrid.put(0, [0])
    hybrid.put(1, [0, 1])
    hit = hybrid.ask(lease, 2)
    assert (hit.tokens, hit.pending, bool(hit)) == (0, False, False)
    assert hybrid.ask(hybrid.open(), 2).tokens == 2


def test_another_namespace_is_another_cache(hybrid: Hybrid) -> None:
    hybrid.put(0, [0])
    hybrid.put(1, [0, 1])
    assert hybrid.ask(hybrid.open("b"), 2).tokens == 0
    assert hybrid.ask(hybrid.open(), 2).tokens == 2


PLACES = st.sampled_from(["nowhere", "device", "host", "disk", "loading", "overdue"])


@given(some_groups(), st.data())
def test_a_lookup_finds_the_greatest_length(groups: list[GroupConfig], data: st.DataObject) -> None:
    """Holes, tiers and what is being loaded, anywhere. What is loaded longer than one is to wait for it is a miss."""
    rig = Hybrid(groups, pending_for=1.0)
    tokens = data.draw(st.integers(0, 16))
    where: dict[Line, str] = {}
    for number, group in enumerate(groups):
        for place in range(tokens // group.tokens_per_block):
            where[Line(number, place)] = data.draw(PLACES)
    for pool, name in ((2, "disk"), (1, "host"), (0, "device")):
        for number in range(len(groups)):
            places = [line.place for line, at in where.items() if line.group == number and at == name]
            if places:
                rig.put(number, places, pool)
    for line, at in where.items():
        if at in ("loading", "overdue"):
            name = space("a", groups[line.group])
            rig.books.loading.setdefault(name, {})[key(line.place + 1)] = -1
            if at == "overdue":
                rig.books.pending_since[name, key(line.place + 1)] = -1.0
    lease = rig.open()
    hit = rig.ask(lease, tokens)
    most = min(tokens // group.tokens_per_block * group.tokens_per_block for group in groups)
    length = greatest(groups, most, lambda *line: where[Line(*line)] not in ("nowhere", "overdue"))
    waits = {line for line in needed(groups, length) if where[line] == "loading"}
    clocks = {name for name, since in rig.books.pending_since.items() if since == 0.0}
    assert clocks == {(space("a", groups[line.group]), key(line.place + 1)) for line in waits}
    if waits:
        assert hit.pending
        assert not hit.pinned
        assert not rig.books.leases[lease].pins
    else:
        assert (hit.tokens, hit.pending) == (length, False)
        blocks = rig.blocks_of(hit)
        assert set(blocks) == needed(groups, length)
        pools = ("device", "host", "disk")
        assert all(pools[rig.books.pool_of[ref.block]] == where[line] for line, ref in blocks.items())
        assert {lines_of(groups, length)[at] for at in hit.below} == {
            line for line in blocks if where[line] != "device"
        }
        owned = {*rig.books.owned(rig.books.leases[lease]), *rig.books.leases[lease].pins}
        assert owned == {ref.block for ref in blocks.values()} == set(hit.pinned)
    rig.check()


# -- offload -----------------------------------------------------------------------------------------------------------


def test_blocks_of_several_groups_go_into_one_job_each_under_its_own_key(hybrid: Hybrid) -> None:
    lease = hybrid.open()
    one = hybrid.allocate(lease, 1)
    two = hybrid.allocate(lease, 2)
    assert hybrid.ledger.seal(lease, one, keys(1), group=0) == (True,)
    assert hybrid.ledger.seal(lease, two, keys(1, 2), group=1) == (True, True)
    stored = hybrid.ledger.offload(lease, [*one, *two, *one, *two])
    assert isinstance(stored, Stored)
    assert list(stored.refs) == [*one, *two]
    assert [(line.ref, line.reason) for line in stored.dropped] == [(ref, "listed twice") for ref in (*one, *two)]
    [work] = hybrid.works()
    assert work.keys == tuple(keys(1, 1, 2))
    hybrid.finish_all_of([work])
    hybrid.ledger.finish(lease)
    hybrid.flush()
    lease = hybrid.open()
    hit = hybrid.ask(lease, 2)
    assert (hit.tokens, hit.below) == (2, (0, 1, 2))
    assert hybrid.ledger.offload(lease, [*one]) == Refusal(
        "nothing to store: block 0: its generation is over: the block was freed or given to another"
    )


def test_a_block_of_another_namespace_is_not_stored(hybrid: Hybrid) -> None:
    hybrid.put(0, [0])
    hybrid.put(1, [0, 1])
    hit = hybrid.ask(hybrid.open(), 2)
    other = hybrid.open("b")
    hybrid.refuses(lambda: hybrid.ledger.offload(other, list(hit.blocks)), "it belongs to another namespace")


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_what_must_say_its_group_and_what_must_not(hybrid: Hybrid, rig: Rig) -> None:
    lease = hybrid.open()
    refs = hybrid.allocate(lease, 1)
    for group in (None, 2, -1):
        said = f"group {group} is none: give the number of one, from 0, of full, slide"
        hybrid.refuses(lambda group=group: hybrid.ledger.seal(lease, refs, keys(1), group=group), said)  # type: ignore[misc]
    hybrid.refuses(lambda: hybrid.ledger.seal(lease, refs, keys(1), group="full"), "group 'full' is no whole number")  # type: ignore[arg-type]
    hybrid.refuses(lambda: hybrid.ledger.lookup(lease, keys(1)), "this ledger has KV groups: look up with a list")
    said = "1 lists of keys and 2 groups: give a list for each group"
    hybrid.refuses(lambda: hybrid.ledger.lookup_groups(lease, [keys(1)]), said)
    lease, refs = rig.open(), rig.allocate(rig.open(), 1)
    rig.refuses(lambda: rig.ledger.lookup_groups(lease, []), "0 lists of keys and 0 groups")
    rig.refuses(lambda: rig.ledger.seal(lease, refs, keys(1), group=0), "this ledger has no groups: leave `group` out")


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize("wrong", [None, 7, b"key", Mute()], ids=["None", "number", "bytes", "mute"])
def test_what_is_no_list_of_lists(hybrid: Hybrid, wrong: Any) -> None:
    lease = hybrid.open()
    hybrid.refuses(lambda: hybrid.ledger.lookup_groups(lease, wrong), "is no list of lists")


def test_what_is_no_key_in_a_list(hybrid: Hybrid) -> None:
    lease = hybrid.open()
    hybrid.refuses(lambda: hybrid.ledger.lookup_groups(lease, [keys(1), [b""]]), "b'' is no key")


# -- what is told ------------------------------------------------------------------------------------------------------


def test_a_block_is_explained_with_its_group(hybrid: Hybrid) -> None:
    hybrid.put(1, [0])
    assert "named by key 01010101 of group slide" in hybrid.ledger.explain(block=0)


def test_a_canonical_form_tells_groups_apart() -> None:
    def with_key_in(group: int) -> str:
        rig = Hybrid([full(1, "a"), full(1, "b")])
        rig.put(group, [0])
        return rig.ledger.canonical_hash()

    assert with_key_in(0) != with_key_in(1)
    assert with_key_in(0) == with_key_in(0)


def test_a_kind_may_be_a_word() -> None:
    rig = Hybrid([GroupConfig("m", 4, "mla"), GroupConfig("s", 2, "sliding", 2)])  # type: ignore[arg-type]
    assert rig.groups[0].kind == GroupKind.MLA
    rig.stored(8)
    assert rig.ask(rig.open(), 8).tokens == 8
