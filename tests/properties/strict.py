"""The world of the walks, with more of the laws looked at after every move.

What is asked here needs links and timers, or the physical copies, and so neither the rows nor the audit can answer it.
Every question is a method that raises `AssertionError` with the name of the property.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvstate.machines.messages import Cancel, Effect, Kind, Outcome, Report, Token, Undo, Work
from kvstate.machines.records import Batch, Job, Load
from kvstate.machines.tables.block import State as B
from kvstate.machines.tables.key import State as K
from kvstate.machines.tables.load import State as L
from kvstate.machines.tables.offload import State as O
from kvstate.machines.tables.part import State as P
from kvstate.machines.tables.transfer import State as X
from kvstate.machines.verdicts import Ending, JobVerdict, LoadVerdict
from tests.stateful.base import POISON, Flight
from tests.stateful.world import World

WARM = "arrive start compute retire store land_all deliver land_all finish finish finish pressure".split()
"""Brings something to the lower pool and makes room above it, so that the next request has something to load."""
STORE = (
    "reset abort abort abort arrive arrive start start compute compute retire retire store store land deliver".split()
)
"""Begins a store of what nobody has stored since the reset, and leaves it in the middle."""
RACE = {
    "arrive": 6.0, "start": 10.0, "compute": 3.0, "retire": 5.0, "store": 4.0, "finish": 2.0, "abort": 2.0,
    "land": 10.0, "deliver": 8.0, "deliver_bad": 3.0, "deliver_early": 1.0, "deliver_again": 1.0, "time_out": 2.0,
    "deliver_unknown": 0.3, "lose": 1.0, "tick": 3.0, "corrupt": 1.0, "cancel": 1.0, "reset": 0.3, "fence": 0.4,
    "hold": 0.5, "window": 0.7,
}  # fmt: skip
"""What may happen while something is loaded or stored, and how often."""
STOPPING: dict[str, set[int]] = {"offload": {O.CANCELLING}, "transfer": {X.ROLLING_BACK, X.ABORTING}}
WAITING: dict[str, int] = {"offload": O.RETRY_WAIT, "transfer": X.RETRY_WAIT}


class Strict(World):
    """See the module."""

    QUESTIONS = (
        "writer_place", "recorded", "true_names", "asked", "behind", "no_object", "timer", "no_retry", "pins", "turn",
        "clock",
    )  # fmt: skip

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self.asked_to_stop: set[Token] = set()
        self.gone_bad: set[tuple[int, int]] = set()
        """Rank and block of bytes that went bad by themselves; what is filed there is no lie of the ledger's."""
        self.persists: dict[Token, int] = {}
        """Whose job a persist is of."""
        self.objects: set[Token] = set()
        self.committed: set[int] = set()
        self.said: dict[int, set[Token]] = {}
        """By job or load: tokens of parts that reported a failure to it."""
        self._listen()

    def _listen(self) -> None:
        """Look at what goes down and what comes up, on its way."""
        ledger, take, hear = self.ledger, self.ledger.take_effects, self.ledger.report

        def take_effects() -> list[Effect]:
            effects = take()
            self.asked_to_stop |= {effect.token for effect in effects if isinstance(effect, Cancel)}
            for effect in effects:
                self._persisted(effect)
            return effects

        def report(said: Report) -> None:
            self._note(said)
            hear(said)

        ledger.take_effects, ledger.report = take_effects, report  # type: ignore[method-assign, assignment]

    def _persisted(self, effect: Effect) -> None:
        """Remember whose object a persist makes, and carry an undo out."""
        if isinstance(effect, Undo):
            under_way = {flight.work.token for flight in (*self.flights, *self.waiting)}
            assert effect.token not in under_way, f"L5.no_object: {effect} while it is made"
            self.objects.discard(effect.token)
        elif isinstance(effect, Work) and effect.kind == Kind.PERSIST:
            books = self.ledger.books
            owner = books.parts[books.tokens[effect.token.serial]].owner
            assert owner is not None
            self.persists[effect.token] = books.jobs[owner[1]].id

    def land_one(self, flight: Flight) -> None:
        super().land_one(flight)
        if flight.work.kind == Kind.PERSIST:
            self.objects.add(flight.work.token)
        elif flight.work.kind in (Kind.STORE, Kind.FETCH):
            rank = flight.work.rank
            for src, dst in zip(flight.work.src, flight.work.dst, strict=True):
                self.gone_bad.discard((rank, dst))
                if (rank, src) in self.gone_bad:
                    self.gone_bad.add((rank, dst))

    def corrupt(self) -> None:
        before = dict(self.bytes)
        super().corrupt()
        self.gone_bad |= {place for place, found in self.bytes.items() if found == POISON != before.get(place)}

    def _note(self, report: Report) -> None:
        books = self.ledger.books
        slot = books.tokens.get(report.token.serial)
        if slot is None or report.outcome == Outcome.DONE or report.outcome not in set(Outcome):
            return
        part = books.parts[slot]
        if part.token != report.token or part.owner is None or books.parts_state[slot] != P.FLYING:
            return
        machine, owner = part.owner
        if machine == "offload":
            self.said.setdefault(books.jobs[owner].id, set()).add(part.token)
            return
        load = books.loads[books.batches[owner].load]
        if books.column("load", "state")[load.slot] in (L.PLANNED, L.WAITING):  # the verdict is still to come
            self.said.setdefault(load.id, set()).add(part.token)

    def round(self) -> None:
        """Something is stored, and then there is a race for it; or a race begins in the middle of the store."""
        for name in self.random.choice((WARM, WARM, STORE)):
            self.move(name)
        for _ in range(self.random.choice((12, 24))):
            self.race()

    def race(self) -> None:
        """One move of many that may come now."""
        self.move(self.random.choices(list(RACE), list(RACE.values()))[0])

    def check(self) -> None:
        super().check()
        for name in self.QUESTIONS:
            if name != "clock":
                getattr(self, name)()

    # -- copies --------------------------------------------------------------------------------------------------------

    def writer_place(self) -> None:
        """L3: who is written is loading, draining or quarantined."""
        for flight in (*self.flights, *self.waiting):
            if flight.work.kind in (Kind.STORE, Kind.FETCH):
                for block in flight.work.dst:
                    state = B(self.ledger.books.block_state[block])
                    assert state in (B.LOADING, B.DRAINING, B.QUARANTINED), (
                        f"L3.writer_place: block {block} is {state.name} under {flight.work}"
                    )

    def recorded(self) -> None:
        """L4: what is under way is known as that."""
        books = self.ledger.books
        for flight in (*self.flights, *self.waiting):
            slot = books.tokens.get(flight.work.token.serial)
            assert slot is not None, f"L4.recorded: {flight.work} is on no record"
            assert books.parts_state[slot] in (P.FLYING, P.LOST), f"L4.recorded: {flight.work} is taken for over"

    def true_names(self) -> None:
        """L9: what a key names is its bytes, or a step is on the way to write them."""
        books = self.ledger.books
        coming = {(block, content) for writes in self.writes.values() for block, _, content in writes}
        for slot, name in enumerate(books.keys.names):
            if name is None or books.keys.state[slot] not in (K.READY, K.COOLING):
                continue
            block, content = books.keys.blocks[slot], name[1:]
            for rank in range(self.scope.ranks):
                found = self.bytes.get((rank, block))
                bad = found == POISON and (rank, block) in self.gone_bad
                assert found == content or bad or (block, content) in coming, (
                    f"L9.bytes: block {block} holds {found} on rank {rank} and is named {name}"
                )

    # -- owners --------------------------------------------------------------------------------------------------------

    def owners(self) -> Iterator[tuple[str, Job | Batch, int]]:
        """Every job and batch with its machine and state."""
        books = self.ledger.books
        for job in books.jobs.live():
            yield "offload", job, books.column("offload", "state")[job.slot]
        for batch in books.batches.live():
            yield "transfer", batch, books.column("transfer", "state")[batch.slot]

    def loads_by_state(self, *states: L) -> Iterator[Load]:
        books = self.ledger.books
        return (load for load in books.loads.live() if books.column("load", "state")[load.slot] in states)

    def asked(self) -> None:
        """L4: who is waited for has been asked to stop."""
        books = self.ledger.books
        for machine, owner, state in self.owners():
            if state in STOPPING[machine]:
                for slot in owner.parts:
                    token = books.parts[slot].token
                    assert books.parts_state[slot] != P.FLYING or token in self.asked_to_stop, (
                        f"L4.asked: part {token.serial} of {machine} {owner.id} was not asked to stop"
                    )

    def behind(self) -> None:
        """L5: nothing behind a hole goes on."""
        books = self.ledger.books
        told, states = books.column("transfer", "told"), books.column("transfer", "state")
        for load in self.loads_by_state(L.WAITING, L.SETTLING):
            for batch in (books.batches[slot] for slot in load.batches):
                if load.hole is not None and batch.index > load.hole:
                    assert told[batch.slot], f"L5.behind: batch {batch.index} lies behind {load.hole} and was not told"
                    assert states[batch.slot] != X.COMMITTED, f"L5.behind: batch {batch.index} committed"
        for load in self.loads_by_state(L.SETTLING):
            for batch in (books.batches[slot] for slot in load.batches):
                assert all(books.block_state[block] != B.LOADING for block in batch.dsts), "L5.behind: still loading"

    def no_object(self) -> None:
        """L5: an object is somebody's: of a committed job, of one that lives, or of a copy that is not proved over."""
        under_way = {flight.work.token for flight in (*self.flights, *self.waiting)}
        for token in self.objects - under_way:
            job = self.persists[token]
            assert job in self.committed or job in self.ledger.books.job_ids, f"L5.no_object: job {job} left {token}"

    def timer(self) -> None:
        """L7: who waits for the clock has a timer."""
        books = self.ledger.books
        armed = {
            (timer.machine, timer.event, timer.slot)
            for timer in books.timers
            if timer.uid == books.uid(timer.machine, timer.slot)
        }
        for machine, owner, state in self.owners():
            if state == WAITING[machine]:
                assert (machine, "retry_due", owner.slot) in armed, f"L7.timer: {machine} {owner.id} waits for ever"
        for slot, name in enumerate(books.keys.names):
            if name is not None and books.keys.state[slot] == K.COOLING:
                assert ("key", "warm", slot) in armed, f"L7.timer: key {name} is cold for ever"

    def no_retry(self) -> None:
        """L7: no attempt is waited for where one may still be written, or would read what was bad."""
        books = self.ledger.books
        for machine, owner, state in self.owners():
            if state == WAITING[machine]:
                for slot in owner.parts:
                    assert books.parts_state[slot] not in (P.BROKEN, P.LOST, P.GONE), (
                        f"L7.no_retry: {machine} {owner.id} waits for another attempt after {books.parts[slot]}"
                    )

    def pins(self) -> None:
        """L9: a verdict leaves no pin of its load behind."""
        books = self.ledger.books
        states = books.column("load", "state")
        for lease in books.leases.values():
            for block, batch in lease.pins.items():
                assert batch < 0 or states[books.batches[batch].load] in (L.PLANNED, L.WAITING), (
                    f"L9.pins: lease {lease.id} pins block {block} for a load that was told"
                )

    def turn(self) -> None:
        """L11: whose turn it is has taken it."""
        books = self.ledger.books
        for load in self.loads_by_state(L.WAITING):
            batch = load.batches[load.turn]
            assert books.column("transfer", "state")[batch] != X.VERIFIED, f"L11.turn: load {load.id} has missed a turn"

    # -- verdicts ------------------------------------------------------------------------------------------------------

    def hear(self, verdict: object) -> None:
        super().hear(verdict)
        if isinstance(verdict, LoadVerdict) and verdict.ending is Ending.RECOMPUTE:
            self.cause(verdict.load, verdict)
        elif isinstance(verdict, JobVerdict) and verdict.ending is Ending.FAILED:
            self.cause(verdict.job, verdict)
        elif isinstance(verdict, JobVerdict) and verdict.ending is Ending.COMMITTED:
            self.committed.add(verdict.job)

    def cause(self, number: int, verdict: LoadVerdict | JobVerdict) -> None:
        """L10: whatever a part said went wrong stands in the verdict, with token and attempt."""
        named = {error.token for error in verdict.errors if error.attempt >= 1}
        assert self.said.get(number, set()) <= named, f"L10.cause: {verdict} lacks one of {self.said[number]}"
        assert verdict.errors, f"L10.cause: {verdict}"

    # -- the clock alone -----------------------------------------------------------------------------------------------

    def clock(self) -> None:
        """L7, L11: from here, with no report and no request, everything that waits comes to an end."""
        ledger = self.ledger
        before = ledger.snapshot()
        for hours in (1, 2, 3):
            ledger.tick(self.now + hours * 3600.0)
        books = ledger.books
        assert ledger.fatal is None, ledger.fatal
        assert not books.job_ids, "L7.clock: a job goes on for ever"
        assert not books.load_ids, "L7.clock: a load goes on for ever"
        flying = [part for part in books.parts.live() if books.parts_state[part.slot] == P.FLYING]
        assert not flying, f"L7.clock: {flying} are waited for for ever"
        named = [slot for slot, name in enumerate(books.keys.names) if name is not None]
        assert all(books.keys.state[slot] != K.COOLING for slot in named), "L7.clock: a key is cold for ever"
        ledger.restore(before)
