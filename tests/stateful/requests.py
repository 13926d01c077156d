"""What the engine does: its requests come, load, compute, store, hold and go; and the clock."""

from __future__ import annotations

from kvstate.machines.messages import Token, Work
from kvstate.machines.verdicts import Hit, Short
from tests.stateful.base import Base, Flight, Request


class Requests(Base):
    """Moves of the engine and of the clock. Each is total: where it does not apply, nothing happens."""

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
        if request is None:
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
        if request is None:
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
        if request is not None:
            refs = list(request.table.values())
            self.random.shuffle(refs)
            deadline = self.now + self.random.choice((1.0, 5.0))
            stored = self.ledger.offload(request.lease, refs + refs[:1], deadline=deadline)
            if stored:
                self.jobs.add(stored.job)  # type: ignore[union-attr]

    def finish(self) -> None:
        request = self.pick([r for r in self.requests if r.hit is None or r.load is None])
        if request is not None:
            self.requests.remove(request)
            self.ledger.finish(request.lease)

    def abort(self) -> None:
        request = self.pick(self.requests)
        if request is not None:
            self.requests.remove(request)
            self.ledger.preempt(request.lease)
            assert not self.ledger.abort(request.lease)

    def window(self) -> None:
        """The front of the prefix has left the window."""
        request = self.pick([r for r in self.requests if r.load is None and r.table])
        if request is not None:
            ref = request.table.pop(min(request.table))
            assert not isinstance(self.ledger.release(request.lease, [ref]), bool)

    def hold(self) -> None:
        request = self.pick([r for r in self.requests if r.load is None and r.table])
        if request is not None:
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
