"""A world around the pure ledger that knows the physical truth, and walks through it at random.

The world moves bytes (symbols for bytes) when a copy *lands*, and tells the ledger when a report is *delivered*; the
two are apart, in any order between parts, and a report can come twice, late, wrong, or never. It names every copy by a
hidden number of its own and remembers which life of which block the copy started on, so that it sees a reuse that the
ledger's own tokens could not show. After every move it holds the ledger against what is true.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

from kvstate.errors import Code
from kvstate.machines.audit import audit
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Cancel, Failure, Kind, Outcome, Report, Token, Work
from kvstate.machines.verdicts import Ending, Hit, JobVerdict, LoadVerdict, Settlement, Short

POISON = "poison"
TIMED_OUT = (Failure(-1, int(Code.PEER_LOST), "fetch"),)


@dataclass(eq=False)
class Flight:
    """One physical copy. It may land once, and its report may come any number of times."""

    hidden: int
    work: Work
    lives: dict[int, int]
    landed: bool = False
    reported: bool = False
    bad: tuple[int, ...] = ()


@dataclass(eq=False)
class Request:
    """What the engine knows of a lease."""

    lease: int
    keys: list[bytes]
    hit: Hit | None = None
    load: int | None = None
    table: dict[int, BlockRef] = field(default_factory=dict)
    """Place in the prefix to block."""
    out: int = 0
    """The newest step that it is out on."""


@dataclass
class Scope:
    """How large the world is and what may go wrong in it."""

    device: int = 5
    host: int = 4
    part_blocks: int = 1
    batch_blocks: int = 2
    ranks: int = 1
    keys: int = 6
    longest: int = 4
    max_jobs: int = 3
    durable: bool = False
    verify: bool = True
    lose: bool = True


class World:
    """See the module. `walk(n)` makes n random moves, `rest()` brings everything home and checks that it got there."""

    def __init__(self, seed: int, scope: Scope | None = None, **ledger: object) -> None:
        self.random = Random(seed)
        self.scope = scope = scope or Scope()
        config = LedgerConfig(
            pools=(
                PoolConfig("device", scope.device),
                PoolConfig("host", scope.host, durable=scope.durable, verify=scope.verify),
            ),
            ranks=scope.ranks,
            part_blocks=scope.part_blocks,
            batch_blocks=scope.batch_blocks,
            max_jobs=scope.max_jobs,
            grace=2.0,
            retry_delay=0.5,
            cool_for=3.0,
            pending_for=2.0,
            step_for=6.0,
        )
        self.ledger = Ledger(config, **ledger)  # type: ignore[arg-type]
        self.now = 0.0
        self.bytes: dict[tuple[int, int], object] = {}
        """What each rank holds in each block: (namespace, key), or poison."""
        self.flights: list[Flight] = []
        self.past: list[Token] = []
        self.requests: list[Request] = []
        self.steps: list[int] = []
        self.step = 0
        self.waiting: list[Flight] = []
        self.writes: dict[int, list[tuple[int, int, object]]] = {}
        """What a step under way will write: (block, generation, bytes)."""
        self.loads: set[int] = set()
        self.told: set[int] = set()
        self.settled: set[int] = set()
        self.jobs: set[int] = set()
        self.condemned: set[tuple[bytes, BlockRef]] = set()
        self.log: list[str] = []

    # -- moves ---------------------------------------------------------------------------------------------------------

    MOVES: ClassVar[dict[str, int]] = {
        "arrive": 6,
        "start": 10,
        "compute": 10,
        "store": 8,
        "finish": 4,
        "abort": 3,
        "land": 14,
        "deliver": 14,
        "deliver_early": 2,
        "deliver_bad": 3,
        "deliver_again": 2,
        "deliver_unknown": 1,
        "time_out": 2,
        "tick": 5,
        "retire": 6,
        "corrupt": 4,
        "cancel": 2,
        "reset": 1,
        "window": 2,
        "fence": 1,
        "lose": 1,
        "hold": 1,
        "pressure": 3,
        "land_all": 3,
    }
    """What may happen, and how often."""
    ALWAYS = (("arrive", 2), ("start", 2), ("compute", 2), ("store", 2), ("land", 2), ("deliver", 2))

    def walk(self, moves: int) -> None:
        swarm = [(name, weight * self.random.choice((0, 1, 1, 4))) for name, weight in self.MOVES.items()]
        names, weights = zip(*swarm, *self.ALWAYS, strict=True)
        for name in self.random.choices(names, weights, k=moves):
            self.move(name)

    def move(self, name: str) -> None:
        self.log.append(name)
        getattr(self, name)()
        self.check()

    def pick(self, things: list[Flight] | list[Request]) -> object | None:
        return self.random.choice(things) if things else None

    def arrive(self) -> None:
        if len(self.requests) >= 4:
            return
        start = self.random.choice((0, 0, 0, 3))
        length = self.random.randint(1, self.scope.longest)
        keys = [bytes([place]) * 16 for place in range(start, min(start + length, self.scope.keys))]
        lease = self.ledger.open(self.random.choice(("a", "a", "a", "b")))
        assert isinstance(lease, int)
        self.requests.append(Request(lease, keys))

    def start(self) -> None:
        """Look up, allocate, load."""
        request = self.pick([r for r in self.requests if r.hit is None])
        if not isinstance(request, Request):
            return
        hit = self.ledger.lookup(request.lease, request.keys)
        if not isinstance(hit, Hit) or hit.pending:
            return
        for key, ref in zip(hit.keys, hit.blocks, strict=True):
            assert (key, ref) not in self.condemned, f"L5.bad_keys: {key!r} is a hit again in {ref} after bad bytes"
        grant = self.ledger.allocate(request.lease, len(request.keys) - len(hit.blocks) + len(hit.below))
        if not grant:
            self.ledger.unpin(hit)
            return
        fresh = list(grant.blocks)  # type: ignore[union-attr]
        into = [fresh.pop(0) for _ in hit.below]
        request.hit = hit
        request.table = {place: ref for place, ref in enumerate(hit.blocks) if place not in hit.below}
        request.table.update(zip(hit.below, into, strict=True))
        request.table.update(zip(range(len(hit.blocks), len(request.keys)), fresh, strict=True))
        if hit.below:
            started = self.ledger.load(request.lease, hit, into, deadline=self.now + self.random.choice((0.5, 3.0)))
            assert started, started
            request.load = started.load  # type: ignore[union-attr]
            self.loads.add(request.load)

    def compute(self) -> None:
        """Send a step down that writes the open blocks of a request, and seal them."""
        request = self.pick([r for r in self.requests if r.hit is not None and r.load is None])
        if not isinstance(request, Request):
            return
        self.step += 1
        others = [
            r.lease
            for r in self.requests
            if r is not request and self.random.random() < 0.2 and r.hit is not None and r.load is None
        ]
        leases = [request.lease, *others]
        assert self.ledger.step_dispatched(self.step, leases)
        self.steps.append(self.step)
        request.out = self.step
        books = self.ledger.books
        space = books.leases[request.lease].namespace
        opened = [
            (ref, request.keys[place])
            for place, ref in request.table.items()
            if books.current(ref) and books.tables["block"].STATES[books.block_state[ref.block]] == "open"
        ]
        self.writes[self.step] = [(ref.block, ref.generation, (space, key)) for ref, key in opened]
        if opened:
            assert self.ledger.seal(request.lease, [ref for ref, _ in opened], [key for _, key in opened])

    def retire(self) -> None:
        if self.steps:
            self.retire_one()

    def retire_one(self) -> None:
        step = self.steps.pop(0)
        for block, generation, content in self.writes.pop(step):
            assert self.ledger.books.generation[block] == generation, f"L3.no_reuse: step {step} writes block {block}"
            for rank in range(self.scope.ranks):
                self.bytes[rank, block] = content
        self.ledger.step_retired(step)
        for request in self.requests:
            if request.out == step:
                request.out = 0

    def store(self) -> None:
        request = self.pick([r for r in self.requests if r.hit is not None and r.load is None])
        if isinstance(request, Request):
            refs = list(request.table.values())
            self.random.shuffle(refs)
            deadline = self.now + self.random.choice((1.0, 5.0))
            stored = self.ledger.offload(request.lease, refs + refs[:1], deadline=deadline)
            if stored:
                self.jobs.add(stored.job)  # type: ignore[union-attr]

    def finish(self) -> None:
        request = self.pick([r for r in self.requests if r.hit is None or r.load is None])
        if isinstance(request, Request):
            self.requests.remove(request)
            self.ledger.finish(request.lease)

    def abort(self) -> None:
        request = self.pick(self.requests)
        if isinstance(request, Request):
            self.requests.remove(request)
            self.ledger.preempt(request.lease)
            assert not self.ledger.abort(request.lease)

    def window(self) -> None:
        """The front of the prefix has left the window."""
        request = self.pick([r for r in self.requests if r.load is None and r.table])
        if isinstance(request, Request):
            ref = request.table.pop(min(request.table))
            assert not isinstance(self.ledger.release(request.lease, [ref]), bool)

    def hold(self) -> None:
        request = self.pick([r for r in self.requests if r.load is None and r.table])
        if isinstance(request, Request):
            ref = self.random.choice(list(request.table.values()))
            token = self.ledger.hold(request.lease, [ref], deadline=self.now + 4.0)
            if isinstance(token, Token):
                work = Work(token, "hold", 0, "engine", 1, (ref.block,), (), (), 0)
                self.flights.append(Flight(0, work, {ref.block: ref.generation}, landed=True))

    def pressure(self) -> None:
        """Another request needs the whole device for a moment: all that is cached there is evicted."""
        lease = self.ledger.open("pressure")
        assert isinstance(lease, int)
        short = self.ledger.allocate(lease, 10**6)
        assert isinstance(short, Short)
        assert self.ledger.allocate(lease, short.free)
        self.ledger.finish(lease)

    def land_all(self) -> None:
        """A quiet moment: steps retire, everything lands and is reported, in some order."""
        while self.steps:
            self.retire_one()
        flights = [flight for flight in self.flights if flight.work.kind != Kind.HOLD]
        self.random.shuffle(flights)
        for flight in flights:
            if not flight.landed:
                self.land_one(flight)
            self.answer(flight)

    def cancel(self) -> None:
        live = sorted((self.jobs | self.loads) - self.told)
        if live:
            self.ledger.cancel(self.random.choice(live))

    def reset(self) -> None:
        if self.random.random() < 0.3:
            self.ledger.reset()

    def tick(self) -> None:
        self.now += self.random.choice((0.3, 0.3, 1.0, 2.5))
        self.ledger.tick(self.now)

    # -- copies --------------------------------------------------------------------------------------------------------

    def ready(self) -> list[Flight]:
        return [f for f in self.flights if f.work.after_step == 0 or f.work.after_step not in self.steps]

    def land(self) -> None:
        flight = self.pick([f for f in self.ready() if not f.landed])
        if isinstance(flight, Flight):
            self.land_one(flight)

    def land_one(self, flight: Flight) -> None:
        flight.landed = True
        work, rank = flight.work, flight.work.rank
        self.untouched(flight)
        bad = []
        for line, key in enumerate(work.keys):
            src = work.src[line]
            if work.kind in (Kind.STORE, Kind.FETCH):
                self.bytes[rank, work.dst[line]] = self.bytes.get((rank, src), POISON)
            elif work.kind == Kind.VERIFY:
                found = self.bytes.get((rank, work.dst[line]), POISON)
                if not (isinstance(found, tuple) and found[1] == key):
                    bad.append(line)
        flight.bad = tuple(bad)

    def untouched(self, flight: Flight) -> None:
        for block, generation in flight.lives.items():
            now = self.ledger.books.generation[block]
            assert now == generation, (
                f"L3.no_reuse: {flight.work} lands on gen {now} of block {block}, not {generation}"
            )

    def deliver(self) -> None:
        flight = self.pick([f for f in self.flights if f.landed])
        if isinstance(flight, Flight):
            self.answer(flight)

    def answer(self, flight: Flight) -> None:
        """The true report of a copy that is over."""
        self.flights.remove(flight)
        self.past.append(flight.work.token)
        if flight.bad:
            failures = tuple(Failure(line, int(Code.CRC_MISMATCH), "verify") for line in flight.bad)
            self.note_condemned(flight)
            self.ledger.report(Report(flight.work.token, Outcome.BROKEN, failures))
        else:
            self.ledger.report(Report(flight.work.token, Outcome.DONE))

    def note_condemned(self, flight: Flight) -> None:
        """Remember what must never be a hit again in this life of its block."""
        part = self.ledger.books.parts.items[self.ledger.books.tokens.get(flight.work.token.serial, 0)]
        told = part is not None and part.token == flight.work.token
        for line in flight.bad:
            src = flight.work.src[line]
            if told and flight.work.kind == Kind.VERIFY:
                self.condemned.add((flight.work.keys[line], BlockRef(src, flight.lives[src])))

    def deliver_early(self) -> None:
        """A copy that was stopped before it moved a byte says so."""
        flight = self.pick([f for f in self.flights if not f.landed])
        if isinstance(flight, Flight):
            self.flights.remove(flight)
            self.past.append(flight.work.token)
            self.ledger.report(Report(flight.work.token, Outcome.CANCELLED))

    def deliver_bad(self) -> None:
        """A copy fails; whatever it moved, it moves no more."""
        flight = self.pick(self.ready())
        if isinstance(flight, Flight) and flight.work.kind != Kind.HOLD:
            if not flight.landed and self.random.random() < 0.5:
                self.land_one(flight)
            self.flights.remove(flight)
            self.past.append(flight.work.token)
            outcome, code = self.random.choice(
                (
                    (Outcome.FAILED, Code.KV_OOM),
                    (Outcome.DENIED, Code.PERMISSION_DENIED),
                    (Outcome.BROKEN, Code.BLOCK_NOT_FOUND),
                )
            )
            lines = self.random.choice((-1, 0))
            self.ledger.report(Report(flight.work.token, outcome, (Failure(lines, int(code), "fetch"),)))

    def deliver_again(self) -> None:
        if self.past:
            before = self.ledger.books.stale
            token = self.random.choice(self.past)
            self.ledger.report(Report(token, self.random.choice(list(Outcome))))
            assert self.ledger.fatal or self.ledger.books.stale == before + 1, (
                "L2.stale_counted: a second report was not counted"
            )

    def deliver_unknown(self) -> None:
        before = self.ledger.books.unknown
        self.ledger.report(Report(Token(1, 10**9), Outcome.DONE))
        self.ledger.report(Report(Token(7, 1), Outcome.DONE))
        assert self.ledger.books.unknown == before + 2

    def time_out(self) -> None:
        flight = self.pick(self.flights)
        if isinstance(flight, Flight):
            self.ledger.report(Report(flight.work.token, Outcome.TIMEOUT, TIMED_OUT))

    def lose(self) -> None:
        """A copy whose report never comes; the bytes still land, at some time before the fence."""
        if self.scope.lose:
            flight = self.pick([f for f in self.flights if f.landed and f.work.kind != Kind.HOLD])
            if isinstance(flight, Flight):
                self.flights.remove(flight)
                self.waiting.append(flight)

    def corrupt(self) -> None:
        """A byte of a host block goes bad; where nothing verifies, nobody could tell."""
        if not self.scope.verify:
            return
        block = self.random.randrange(self.scope.device, self.scope.device + self.scope.host)
        self.bytes[self.random.randrange(self.scope.ranks), block] = POISON

    def fence(self) -> None:
        """Every copy up to now is brought to its end, reported or not, and then proved over."""
        last = self.ledger.books.serial
        while self.steps:
            self.retire_one()
        for flight in [*self.flights]:
            if not flight.landed:
                self.land_one(flight)
        for flight in self.waiting:
            self.past.append(flight.work.token)
        self.waiting.clear()
        over = [flight for flight in self.flights if flight.work.kind != Kind.HOLD]
        self.flights = [flight for flight in self.flights if flight.work.kind == Kind.HOLD]
        self.past.extend(flight.work.token for flight in over)
        for rank in range(self.scope.ranks):
            self.ledger.fenced(rank, "cpu", last)

    # -- what must be true ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        ledger = self.ledger
        assert ledger.fatal is None, ledger.fatal
        for effect in ledger.take_effects():
            if isinstance(effect, Work):
                lives = {block: ledger.books.generation[block] for block in (*effect.src, *effect.dst)}
                self.flights.append(Flight(len(self.past) + len(self.flights), effect, lives))
            elif isinstance(effect, Cancel) and self.random.random() < 0.5:
                for flight in self.flights:
                    if flight.work.token == effect.token and not flight.landed:
                        self.flights.remove(flight)
                        self.past.append(effect.token)
                        ledger.report(Report(effect.token, Outcome.CANCELLED))
                        break
        for verdict in ledger.take_verdicts():
            self.hear(verdict)
        for flight in (*self.flights, *self.waiting):
            self.untouched(flight)
        problems = audit(ledger)
        assert not problems, problems
        if ledger.books.effects or ledger.books.verdicts:
            self.check()

    def hear(self, verdict: object) -> None:
        if isinstance(verdict, LoadVerdict):
            assert verdict.load in self.loads - self.told, f"L1.verdict_once: {verdict}"
            self.told.add(verdict.load)
            self.hear_load(verdict)
        elif isinstance(verdict, JobVerdict):
            assert verdict.job not in self.told, f"L1.verdict_once: {verdict}"
            assert verdict.errors or verdict.ending is not Ending.FAILED, f"L10: {verdict}"
            self.told.add(verdict.job)
        elif isinstance(verdict, Settlement):
            assert verdict.load in self.told - self.settled, f"L1.verdict_once: {verdict}"
            self.settled.add(verdict.load)

    def hear_load(self, verdict: LoadVerdict) -> None:
        request = next((r for r in self.requests if r.load == verdict.load), None)
        if request is None:
            assert verdict.ending is Ending.ABORTED
            return
        assert verdict.errors or verdict.ending is not Ending.RECOMPUTE, f"L10: {verdict}"
        request.load = None
        assert request.hit is not None
        space = self.ledger.books.leases[request.lease].namespace
        for place in request.hit.below:
            if place < verdict.blocks:
                for rank in range(self.scope.ranks):
                    found = self.bytes.get((rank, request.table[place].block))
                    assert found == (space, request.keys[place]), f"L5.proceed: {found} for {request.keys[place]!r}"
        for place, ref in list(request.table.items()):
            if ref.block in verdict.left:
                del request.table[place]

    # -- the end -------------------------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Close everything, let time pass, fence: all must come home (L11)."""
        while self.requests:
            self.move("abort")
        while self.steps:
            self.move("retire")
        for _ in range(3):
            self.now += 100.0
            self.ledger.tick(self.now)
            self.check()
        for flight in [f for f in self.flights if f.work.kind == Kind.HOLD]:
            self.answer(flight)
        self.move("fence")
        self.ledger.drain()
        self.ledger.drain()
        assert self.ledger.shut() is True, self.ledger.shut()
        assert not self.ledger.open("a"), "a closed ledger opened a lease"
        assert self.ledger.rest() == [], self.ledger.rest()
        states = self.ledger.books.tables["block"].STATES
        left = {states[state] for state in self.ledger.books.block_state} - {"free", "cached"}
        assert not left, f"L11.home: blocks are left {left}"
        self.check()
        assert self.told >= self.loads | self.jobs, "L1.verdict_once: somebody was never told"
        assert self.settled == self.loads, "L1.verdict_once: a load never settled"
