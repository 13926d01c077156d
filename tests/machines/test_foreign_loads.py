"""Device blocks of an engine that has an allocator of its own: what becomes of loads, and what the books say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.audit import audit
from kvstate.machines.config import GroupConfig, GroupKind, PoolConfig
from kvstate.machines.messages import NO_REFS, BlockRef, BlockRefs, Cancel, Hold, Unhold
from kvstate.machines.tables.foreign import State as F
from kvstate.machines.verdicts import Closed, Ending, Given, Refusal, Settlement
from tests.machines.foreign_rig import Engine
from tests.machines.rig import failure, keys


@pytest.fixture
def rig() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.check()


# -- loads -------------------------------------------------------------------------------------------------------------


def test_a_load_fills_what_the_engine_gave(rig: Engine) -> None:
    rig.stored(1, 2)
    refs = rig.gives(2, 3)
    lease, _ = rig.fill(refs, 1, 2)
    assert [rig.is_(block) for block in (2, 3)] == ["loading"] * 2
    assert "when the load ends" in rig.ledger.explain(block=2)
    rig.finish_all()
    verdict = rig.verdict()
    assert (verdict.ending, verdict.blocks, verdict.kept) == (Ending.PROCEED, 2, (2, 3))
    assert [rig.is_(block) for block in (2, 3)] == ["owned"] * 2
    assert rig.books.engine.filling == {}
    assert rig.key_state(1, pool=0) == "absent", "no key names a block of the engine's"
    assert "frees it" in rig.ledger.explain(block=2)
    assert rig.frees(refs) == []
    assert rig.ledger.finish(lease) == Closed(0, 0, 0, 0)


def test_a_load_waits_for_the_steps_that_are_under_way(rig: Engine) -> None:
    """I14: the ledger does not know which of them still writes the block."""
    rig.stored(1)
    lease = rig.open()
    rig.step(3, lease)
    rig.fill(rig.gives(0), 1)
    [work] = rig.works()
    assert work.after_step == 3
    rig.retire(3)


INTO: dict[str, tuple[Callable[[Engine], BlockRefs | list[BlockRef]], str]] = {
    "freed": (lambda r: [*r.gives(0), BlockRef(1, 1)], "block 1 is outside: can't be loaded into"),
    "an earlier life": (lambda r: [BlockRef(0, 0), *r.gives(0)], "block 0 gen 0 is no destination"),
    "below": (lambda r: [*r.gives(0), BlockRef(4, 0)], "block 4 gen 0 is no destination"),
    "twice": (lambda r: [*r.gives(0)] * 2, "a block is listed twice"),
}


@pytest.mark.parametrize("name", INTO)
def test_a_load_is_refused_into_what_the_engine_did_not_give(rig: Engine, name: str) -> None:
    rig.stored(1, 2)
    lease = rig.open()
    make, sentence = INTO[name]
    into, hit = make(rig), rig.lookup(lease, 1, 2)
    rig.refuses(lambda: rig.ledger.load(lease, hit, into, deadline=5.0), sentence)


def test_a_load_is_refused_into_what_is_loaded_or_stored(rig: Engine) -> None:
    rig.stored(1, 2)
    refs = rig.gives(0, 1)
    rig.fill(refs[:1], 1)
    rig.store(refs[1:], 5)
    lease = rig.open()
    hit = rig.lookup(lease, 2)
    rig.refuses(lambda: rig.ledger.load(lease, hit, refs[:1], deadline=5.0), "block 0 is loading: can't be loaded into")
    rig.refuses(
        lambda: rig.ledger.load(lease, hit, refs[1:], deadline=5.0), "block 1 is owned: a copy still touches it"
    )
    stored = rig.ledger.offload(lease, refs[:1], keys=keys(6))
    assert isinstance(stored, Refusal)
    assert "it is loading" in stored.reason


def test_a_load_falls_where_the_engine_takes_a_block(rig: Engine) -> None:
    """What lies in front of the hole is kept; the keys have done nothing wrong."""
    rig = Engine(batch_blocks=1, part_blocks=1)
    rig.stored(1, 2, 3)
    refs = rig.gives(0, 1, 2)
    _, load = rig.fill(refs, 1, 2, 3)
    first, second, third = rig.works()
    rig.report(first)
    [check] = rig.works()
    rig.report(check)
    held = rig.frees(refs[1:2])
    assert held == refs[1:2]
    assert rig.effects() == [Hold(refs[1]), Cancel(second.token), Cancel(third.token)]
    verdict = rig.verdict()
    assert (verdict.ending, verdict.blocks, verdict.kept) == (Ending.RECOMPUTE, 1, (0,))
    assert set(verdict.left) == {1, 2}
    assert [(e.code, e.block, e.generation) for e in verdict.errors] == [(Code.BLOCK_TAKEN, *refs[1])]
    assert [rig.is_(block) for block in range(3)] == ["owned", "held", "owned"]
    assert rig.column("foreign", "stained")[:3] == [0, 0, 1], "a copy is left behind in it"
    assert rig.frees(refs[2:]) == refs[2:]
    rig.report(second, "cancelled")
    rig.report(third, "cancelled")
    assert rig.verdicts() == [Settlement(load)]
    assert [effect for effect in rig.sent if isinstance(effect, Unhold)] or rig.holds()
    assert [rig.key_state(number) for number in (1, 2, 3)] == ["ready"] * 3
    rig.check()


@pytest.mark.parametrize("how", ["allocated", "reused"])
def test_a_life_that_begins_under_a_writer_is_never_stored(rig: Engine, how: str) -> None:
    """I08: nobody knows when the stray bytes land. The next life is clean."""
    rig.stored(1)
    refs = rig.gives(0)
    rig.fill(refs, 1)
    [work] = rig.works()
    if how == "allocated":
        rig.frees(refs)  # and the engine does not keep what it was asked to hold
    given = getattr(rig.ledger, f"foreign_{how}")([0])
    assert given.writing == (0,)
    verdict = rig.verdict()
    assert verdict.ending is Ending.RECOMPUTE
    rig.report(work)
    lease = rig.open()
    rig.refuses(
        lambda: rig.ledger.offload(lease, given.refs, keys=keys(7)),
        "a copy of an earlier life may have written into it",
    )
    assert rig.frees(given.refs) == []
    assert rig.store(rig.gives(0), 7)


def test_a_stain_ends_with_a_load_that_writes_every_byte(rig: Engine) -> None:
    rig.stored(1)
    rig.fill(rig.gives(0), 1)
    [work] = rig.works()
    given = rig.ledger.foreign_reused([0])
    assert isinstance(given, Given)
    rig.report(work, "cancelled")
    rig.fill(given.refs, 1)
    rig.finish_all()
    assert rig.store(given.refs, 7)


def test_a_block_is_taken_from_a_load_that_waits_for_its_turn(rig: Engine) -> None:
    """Nothing touches it, so the engine has it at once, and the batch falls."""
    rig = Engine(batch_blocks=1, part_blocks=1)
    rig.stored(1, 2)
    refs = rig.gives(0, 1)
    _, load = rig.fill(refs, 1, 2)
    first, second = rig.works()
    rig.report(second)
    [check] = rig.works()
    rig.report(check)
    assert rig.batch_states(load) == ["fetching", "verified"]
    assert rig.fires(lambda: rig.frees(refs[1:])) == {"E03", "X23", "E29", "B24", "A13", "A15"}
    rig.report(first)
    rig.finish_all()
    verdict = rig.verdict()
    assert (verdict.blocks, verdict.kept, verdict.left) == (1, (0, 1), ())
    rig.check()


def test_a_check_that_reads_anothers_bytes_condemns_nobody(rig: Engine) -> None:
    rig.stored(1)
    refs = rig.gives(0)
    rig.fill(refs, 1)
    rig.report(rig.works()[0])
    [check] = rig.works()
    rig.ledger.foreign_reused([0])
    assert rig.fires(lambda: rig.report(check, "broken", failure(Code.CRC_MISMATCH, 0))) >= {"P06"}
    assert rig.key_state(1) == "ready"


@pytest.mark.parametrize("lost_first", [False, True])
def test_nor_does_one_that_is_late(rig: Engine, lost_first: bool) -> None:
    rig.stored(1)
    refs = rig.gives(0)
    rig.fill(refs, 1)
    rig.report(rig.works()[0])
    [check] = rig.works()
    if lost_first:
        rig.report(check, "timeout")
        rig.ledger.foreign_reused([0])
    else:
        rig.ledger.foreign_reused([0])
        rig.report(check, "timeout")
    before = rig.key_state(1)
    assert rig.fires(lambda: rig.report(check, "broken", failure(Code.CRC_MISMATCH, 0))) >= {"P17"}
    assert rig.key_state(1) == before != "condemned"


def test_an_abort_leaves_the_copy_with_the_block(rig: Engine) -> None:
    """I05, I08: the request is gone; its block is the engine's again when the copy is over, once."""
    rig.stored(1, 2)
    refs = rig.gives(0, 1, 2)
    lease, _ = rig.fill(refs[:2], 1, 2)
    rig.store(refs[2:], 5, lease=lease)
    load, store = rig.works()
    assert rig.ledger.abort(lease) == Closed(0, 0, 0, 0)
    assert [rig.is_(block) for block in range(3)] == ["owned"] * 3
    assert rig.column("foreign", "stained")[:3] == [1, 1, 0]
    assert rig.frees(refs) == refs
    rig.report(load)
    rig.report(store)
    rig.finish_all()
    holds = [effect for effect in rig.sent if isinstance(effect, Hold | Unhold)]
    assert sorted(holds) == sorted([*map(Hold, refs), *map(Unhold, refs)])
    assert [rig.is_(block) for block in range(3)] == ["outside"] * 3


def test_an_aborted_load_has_no_say_over_a_block_that_another_fills(rig: Engine) -> None:
    rig = Engine(part_blocks=1)
    rig.stored(1, 2, 3)
    refs = rig.gives(0, 1)
    lease, _ = rig.fill(refs, 1, 2)
    first, second = rig.works()
    rig.report(first)
    rig.ledger.abort(lease)
    rig.fill(refs[:1], 3)
    rig.report(second)
    rig.works()
    assert list(rig.books.engine.filling) == [0]
    assert rig.fires(lambda: rig.frees(refs[:1])) >= {"E04", "X20"}
    rig.check()


def test_an_abort_of_a_load_that_no_copy_touches_leaves_nothing(rig: Engine) -> None:
    rig.stored(1)
    refs = rig.gives(0)
    lease, _ = rig.fill(refs, 1)
    rig.report(rig.works()[0], "failed")
    rig.ledger.abort(lease)
    assert rig.is_(0) == "owned"
    assert rig.column("foreign", "stained")[0] == 0
    assert rig.books.engine.filling == {}


def test_a_silent_copy_keeps_the_block_until_there_is_proof(rig: Engine) -> None:
    rig.stored(1, 2)
    refs = rig.gives(0, 1)
    rig.fill(refs, 1, 2)
    [work] = rig.works()
    rig.report(work, "timeout")
    verdict = rig.verdict()
    assert set(verdict.left) == {0, 1}
    assert rig.frees(refs) == refs
    assert rig.ledger.rest()
    rig.tick(100.0)
    assert "for 100 s" in rig.ledger.explain(block=0)
    assert rig.ledger.fenced(0, "cpu", work.token.serial) == 1
    assert [effect for effect in rig.effects() if isinstance(effect, Unhold)] == [Unhold(refs[0]), Unhold(refs[1])]


def test_a_late_report_frees_as_a_fence_does(rig: Engine) -> None:
    refs = rig.gives(0)
    rig.store(refs, 1)
    [work] = rig.works()
    rig.report(work, "timeout")
    assert rig.is_(0) == "owned"
    assert rig.fires(lambda: rig.report(work, "done")) >= {"E17", "P09"}
    assert rig.is_(0) == "owned"
    assert rig.frees(refs) == []


def test_ranks_count_each_copy(rig: Engine) -> None:
    rig = Engine(ranks=2)
    rig.stored(1)
    refs = rig.gives(0)
    rig.fill(refs, 1)
    one, other = rig.works()
    rig.report(one, "timeout")
    rig.report(other, "timeout")
    rig.frees(refs)
    assert rig.fires(lambda: rig.report(one, "done")) >= {"E27"}
    assert rig.fires(lambda: rig.report(other, "done")) >= {"E26"}
    rig.stored(3)
    refs = rig.gives(0)
    rig.fill(refs, 3)
    one, other = rig.works()
    rig.frees(refs)
    assert rig.fires(lambda: rig.report(one, "done")) >= {"E23"}
    assert rig.fires(lambda: rig.report(other, "done")) >= {"E22"}
    rig.check()


def test_a_whole_device_at_once(rig: Engine) -> None:
    """Long lists go by columns, and nothing else changes."""
    rig = Engine(pools=(PoolConfig("device", 200, foreign=True), PoolConfig("host", 200)), part_blocks=64)
    refs = rig.gives(*range(200))
    numbers = range(1, 101)
    rig.store(refs[:100], *numbers)
    assert rig.frees(refs[:50]) == refs[:50]
    rig.finish_all()
    assert rig.verdict().ending is Ending.COMMITTED
    assert len([effect for effect in rig.sent if isinstance(effect, Unhold)]) == 50
    rig.fill(refs[100:], *numbers)
    rig.finish_all()
    assert rig.verdict().blocks == 100
    rig.check()


def test_groups_say_of_which_the_keys_are(rig: Engine) -> None:
    rig = Engine(groups=(GroupConfig("full"), GroupConfig("slide", kind=GroupKind.SLIDING, window=16)))
    lease, refs = rig.open(), rig.gives(0, 1)
    rig.refuses(lambda: rig.ledger.offload(lease, refs, keys=keys(1, 2)), "group None is none")
    for group, ref in enumerate(refs):
        assert rig.ledger.offload(lease, [ref], keys=keys(1), group=group)
    rig.finish_all()
    hit = rig.ledger.lookup_groups(lease, [keys(1), keys(1)])
    assert hit.tokens == 16  # type: ignore[union-attr]
    assert rig.ledger.load(lease, hit, rig.gives(2, 3), deadline=9.0)  # type: ignore[arg-type]
    rig.finish_all()
    assert rig.verdicts()[-2].tokens == 16  # type: ignore[union-attr]
    rig.check()


# -- the books ---------------------------------------------------------------------------------------------------------


def test_a_snapshot_remembers_the_engines_blocks(rig: Engine) -> None:
    rig.stored(1)
    refs = rig.gives(0, 1)
    rig.fill(refs[:1], 1)
    before, shape = rig.ledger.snapshot(), rig.ledger.canonical_hash()
    assert rig.books.engine.filling == {0: 0}
    rig.frees(refs)
    assert rig.ledger.canonical_hash() != shape, "a hold waits to go out"
    rig.ledger.restore(before)
    assert rig.ledger.canonical_hash() == shape
    assert rig.books.engine.filling == {0: 0}
    assert rig.books.engine.state is rig.books.column("foreign", "state")
    rig.frees(refs[:1])
    assert Hold(refs[0]) in rig.effects()


def test_what_the_pool_holds_is_told(rig: Engine) -> None:
    refs = rig.gives(0, 1)
    rig.store(refs[:1], 1)
    rig.frees(refs[:1])
    assert rig.ledger.core.pools_hold()[0] == "device holds 2 outside, 1 owned, 1 held"


PLANTS: dict[str, tuple[Callable[[Any], None], str]] = {
    "a reader too many": (
        lambda books: books.column("foreign", "readers").__setitem__(0, 7),
        "L8.recount: block 0 has readers 7, the records say 2",
    ),
    "a count of states": (lambda books: books.pools[0].counts.__setitem__(0, 7), "L8.balance: device counts [7,"),
    "a free list": (lambda books: books.pools[0].free.append(0), "L8.balance: device counts"),
    "loading for nobody": (
        lambda books: books.engine.state.__setitem__(2, int(F.LOADING)),
        "L5.loading_named: block 2 is being loaded, and should not be",
    ),
    "nobody loads": (
        lambda books: books.engine.state.__setitem__(1, int(F.OWNED)),
        "L5.loading_named: block 1 is not being loaded, and should be",
    ),
    "a load that no report reaches": (
        lambda books: books.engine.filling.clear(),
        "L5.loading_named: of the blocks {1}",
    ),
    "held since never": (lambda books: books.held_since.clear(), "L3.hold: block 0 is held, and since when"),
    "held no more": (lambda books: books.held_since.update({3: 0.0}), "L3.hold: block 3 is not held, and since when"),
}


@pytest.mark.parametrize("name", PLANTS)
def test_the_audit_sees(name: str) -> None:
    rig = Engine()
    rig.stored(1)
    refs = rig.gives(0, 1)
    rig.store(refs[:1], 5)
    rig.fill(refs[1:], 1)
    rig.frees(refs[:1])
    assert audit(rig.ledger) == []
    plant, sentence = PLANTS[name]
    plant(rig.books)
    assert any(found.startswith(sentence) for found in audit(rig.ledger)), audit(rig.ledger)


def test_a_reference_that_is_bound_elsewhere_is_looked_at_one_by_one(rig: Engine) -> None:
    assert rig.books.all_current(BlockRefs([BlockRef(99, 0)])) is False
    assert rig.books.all_current(NO_REFS)
