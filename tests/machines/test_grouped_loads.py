"""A ledger with KV groups: what a load brings, keeps and tells, and what is waited for."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstate.machines.config import GroupConfig, PoolConfig
from kvstate.machines.groups import Line, boundary, lines_of
from kvstate.machines.messages import Work
from kvstate.machines.verdicts import Given, Hit, LoadVerdict, Span, Started
from tests.machines.hybrid import (
    HYBRID,
    Hybrid,
    failing,
    full,
    greatest,
    loads,
    needed,
    prompt,
    sliding,
    some_groups,
)


@pytest.fixture
def hybrid() -> Hybrid:
    return Hybrid()


# -- pending -----------------------------------------------------------------------------------------------------------


def test_what_is_needed_and_being_loaded_is_worth_waiting_for(hybrid: Hybrid) -> None:
    hybrid.stored(4)
    loads(hybrid, hybrid.open(), 4)
    hit = hybrid.ask(hybrid.open(), 4)
    assert hit.pending
    assert not hit
    hybrid.finish_all()
    assert hybrid.verdict().tokens == 4
    hit = hybrid.ask(hybrid.open(), 4)
    assert (hit.tokens, hit.below) == (4, ())


def test_what_is_being_loaded_before_the_window_is_not_waited_for() -> None:
    rig = Hybrid([full(1), sliding(1, 2)])
    rig.put(0, range(4), 1)
    rig.put(1, range(2), 1)
    loads(rig, rig.open(), 2)
    rig.put(0, range(4))
    rig.put(1, [2, 3])
    hit = rig.ask(rig.open(), 4)
    assert (hit.tokens, hit.pending) == (4, False), "blocks 0 and 1 of the sliding group are not needed"
    assert rig.ask(rig.open(), 2).pending


def test_what_was_waited_for_long_enough_is_a_miss(hybrid: Hybrid) -> None:
    hybrid.stored(4)
    loads(hybrid, hybrid.open(), 4)
    assert hybrid.ask(hybrid.open(), 4).pending
    hybrid.tick(0.9)
    assert hybrid.ask(hybrid.open(), 4).pending
    hybrid.tick(1.0)
    hit = hybrid.ask(hybrid.open(), 4)
    assert (hit.tokens, hit.pending) == (0, False)


def test_a_load_from_before_a_reset_is_awaited_by_nobody(hybrid: Hybrid) -> None:
    hybrid.stored(4)
    lease = hybrid.open()
    hit = hybrid.ask(lease, 4)
    hybrid.ledger.reset()
    hybrid.load(lease, hit)
    assert not hybrid.books.loading
    hybrid.finish_all()
    verdict = hybrid.verdict()
    assert (verdict.tokens, verdict.ending) == (4, "proceed")
    assert hybrid.ask(hybrid.open(), 4).tokens == 0, "what it loaded stays private"


# -- load --------------------------------------------------------------------------------------------------------------


def test_a_load_of_all_groups(hybrid: Hybrid) -> None:
    hybrid.stored(8)
    hit, load, wanted = loads(hybrid, hybrid.open(), 8)
    assert (hit.tokens, len(wanted)) == (8, 7)
    hybrid.finish_all()
    verdict = hybrid.verdict()
    assert (verdict.load, verdict.ending, verdict.tokens, verdict.blocks) == (load, "proceed", 8, 4)
    whole, window = verdict.groups
    assert (whole.first, whole.blocks, window.first, window.blocks) == (0, 4, 5, 8)
    assert [wanted[block] for block in whole.kept] == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert [wanted[block] for block in window.kept] == [(1, 5), (1, 6), (1, 7)]
    assert not any((*whole.left, *window.left, *whole.spare, *window.spare))
    assert not hybrid.books.loading
    hit = hybrid.ask(hybrid.open(), 8)
    assert (hit.tokens, hit.below) == (8, ()), "each was published in the space of its group"


def test_where_the_window_reaches_back_the_good_ones_before_a_bad_one_are_kept() -> None:
    rig = Hybrid([full(2), sliding(1, 8)], batch_blocks=1, part_blocks=1)
    rig.stored(8)
    _, _, wanted = loads(rig, rig.open(), 8)
    failing(rig, {block for block, line in wanted.items() if line == (1, 5)})
    verdict = rig.verdict()
    assert (verdict.ending, verdict.tokens, verdict.blocks) == ("recompute", 4, 2)
    assert [(group.first, group.blocks) for group in verdict.groups] == [(0, 2), (0, 4)]
    assert [len(group.kept) for group in verdict.groups] == [3, 6], "what had not answered was left"
    assert [len(group.left) for group in verdict.groups] == [1, 2]
    spare = [wanted[block] for group in verdict.groups for block in group.spare]
    assert spare == [(0, 2), (1, 4)], "they were loaded, and four tokens do not need them"


def test_where_it_does_not_nothing_is_kept_and_a_second_lookup_finds_what_there_is() -> None:
    """Six tokens need blocks 3 to 5 of the sliding group; the load had brought 5 alone, since eight need 5 to 7."""
    rig = Hybrid(batch_blocks=1, part_blocks=1)
    rig.stored(8)
    lease = rig.open()
    _, _, wanted = loads(rig, lease, 8)
    failing(rig, {block for block, line in wanted.items() if line == (0, 3)})
    verdict = rig.verdict()
    assert (verdict.ending, verdict.tokens) == ("recompute", 0)
    assert [(group.first, group.blocks) for group in verdict.groups] == [(0, 0), (0, 0)]
    spare = {wanted[block] for group in verdict.groups for block in group.spare}
    assert spare == {(0, 0), (0, 1), (0, 2), (1, 5), (1, 6)}
    again = rig.ask(lease, 8)
    assert again.tokens == 6
    lines = lines_of(HYBRID, 6)
    assert {lines[at] for at in again.below} == {(1, 3), (1, 4)}, "the others are on the device, and the lease's own"
    load, _ = rig.load(lease, again)
    rig.finish_all()
    assert (rig.verdict().tokens, load > verdict.load) == (6, True)


def test_an_aborted_load_keeps_nothing(hybrid: Hybrid) -> None:
    hybrid.stored(4)
    lease = hybrid.open()
    loads(hybrid, lease, 4)
    hybrid.ledger.abort(lease)
    verdict = hybrid.verdict()
    assert (verdict.ending, verdict.tokens, verdict.kept) == ("aborted", 0, ())
    assert [(group.kept, group.left, group.spare) for group in verdict.groups] == [((), (), ())] * 2
    hybrid.finish_all()


def test_what_is_left_is_told_by_group(hybrid: Hybrid) -> None:
    hybrid.stored(4)
    _, _, wanted = loads(hybrid, hybrid.open(), 4, deadline=1.0)
    hybrid.tick(1.0)
    verdict = hybrid.verdict()
    assert (verdict.tokens, verdict.kept) == (0, ())
    left = [[wanted[block] for block in group.left] for group in verdict.groups]
    assert left == [[(0, 0), (0, 1)], [(1, 1), (1, 2), (1, 3)]]
    hybrid.finish_all()


@given(some_groups(), st.data())
def test_a_verdict_is_the_greatest_length_that_what_is_there_is_enough_for(
    groups: list[GroupConfig], data: st.DataObject
) -> None:
    rig = Hybrid(
        groups, batch_blocks=data.draw(st.integers(1, 4)), part_blocks=data.draw(st.integers(1, 3)), attempts=1
    )
    tokens = boundary(groups) * data.draw(st.integers(1, 3))
    pools: dict[Line, int] = {}
    for number, group in enumerate(groups):
        for place in range(tokens // group.tokens_per_block):
            pools[Line(number, place)] = data.draw(st.sampled_from([1, 1, 2, 0]))
    for pool in (2, 1, 0):
        for number in range(len(groups)):
            places = [line.place for line, at in pools.items() if (line.group, at) == (number, pool)]
            if places:
                rig.put(number, places, pool)
    lease = rig.open()
    hit = rig.ask(lease, tokens)
    assert hit.tokens == tokens
    if not hit.below:
        return
    lines = lines_of(groups, tokens)
    load, into = rig.load(lease, hit)
    wanted = {ref.block: lines[at] for at, ref in zip(hit.below, into, strict=True)}
    failing(rig, set(data.draw(st.lists(st.sampled_from(sorted(wanted)), max_size=2))))
    verdict = rig.verdict()
    assert isinstance(verdict, LoadVerdict)
    loaded = {line for block, line in wanted.items() if rig.state(block) == "active"}
    there = loaded | {line for line in lines if line not in wanted.values()}
    length = greatest(groups, tokens, lambda *line: Line(*line) in there)
    assert (verdict.load, verdict.tokens) == (load, length)
    assert (verdict.ending == "proceed") == (length == tokens)
    for number, (group, told) in enumerate(zip(groups, verdict.groups, strict=True)):
        mine = {block for block, line in wanted.items() if line.group == number}
        assert {*told.kept, *told.left} == mine
        assert all(rig.books.owns(rig.books.leases[lease], block) == (block in told.kept) for block in mine)
        assert told.blocks == length // group.tokens_per_block
        of_it = {line.place for line in needed(groups, length) if line.group == number}
        assert of_it == set(range(told.first, told.blocks))
        assert {wanted[block] for block in told.spare} == {
            line for line in loaded if line.group == number and line.place not in of_it
        }
    assert verdict.kept == tuple(
        into[list(hit.below).index(lines.index(wanted[block]))].block for block in verdict.kept
    )
    rig.finish_all()
    rig.check()


def test_a_hit_that_lies_in_two_tiers_by_turns_is_loaded_in_few_batches() -> None:
    groups = (full(1, "a"), full(1, "b"))
    pools = (PoolConfig("device", 128), PoolConfig("host", 64), PoolConfig("disk", 64))
    rig = Hybrid(groups, pools=pools)
    rig.put(0, range(60), 1)
    rig.put(1, range(60), 2)
    lease = rig.open()
    hit = rig.ask(lease, 60)
    into = rig.allocate(lease, 120)
    started = rig.ledger.load(lease, hit, into, deadline=9.0)
    assert isinstance(started, Started)
    assert 30 <= started.batches <= 51
    works = rig.works()
    copied = {src: dst for work in works for src, dst in zip(work.src, work.dst, strict=True)}
    assert [copied[ref.block] for ref in hit.blocks] == [ref.block for ref in into], "each goes where it was wanted"
    rig.finish_all_of(works)
    assert rig.verdict().tokens == 60


def test_groups_of_an_engine_that_allocates_by_itself() -> None:
    """Its blocks have no names here: a store is told the group and the keys, and a lookup finds what lies below."""
    pools = (PoolConfig("device", 16, foreign=True), PoolConfig("host", 16))
    rig = Hybrid(pools=pools, part_blocks=1, batch_blocks=1)
    lease, lists = rig.open(), prompt(HYBRID, 8)
    told = rig.ledger.foreign_allocated(list(range(12)))
    assert isinstance(told, Given)
    said = "group None is none: give the number of one, from 0, of full, slide"
    one, two = told.refs[:4], told.refs[4:]
    rig.refuses(lambda: rig.ledger.offload(lease, one, keys=lists[0]), said)
    assert rig.ledger.offload(lease, one, keys=lists[0], group=0)
    assert rig.ledger.offload(lease, two, keys=lists[1], group=1)
    rig.finish_all()
    rig.ledger.finish(lease)
    rig.ledger.foreign_freed(told.refs)
    rig.verdicts()
    lease = rig.open()
    hit = rig.ask(lease, 8)
    assert (hit.tokens, hit.below) == (8, tuple(range(7)))
    told = rig.ledger.foreign_allocated(list(range(7)))
    assert isinstance(told, Given)
    assert rig.ledger.load(lease, hit, told.refs, deadline=1.0)
    failing(rig, {told.refs[6].block})
    verdict = rig.verdict()
    assert (verdict.tokens, [len(group.spare) for group in verdict.groups]) == (0, [4, 2])
    assert rig.ask(lease, 8).tokens == 6, "all of it lies below still"


# -- what is refused ---------------------------------------------------------------------------------------------------


def changed(hit: Hit, **fields: Any) -> Hit:
    return dataclasses.replace(hit, **fields)


def test_a_hit_whose_groups_are_not_those_of_its_blocks(hybrid: Hybrid) -> None:
    hybrid.stored(4)
    lease = hybrid.open()
    hit = hybrid.ask(lease, 4)
    into = hybrid.allocate(lease, len(hit.below))
    swapped = tuple(hit.blocks[at] for at in (0, 2, 1, 3, 4))
    mixed = tuple(hit.blocks[at] for at in (0, 3, 2, 1, 4))  # two of the same key, and of different groups
    wrong = {
        "a group of the hit is none": [
            changed(hit, groups=((0, (0,)), Span(0, ()))),
            changed(hit, groups=(Span(0, [0]), Span(0, (1,)))),  # type: ignore[arg-type]
            changed(hit, groups=(Span(0, (0.0,)), Span(0, (1,)))),  # type: ignore[arg-type]
        ],
        "a part of the hit is no tuple": [changed(hit, groups=[*hit.groups])],
        "the blocks of the hit are not those that": [
            changed(hit, tokens=2),
            changed(hit, tokens=-4),
            changed(hit, tokens=10**18),
            changed(hit, groups=hit.groups[::-1]),
            changed(hit, groups=()),
        ],
        "is not named by key": [changed(hit, blocks=swapped)],
        "is not of group slide: give what the lookup gave": [changed(hit, blocks=mixed)],
    }
    for said, hits in wrong.items():
        for forged in hits:
            hybrid.refuses(lambda hit=forged: hybrid.ledger.load(lease, hit, into, deadline=1.0), said)  # type: ignore[misc]
    assert hybrid.ledger.load(lease, hit, into, deadline=1.0)
    hybrid.finish_all()


def test_of_a_source_that_was_condemned_meanwhile_nothing_is_known(hybrid: Hybrid) -> None:
    """As in a ledger without groups: the hit is taken at its word, and the load finds the bytes bad again."""
    hybrid.stored(4)
    one, two = hybrid.open(), hybrid.open()
    hit = hybrid.ask(two, 4)
    loads(hybrid, one, 4)
    for work in hybrid.works():
        hybrid.report(work, "broken")
    into = hybrid.allocate(two, len(hit.below))
    assert hybrid.ledger.load(two, hit, into, deadline=1.0)
    works = hybrid.works()
    assert isinstance(works[0], Work)
    hybrid.finish_all_of(works)
    hybrid.check()
