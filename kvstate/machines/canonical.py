"""The canonical form of a ledger: equal for two ledgers that will behave alike, whatever happened before.

Numbers that only ever grow would make every state a new one: tokens, ids of jobs, loads and leases, generations, the
time. In the canonical form the records of each kind are numbered anew in order of age, a reference says whether it is
to the present life of its block, times are distances from now and steps from the last one. What has no influence on
what comes next or is told next (how often a row has fired, how many stale reports were counted) is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import chain
from typing import Any

from kvstate.errors import KVError
from kvstate.machines.books import Books
from kvstate.machines.messages import Adopt, BlockRef, Effect, Hold, Sweep, Unhold, Work
from kvstate.machines.records import Batch, Job, Lease, Load, Part, Seek
from kvstate.machines.table import Table
from kvstate.machines.verdicts import Verdict

PRECISION = 9
"""Times are compared in nanoseconds."""


def digest(books: Books) -> str:
    """A hash of the canonical form, in hexadecimal."""
    return hashlib.sha256(repr(canonical(books)).encode()).hexdigest()


def canonical(books: Books) -> tuple[Any, ...]:
    """See the module. Nested tuples of numbers, strings and bytes."""
    return _Form(books).whole()


class _Form:
    """Gives every record its new number, then writes everything down with these."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.parts = sorted(books.parts.live(), key=lambda part: part.token.serial)
        self.jobs = sorted(books.jobs.live(), key=lambda job: job.id)
        self.batches = sorted(books.batches.live(), key=lambda batch: batch.id)
        self.loads = sorted(books.loads.live(), key=lambda load: load.id)
        self.leases = sorted(books.leases.values(), key=lambda lease: lease.id)
        self.part_number = {part.slot: number for number, part in enumerate(self.parts)}
        self.job_number = {job.slot: number for number, job in enumerate(self.jobs)}
        self.batch_number = {batch.slot: number for number, batch in enumerate(self.batches)}
        self.load_number = {load.slot: number for number, load in enumerate(self.loads)}
        self.lease_number = {lease.id: number for number, lease in enumerate(self.leases)}
        self.serials = {part.token.serial: number for number, part in enumerate(self.parts)}

    def whole(self) -> tuple[Any, ...]:
        books = self.books
        return (
            self._columns(books.tables["service"], range(1)),
            self._blocks(),
            tuple(sorted(self._key(slot) for slot, _ in books.keys.names())),
            tuple(self._lease(lease) for lease in self.leases),
            tuple(self._job(job) for job in self.jobs),
            tuple(self._load(load) for load in self.loads),
            tuple(self._batch(batch) for batch in self.batches),
            tuple(self._part(part) for part in self.parts),
            tuple(self._steps()),
            tuple(self._queue()),
            tuple(sorted(self._loading())),
            tuple(sorted((space, key, self._when(since)) for (space, key), since in books.pending_since.items())),
            tuple(self._seek(seek) for _, seek in sorted(books.seeks.live.items())),
            tuple(self._timers()),
            tuple(self._effect(effect) for effect in books.effects),
            tuple(self._verdict(verdict) for verdict in books.verdicts),
        )

    def _columns(self, table: Table, slots: Iterable[int]) -> tuple[Any, ...]:
        """State and variables of these records, without the generation."""
        columns = [self.books.column(table.name, name) for name in ("state", *table.VARS) if name != "generation"]
        return tuple(tuple(column[slot] for column in columns) for slot in slots)

    def _record(self, machine: str, slot: int) -> Any:
        return self._columns(self.books.tables[machine], (slot,))[0]

    def _when(self, time: float) -> float:
        return float(round(time - self.books.now, PRECISION))

    def _ref(self, ref: BlockRef) -> tuple[int, bool]:
        return ref.block, self.books.current(ref)

    def _blocks(self) -> tuple[Any, ...]:
        books = self.books
        orders = tuple(
            (
                tuple(pool.free),
                tuple(chain.from_iterable(pool.evictable.victims(len(pool.evictable)))),
                pool.evictable.memory(),
            )
            for pool in books.pools
        )
        foreign = self._columns(books.tables["foreign"], range(books.engine.count))
        return self._columns(books.tables["block"], range(len(books.generation))), orders, foreign

    def _key(self, slot: int) -> tuple[Any, ...]:
        keys = self.books.keys
        writer = self.books.job_ids.get(keys.writers[slot], -1)
        return keys.name(slot), keys.state[slot], keys.blocks[slot], self.job_number.get(writer, -1)

    def _loading(self) -> Iterable[tuple[str, bytes, int]]:
        for namespace, keys in self.books.loading.items():
            for key, slot in keys.items():
                yield namespace, key, self.batch_number[slot]

    def _lease(self, lease: Lease) -> tuple[Any, ...]:
        pins = tuple((block, self.batch_number.get(slot, -1)) for block, slot in lease.pins.items())
        loads = tuple(self.load_number[slot] for slot in lease.loads)
        steps = tuple(self.part_number[slot] for slot in lease.steps)
        return lease.namespace, lease.epoch == self.books.epoch, tuple(self.books.owned(lease)), pins, loads, steps

    def _job(self, job: Job) -> tuple[Any, ...]:
        lease = self.lease_number.get(job.lease, -1)
        refs = tuple(self._ref(ref) for ref in job.refs)
        links = (lease, job.pool, job.srcs, job.dsts, refs, job.keys, self._parts(job), self._errors(job.failures))
        return self._record("offload", job.slot), links, self._step(job.after_step), self._when(job.deadline)

    def _load(self, load: Load) -> tuple[Any, ...]:
        batches = tuple(self.batch_number[slot] for slot in load.batches)
        live = tuple(self.batch_number[slot] for slot in load.live)
        places = (load.namespace, load.positions, load.total, load.tokens, load.turn, load.hole)
        lease = self.lease_number.get(load.lease, -1)
        return self._record("load", load.slot), lease, batches, live, places, self._when(load.deadline)

    def _batch(self, batch: Batch) -> tuple[Any, ...]:
        blocks = (batch.pool, batch.srcs, batch.dsts, batch.left, tuple(self._ref(ref) for ref in batch.names))
        names, parts = (batch.keys, batch.spaces), (self._parts(batch), self._errors(batch.failures))
        links = (names, batch.epoch == self.books.epoch, parts)
        return self._record("transfer", batch.slot), blocks, links

    def _parts(self, owner: Job | Batch) -> tuple[int, ...]:
        return tuple(self.part_number[slot] for slot in owner.parts)

    def _errors(self, errors: Iterable[KVError]) -> tuple[Any, ...]:
        """What was said, without the token it was said of."""
        return tuple((int(error.code), error.stage, error.block, error.attempt, error.raw) for error in errors)

    def _part(self, part: Part) -> tuple[Any, ...]:
        numbers = {"offload": self.job_number, "transfer": self.batch_number}
        owner = None if part.owner is None else (part.owner[0], numbers[part.owner[0]][part.owner[1]])
        what = (part.kind.value, part.rank, part.copier, part.attempt, owner, part.keys, part.bad)
        touches = (tuple(part.reads), tuple(part.writes), tuple(self._ref(ref) for ref in part.names))
        return self._record("part", part.slot), what, touches

    def _seek(self, seek: Seek) -> tuple[Any, ...]:
        waits = sorted((self.part_number.get(slot, -1), first) for slot, first in seek.waits.items())
        waited = tuple(key for key in seek.keys if self.books.seeks.sought.get(seek.space, {}).get(key) == seek.id)
        return seek.pool, seek.space, seek.keys, tuple(waits), tuple(sorted(seek.missing)), waited

    def _step(self, number: int) -> int:
        """How many steps back it was sent down; -1 if it is over, and nothing waits for it."""
        return self.books.last_step - number if number in self.books.steps else -1

    def _steps(self) -> Iterable[tuple[int, int, tuple[int, ...]]]:
        for number, slot in self.books.steps.items():
            leases = tuple(self.lease_number[lease] for lease in self.books.step_leases[slot])
            yield self._step(number), self.part_number[slot], leases

    def _queue(self) -> Iterable[int]:
        return (self.job_number[self.books.job_ids[number]] for number in self.books.queue)

    def _timers(self) -> Iterable[tuple[Any, ...]]:
        """Those that will still find their record, in the order in which they fire."""
        numbers = {
            "part": self.part_number,
            "offload": self.job_number,
            "transfer": self.batch_number,
            "load": self.load_number,
        }
        for timer in sorted(self.books.timers):
            if timer.uid != self.books.uid(timer.machine, timer.slot):
                continue
            if timer.machine == "key":
                who: Any = self.books.keys.name(timer.slot)
            else:
                who = numbers[timer.machine][timer.slot]
            yield self._when(timer.when), timer.machine, timer.event, who

    # -- what waits to go out ------------------------------------------------------------------------------------------

    def _effect(self, effect: Effect) -> tuple[Any, ...]:
        if isinstance(effect, Hold | Unhold):
            return type(effect).__name__, self._ref(effect.ref)
        if isinstance(effect, Adopt | Sweep):
            return type(effect).__name__, *effect
        part = self.serials.get(effect.token.serial, -1)
        what = effect._replace(after_step=self._step(effect.after_step)) if isinstance(effect, Work) else effect
        return type(effect).__name__, part, what[1:]

    def _verdict(self, verdict: Verdict) -> tuple[Any, ...]:
        told = [self._told(name, value) for name, value in verdict._asdict().items()]
        return type(verdict).__name__, *told

    def _told(self, name: str, value: Any) -> Any:
        match name:
            case "load":
                return self.load_number.get(self.books.load_ids.get(value, -1), -1)
            case "lease":
                return self.lease_number.get(value, -1)
            case "job":
                return -1
            case "errors":
                return self._errors(value)
            case _:
                return value
