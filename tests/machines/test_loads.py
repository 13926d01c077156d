"""Loads: batches that come all or not at all, in order; which key pays for what; and ends before the time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.config import PoolConfig
from kvstate.machines.messages import BlockRef, Cancel, Work
from kvstate.machines.verdicts import Ending, LoadVerdict, Settlement
from tests.machines.rig import Rig, failure, key, keys

MakeRig = Callable[..., Rig]


def loading(rig: Rig, *numbers: int, **options: Any) -> tuple[int, int, Sequence[BlockRef], list[Work]]:
    """A lease that loads these keys from the host pool: lease, load, destinations, what was sent."""
    rig.below(*numbers)
    lease = rig.open()
    load, into = rig.load(lease, rig.lookup(lease, *numbers), **options)
    return lease, load, into, rig.works()


def condition(rig: Rig, *numbers: int) -> list[str]:
    return [rig.key_state(number) for number in numbers]


# -- all is well -------------------------------------------------------------------------------------------------------


def test_what_a_load_sends_and_tells(make_rig: MakeRig) -> None:
    """Batch by batch, rank by rank; fetched, compared with the seals, and only then published."""
    rig = make_rig(device=6, verify=True, ranks=2, batch_blocks=2, part_blocks=2)
    lease, load, into, works = loading(rig, 1, 2, 3)
    assert [(work.kind, work.rank, work.keys, work.after_step) for work in works] == [
        ("fetch", 0, tuple(keys(1, 2)), 0),
        ("fetch", 1, tuple(keys(1, 2)), 0),
        ("fetch", 0, (key(3),), 0),
        ("fetch", 1, (key(3),), 0),
    ]
    assert works[0].dst == tuple(ref.block for ref in into[:2])
    for work in works[:2]:
        assert rig.works() == []
        rig.report(work)
    checks = rig.works()
    assert [(check.kind, check.rank) for check in checks] == [("verify", 0), ("verify", 1)]
    assert (checks[0].src, checks[0].dst, checks[0].keys) == (works[0].src, works[0].dst, works[0].keys)
    for check in checks:
        assert rig.key_state(1, pool=0) == "absent"
        rig.report(check)
    assert [rig.key_state(number, pool=0) for number in (1, 2, 3)] == ["ready", "ready", "absent"]
    assert rig.verdicts() == []
    rig.finish_all_of(works[2:])
    kept = tuple(ref.block for ref in into)
    assert rig.verdicts() == [
        LoadVerdict(load, lease, Ending.PROCEED, 48, 3, kept, (), ()),
        Settlement(load),
    ]
    assert [rig.state(ref.block) for ref in into] == ["active"] * 3


def test_batches_commit_in_order_whatever_comes_first(make_rig: MakeRig) -> None:
    rig = make_rig(batch_blocks=1)
    _, load, into, (first, second) = loading(rig, 1, 2)
    rig.report(second)
    assert rig.batch_states(load) == ["fetching", "verified"]
    assert rig.state(into[1].block) == "loading", "nothing is committed behind what may become a hole"
    rig.report(first)
    assert rig.verdict().ending == "proceed"


def test_a_batch_comes_from_one_pool(make_rig: MakeRig) -> None:
    """And the verdict counts through what was on the device: positions 0 and 2 are there, 1 and 3 are loaded."""
    rig = make_rig(pools=(PoolConfig("device", 6), PoolConfig("host", 2), PoolConfig("disk", 2, copier="disk")))
    lease, refs = rig.sealed(1, 2, 3, 4)
    rig.offload(lease, [refs[1]])
    rig.offload(lease, [refs[3]], pool=2)
    rig.finish_all()
    rig.verdicts()
    keeper = rig.open()
    assert [rig.lookup(keeper, number).tokens for number in (1, 3)] == [16, 16]
    rig.ledger.finish(lease)
    rig.flush()
    lease = rig.open()
    hit = rig.lookup(lease, 1, 2, 3, 4)
    assert hit.below == (1, 3)
    load, into = rig.load(lease, hit)
    host, disk = rig.works()
    assert (host.copier, host.keys, disk.copier, disk.keys) == ("cpu", (key(2),), "disk", (key(4),))
    rig.report(disk, "denied", failure(Code.PERMISSION_DENIED))
    rig.report(host)
    verdict = rig.verdict()
    assert (verdict.load, verdict.ending, verdict.blocks, verdict.tokens) == (load, "recompute", 3, 48)
    assert verdict.kept == tuple(ref.block for ref in into), "the open one is for what is computed"


def test_a_load_across_a_reset_ends_well_and_unnamed(rig: Rig) -> None:
    lease, _, into, [work] = loading(rig, 1)
    assert rig.ledger.reset() == 1
    rig.report(work)
    assert rig.verdict().ending == "proceed"
    assert rig.state(into[0].block) == "active"
    assert rig.key_state(1, pool=0) == "absent"
    assert rig.state(work.src[0]) == "free", "its key was dropped, the pin alone held it"
    assert rig.ledger.finish(lease) == (1, 0, 0, 0)


def test_a_load_that_is_second_stays_private(rig: Rig) -> None:
    """L9: between the lookup and the commit somebody computed and published the very same key."""
    lease, _, [ref], [work] = loading(rig, 1)
    _, [other] = rig.sealed(1)
    rig.report(work)
    assert rig.verdict().ending == "proceed"
    published = rig.column("block", "published")
    assert (published[other.block], published[ref.block]) == (1, 0)
    assert rig.ledger.finish(lease) == (1, 0, 0, 0)


# -- which key pays ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failures", "after"),
    [
        ((), ["condemned", "condemned"]),
        ((failure(Code.CRC_MISMATCH, 1),), ["ready", "condemned"]),
        ((failure(Code.CRC_MISMATCH, 0), failure(Code.KV_OOM, 1)), ["condemned", "ready"]),
        ((failure(Code.CRC_MISMATCH, 7),), ["condemned", "condemned"]),
        ((failure(Code.KV_OOM, 0),), ["condemned", "ready"]),
    ],
)
def test_bad_bytes_condemn_the_lines_that_were_named(rig: Rig, failures: tuple[Any, ...], after: list[str]) -> None:
    """All of them if none was; of those that were, the ones whose code says so, if there is one."""
    lease, _, into, [work] = loading(rig, 1, 2)
    rig.report(work, "broken", *failures)
    assert condition(rig, 1, 2) == after
    verdict = rig.verdict()
    assert (verdict.ending, verdict.blocks, verdict.left) == ("recompute", 0, ())
    assert [rig.state(ref.block) for ref in into] == ["open", "open"], "proved over: the lease keeps them"
    assert len(verdict.errors) == max(1, len(failures))
    assert rig.lookup(lease, 1, 2).tokens == (16 if after[0] == "ready" else 0)


def test_a_verify_that_fails_condemns_the_source(make_rig: MakeRig) -> None:
    rig = make_rig(verify=True)
    _, _, _, [work] = loading(rig, 1)
    rig.report(work)
    [check] = rig.works()
    rig.report(check, "broken", failure(Code.CRC_MISMATCH, 0))
    assert condition(rig, 1) == ["condemned"]
    [error] = rig.verdict().errors
    assert (error.code, error.block) == (Code.CRC_MISMATCH, work.src[0])


def test_what_failed_for_good_cools_and_warms_by_the_clock(make_rig: MakeRig) -> None:
    rig = make_rig(attempts=1, cool_for=2.0)
    lease, _, into, [work] = loading(rig, 1)
    assert "X17" in rig.fires(lambda: rig.report(work, "failed", failure(Code.LOAD_TIMEOUT)))
    assert condition(rig, 1) == ["cooling"]
    assert rig.verdict().kept == (into[0].block,)
    assert not rig.lookup(lease, 1), "a miss, so that nobody runs into it at once"
    rig.tick(2.0)
    assert condition(rig, 1) == ["ready"]
    assert rig.lookup(lease, 1)


def test_what_was_evicted_while_it_cooled_is_not_warmed(make_rig: MakeRig) -> None:
    """The timer finds another record in the slot of the key that it was armed for."""
    rig = make_rig(attempts=1, host=1, cool_for=2.0)
    _, _, _, [work] = loading(rig, 1)
    rig.report(work, "failed")
    lease, refs = rig.sealed(2)
    rig.offload(lease, refs)
    assert condition(rig, 1, 2) == ["absent", "writing"]
    assert rig.fires(lambda: rig.tick(2.0)) == set()
    assert rig.key_state(2) == "writing"


def test_a_load_is_tried_again_when_every_part_is_over(make_rig: MakeRig) -> None:
    rig = make_rig(part_blocks=1, retry_delay=0.5)
    _, load, _, (first, second) = loading(rig, 1, 2)
    rig.report(first, "failed", failure(Code.KV_OOM))
    assert rig.batch_states(load) == ["rolling_back"]
    assert rig.effects() == [Cancel(second.token)], "the others are of no use any more"
    assert "X34" in rig.fires(lambda: rig.report(second, "cancelled"))
    rig.tick(0.5)
    again = rig.works()
    assert [(work.attempt, work.dst) for work in again] == [(2, first.dst), (2, second.dst)]
    rig.finish_all_of(again)
    verdict = rig.verdict()
    assert (verdict.ending, verdict.errors) == ("proceed", ())
    assert rig.books.retries == 1, "of batches, not of parts"


ROLLING_BACK = [
    # first, then the last one: is it tried again, which row, what of the keys
    ("broken", "done", "X35", ["condemned", "ready"]),
    ("broken", "cancelled", "X35", ["condemned", "ready"]),
    ("broken", "failed", "X35", ["condemned", "cooling"]),
    ("failed", "broken", "X37", ["cooling", "condemned"]),
    ("denied", "denied", "X37", ["cooling", "cooling"]),
    ("timeout", "done", "X36", ["cooling", "ready"]),
    ("timeout", "broken", "X38", ["cooling", "condemned"]),
    ("failed", "timeout", "X39", ["cooling", "cooling"]),
    ("broken", "timeout", "X39", ["condemned", "cooling"]),
]


@pytest.mark.parametrize(("first", "last", "row", "after"), ROLLING_BACK)
def test_who_pays_when_a_batch_falls_back(make_rig: MakeRig, first: str, last: str, row: str, after: list[str]) -> None:
    """And what becomes of the blocks: kept if all is proved over, left (the lease has no part in them) if not."""
    rig = make_rig(part_blocks=1)
    lease, _, into, works = loading(rig, 1, 2)
    rig.report(works[0], first)
    assert row in rig.fires(lambda: rig.report(works[1], last))
    assert condition(rig, 1, 2) == after
    verdict = rig.verdict()
    blocks = tuple(ref.block for ref in into)
    unproved = "timeout" in (first, last)
    assert (verdict.kept, verdict.left) == (((), blocks) if unproved else (blocks, ()))
    assert list(rig.books.owned(rig.books.leases[lease])) == ([] if unproved else list(blocks))
    lost = [block for block, said in zip(blocks, (first, last), strict=True) if said == "timeout"]
    assert [rig.state(block) for block in lost] == ["quarantined"] * len(lost)


def test_three_parts_roll_back_one_by_one(make_rig: MakeRig) -> None:
    rig = make_rig(part_blocks=1)
    _, load, _, works = loading(rig, 1, 2, 3)
    assert "X13" in rig.fires(lambda: rig.report(works[0], "failed"))
    assert "X31" in rig.fires(lambda: rig.report(works[1], "broken"))
    assert rig.batch_states(load) == ["rolling_back"]
    assert "X35" in rig.fires(lambda: rig.report(works[2]))
    assert condition(rig, 1, 2, 3) == ["cooling", "condemned", "ready"]


def test_a_late_report_of_bad_bytes_condemns_the_key_still(rig: Rig) -> None:
    """By identity: the key names the same block in the same life; and the error is kept while somebody can be told."""
    _, _, _, [work] = loading(rig, 1)
    rig.report(work, "timeout")
    assert condition(rig, 1) == ["cooling"]
    rig.verdicts()
    assert {"P16", "K05"} <= rig.fires(lambda: rig.report(work, "broken", failure(Code.CRC_MISMATCH, 0)))
    assert condition(rig, 1) == ["condemned"]
    assert rig.verdicts() == [], "the verdict was given and never changes"


def test_a_late_report_of_bad_bytes_finds_nothing_in_another_life(make_rig: MakeRig) -> None:
    """The source was read by the lost copy alone; a fence proved that over, and the block went to another key."""
    rig = make_rig(host=1)
    _, _, _, [work] = loading(rig, 1)
    rig.report(work, "timeout")
    assert condition(rig, 1) == ["cooling"]
    rig.ledger.reset()
    rig.ledger.fenced(0, "cpu", work.token.serial)
    rig.below(2)
    rig.report(work, "broken", failure(Code.CRC_MISMATCH, 0))
    assert rig.key_state(2) == "ready"
    assert rig.books.stale == 1


def test_a_late_report_of_bad_bytes_finds_no_later_key_of_the_block(make_rig: MakeRig) -> None:
    """A step reads the destination still, the batch lost its copy: the source is reset, freed and used again."""
    rig = make_rig(part_blocks=1, host=2)
    _, load, _, (first, second) = loading(rig, 1, 2)
    rig.report(first, "broken")
    rig.report(second, "timeout")
    assert condition(rig, 1, 2) == ["condemned", "cooling"]
    assert rig.verdict().load == load
    lease, refs = rig.sealed(1)
    rig.offload(lease, refs)
    assert condition(rig, 1) == ["writing"], "a condemned key can be brought anew"
    rig.finish_all()
    rig.report(second, "broken")
    assert condition(rig, 1, 2) == ["ready", "condemned"]


def test_of_a_batch_that_was_only_stopped_the_keys_cool(rig: Rig) -> None:
    """Otherwise the next lookup would find them at once, and so for ever."""
    _, _, _, [work] = loading(rig, 1, 2)
    rig.report(work, "cancelled")
    rig.tick(0.05)
    [again] = rig.works()
    assert "X17" in rig.fires(lambda: rig.report(again, "cancelled"))
    assert condition(rig, 1, 2) == ["cooling", "cooling"]
    assert [error.code for error in rig.verdict().errors] == [Code.CANCELLED] * 2


# -- a hole ------------------------------------------------------------------------------------------------------------


def test_nothing_is_committed_behind_a_hole(make_rig: MakeRig) -> None:
    """L5: the verdict names the longest committed prefix, and nothing behind the hole is loading when it is told."""
    rig = make_rig(device=6, batch_blocks=1)
    lease, load, into, works = loading(rig, 1, 2, 3, 4)
    rig.report(works[0])
    rig.report(works[2])
    rows = rig.fires(lambda: rig.report(works[1], "denied"))
    assert {"A13", "X20", "X23", "A14"} <= rows
    verdict = rig.verdict()
    assert (verdict.ending, verdict.blocks) == ("recompute", 1)
    assert verdict.kept == tuple(ref.block for ref in into[:3])
    assert verdict.left == (into[3].block,), "its copy may still write"
    assert [rig.state(ref.block) for ref in into] == ["active", "open", "open", "draining"]
    assert condition(rig, 1, 2, 3, 4) == ["ready", "cooling", "ready", "ready"], "the innocent do not pay"
    assert rig.load_state(load) == "settling"
    assert rig.effects() == [Cancel(works[3].token)]
    rig.report(works[3], "cancelled")
    assert rig.verdicts() == [Settlement(load)]
    assert rig.state(into[3].block) == "free"
    assert rig.ledger.finish(lease) == (2, 1, 0, 0)


def test_a_hole_in_front_cools_of_those_behind_only_what_failed(make_rig: MakeRig) -> None:
    rig = make_rig(device=6, batch_blocks=2, part_blocks=1)
    _, load, into, works = loading(rig, 1, 2, 3, 4)
    rig.report(works[2], "failed")
    assert rig.batch_states(load) == ["fetching", "rolling_back"]
    rig.report(works[0], "timeout")
    assert "X40" in rig.fires(lambda: rig.report(works[1], "failed"))
    assert condition(rig, 1, 2, 3, 4) == ["cooling", "cooling", "cooling", "ready"]
    assert set(rig.verdict().left) == {ref.block for ref in into}
    assert "X33" in rig.fires(lambda: rig.report(works[3], "broken"))
    assert condition(rig, 4) == ["condemned"], "what comes out later is still written down"
    assert rig.verdicts() == [Settlement(load)]


def test_a_hole_in_front_ends_the_wait_for_another_attempt(make_rig: MakeRig) -> None:
    rig = make_rig(batch_blocks=1, retry_delay=5.0)
    _, load, _, (first, second) = loading(rig, 1, 2)
    rig.report(second, "failed")
    assert "X51" in rig.fires(lambda: rig.report(first, "denied"))
    assert rig.verdict().load == load
    assert rig.fires(lambda: rig.tick(5.0)) == {"K11"}, "the retry's timer finds nobody"
    assert rig.works() == []


# -- out of time, called off, aborted ----------------------------------------------------------------------------------


def planned(rig: Rig) -> tuple[int, int, list[Work]]:
    lease, load, _, works = loading(rig, 1, 2)
    return lease, load, works


def verified(rig: Rig) -> tuple[int, int, list[Work]]:
    lease, load, works = planned(rig)
    rig.report(works[1])
    return lease, load, works


def waiting(rig: Rig) -> tuple[int, int, list[Work]]:
    lease, load, works = planned(rig)
    rig.report(works[0], "failed")
    return lease, load, works


REACH = {"fetching": planned, "verified": verified, "retry_wait": waiting}


@pytest.mark.parametrize("state", REACH)
@pytest.mark.parametrize("how", ["deadline", "cancel"])
def test_a_load_that_ends_early_is_told_at_once(make_rig: MakeRig, state: str, how: str) -> None:
    """L7: the verdict does not wait for the copies. L1: it comes once, and the settlement when all has stopped."""
    rig = make_rig(batch_blocks=1, retry_delay=99.0, grace=1.0)
    lease, load, works = REACH[state](rig)
    if how == "cancel":
        assert rig.ledger.cancel(load) is True
    else:
        rig.tick(10.0)
    verdict = rig.verdict()
    assert (verdict.ending, verdict.blocks) == ("recompute", 0)
    silent = Code.LOAD_TIMEOUT if how == "deadline" else Code.CANCELLED
    assert [error.code for error in verdict.errors] == [Code.UNKNOWN if state == "retry_wait" else silent]
    assert verdict.errors[0].message
    flying = [work for work in works if work.token.serial in rig.books.tokens]
    assert rig.effects() == [Cancel(work.token) for work in reversed(flying)], "all asked to stop"
    rig.refuses(lambda: rig.ledger.cancel(load), f"load {load} is ending already")
    rig.finish_all_of(flying)
    assert rig.verdicts() == [Settlement(load)]
    rig.refuses(lambda: rig.ledger.cancel(load), "no job and no load that is under way")
    assert (
        condition(rig, 1, 2)
        == {
            "fetching": ["cooling", "cooling"],
            "verified": ["cooling", "ready"],
            "retry_wait": ["cooling", "cooling"],
        }[state]
    )
    assert len(rig.books.owned(rig.books.leases[lease])) == len(verdict.kept)


def test_a_load_that_was_told_can_t_be_called_off(make_rig: MakeRig) -> None:
    """L1: the verdict never changes; and the lapse stays where the deadline put it."""
    rig = make_rig()
    _, load, _, _ = loading(rig, 1)
    rig.tick(10.0)
    assert rig.load_state(load) == "settling"
    rig.refuses(lambda: rig.ledger.cancel(load), f"load {load} is ending already")


def test_a_deadline_meets_a_batch_that_rolls_back(make_rig: MakeRig) -> None:
    rig = make_rig(part_blocks=1)
    _, load, into, works = loading(rig, 1, 2)
    rig.report(works[0], "broken", failure(Code.BLOCK_NOT_FOUND, 0))
    assert "X43" in rig.fires(lambda: rig.tick(10.0))
    verdict = rig.verdict()
    assert verdict.left == tuple(ref.block for ref in into)
    assert [error.code for error in verdict.errors] == [Code.BLOCK_NOT_FOUND]
    assert condition(rig, 1, 2) == ["condemned", "cooling"]
    assert {"X42", "P08", "A21"} <= rig.fires(lambda: rig.tick(11.0))
    assert rig.verdicts() == [Settlement(load)]
    assert rig.state(into[1].block) == "quarantined"
    assert rig.ledger.rest()[-1] == f"fetch part {works[1].token.serial} is lost"
    rig.report(works[1])
    assert rig.state(into[1].block) == "free"


@pytest.mark.parametrize("state", [*REACH, "rolling_back"])
def test_closing_the_lease_aborts_its_loads(make_rig: MakeRig, state: str) -> None:
    """The owner ends at once and is told so; the copies end when they end, and no key pays for having been stopped."""
    rig = make_rig(batch_blocks=2 if state == "rolling_back" else 1, part_blocks=1, retry_delay=99.0)
    lease, load, works = REACH["retry_wait" if state == "rolling_back" else state](rig)
    rig.effects()
    closed = rig.ledger.abort(lease)
    assert rig.verdict() == LoadVerdict(load, lease, Ending.ABORTED, 0, 0, (), (), ())
    assert rig.load_state(load) == "aborting"
    rig.refuses(lambda: rig.ledger.cancel(load), f"load {load} is ending already")
    flying = [work for work in works if work.token.serial in rig.books.tokens and work.token in _flying(rig)]
    assert closed == (2 - len(flying), 0, len(flying), 0)
    rig.finish_all_of(flying)
    assert rig.verdicts() == [Settlement(load)]
    assert condition(rig, 1, 2) == ["cooling" if state == "rolling_back" else "ready", "ready"]
    assert rig.ledger.rest() == []


def _flying(rig: Rig) -> set[object]:
    parts = rig.books.parts
    return {part.token for part in parts.live() if parts.table.STATES[rig.books.parts_state[part.slot]] == "flying"}


def test_an_aborted_load_that_does_not_stop_is_given_up(make_rig: MakeRig) -> None:
    rig = make_rig(grace=1.0, part_blocks=1)
    lease, load, into, works = loading(rig, 1, 2)
    rig.ledger.preempt(lease)
    rig.verdicts()
    assert "X63" in rig.fires(lambda: rig.report(works[0], "broken"))
    assert {"X62", "A22", "A21"} <= rig.fires(lambda: rig.tick(1.0)), "long before the deadline of the load"
    assert rig.verdicts() == [Settlement(load)]
    assert condition(rig, 1, 2) == ["condemned", "cooling"]
    assert [rig.state(ref.block) for ref in into] == ["free", "quarantined"]
    assert rig.fires(lambda: rig.tick(99.0)) == {"K11"}, "the load's own timers find nobody"


def test_an_aborted_load_tells_how_far_it_had_come(make_rig: MakeRig) -> None:
    rig = make_rig(batch_blocks=1)
    lease, load, _, works = loading(rig, 1, 2)
    rig.report(works[0])
    rig.ledger.abort(lease)
    assert rig.verdict() == LoadVerdict(load, lease, Ending.ABORTED, 16, 1, (), (), ())


def test_a_lease_that_closes_while_its_load_settles_changes_nothing_of_it(make_rig: MakeRig) -> None:
    rig = make_rig()
    lease, load, into, [work] = loading(rig, 1)
    rig.tick(10.0)
    assert rig.verdict().ending == "recompute"
    assert rig.ledger.finish(lease) == (0, 0, 0, 0), "it had left the block"
    rig.report(work)
    assert rig.verdicts() == [Settlement(load)]
    assert rig.state(into[0].block) == "free"
