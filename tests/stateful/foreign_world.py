"""The world with an engine that allocates its device blocks by itself, and does not always keep its word.

It gives blocks, takes them back and hands them on, and tells the ledger what it did. Honest, it keeps what it is asked
to keep; but now and then it hands a block on that another request has, or that a copy still needs, and the new owner
computes over it. What must be true all the same: no key names another's bytes, no load promises what is not there, no
key pays for what another's bytes were, and every hold is taken back.
"""

from __future__ import annotations

from dataclasses import replace

from kvstate.machines.config import LedgerConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Effect, Hold, Outcome, Report, Unhold, Work
from kvstate.machines.tables.foreign import State as F
from kvstate.machines.verdicts import Freed, Given, Hit, LoadVerdict, Refusal, Started, Stored
from tests.stateful.base import Flight, Junk, Place, Poison, Request, Scope, Tier
from tests.stateful.copies import MOVING
from tests.stateful.world import World

FOREIGN_SCOPES = {
    "an engine": Scope(device=8, tiers=(Tier(10),), batch_blocks=1, keys=8, longest=4),
    "an engine in a hurry": Scope(device=4, tiers=(Tier(5),), part_blocks=2, max_jobs=1, longest=3, keys=5),
    "an engine on two ranks": Scope(device=6, tiers=(Tier(8),), ranks=2, part_blocks=2, attempts=3),
    "an engine with a disk": Scope(device=6, tiers=(Tier(4), Tier(6, durable=True, copier="disk"))),
}
"""In the second there is hardly ever a free block, and jobs wait."""


class ForeignWorld(World):
    """See the module."""

    QUESTIONS = (*World.QUESTIONS, "kept")  # type: ignore[assignment]

    def begin(self, incarnation: int) -> None:
        self.has: dict[int, Request] = {}
        """The blocks that requests have, as the engine knows."""
        self.keeping: dict[int, int] = {}
        """The blocks that it was asked to keep, and in which life of each."""
        self.heard_of: set[BlockRef] = set()
        """The lives that an effect has asked for."""
        self.robbed: set[tuple[int, int]] = set()
        """Block and tenant, where the engine has not kept its word when that life began."""
        self.stray: set[tuple[int, int]] = set()
        """And where a copy of an earlier life may still write."""
        self.full: set[tuple[int, int]] = set()
        """And what is computed, or will be when a step retires, or was loaded."""
        self.late: list[tuple[list[BlockRef], Request]] = []
        """What closed leases had, and the engine has not freed yet."""
        self.overtaken = False
        """Was a block given away under the copy of which a report is heard right now?"""
        super().begin(incarnation)
        hear = self.blame.heard

        def lenient(said: Report) -> None:
            fair = (
                said if not self.overtaken or said.outcome == Outcome.TIMEOUT else said._replace(outcome=Outcome.DONE)
            )
            hear(fair if fair is said else fair._replace(failures=()))

        self.blame.heard = lenient  # type: ignore[method-assign, assignment]

    def make_ledger(self, config: LedgerConfig) -> Ledger:
        device, *tiers = config.pools
        return super().make_ledger(replace(config, pools=(replace(device, foreign=True), *tiers)))

    # -- the allocator -------------------------------------------------------------------------------------------------

    def took(self, effects: list[Effect]) -> None:
        super().took([effect for effect in effects if not isinstance(effect, Hold | Unhold)])
        for effect in (effect for effect in effects if isinstance(effect, Hold | Unhold)):
            block, life = effect.ref
            if isinstance(effect, Hold) and effect.ref not in self.heard_of:
                self.heard_of.add(effect.ref)
            elif isinstance(effect, Hold) or effect.ref not in self.heard_of:
                self.wrong.append(f"L3.hold: {effect} is said twice, or of what nobody was asked to keep")
            elif self.keeping.get(block) == life:
                del self.keeping[block]
            elif self.newest[block] == life:  # else it was given away against the hold, before this was heard
                self.wrong.append(f"L3.hold: {effect}, and the block was given back already")

    def free(self) -> list[int]:
        return [block for block in range(self.scope.device) if block not in self.has and block not in self.keeping]

    def prey(self, request: Request) -> list[int]:
        """What the engine may hand on against its word; not from under a step, for it writes what it dispatched."""
        others = [block for block, owner in self.has.items() if owner is not request and not owner.out]
        return [*others, *self.keeping]

    def hand(self, block: int, request: Request) -> BlockRef:
        """The block begins another life, and the engine says so before anything is written."""
        rob = block in self.has or block in self.keeping
        stray = any(f.work.kind in MOVING and block in f.work.dst and not f.dead for f in self.under_way())
        reused = block in self.has
        given = (self.ledger.foreign_reused if reused else self.ledger.foreign_allocated)([block])
        assert isinstance(given, Given), given
        [ref] = given.refs
        assert self.newest.get(block, -1) < ref.generation, f"L2.life: block {block} has life {ref.generation} twice"
        self.newest[block] = ref.generation
        self.tenant[block] += 1
        life = (block, self.tenant[block])
        if rob:
            self.robbed.add(life)
        if stray:
            self.stray.add(life)
        self.keeping.pop(block, None)
        self.has[block] = request
        for rank in range(self.scope.ranks):
            self.write(rank, block, Poison(block, ref.generation))
        return ref

    def give_back(self, refs: list[BlockRef], request: Request) -> None:
        """The engine frees what the request has of these; and, since it keeps bad books, what it had once."""
        if request.out in self.steps:
            self.retire_until(request.out)
        for ref in refs:
            if self.has.get(ref.block) is request and self.ledger.books.current(ref):
                del self.has[ref.block]
        freed = self.ledger.foreign_freed(refs)
        assert isinstance(freed, Freed), freed
        if self.dice.chance(10):  # twice, which changes nothing
            before = self.ledger.books.stale
            again = self.ledger.foreign_freed(refs)
            assert isinstance(again, Freed), again
            assert again.held == freed.held, f"L3.hold: {freed}, and freed once more {again}"
            assert self.ledger.books.stale == before + len(refs), "L2.stale_counted: a second free was not counted"
        for ref in freed.held:
            self.keeping.setdefault(ref.block, ref.generation)

    def pressure(self) -> None:
        """All that is free is given to somebody for a moment."""
        self.catch_up()
        nobody = Request(0, "a", [], self.epoch)
        self.give_back([self.hand(block, nobody) for block in self.free()], nobody)

    # -- requests ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        request = self.pick([r for r in self.requests if r.hit is None])
        if request is None:
            return
        hit = self.ledger.lookup(request.lease, request.keys)
        assert isinstance(hit, Hit), hit
        if hit.pending:
            return
        self.look_at(hit)
        assert len(hit.below) == len(hit.blocks), "L9.bytes: a hit on a device whose blocks have no keys"
        blocks = self.dice.shuffled(self.free())
        if self.dice.chance(25):
            blocks = self.dice.shuffled([*blocks, *self.prey(request)])
        if len(blocks) < len(request.keys):
            assert self.ledger.unpin(hit)
            return
        request.hit = hit
        for place, _ in enumerate(request.keys):
            request.table[place] = self.hand(blocks[place], request)
        if not hit.below:
            return
        into = [request.table[place] for place in hit.below]
        deadline = self.now + self.dice.one((3.0, 3.0, 0.5, 8.0))
        started = self.ledger.load(request.lease, hit, into, deadline=deadline)
        if isinstance(started, Refusal):
            touched = {block for flight in self.under_way() for block in flight.tenants} | self.sources()
            assert self.shutting or touched & {ref.block for ref in into}, started
            return
        assert isinstance(started, Started)
        request.load = started.load
        self.loads[started.load] = deadline

    def sources(self) -> set[int]:
        """The blocks that jobs hold."""
        return {block for job in self.ledger.books.jobs.live() for block in job.srcs}

    def its(self, request: Request, ref: BlockRef) -> bool:
        return self.has.get(ref.block) is request and self.ledger.books.current(ref)

    def open_places(self, request: Request) -> list[Place]:
        return [
            at
            for at, ref in request.table.items()
            if self.its(request, ref) and (ref.block, self.tenant[ref.block]) not in self.full
        ]

    def seal(self, request: Request, places: list[Place]) -> None:
        blocks = [request.table[place].block for place in places]
        self.full.update((block, self.tenant[block]) for block in blocks)

    def store(self) -> None:
        """With keys; and with what the request had once, since it was noted down when it was computed."""
        request = self.pick(self.running())
        if request is None:
            return
        lines = [
            (ref, request.key(at))
            for at, ref in request.table.items()
            if not self.its(request, ref) or (ref.block, self.tenant[ref.block]) in self.full
        ]
        if self.dice.chance(30):
            lines = self.dice.shuffled(lines)
        lines += lines[:1] if self.dice.chance(30) else []
        pool, deadline = 1 + self.dice.below(len(self.scope.tiers)), self.now + self.dice.one((5.0, 5.0, 1.0, 0.4))
        refs, keys = [ref for ref, _ in lines], [key for _, key in lines]
        stored = self.ledger.offload(request.lease, refs, pool=pool, deadline=deadline, keys=keys)
        if isinstance(stored, Stored):
            self.jobs.add(stored.job)
            old = [ref for ref in stored.refs if not self.its(request, ref)]
            assert not old, f"L2.identity: {old} are stored, and the request does not have them any more"

    def hold(self) -> None:
        """No lease owns a block of the engine's, so none can be held through it."""

    def mistake(self) -> None:
        """What is not to be had from a ledger whose device is the engine's."""
        request = self.pick(self.requests)
        if request is not None:
            before = self.ledger.canonical_hash()
            for refused in (
                self.ledger.allocate(request.lease, 1),
                self.ledger.foreign_allocated([0, self.scope.device]),
                self.ledger.offload(request.lease, list(request.table.values())[:1]),
            ):
                assert isinstance(refused, Refusal), refused
            assert self.ledger.canonical_hash() == before, "L8.balance: what was refused has changed something"

    def end(self, request: Request, verb: str) -> None:
        """The lease is closed, and the blocks are freed: before that, after it, or some time later."""
        self.requests.remove(request)
        refs, when = list(request.table.values()), self.dice.below(3)
        if when == 0:
            self.give_back(refs, request)
        assert getattr(self.ledger, verb)(request.lease)
        if when == 1:
            self.give_back(refs, request)
        elif when == 2:
            self.late.append((refs, request))

    def tick(self) -> None:
        super().tick()
        self.catch_up()

    def catch_up(self) -> None:
        late, self.late = self.late, []
        for refs, request in late:
            self.give_back(refs, request)

    def finish(self) -> None:
        request = self.pick([r for r in self.requests if r.hit is None or r.load is None])
        if request is not None:
            self.end(request, "finish")

    def abort(self) -> None:
        request = self.pick(self.requests)
        if request is not None:
            self.end(request, "abort")
            assert not self.ledger.abort(request.lease)

    def preempt(self) -> None:
        request = self.pick(self.requests)
        if request is not None:
            self.end(request, "preempt")
            self.preempted = [*self.preempted[-3:], replace(request, hit=None, load=None, table={}, out=0)]

    def window(self) -> None:
        """The engine takes blocks from a request that goes on; sometimes from under its load."""
        request = self.pick([r for r in self.requests if r.table and not r.out])
        if request is not None:
            count = 1 + self.dice.below(max(len(request.table) // 2, 1))
            gone = [request.table.pop(place) for place in sorted(request.table)[:count]]
            self.give_back(gone, request)

    # -- what comes back -----------------------------------------------------------------------------------------------

    def gone(self, flight: Flight) -> bool:
        """Has a block been given away under the copy?"""
        return any(block < self.scope.device and self.tenant[block] != t for block, t in flight.tenants.items())

    def note(self, said: Report) -> None:
        flights = (*self.flights, *self.waiting)
        self.overtaken = any(self.gone(flight) for flight in flights if flight.work.token == said.token)
        super().note(said)

    def hear_load(self, verdict: LoadVerdict) -> None:
        """L5: what it says is there, is. What it has left is freed, or used against its word."""
        request = next((r for r in self.requests if r.load == verdict.load), None)
        if request is None:
            return
        request.load = None
        assert request.hit is not None
        for place in request.hit.below[: verdict.blocks]:
            ref = request.table.get(place)
            assert ref is not None, f"L5.proceed: place {place} was taken back, and is promised"
            assert self.its(request, ref), f"L5.proceed: {ref} has another owner, and is promised"
            wrong = self.holds(ref.block, request.content(place), set())
            assert not wrong, f"L5.proceed: {wrong}"
            junk = any(isinstance(self.found(rank, ref.block), Junk) for rank in range(self.scope.ranks))
            assert not junk, f"L5.proceed: block {ref.block} holds junk"
            self.full.add((ref.block, self.tenant[ref.block]))
        for place, ref in list(request.table.items()):
            if ref.block in verdict.left and self.its(request, ref):
                if self.dice.chance(60):
                    del request.table[place]
                    self.give_back([ref], request)
                else:  # and computes into it at once: every byte of this life is in doubt
                    request.table[place] = self.hand(ref.block, request)

    # -- laws ----------------------------------------------------------------------------------------------------------

    def untouched(self, flight: Flight) -> None:
        """L3: nobody else has what a copy touches, unless the engine has broken its word."""
        lower = {block: tenant for block, tenant in flight.tenants.items() if block >= self.scope.device}
        super().untouched(replace(flight, tenants=lower))
        for block, tenant in flight.tenants.items():
            if block < self.scope.device:
                assert self.tenant[block] == tenant or (block, tenant + 1) in self.robbed, (
                    f"L3.hold: block {block} went to another under {flight.work}, and nobody had asked to keep it"
                )
                assert self.ledger.books.engine.state[block] != F.OUTSIDE, f"L3.hold: block {block} is not held"

    def writer_place(self) -> None:
        """L3: who is written is loading, held, or marked."""
        engine = self.ledger.books.engine
        lower = [f for f in self.under_way() if f.work.kind in MOVING and f.work.dst[0] >= self.scope.device]
        kept, self.flights, waiting, self.waiting = self.flights, lower, self.waiting, []
        super().writer_place()
        self.flights, self.waiting = kept, waiting
        for flight in self.under_way():
            for block in flight.work.dst if flight.work.kind in MOVING else ():
                if block < self.scope.device and engine.state[block] == F.OWNED:
                    assert engine.stained[block], f"L3.writer_place: block {block} is whole under {flight.work}"

    def tables(self) -> None:
        """L9: what a request has holds what it believes, where the engine has kept its word."""
        coming = self.coming()
        for request in self.running():
            for place, ref in request.table.items():
                life = (ref.block, self.tenant[ref.block])
                if self.its(request, ref) and life in self.full and life not in self.stray:
                    wrong = self.holds(ref.block, request.content(place), coming)
                    assert not wrong, f"L9.bytes: {wrong}, and a request runs over it"

    def kept(self) -> None:
        """L3: what is held was asked for, and nothing else is."""
        engine = self.ledger.books.engine
        held = {(block, engine.generation[block]) for block in range(engine.count) if engine.state[block] == F.HELD}
        assert held == set(self.keeping.items()), f"L3.hold: {held} are held, the engine was asked for {self.keeping}"
        deaf = [ref for ref in held if BlockRef(*ref) not in self.heard_of]
        assert not deaf, f"L3.hold: nobody was told to keep {deaf}"

    def tell_time(self) -> None:
        super().tell_time()
        if not self.requests:  # on the way home, too, the engine frees what it forgot
            self.catch_up()

    def come_home(self) -> None:
        super().come_home()
        states = set(self.ledger.books.engine.state)
        assert states <= {F.OUTSIDE}, f"L11.home: blocks of the engine's are left in {states}"
        assert not self.keeping, f"L11.home: the engine still keeps {self.keeping}"

    def sent(self, work: Work) -> None:
        """L3: no load writes before the steps that were under way have ended."""
        if work.kind == "fetch":
            assert not self.steps or work.after_step >= self.steps[-1], f"L3.no_reuse: {work} does not wait for a step"
        super().sent(work)
