"""What the hardware does: copies land, and reports of them come, in any order, twice, wrong, late or never."""

from __future__ import annotations

from kvstate.errors import Code
from kvstate.machines.messages import BlockRef, Failure, Kind, Outcome, Report, Token
from tests.stateful.base import POISON, TIMED_OUT, Flight
from tests.stateful.requests import Requests


class Copies(Requests):
    """Moves of the copies. Each is total: where it does not apply, nothing happens."""

    def ready(self) -> list[Flight]:
        return [f for f in self.flights if f.work.after_step == 0 or f.work.after_step not in self.steps]

    def land(self) -> None:
        flight = self.pick([f for f in self.ready() if not f.landed])
        if flight is not None:
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
        if flight is not None:
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
        if flight is not None:
            self.flights.remove(flight)
            self.past.append(flight.work.token)
            self.ledger.report(Report(flight.work.token, Outcome.CANCELLED))

    def deliver_bad(self) -> None:
        """A copy fails; whatever it moved, it moves no more."""
        flight = self.pick(self.ready())
        if flight is not None and flight.work.kind != Kind.HOLD:
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
        if flight is not None:
            self.ledger.report(Report(flight.work.token, Outcome.TIMEOUT, TIMED_OUT))

    def lose(self) -> None:
        """A copy whose report never comes; the bytes still land, at some time before the fence."""
        if self.scope.lose:
            flight = self.pick([f for f in self.flights if f.landed and f.work.kind != Kind.HOLD])
            if flight is not None:
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
