"""Offload jobs and loads: what a request may start, and how it is called off.

Each request first looks at every line and collects what it would do; only when all of it can be done does it fire the
first row. So a refusal changes nothing, and nothing has to be undone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kvstate.errors import Code
from kvstate.machines.keybook import NONE
from kvstate.machines.leases import DEVICE, Leases
from kvstate.machines.messages import BlockRef
from kvstate.machines.records import Batch, Job, Lease, Load
from kvstate.machines.tables.block import Event as B
from kvstate.machines.tables.key import Event as K
from kvstate.machines.tables.load import Event as L
from kvstate.machines.tables.offload import Event as O
from kvstate.machines.verdicts import Dropped, Hit, Refusal, Short, Started, Stored


class Line(NamedTuple):
    """One block of a load: where it comes from, where it goes, and its place in the prefix."""

    place: int
    src: BlockRef
    dst: BlockRef
    key: bytes


class Transfers(Leases):
    """The requests of `Ledger` that start or call off copies; see there for what they promise."""

    __slots__ = ()

    # -- offload -------------------------------------------------------------------------------------------------------

    def offload(self, lease: Lease, refs: Sequence[BlockRef], pool: int, deadline: float) -> Stored | Refusal:
        books = self.books
        if lease.epoch != books.epoch:
            return Refusal(f"lease {lease.id} is from before the reset: it may finish, but not store")
        wanted: dict[int, tuple[BlockRef, bytes]] = {}
        dropped: list[Dropped] = []
        for ref in refs:
            key = self._storable(ref, lease.namespace, pool, wanted)
            if isinstance(key, str):
                dropped.append(Dropped(ref, key))
            else:
                wanted[ref.block] = (ref, key)
        dsts = self._room(pool, len(wanted))
        for ref, _ in tuple(wanted.values())[len(dsts) :]:
            dropped.append(Dropped(ref, f"no room in {books.pools[pool].config.name}"))
            del wanted[ref.block]
        if not wanted:
            return Refusal(
                "nothing to store: " + ("; ".join(f"block {d.ref.block}: {d.reason}" for d in dropped) or "no blocks")
            )
        job = self._accept(lease, tuple(wanted.values()), tuple(dsts), pool, deadline)
        books.queue[job.id] = None
        self.start_jobs()
        return Stored(job.id, job.refs, tuple(dropped))

    def _storable(
        self, ref: BlockRef, namespace: str, pool: int, wanted: dict[int, tuple[BlockRef, bytes]]
    ) -> bytes | str:
        """The key under which the block can be stored, or the reason why it can't.

        The key comes from the ledger, never from the caller: bytes can't be stored under a name that is not theirs.
        """
        books = self.books
        if not books.current(ref):
            return "its generation is over: the block was freed or given to another"
        if ref.block in wanted:
            return "listed twice"
        if books.pool_of[ref.block] != DEVICE:
            return "it is not on the device"
        slot = books.keys.block_key[ref.block]
        if slot == NONE:
            return "no key names it"
        _, space, key = books.keys.name(slot)
        below = books.keys.find(pool, space, key)
        if space != namespace:
            return "it belongs to another namespace"
        if below != NONE and not self.ports.key.choose(below, K.BEGIN):
            return "stored already, or being stored"
        if not self.ports.block.choose(ref.block, B.STORE):
            return f"it is {self.ports.block.state_of(ref.block)}"
        return key

    def _room(self, pool: int, count: int) -> list[int]:
        """Reserve as many blocks of the pool as can be had, up to `count`: the front of a prefix is worth most."""
        if not count:
            return []
        got = self.take(pool, count)
        if isinstance(got, Short):
            got = self.take(pool, got.free)
        return [] if isinstance(got, Short) else got

    def _accept(
        self, lease: Lease, lines: tuple[tuple[BlockRef, bytes], ...], dsts: tuple[int, ...], pool: int, deadline: float
    ) -> Job:
        books, ports = self.books, self.ports
        refs, keys = tuple(ref for ref, _ in lines), tuple(key for _, key in lines)
        key_slots = tuple(books.keys.make(pool, lease.namespace, key) for key in keys)
        job = Job(
            books.jobs.slot(parts=self.parts_of(len(lines))), books.next_id(), lease.id, pool,
            tuple(ref.block for ref in refs), dsts, refs, keys, key_slots, max(books.steps, default=0), deadline,
            books.now,
        )  # fmt: skip
        books.jobs.put(job.slot, job)
        books.job_ids[job.id] = job.slot
        for ref, dst, slot in zip(refs, dsts, key_slots, strict=True):
            ports.key.signal(slot, K.BEGIN)
            books.keys.writers[slot] = job.id
            ports.block.signal(ref.block, B.STORE)
            ports.block.signal(dst, B.CLAIM)
        books.arm(deadline, "offload", "deadline", job.slot)
        return job

    def parts_of(self, lines: int) -> int:
        """Into how many parts so many lines go, over all ranks."""
        return -(-lines // self.books.config.part_blocks) * self.books.config.ranks

    def cancel_job(self, job: Job) -> bool:
        return self.ports.job.ask(job.slot, O.CANCEL)

    # -- load ----------------------------------------------------------------------------------------------------------

    def load(self, lease: Lease, hit: Hit, into: Sequence[BlockRef], deadline: float) -> Started | Refusal:
        books = self.books
        lines = self._lines(lease, hit, into)
        if isinstance(lines, Refusal):
            return lines
        size = books.config.batch_blocks
        chunks: list[list[Line]] = []
        for line in lines:
            pool = books.pool_of[line.src.block]
            if not chunks or len(chunks[-1]) == size or books.pool_of[chunks[-1][0].src.block] != pool:
                chunks.append([])
            chunks[-1].append(line)
        load = Load(
            books.loads.slot(batches=len(chunks)), books.next_id(), lease.id, lease.namespace,
            tuple(line.place for line in lines), len(hit.blocks), deadline, books.now,
        )  # fmt: skip
        books.loads.put(load.slot, load)
        books.load_ids[load.id] = load.slot
        lease.loads.append(load.slot)
        for index, chunk in enumerate(chunks):
            self._batch(lease, load, index, chunk)
        for line in lines:
            self.ports.block.signal(line.dst.block, B.CLAIM)
        books.arm(deadline, "load", "deadline", load.slot)
        books.arm(deadline + books.config.grace, "load", "lapse", load.slot)
        self.ports.load.signal(load.slot, L.START)
        return Started(load.id, len(chunks))

    def _lines(self, lease: Lease, hit: Hit, into: Sequence[BlockRef]) -> list[Line] | Refusal:
        """Pair what has to be loaded with where it goes; or say which of it does not fit."""
        books = self.books
        if hit.lease != lease.id:
            return Refusal(f"the hit was pinned for lease {hit.lease}, not for lease {lease.id}")
        if lease.steps:
            return Refusal(f"lease {lease.id} is out on a compute step, which may still write its open blocks")
        if not hit.below:
            return Refusal("nothing to load: the whole hit is on the device")
        if len(into) < len(hit.below):
            return Refusal(f"{len(hit.below)} blocks to load and {len(into)} to load them into")
        lines: dict[int, Line] = {}
        taken: set[int] = set()
        for place, dst in zip(hit.below, into, strict=False):
            src = hit.blocks[place]
            if src.block in lines:
                return Refusal(f"block {src.block} is listed twice in the hit; a block is loaded once")
            if not books.current(src) or lease.pins.get(src.block) != NONE:
                return Refusal(f"block {src.block} gen {src.generation} is not pinned for lease {lease.id} any more")
            if dst.block in taken:
                return Refusal(f"block {dst.block} is listed twice; a block is filled once")
            if lease.owned.get(dst.block) != dst.generation:
                return Refusal(
                    f"block {dst.block} gen {dst.generation} is no destination: lease {lease.id} does not own it"
                )
            if not self.ports.block.choose(dst.block, B.CLAIM):
                return Refusal(f"block {dst.block} is {self.ports.block.state_of(dst.block)} and can't be loaded into")
            taken.add(dst.block)
            lines[src.block] = Line(place, src, dst, hit.keys[place])
        return list(lines.values())

    def _batch(self, lease: Lease, load: Load, index: int, lines: list[Line]) -> None:
        books = self.books
        keys = tuple(line.key for line in lines)
        batch = Batch(
            books.batches.slot(parts=self.parts_of(len(lines))), books.next_id(), load.slot, index,
            books.pool_of[lines[0].src.block], tuple(line.src.block for line in lines),
            tuple(line.dst.block for line in lines), tuple(line.src for line in lines), keys, lease.epoch, books.now,
        )  # fmt: skip
        books.batches.put(batch.slot, batch)
        load.batches.append(batch.slot)
        load.live.append(batch.slot)
        for line in lines:
            lease.pins[line.src.block] = batch.slot
            books.loading.setdefault((lease.namespace, line.key), batch.slot)

    def cancel_load(self, load: Load) -> bool:
        """A load is called off by letting its deadline pass now: what can't be had in time is computed."""
        if not self.ports.load.choose(load.slot, L.ABORT):  # it has been told
            return False
        load.ended_by = Code.CANCELLED
        self.ports.load.signal(load.slot, L.DEADLINE)
        self.books.arm(self.books.now + self.books.config.grace, "load", "lapse", load.slot)
        return True
