"""Loops and NumPy can't be told apart: by themselves, in the eviction order, and under a whole ledger."""

from __future__ import annotations

import pickle
import random
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy, deepcopy
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstate.machines import bulk
from kvstate.machines.audit import audit
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, BlockRefs, Outcome, Report, Token, Work
from kvstate.machines.policy import LRU
from kvstate.machines.verdicts import Grant, Hit, Started
from tests.long import long_but

NEVER = 10**9
Wide = Callable[[int], None]


@contextmanager
def wide(least: int, numpy: bool = True, fewest: int = bulk.FEWEST) -> Iterator[None]:
    """Look at so many slots and more with NumPy, and see whether so many are a run."""
    with pytest.MonkeyPatch.context() as patch:
        bulk.look_for_numpy()
        patch.setattr(bulk, "WIDE", least)
        patch.setattr(bulk, "FEWEST", fewest)
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
            ends = bulk.bounds(there) if slots else ()
            found.append((got, same, both, column, up, agree, bulk.distinct(there), ends))
    assert found[0] == found[1]
    assert found[0][0] == array(code, slots)
    assert found[0][2], "what was put there stands there"
    assert found[0][6], "no slot is listed twice"


@given(st.lists(st.integers(0, 5)))
def test_what_is_listed_twice_is_seen(slots: list[int]) -> None:
    for least in (0, NEVER):
        with wide(least):
            assert bulk.distinct(array("q", slots)) == (len(set(slots)) == len(slots))


FIRST = len(bulk._FIRST)


@given(st.sampled_from([0, 1, 7, FIRST - 20, FIRST + 3]), st.integers(1, 40), st.booleans(), st.sampled_from("Bqd"))
def test_a_run_is_the_array_that_it_was_made_from(first: int, count: int, up: bool, code: str) -> None:
    slots = array("q", range(first, first + count))[:: 1 if up else -1]
    with wide(2, fewest=1):
        run = bulk.run(slots)
    assert type(run) is bulk.Run
    assert run == slots
    column, names = array(code, [0] * first + list(range(count))), [b"%d" % slot for slot in range(first + count)]
    assert bulk.gather(column, run) == bulk.gather(column, slots)
    assert bulk.listed(names, run) == bulk.listed(names, slots) == [names[slot] for slot in slots]
    forms: list[tuple[array[int], list[bytes]]] = []
    for form in (run, slots):
        put, listed = column[:], names[:]
        bulk.spread(put, form, array(code, range(count)))
        bulk.place(listed, form, [b"new %d" % number for number in range(count)])
        assert not bulk.all_are(put, form, 99)
        forms.append((put, listed))
        bulk.put(put, form, 99)
        assert bulk.all_are(put, form, 99)
    assert forms[0] == forms[1]
    assert bulk.distinct(run)
    for low, high in ((first, first + count), (first + 1, first + count), (first, first + count - 1)):
        assert bulk.distinct_within(run, low, high) == bulk.distinct_within(slots, low, high)
    back = bulk.backwards(run)
    assert (type(back), back) == (bulk.Run, slots[::-1])
    assert bulk.gather(column, back) == bulk.gather(column, slots[::-1])
    for place in (slice(None), slice(3), slice(2, 1000), slice(5, 5), slice(None, None, 2)):
        some = bulk.cut(run, place)
        assert some == bulk.cut(slots, place) == slots[place]
        assert bulk.gather(column, some) == bulk.gather(column, slots[place])


def test_only_what_stands_one_after_the_other_is_a_run() -> None:
    with wide(2, fewest=3):
        few: list[list[int]] = [[], [4], [4, 5]]
        for slots in (*few, [4, 5, 7], [4, 6, 5, 7], [7, 5, 6, 4], [5, 5, 5], [3, 3, 5], [-1, 0, 1], [1, 0, -1]):
            there = array("q", slots)
            assert bulk.run(there) is there
        assert type(bulk.run(array("q", [4, 5, 6]))) is type(bulk.run(array("q", [2, 1, 0]))) is bulk.Run


def test_a_run_is_never_changed_and_its_copies_are_arrays_like_any_other() -> None:
    run = bulk.run(array("q", range(20)))
    changes: list[Callable[[], object]] = [
        lambda: run.append(3), lambda: run.extend([3]), lambda: run.remove(3), run.pop, run.reverse,
        lambda: run.insert(0, 3), lambda: run.__setitem__(0, 3), lambda: run.__delitem__(0),
        lambda: run.__iadd__(run), lambda: run.__imul__(2),
    ]  # fmt: skip
    for change in changes:
        with pytest.raises(TypeError, match="a run of slots is never changed"):
            change()
    for copied in (copy(run), deepcopy(run), pickle.loads(pickle.dumps(run)), run[:], run + run[:0]):
        assert type(copied) is array
        assert copied == run == array("q", range(20))
        assert repr(copied) == repr(run)


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
    policy, model = LRU(blocks, list), OrderedDict[int, None]()
    with wide(least):
        for _ in range(60):
            free = [block for block in blocks if block not in model]
            coming = array("q", dice.sample(free, min(len(free), dice.choice([0, 1, 3, 40, 200]))))
            policy.cached(coming, 0)
            model.update(dict.fromkeys(coming))
            first = dice.random() < 0.5
            going = list(model)[: dice.choice([0, 1, 5, 90])]
            if not first:
                going = dice.sample(list(model), len(going))
            (policy.hit if first else policy.gone)(array("q", going))
            for block in going:
                del model[block]
            assert len(policy) == len(model)
            wanted = dice.choice([1, 7, 1000])
            assert list(chain.from_iterable(policy.victims(wanted))) == list(model)
    assert len(policy.queue) <= 2 * len(model) + 512, "what is dead does not stay for ever"


# -- a whole ledger ----------------------------------------------------------------------------------------------------


class Twins:
    """Ledgers that are asked the same and must answer the same, each with its own way of looking at many slots."""

    WAYS = ((2, True, 1), (NEVER, True, NEVER), (2, False, 3), (2, True, NEVER))

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
        assert answers == answers[:1] * len(answers)
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
                return ledger.release(lease, own(ledger)[: cut * 7 if many > 1 else 1])
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


@pytest.mark.parametrize("seed", long_but(range(3), range(8)))
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


# -- one block, in fewer steps -----------------------------------------------------------------------------------------


def test_one_block_goes_the_way_of_many() -> None:
    """One block alone against the same block listed twice, which counts once and goes the long way; and all together.

    Among them are blocks that a step still touches, that are shared, that were sealed, and that were given back before.
    """
    told = []
    for times in (1, 2):
        ledger = Ledger(LedgerConfig((PoolConfig("device", 12), PoolConfig("host", 4))))
        lease, other = ledger.open("a"), ledger.open("a")
        assert isinstance(lease, int)
        assert isinstance(other, int)
        grants = [ledger.allocate(lease, 1) for _ in range(8)] if times == 1 else [ledger.allocate(lease, 8)]
        refs = BlockRefs(ref for grant in grants if isinstance(grant, Grant) for ref in grant.blocks)
        ledger.seal(lease, refs[4:6], [b"4", b"5"])
        ledger.lookup(other, [b"4"])
        hold = ledger.hold(lease, refs[2:3], deadline=9.0)
        assert isinstance(hold, Token)
        asked = [(lease, refs[place]) for place in (7, 0, 7, 5, 4, 3)]
        asked += [
            (other, refs[4]),
            (other, refs[1]),
            (lease, BlockRef(1, 7)),
            (lease, BlockRef(99, 0)),
            (lease, refs[2]),
        ]
        answers: list[object] = []
        for step, (who, ref) in enumerate([*asked, *((lease, refs[place]) for place in (2, 1, 6))], 1):
            if ref == refs[1]:
                ledger.step_dispatched(step, [lease])
            answers.append(ledger.release(who, BlockRefs([ref] * times)))
            ledger.step_retired(step)
            answers.append((ledger.canonical_hash(), ledger.fired(), audit(ledger)))
        ledger.report(Report(hold, Outcome.DONE))
        told.append([*answers, ledger.canonical_hash(), list(ledger.books.leases[lease].own), ledger.fatal])
    assert told[0] == told[1]
