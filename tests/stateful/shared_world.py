"""The world with a pool that others write to: a store that is asked, or what a peer offers.

Others put keys there, delete them and put other bytes in their place, as they like; somebody says what they have, true
or not, and sometimes that they have it no more. Requests have the store asked for what their lookup missed; the answers
land and are reported like copies, late, twice, wrong or never. Ours is stored there as well, under the name that others
read, unless somebody has put it there before.

The world believes nothing but what stands there when a copy lands. What the ledger may believe is held against
`kvstate.testing.sayings`, which is told the same as the ledger and knows nothing of it.
"""

from __future__ import annotations

from collections import Counter

from kvstate.errors import Code
from kvstate.machines.messages import Adopt, Failure, Kind, Outcome, Report, Sweep, Token, Undo, Work
from kvstate.machines.verdicts import Announced, Hit, Refusal, Sought
from kvstate.testing.sayings import Name, Sayings
from tests.stateful.base import Bytes, Content, Flight, Junk, Scope, Tier
from tests.stateful.copies import Copies
from tests.stateful.world import World

STORE = Tier(4, durable=True, copier="store", shared=True)
PEER = Tier(3, copier="peer", shared=True)
SHARED_SCOPES = {
    "a store": Scope(device=6, tiers=(Tier(3), STORE), keys=7),
    "a small store": Scope(device=4, tiers=(STORE._replace(blocks=2),), part_blocks=2, max_jobs=2, keys=5, longest=3),
    "a store on two ranks": Scope(device=6, tiers=(Tier(3), STORE), ranks=2, part_blocks=2, attempts=3, keys=6),
    "a peer": Scope(device=5, tiers=(Tier(3), PEER), keys=6),
}


COUNTED = ("asks", "found", "named", "vanished", "gone", "read", "put")
"""Seeks; keys that they found; blocks that were announced; keys that vanished; hits that were gone when they were read;
blocks that were read and were there; blocks that were put there."""


class SharedWorld(World):
    """See the module. The shared pool is the last."""

    QUESTIONS = (*World.QUESTIONS, "hinted")  # type: ignore[assignment]
    has: dict[tuple[int, Name], Bytes]
    """By rank and name: what stands there now."""
    made: dict[tuple[int, Name], Token]
    """Whose persist put it there, where it was ours."""
    counts: Counter[str]
    """How often each of `COUNTED` was seen."""

    def begin(self, incarnation: int) -> None:
        if incarnation == 1:
            self.has, self.made, self.counts = {}, {}, Counter()
        self.sayings = Sayings()
        self.asked_in: dict[int, int] = {}
        """By the hidden number of a fetch: the epoch of the request that it is for, whose names it goes by."""
        self.void: set[int] = set()
        """Hidden numbers of the copies that were begun before all was swept: what they make goes by other names."""
        super().begin(incarnation)

    @classmethod
    def moves(cls, mix: str) -> dict[str, int]:
        return {**super().moves(mix), "seek": 14, "announce": 5, "vanish": 5, "others": 6, "forgo": 3, "question": 9}

    @property
    def pool(self) -> int:
        return len(self.scope.tiers)

    def is_shared(self, block: int) -> bool:
        return block >= self.scope.total - self.scope.tiers[-1].blocks

    def names(self) -> list[Name]:
        """Some names, the head of a prefix first, of a request or of one that may come."""
        request = self.pick(self.requests)
        if request is not None and self.dice.chance(70):
            return [(request.space, key) for key in request.keys]
        start = self.dice.below(self.scope.keys)
        return [("a", b"%016d" % place) for place in range(start, min(start + 2, self.scope.keys))]

    # -- what others do, and what is said of it ------------------------------------------------------------------------

    def others(self) -> None:
        """Others put these there, delete them, or put something else in their place; on one rank, or on all."""
        names = self.names()
        ranks = range(self.scope.ranks)
        for rank in ranks if self.dice.chance(70) else [self.dice.one(ranks)]:
            for name in names:
                what = self.dice.below(6)
                self.made.pop((rank, name), None)
                if what == 0:
                    self.has.pop((rank, name), None)
                else:
                    self.accidents += 1
                    self.has[rank, name] = Junk(self.accidents) if what == 1 else Content(*name, self.epoch)

    def announce(self) -> None:
        names = self.names()
        self.sayings.announced(names)
        told = self.ledger.announce(self.pool, names)
        assert isinstance(told, Announced) or self.shutting, told
        self.counts["named"] += len(told.refs) if isinstance(told, Announced) else 0

    def vanish(self) -> None:
        """Somebody says that these are there no more; most of the time of one that is named there."""
        names = self.names()
        there = sorted(name[1:] for _, name in self.ledger.books.keys.names() if name.pool == self.pool)
        if there and self.dice.chance(70):
            names = [self.dice.one(there)]
        self.sayings.vanished(names)
        count = self.ledger.vanish(self.pool, names)
        assert not isinstance(count, Refusal), count
        self.counts["vanished"] += count

    def seek(self) -> None:
        """The store is asked for what a lookup has missed. What the lookup pinned is given back, or kept."""
        request = self.pick([r for r in self.requests if r.hit is None])
        hit = self.look_up(request) if request is not None else None
        if request is None or not isinstance(hit, Hit) or hit.pending:
            return
        deadline = self.now + self.dice.one((0.5, 2.0, 5.0))
        asked = self.ledger.seek(request.lease, request.keys, pool=self.pool, deadline=deadline)
        if isinstance(asked, Sought):
            effects = self.ledger.books.effects
            works = [work for work in effects if isinstance(work, Work) and work.token in asked.tokens]
            self.sayings.asked(works, deadline, self.scope.ranks)
            self.counts["asks"] += 1
        if self.dice.chance(70):
            assert self.ledger.unpin(hit)

    def question(self) -> None:
        """A request comes, and others have what it wants: the store is asked for it, or the peer offers it. By the time
        that it is read they may have deleted some of it.
        """
        self.arrive()
        for request in self.requests[-1:]:
            for rank in range(self.scope.ranks):
                for key in request.keys:
                    name = (request.space, key)
                    self.made.pop((rank, name), None)
                    self.has[rank, name] = Content(*name, self.epoch)
            if not self.scope.tiers[-1].durable:
                offered = [(request.space, key) for key in request.keys]
                self.sayings.announced(offered)
                self.ledger.announce(self.pool, offered)
            if self.dice.chance(25):
                lost = (self.dice.below(self.scope.ranks), (request.space, self.dice.one(request.keys)))
                self.has.pop(lost, None)
                self.made.pop(lost, None)
        self.seek()

    def forgo(self) -> None:
        """Whoever had the store asked does not wait for the answer."""
        request = self.pick([r for r in self.requests if r.hit is None])
        if request is not None and self.ledger.books.seeks.live:
            self.requests.remove(request)
            assert self.ledger.abort(request.lease)

    # -- what comes by -------------------------------------------------------------------------------------------------

    def sent(self, work: Work) -> None:
        if work.kind == Kind.FETCH:
            fills = (r.epoch for r in self.requests if any(ref.block in work.dst for ref in r.table.values()))
            self.asked_in[self.hidden] = min(fills, default=self.epoch)
        if work.kind == Kind.SEEK:
            Copies.sent(self, work)  # of loads and jobs it knows nothing
        else:
            super().sent(work)

    def note(self, said: Report) -> None:
        before = len(self.sayings.said)
        self.sayings.heard(said)
        self.counts["found"] += len(self.sayings.said) - before
        super().note(said)

    def tell_time(self) -> None:
        self.sayings.passed(self.now)
        super().tell_time()

    def all_forgotten(self) -> None:
        self.sayings.reset()
        if not self.scope.tiers[-1].durable:
            self.has = {}  # a peer has other weights then, too, or it is no peer any more
        super().all_forgotten()

    def undone(self, undo: Undo) -> None:
        super().undone(undo)
        self.take_back(undo.token)

    def take_back(self, token: Token) -> None:
        """What this persist put there is removed; what others have put there since is theirs."""
        for place in [place for place, maker in self.made.items() if maker == token]:
            del self.made[place], self.has[place]

    def tended(self, effect: Adopt | Sweep) -> None:
        """After a sweep of everything we go by other names: nothing that stands there is found any more."""
        if isinstance(effect, Sweep) and effect.everything:
            self.has = {place: held for place, held in self.has.items() if place[0] != effect.rank}
            self.made = {place: maker for place, maker in self.made.items() if place[0] != effect.rank}
            under_way = [f for f in (*self.flights, *self.waiting) if f.work.rank == effect.rank]
            self.void |= {f.hidden for f in under_way if f.work.kind == Kind.PERSIST}
            self.objects &= {f.work.token for f in under_way} | set(self.made.values())

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def place(self, work: Work, line: int) -> tuple[int, Name]:
        return work.rank, (work.space(line), work.keys[line])

    def land_lines(self, flight: Flight, count: int) -> None:
        work, lines = flight.work, range(flight.landed, flight.landed + count)
        super().land_lines(flight, count)
        if work.kind == Kind.SEEK:
            flight.bad += tuple(line for line in lines if self.place(work, line) not in self.has)
        elif work.kind == Kind.PERSIST and self.is_shared(work.src[0]) and flight.hidden not in self.void:
            for line in lines:
                place = self.place(work, line)
                self.sayings.stored([place[1]])
                if place not in self.has:
                    self.has[place], self.made[place] = self.bytes[work.rank][work.src[line]], work.token
                    self.counts["put"] += 1

    def copy(self, flight: Flight, line: int) -> None:
        work = flight.work
        if work.kind != Kind.FETCH or not self.is_shared(work.src[line]):
            super().copy(flight, line)
            return
        there = self.has.get(self.place(work, line))
        if isinstance(there, Content) and there.epoch > self.asked_in[flight.hidden]:
            there = None  # since the reset it goes by another name
        if there is None:
            flight.bad += (line,)
            self.counts["gone"] += 1
        else:
            self.write(work.rank, work.dst[line], there)
            self.counts["read"] += isinstance(there, Content)

    def answer(self, flight: Flight) -> None:
        work = flight.work
        if work.kind == Kind.SEEK:
            absent = tuple(Failure(line, int(Code.BLOCK_NOT_FOUND), "lookup") for line in flight.bad)
            self.send(flight, Report(work.token, Outcome.DONE, absent))
        elif flight.hidden in self.void:
            self.send(flight, Report(work.token, Outcome.CANCELLED))
        else:
            super().answer(flight)

    def send(self, flight: Flight, report: Report) -> None:
        """A persist that has failed leaves nothing behind."""
        if flight.work.kind == Kind.PERSIST and report.outcome not in (Outcome.DONE, Outcome.TIMEOUT):
            self.take_back(flight.work.token)
            self.objects.discard(flight.work.token)
        super().send(flight, report)

    def holds(self, block: int, content: Content, coming: set[tuple[int, Content]]) -> str:
        """Of a handle nothing is true but what it leads to."""
        return "" if self.is_shared(block) else super().holds(block, content, coming)

    # -- what must be true ---------------------------------------------------------------------------------------------

    def hinted(self) -> None:
        """L9: whatever is a hit in the shared pool, somebody has said to be there."""
        problems = list(self.sayings.look(self.ledger.books))
        assert not problems, problems[0]
