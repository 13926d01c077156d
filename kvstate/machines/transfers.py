"""Offload jobs and loads: what a request may start, and how it is called off.

Each request first looks at every line and collects what it would do; only when all of it can be done does it fire the
first row. So a refusal changes nothing, and nothing has to be undone.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from kvstate.errors import Code
from kvstate.machines import bulk
from kvstate.machines.config import DEVICE, MAX_BATCHES
from kvstate.machines.groups import by_space
from kvstate.machines.keybook import NONE
from kvstate.machines.messages import NO_BLOCKS, BlockRefs
from kvstate.machines.records import Batch, Job, Lease, Load
from kvstate.machines.storables import Storables
from kvstate.machines.tables.block import Event as B
from kvstate.machines.tables.key import Event as K
from kvstate.machines.tables.load import Event as L
from kvstate.machines.tables.offload import Event as O
from kvstate.machines.verdicts import Dropped, Hit, Refusal, Short, Started, Stored


class Transfers(Storables):
    """The requests of `Ledger` that start or call off copies; see there for what they promise."""

    __slots__ = ()

    # -- offload -------------------------------------------------------------------------------------------------------

    def offload(
        self,
        lease: Lease,
        refs: BlockRefs,
        pool: int,
        deadline: float,
        given: Sequence[bytes] | None,
        group: int | None,
    ) -> Stored | Refusal:
        """Queue a job for what can be stored and finds room; refused if that is nothing."""
        books = self.books
        if lease.epoch != books.epoch:
            return Refusal(f"lease {lease.id} is from before the reset: it may finish, but not store")
        wanted, space = self.storable_as_asked(lease, refs, pool, given, group)
        if isinstance(wanted, Refusal):
            return wanted
        refs, keys, dropped = wanted
        dsts = self.room(pool, len(refs))
        if len(dsts) < len(refs):
            dropped += [Dropped(ref, f"no room in {books.pools[pool].config.name}") for ref in refs[len(dsts) :]]
            refs, keys = refs[: len(dsts)], keys[: len(dsts)]
        if not refs:
            return Refusal(
                "nothing to store: " + ("; ".join(f"block {d.ref.block}: {d.reason}" for d in dropped) or "no blocks")
            )
        job = self._accept(lease, refs[:], keys, dsts, pool, deadline, space)  # what is the caller's is not the job's
        books.queue[job.id] = None
        self.start_jobs()
        return Stored(job.id, refs, tuple(dropped))

    def room(self, pool: int, count: int) -> array[int]:
        """Reserve as many blocks of the pool as can be had, up to `count`: the front of a prefix is worth most."""
        if not count:
            return NO_BLOCKS
        got = self.take(pool, count)
        if isinstance(got, Short):
            got = self.take(pool, got.free)
        return NO_BLOCKS if isinstance(got, Short) else got

    def _accept(
        self, lease: Lease, refs: BlockRefs, keys: tuple[bytes, ...], dsts: array[int], pool: int, deadline: float,
        space: str,
    ) -> Job:  # fmt: skip
        """Write the job down. It writes its keys and holds its blocks from here on, though it may wait in the queue."""
        books, ports = self.books, self.ports
        key_slots = self.key_slots(pool, space, refs, keys)
        job = Job(
            books.jobs.slot(parts=self.parts_of(len(refs))), books.next_id(), lease.id, pool, refs.blocks, dsts, refs,
            keys, key_slots, self._after(refs.blocks[0]), deadline, books.now,
            self.spaces_of(space, key_slots),
        )  # fmt: skip
        books.jobs.put(job.slot, job)
        books.job_ids[job.id] = job.slot
        ports.key.each(key_slots, K.BEGIN)
        bulk.put(books.keys.writers, key_slots, job.id)
        self.take_hold(refs.blocks)
        ports.block.each(dsts, B.CLAIM)
        books.arm(deadline, "offload", "deadline", job.slot)
        return job

    def _after(self, block: int) -> int:
        """The step behind which a store of it begins: the last that is under way, where steps touch its pool."""
        return max(self.books.steps, default=0) if self.books.pool_of[block] == DEVICE else 0

    def parts_of(self, lines: int) -> int:
        """Into how many parts so many lines go, over all ranks."""
        return -(-lines // self.books.config.part_blocks) * self.books.config.ranks

    def cancel_job(self, job: Job) -> bool:
        """Call a job off; False if it is ending already."""
        return self.ports.job.ask(job.slot, O.CANCEL)

    # -- load ----------------------------------------------------------------------------------------------------------

    def load(self, lease: Lease, hit: Hit, into: BlockRefs, deadline: float) -> Started | Refusal:
        """Start a load of what lies below, into as many of these blocks as that takes, the first ones."""
        books = self.books
        places = bulk.run(array("q", hit.below))
        srcs = BlockRefs.of(hit.blocks).at(places)
        keys = tuple(bulk.listed(hit.keys, places))
        refused = self._unfit(lease, hit, srcs, keys, into)
        if refused is not None:
            return refused
        into = into[: len(places)]
        spaces: tuple[str, ...] = ()
        if books.config.groups:
            order, spaces = self.load_order(lease, hit, places)
            places, srcs, into = bulk.gather(places, order), srcs.at(order), into.at(order)
            keys = tuple(bulk.listed(hit.keys, places))
        cuts = list(self._cuts(srcs.blocks))
        if len(cuts) > MAX_BATCHES + len(books.pools):
            return Refusal(f"the hit changes its tier so often that it makes {len(cuts)} batches; look up fewer keys")
        load = Load(
            books.loads.slot(batches=len(cuts)), books.next_id(), lease.id, lease.namespace, places, len(hit.blocks),
            hit.tokens, deadline, books.now,
        )  # fmt: skip
        books.loads.put(load.slot, load)
        books.load_ids[load.id] = load.slot
        lease.loads.append(load.slot)
        for index, lines in enumerate(cuts):
            self._batch(lease, load, index, srcs[lines], bulk.cut(into.blocks, lines), keys[lines], spaces[lines])
        self.claim(into.blocks)
        books.arm(deadline, "load", "deadline", load.slot)
        books.arm(deadline + books.config.grace, "load", "lapse", load.slot)
        self.ports.load.signal(load.slot, L.START)
        return Started(load.id, len(cuts))

    def _cuts(self, blocks: array[int]) -> Iterator[slice]:
        """The lines of each batch: so many at most, and all from one pool."""
        size, start = self.batch_size(len(blocks)), 0
        pools = bulk.gather(self.books.pool_of, blocks).tobytes()
        while start < len(pools):
            end = len(pools) - len(pools[start:].lstrip(pools[start : start + 1]))
            for begin in range(start, end, size):
                yield slice(begin, min(begin + size, end))
            start = end

    def _unfit(
        self, lease: Lease, hit: Hit, srcs: BlockRefs, keys: tuple[bytes, ...], into: BlockRefs
    ) -> Refusal | None:
        """Why this hit can't be loaded into these blocks; None if it can."""
        if hit.lease != lease.id:
            return Refusal(f"the hit was pinned for lease {hit.lease}, not for lease {lease.id}")
        if lease.steps:
            return Refusal(f"lease {lease.id} is out on a compute step, which may still write its open blocks")
        if not hit.below:
            return Refusal("nothing to load: the whole hit is on the device")
        if len(into) < len(hit.below):
            return Refusal(f"{len(hit.below)} blocks to load and {len(into)} to load them into")
        refused = self._unfit_srcs(lease, srcs, keys)
        refused = self._unfit_dsts(lease, into[: len(hit.below)]) if refused is None else refused
        return self.unfit_groups(lease, hit) if refused is None else refused

    def _unfit_srcs(self, lease: Lease, srcs: BlockRefs, keys: tuple[bytes, ...]) -> Refusal | None:
        books, pins = self.books, lease.pins
        if not bulk.distinct(srcs.blocks):
            twice = next(block for block in srcs.blocks if srcs.blocks.count(block) > 1)
            return Refusal(f"block {twice} is listed twice in the hit; a block is loaded once")
        if not books.all_current(srcs) or set(map(pins.get, srcs.blocks)) != {NONE}:
            gone = next(ref for ref in srcs if not books.current(ref) or pins.get(ref.block) != NONE)
            return Refusal(f"block {gone.block} gen {gone.generation} is not pinned for lease {lease.id} any more")
        slots = bulk.run(bulk.gather(books.keys.block_key, srcs.blocks))
        if NONE not in slots and tuple(bulk.listed(books.keys.keys, slots)) == keys:
            return None
        for block, slot, key in zip(srcs.blocks, slots, keys, strict=True):
            if slot != NONE and books.keys.keys[slot] != key:  # of one that was condemned meanwhile nothing is known
                return Refusal(f"block {block} is not named by key {key.hex()}: give what the lookup gave")
        return None

    def _unfit_dsts(self, lease: Lease, into: BlockRefs) -> Refusal | None:
        port = self.ports.block
        if self.books.engine.count:
            return self.unfit_of_engine(into)
        stranger = self.books.stranger(lease, into)
        if stranger is not None:
            return Refusal(
                f"block {stranger.block} gen {stranger.generation} is no destination: lease {lease.id} does not own it"
            )
        if not bulk.distinct(into.blocks):
            twice = next(block for block in into.blocks if into.blocks.count(block) > 1)
            return Refusal(f"block {twice} is listed twice; a block is filled once")
        if not port.takes(into.blocks, B.CLAIM):
            block = next(block for block in into.blocks if not port.choose(block, B.CLAIM))
            return Refusal(f"block {block} is {port.state_of(block)} and can't be loaded into")
        return None

    def _batch(
        self, lease: Lease, load: Load, index: int, srcs: BlockRefs, dsts: array[int], keys: tuple[bytes, ...],
        spaces: tuple[str, ...],
    ) -> None:  # fmt: skip
        books = self.books
        batch = Batch(
            books.batches.slot(parts=self.parts_of(len(keys))), books.next_id(), load.slot, index,
            books.pool_of[srcs.blocks[0]], srcs.blocks, dsts, srcs, keys, keys, lease.epoch, books.now, spaces,
        )  # fmt: skip
        books.batches.put(batch.slot, batch)
        books.engine.fill(batch.slot, dsts)
        load.batches.append(batch.slot)
        load.live.append(batch.slot)
        lease.pins.update(dict.fromkeys(srcs.blocks, batch.slot))
        if lease.epoch != books.epoch:  # what it loads will not be published, so nobody is told to wait for it
            batch.awaited = ()
            return
        if spaces:
            for name, lines in by_space(spaces).items():
                space = books.loading.setdefault(name, {})
                for line in lines:
                    space.setdefault(keys[line], batch.slot)
            return
        loading = books.loading.setdefault(lease.namespace, {})
        if not loading or loading.keys().isdisjoint(keys):
            loading.update(dict.fromkeys(keys, batch.slot))
        else:
            for key in keys:
                loading.setdefault(key, batch.slot)

    def cancel_load(self, load: Load) -> bool:
        """Call a load off by letting its deadline pass now; False if its verdict was told."""
        if not self.ports.load.choose(load.slot, L.ABORT):
            return False
        load.ended_by = Code.CANCELLED
        self.ports.load.signal(load.slot, L.DEADLINE)
        self.books.arm(self.books.now + self.books.config.grace, "load", "lapse", load.slot)
        return True
