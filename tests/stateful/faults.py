"""Faults planted by hand in ledger, engine and copiers, to see that walks find them.

Each is a sentence that says what was broken, the laws that may notice, the world in which it can be seen, and a seed of
a walk that finds it quickly: seeds were looked for once, by `python -m tests.stateful.soak --faults`, and a test tries
some more behind them before it gives up. Nothing that ships asks whether a fault is planted.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from kvstate.machines import bulk, relations
from kvstate.machines.books import Books
from kvstate.machines.keybook import NONE, KeyBook
from kvstate.machines.leases import Leases
from kvstate.machines.ledger import ACTS, COUPLINGS
from kvstate.machines.messages import Report, Token
from kvstate.machines.owning import Owning
from kvstate.machines.policy import LRU
from kvstate.machines.steps import Steps
from kvstate.machines.tables.key import State as K
from kvstate.machines.tables.part import State as P
from kvstate.machines.transfers import Transfers

Options = dict[str, Any]
Plant = Callable[[pytest.MonkeyPatch], Options | None]
"""Patches the code, and may give the ledger other rows to run on."""


@dataclass(frozen=True)
class Fault:
    name: str
    sentence: str
    """What was broken."""
    laws: tuple[str, ...]
    """One of these says so."""
    plant: Plant
    scope: str = "roomy"
    mix: str = "loads"
    world: str = "ledger"
    """Or `runtime`, or `threads`."""
    seed: int = 0
    moves: tuple[str, ...] = ()
    """The moves of the walk by name, where few walks come to where the fault can be seen."""
    why_unseen: str = ""


FAULTS: list[Fault] = []


def fault(sentence: str, *laws: str, **where: Any) -> Callable[[Plant], Plant]:
    """Puts what it decorates onto the list, under the name of the function."""

    def listed(plant: Plant) -> Plant:
        FAULTS.append(Fault(plant.__name__.replace("_", " "), sentence, laws, plant, **where))
        return plant

    return listed


def seeds(first: int) -> Iterator[int]:
    """The one that is known to find it, then others."""
    yield first
    yield from (seed for seed in range(sys.maxsize) if seed != first)


def columns() -> Any:
    bulk.look_for_numpy()
    assert bulk.columns is not None, "these faults are in the half that is written with NumPy"
    return bulk.columns


def without_act(name: str) -> Options:
    return {"acts": [act for act in ACTS if act.act != name]}


def without_coupling(number: str) -> Options:
    return {"couplings": [row for row in COUPLINGS if row.id != number]}


# -- the ledger: many at once ------------------------------------------------------------------------------------------


@fault(
    "Writing one value at many slots leaves the last of them out.", "L8.recount", "L9.writing", scope="wide", seed=14
)
def put_forgets_the_last(mp: pytest.MonkeyPatch) -> None:
    module, put = columns(), columns().put
    mp.setattr(module, "put", lambda column, slots, value: put(column, slots[:-1], value))


@fault("Writing values at many slots writes them in reverse.", "L9.bytes", "L9.named", scope="wide", seed=14)
def spread_reverses(mp: pytest.MonkeyPatch) -> None:
    module, spread = columns(), columns().spread
    mp.setattr(module, "spread", lambda column, slots, values: spread(column, slots, values[::-1]))


@fault(
    "Reading many slots repeats the first in the place of the last.",
    "L8.recount",
    "L9.named",
    "L9.bytes",
    scope="wide",
    seed=1,
)
def gather_repeats(mp: pytest.MonkeyPatch) -> None:
    module, gather = columns(), columns().gather
    mp.setattr(module, "gather", lambda column, slots: gather(column, slots[:-1] + slots[:1]))


@fault("Many records fire, and the last run of them is not told of.", "L8.balance", scope="wide", seed=14)
def fire_forgets_a_run(mp: pytest.MonkeyPatch) -> None:
    module, fire = columns(), columns().fire

    def forgetful(*args: Any) -> Any:
        runs = fire(*args)
        return runs if runs is None or len(runs) < 2 else runs[:-1]

    mp.setattr(module, "fire", forgetful)


@fault("All records of a batch fire the row of the first.", "L8.balance", "L8.recount", scope="wide", seed=2)
def fire_looks_at_the_first_alone(mp: pytest.MonkeyPatch) -> None:
    module = columns()
    mp.setattr(module, "_runs", lambda states, index: iter([(states[0], index)]))


@fault("A batch is taken for willing without being asked.", "L8.poison", "L8.balance", scope="wide", seed=3)
def taken_is_always_so(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(columns(), "taken", lambda *args: True)


@fault("Many blocks change their state and the pool does not count them.", "L8.balance", scope="wide", seed=3)
def blocks_moved_forgets_to_count(mp: pytest.MonkeyPatch) -> None:
    moved = Books.blocks_moved

    def forgetful(self: Books, blocks: Sequence[int], *how: Any) -> None:
        before = [pool.counts[:] for pool in self.pools]
        moved(self, blocks, *how)
        if len(blocks) > bulk.WIDE:
            for pool, counts in zip(self.pools, before, strict=True):
                pool.counts = counts

    mp.setattr(Books, "blocks_moved", forgetful)


@fault("One of many blocks that become free is not put on the free list.", "L8.balance", scope="wide", seed=4)
def the_free_list_misses_one(mp: pytest.MonkeyPatch) -> None:
    moved = Books.blocks_moved

    def forgetful(self: Books, blocks: Sequence[int], before: int, after: int, states: Any) -> None:
        moved(self, blocks, before, after, states)
        if after == states.free and len(blocks) > 1:
            del self.pools[self.pool_of[blocks[0]]].free[-1]

    mp.setattr(Books, "blocks_moved", forgetful)


@fault("A list is taken for one without repetitions, whatever stands in it.", "L8.poison", "L8.recount", seed=26)
def distinct_is_always_so(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(bulk, "distinct", lambda values: True)


@fault("Of many slots only the first is compared.", "L3.no_reuse", "L8.recount", scope="wide", seed=56)
def all_are_as_the_first(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(bulk, "all_are", lambda column, slots, value: not slots or column[slots[0]] == value)


# -- the ledger: views and links ---------------------------------------------------------------------------------------


@fault("The eviction order offers a block that has left it.", "L8.poison", "L8.balance", seed=4)
def a_dead_entry_is_evicted(mp: pytest.MonkeyPatch) -> None:
    def victims(self: LRU, wanted: int) -> Iterator[Sequence[int]]:
        yield self.queue[self.head :]

    mp.setattr(LRU, "victims", victims)


@fault("What is taken out of the eviction order is still counted there.", "L8.balance", seed=14)
def the_order_counts_the_dead(mp: pytest.MonkeyPatch) -> None:
    hit = LRU.hit

    def forgetful(self: LRU, blocks: Sequence[int]) -> None:
        living = self.living
        hit(self, blocks)
        self.living = max(living - len(blocks), living - 1)

    mp.setattr(LRU, "hit", forgetful)
    mp.setattr(LRU, "gone", forgetful)


@fault("A lease gives blocks back and is still written down as their holder.", "L8.recount", "L5.proceed", seed=11)
def strike_keeps_the_holder(mp: pytest.MonkeyPatch) -> None:
    def strike(self: Owning, lease: Any, blocks: Any) -> None:
        for block in blocks:
            lease.shared.pop(block, None)

    mp.setattr(Owning, "strike", strike)


@fault("A lease that gives shared blocks back keeps them on its list.", "L8.recount", "L8.poison", seed=35)
def strike_keeps_what_is_shared(mp: pytest.MonkeyPatch) -> None:
    strike = Owning.strike

    def forgetful(self: Owning, lease: Any, blocks: Any) -> None:
        shared = dict(lease.shared)
        strike(self, lease, blocks)
        lease.shared = shared

    mp.setattr(Owning, "strike", forgetful)


@fault("A key that is dropped stays in the index.", "L9.bytes", "L9.named", "L8.poison", seed=27)
def drop_leaves_the_key(mp: pytest.MonkeyPatch) -> None:
    drop = KeyBook.drop

    def forgetful(self: KeyBook, slots: array[int]) -> None:
        kept = [(space.index, self.keys[slot], slot) for slot in slots if (space := self.spaces_of[slot]) is not None]
        drop(self, slots)
        for index, key, slot in kept:
            index[key] = slot

    mp.setattr(KeyBook, "drop", forgetful)


@fault("The slot of a dropped key is given out twice.", "L9.named", "L8.poison", seed=5)
def a_slot_of_a_key_for_two(mp: pytest.MonkeyPatch) -> None:
    drop = KeyBook.drop

    def twice(self: KeyBook, slots: array[int]) -> None:
        drop(self, slots)
        self.free.extend(slots)

    mp.setattr(KeyBook, "drop", twice)


@fault("A key forgets its block, and the block still knows the key.", "L8.poison", "L9.named", "L9.bytes", seed=29)
def unlink_forgets_one_half(mp: pytest.MonkeyPatch) -> None:
    mp.setattr(KeyBook, "unlink", lambda self, slots: bulk.put(self.blocks, slots, NONE))


@fault("What is handed out stays on the free list.", "L8.balance", "L8.poison", seed=16)
def taken_and_still_free(mp: pytest.MonkeyPatch) -> None:
    take = Leases.take

    def forgetful(self: Leases, pool: int, count: int) -> Any:
        got = take(self, pool, count)
        if not hasattr(got, "wanted") and count:
            self.books.pools[pool].free.append(got[-1])
        return got

    mp.setattr(Leases, "take", forgetful)


@fault("A lookup looks into the first namespace that has the key.", "L9.bytes", seed=22)
def any_namespace_will_do(mp: pytest.MonkeyPatch) -> None:
    def index(self: KeyBook, pool: int, namespace: str) -> Any:
        return {key: slot for (at, _), space in self.spaces.items() if at == pool for key, slot in space.index.items()}

    mp.setattr(KeyBook, "index", index)


@fault("A reset drops the keys and begins no epoch.", "L9.bytes", mix="reuse", seed=29)
def a_reset_without_an_epoch(mp: pytest.MonkeyPatch) -> None:
    reset = Steps.forget

    def forgetful(self: Steps) -> int:
        epoch = self.books.epoch
        dropped = reset(self)
        self.books.epoch = epoch
        return dropped

    mp.setattr(Steps, "forget", forgetful)


@fault("A reset lets the jobs go on that were under way.", "L9.bytes", "L9.writing", "L9.reset", mix="reuse", seed=53)
def a_reset_spares_the_jobs(mp: pytest.MonkeyPatch) -> None:
    reset = Steps.forget

    def forgetful(self: Steps) -> int:
        jobs, self.books.job_ids = self.books.job_ids, {}
        dropped = reset(self)
        self.books.job_ids = jobs
        return dropped

    mp.setattr(Steps, "forget", forgetful)


@fault("A reset leaves the condemned keys on record.", "L9.reset", mix="faults", seed=0)
def a_reset_spares_the_condemned(mp: pytest.MonkeyPatch) -> None:
    reset = Steps.forget

    def forgetful(self: Steps) -> int:
        names, states = type(self.books.keys).names, self.books.keys.state
        with pytest.MonkeyPatch.context() as spared:
            live = [pair for pair in names(self.books.keys) if states[pair[0]] != K.CONDEMNED]
            spared.setattr(KeyBook, "names", lambda keys: iter(live))
            return reset(self)

    mp.setattr(Steps, "forget", forgetful)


# -- the ledger: steps, fences, reports --------------------------------------------------------------------------------


@fault("A store does not wait for the step that writes its source.", "L9.bytes", mix="stores", seed=148)
def a_store_before_its_step(mp: pytest.MonkeyPatch) -> None:
    accept = Transfers._accept

    def hasty(self: Transfers, *args: Any) -> Any:
        steps, self.books.steps = self.books.steps, {}
        job = accept(self, *args)
        self.books.steps = steps
        return job

    mp.setattr(Transfers, "_accept", hasty)


@fault("A step that ends takes the next one with it.", "L3.no_reuse", mix="aborts", seed=6)
def a_step_too_many(mp: pytest.MonkeyPatch) -> None:
    retired = Steps.step_retired

    def hasty(self: Steps, step: int) -> Any:
        return retired(self, step + 1 if step + 1 in self.books.steps and step in self.books.steps else step)

    mp.setattr(Steps, "step_retired", hasty)


@fault(
    "A lease that closes leaves nothing to the steps that it is out on.",
    "L3.no_reuse",
    "L8.recount",
    mix="aborts",
    seed=6,
)
def the_step_that_still_writes(mp: pytest.MonkeyPatch) -> Options:
    return {"acts": ACTS, "couplings": [row for row in COUPLINGS if row.effect != "adopt"]}


@fault("A fence ends what was sent after it, too.", "L4.recorded", mix="faults", seed=62)
def a_fence_without_a_serial(mp: pytest.MonkeyPatch) -> None:
    fenced = Steps.fenced
    mp.setattr(Steps, "fenced", lambda self, rank, copier, serial: fenced(self, rank, copier, self.books.serial))


@fault(
    "A fence of one rank ends the copies of all.",
    "L4.recorded",
    "L3.no_reuse",
    scope="two ranks",
    mix="faults",
    seed=37,
)
def a_fence_for_all_ranks(mp: pytest.MonkeyPatch) -> None:
    fenced = Steps.fenced
    mp.setattr(
        Steps,
        "fenced",
        lambda self, rank, copier, serial: sum(
            fenced(self, each, copier, serial) for each in range(self.books.config.ranks)
        ),
    )


@fault(
    "A report of an earlier process is taken for one of this.", "L2.stale_counted", "L4.recorded", mix="faults", seed=18
)
def any_incarnation_will_do(mp: pytest.MonkeyPatch) -> None:
    report = Steps.report

    def confused(self: Steps, said: Report) -> None:
        report(self, said._replace(token=Token(self.books.config.incarnation, said.token.serial)))

    mp.setattr(Steps, "report", confused)


@fault("A report on a token that was never minted counts as a late one.", "L2.unknown", mix="faults", seed=0)
def a_stranger_is_taken_for_late(mp: pytest.MonkeyPatch) -> None:
    report = Steps.report

    def lenient(self: Steps, said: Report) -> None:
        unknown = self.books.unknown
        report(self, said)
        if self.books.unknown > unknown:
            self.books.unknown, self.books.stale = unknown, self.books.stale + 1

    mp.setattr(Steps, "report", lenient)


@fault("Every key of a batch is condemned for one that was bad.", "L5.innocent", scope="two ranks", seed=119)
def all_keys_pay(mp: pytest.MonkeyPatch) -> None:
    def bad_keys(books: Books, batch: Any) -> Any:
        states = [books.parts_state[slot] for slot in batch.parts]
        return relations._lines_of(books, batch, tuple(P)) if P.BROKEN in states else ()

    mp.setitem(relations.RELATIONS, "batch_bad_keys", bad_keys)


@fault("A copy that was asked to stop is a witness against its keys.", "L5.innocent", seed=41)
def stopped_keys_cool(mp: pytest.MonkeyPatch) -> None:
    def lost_keys(books: Books, batch: Any) -> Any:
        return relations._lines_of(books, batch, (P.FAILED, P.LOST, P.GONE, P.STOPPED))

    mp.setitem(relations.RELATIONS, "batch_lost_keys", lost_keys)


@fault("Keys that had not answered at the deadline do not cool.", "L5.slow_keys", seed=11)
def silence_costs_nothing(mp: pytest.MonkeyPatch) -> Options:
    return without_coupling("C30")


@fault("Of a batch that was cut, no key cools.", "L5.slow_keys", mix="aborts", seed=1)
def a_cut_forgives_all(mp: pytest.MonkeyPatch) -> Options:
    return without_coupling("C31")


# -- the ledger: acts and couplings that are left out ------------------------------------------------------------------


@fault("Nobody writes down where the hole in a prefix is.", "L5.behind", "L8.poison", scope="tight", seed=65)
def no_hole_is_noted(mp: pytest.MonkeyPatch) -> Options:
    return without_act("note_hole")


@fault("A lease keeps on its list the blocks that a fallen batch has left.", "L8.recount", "L8.poison", seed=7)
def left_blocks_stay_listed(mp: pytest.MonkeyPatch) -> Options:
    return without_act("strike_left")


@fault("A lease keeps on its list the pins that a batch has given back.", "L9.pins", "L8.recount", "L8.poison", seed=11)
def pins_stay_listed(mp: pytest.MonkeyPatch) -> Options:
    return without_act("strike_unpinned")


@fault("A store commits and its keys name nothing.", "L9.named", "L9.bytes", mix="stores", seed=0)
def keys_without_blocks(mp: pytest.MonkeyPatch) -> Options:
    return without_act("link_keys")


@fault("A job lists the sources that it has let go of.", "L8.recount", mix="stores", scope="durable", seed=15)
def sources_stay_listed(mp: pytest.MonkeyPatch) -> Options:
    return without_act("forget_srcs")


@fault("The turn does not move when a batch has committed.", "L11.turn", "L8.poison", "L5.proceed", seed=12)
def the_turn_stays(mp: pytest.MonkeyPatch) -> Options:
    return without_act("advance_turn")


@fault("A load settles and nobody is told.", "L7.clock", "L1.verdict_once", seed=7)
def settled_in_silence(mp: pytest.MonkeyPatch) -> Options:
    return without_act("tell_settled")


@fault("A part that ends keeps its readers.", "L8.recount", mix="stores", seed=10)
def readers_stay(mp: pytest.MonkeyPatch) -> Options:
    return without_coupling("C03")


@fault("A copy begins and its blocks do not count their writer.", "L8.recount", seed=3)
def writers_are_not_counted(mp: pytest.MonkeyPatch) -> Options:
    return without_coupling("C02")


@fault(
    "A part that was given up late is proved over in the books and not in its blocks.",
    "L8.recount",
    mix="faults",
    seed=32,
)
def late_and_not_forgiven(mp: pytest.MonkeyPatch) -> Options:
    return without_coupling("C08")
