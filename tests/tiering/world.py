"""A world of three tiers for Hypothesis: a ledger, its tiering, and who knows which bytes lie where.

The reference is the memory itself: what a block holds is a name (key space and key), put there by whoever computed it
and moved by copies when they land. So the world sees wrong bytes whatever the ledger believes, and it counts evictions
by the rows that the ledger fires and not by what the tiering says of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kvstate.errors import Code
from kvstate.machines.audit import audit
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, BlockRefs, Failure, Report, Work
from kvstate.machines.tables.key import State as K
from kvstate.machines.verdicts import Ending, Grant, Hit, JobVerdict, LoadVerdict, Started
from kvstate.tiering import TierConfig, Tiering

Held = tuple[str, bytes]
"""What a block holds: the bytes of that key in that space."""
BAD: Held = ("bad", b"")
"""Bytes that went bad; whoever reads them against a sum sees it."""
NEVER: Held = ("", b"")
"""A block that nobody has written."""
HOST, DISK = 1, 2
PROMPTS = 3
"""Prompts that there are, each of `LENGTH` blocks."""
LENGTH = 4
SPACES = ("a", "b")
KEPT = (K.READY, K.COOLING, K.WRITING)
"""States of a key whose bytes are there, or on their way."""


@dataclass(slots=True)
class Asked:
    """A request that waits for its load."""

    lease: int
    space: str
    keys: list[bytes]
    hit: Hit
    blocks: list[BlockRef]
    into: Sequence[BlockRef] = ()


@dataclass(slots=True)
class TierWorld:
    """See the module. Every method is a move that can be made at any time."""

    tiers: tuple[TierConfig, ...]
    foreign: bool = False
    waiting: dict[int, Asked] = field(default_factory=dict)
    pending: list[Work] = field(default_factory=list)
    lost: int = 0
    delivered: int = 0
    ledger: Ledger = field(init=False)
    tiering: Tiering = field(init=False)
    memory: list[Held] = field(init=False)
    free: list[int] = field(default_factory=lambda: list(range(6)))
    """Where the device is the engine's: what it can give away."""

    def __post_init__(self) -> None:
        pools = (
            PoolConfig("device", 6, foreign=self.foreign),
            PoolConfig("host", 5, verify=True),
            PoolConfig("disk", 7, durable=True, copier="disk"),
        )
        self.ledger = Ledger(LedgerConfig(pools, attempts=2, batch_blocks=2, part_blocks=2))
        self.tiering = Tiering(self.ledger, self.tiers)
        self.memory = [NEVER] * sum(pool.blocks for pool in pools)
        self.ledger.core.ports.block.sink = self._fired

    def _fired(self, _machine: str, blocks: Sequence[int], row: str, _before: int, _after: int) -> None:
        """A row has fired: what is evicted from the host and nowhere below is lost."""
        keys = self.ledger.books.keys
        for block in blocks if row == "B13" else ():
            if self.ledger.books.pool_of[block] == HOST:
                name = keys.name(keys.block_key[block])
                below = keys.find(DISK, name.namespace, name.key)
                self.lost += below < 0 or keys.state[below] not in KEPT

    # -- requests ------------------------------------------------------------------------------------------------------

    def admit(self, space: int, prompt: int, length: int) -> None:
        """A request comes: what is cached is pinned and right, the rest is loaded or computed."""
        name = SPACES[space]
        keys = [bytes([prompt, place]) for place in range(length)]
        lease = self.ledger.open(name)
        if not isinstance(lease, int):
            return
        hit = self.ledger.lookup(lease, keys)
        if not isinstance(hit, Hit) or hit.pending:
            self.ledger.abort(lease)
            return
        for ref, key in zip(hit.blocks, hit.keys, strict=True):
            assert self.memory[ref.block] in ((name, key), BAD), f"block {ref} is a hit for {key!r}: {self.memory}"
        fresh = self._given(lease, length - len(hit.blocks) + len(hit.below))
        if fresh is None:
            self.ledger.abort(lease)
            return
        into, more = fresh[: len(hit.below)], fresh[len(hit.below) :]
        asked = Asked(lease, name, keys, hit, [*hit.blocks, *more], into)
        for place, ref in zip(hit.below, into, strict=True):
            asked.blocks[place] = ref
        if not hit.below:
            self._compute(asked, len(hit.blocks))
            return
        started = self.ledger.load(lease, hit, into, deadline=self.ledger.books.now + 3.0)
        if not isinstance(started, Started):  # a copy of an earlier life still writes to a block of the engine's
            assert self.foreign, started
            self._end(asked)
            return
        self.waiting[started.load] = asked

    def _given(self, lease: int, count: int) -> Sequence[BlockRef] | None:
        if not self.foreign:
            grant = self.ledger.allocate(lease, count)
            return grant.blocks if isinstance(grant, Grant) else None
        if count > len(self.free):
            return None
        taken, self.free = self.free[:count], self.free[count:]
        return self.ledger.foreign_allocated(taken).refs  # type: ignore[union-attr]

    def _compute(self, asked: Asked, known: int) -> None:
        """Compute what is behind, have it stored, and end."""
        refs, keys = asked.blocks[known:], asked.keys[known:]
        for ref, key in zip(refs, keys, strict=True):
            self.memory[ref.block] = (asked.space, key)
        if self.foreign:
            self.tiering.sealed(asked.lease, BlockRefs.of(refs), keys=keys)
        else:
            self.ledger.seal(asked.lease, refs, keys)
            self.tiering.sealed(asked.lease, BlockRefs.of(refs))
        self._end(asked)

    def _end(self, asked: Asked) -> None:
        self.ledger.finish(asked.lease)
        if self.foreign:  # an engine that does not wait: the blocks go to others at once, under the stores
            mine = [ref for ref in asked.blocks if ref.block < 6]
            self.ledger.foreign_freed(mine)
            self.free += [ref.block for ref in mine]

    def abort(self, number: int) -> None:
        """One of those who wait is no longer wanted."""
        if self.waiting:
            load = sorted(self.waiting)[number % len(self.waiting)]
            self.ledger.abort(self.waiting[load].lease)

    # -- copies --------------------------------------------------------------------------------------------------------

    def copy(self, number: int, outcome: str) -> None:
        """A copy that is under way lands, and says so, or fails. A sum that does not agree is always seen."""
        self.pending += [effect for effect in self.ledger.take_effects() if isinstance(effect, Work)]
        if not self.pending:
            return
        work = self.pending.pop(number % len(self.pending))
        names = [(work.space(line), key) for line, key in enumerate(work.keys)]
        wrong = self._lands(work, names) if outcome == "done" else []
        failures = [Failure(line, int(Code.CRC_MISMATCH), "fetch") for line in wrong]
        self.ledger.report(Report(work.token, "broken" if wrong else outcome, tuple(failures)))

    def _lands(self, work: Work, names: list[Held]) -> list[int]:
        """Move the bytes; the lines whose sum does not agree."""
        above = self.ledger.books.pool_of[work.src[0]] if work.src else 0
        if work.kind == "verify":
            return [line for line, block in enumerate(work.dst) if self.memory[block] != names[line]]
        if (work.kind == "store" and above == HOST) or (work.kind == "fetch" and above == DISK):
            wrong = [line for line, block in enumerate(work.src) if self.memory[block] != names[line]]
            if wrong:
                return wrong
        for src, dst in zip(work.src, work.dst, strict=False):
            self.memory[dst] = self.memory[src]
        return []

    def rot(self, block: int) -> None:
        """Bits flip in a block below the device."""
        self.memory[6 + block % (len(self.memory) - 6)] = BAD

    def hear(self) -> None:
        """What a turn of the loop does: verdicts, and then the tiers' own turn."""
        for verdict in self.ledger.take_verdicts():
            if isinstance(verdict, JobVerdict):
                assert self.tiering.told(verdict)
            elif isinstance(verdict, LoadVerdict):
                self._loaded(verdict)
        assert self.ledger.fatal is None, self.ledger.fatal
        self.tiering.turn()

    def _loaded(self, verdict: LoadVerdict) -> None:
        asked = self.waiting.pop(verdict.load)
        if verdict.ending is Ending.ABORTED:
            self._end(asked)
            return
        for place in asked.hit.below:
            if place < verdict.blocks:
                held, key = self.memory[asked.blocks[place].block], asked.keys[place]
                assert held == (asked.space, key), f"{key!r} was loaded into {asked.blocks[place]}, which has {held}"
                self.delivered += 1
        self.tiering.loaded(verdict, asked.hit, asked.into)
        lost = [place for place, ref in enumerate(asked.blocks) if ref.block in verdict.left]
        if lost or (self.foreign and verdict.blocks < len(asked.keys)):
            self._end(asked)
            return
        self._compute(asked, max(verdict.blocks, 0))

    def reset(self) -> None:
        """The weights have changed."""
        self.ledger.reset()

    def tick(self, seconds: float) -> None:
        """Time passes; what nobody has answered is given up."""
        self.ledger.tick(self.ledger.books.now + seconds)

    # -- what always holds ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Budgets, balances, and what was lost."""
        books = self.ledger.books
        assert self.ledger.fatal is None, self.ledger.fatal
        for number, pool in enumerate(books.pools):
            counts = self.tiering.counts.get(pool.config.name)
            if counts is None:
                continue
            under_way = sum(len(job.dsts) for job in books.jobs.live() if job.pool == number)
            (config,) = (tier for tier in self.tiers if tier.pool == pool.config.name)
            assert under_way == counts.in_flight <= config.inflight_blocks
        host = self.tiering.counts.get("host")
        assert host is None or "disk" not in self.tiering.counts or host.lost == self.lost
        assert not audit(self.ledger)

    def home(self) -> None:
        """Nothing new: everything ends, nothing is left, and no lease is open that no request has."""
        self.hear()
        self.tiering.close()
        mine = {asked.lease for asked in self.waiting.values()}
        assert set(self.ledger.books.leases) == mine
        for lease in mine:
            self.ledger.abort(lease)
        self.ledger.drain()
        for _ in range(50):
            self.copy(0, "done")
            self.hear()
        self.tick(60.0)
        self.tick(60.0)
        for copier in ("cpu", "disk"):
            self.ledger.fenced(0, copier, self.ledger.books.serial)
        self.hear()
        self.check()
        assert self.ledger.rest() == []
        assert all(counts.in_flight == 0 for counts in self.tiering.counts.values())
