"""Loops and NumPy can't be told apart: by themselves, in the eviction order, and under a whole ledger."""

from __future__ import annotations

import random
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstate.machines import bulk
from kvstate.machines.audit import audit
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, BlockRefs, Outcome, Report, Work
from kvstate.machines.policy import LRU
from kvstate.machines.verdicts import Grant, Hit, Started

NEVER = 10**9
Wide = Callable[[int], None]


@contextmanager
def wide(least: int, numpy: bool = True) -> Iterator[None]:
    """Look at so many slots and more with NumPy."""
    with pytest.MonkeyPatch.context() as patch:
        bulk.look_for_numpy()
        patch.setattr(bulk, "WIDE", least)
        if not numpy:
            patch.setattr(bulk, "columns", None)
            patch.setattr(bulk, "look_for_numpy", lambda: None)
        yield


# -- by themselves -----------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 30), unique=True), st.sampled_from("Bqd"), st.integers(0, 200))
def test_the_two_ways_agree(slots: list[int], code: str, value: int) -> None:
    there = array("q", slots)
    found = []
    for least in (0, NEVER):
        with wide(least):
            column = array(code, range(31))
            got = bulk.gather(column, there)
            same = bulk.all_are(column, there, 7)
            bulk.put(column, there, value)
            both = bulk.all_are(column, there, value)
            bulk.spread(column, there, got[::-1])
            up = bulk.ascending(value, len(slots))
            agree = bulk.agreeing(there, up), bulk.where_agreeing(there, there, there[::-1])
            found.append((got, same, both, column, up, agree, bulk.distinct(there)))
    assert found[0] == found[1]
    assert found[0][0] == array(code, slots)
    assert found[0][2], "what was put there stands there"
    assert found[0][6], "no slot is listed twice"


@given(st.lists(st.integers(0, 5)))
def test_what_is_listed_twice_is_seen(slots: list[int]) -> None:
    for least in (0, NEVER):
        with wide(least):
            assert bulk.distinct(array("q", slots)) == (len(set(slots)) == len(slots))


# -- references --------------------------------------------------------------------------------------------------------


def test_references_are_a_sequence() -> None:
    refs = BlockRefs.of([BlockRef(3, 1), BlockRef(5, 0), BlockRef(4, 7)])
    assert list(refs) == [(3, 1), (5, 0), (4, 7)]
    assert refs == [(3, 1), (5, 0), (4, 7)]
    assert refs == BlockRefs.of(tuple(refs))
    assert refs != [(3, 1), (5, 0)]
    assert refs != "refs"
    assert hash(refs) == hash(BlockRefs.of(refs[:]))
    assert (refs[1], refs[-1]) == (BlockRef(5, 0), BlockRef(4, 7))
    assert refs[1:] == [(5, 0), (4, 7)]
    assert refs.at(array("q", [2, 0])) == [(4, 7), (3, 1)]
    assert refs.bound == 6
    assert BlockRef(5, 0) in refs
    assert repr(refs) == "BlockRefs(3 gen 1, 5 gen 0, 4 gen 7)"
    assert BlockRefs.of([BlockRef(-1, 0)]).bound > 2**62, "nobody knows what that would be"
    assert not BlockRefs.of([])
    for wrong in ([BlockRef(2**70, 0)], [(1, 2, 3)], [(1,)], [("a", 0)], [7]):
        with pytest.raises((OverflowError, TypeError, ValueError)):
            BlockRefs(wrong)  # type: ignore[arg-type]


# -- the order of eviction ---------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.sampled_from([0, 4, NEVER]))
def test_the_oldest_leaves_first(seed: int, least: int) -> None:
    """Against an ordered dictionary, over batches of all sizes, with the queue shortened again and again."""
    dice, blocks = random.Random(seed), range(50, 450)
    policy, model = LRU(blocks), OrderedDict[int, None]()
    with wide(least):
        for _ in range(60):
            free = [block for block in blocks if block not in model]
            coming = array("q", dice.sample(free, min(len(free), dice.choice([0, 1, 3, 40, 200]))))
            policy.cached(coming)
            model.update(dict.fromkeys(coming))
            first = dice.random() < 0.5
            going = list(model)[: dice.choice([0, 1, 5, 90])]
            if not first:
                going = dice.sample(list(model), len(going))
            policy.taken(array("q", going))
            for block in going:
                del model[block]
            assert len(policy) == len(model)
            wanted = dice.choice([1, 7, 1000])
            assert list(chain.from_iterable(policy.victims(wanted))) == list(model)
    assert len(policy.queue) <= 2 * len(model) + 512, "what is dead does not stay for ever"


# -- a whole ledger ----------------------------------------------------------------------------------------------------


class Twins:
    """Ledgers that are asked the same and must answer the same, each with its own way of looking at many slots."""

    WAYS = ((2, True), (NEVER, True), (2, False))

    def __init__(self) -> None:
        pools = (PoolConfig("device", 60), PoolConfig("host", 50, verify=True), PoolConfig("far", 40))
        config = LedgerConfig(pools, part_blocks=24, batch_blocks=24, attempts=2, cool_for=0.3)
        self.ledgers = []
        for way in self.WAYS:
            with wide(*way):
                self.ledgers.append(Ledger(config))
        self.flying: list[Work] = []

    def all(self, ask: Callable[[Ledger], object]) -> object:
        """What all of them answer."""
        answers = []
        for way, ledger in zip(self.WAYS, self.ledgers, strict=True):
            with wide(*way):
                answers.append(ask(ledger))
        assert answers[0] == answers[1] == answers[2]
        return answers[0]

    def settle(self) -> None:
        """They agree on everything, and everything balances."""
        effects = self.all(lambda ledger: ledger.take_effects())
        assert isinstance(effects, list)
        self.flying += [effect for effect in effects if isinstance(effect, Work)]
        self.all(lambda ledger: ledger.take_verdicts())
        self.all(lambda ledger: ledger.canonical_hash())
        self.all(lambda ledger: ledger.fired())
        assert self.all(lambda ledger: ledger.fatal) is None
        assert self.all(audit) == []


def asks(dice: random.Random, leases: list[int], twins: Twins) -> Callable[[Ledger], object]:
    """Something to ask, in numbers that are now few and now many."""
    lease, many = dice.choice(leases), dice.choice([1, 2, 5, 20, 45])
    start = dice.choice([0, 0, 100, 200])
    keys = [b"key %d" % number for number in range(start, start + many)]
    pool, cut, choice = dice.choice([1, 2]), dice.randrange(4), dice.randrange(10)

    def own(ledger: Ledger) -> BlockRefs:
        books = ledger.books
        return books.refs(books.owned(books.leases[lease]))

    def ask(ledger: Ledger) -> object:
        match choice:
            case 0 | 1:
                grant = ledger.allocate(lease, many)
                return isinstance(grant, Grant) and ledger.seal(lease, grant.blocks, keys)
            case 2:
                return ledger.offload(lease, own(ledger)[cut:], pool=pool)
            case 3 | 4:
                hit = ledger.lookup(lease, keys)
                if not isinstance(hit, Hit) or not hit.below:
                    return hit
                grant = ledger.allocate(lease, len(hit.below))
                if not isinstance(grant, Grant):
                    return ledger.unpin(hit)
                started = ledger.load(lease, hit, grant.blocks, deadline=ledger.books.now + 0.5)
                return started, isinstance(started, Started)
            case 5:
                return ledger.release(lease, own(ledger)[: cut * 7])
            case 6:
                return ledger.tick(ledger.books.now + 0.1)
            case 7:
                return ledger.hold(lease, own(ledger)[cut : cut + 30], deadline=ledger.books.now + 0.4)
            case 8:
                return ledger.allocate(lease, many), ledger.seal(lease, own(ledger), keys)
            case _:
                return ledger.reset() if cut == 0 else None

    return ask


def answer(dice: random.Random, twins: Twins) -> Callable[[Ledger], object]:
    work = twins.flying.pop(dice.randrange(len(twins.flying)))
    outcome = dice.choice([Outcome.DONE] * 5 + list(Outcome))
    return lambda ledger: ledger.report(Report(work.token, outcome))


@pytest.mark.parametrize("seed", range(8))
def test_ledgers_with_and_without_columns_are_one(seed: int) -> None:
    dice, twins = random.Random(seed), Twins()
    leases = [int(str(twins.all(lambda ledger: ledger.open("a")))) for _ in range(3)]
    step = 0
    for _ in range(250):
        what = dice.random()
        if what < 0.4 and twins.flying:
            twins.all(answer(dice, twins))
        elif what < 0.5:
            gone = leases.pop(dice.randrange(3))
            twins.all(lambda ledger, gone=gone: ledger.finish(gone))  # type: ignore[misc]
            leases.append(int(str(twins.all(lambda ledger: ledger.open("a")))))
        elif what < 0.55:
            step += 1
            twins.all(lambda ledger, step=step: ledger.step_dispatched(step, leases[:2]))  # type: ignore[misc]
        elif what < 0.6 and step:
            twins.all(lambda ledger, step=step: ledger.step_retired(step))  # type: ignore[misc]
        else:
            twins.all(asks(dice, leases, twins))
        twins.settle()
