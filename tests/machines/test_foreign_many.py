"""Blocks of an engine's own in numbers: what is done with many at once is what is done with each of them.

Two ledgers are told the same, one with the forms for many records and one that has none, and have to agree on all that
can be seen of them.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from kvstate.machines.config import PoolConfig
from kvstate.machines.messages import BlockRef, Hold, Unhold, Work
from kvstate.machines.ports import ForeignPort
from kvstate.machines.verdicts import Freed, Given, Refusal, Stored
from tests.machines.foreign_rig import Engine
from tests.machines.rig import keys

COUNT = 80
"""Device blocks: more than `bulk.WIDE`, so that NumPy is asked, too."""


@pytest.fixture(params=[6, 70])
def size(request: pytest.FixtureRequest) -> int:
    """Few blocks, which a loop takes, and many."""
    count: int = request.param
    return count


def engine(**config: Any) -> Engine:
    pools = (PoolConfig("device", COUNT, foreign=True), PoolConfig("host", COUNT, verify=True))
    return Engine(**({"pools": pools, "part_blocks": 128, "batch_blocks": 128} | config))


def scattered(size: int) -> list[int]:
    """So many device blocks, no run of them."""
    blocks = list(range(COUNT))
    Random(3).shuffle(blocks)
    return blocks[:size]


def one_by_one(rig: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on no block of the engine's goes with another."""
    monkeypatch.setattr(ForeignPort, "at_once", lambda _self, _blocks, _event, owned: False)


def ended(rig: Engine) -> list[type]:
    """All that is under way is done; what the engine was asked for meanwhile, in order."""
    asked: list[type] = []
    while effects := rig.effects():
        asked += [type(effect) for effect in effects if isinstance(effect, Hold | Unhold)]
        for effect in effects:
            if isinstance(effect, Work):
                rig.report(effect)
    return asked


def life(rig: Engine, size: int) -> list[Any]:
    """Blocks are given, stored, freed under the copy, given again, loaded into, and freed; what was seen of it."""
    names = range(size)
    refs = rig.gives(*scattered(size))
    rig.store(refs, *names)
    seen: list[Any] = [list(rig.frees(refs)), ended(rig), rig.verdicts()]
    refs = rig.gives(*scattered(size))
    lease, _ = rig.fill(refs, *names)
    seen += [ended(rig), rig.verdicts(), list(rig.frees(refs))]
    rig.ledger.finish(lease)
    seen += [list(refs.generations), list(rig.books.engine.state), list(rig.books.engine.generation), rig.books.stale]
    return seen


def test_many_at_once_are_as_each_of_them(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    together, alone = engine(), engine()
    found = life(together, size)
    one_by_one(alone, monkeypatch)
    assert found == life(alone, size)
    assert together.ledger.fired() == alone.ledger.fired()
    assert found[:2] == [list(zip(scattered(size), [1] * size, strict=True)), [Hold] * size + [Unhold] * size]


def test_a_block_that_is_freed_twice_or_by_an_old_reference_is_counted_each_time(size: int) -> None:
    rig = engine()
    refs = rig.gives(*range(size))
    assert rig.frees(refs) == []
    assert rig.books.stale == 0
    assert rig.frees(refs) == []
    assert rig.books.stale == size
    rig.gives(*range(size))
    assert rig.frees(refs) == []
    assert rig.books.stale == 2 * size


def test_no_blocks_are_given_and_taken(size: int) -> None:
    rig = engine()
    given = rig.ledger.foreign_allocated([])
    assert isinstance(given, Given)
    assert (list(given.refs), given.writing) == ([], ())
    freed = rig.ledger.foreign_freed(given.refs)
    assert isinstance(freed, Freed)
    assert list(freed.held) == []
    assert rig.ledger.fatal is None


def test_one_block_that_a_load_fills_has_all_go_one_by_one(size: int) -> None:
    """The engine takes them back in the middle of the load: it falls, at each of them."""
    rig = engine()
    rig.stored(*range(size))
    refs = rig.gives(*range(size))
    rig.fill(refs, *range(size))
    held = rig.frees(refs)
    assert len(held) == size
    assert ended(rig) == [Hold] * size + [Unhold] * size
    assert all(rig.is_(block) == "outside" for block in range(size))


def test_of_many_that_are_to_be_stored_those_that_can_not_are_named(size: int) -> None:
    rig = engine()
    rig.stored(0)
    refs = rig.gives(*range(size))
    stored = rig.ledger.offload(rig.open(), [*refs, refs[1]], keys=[*keys(*range(size)), keys(1)[0]])
    assert isinstance(stored, Stored)
    assert [(one.ref, one.reason) for one in stored.dropped] == [
        (refs[0], "stored already, or being stored"), (refs[1], "listed twice"),
    ]  # fmt: skip
    assert stored.refs == list(refs[1:])


def test_nothing_or_a_key_twice_is_no_list_for_all_at_once(size: int) -> None:
    rig = engine()
    assert isinstance(rig.ledger.offload(rig.open(), [], keys=[]), Refusal)
    refs = rig.gives(*range(size))
    stored = rig.ledger.offload(rig.open(), refs, keys=keys(*[5] * size))
    assert isinstance(stored, Stored)
    assert {one.reason for one in stored.dropped} == {"its key is listed twice"}
    old = rig.gives(*range(size))
    refused = rig.ledger.offload(rig.open(), refs, keys=keys(*range(10, 10 + size)))
    assert isinstance(refused, Refusal)
    assert "its generation is over" in refused.reason
    assert len(old) == size


def test_of_many_that_are_to_be_filled_the_first_that_can_not_is_named(size: int) -> None:
    rig = engine()
    rig.stored(*range(size))
    refs = rig.gives(*range(size))
    lease = rig.open()
    hit = rig.lookup(lease, *range(size))
    refused = rig.ledger.load(lease, hit, [*refs[:-1], refs[0]], deadline=10.0)
    assert isinstance(refused, Refusal)
    assert refused.reason == "a block is listed twice; a block is filled once"
    refused = rig.ledger.load(lease, hit, [*refs[:-1], BlockRef(COUNT, 0)], deadline=10.0)
    assert isinstance(refused, Refusal)
    assert refused.reason == f"block {COUNT} gen 0 is no destination: the engine does not have it"
