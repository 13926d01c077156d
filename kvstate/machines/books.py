"""All that a ledger remembers, in one place: tables, records, links, timers, and what waits to go out.

Plain data with the few methods that keep two links of one fact together. Everything is reached by slot, token or
(pool, namespace, key); nothing by a bare request name. Which blocks a lease owns is in `owning`, what keys name in
`keybook`. Of the links, five are *views of a state*: the free list (blocks in `free`), the evictable order (`cached`),
the counts by state, since when a block is held (`draining`, `quarantined`), and the index of keys (not `absent`). The
ports keep them in step, the first four with each row (`blocks_moved`), the last at the end of the input (`sweep`).
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.engine_blocks import EngineBlocks
from kvstate.machines.keybook import KeyBook
from kvstate.machines.messages import NO_BLOCKS, Effect, Report, Token
from kvstate.machines.owning import Owning
from kvstate.machines.policy import Marks, Policy
from kvstate.machines.records import Batch, Job, Lease, Load, Part, Roster, Seeks
from kvstate.machines.table import Table
from kvstate.machines.verdicts import Verdict

Tables = Mapping[str, type[Table]]
"""The table classes by machine: the generated ones, or interpreted ones of a spec that was changed."""
TIMERS = 1024
"""How many timers of what is over may lie about, beside one for each that is not."""
MakePolicy = Callable[[range, Marks], Policy]
"""Makes the policy of one pool, given the numbers of its blocks."""


def columns_of(table: Table) -> dict[str, array[int]]:
    """The table's own columns (not copies), by name."""
    return {name: values for name, values in table.columns.items() if isinstance(values, array)}


class Timer(NamedTuple):
    """Due at `when` (seconds); fires `event` on the record in `slot` of that machine if its `uid` is still the same."""

    when: float
    order: int
    """Of those that are due together the one that was armed first goes first."""
    machine: str
    event: str
    slot: int
    uid: int


class BlockViews(NamedTuple):
    """The numbers of the states that have a view."""

    free: int
    active: int
    cached: int
    held: tuple[int, ...]
    """Draining and quarantined: nobody's, and not to be had."""


class Pool:
    """The blocks of one tier, numbered from `base` on, and the views of their states."""

    __slots__ = ("base", "config", "counts", "evictable", "free")

    def __init__(self, base: int, config: PoolConfig, policy: Policy, states: int) -> None:
        self.base = base
        self.config = config
        self.free = array("q", range(base + config.blocks - 1, base - 1, -1))
        """A stack: what is at its end goes first."""
        self.evictable = policy
        if config.foreign:
            del self.free[:]
        self.counts = [0] * states
        self.counts[0] = config.blocks


class Books(Owning):
    """See the module. `Ledger` and its parts read and write these fields; nobody else does."""

    def __init__(self, config: LedgerConfig, tables: Tables, policy: MakePolicy) -> None:
        params = {"ranks": config.ranks, "attempts": config.attempts}
        made = {name: make(**{p: params[p] for p in make.PARAMS}) for name, make in tables.items()}
        total = sum(pool.blocks for pool in config.pools)
        self.config = config
        self.now = 0.0
        self.epoch = 1
        self.tables: dict[str, Table] = made
        made["service"].add()
        made["block"].extend(total)
        self.engine = EngineBlocks(config, made["foreign"])
        self.columns = {name: columns_of(table) for name, table in made.items()}
        """Every column of every table, by machine and name: the arrays that the tables work on."""
        self.generation = self.columns["block"]["generation"]
        self.block_state = self.columns["block"]["state"]
        self.parts: Roster[Part] = Roster(made["part"])
        self.parts_state = self.columns["part"]["state"]
        self.jobs: Roster[Job] = Roster(made["offload"])
        self.batches: Roster[Batch] = Roster(made["transfer"])
        self.loads: Roster[Load] = Roster(made["load"])
        self.keys = KeyBook(made["key"], self.columns["key"]["state"], total, self.generation)
        self.total = total
        self.holder = array("q", [0]) * total
        self.held_since: dict[int, float] = {}
        """When each block that is draining or quarantined, or held by the engine for us, began to be so."""
        self.pool_of = array("B")
        """By block: the number of its pool."""
        self.pools: list[Pool] = []
        self._make_pools(policy)

        self.leases: dict[int, Lease] = {}
        self.tokens: dict[int, int] = {}
        """Serial to slot, for every part on record."""
        self.job_ids: dict[int, int] = {}
        """Id to slot, for every job that is not over; `load_ids` likewise."""
        self.load_ids: dict[int, int] = {}
        self.queue: OrderedDict[int, None] = OrderedDict()
        """Jobs that wait for their turn, by id, the next one first."""
        self.steps: dict[int, int] = {}
        """Compute steps under way, by number: the slot of their part."""
        self.step_leases: dict[int, list[int]] = {}
        """The open leases that are out on a step, by the slot of its part."""
        self.turn = 0
        """Counts those who give blocks back: leases and jobs."""
        self.last_step = self.last_id = self.serial = 0
        self.loading: dict[str, dict[bytes, int]] = {}
        """Keys that a live load brings to the device, by namespace: the slot of its batch."""
        self.pending_since: dict[tuple[str, bytes], float] = {}
        """When a lookup was first told to wait for a key, by namespace and key."""
        self.seeks = Seeks()
        """What was asked of shared pools and is not answered."""
        self.timers: list[Timer] = []
        self.tidy_at = TIMERS
        """With more timers than this, those that will not find their record are dropped."""

        self.handing = NO_BLOCKS
        """The blocks that a lease hands to a step while it lets go of them; set only around `adopt`."""
        self.heard: Report | None = None
        """The report that is being answered."""
        self.at_once: deque[Token] = deque()
        """Parts that need no worker; they are answered before the input ends."""
        self.doomed: list[tuple[str, int]] = []
        """Records that leave at the end of this input, by machine and slot; until then no slot is used again."""
        self.doomed_keys = array("q")
        """The slots of keys that leave likewise."""

        self.effects: list[Effect] = []
        self.verdicts: list[Verdict] = []
        self.stale = self.unknown = self.retries = 0

    def _make_pools(self, policy: MakePolicy) -> None:
        for number, pool in enumerate(self.config.pools):
            blocks = range(len(self.pool_of), len(self.pool_of) + pool.blocks)
            states = self.tables["foreign" if pool.foreign else "block"].STATES
            self.pools.append(Pool(blocks.start, pool, policy(blocks, self.keys.marks_of), len(states)))
            self.pool_of.extend(array("B", [number]) * pool.blocks)

    def column(self, machine: str, name: str) -> array[int]:
        """One of a table's own columns (not a copy)."""
        return self.columns[machine][name]

    def next_id(self) -> int:
        """A number that was never given out: for leases, jobs, batches, loads and the order of timers."""
        self.last_id += 1
        return self.last_id

    def mint(self) -> Token:
        """A token that was never given out."""
        self.serial += 1
        return Token(self.config.incarnation, self.serial)

    def arm(self, when: float, machine: str, event: str, slot: int) -> None:
        """Have the event fired at that time, in seconds. Nothing is ever disarmed: see `next_timer`."""
        heappush(self.timers, Timer(when, self.next_id(), machine, event, slot, self.uid(machine, slot)))
        if len(self.timers) > self.tidy_at:
            self.timers = [timer for timer in self.timers if timer.uid == self.uid(timer.machine, timer.slot)]
            heapify(self.timers)
            self.tidy_at = 2 * len(self.timers) + TIMERS

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

    # -- what enters and what leaves -----------------------------------------------------------------------------------

    def enter_part(self, part: Part) -> None:
        """Put a new part on record, by its slot and by its token."""
        self.parts.put(part.slot, part)
        self.tokens[part.token.serial] = part.slot

    def doom_part(self, slot: int) -> None:
        """Let a part leave at the end of the input, if it is settled; a lost one stays until it is heard or fenced."""
        if self.parts_state[slot] in self.parts.table.HOME:
            self.doomed.append(("part", slot))

    def sweep(self) -> None:
        """Drop what was doomed. A part can be doomed twice in one input, by its row and by its owner."""
        if self.doomed_keys:
            self.keys.drop(self.doomed_keys)
            self.doomed_keys = array("q")
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
                case "offload":
                    number = self.jobs[slot].id
                    del self.job_ids[number]
                    self.queue.pop(number, None)
                    self.jobs.drop(slot)
                case "transfer":
                    self.batches.drop(slot)
                case "seek":
                    self.seeks.over(slot)
                case _:
                    del self.load_ids[self.loads[slot].id]
                    self.loads.drop(slot)

    def leave_step(self, slot: int) -> None:
        """The step is over: no lease is out on it any more."""
        for lease in self.step_leases.pop(slot):
            self.leases[lease].steps.remove(slot)
        self.steps = {number: part for number, part in self.steps.items() if part != slot}

    def block_moved(self, block: int, before: int, after: int, states: BlockViews) -> None:
        """As `blocks_moved`, for one."""
        pool = self.pools[self.pool_of[block]]
        pool.counts[before] -= 1
        pool.counts[after] += 1
        if after == states.free:
            pool.free.append(block)
        elif after == states.cached:
            pool.evictable.cached((block,), self.turn)
        elif after in states.held:
            self.held_since[block] = self.now
        if before == states.cached:
            (pool.evictable.gone if after != states.active else pool.evictable.hit)((block,))
        elif before in states.held and after not in states.held:
            del self.held_since[block]

    def blocks_moved(self, blocks: Sequence[int], before: int, after: int, states: BlockViews) -> None:
        """Keep the views in step with blocks that went from one state to another, in this order.

        They are of one pool; or, where a check reads source and destination, the first are of one and the others of
        another.
        """
        number, count = self.pool_of[blocks[0]], len(blocks)
        if self.pool_of[blocks[-1]] != number:
            for block in blocks:
                self.block_moved(block, before, after, states)
            return
        pool = self.pools[number]
        pool.counts[before] -= count
        pool.counts[after] += count
        if after == states.free:
            pool.free.extend(blocks)
        elif after == states.cached:
            pool.evictable.cached(blocks, self.turn)
        elif after in states.held:
            self.held_since.update(dict.fromkeys(blocks, self.now))
        if before == states.cached:
            (pool.evictable.gone if after != states.active else pool.evictable.hit)(blocks)
        elif before in states.held:
            for block in blocks if after not in states.held else ():
                del self.held_since[block]
