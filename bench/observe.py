"""What it costs to be watched: a ring that is always on, metrics, a log; as a share of what the loop does anyhow.

Jobs go through ledger and engine and a copier that copies nothing, so that the share is one of the accounting alone; a
copy that takes time makes it smaller. The engines are timed by turns, in CPU time of the one thread that there is. What
a turn of the loop costs in which a snapshot is taken, and one without, is timed by itself, with blocks held back so
that there is something to look at.
"""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time_ns

from bench.lives import given
from bench.measure import Line, Size, Spread, scaled, spread
from bench.road import AtOnce
from bench.steps import REQUESTS, Serving
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.observe.counts import Counts
from kvstate.observe.log import Logs
from kvstate.runtime.clock import VirtualClock
from kvstate.runtime.engine import Engine
from kvstate.runtime.inbox import Inbox
from kvstate.trace.ring import Ring

JOBS = (1, 64)
"""Blocks of a job."""
TRIPS = 8
"""In one turn."""
HELD = 1_000
"""Blocks that drain while a snapshot is timed."""
Attach = Callable[[Engine], object]
"""Has somebody listen to an engine."""


def with_ring(engine: Engine) -> None:
    """The ring of a runtime, as it is by default."""
    engine.listeners.append(Ring(engine.ledger))


WATCHERS: dict[str, Attach] = {
    "ring": with_ring,
    "metrics": lambda engine: Counts(engine, block_bytes=1),
    "log": Logs,
}


class Jobs:
    """Jobs of so many blocks through an engine, there and back."""

    def __init__(self, blocks: int, attach: Attach | None = None) -> None:
        inbox = Inbox()
        pools = (PoolConfig("device", blocks), PoolConfig("host", blocks))
        self.ledger = Ledger(LedgerConfig(pools, cool_for=0.0))
        self.clock = VirtualClock()
        self.engine = Engine(self.ledger, {"cpu": AtOnce(inbox)}, inbox, self.clock)
        self.blocks = blocks
        self.born = 0
        if attach is not None:
            attach(self.engine)

    def trip(self) -> int:
        """A store and a load, with all that a request asks for; in nanoseconds."""
        ledger, engine = self.ledger, self.engine
        keys = [(self.born + line).to_bytes(32, "big") for line in range(self.blocks)]
        self.born += self.blocks
        begin = thread_time_ns()
        lease = given(ledger.open("bench"))
        refs = given(ledger.allocate(lease, self.blocks)).blocks
        given(ledger.seal(lease, refs, keys))
        given(ledger.offload(lease, refs))
        self._until("jobs")
        given(ledger.finish(lease))
        lease = given(ledger.open("bench"))  # another one takes the whole device, and what was cached there is gone
        given(ledger.allocate(lease, self.blocks))
        given(ledger.finish(lease))
        lease = given(ledger.open("bench"))
        hit = given(ledger.lookup(lease, keys))
        into = given(ledger.allocate(lease, self.blocks)).blocks
        given(ledger.load(lease, hit, into, deadline=self.clock.now() + 10.0))
        self._until("loads")
        given(ledger.finish(lease))
        self.clock.advance(0.001)
        engine.poll()
        return thread_time_ns() - begin

    def _until(self, what: str) -> None:
        while not getattr(self.engine.poll(), what):
            pass


def dearer(blocks: int, attach: Attach, turns: int) -> tuple[Spread, float]:
    """By how many per cent a trip gets dearer, turn by turn, and the microseconds of one that nobody watches.

    A turn is some trips of each, one engine after the other and the next time the other way round: what one of them
    leaves to the garbage collector the other may have to pay.
    """
    plain, watched = Jobs(blocks), Jobs(blocks, attach)
    base, shares = list[float](), list[float]()
    for turn in range(turns + 1):
        times = dict[bool, int]()
        for which in (False, True) if turn % 2 else (True, False):
            jobs = watched if which else plain
            times[which] = sum(jobs.trip() for _ in range(TRIPS))
        if turn:
            base.append(times[False] / TRIPS / 1e3)
            shares.append(100 * (times[True] / times[False] - 1))
    assert plain.ledger.fatal is watched.ledger.fatal is None
    return spread(shares), spread(base).median


def shares(size: Size) -> list[Line]:
    """By how much a job gets dearer for each who watches."""
    result = []
    for blocks in JOBS:
        for name, attach in WATCHERS.items():
            found, base = dearer(blocks, attach, size.turns * 4)
            most = 10.0 if name == "ring" and blocks == 1 else None
            note = f"of {base:,.0f} us for a store and a load through ledger and engine"
            what = f"{name}: a job of {blocks} block{'s' if blocks > 1 else ''} is dearer by"
            result.append(Line(what, "%", found, "at most" if most else "", most, note))
    return result


def polls(size: Size) -> list[Line]:
    """What metrics cost a turn: one in which nothing is due, and one with a snapshot; and as a share of a step."""
    jobs = Jobs(HELD)
    counts = Counts(jobs.engine, block_bytes=1, every=3600.0)
    lease = given(jobs.ledger.open("bench"))
    refs = given(jobs.ledger.allocate(lease, HELD)).blocks
    given(jobs.ledger.hold(lease, refs, deadline=3600.0))
    jobs.ledger.abort(lease)
    jobs.engine.poll()
    assert sum(pool.counts[pool_draining(jobs.ledger)] for pool in jobs.ledger.books.pools) == HELD
    quiet, due, rounds = list[float](), list[float](), size.turns * 20
    for _ in range(rounds):
        begin = thread_time_ns()
        counts.on_turn()
        quiet.append(thread_time_ns() - begin)
        counts.wanted = True
        begin = thread_time_ns()
        counts.on_turn()
        due.append(thread_time_ns() - begin)
    plain = Serving()
    steps = []
    for _ in range(size.steps // 4):
        begin = thread_time_ns()
        plain.step()
        steps.append(float(thread_time_ns() - begin))
    step = spread(steps)
    part = 100 * spread(quiet).median / step.median
    note = f"of a step of {REQUESTS} requests, {step.median / 1e6:.1f} ms"
    return [
        Line("metrics: a turn without a snapshot", "us", scaled(spread(quiet), 1e-3)),
        Line("metrics: a turn without a snapshot", "%", Spread(part, part, part, rounds), note=note),
        Line(f"metrics: a snapshot, {HELD:,} blocks held back", "us", scaled(spread(due), 1e-3), note="4 a second"),
    ]


def pool_draining(ledger: Ledger) -> int:
    """The number of the state."""
    return ledger.books.tables["block"].STATES.index("draining")


def lines(size: Size) -> list[Line]:
    """All of it."""
    return [*shares(size), *polls(size)]
