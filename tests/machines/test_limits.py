"""What is very long, very often, or not what it was when the ledger gave it out."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kvstate.machines import bulk
from kvstate.machines.audit import audit
from kvstate.machines.config import MAX_BATCHES, LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Outcome, Report, Work
from kvstate.machines.policy import LRU
from kvstate.machines.verdicts import Ending, Grant, Hit, LoadVerdict, Refusal, Started, Stored
from tests.machines.rig import Rig, keys

MakeRig = Callable[..., Rig]


def pump(ledger: Ledger) -> None:
    while works := ledger.take_effects():
        for work in works:
            assert isinstance(work, Work)
            ledger.report(Report(work.token, Outcome.DONE))


def cached_below(blocks: int, pools: int = 1, **config: Any) -> tuple[Ledger, list[bytes]]:
    """A ledger with that many blocks in the lower pools, by turns, and a free device."""
    lower = tuple(PoolConfig(f"tier{number}", blocks) for number in range(pools))
    ledger = Ledger(LedgerConfig((PoolConfig("device", blocks), *lower), **config))
    names = [b"key %d" % number for number in range(blocks)]
    lease = ledger.open("a")
    assert isinstance(lease, int)
    grant = ledger.allocate(lease, blocks)
    assert isinstance(grant, Grant)
    assert ledger.seal(lease, grant.blocks, names)
    for number in range(pools):
        assert ledger.offload(lease, [grant.blocks[place] for place in range(number, blocks, pools)], pool=number + 1)
    pump(ledger)
    ledger.finish(lease)
    other = ledger.open("a")
    assert isinstance(other, int)
    assert ledger.allocate(other, blocks)
    ledger.finish(other)
    return ledger, names


def begun(ledger: Ledger, names: list[bytes]) -> Started | Refusal:
    lease = ledger.open("a")
    assert isinstance(lease, int)
    hit = ledger.lookup(lease, names)
    assert isinstance(hit, Hit)
    into = ledger.allocate(lease, len(hit.below))
    assert isinstance(into, Grant)
    return ledger.load(lease, hit, into.blocks, deadline=9.0)


@pytest.mark.parametrize("answers", ["the first is broken", "the first comes last", "a fence"])
def test_a_load_of_a_thousand_lines_is_not_too_deep(answers: str) -> None:
    """What one batch sets off in the next nests, so there are only so many batches, and they are larger."""
    ledger, names = cached_below(1000, batch_blocks=1, part_blocks=1, max_jobs=1)
    started = begun(ledger, names)
    assert isinstance(started, Started)
    assert started.batches == MAX_BATCHES
    works = [work for work in ledger.take_effects() if isinstance(work, Work)]
    if answers == "a fence":
        assert ledger.fenced(0, "cpu", ledger.books.serial) == 1000
    else:
        first, *others = works
        order = [*others, first] if answers == "the first comes last" else [first, *others]
        for work in order:
            outcome = Outcome.BROKEN if work is first and answers == "the first is broken" else Outcome.DONE
            ledger.report(Report(work.token, outcome))
    ledger.tick(20.0)
    assert ledger.fatal is None
    [verdict] = [verdict for verdict in ledger.take_verdicts() if isinstance(verdict, LoadVerdict)]
    assert (verdict.ending is Ending.PROCEED) == (answers == "the first comes last")
    assert audit(ledger) == []


def test_a_hit_that_changes_its_tier_all_the_time_is_refused_with_a_remedy() -> None:
    ledger, names = cached_below(200, pools=2)
    refused = begun(ledger, names)
    assert isinstance(refused, Refusal)
    assert refused.reason == "the hit changes its tier so often that it makes 200 batches; look up fewer keys"
    [lease] = ledger.books.leases
    ledger.finish(lease)
    assert isinstance(begun(ledger, names[:20]), Started)
    assert audit(ledger) == []


@pytest.mark.parametrize("least", [1, 10**9])
def test_a_hit_is_given_back_once_however_often_it_lists_a_block(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(bulk, "WIDE", least)
    rig = make_rig(device=3)
    lease, _ = rig.sealed(1, 2, 3)
    rig.ledger.finish(lease)
    other = rig.open()
    hit = rig.lookup(other, 1, 2, 3)
    assert rig.ledger.unpin(replace(hit, pinned=hit.pinned * 2)) is True
    assert rig.ledger.fatal is None
    assert audit(rig.ledger) == []


def test_what_the_ledger_gave_out_is_not_what_it_works_on(make_rig: MakeRig) -> None:
    """Who spoils the answer of an offload spoils his own copy."""
    rig = make_rig()
    lease, refs = rig.sealed(1, 2)
    stored = rig.ledger.offload(lease, refs)
    assert isinstance(stored, Stored)
    stored.refs.blocks[0] = 3
    assert audit(rig.ledger) == []
    rig.finish_all()
    assert audit(rig.ledger) == []


class Stubborn(LRU):
    """A policy that chooses what it was told to."""

    choice: tuple[int, ...] = ()

    def victims(self, wanted: int) -> Iterator[Sequence[int]]:
        return iter([array("i", self.choice)]) if self.choice else super().victims(wanted)


@pytest.mark.parametrize("choice", [(0, 0), (5, 6), (-1, 0), (0, 99)])
@pytest.mark.parametrize("least", [1, 10**9])
def test_a_policy_that_chooses_what_is_not_its_own_is_loud(
    make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch, choice: tuple[int, ...], least: int
) -> None:
    monkeypatch.setattr(bulk, "WIDE", least)
    rig = make_rig(device=2, ledger={"policy": Stubborn})
    lease, _ = rig.sealed(1, 2)
    rig.ledger.finish(lease)
    rig.books.pools[0].evictable.choice = choice
    refused = rig.ledger.allocate(rig.open(), 2)
    assert isinstance(refused, Refusal)
    assert rig.ledger.fatal is not None
    assert rig.ledger.fatal[:2] == ("policy", "the policy of device chose a block twice, or none of its own")


def test_a_policy_may_choose_by_any_kind_of_list(make_rig: MakeRig) -> None:
    rig = make_rig(device=2, ledger={"policy": Stubborn})
    lease, _ = rig.sealed(1, 2)
    rig.ledger.finish(lease)
    rig.books.pools[0].evictable.choice = (1, 0)
    assert len(rig.allocate(rig.open(), 2)) == 2


class Hostile:
    """Equal to nothing, and loud about it."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not to be compared")

    def __hash__(self) -> int:
        return 0


def test_a_report_whose_failures_can_t_be_compared_is_heard(make_rig: MakeRig) -> None:
    rig = make_rig(attempts=1)
    lease, refs = rig.sealed(1)
    rig.offload(lease, refs)
    [work] = rig.works()
    rig.ledger.report(Report(work.token, "failed", Hostile()))  # type: ignore[arg-type]
    assert rig.ledger.fatal is None
    assert [verdict.ending for verdict in rig.verdicts()] == [Ending.FAILED]  # type: ignore[union-attr]


def test_a_key_that_is_not_the_block_s_own_is_refused(make_rig: MakeRig) -> None:
    """Else the bytes of one key would be published under another (law L9)."""
    rig = make_rig()
    rig.below(1, 2)
    lease = rig.open()
    hit = rig.lookup(lease, 1, 2)
    forged = replace(hit, keys=(hit.keys[0], *keys(9)))
    into = rig.allocate(lease, 2)
    rig.refuses(lambda: rig.ledger.load(lease, forged, into, deadline=1.0), f"is not named by key {keys(9)[0].hex()}")
    assert rig.ledger.load(lease, hit, into, deadline=1.0)


def test_an_interrupt_in_the_middle_of_an_input_is_final(make_rig: MakeRig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = make_rig()
    lease, refs = rig.sealed(1)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(rig.ledger.core), "start_jobs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rig.ledger.offload(lease, refs)
    assert rig.ledger.fatal is not None
    assert rig.ledger.fatal.sentence == "KeyboardInterrupt in offload: "


def test_nobody_waits_for_a_load_that_will_not_publish(make_rig: MakeRig) -> None:
    """It was begun by a lease from before the reset: it may load, and nobody is told to wait for it."""
    rig = make_rig(device=4)
    rig.below(1)
    old = rig.open()
    hit = rig.lookup(old, 1)
    into = rig.allocate(old, 1)
    rig.ledger.reset()
    assert rig.ledger.load(old, hit, into, deadline=1.0)
    assert not rig.lookup(rig.open(), 1).pending
    assert audit(rig.ledger) == []


@pytest.mark.parametrize("number", [10**5000, -(10**30), True], ids=["huge", "far below", "a flag"])
def test_a_number_beyond_all_numbers_is_refused(rig: Rig, number: int) -> None:
    for ask in (lambda: rig.ledger.finish(number), lambda: rig.ledger.step_dispatched(number, [])):
        refused = ask()
        assert isinstance(refused, Refusal)
        assert "is no whole number" in refused.reason
    assert rig.ledger.fatal is None


def test_a_time_is_no_flag(rig: Rig) -> None:
    assert isinstance(rig.ledger.tick(True), Refusal)


def test_timers_of_what_is_over_do_not_pile_up(make_rig: MakeRig) -> None:
    """One hold lives on before many that are over, whose deadlines come later."""
    rig = make_rig(device=2)
    lease = rig.open()
    one, two = rig.allocate(lease, 2)
    assert rig.ledger.hold(lease, [one], deadline=1.0)
    for _ in range(5000):
        token = rig.ledger.hold(lease, [two], deadline=100.0)
        rig.ledger.report(Report(token, "done"))  # type: ignore[arg-type]
    assert len(rig.books.timers) < 2000
    rig.tick(1.0)
    assert rig.state(one.block) == "open"
    assert rig.books.column("block", "lost")[one.block] == 1, "the one that lived was not forgotten"
