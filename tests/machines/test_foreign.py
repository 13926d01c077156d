"""Device blocks of an engine that has an allocator of its own: what it reports, and what becomes of stores."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

import pytest

from kvstate.errors import Code
from kvstate.machines.config import ConfigError, LedgerConfig, PoolConfig
from kvstate.machines.messages import BlockRef, Hold, Token, Unhold, Work
from kvstate.machines.verdicts import Ending, Given, Refusal, Stored
from tests.machines.foreign_rig import POOLS, Engine
from tests.machines.rig import Rig, key, keys


@pytest.fixture
def rig() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.check()


# -- what the engine tells ---------------------------------------------------------------------------------------------


def test_every_life_has_a_generation_of_its_own(rig: Engine) -> None:
    assert rig.gives(2, 0) == [BlockRef(2, 1), BlockRef(0, 1)]
    reused = rig.ledger.foreign_reused(array("q", [2]))
    assert isinstance(reused, Given)
    assert reused.refs == [BlockRef(2, 2)]
    assert reused.writing == ()
    assert rig.frees(reused.refs) == []
    assert rig.gives(2) == [BlockRef(2, 3)]
    assert rig.gives(2, 2) == [BlockRef(2, 4)] * 2, "listed twice, it begins one life"
    assert rig.ledger.foreign_reused(range(2, 3)), "nothing but the truth in a condition"
    assert rig.holds() == []


def test_what_is_freed_under_a_copy_is_held_until_the_copy_is_over(rig: Engine) -> None:
    refs = rig.gives(0, 1, 2)
    rig.store(refs[:2], 1, 2)
    [work] = rig.works()
    assert rig.frees(refs) == refs[:2], "the third is the engine's at once"
    assert rig.holds() == [Hold(refs[0]), Hold(refs[1])]
    assert [rig.is_(block) for block in range(3)] == ["held", "held", "outside"]
    assert "held for 0 s: held by job" in rig.ledger.explain(block=0)
    assert "keeps it for us until" in rig.ledger.explain(block=0)
    rig.report(work)
    assert rig.holds() == [Unhold(refs[1]), Unhold(refs[0])]
    assert rig.verdict().ending is Ending.COMMITTED
    assert rig.is_(0) == "outside"
    assert "free in the engine" in rig.ledger.explain(block=0)
    assert rig.books.held_since == {}


def test_what_was_freed_before_is_counted_and_nothing_else(rig: Engine) -> None:
    refs = rig.gives(0, 1)
    rig.store(refs[:1], 1)
    rig.frees(refs)
    stale = rig.books.stale
    assert rig.fires(lambda: rig.frees(refs)) == {"E02", "E07"}
    assert rig.frees([refs[0], refs[0]]) == refs[:1], "and it is still held"
    assert rig.books.stale == stale + 4
    new = rig.gives(1)
    assert rig.frees(refs[1:]) == []
    assert rig.frees([BlockRef(99, 0), BlockRef(-1, 0), BlockRef(4, 0)]) == []
    assert rig.books.stale == stale + 8
    assert rig.is_(1) == "owned"
    assert rig.frees(new) == []


NONSENSE: dict[str, tuple[Callable[[Engine], object], str]] = {
    "no list": (lambda r: r.ledger.foreign_allocated(7), "ids 7 is no list of numbers"),  # type: ignore[arg-type]
    "floats": (lambda r: r.ledger.foreign_allocated(array("d", [1.0])), "is no list of numbers"),  # type: ignore[arg-type]
    "no number": (lambda r: r.ledger.foreign_reused(["b"]), "block 'b' is no whole number"),  # type: ignore[list-item]
    "too high": (lambda r: r.ledger.foreign_allocated([0, 4]), "there is no device block 4; there are 4"),
    "too low": (lambda r: r.ledger.foreign_reused([-1]), "there is no device block -1"),
    "no references": (lambda r: r.ledger.foreign_freed([1]), "1 is no reference"),  # type: ignore[list-item]
    "allocate": (lambda r: r.ledger.allocate(r.open(), 1), "the engine allocates the device blocks"),
    "seal": (lambda r: r.ledger.seal(r.open(), r.gives(0), keys(1)), "the engine allocates the device blocks"),
    "release": (lambda r: r.ledger.release(r.open(), r.gives(0)), "block 0 gen 1 does not belong to lease"),
    "hold": (lambda r: r.ledger.hold(r.open(), r.gives(0), deadline=1.0), "can't be held by lease"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_what_makes_no_sense_is_refused(rig: Engine, name: str) -> None:
    ask, sentence = NONSENSE[name]
    answer = ask(rig)
    assert isinstance(answer, Refusal)
    assert sentence in answer.reason
    assert rig.ledger.fatal is None


def test_a_ledger_whose_blocks_are_its_own_hears_no_allocator() -> None:
    rig = Rig()
    for report in (rig.ledger.foreign_allocated, rig.ledger.foreign_reused):
        rig.refuses(lambda report=report: report([0]), "`allocate` gives blocks of it")  # type: ignore[misc]
    rig.refuses(lambda: rig.ledger.foreign_freed([BlockRef(0, 0)]), "`release` gives blocks back")
    lease, refs = rig.sealed(1)
    rig.refuses(lambda: rig.ledger.offload(lease, refs, keys=keys(1)), "the ledger knows the keys")
    rig.refuses(lambda: rig.ledger.offload(lease, refs, group=0), "the ledger knows the keys")


def test_only_the_device_can_be_the_engines() -> None:
    with pytest.raises(ConfigError, match="host is foreign; only the first pool"):
        LedgerConfig((PoolConfig("device", 1), PoolConfig("host", 1, foreign=True)))


# -- stores ------------------------------------------------------------------------------------------------------------


def test_a_store_takes_the_keys_with_it(rig: Engine) -> None:
    refs = rig.gives(0, 1, 2)
    rig.store(refs[:2], 1, 2)
    [work] = rig.works()
    assert work == Work(Token(1, 1), "store", 0, "cpu", 1, (0, 1), (4, 5), (key(1), key(2)), 0, ("a",))
    rig.report(work)
    assert rig.verdict().keys == tuple(keys(1, 2))
    hit = rig.lookup(rig.open(), 1, 2)
    assert hit.below == (0, 1), "a hit is never on the device"


def test_what_can_not_be_stored_is_dropped_with_the_reason(rig: Engine) -> None:
    rig.stored(9)
    old, refs = rig.gives(0), rig.gives(0, 1, 2, 3)
    rig.frees(refs[3:])
    lease = rig.open()
    wanted = [old[0], refs[0], refs[0], refs[1], refs[2], refs[3], BlockRef(4, 0)]
    stored = rig.ledger.offload(lease, wanted, keys=keys(1, 2, 2, 9, 2, 5, 6))
    assert isinstance(stored, Stored)
    assert stored.refs == refs[:1]
    assert [line.reason for line in stored.dropped] == [
        "its generation is over: the engine has given the block to another since",
        "listed twice",
        "stored already, or being stored",
        "its key is listed twice",
        "it is outside",
        "it is not on the device",
    ]
    rig.refuses(lambda: rig.ledger.offload(lease, refs), "no key names a block of the engine's")
    rig.refuses(lambda: rig.ledger.offload(lease, refs, keys=keys(1)), "4 blocks and 1 keys: give a key for each")
    rig.refuses(lambda: rig.ledger.offload(lease, refs[1:2], keys=keys(3), group=0), "this ledger has no groups")
    rig.refuses(lambda: rig.ledger.offload(lease, old, keys=keys(7)), "nothing to store")


def test_a_store_that_lost_its_source_under_the_copy_stores_nothing(rig: Engine) -> None:
    """I04: the copy is done, and what it read may be the next owner's."""
    refs = rig.gives(0, 1)
    rig.store(refs, 1, 2)
    [work] = rig.works()
    reused = rig.ledger.foreign_reused([0])
    assert isinstance(reused, Given)
    assert reused.writing == (), "a reader does the next owner no harm"
    rig.report(work)
    verdict = rig.verdict()
    assert verdict.ending is Ending.FAILED
    assert [(error.code, error.block, error.generation, error.stage) for error in verdict.errors] == [
        (Code.BLOCK_TAKEN, 0, 1, "store"),
        (Code.BLOCK_TAKEN, -1, -1, "store"),
    ]
    assert "given away meanwhile" in str(verdict.errors[1])
    assert rig.key_state(1) == rig.key_state(2) == "absent"
    assert rig.store(reused.refs, 3), "the new life can be stored"


def test_a_store_that_lost_its_source_in_the_queue_ends_at_once(rig: Engine) -> None:
    """I13, and the hold is what a job has before its copy begins."""
    engine = Engine(max_jobs=1)
    refs = engine.gives(0, 1)
    engine.store(refs[:1], 1)
    job = engine.store(refs[1:], 2)
    assert engine.frees(refs[1:]) == refs[1:]
    assert engine.holds() == [Hold(refs[1])]
    assert engine.fires(lambda: engine.ledger.foreign_allocated([1])) >= {"E06", "O03"}
    verdict = engine.verdict()
    assert (verdict.job, verdict.ending, verdict.errors[0].code) == (job, Ending.FAILED, Code.BLOCK_TAKEN)
    assert engine.is_(1) == "owned"
    assert engine.holds() == [], "what was broken is not given back"
    engine.check()


def test_a_job_begins_on_a_block_that_is_held_for_it(rig: Engine) -> None:
    engine = Engine(max_jobs=1)
    refs = engine.gives(0, 1)
    engine.store(refs[:1], 1)
    engine.store(refs[1:], 2)
    [first] = engine.works()
    engine.frees(refs[1:])
    assert engine.fires(lambda: engine.report(first)) >= {"E19"}
    [second] = engine.works()
    assert engine.fires(lambda: engine.report(second)) >= {"E21", "E20"}
    assert engine.sent[-1] == Unhold(refs[1]) or engine.holds() == [Unhold(refs[1])]
    engine.check()


def test_a_source_that_is_lost_between_two_attempts_ends_the_job(rig: Engine) -> None:
    refs = rig.gives(0)
    rig.store(refs, 1)
    [work] = rig.works()
    rig.report(work, "failed")
    assert rig.fires(lambda: rig.ledger.foreign_reused([0])) >= {"E06", "O46"}
    assert [error.code for error in rig.verdict().errors] == [Code.UNKNOWN, Code.BLOCK_TAKEN]


def test_a_part_that_had_landed_before_is_not_spoiled(rig: Engine) -> None:
    """What was read was right; only another attempt there can't be."""
    refs = rig.gives(0, 1, 2)
    rig.store(refs, 1, 2, 3)
    first, second = rig.works()
    rig.report(first)
    assert rig.fires(lambda: rig.ledger.foreign_reused([0])) == {"E06", "O60"}
    rig.report(second)
    assert rig.verdict().ending is Ending.COMMITTED


def test_no_attempt_is_made_with_a_source_that_is_gone(rig: Engine) -> None:
    refs = rig.gives(0, 1, 2)
    rig.store(refs, 1, 2, 3)
    first, second = rig.works()
    rig.report(first)
    rig.ledger.foreign_reused([0])
    rig.report(second, "failed")
    assert rig.verdict().ending is Ending.FAILED


def test_a_job_that_is_stopping_hears_it_and_does_nothing(rig: Engine) -> None:
    refs = rig.gives(0)
    job = rig.store(refs, 1)
    [work] = rig.works()
    assert rig.ledger.cancel(job)
    assert rig.fires(lambda: rig.ledger.foreign_reused([0])) == {"E06", "P14", "O61"}
    rig.report(work, "cancelled")
    assert rig.verdict().ending is Ending.CANCELLED
    assert rig.is_(0) == "owned"


def test_a_copied_source_is_nobodys_business(rig: Engine) -> None:
    rig = Engine(pools=(POOLS[0], PoolConfig("disk", 4, durable=True)))
    refs = rig.gives(0)
    rig.store(refs, 1)
    [work] = rig.works()
    rig.report(work)
    [persist] = rig.works()
    assert rig.fires(lambda: rig.ledger.foreign_reused([0])) == {"E05"}
    rig.report(persist)
    assert rig.verdict().ending is Ending.COMMITTED
    rig.check()
