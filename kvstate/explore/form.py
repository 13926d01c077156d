"""The form of a state, ledger and world: equal for two states that behave alike.

It is the ledger's own canonical form with one symmetry more: *the blocks of a pool are alike*. They are numbered anew
in the order in which a walk over the form comes by them: leases by age, jobs, batches, parts, then keys by name, then
those that may be evicted, in their order. What the walk does not come by is free, and of that only the number is kept.

Why that is sound. The new numbers depend on nothing but links, so they are one renaming of the blocks of each pool, and
two states with one form differ by such a renaming. The ledger treats blocks by links and states, never by their
number, with one exception: `reset` drops keys in the order of their blocks. That decides only in which order blocks
become free. A free block has no owner, no toucher and no key, the next one who gets it finds it empty (see `world`), so
it makes no difference which of them is handed out first. A reference to an earlier life of a block stays one for ever,
so of that nothing is kept but that it is one.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable
from itertools import chain
from typing import Any

from kvstate.errors import KVError
from kvstate.explore.matter import Flight
from kvstate.explore.world import BUDGET, World
from kvstate.machines.books import Books
from kvstate.machines.canonical import _Form
from kvstate.machines.messages import BlockRef
from kvstate.machines.records import Batch, Job, Lease, Part
from kvstate.machines.table import Table

GONE = -1
"""Stands for a block in a life that is over."""


Columns = dict[str, list["array[int]"]]
"""By machine: the columns that are part of the form."""


class Former:
    """Writes down the form of one ledger's books, whose columns stay the same arrays (see `keep`)."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.columns: Columns = {
            name: [books.column(name, word) for word in ("state", *table.VARS) if word != "generation"]
            for name, table in books.tables.items()
        }

    def digest(self, world: World) -> bytes:
        """16 bytes that tell this state from others."""
        return hashlib.blake2b(repr(self.form(world)).encode(), digest_size=16).digest()

    def form(self, world: World) -> tuple[Any, ...]:
        """See the module. Nested tuples of numbers, strings and bytes."""
        return _Renamed(self.books, world, self.columns).all()


class _Renamed(_Form):
    """The canonical form with blocks by their new numbers."""

    def __init__(self, books: Books, world: World, columns: Columns) -> None:
        super().__init__(books)
        self.world = world
        self.columns = columns
        self.new: dict[int, int] = {}
        for block in self._walk():
            self.new.setdefault(block, len(self.new))

    def _walk(self) -> Iterable[int]:
        books = self.books
        for lease in self.leases:
            yield from books.owned(lease)
            yield from lease.pins
        for job in self.jobs:
            yield from chain(job.srcs, job.dsts)
        for batch in self.batches:
            yield from chain(batch.srcs, batch.dsts, batch.left)
        for part in self.parts:
            yield from chain(part.reads, part.writes)
        named = sorted((name, slot) for slot, name in books.keys.names())
        yield from (books.keys.blocks[slot] for _, slot in named if books.keys.blocks[slot] >= 0)
        for pool in books.pools:
            yield from chain.from_iterable(pool.evictable.victims(len(pool.evictable)))
        for flight in self.world.flights.values():
            yield from (block for block, _ in flight.tenants)
        for step in self.world.steps.values():
            yield from (block for block, _, _ in step.writes)
        for run in self.world.runs:
            yield from (ref.block for ref in run.refs if ref is not None)
        yield from (there.block for there in self.world.objects.kept.values() if there.block >= 0)
        yield from range(books.engine.count)

    def all(self) -> tuple[Any, ...]:
        """The books and the world."""
        return self.whole(), self._world()

    # -- the books -----------------------------------------------------------------------------------------------------

    def _columns(self, table: Table, slots: Iterable[int]) -> tuple[Any, ...]:
        columns = self.columns[table.name]
        return tuple([tuple([column[slot] for column in columns]) for slot in slots])

    def _to(self, blocks: Iterable[int]) -> tuple[int, ...]:
        return tuple(self.new[block] for block in blocks)

    def _ref(self, ref: BlockRef) -> tuple[int, bool]:
        current = self.books.current(ref)
        return (self.new.get(ref.block, GONE) if current else GONE), current

    def _blocks(self) -> tuple[Any, ...]:
        books = self.books
        orders = tuple(
            (len(pool.free), self._to(chain.from_iterable(pool.evictable.victims(len(pool.evictable)))))
            for pool in books.pools
        )
        pools = tuple(books.pool_of[block] for block in self.new)
        foreign = [block for block in self.new if block < books.engine.count]
        return (
            self._columns(books.tables["block"], self.new),
            pools,
            orders,
            self._columns(books.tables["foreign"], foreign),
        )

    def _key(self, slot: int) -> tuple[Any, ...]:
        name, state, block, writer = super()._key(slot)
        return name, state, self.new.get(block, GONE), writer

    def _lease(self, lease: Lease) -> tuple[Any, ...]:
        space, epoch, owned, pins, loads, steps = super()._lease(lease)
        return space, epoch, self._to(owned), tuple((self.new[block], batch) for block, batch in pins), loads, steps

    def _job(self, job: Job) -> tuple[Any, ...]:
        record, (lease, pool, srcs, dsts, *more), step, when = super()._job(job)
        return record, (lease, pool, self._to(srcs), self._to(dsts), *more), step, when

    def _batch(self, batch: Batch) -> tuple[Any, ...]:
        record, (pool, srcs, dsts, left, names), links = super()._batch(batch)
        return record, (pool, self._to(srcs), self._to(dsts), self._to(left), names), links

    def _part(self, part: Part) -> tuple[Any, ...]:
        record, what, (reads, writes, names) = super()._part(part)
        return record, what, (self._to(reads), self._to(writes), names)

    def _errors(self, errors: Iterable[KVError]) -> tuple[Any, ...]:
        """Errors are told and decide nothing but whether there are any; which block each names is left out."""
        return tuple((int(error.code), error.stage, error.attempt) for error in errors)

    # -- the world -----------------------------------------------------------------------------------------------------

    def _world(self) -> tuple[Any, ...]:
        world = self.world
        flights = tuple(self._flight(flight) for _, flight in sorted(world.flights.items()))
        steps = tuple(
            (step.landed, self._tenants(step.writes), tuple(key for _, _, key in step.writes))
            for _, step in sorted(world.steps.items())
        )
        contents = tuple(world.contents[cell] for block in self.new for cell in world.cells(block))
        loads = tuple(
            (load.told, tuple((at, self.new.get(block, GONE), key) for at, block, key in load.lines))
            for _, load in sorted(world.loads.items())
        )
        bad = tuple(sorted(self.new[b] for b, t in set(world.bad) if world.tenants[b] == t and b in self.new))
        return (
            tuple(self._run(number) for number in range(len(world.runs))),
            flights,
            steps,
            contents,
            loads,
            len(world.jobs),
            bad,
            tuple(getattr(world, name) for name in BUDGET),
            world.allocator.form(self.new),
            self._objects(),
            world.others.form(self.serials, self.books.now),
        )

    def _objects(self) -> tuple[Any, ...]:
        objects, flights = self.world.objects, self.world.flights
        if not objects.blocks:
            return ()
        return objects.form(self.new, self.serials, [flights[serial].work for serial in sorted(flights)])

    def _flight(self, flight: Flight) -> tuple[Any, ...]:
        work = flight.work
        said = (flight.found, flight.missing)
        known = (flight.landed, flight.asked, flight.silent, *said, self._step(work.after_step))
        return known, work.kind, work.rank, work.keys, self._tenants(flight.tenants)

    def _tenants(self, tenants: Iterable[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Blocks by their new numbers, and whether each is still with the tenant it had."""
        return tuple((self.new[block], self.world.tenants[block] == tenant) for block, tenant, *_ in tenants)

    def _run(self, number: int) -> tuple[Any, ...]:
        run = self.world.runs[number]
        lease = self.lease_number.get(run.lease, -1)
        load = self.load_number.get(self.books.load_ids.get(run.load, -1), -1)
        refs = tuple(None if ref is None else self._ref(ref) for ref in run.refs)
        hit = (
            None
            if run.hit is None
            else (run.hit.tokens, run.hit.below, tuple(self._ref(ref) for ref in run.hit.blocks))
        )
        return lease, run.at, run.lives, load, run.step and self._step(run.step), refs, run.passed, run.done, hit
