"""The world around the ledger: where bytes are, which copies are on their way, what each request is at.

As in `kvstate.testing.physics`, bytes are symbols (the name of a key), a copy *lands* and its report is *delivered* at
another time, and a block has a new *tenant* whenever it is handed to somebody. It is told apart from the ledger's own
generations on purpose. Here a block is empty when it is handed out, so nobody profits from what was there before.

What is left out: holds, namespaces, and workers that report a success before the bytes are there. What becomes of
objects is known of pools that keep them (`keeps=`, see `objects`), and else left out, too. A check (`verify`) lands
when it is reported: it moves no bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kvstate.errors import Code
from kvstate.explore import batches
from kvstate.explore.allocator import Allocator
from kvstate.explore.groups import believed
from kvstate.explore.matter import EMPTY, JUNK, Flight, LawBroken, LoadOut, Run, StepOut
from kvstate.explore.objects import Objects
from kvstate.explore.others import Others
from kvstate.explore.scopes import Request, Scope
from kvstate.machines.audit import NAMING
from kvstate.machines.books import Books
from kvstate.machines.config import GroupConfig
from kvstate.machines.keybook import NONE
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Adopt, Failure, Hold, Kind, Outcome, Report, Sweep, Undo, Unhold, Work
from kvstate.machines.tables.block import State as B
from kvstate.machines.verdicts import Ending, Fatal, JobVerdict, LoadVerdict, Verdict

BUDGET = ("resets", "corrupt", "cancels", "drains", "deaths", "restarts", "news")
"""What may happen only so often; the fields of a scope and of a world."""


@dataclass(slots=True)
class World:
    """See the module."""

    contents: list[str]
    """By rank, and there by block: the key whose bytes it holds, or EMPTY, or JUNK. See `cells`."""
    tenants: list[int]
    """By block: how often it was handed to somebody."""
    runs: list[Run]
    """In the order of the scope's requests."""
    groups: tuple[GroupConfig, ...] = ()
    """Those of the ledger."""
    flights: dict[int, Flight] = field(default_factory=dict)
    """Those that are not proved over, by serial."""
    over: list[int] = field(default_factory=list)
    """The serials of the others."""
    steps: dict[int, StepOut] = field(default_factory=dict)
    """Those that have not retired, by number."""
    last_step: int = 0
    """The number of the newest one."""
    loads: dict[int, LoadOut] = field(default_factory=dict)
    jobs: list[int] = field(default_factory=list)
    """Those whose verdict is to come."""
    bad: list[tuple[int, int]] = field(default_factory=list)
    """Block and tenant of bytes that a worker has reported bad."""
    stops: bool = False
    """May a copy stop when it is asked to?"""
    resets: int = 0
    """How often that may still happen, as in the scope; so it is with the next four."""
    corrupt: int = 0
    """How often bytes may still go bad."""
    cancels: int = 0
    drains: int = 0
    deaths: int = 0
    """How often a rank may still be lost."""
    restarts: int = 0
    """How often the whole process may still be killed."""
    objects: Objects = field(default_factory=Objects)
    """What outlives it, if a pool keeps it."""
    news: int = 0
    """How often others may still do something, or somebody say something of them."""
    others: Others = field(default_factory=Others)
    """What they have, if a pool is shared with them."""

    allocator: Allocator = field(default_factory=Allocator)
    """The engine's own, if it has one."""

    def number(self, run: Run) -> int:
        """Its place among the runs."""
        return next(place for place, other in enumerate(self.runs) if other is run)

    # -- bytes ---------------------------------------------------------------------------------------------------------

    @property
    def ranks(self) -> int:
        """How many there are."""
        return len(self.contents) // len(self.tenants)

    def cells(self, block: int) -> range:
        """The pieces of a block, one a rank, in `contents`."""
        return range(block, len(self.contents), len(self.tenants))

    def put(self, block: int, content: str) -> None:
        """The same on every rank."""
        for cell in self.cells(block):
            self.contents[cell] = content

    def hand(self, blocks: Iterable[int]) -> None:
        """These blocks are given to somebody."""
        for block in blocks:
            self.tenants[block] += 1
            self.put(block, EMPTY)

    def holds(self, block: int, key: str) -> bool:
        """Does the block hold the bytes of the key, on every rank, or will it when the steps under way have written?"""
        coming = {(place, tenant): name for step in self.steps.values() for place, tenant, name in step.writes}
        held = all(self.contents[cell] == key for cell in self.cells(block))
        return held or coming.get((block, self.tenants[block])) == key

    def land(self, flight: Flight) -> None:
        """The copy moves its bytes."""
        work = flight.work
        flight.landed = True
        shared = self.others.land(flight, self.contents, len(self.tenants))
        if shared or self.objects.land(flight, self.contents):
            return
        for src, dst in zip(work.src, work.dst, strict=work.kind != Kind.PERSIST):
            self.contents[self.cells(dst)[work.rank]] = self.contents[self.cells(src)[work.rank]]

    def truth(self, flight: Flight) -> Report:
        """What an honest worker says of a copy that has landed, or of a check."""
        work = flight.work
        if work.kind == Kind.SEEK:
            absent = (Failure(line, int(Code.BLOCK_NOT_FOUND), "lookup") for line in flight.missing)
            return Report(work.token, Outcome.DONE, tuple(absent))
        if flight.found:
            return self.blame(flight, flight.found)
        lines = zip(work.dst, work.keys, strict=True)
        found = ((self.contents[self.cells(block)[work.rank]], key.decode()) for block, key in lines)
        if work.kind == Kind.VERIFY and any(content != key for content, key in found):
            return self.blame(flight, Outcome.BROKEN)
        return Report(work.token, Outcome.DONE)

    def blame(self, flight: Flight, outcome: str) -> Report:
        """A report of that outcome; *broken* says that the bytes in the source are bad."""
        work = flight.work
        if outcome != Outcome.BROKEN:
            return Report(work.token, outcome)
        if not self.allocator.overtaken(self, flight):
            self.bad += [(block, self.tenants[block]) for block in work.src]
        stage = "verify" if work.kind == Kind.VERIFY else "fetch"
        return Report(work.token, outcome, (Failure(0, int(Code.CRC_MISMATCH), stage),))

    def restart(self) -> None:
        """The process is gone, with all that it held; what outlives it is there, and requests may come again."""
        self.restarts -= 1
        for run in self.runs:
            run.over()
        self.flights, self.over, self.steps, self.loads, self.jobs, self.bad = {}, [], {}, {}, [], []
        self.hand(range(len(self.tenants)))
        self.last_step = 0
        self.objects.restart()
        self.others.sayings.reset()

    def end(self, serial: int) -> None:
        """The copy is proved over."""
        del self.flights[serial]
        self.over.append(serial)

    # -- what the ledger said ------------------------------------------------------------------------------------------

    def harvest(self, ledger: Ledger) -> None:
        """Take the effects and verdicts. Errors: `LawBroken` for a poisoned ledger and a verdict that is none."""
        for effect in ledger.take_effects():
            if isinstance(effect, Work):
                if effect.kind == Kind.STORE and effect.attempt == 1 and effect.rank == 0:
                    self.hand(effect.dst)
                tenants = tuple((block, self.tenants[block]) for block in (*effect.src, *effect.dst))
                self.flights[effect.token.serial] = Flight(effect, tenants)
            elif isinstance(effect, Hold | Unhold):
                self.allocator.hear(effect)
            elif isinstance(effect, Undo | Adopt | Sweep):
                self.objects.hear(effect, max((*self.flights, *self.over), default=0))
                self.hand(self.others.hear(effect))
            elif self.stops and effect.token.serial in self.flights:  # a cancel
                self.flights[effect.token.serial].asked = True
        for verdict in ledger.take_verdicts():
            self.hear(verdict)

    def hear(self, verdict: Verdict) -> None:
        """Laws L1 (one verdict each, then the settlement) and L5 (what is promised is there). Errors: `LawBroken`."""
        if isinstance(verdict, Fatal):
            raise LawBroken(f"fatal {verdict.law}: {verdict.sentence}")
        if isinstance(verdict, JobVerdict):
            if verdict.job not in self.jobs:
                raise LawBroken(f"L1.verdict_once: job {verdict.job} ends twice, or was never begun")
            self.jobs.remove(verdict.job)
            self.objects.commit(verdict.keys)
        elif isinstance(verdict, LoadVerdict):
            self._load(verdict)
        elif verdict.load not in self.loads or not self.loads[verdict.load].told:
            raise LawBroken(f"L1.verdict_once: load {verdict.load} settles twice, or before its verdict")
        else:
            del self.loads[verdict.load]

    def _load(self, verdict: LoadVerdict) -> None:
        load = self.loads.get(verdict.load)
        if load is None or load.told:
            raise LawBroken(f"L1.verdict_once: load {verdict.load} is told twice, or was never begun")
        load.told = True
        promised = believed(self.groups, load.keys, verdict) if verdict.ending != Ending.ABORTED else set()
        for place, block, key in load.lines:
            if place in promised and not self.holds(block, key):
                raise LawBroken(f"L5.proceed: a load promises {key}, and block {block} does not hold it")
        for run in self.runs:
            if run.load == verdict.load:
                self._has_all(run, load, promised)
                run.load, run.done = 0, verdict.blocks
                run.refs = [None if ref is not None and ref.block in verdict.left else ref for ref in run.refs]

    def _has_all(self, run: Run, load: LoadOut, promised: set[int]) -> None:
        """A length of several groups is no promise of what was loaded alone, but of all that it needs."""
        for place in sorted(promised):
            ref, key = run.refs[place], load.keys[place]
            if ref is None or not self.holds(ref.block, key):
                raise LawBroken(f"L9.length: the length that a load promises needs {key}, which is not there")

    # -- what must be true in every state ------------------------------------------------------------------------------

    def look(self, books: Books) -> Iterator[str]:
        """The laws about bytes, and about loads and their batches, that are broken now."""
        state = books.block_state
        touched = [(f"t{serial}", flight.tenants) for serial, flight in self.flights.items()]
        touched += [(f"step {n}", tuple((b, t) for b, t, _ in step.writes)) for n, step in self.steps.items()]
        for who, tenants in touched:
            for block, tenant in tenants:
                if block < self.allocator.count:
                    continue
                if self.tenants[block] != tenant:
                    yield f"L3.no_reuse: block {block} was given to another, and {who} is not over"
                elif state[block] == B.FREE:
                    yield f"L3.no_reuse: block {block} is free, and {who} is not over"
        for slot, (_, _, key) in books.keys.names():
            block = books.keys.blocks[slot]
            if books.keys.state[slot] not in NAMING or block == NONE:
                continue
            if (block, self.tenants[block]) in self.bad and not books.load_ids:
                yield f"L5.bad_keys: {key.decode()} still names block {block}, whose bytes were reported bad"
            if block in self.objects.blocks:
                yield from self.objects.named(block, key.decode())
                continue
            if block in self.others.blocks:
                continue  # a hint
            cells = [self.contents[cell] for cell in self.cells(block)]
            if not self.holds(block, key.decode()) and JUNK not in cells:
                held = ", ".join(dict.fromkeys(cell or "nothing" for cell in cells))
                yield f"L9.bytes: {key.decode()} names block {block}, which holds {held}"
        yield from self.allocator.look(self, books)
        yield from self.objects.look()
        yield from self.others.sayings.look(books) if self.others.blocks else ()
        yield from batches.look(books)


def begin(scope: Scope, blocks: int, groups: tuple[GroupConfig, ...] = (), ranks: int = 1, foreign: int = 0) -> World:
    """An empty world of that scope, around a ledger with these groups and so many ranks; so many blocks are the
    engine's.
    """
    runs = [Run(request.lives) for request in scope.requests]
    stops = "cancelled" in scope.fails
    budget = {name: getattr(scope, name) for name in BUDGET}
    allocator = Allocator(foreign, steals=scope.steals)
    return World([EMPTY] * blocks * ranks, [0] * blocks, runs, groups, stops=stops, allocator=allocator, **budget)


def places(request: Request) -> range:
    """The places of a request's prompt."""
    return range(len(request.keys))
