"""The eviction that learns: held against a model of ordered dictionaries, and against LRU on traffic that it is for."""

from __future__ import annotations

import random
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstate.machines import bulk
from kvstate.machines.adaptive import SHRINK, Adaptive
from kvstate.machines.canonical import digest
from kvstate.machines.policy import LRU, Policy
from kvstate.replay.workload import generate
from tests.long import long_but
from tests.machines.rig import Rig, key


@contextmanager
def wide(least: int) -> Iterator[None]:
    """NumPy from so many blocks on."""
    bulk.look_for_numpy()
    before, bulk.WIDE = bulk.WIDE, least
    try:
        yield
    finally:
        bulk.WIDE = before


class Model:
    """What `Adaptive` does, in few words: two ordered dictionaries, and a set of marks that forgets what it must."""

    def __init__(self, blocks: range, size: int) -> None:
        self.once, self.again = OrderedDict[int, None](), OrderedDict[int, None]()
        self.most, self.share, self.size = len(blocks), len(blocks) // 2, size
        self.asked: set[int] = set()
        self.left: dict[int, tuple[int, bool]] = {}

    def cached(self, blocks: Sequence[int], marks: Sequence[int], known: bool) -> bool:
        for block, mark in zip(blocks, marks, strict=True):
            place, left = mark % self.size, self.left.get(mark % self.size)
            if block in self.asked:
                known = True
            elif left is not None and left[0] == mark >> 1:
                del self.left[place]
                known = True
                self.share += -SHRINK if left[1] else 1
                self.share = max(0, min(self.most, self.share))
            (self.again if known else self.once)[block] = None
        return known

    def take(self, block: int) -> bool:
        again = block in self.again
        del (self.again if again else self.once)[block]
        return again

    def order(self) -> list[int]:
        spare = max(len(self.once) - self.share, 0)
        once = list(self.once)
        return [*once[:spare], *self.again, *once[spare:]]


@given(st.integers(0, 2**32), st.sampled_from([0, 4, 10**9]))
def test_it_does_what_the_model_does(seed: int, least: int) -> None:
    dice, blocks = random.Random(seed), range(20, 90)
    names = dict.fromkeys(blocks, 0)
    policy = Adaptive(blocks, lambda those: array("I", [names[block] for block in those]))
    model = Model(blocks, len(policy.gone_keys))
    turn, known = 0, False
    with wide(least):
        for _ in range(60):
            free = [block for block in blocks if block not in model.once and block not in model.again]
            coming = dice.sample(free, min(len(free), dice.choice([0, 1, 3, 20])))
            if dice.random() < 0.7:
                turn, known = turn + 1, False
            for block in coming:
                if block not in model.asked:
                    names[block] = dice.choice([dice.randrange(2, 200), dice.randrange(2, 2**32)])
            if coming:
                policy.cached(array("q", coming), turn)
                known = model.cached(coming, [names[block] for block in coming], known)
            going = dice.sample(model.order(), min(len(policy), dice.choice([0, 1, 5, 30])))
            if dice.random() < 0.5:
                going = model.order()[: len(going)]
            evicted = dice.random() < 0.6
            if going:
                (policy.gone if evicted else policy.hit)(array("q", going))
            for block in going:
                again = model.take(block)
                if evicted:
                    model.left[names[block] % model.size] = names[block] >> 1, again
                    model.asked.discard(block)
                else:
                    model.asked.add(block)
            assert (len(policy), policy.share) == (len(model.order()), model.share)
            wanted = dice.choice([1, 7, 1000])
            assert list(chain.from_iterable(policy.victims(wanted))) == model.order()


# -- on a ledger -------------------------------------------------------------------------------------------------------


def lives(rig: Rig, names: Sequence[int]) -> int:
    """A request over these keys, from its lookup to its end; how many of them were hits."""
    lease = rig.open()
    hit = rig.lookup(lease, *names)
    found = len(hit.blocks)
    if found < len(names):
        refs = rig.allocate(lease, len(names) - found)
        rig.ledger.seal(lease, refs, [key(name) for name in names[found:]])
    rig.ledger.finish(lease)
    return found


def test_a_scan_does_not_drive_out_what_is_asked_for(make_rig: Callable[..., Rig]) -> None:
    found = {}
    for make in (LRU, Adaptive):
        rig = make_rig(device=8, ledger={"policy": make})
        lives(rig, [1, 2])
        lives(rig, [1, 2])
        for one in range(100, 140):
            lives(rig, [one])
        found[make] = lives(rig, [1, 2])
    assert found == {LRU: 0, Adaptive: 2}


def test_a_prompt_that_came_back_is_known_as_far_as_its_head(make_rig: Callable[..., Rig]) -> None:
    """One of its keys is enough to know all in front of it again, and only those."""
    rig = make_rig(device=8, ledger={"policy": Adaptive})
    policy = rig.books.pools[0].evictable
    assert isinstance(policy, Adaptive)
    lives(rig, [1, 2, 3, 4])
    for one in range(100, 120):
        lives(rig, [one])
    marks = [mark for mark in policy.gone_keys if mark]
    third = rig.books.keys.make(0, "a", [key(3)])
    mark = rig.books.keys.marks[third[0]]
    rig.books.keys.drop(third)
    assert mark & ~1 in marks
    policy.gone_keys = array("I", [left if left >> 1 == mark >> 1 else 0 for left in policy.gone_keys])
    lives(rig, [1, 2, 3, 4])
    named = {rig.books.keys.keys[rig.books.keys.block_key[block]] for run in policy.again.victims(9) for block in run}
    assert named == {key(1), key(2), key(3)}


def test_what_it_remembers_is_part_of_what_a_ledger_is(make_rig: Callable[..., Rig]) -> None:
    """Two ledgers with the same blocks in the same order, and other memories, will not behave alike."""
    forms = []
    for first in (1, 50):
        rig = make_rig(device=4, ledger={"policy": Adaptive})
        for one in [first, *range(100, 110)]:
            lives(rig, [one])
        forms.append(digest(rig.books))
    assert forms[0] != forms[1]


# -- against LRU -------------------------------------------------------------------------------------------------------


def hits(make: Callable[[range, Callable[[Sequence[int]], Sequence[int]]], Policy], capacity: int, seed: int) -> int:
    """Hits of a generated workload in a cache of so many blocks, as an engine with a device pool alone has them."""
    names: dict[int, int] = {}
    where: dict[int, int] = {}
    policy = make(range(capacity), lambda blocks: [names[block] * 2654435761 % 2**32 for block in blocks])
    free, found = list(range(capacity)), 0
    for turn, request in enumerate(generate(2500, seed)):
        ids = list(dict.fromkeys(request.hash_ids))
        if len(ids) > capacity:
            continue
        prefix = [where[one] for one in ids[: next((n for n, one in enumerate(ids) if one not in where), len(ids))]]
        found += len(prefix)
        if prefix:
            policy.hit(prefix)
        rest = [one for one in ids[len(prefix) :] if one not in where]
        missing = len(ids) - len(prefix) - len(free)
        if missing > 0:
            victims = list(chain.from_iterable(policy.victims(missing)))[:missing]
            policy.gone(victims)
            for block in victims:
                del where[names[block]]
            free += victims
        mine = [free.pop() for _ in rest]
        names.update(zip(mine, rest, strict=True))
        where.update(zip(rest, mine, strict=True))
        policy.cached([*reversed([*prefix, *mine])], turn)
    return found


@pytest.mark.parametrize("capacity", long_but([300], [300, 1000, 3000]))
def test_it_is_not_behind_lru_on_generated_work(capacity: int) -> None:
    assert hits(Adaptive, capacity, 3) >= 0.98 * hits(LRU, capacity, 3)
