"""What is counted of a runtime, by the thread that runs its loop, and handed to others as a snapshot.

    kv.poll()  ...  Counts.on_turn()      at most every so many seconds: all numbers into one new, frozen snapshot
    another thread                        reads `Counts.snapshot`, one reference; it never sees the books themselves

So nobody reads a book that is being written, and a scrape costs the loop nothing: what it costs is a look at the clock
each turn, and some ten microseconds each time that a snapshot is due.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from time import monotonic
from typing import Any, Final, Protocol

from kvstate.errors import KVError
from kvstate.errors.codes import STAGES
from kvstate.machines import bulk
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRefs, Kind, Outcome, Report, Token
from kvstate.machines.records import Part
from kvstate.machines.verdicts import Ending, Hit, JobVerdict, LoadVerdict, Refusal, Short, Verdict
from kvstate.observe.snapshot import EMPTY, Durations, Snapshot
from kvstate.trace.observer import Observer
from kvstate.trace.ring import Ring
from kvstate.trace.rows import listen

EVERY: Final = 0.25
"""Seconds from one snapshot to the next, where nothing is said."""
HELD: Final = 10_000
"""Blocks that are held back and looked at for the oldest age, those first that have been held back longest."""
CLOSES: Final = ("finish", "abort", "preempt")
"""The requests that end a lease."""
TIERED: Final = ("stored", "failed", "promoted", "written_back", "lost")
"""What is counted of a tier, beside what was dropped; see `kvstate.tiering.counts`."""
OUTCOMES: Final = {outcome.value: outcome.value for outcome in Outcome}
"""The outcomes that there are, as plain words."""
COPIES: Final = frozenset({Kind.STORE, Kind.PERSIST, Kind.FETCH, Kind.VERIFY})
"""The kinds of parts that a copier runs."""


class Watched(Protocol):
    """What can be counted: a `KVRuntime`, or an `Engine`."""

    ledger: Ledger
    """Whose books are read."""
    listeners: list[Observer]
    """Told of what passes through the engine."""


class Counts(Observer):
    """Counts what an engine does. It belongs to the thread that owns the ledger; `snapshot` is for all."""

    def __init__(
        self,
        watched: Watched,
        *,
        block_bytes: int | None = None,
        every: float = EVERY,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Attach itself to `watched.listeners`; what was before is not counted.

        block_bytes: of one rank's piece of a block; a `KVRuntime` knows it, for an `Engine` it is 0 unless it is said
        every: seconds from one snapshot to the next, of `clock`
        """
        self.ledger = watched.ledger
        """What is counted."""
        self.snapshot = EMPTY
        """The last one."""
        self.wanted = False
        """Set by whoever reads a snapshot: take another in the next turn, however soon that is."""
        config = getattr(watched, "config", None)
        self.block_bytes = int(getattr(config, "block_bytes", 0)) if block_bytes is None else block_bytes
        """Bytes of one line of a copy."""
        self._watched = watched
        self._every, self._clock, self._due = every, clock, float("-inf")
        self._pools = [pool.name for pool in self.ledger.config.pools]
        names = (
            "jobs loads errors parts bytes evictions lookups prompt_tokens hit_tokens recomputed_tokens leases_closed "
            "allocations_short ranks_lost resets troubles handoffs"
        )
        self._counts: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in names.split()}
        for name in ("evictions", "hit_tokens"):
            self._counts[name].update({(pool,): 0 for pool in self._pools})
        self._counts["leases_closed"].update({(how,): 0 for how in (*CLOSES, "rank_lost")})
        self._seconds: dict[tuple[str, ...], Durations] = {}
        self._over: list[tuple[tuple[str, ...], float]] = []
        """Copies that were reported in this turn: direction and pool, and when they were begun."""
        self._promised: dict[int, int] = {}
        """By load that is not told yet: tokens of its hit."""
        self._ring = next((one for one in watched.listeners if isinstance(one, Ring)), None)
        self._listen()
        watched.listeners.append(self)

    # -- what is told --------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        """Hear of evictions. Blocks that are evicted together are of one pool."""
        table = self.ledger.core.ports.ports["block"].table
        evicts = frozenset(row for row, does in zip(table.ROWS, table.EFFECTS, strict=True) if "gone" in does)
        evictions, pool_of = self._counts["evictions"], self._pool_of

        def sink(_machine: str, slots: Sequence[int], row: str, _before: int, _after: int) -> None:
            if row in evicts:
                evictions[pool_of(slots[0])] += len(slots)

        listen(self.ledger, sink, ["block"])

    def _pool_of(self, block: int) -> tuple[str]:
        return (self._pools[self.ledger.books.pool_of[block]],)

    def on_input(self, name: str, answer: object = None, /, **values: Any) -> None:
        """Count requests by what was answered."""
        counts = self._counts
        if isinstance(answer, Refusal):
            return
        if isinstance(answer, Hit):
            self._looked_up(answer, values.get("keys", 0))
        elif name == "load" and "load" in values:
            self._promised[values["load"]] = values["tokens"]
        elif name in CLOSES:
            counts["leases_closed"][(name,)] += 1
        elif isinstance(answer, Short):
            counts["allocations_short"][()] += 1
        elif name == "rank_lost":
            counts["ranks_lost"][()] += 1
            counts["leases_closed"][(name,)] += values["leases"]
        elif name == "reset":
            counts["resets"][()] += 1
        elif name == "trouble":
            counts["troubles"][()] += 1
        elif name == "handoff":
            counts["handoffs"][(values["side"], values["end"], values["code"])] += 1

    def _looked_up(self, hit: Hit, keys: int | Sequence[int]) -> None:
        """What was asked for and what was found, in tokens; of what is pending neither."""
        counts, config = self._counts, self.ledger.config
        if hit.pending:
            counts["lookups"][("pending",)] += 1
            return
        counts["lookups"][("hit" if hit.tokens else "miss",)] += 1
        if isinstance(keys, int):
            asked = keys * config.tokens_per_block
        else:
            sizes = [group.tokens_per_block for group in config.groups]
            asked = max((count * size for count, size in zip(keys, sizes, strict=False)), default=0)
        counts["prompt_tokens"][()] += asked
        if not hit.tokens:
            return
        left, blocks = hit.tokens, len(hit.blocks)
        if hit.below:
            pools = bulk.gather(self.ledger.books.pool_of, BlockRefs.of(hit.blocks).blocks).tobytes()
            for number, name in enumerate(self._pools[1:], 1):
                tokens = hit.tokens * pools.count(number) // blocks
                left -= tokens
                counts["hit_tokens"][(name,)] += tokens
        counts["hit_tokens"][(self._pools[0],)] += left

    def on_report(self, report: Report) -> None:
        """Count a copy that ends. What came twice, or late and for nothing, is counted by the ledger."""
        part = self._part(report)
        if part is None:
            return
        pool_of = self.ledger.books.pool_of
        pool = self._pools[max(pool_of[blocks[0]] for blocks in (part.reads, part.writes) if blocks)]
        outcome = OUTCOMES.get(report.outcome, "other")
        counts, kind = self._counts, part.kind.value
        what = kind, pool
        counts["parts"][kind, pool, outcome] += 1
        if outcome == Outcome.DONE:
            counts["bytes"][what] += len(part.keys) * self.block_bytes
        if outcome != Outcome.TIMEOUT:
            self._over.append((what, part.since))

    def _part(self, report: Report) -> Part | None:
        """The copy that this report ends, if it is one."""
        books, token = self.ledger.books, getattr(report, "token", None)
        if type(token) is not Token or type(token.serial) is not int or type(report.outcome) not in (str, Outcome):
            return None  # what is no report at all the ledger counts as unknown
        slot = books.tokens.get(token.serial) if token.incarnation == books.config.incarnation else None
        if slot is None or books.parts_state[slot] in books.parts.table.HOME:
            return None
        part = books.parts[slot]
        return part if part.kind in COPIES and (part.reads or part.writes) else None

    def on_verdict(self, verdict: Verdict) -> None:
        """Count how jobs and loads ended, and why."""
        match verdict:
            case JobVerdict():
                self._ended("jobs", str(verdict.ending), verdict.errors)
            case LoadVerdict():
                self._ended("loads", str(verdict.ending), verdict.errors)
                promised = self._promised.pop(verdict.load, None)
                if verdict.ending is Ending.RECOMPUTE and promised is not None:
                    self._counts["recomputed_tokens"][()] += promised - verdict.tokens
            case _:
                pass

    def _ended(self, what: str, outcome: str, errors: Sequence[KVError]) -> None:
        self._counts[what][outcome, errors[0].code.name if errors else "none"] += 1
        for error in errors:
            self._counts["errors"][error.code.name, error.stage if error.stage in STAGES else "other"] += 1

    def on_turn(self) -> None:
        """Now the ledger knows what time it is; and whoever waits for a snapshot gets one."""
        now = self.ledger.books.now
        for what, since in self._over:
            self._seconds.setdefault(what, Durations()).add(max(0.0, now - since))
        self._over.clear()
        clock = self._clock()
        if clock >= self._due or self.wanted:
            self._due, self.wanted = clock + self._every, False
            self.snapshot = self._taken(clock)

    # -- the snapshot --------------------------------------------------------------------------------------------------

    def take(self) -> Snapshot:
        """A snapshot of this very moment. For the thread that owns the ledger."""
        self.snapshot = self._taken(self._clock())
        return self.snapshot

    def _taken(self, at: float) -> Snapshot:
        books, inbox = self.ledger.books, getattr(self._watched, "inbox", None)
        counts: dict[str, Mapping[tuple[str, ...], float]] = {name: dict(of) for name, of in self._counts.items()}
        for name, count in (
            ("reports_stale", books.stale),
            ("reports_unknown", books.unknown),
            ("retries", books.retries),
            ("inbox_dropped", getattr(inbox, "dropped", 0)),
            ("ring_lost", 0 if self._ring is None else self._ring.lost_events),
        ):
            counts[name] = {(): count}
        counts["tiers"] = self._tiers()
        levels: dict[str, Mapping[tuple[str, ...], float]] = {
            "leases": {(): len(books.leases)},
            "jobs_open": {("queued",): len(books.queue), ("started",): len(books.job_ids) - len(books.queue)},
            "loads_open": {(): len(books.load_ids)},
            "reports_waiting": {(): len(inbox) if inbox is not None else 0},
            "poisoned": {(): int(self.ledger.fatal is not None)},
            "blocks": self._blocks(),
            "oldest": self._oldest(),
        }
        seconds = {what: (tuple(one.buckets), one.seconds) for what, one in self._seconds.items()}
        return Snapshot(at, counts, seconds, levels)

    def _tiers(self) -> dict[tuple[str, ...], float]:
        """What became of the blocks that ought to be stored in each tier, where a runtime decides that by itself."""
        found: dict[tuple[str, ...], float] = {}
        for pool, tier in getattr(getattr(self._watched, "tiering", None), "counts", {}).items():
            found |= {(pool, what): getattr(tier, what) for what in TIERED}
            found |= {(pool, f"dropped_{reason}"): count for reason, count in tier.dropped.items()}
        return found

    def _states(self, foreign: bool) -> tuple[str, ...]:
        return self.ledger.books.tables["foreign" if foreign else "block"].STATES

    def _blocks(self) -> dict[tuple[str, ...], float]:
        return {
            (pool.config.name, state): count
            for pool in self.ledger.books.pools
            for state, count in zip(self._states(pool.config.foreign), pool.counts, strict=True)
        }

    def _oldest(self) -> dict[tuple[str, ...], float]:
        """How long that block is held back already which has been so longest, by pool and state; 0 where none is."""
        books, own = self.ledger.books, self._states(foreign=False)
        held: dict[tuple[str, ...], float] = {
            (pool.config.name, state): 0.0
            for pool in books.pools
            for state in (("held",) if pool.config.foreign else ("draining", "quarantined"))
        }
        here, states, pool_of, names = books.engine.count, books.block_state, books.pool_of, self._pools
        for block, since in islice(books.held_since.items(), HELD):
            key = (names[pool_of[block]], "held" if block < here else own[states[block]])
            held[key] = max(held.get(key, 0.0), books.now - since)
        return held
