"""What was loaded from far below goes into the tiers between, and nothing else does."""

from __future__ import annotations

from kvstate.errors import Code
from kvstate.machines.config import PoolConfig
from kvstate.machines.verdicts import Ending, Hit, Started
from tests.machines.hybrid import HYBRID
from tests.machines.rig import failure, keys
from tests.tiering.rig import DEVICE, DISK, HOST, STORE, TierRig, tier

FOUR = (DEVICE, HOST, DISK, STORE)


def promote(rig: TierRig, *numbers: int) -> int:
    """Load these and have them promoted; how many blocks were begun."""
    lease, hit, into = rig.bring(*numbers)
    begun = rig.tiering.loaded(rig.loads[-1], hit, into)
    rig.ledger.finish(lease)
    return begun


def test_what_the_disk_had_is_in_the_host_afterwards() -> None:
    rig = TierRig(tier("host"), tier("disk"))
    rig.on_disk(1, 2)
    assert promote(rig, 1, 2) == 2
    [store] = rig.works()
    assert (store.kind, len(store.src), set(store.dst)) == ("store", 2, {8, 9})
    assert all(rig.books.pool_of[block] == 0 for block in store.src)
    rig.report(store)
    rig.settle()
    assert rig.has(1) == [1, 2]
    assert rig.counted("host") == {"stored": 2, "promoted": 2}
    assert rig.counted("disk") == {}  # it is not written to the disk again
    assert rig.ledger.rest() == []


def test_not_where_it_is_not_wanted() -> None:
    rig = TierRig(tier("host", promote=False), tier("disk"))
    rig.on_disk(1)
    assert promote(rig, 1) == 0
    assert rig.works() == []


def test_what_the_host_had_stays_where_it_is() -> None:
    rig = TierRig(tier("host"), tier("disk"))
    rig.fill(1, 2)
    rig.settle()
    rig.flush()
    assert promote(rig, 1, 2) == 0
    assert rig.works() == []


def test_of_two_sources_only_what_came_from_below_the_host() -> None:
    rig = TierRig(tier("host"), tier("disk", "off"))
    rig.fill(1)
    rig.settle()
    rig.flush()
    rig.on_disk(2, 3)
    assert promote(rig, 1, 2, 3) == 2
    rig.settle()
    assert rig.has(1) == [1, 2, 3]


def test_through_all_tiers_between() -> None:
    rig = TierRig(tier("host"), tier("disk", "back"), tier("store", "back"), pools=FOUR)
    rig.ledger.recover(3, [("a", key) for key in keys(1, 2)])
    rig.effects()
    assert promote(rig, 1, 2) == 2
    rig.settle()
    assert (rig.has(1), rig.has(2), rig.has(3)) == ([1, 2], [1, 2], [1, 2])
    assert rig.counted("disk") == {"stored": 2, "promoted": 2}
    assert rig.counted("store") == {}


def test_past_a_tier_that_does_not_promote() -> None:
    rig = TierRig(tier("host", promote=False), tier("disk", "back"), tier("store", "back"), pools=FOUR)
    rig.ledger.recover(3, [("a", key) for key in keys(1)])
    rig.effects()
    assert promote(rig, 1) == 1
    rig.settle()
    assert (rig.has(1), rig.has(2)) == ([], [1])
    rig.flush()
    assert promote(rig, 1) == 0  # now from the disk, and the host still does not


def test_a_tier_between_that_is_not_fed_is_passed_over() -> None:
    """It came from a disk that nobody writes, and the store below is given what the host has."""
    rig = TierRig(tier("host"), tier("store"), pools=FOUR)
    rig.on_disk(1)
    assert promote(rig, 1) == 1
    rig.settle()
    assert (rig.has(1), rig.has(3)) == ([1], [1])
    assert rig.counted("store") == {"stored": 1}


def test_only_what_has_come() -> None:
    """The second batch is bad: what is before it is promoted, and the open blocks are not."""
    rig = TierRig(tier("host"), tier("disk"), batch_blocks=1)
    rig.on_disk(1, 2)
    lease, hit, into = rig.bring(1, 2, settle=False)
    good, bad = rig.works()
    rig.report(good)
    rig.report(bad, "broken", failure(Code.CRC_MISMATCH, 0))
    rig.hear()
    [verdict] = rig.loads
    assert verdict.ending is Ending.RECOMPUTE
    assert rig.tiering.loaded(verdict, hit, into) == 1
    rig.ledger.finish(lease)
    rig.settle()
    assert rig.has(1) == [1]


def test_pressure_drops_a_promotion_and_not_the_load() -> None:
    rig = TierRig(tier("host", inflight_blocks=1), tier("disk"))
    rig.on_disk(1, 2, 3)
    assert promote(rig, 1, 2, 3) == 1
    assert rig.loads[-1].ending is Ending.PROCEED
    assert rig.counted("host") == {"in_flight": 1, "promoted": 1, "budget": 2}


def test_an_aborted_load_promotes_nothing() -> None:
    rig = TierRig(tier("host"), tier("disk"))
    rig.on_disk(1)
    lease, hit, into = rig.bring(1, settle=False)
    rig.ledger.abort(lease)
    rig.settle()
    [verdict] = rig.loads
    assert verdict.ending is Ending.ABORTED
    assert rig.tiering.loaded(verdict, hit, into) == 0
    assert rig.counted("host") == {}


def test_a_block_that_began_another_life_is_not_promoted() -> None:
    """The lease was closed before the promotion, and another has the blocks: their bytes are no longer these keys'."""
    rig = TierRig(tier("host"), tier("disk"))
    rig.on_disk(1, 2)
    lease, hit, into = rig.bring(1, 2)
    rig.ledger.finish(lease)
    rig.flush()
    rig.loads[-1] = rig.loads[-1]._replace(lease=rig.open())
    assert rig.tiering.loaded(rig.loads[-1], hit, into) == 0
    assert rig.works() == []


def test_an_engine_names_what_it_has_loaded() -> None:
    rig = TierRig(tier("host"), tier("disk"), pools=(PoolConfig("device", 4, foreign=True), HOST, DISK), batch_blocks=1)
    rig.on_disk(1, 2)
    lease = rig.open()
    given = rig.ledger.foreign_allocated([0, 1])
    into = given.refs  # type: ignore[union-attr]
    hit = rig.lookup(lease, 1, 2)
    assert isinstance(rig.ledger.load(lease, hit, into, deadline=9.0), Started)
    good, bad = rig.works()
    rig.report(good)
    rig.report(bad, "broken")
    rig.hear()
    assert rig.tiering.loaded(rig.loads[-1], hit, into) == 1
    rig.settle()
    assert rig.has(1) == [1]


def test_an_engine_with_groups_names_each_in_its_own() -> None:
    """What the length needs is promoted, and what came in vain as well: both are what their keys say."""
    pools = (PoolConfig("device", 8, foreign=True), HOST, DISK)
    rig = TierRig(tier("host"), tier("disk"), pools=pools, groups=HYBRID, batch_blocks=1)
    spaces = [("full@a", key) for key in keys(1, 2)] + [("slide@a", key) for key in keys(1, 2, 3, 4)]
    rig.ledger.recover(2, spaces)
    rig.effects()
    lease = rig.open()
    hit = rig.ledger.lookup_groups(lease, [keys(1, 2), keys(1, 2, 3, 4)])
    assert isinstance(hit, Hit)
    assert hit.tokens == 4
    given = rig.ledger.foreign_allocated(range(len(hit.below)))
    into = given.refs  # type: ignore[union-attr]
    assert isinstance(rig.ledger.load(lease, hit, into, deadline=9.0), Started)
    *good, bad = rig.works()
    for work in good:
        rig.report(work)
    rig.report(bad, "broken")
    rig.hear()
    [verdict] = rig.loads
    assert any(group.spare for group in verdict.groups)
    assert rig.tiering.loaded(verdict, hit, into) == len(good)
    rig.settle()
    assert len(rig.has(1, space="full@a")) + len(rig.has(1, space="slide@a")) == len(good)
    for work in good:
        assert rig.books.keys.find(1, work.space(0), work.keys[0]) >= 0


def test_a_block_that_the_engine_gave_on_is_not_promoted() -> None:
    """Its bytes are the next owner's by now, and only the life in the reference tells."""
    rig = TierRig(tier("host"), tier("disk"), pools=(PoolConfig("device", 4, foreign=True), HOST, DISK))
    rig.on_disk(1, 2)
    lease = rig.open()
    given = rig.ledger.foreign_allocated([0, 1])
    into = given.refs  # type: ignore[union-attr]
    hit = rig.lookup(lease, 1, 2)
    assert isinstance(rig.ledger.load(lease, hit, into, deadline=9.0), Started)
    rig.finish_all()
    rig.hear()
    rig.ledger.foreign_reused([1])
    assert rig.tiering.loaded(rig.loads[-1], hit, into) == 1
    rig.settle()
    assert rig.has(1) == [1]
    assert rig.counted("host") == {"stored": 1, "promoted": 1, "unfit": 1}
