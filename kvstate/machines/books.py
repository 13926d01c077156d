"""All that a ledger remembers, in one place: tables, records, links, timers, and what waits to go out.

Plain data with the few methods that keep two links of one fact together. Everything is reached by slot, token or
(pool, namespace, key); nothing by a bare request name. Of the links, four are *views of a state* and are kept in step
with it by `block_moved` and `sweep`, so that they can't disagree with the machines for longer than one input: the free
list (blocks in `free`), the evictable order (`cached`), the counts by state, and the index of keys (not `absent`).
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import NamedTuple

from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.keybook import KeyBook
from kvstate.machines.messages import BlockRef, Effect, Report, Token
from kvstate.machines.policy import LRU, Policy
from kvstate.machines.records import Batch, Job, Lease, Load, Part, Roster
from kvstate.machines.table import Table
from kvstate.machines.verdicts import Verdict

Tables = Mapping[str, type[Table]]
"""The table classes by machine: the generated ones, or interpreted ones of a spec that was changed."""


def columns_of(table: Table) -> dict[str, array[int]]:
    """The table's own columns (not copies), by name."""
    return {name: values for name, values in table.columns.items() if isinstance(values, array)}


class Timer(NamedTuple):
    """Due at `when`; fires `event` on the record of that machine if it is still the same one."""

    when: float
    order: int
    machine: str
    event: str
    slot: int
    uid: int


class BlockViews(NamedTuple):
    """The numbers of the two states that have a view."""

    free: int
    cached: int


class Pool:
    """The blocks of one tier: numbers `base` to `base + blocks - 1`, and the views of their states."""

    __slots__ = ("base", "config", "counts", "evictable", "free")

    def __init__(self, base: int, config: PoolConfig, policy: Policy, states: int) -> None:
        self.base = base
        self.config = config
        self.free = list(range(base + config.blocks - 1, base - 1, -1))
        self.evictable = policy
        self.counts = [0] * states
        self.counts[0] = config.blocks


class Books:
    """See the module. `Ledger` and its parts read and write these fields; nobody else does."""

    def __init__(self, config: LedgerConfig, tables: Tables, policy: Callable[[], Policy] = LRU) -> None:
        params = {"ranks": config.ranks, "attempts": config.attempts}
        made = {name: make(**{p: params[p] for p in make.PARAMS}) for name, make in tables.items()}
        total = sum(pool.blocks for pool in config.pools)
        self.config = config
        self.now = 0.0
        self.epoch = 1
        self.tables: dict[str, Table] = made
        made["service"].add()
        made["block"].extend(total)
        self.columns = {name: columns_of(table) for name, table in made.items()}
        """Every column of every table, by machine and name: the arrays that the tables work on."""
        self.generation = self.columns["block"]["generation"]
        self.block_state = self.columns["block"]["state"]
        self.parts: Roster[Part] = Roster(made["part"])
        self.parts_state = self.columns["part"]["state"]
        self.jobs: Roster[Job] = Roster(made["offload"])
        self.batches: Roster[Batch] = Roster(made["transfer"])
        self.loads: Roster[Load] = Roster(made["load"])
        self.keys = KeyBook(made["key"], self.columns["key"]["state"], len(config.pools), total, self.generation)

        self.moved_at = array("d", [0.0]) * total
        """When each block came into its state; for whoever asks how long it has been held."""
        self.pool_of = array("B")
        self.pools: list[Pool] = []
        for pool in config.pools:
            self.pools.append(Pool(len(self.pool_of), pool, policy(), len(made["block"].STATES)))
            self.pool_of.extend([len(self.pools) - 1] * pool.blocks)

        self.leases: dict[int, Lease] = {}
        self.tokens: dict[int, int] = {}
        """Serial to slot, for every part on record."""
        self.job_ids: dict[int, int] = {}
        self.load_ids: dict[int, int] = {}
        self.queue: OrderedDict[int, None] = OrderedDict()
        """Jobs that wait for their turn, by id, the next one first."""
        self.steps: dict[int, int] = {}
        """Compute steps under way, by number: the slot of their part."""
        self.step_leases: dict[int, list[int]] = {}
        """The open leases that are out on a step, by the slot of its part."""
        self.last_step = 0
        self.last_id = 0
        self.serial = 0
        self.loading: dict[tuple[str, bytes], int] = {}
        """Keys that a live load brings to the device: the slot of its batch."""
        self.pending_since: dict[tuple[str, bytes], float] = {}
        self.timers: list[Timer] = []

        self.handing: tuple[int, ...] = ()
        """The blocks that a lease hands to a step while it lets go of them; set only around `adopt`."""
        self.heard: Report | None = None
        """The report that is being answered."""
        self.at_once: deque[Token] = deque()
        """Parts that need no worker; they are answered before the input ends."""
        self.doomed: list[tuple[str, int]] = []
        """Records that leave at the end of this input; until then their slots are not used again."""

        self.effects: list[Effect] = []
        self.verdicts: list[Verdict] = []
        self.stale = 0
        self.unknown = 0
        self.retries = 0

    def column(self, machine: str, name: str) -> array[int]:
        """One of a table's own columns (not a copy)."""
        return self.columns[machine][name]

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def mint(self) -> Token:
        self.serial += 1
        return Token(self.config.incarnation, self.serial)

    def arm(self, when: float, machine: str, event: str, slot: int) -> None:
        heappush(self.timers, Timer(when, self.next_id(), machine, event, slot, self.uid(machine, slot)))

    def due(self, now: float) -> Timer | None:
        """The next timer that is due and whose record is still the one that armed it."""
        timer = self.next_timer()
        return heappop(self.timers) if timer is not None and timer.when <= now else None

    def next_timer(self) -> Timer | None:
        """The next timer that will find its record; those in front of it that will not are dropped."""
        while self.timers:
            timer = self.timers[0]
            if timer.uid == self.uid(timer.machine, timer.slot):
                return timer
            heappop(self.timers)
        return None

    def uid(self, machine: str, slot: int) -> int:
        """Tells the record in a slot from those that were there before it and will come after."""
        match machine:
            case "part":
                return self.parts.uids[slot]
            case "offload":
                return self.jobs.uids[slot]
            case "transfer":
                return self.batches.uids[slot]
            case "load":
                return self.loads.uids[slot]
            case "key":
                return self.keys.uids[slot]
            case _:
                return slot

    def ref(self, block: int) -> BlockRef:
        return BlockRef(block, self.generation[block])

    def current(self, ref: BlockRef) -> bool:
        """Is this the block's present life?"""
        return 0 <= ref.block < len(self.generation) and self.generation[ref.block] == ref.generation

    def enter_part(self, part: Part) -> None:
        self.parts.put(part.slot, part)
        self.tokens[part.token.serial] = part.slot

    def doom_part(self, slot: int) -> None:
        """Let a part leave at the end of the input, if it is settled; a lost one stays until it is heard or fenced."""
        if self.parts_state[slot] in self.parts.table.HOME:
            self.doomed.append(("part", slot))

    def sweep(self) -> None:
        """Drop what was doomed. A part can be doomed twice in one input, by its row and by its owner."""
        doomed, self.doomed = self.doomed, []
        for machine, slot in doomed:
            match machine:
                case "part":
                    part = self.parts.items[slot]
                    if part is not None:
                        del self.tokens[part.token.serial]
                        self.parts.drop(slot)
                        if slot in self.step_leases:
                            self.leave_step(slot)
                case "key":
                    self.keys.drop(slot)
                case "offload":
                    number = self.jobs[slot].id
                    del self.job_ids[number]
                    self.queue.pop(number, None)
                    self.jobs.drop(slot)
                case "transfer":
                    self.batches.drop(slot)
                case _:
                    del self.load_ids[self.loads[slot].id]
                    self.loads.drop(slot)

    def leave_step(self, slot: int) -> None:
        """The step is over: no lease is out on it any more."""
        for lease in self.step_leases.pop(slot):
            self.leases[lease].steps.remove(slot)
        self.steps = {number: part for number, part in self.steps.items() if part != slot}

    def block_moved(self, block: int, before: int, after: int, states: BlockViews) -> None:
        """Keep the views in step with a block that changed its state."""
        self.moved_at[block] = self.now
        pool = self.pools[self.pool_of[block]]
        pool.counts[before] -= 1
        pool.counts[after] += 1
        if after == states.free:
            pool.free.append(block)
        elif after == states.cached:
            pool.evictable.cached(block)
        if before == states.cached:
            pool.evictable.taken(block)
