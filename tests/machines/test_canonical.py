"""The canonical form: what must make two ledgers different, and what must not.

That it is the same for a young and an old ledger, and stays so whatever they live through, is in
`tests/stateful/test_memory.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.canonical import canonical
from kvstate.machines.keybook import Space
from kvstate.machines.messages import Token, Work
from kvstate.machines.policy import LRU
from kvstate.machines.tables.key import State as K
from kvstate.machines.tables.service import State as Service
from kvstate.machines.verdicts import JobVerdict
from tests.machines.rig import Rig, failure, key


def busy() -> Rig:
    """Something of everything: a load of two batches, two jobs that run and two that wait, steps, a hold, a key that
    cools, one that is condemned, a lease that waits for a load, effects and verdicts that wait to be taken."""
    rig = Rig(device=9, host=10, part_blocks=1, batch_blocks=1, max_jobs=2, attempts=2, retry_delay=1.0, cool_for=50.0)
    rig.below(8, 9, 10, 11)
    rig.tick(1.0)
    lease, refs = rig.sealed(1, 2, 3, 4)
    for ref in refs:
        rig.offload(lease, [ref])
    rig.report(rig.works()[0], "failed", failure(Code.KV_OOM))
    for number, code in ((10, Code.CRC_MISMATCH), (11, Code.PERMISSION_DENIED)):
        other = rig.open()
        rig.load(other, rig.lookup(other, number))
        rig.report(rig.works()[0], "broken" if number == 10 else "denied", failure(code, 0))
        rig.ledger.finish(other)
    reader = rig.open()
    rig.load(reader, rig.lookup(reader, 8, 9))
    waiter = rig.open()
    assert rig.lookup(waiter, 8).pending
    rig.tick(1.25)
    rig.ledger.hold(lease, refs[:2], deadline=7.0)
    rig.step(2, waiter)
    rig.step(4, waiter, lease)
    cached, _ = rig.sealed(12, 13)
    rig.ledger.finish(cached)
    return rig


@pytest.fixture
def rig() -> Rig:
    return busy()


def test_the_same_history_gives_the_same_form(rig: Rig) -> None:
    assert canonical(rig.books) == canonical(busy().books)
    assert len(rig.ledger.canonical_hash()) == 64
    assert rig.ledger.canonical_hash() == busy().ledger.canonical_hash()


def part(books: Any, kind: str) -> Any:
    return next(part for part in books.parts.live() if part.kind == kind)


def swap_timers(books: Any) -> None:
    """Two timers of one time fire in the order in which they were armed: the deadlines of two jobs, exchanged."""
    first, second = [timer for timer in books.timers if timer.machine == "offload" and timer.event == "deadline"][:2]
    assert first.when == second.when
    books.timers[books.timers.index(first)] = first._replace(order=second.order)
    books.timers[books.timers.index(second)] = second._replace(order=first.order)


def turn(pool: Any) -> None:
    """What leaves first leaves last."""
    first = [next(pool.evictable.victims(1))[0]]
    pool.evictable.hit(first)
    pool.evictable.cached(first, 0)


def loading(books: Any) -> Any:
    [keys] = books.loading.values()
    return keys


def lease(books: Any, place: int) -> Any:
    return list(books.leases.values())[place]


def job(books: Any, place: int) -> Any:
    return books.jobs.live()[place]


def key_slot(books: Any, number: int, pool: int) -> int:
    return int(books.keys.find(pool, "a", key(number)))


def put(machine: str, name: str, slot: int, value: int) -> Callable[[Any], None]:
    def poke(books: Any) -> None:
        column = books.column(machine, name)
        assert column[slot] != value
        column[slot] = value

    return poke


def attribute(find: Callable[[Any], Any], name: str, value: Any) -> Callable[[Any], None]:
    def poke(books: Any) -> None:
        record = find(books)
        assert getattr(record, name) != value
        setattr(record, name, value)

    return poke


DIFFERENT: dict[str, Callable[[Any], object]] = {
    "block: state": put("block", "state", 8, 1),
    "block: owners": put("block", "owners", 0, 2),
    "block: readers": put("block", "readers", 0, 9),
    "block: lost": put("block", "lost", 0, 1),
    "block: published": put("block", "published", 0, 0),
    "pool: order of the free list": lambda books: books.pools[1].free.reverse(),
    "pool: order of eviction": lambda books: turn(books.pools[0]),
    "key: state": lambda books: put("key", "state", key_slot(books, 8, 1), K.COOLING)(books),
    "key: block": lambda books: books.keys.link([key_slot(books, 12, 0)], [0]),
    "key: name": lambda books: books.keys.keys.__setitem__(key_slot(books, 12, 0), b"?"),
    "key: namespace": lambda books: books.keys.spaces_of.__setitem__(key_slot(books, 12, 0), Space(0, "b")),
    "key: writer": lambda books: books.keys.writers.__setitem__(key_slot(books, 1, 1), job(books, 1).id),
    "lease: owner": lambda books: lease(books, 0).own.pop(0),
    "lease: order of its blocks": lambda books: lease(books, 0).own.reverse(),
    "lease: pin": lambda books: lease(books, 1).pins.popitem(),
    "lease: whose pin": lambda books: lease(books, 1).pins.__setitem__(next(iter(lease(books, 1).pins)), -1),
    "lease: epoch": lambda books: setattr(lease(books, 0), "epoch", 0),
    "lease: namespace": lambda books: setattr(lease(books, 0), "namespace", "b"),
    "lease: loads": lambda books: lease(books, 1).loads.clear(),
    "lease: steps": lambda books: lease(books, 2).steps.pop(),
    "job: state": put("offload", "state", 0, 1),
    "job: attempt": put("offload", "attempt", 0, 2),
    "job: deadline": lambda books: attribute(lambda books: job(books, 0), "deadline", 9.0)(books),
    "job: its blocks": lambda books: setattr(job(books, 1), "dsts", ()),
    "job: what it waits for": lambda books: setattr(job(books, 2), "after_step", 2),
    "job: what has failed": lambda books: job(books, 0).failures.clear(),
    "job: its lease": lambda books: setattr(job(books, 0), "lease", lease(books, 1).id),
    "queue: order": lambda books: books.queue.move_to_end(next(iter(books.queue))),
    "load: turn": lambda books: attribute(lambda books: books.loads.live()[-1], "turn", 1)(books),
    "load: hole": lambda books: attribute(lambda books: books.loads.live()[-1], "hole", 1)(books),
    "load: deadline": lambda books: attribute(lambda books: books.loads.live()[-1], "deadline", 3.0)(books),
    "load: total": lambda books: attribute(lambda books: books.loads.live()[-1], "total", 7)(books),
    "batch: state": lambda books: put("transfer", "state", books.batches.live()[0].slot, 7)(books),
    "batch: epoch": lambda books: attribute(lambda books: books.batches.live()[0], "epoch", 0)(books),
    "batch: its blocks": lambda books: attribute(lambda books: books.batches.live()[0], "dsts", ())(books),
    "batch: what failed": lambda books: books.batches.live()[0].failures.extend(job(books, 0).failures),
    "part: state": lambda books: put("part", "state", part(books, "fetch").slot, 6)(books),
    "part: owner": lambda books: setattr(part(books, "fetch"), "owner", None),
    "part: bad lines": lambda books: setattr(part(books, "fetch"), "bad", (0,)),
    "part: reads": lambda books: part(books, "hold").reads.pop(),
    "part: rank": lambda books: setattr(part(books, "fetch"), "rank", 3),
    "part: copier": lambda books: setattr(part(books, "fetch"), "copier", "disk"),
    "part: what it read": lambda books: setattr(
        part(books, "fetch"), "names", tuple(ref._replace(generation=9) for ref in part(books, "fetch").names)
    ),
    "step: number": lambda books: setattr(books, "last_step", books.last_step + 1),
    "step: over": lambda books: books.steps.pop(2),
    "step: who is out": lambda books: books.step_leases[books.steps[4]].pop(),
    "loading: gone": lambda books: books.loading.popitem(),
    "loading: whose": lambda books: loading(books).update(dict.fromkeys(loading(books), books.batches.live()[0].slot)),
    "pending: since": lambda books: books.pending_since.update(dict.fromkeys(books.pending_since, 0.5)),
    "timer: gone": lambda books: books.timers.pop(),
    "timer: when": lambda books: books.timers.__setitem__(-1, books.timers[-1]._replace(when=99.0)),
    "timer: what": lambda books: books.timers.__setitem__(-1, books.timers[-1]._replace(event="lapse")),
    "timer: order": swap_timers,
    "clock": lambda books: setattr(books, "now", books.now + 0.5),
    "service": put("service", "state", 0, Service.DRAINING),
    "effects: taken": lambda books: books.effects.clear(),
    "effects: order": lambda books: books.effects.reverse(),
    "effects: what": lambda books: books.effects.__setitem__(0, books.effects[0]._replace(copier="disk")),
    "effects: for whom": lambda books: books.effects.__setitem__(0, books.effects[0]._replace(token=Token(1, 999))),
    "effects: after which step": lambda books: books.effects.__setitem__(0, books.effects[0]._replace(after_step=2)),
    "verdicts: taken": lambda books: books.verdicts.clear(),
    "verdicts: what": lambda books: books.verdicts.__setitem__(0, books.verdicts[0]._replace(blocks=3)),
    "verdicts: why": lambda books: books.verdicts.__setitem__(0, books.verdicts[0]._replace(errors=())),
    "verdicts: to whom": lambda books: books.verdicts.__setitem__(
        0, books.verdicts[0]._replace(lease=lease(books, 0).id)
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
def test_what_decides_the_future_makes_a_difference(rig: Rig, what: str) -> None:
    before = rig.ledger.canonical_hash()
    DIFFERENT[what](rig.books)
    assert rig.ledger.canonical_hash() != before


ALIKE: dict[str, Callable[[Any], object]] = {
    "counters": lambda books: vars(books).update(stale=99, unknown=99, retries=99),
    "numbers to come": lambda books: vars(books).update(serial=9999, last_id=9999),
    "a generation that nobody names": lambda books: books.generation.__setitem__(8, 77),
    "since when": lambda books: setattr(job(books, 0), "since", -5.0),
    "slots that are free": lambda books: books.parts.free.reverse(),
    "an earlier step that is over": lambda books: setattr(job(books, 0), "after_step", 1),
    "a timer of nobody": lambda books: books.timers.append(books.timers[-1]._replace(uid=10**6, when=0.1)),
    "which job was told": lambda books: books.verdicts[0]._replace(lease=1),
}


@pytest.mark.parametrize("what", ALIKE)
def test_what_decides_nothing_makes_none(rig: Rig, what: str) -> None:
    before = rig.ledger.canonical_hash()
    ALIKE[what](rig.books)
    assert rig.ledger.canonical_hash() == before


def test_two_ways_to_one_state_are_one(rig: Rig) -> None:
    """What was refused, asked in vain, or taken back has left no trace."""
    before = rig.ledger.canonical_hash()
    other = rig.open()
    assert not rig.ledger.allocate(other, 99)
    hit = rig.lookup(other, 1, 2)
    assert rig.ledger.unpin(hit) is True
    rig.ledger.finish(other)
    assert rig.ledger.canonical_hash() == before


def test_for_which_step_a_store_waits_makes_a_difference(rig: Rig) -> None:
    hashes = set()
    for step in (0, 2, 4):
        job(rig.books, 2).after_step = step
        hashes.add(rig.ledger.canonical_hash())
    assert len(hashes) == 3


def test_the_order_of_letting_go_makes_a_difference() -> None:
    """It is the order of eviction."""
    hashes = []
    for order in ((0, 1), (1, 0)):
        rig = Rig()
        leases = [rig.sealed(number)[0] for number in (1, 2)]
        for place in order:
            rig.ledger.finish(leases[place])
        hashes.append(rig.ledger.canonical_hash())
    assert hashes[0] != hashes[1]


def test_of_an_order_that_remembers_nothing_the_order_is_all() -> None:
    """LRU has no memory of what left; ledgers that differ in that alone are one."""
    hashes = []
    for early in ((1,), (2, 1, 4)):
        rig = Rig(device=1, ledger={"policy": LRU})
        for number in (*early, 3):
            rig.ledger.finish(rig.sealed(number)[0])
        rig.effects()
        hashes.append(rig.ledger.canonical_hash())
    assert hashes[0] == hashes[1]


def test_every_verdict_and_effect_is_written_down(rig: Rig) -> None:
    """A job that was told is of no number any more, a load that settles is."""
    rig.effects()
    rig.verdicts()
    job_ = list(rig.books.job_ids)[-1]
    rig.ledger.cancel(job_)
    [verdict] = rig.books.verdicts
    assert isinstance(verdict, JobVerdict)
    assert canonical(rig.books)[-1] == (("JobVerdict", -1, 0, "cancelled", (), ()),)
    rig.ledger.cancel(max(rig.books.load_ids))
    assert [form[0] for form in canonical(rig.books)[-2]] == ["Cancel", "Cancel"]
    assert not any(isinstance(effect, Work) for effect in rig.books.effects)
