"""What the engine does: its requests come, load, compute, store, hold and go; and the clock."""

from __future__ import annotations

from kvstate.machines.messages import BlockRef, Token, Work
from kvstate.machines.tables.block import State as B
from kvstate.machines.verdicts import Grant, Hit, Refusal, Short, Started, Stored
from tests.stateful.base import Base, Flight, Place, Request

HOLD = "hold"


class Requests(Base):
    """Moves of the engine and of the clock. Each is total: where it does not apply, nothing happens."""

    # -- requests come -------------------------------------------------------------------------------------------------

    def arrive(self) -> None:
        """A request; most have the front of one prefix, some another, or other keys in another namespace."""
        self.begin_again_when_closed()
        start = self.dice.one((0, 0, 0, self.scope.keys // 2))
        length = 1 + self.dice.below(self.scope.longest)
        keys = [b"%016d" % place for place in range(start, min(start + length, self.scope.keys))]
        self.admit(self.dice.one(("a", "a", "a", "b")), keys)

    def begin_again_when_closed(self) -> None:
        if self.shutting:
            self.closed = self.closed or bool(self.ledger.shut())
            if self.closed:
                self.begin_again()

    def admit(self, space: str, keys: list[bytes]) -> None:
        if len(self.requests) >= self.scope.requests:
            return
        lease = self.ledger.open(space)
        if isinstance(lease, Refusal):
            assert self.shutting, lease
            return
        assert not self.shutting, "a ledger that is shutting down has opened a lease"
        self.requests.append(self.request(lease, space, keys))

    def request(self, lease: int, space: str, keys: list[bytes]) -> Request:
        return Request(lease, space, keys, self.epoch)

    def begin_again(self) -> None:
        """See `copies`."""
        raise NotImplementedError

    def readmit(self) -> None:
        """A request that was preempted comes again, with another lease."""
        request = self.pick(self.preempted)
        if request is not None and len(self.requests) < self.scope.requests:
            self.preempted.remove(request)
            self.admit(request.space, request.keys)

    def start(self) -> None:
        """Look up, allocate, load. What was pinned for nothing is given back."""
        request = self.pick([r for r in self.requests if r.hit is None])
        if request is None:
            return
        hit = self.look_up(request)
        assert isinstance(hit, Hit), hit
        if hit.pending:
            return
        self.look_at(hit)
        places, missing = self.places_of(request, hit)
        grant = self.ledger.allocate(request.lease, len(missing) + len(hit.below))
        if not isinstance(grant, Grant):
            assert isinstance(grant, Short), grant
            assert self.ledger.unpin(hit)
            return
        fresh = list(grant.blocks)
        into = [fresh.pop(0) for _ in hit.below]
        request.hit = hit
        request.table = {places[line]: ref for line, ref in enumerate(hit.blocks) if line not in hit.below}
        request.table.update(zip((places[line] for line in hit.below), into, strict=True))
        request.table.update(zip(missing, fresh, strict=True))
        if not hit.below:
            return
        deadline = self.now + self.dice.one((3.0, 3.0, 0.5, 8.0))
        started = self.ledger.load(request.lease, hit, into, deadline=deadline)
        if isinstance(started, Refusal):
            assert self.shutting, started
            return
        assert isinstance(started, Started)
        request.load = started.load
        self.loads[started.load] = deadline

    def look_up(self, request: Request) -> Hit | Refusal:
        return self.ledger.lookup(request.lease, request.keys)

    def places_of(self, request: Request, hit: Hit) -> tuple[list[Place], list[Place]]:
        """At which place each block of the hit stands, and the places behind it."""
        return list(range(len(hit.blocks))), list(range(len(hit.blocks), len(request.keys)))

    def look_at(self, hit: Hit) -> None:
        """See `laws`."""
        raise NotImplementedError

    def all_forgotten(self) -> None:
        """See `laws`."""
        raise NotImplementedError

    # -- compute -------------------------------------------------------------------------------------------------------

    def running(self) -> list[Request]:
        return [r for r in self.requests if r.hit is not None and r.load is None]

    def open_places(self, request: Request) -> list[Place]:
        """Where the engine may write for this request."""
        state = self.ledger.books.block_state
        return [at for at, ref in request.table.items() if state[ref.block] == B.OPEN]

    def seal(self, request: Request, places: list[Place]) -> None:
        """The blocks there are full, or a step that is out fills them."""
        refs = [request.table[place] for place in places]
        sealed = self.ledger.seal(request.lease, refs, [request.key(place) for place in places])
        assert isinstance(sealed, tuple), sealed

    def compute(self) -> None:
        """Send a step down that writes the open blocks of a request, and seal them; sometimes not the last one yet."""
        request = self.pick(self.running())
        if request is None:
            return
        self.step += 1
        others = [r for r in self.running() if r is not request and self.dice.chance(20)]
        self.tell_dispatched(self.step, [request.lease, *(r.lease for r in others)])
        self.steps.append(self.step)
        for each in (request, *others):
            each.out = self.step
        opened = self.open_places(request)
        blocks = [request.table[place].block for place in opened]
        self.writes[self.step] = [
            (block, self.tenant[block], request.content(place)) for place, block in zip(opened, blocks, strict=True)
        ]
        if len(opened) > 1 and self.dice.chance(20):
            opened.pop()
        if opened:
            self.seal(request, opened)

    def retire(self) -> None:
        """The oldest step, or some of them, have ended."""
        if self.steps:
            self.retire_until(self.steps[self.dice.one((0, 0, len(self.steps) - 1))])

    def retire_until(self, last: int) -> None:
        for step in [step for step in self.steps if step <= last]:
            self.steps.remove(step)
            for block, tenant, content in self.writes.pop(step):
                assert self.tenant[block] == tenant, f"L3.no_reuse: step {step} writes block {block}, another's by now"
                for rank in range(self.scope.ranks):
                    self.write(rank, block, content)
        self.tell_retired(last)
        for request in self.requests:
            if request.out <= last:
                request.out = 0

    # -- store, and hold -----------------------------------------------------------------------------------------------

    def store(self) -> None:
        """Offload blocks of a request to some tier; in any order, and one of them listed twice."""
        request = self.pick(self.running())
        if request is None:
            return
        refs = list(request.table.values())
        if self.dice.chance(30):
            refs = self.dice.shuffled(refs)
        pool = 1 + self.dice.below(len(self.scope.tiers))
        deadline = self.now + self.dice.one((5.0, 5.0, 1.0, 0.4))
        twice = refs[:1] if self.dice.chance(30) else []
        stored = self.ledger.offload(request.lease, refs + twice, pool=pool, deadline=deadline)
        if isinstance(stored, Stored):
            self.jobs.add(stored.job)

    def hold(self) -> None:
        """The embedder touches a block on its own account."""
        request = self.pick([r for r in self.requests if r.load is None and r.table])
        if request is None:
            return
        ref = self.dice.one(list(request.table.values()))
        token = self.ledger.hold(request.lease, [ref], deadline=self.now + 4.0)
        if isinstance(token, Token):
            work = Work(token, HOLD, 0, "engine", 1, (ref.block,), (), (), 0)
            self.flights.append(Flight(self.hidden, work, {ref.block: self.tenant[ref.block]}, landed=1))
            self.hidden += 1

    # -- requests go ---------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        request = self.pick([r for r in self.requests if r.hit is None or r.load is None])
        if request is not None:
            self.requests.remove(request)
            assert self.ledger.finish(request.lease)

    def abort(self) -> None:
        request = self.pick(self.requests)
        if request is not None:
            self.requests.remove(request)
            assert self.ledger.abort(request.lease)
            assert not self.ledger.abort(request.lease)

    def preempt(self) -> None:
        request = self.pick(self.requests)
        if request is not None:
            self.requests.remove(request)
            self.preempted = [*self.preempted[-3:], request]
            assert self.ledger.preempt(request.lease)

    def window(self) -> None:
        """The front of the prefix has left the window."""
        request = self.pick([r for r in self.requests if r.load is None and r.table])
        if request is not None:
            count = 1 + self.dice.below(max(len(request.table) // 2, 1))
            gone = [request.table.pop(place) for place in sorted(request.table)[:count]]
            assert not isinstance(self.ledger.release(request.lease, gone), Refusal)

    def mistake(self) -> None:
        """The engine asks for what it has no right to, at the end of a list that is right: all of it is refused."""
        request = self.pick([r for r in self.running() if r.table])
        if request is None:
            return
        own = list(request.table.values())
        others = [ref for r in self.requests if r is not request for ref in r.table.values() if ref not in own]
        first = own[0]
        wrong = self.dice.one([*others, BlockRef(first.block, first.generation + 1), BlockRef(10**6, 0)])
        before = self.ledger.canonical_hash()
        keys = [request.key(next(iter(request.table)))] * (len(own) + 1)
        for refused in (
            self.ledger.release(request.lease, [*own, wrong]),
            self.ledger.hold(request.lease, [*own, wrong], deadline=self.now + 1.0),
            self.ledger.seal(request.lease, [*own, wrong], keys, group=0 if self.scope.groups else None),
            self.ledger.seal(request.lease, [*own, first], keys, group=0 if self.scope.groups else None),
        ):
            assert isinstance(refused, Refusal), f"L3.no_reuse: lease {request.lease} may touch {wrong}: {refused}"
        assert self.ledger.canonical_hash() == before, "L8.balance: what was refused has changed something"

    def pressure(self) -> None:
        """Another request needs the whole device for a moment: all that is cached there is evicted."""
        lease = self.ledger.open("pressure")
        if isinstance(lease, Refusal):
            return
        short = self.ledger.allocate(lease, 10**6)
        assert isinstance(short, Short)
        assert self.ledger.allocate(lease, short.free), "L8.balance: what could be had at once can't be had"
        self.ledger.finish(lease)

    # -- called off ----------------------------------------------------------------------------------------------------

    def cancel(self) -> None:
        live = sorted((self.jobs | self.loads.keys()) - self.told)
        if live:
            number = self.dice.one(live)
            if number in self.loads:
                self.loads[number] = min(self.loads[number], self.now)
            self.ledger.cancel(number)

    def reset(self) -> None:
        """The cache is reset; not as often as other things happen."""
        if self.dice.chance(30):
            self.epoch += 1
            self.ledger.reset()
            self.all_forgotten()

    def tick(self) -> None:
        self.now += self.dice.one((0.3, 0.3, 1.0, 2.5))
        self.tell_time()

    def shut_down(self) -> None:
        """No new work from here on; what is under way goes on. Rare, since little happens afterwards."""
        if self.dice.chance(10) and not self.closed:
            self.shutting = True
            assert self.ledger.drain()
            self.closed = bool(self.ledger.shut())
