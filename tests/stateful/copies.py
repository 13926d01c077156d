"""What the hardware does: copies land, and reports of them come, in any order, twice, wrong, late or never."""

from __future__ import annotations

from kvstate.errors import Code
from kvstate.machines.messages import Failure, Kind, Outcome, Report, Token, Work
from tests.stateful.base import TIMED_OUT, Content, Flight, Junk, Poison
from tests.stateful.requests import HOLD, Requests

MOVING = (Kind.STORE, Kind.FETCH)
"""Kinds of parts that write blocks."""
BAD = (
    (Outcome.FAILED, Code.KV_OOM),
    (Outcome.DENIED, Code.PERMISSION_DENIED),
    (Outcome.BROKEN, Code.BLOCK_NOT_FOUND),
)


class Copies(Requests):
    """Moves of the copies. Each is total: where it does not apply, nothing happens."""

    def sent(self, work: Work) -> None:
        """Work has gone down. A copier may refuse to begin it, and says so like any other failure."""
        books = self.ledger.books
        names = zip(work.keys, map(books.ref, work.src), strict=True) if work.kind in ("fetch", "verify") else ()
        tenants = {block: self.tenant[block] for block in (*work.src, *work.dst)}
        flight = Flight(self.hidden, work, tenants, tuple(names))
        self.hidden += 1
        self.flights.append(flight)
        self.newest_sent = max(self.newest_sent, work.token.serial)
        if self.refuse_next:
            self.refuse_next = False
            self.refused(flight)

    def refused(self, flight: Flight) -> None:
        self.send(flight, Report(flight.work.token, Outcome.FAILED, (Failure(-1, int(Code.INTERNAL), "fetch"),)))

    def fail_to_submit(self) -> None:
        """The next copy can't even begin."""
        self.refuse_next = True

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def given(self, flight: Flight) -> bool:
        """Has a copier been given it? What waits for a step has not been."""
        return flight.work.after_step not in self.steps

    def ready(self) -> list[Flight]:
        """Copies that may move bytes."""
        return [f for f in (*self.flights, *self.waiting) if not f.over and not f.dead and self.given(f)]

    def land(self) -> None:
        """A copy moves its bytes, or some of them."""
        flight = self.pick(self.ready())
        if flight is not None:
            left = flight.lines - flight.landed
            self.land_lines(flight, 1 + self.dice.below(left) if self.dice.chance(10) else left)

    def land_lines(self, flight: Flight, count: int) -> None:
        self.untouched(flight)
        work, held = flight.work, flight.work.rank
        bad = []
        for line in range(flight.landed, flight.landed + count):
            if work.kind in MOVING:
                self.copy(flight, line)
            elif work.kind == Kind.VERIFY:
                found = self.found(held, work.dst[line])
                if not (isinstance(found, Content) and found.key == work.keys[line]):
                    bad.append(line)
        flight.landed += count
        flight.bad += tuple(bad)

    def land_fully(self, flight: Flight) -> None:
        if not flight.over and not flight.dead:
            self.land_lines(flight, flight.lines - flight.landed)

    def untouched(self, flight: Flight) -> None:
        """See `laws`."""
        raise NotImplementedError

    # -- reports -------------------------------------------------------------------------------------------------------

    def answer(self, flight: Flight) -> None:
        """The true report of a copy that is over."""
        failures = tuple(Failure(line, int(Code.CRC_MISMATCH), "verify") for line in flight.bad)
        self.send(flight, Report(flight.work.token, Outcome.BROKEN if failures else Outcome.DONE, failures))

    def deliver(self) -> None:
        flight = self.pick([f for f in self.flights if f.over])
        if flight is not None:
            self.answer(flight)

    def deliver_late(self) -> None:
        """What had been given up, or called silent, reports after all."""
        flight = self.pick([f for f in self.flights if f.timed_out and self.given(f)])
        if flight is not None:
            self.land_fully(flight)
            self.answer(flight)

    def deliver_early(self) -> None:
        """A copy that was stopped before it moved its last byte says so."""
        flight = self.pick([f for f in self.flights if not f.over and self.given(f)])
        if flight is not None:
            self.send(flight, Report(flight.work.token, Outcome.CANCELLED))

    def deliver_bad(self) -> None:
        """A copy fails; whatever it moved, it moves no more."""
        flight = self.pick([f for f in self.flights if f.work.kind != HOLD and self.given(f)])
        if flight is not None:
            if self.dice.chance(50):
                self.land_fully(flight)
            outcome, code = self.dice.one(BAD)
            line = self.dice.one((-1, 0, flight.lines - 1))
            self.send(flight, Report(flight.work.token, outcome, (Failure(line, int(code), "fetch"),)))

    def deliver_again(self) -> None:
        """A second report on what is over, of this process or of an earlier one."""
        token = self.pick(self.past)
        if token is not None:
            before = self.ledger.books.stale
            self.post(Report(token, self.dice.one(list(Outcome))))
            assert self.ledger.fatal or self.ledger.books.stale == before + 1, (
                "L2.stale_counted: a second report was not counted"
            )

    def deliver_unknown(self) -> None:
        """Reports on tokens that were never minted."""
        before, life = self.ledger.books.unknown, self.ledger.config.incarnation
        self.post(Report(Token(life, 10**9), Outcome.DONE))
        self.post(Report(Token(life + 6, 1), Outcome.DONE))
        assert self.ledger.books.unknown == before + 2, "L2.unknown: a stranger's report was not counted"

    def time_out(self) -> None:
        """Somebody has waited long enough for a copy, which goes on."""
        flight = self.pick([f for f in self.flights if self.given(f)])
        if flight is not None:
            self.silence(flight)

    def silence(self, flight: Flight) -> None:
        flight.timed_out = True
        self.send(flight, Report(flight.work.token, Outcome.TIMEOUT, TIMED_OUT))

    def lose(self) -> None:
        """A copy whose report never comes; its bytes still land, at some time before the fence."""
        flight = self.pick([f for f in self.flights if f.work.kind != HOLD and self.given(f)])
        if flight is not None:
            self.lost(flight)

    def lost(self, flight: Flight) -> None:
        self.flights.remove(flight)
        self.waiting.append(flight)

    def corrupt(self) -> None:
        """A block of a lower tier goes bad; where nothing verifies, nobody could tell."""
        spots = [block for block in range(self.scope.device, self.scope.total) if self.verified(block)]
        block = self.pick(spots)
        if block is not None:
            self.accidents += 1
            self.write(self.dice.below(self.scope.ranks), block, Junk(self.accidents))

    def verified(self, block: int) -> bool:
        books = self.ledger.books
        return books.pools[books.pool_of[block]].config.verify

    # -- copiers -------------------------------------------------------------------------------------------------------

    def copiers(self) -> list[tuple[int, str]]:
        names = dict.fromkeys(tier.copier for tier in self.scope.tiers)
        return [(rank, name) for rank in range(self.scope.ranks) for name in names]

    def lose_copier(self) -> None:
        """A worker or a peer is gone: of some of its copies somebody says so, of the others nobody will."""
        place = self.dice.one(self.copiers())
        gone = self.dice.chance(50)
        for flight in [f for f in self.flights if (f.work.rank, f.work.copier) == place and self.given(f)]:
            if flight not in self.flights:
                continue  # what was said of another has ended it
            if gone:
                self.kill(flight)
            if self.dice.chance(70):
                self.silence(flight)
            if flight in self.flights:
                self.lost(flight)

    def kill(self, flight: Flight) -> None:
        """Nothing of it will land any more, and nobody knows."""
        flight.dead = True

    def fence(self) -> None:
        """All copies of all copiers, or of one of them, are brought to their end, reported or not, and proved over."""
        if self.steps and self.dice.chance(30):
            self.retire_until(self.steps[-1])
        places = self.copiers()
        for place in places if self.dice.chance(70) else [self.dice.one(places)]:
            self.fence_one(*place)

    def fence_one(self, rank: int, copier: str) -> None:
        """Nothing is proved of what waits for its step, nor of what was sent after that, or not at all yet."""
        at = [f for f in (*self.flights, *self.waiting) if (f.work.rank, f.work.copier) == (rank, copier)]
        unsent = [f.work.token.serial - 1 for f in at if not self.given(f)]
        serial = min([self.newest_sent, *unsent])
        over = [flight for flight in at if flight.work.token.serial <= serial]
        for flight in over:
            self.land_fully(flight)
        for flight in over:
            (self.flights if flight in self.flights else self.waiting).remove(flight)
            self.past.append(flight.work.token)
            self.note_fenced(flight)
        self.tell_fenced(rank, copier, serial)

    def note_fenced(self, flight: Flight) -> None:
        """See `laws`."""
        raise NotImplementedError

    def land_all(self) -> None:
        """A quiet moment: steps retire, everything lands and is reported, in some order."""
        if self.steps:
            self.retire_until(self.steps[-1])
        for flight in [f for f in self.flights if f.work.kind != HOLD]:
            if flight in self.flights and self.given(flight):
                self.land_fully(flight)
                self.answer(flight)

    def restart(self) -> None:
        """The process ends in the middle of everything; not as often as other things happen."""
        if self.dice.chance(15):
            self.begin_again()

    def begin_again(self) -> None:
        """Another process, which hears of the copies of its predecessor, and has none of them."""
        self.past += [flight.work.token for flight in (*self.flights, *self.waiting)]
        self.fired.update(self.ledger.fired())
        for block in range(self.scope.total):
            self.tenant[block] += 1
            for rank in range(self.scope.ranks):
                self.write(rank, block, Poison(block, 0))
        self.begin(self.ledger.config.incarnation + 1)
