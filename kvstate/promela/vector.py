"""A state of the real ledger and its world, as the vector of the model.

Nothing is decided here: each entry is read off the ledger's records, off a column of its tables, or off the explorer's
world. What has left the record is all zeros, as in the model. Left out are what is only told (errors, verdicts,
effects) and what only ever grows (generations, the numbers of leases).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from kvstate.explore.matter import JUNK
from kvstate.explore.moves import System
from kvstate.machines.messages import BlockRef, Kind
from kvstate.machines.records import Batch, Job, Load, Part
from kvstate.machines.tables.block import State as B
from kvstate.promela.layout import RECORDS, layout
from kvstate.promela.numbering import Numbers
from kvstate.promela.shape import KINDS, LIVING, Shape

Arrays = dict[str, list[int]]
"""The vector, by the names of its arrays."""
JUNK_BYTES = 255
"""What stands for bytes that went bad."""


class Viewer:
    """Writes down the states of one system as vectors. `first` is the serial before the first part of the scope."""

    def __init__(self, shape: Shape, system: System) -> None:
        self.shape = shape
        self.system = system
        self.first = system.ledger.books.serial
        self.layout = layout(shape)
        self.place = {key: place for place, key in enumerate(shape.keys)}
        self.beginning = Numbers().later(system)
        """The numbers at the beginning, where there is nothing yet to be numbered."""

    def vector(self, numbers: Numbers) -> tuple[int, ...]:
        """The entries of all arrays, in the order of the layout."""
        arrays = self.arrays(numbers)
        return tuple(chain.from_iterable(arrays[array.name] for array in self.layout))

    def arrays(self, numbers: Numbers) -> Arrays:
        """The vector by arrays; one that is no array in the model has a single entry."""
        found: Arrays = {array.name: [0] * max(1, array.size) for array in self.layout}
        writer = _Writer(self, numbers, found)
        writer.all()
        return found


class _Writer:
    """Fills one vector."""

    def __init__(self, viewer: Viewer, numbers: Numbers, into: Arrays) -> None:
        self.shape, self.place, self.first = viewer.shape, viewer.place, viewer.first
        self.numbers, self.into = numbers, into
        self.system = viewer.system
        self.books, self.world = viewer.system.ledger.books, viewer.system.world

    def all(self) -> None:
        self._blocks()
        self._keys()
        self._requests()
        for part in self.books.parts.live():
            self._part(part)
        for job in self.books.jobs.live():
            self._job(job)
        for batch in self.books.batches.live():
            self._batch(batch)
        for load in self.books.loads.live():
            self._load(load)
        if "service" in self.shape.count:
            self._row("service", 0, 0)
        self._timers()
        made = self.numbers._asdict()
        made = {"part": range(self.books.serial - self.first), **made}
        for name in RECORDS:
            if name in self.shape.count:
                self.into[f"n_{name}"] = [len(made[name])]
        for name in ("resets", "cancels", "corrupt", "drains"):
            self.into[f"{name}_left"] = [getattr(self.world, name)]

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _row(self, machine: str, slot: int, number: int) -> None:
        """State and variables of a record."""
        self.into[f"{machine}_state"][number] = self.books.column(machine, "state")[slot] + 1
        for var in self.shape.spec.machine(machine).vars:
            if var.name != LIVING:
                self.into[f"{machine}_{var.name}"][number] = self.books.column(machine, var.name)[slot]

    def _put(self, name: str, number: int, value: int) -> None:
        self.into[name][number] = value

    def _lines(self, name: str, number: int, values: Iterable[int]) -> None:
        start = number * self.shape.lines
        for place, value in enumerate(values, start):
            assert place < start + self.shape.lines, f"{name} of {number} has more lines than a prompt"
            self.into[name][place] = value

    def _links(self, name: str, number: int, blocks: Iterable[int]) -> None:
        self._lines(name, number, (block + 1 for block in blocks))

    def _ref(self, ref: BlockRef) -> int:
        return ref.block + 1 if self.books.current(ref) else 0

    def _key(self, key: bytes, pool: int = 0) -> int:
        return self.place[key.decode()] + pool * len(self.place) + 1

    # -- blocks and keys -----------------------------------------------------------------------------------------------

    def _blocks(self) -> None:
        books = self.books
        empty = {block for number in books.queue for block in books.jobs[books.job_ids[number]].dsts}
        for block in range(books.total):
            self._row("block", block, block)
            held = books.block_state[block] != B.FREE and block not in empty  # what is to be handed out is empty
            content = self.world.contents[block] if held else ""
            self.into["block_content"][block] = (
                JUNK_BYTES if content == JUNK else self.place[content] + 1 if content else 0
            )
        for number, pool in enumerate(books.pools):
            cached = list(chain.from_iterable(pool.evictable.victims(len(pool.evictable))))
            for name, blocks in (("free", list(pool.free)), ("cached", cached)):
                self.into[f"n_{name}"][number] = len(blocks)
                for place, block in enumerate(blocks, pool.base):
                    self.into[f"{name}_at"][place] = block + 1

    def _keys(self) -> None:
        books = self.books
        for number in range(2 * len(self.place)):
            self.into["key_state"][number] = self.shape.states["key", self.shape.spec.machine("key").initial]
        for slot, name in books.keys.names():
            number = self._key(name.key, name.pool) - 1
            self._row("key", slot, number)
            self.into["key_block"][number] = books.keys.blocks[slot] + 1
            if books.keys.writers[slot]:
                self.into["key_writer"][number] = self.numbers.offload.index(books.keys.writers[slot]) + 1
        for loading in books.loading.values():
            for key, slot in loading.items():
                self.into["loading"][self._key(key) - 1] = self.numbers.transfer.index(books.batches[slot].id) + 1
        for (_, key), since in books.pending_since.items():
            waited, most = self.shape.ticks(books.now - since), self.shape.ticks(books.config.pending_for)
            self.into["pending"][self._key(key) - 1] = 1 + min(waited, most)

    # -- requests ------------------------------------------------------------------------------------------------------

    def _requests(self) -> None:
        books = self.books
        for number, run in enumerate(self.world.runs):
            self._put("run_lives", number, run.lives)
            lease = books.leases.get(run.lease)
            if lease is None:
                continue
            self._put("run_open", number, 1)
            self._put("run_at", number, run.at)
            self._put("run_load", number, self.numbers.load.index(run.load) + 1 if run.load else 0)
            self._put("lease_current", number, lease.epoch == books.epoch)
            self._lines("run_ref", number, (0 if ref is None else self._ref(ref) for ref in run.refs))
            if run.hit is not None:
                self._lines("hit_at", number, map(self._ref, run.hit.blocks))
            owned = books.owned(lease)
            self._put("n_own", number, len(owned))
            self._links("own_at", number, owned)
            self._put("n_pin", number, len(lease.pins))
            self._links("pin_at", number, lease.pins)

    # -- what comes and goes -------------------------------------------------------------------------------------------

    def _part(self, part: Part) -> None:
        number = part.token.serial - self.first - 1
        self._row("part", part.slot, number)
        owner = 0
        if part.owner is not None:
            machine, slot = part.owner
            if machine == "offload":
                owner = self.numbers.offload.index(self.books.jobs[slot].id) + 1
            else:
                owner = self.numbers.transfer.index(self.books.batches[slot].id) + 1
                owner += self.shape.count.get("offload", 0)
        if part.kind is Kind.STEP:
            self._step(part, number)
            return
        flight = self.world.flights.get(part.token.serial)
        reads = [block + 1 for block in part.reads]
        fields = {
            "kind": KINDS.index(part.kind) + 1,
            "owner": owner,
            "source": reads[0],
            "checked": reads[1] if part.kind is Kind.VERIFY else 0,
            "fills": part.writes[0] + 1 if len(part.writes) else 0,
            "name": self._ref(part.names[0]) if len(part.names) else 0,
            "key": self._key(part.keys[0]),
            "out": 0 if flight is None else 1 + flight.landed,
            "asked": flight is not None and flight.asked,
            "silent": flight is not None and flight.silent,
        }
        if self.shape.steps:
            fields["after"] = 0 if flight is None else self._under_way(flight.work.after_step)
        for name, value in fields.items():
            self._put(f"part_{name}", number, int(value))

    def _step(self, part: Part, number: int) -> None:
        """A compute step: the lease that is out on it, the blocks that it has taken over, and what it writes."""
        step = next(step for step, slot in self.books.steps.items() if slot == part.slot)
        out = self.world.steps[step]
        leases = self.books.step_leases[part.slot]
        self._put("part_kind", number, KINDS.index(part.kind) + 1)
        self._put("part_out", number, 1 + out.landed)
        runs = [place for place, run in enumerate(self.world.runs) if run.lease in leases]
        self._put("part_lease", number, runs[0] + 1 if runs else 0)
        self._links("part_held", number, part.reads)
        self._links("part_writes", number, (block for block, _, _ in out.writes))
        self._lines("part_content", number, (self.place[key] + 1 for _, _, key in out.writes))

    def _under_way(self, step: int) -> int:
        """The part of this step, while it is under way."""
        if step not in self.books.steps:
            return 0
        return self.books.parts[self.books.steps[step]].token.serial - self.first

    def _job(self, job: Job) -> None:
        number = self.numbers.offload.index(job.id)
        self._row("offload", job.slot, number)
        self._put("offload_queued", number, job.id in self.books.queue)
        if self.shape.steps:
            self._put("offload_after", number, self._under_way(job.after_step))
        self._links("offload_src", number, job.srcs)
        self._links("offload_dst", number, job.dsts)
        self._lines("offload_key", number, (self._key(key, 1) for key in job.keys))

    def _batch(self, batch: Batch) -> None:
        number = self.numbers.transfer.index(batch.id)
        load = self.books.loads[batch.load]
        self._row("transfer", batch.slot, number)
        self._put("transfer_load", number, self.numbers.load.index(load.id) + 1)
        self._put("transfer_index", number, batch.index)
        self._put("transfer_live", number, batch.slot in load.live)
        self._put("transfer_current", number, batch.epoch == self.books.epoch)
        self._links("transfer_src", number, batch.srcs)
        self._links("transfer_dst", number, batch.dsts)
        self._links("transfer_leaves", number, batch.left)
        self._lines("transfer_name", number, map(self._ref, batch.names))
        self._lines("transfer_key", number, map(self._key, batch.keys))

    def _load(self, load: Load) -> None:
        number = self.numbers.load.index(load.id)
        self._row("load", load.slot, number)
        self._put("load_run", number, self.numbers.begun_by[number] + 1)
        self._put("load_turn", number, load.turn)
        self._put("load_hole", number, 0 if load.hole is None else load.hole + 1)
        self._put("load_told", number, self.world.loads[load.id].told)

    def _timers(self) -> None:
        books = self.books
        alive = [timer for timer in sorted(books.timers) if timer.uid == books.uid(timer.machine, timer.slot)]
        self.into["n_timer"] = [len(alive)]
        for place, timer in enumerate(alive):
            self.into["timer_in"][place] = self.shape.ticks(timer.when - books.now)
            self.into["timer_event"][place] = self.shape.events[timer.machine, timer.event]
            self.into["timer_who"][place] = self._timed(timer.machine, timer.slot)

    def _timed(self, machine: str, slot: int) -> int:
        books = self.books
        match machine:
            case "offload":
                return self.numbers.offload.index(books.jobs[slot].id)
            case "transfer":
                return self.numbers.transfer.index(books.batches[slot].id)
            case "load":
                return self.numbers.load.index(books.loads[slot].id)
            case "part":
                return books.parts[slot].token.serial - self.first - 1
            case _:
                name = books.keys.name(slot)
                return self._key(name.key, name.pool) - 1
