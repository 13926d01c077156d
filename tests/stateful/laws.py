"""What must be true after every move: the laws, as questions with names.

Every question is a method that raises `AssertionError` with the name of a property of `spec/properties.toml`. What is
asked here needs the physical copies, the links or the timers, and so neither the rows nor the audit can answer it; the
audit is asked, too. What the ledger does in the middle of an input is seen through the sinks of its ports.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvstate.machines.audit import audit
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Adopt, Cancel, Kind, Outcome, Report, Sweep, Token, Undo, Work
from kvstate.machines.records import Batch, Job, Load
from kvstate.machines.tables.block import State as B
from kvstate.machines.tables.key import State as K
from kvstate.machines.tables.load import State as L
from kvstate.machines.tables.offload import State as O
from kvstate.machines.tables.part import State as P
from kvstate.machines.tables.transfer import State as X
from kvstate.machines.verdicts import Ending, Hit, JobVerdict, LoadVerdict, Settlement
from tests.stateful.base import Content, Flight, Junk, Place, Poison, Request
from tests.stateful.blame import Blame
from tests.stateful.copies import MOVING, Copies

STOPPING: dict[str, set[int]] = {"offload": {O.CANCELLING}, "transfer": {X.ROLLING_BACK, X.ABORTING}}
WAITING: dict[str, int] = {"offload": O.RETRY_WAIT, "transfer": X.RETRY_WAIT}
NAMING = {int(K.READY), int(K.COOLING)}
FREE = int(B.FREE)


class Laws(Copies):
    """See the module."""

    QUESTIONS = (
        "writer_place", "reuse", "recorded", "true_names", "tables", "asked", "behind", "no_object", "timer",
        "no_retry", "pins", "turn_taken", "slow_keys", "innocent", "balance",
    )  # fmt: skip
    """Asked after every move; `clock` costs a copy of the whole ledger and is asked now and then."""

    def begin(self, incarnation: int) -> None:
        self.deaf = False
        self.wrong: list[str] = []
        """What a sink has found; it must not raise in the middle of an input."""
        self.newest: dict[int, int] = {}
        """The generation in which each block was last handed out."""
        self.asked_to_stop: set[Token] = set()
        self.persists: dict[Token, int] = {}
        """Whose job a persist is of."""
        self.objects: set[Token] = set()
        self.committed: set[int] = set()
        self.said: dict[int, set[Token]] = {}
        """By job or load: tokens of parts that reported a failure to it."""
        self.blame = Blame()
        super().begin(incarnation)
        self.blame.listen(self)

    # -- what comes by -------------------------------------------------------------------------------------------------

    def row(self, machine: str, uid: int, row: str, before: int, after: int) -> None:
        """A row has fired; blocks have new tenants, a life of their own each time, and are poisoned after it."""
        if self.deaf:
            return
        if machine == "block":
            if before == FREE:
                self.tenant[uid] += 1
                life = self.ledger.books.generation[uid]
                if self.newest.get(uid, -1) >= life:
                    self.wrong.append(f"L2.life: block {uid} is given out twice in generation {life}")
                self.newest[uid] = life
            elif after == FREE:  # what begins another life holds nothing that anybody wrote
                for rank in range(self.scope.ranks):
                    self.write(rank, uid, Poison(uid, self.ledger.books.generation[uid]))
        elif machine in ("transfer", "key"):
            self.blame.row(machine, uid, row)

    def note(self, said: Report) -> None:
        """What the ledger is about to hear. A copy that is proved over is over in the world, too."""
        self.heard_landed(said.token)
        flight = next((f for f in self.flights if f.work.token == said.token), None)
        if flight is not None and said.outcome != Outcome.TIMEOUT:
            assert said.outcome != Outcome.DONE or flight.over, (
                f"L2.identity: done is heard of {flight.work}, which has not landed"
            )
            self.flights.remove(flight)
            self.past.append(said.token)
        books = self.ledger.books
        slot = books.tokens.get(said.token.serial)
        if slot is None or said.outcome not in set(Outcome):
            return
        part = books.parts[slot]
        if part.token != said.token or self.ledger.fatal is not None:
            return
        if books.parts_state[slot] in (P.FLYING, P.LOST):
            self.blame.heard(said)
        if said.outcome == Outcome.DONE or part.owner is None or books.parts_state[slot] != P.FLYING:
            return
        machine, owner = part.owner
        if machine == "offload":
            self.said.setdefault(books.jobs[owner].id, set()).add(part.token)
            return
        load = books.loads[books.batches[owner].load]
        if books.column("load", "state")[load.slot] in (L.PLANNED, L.WAITING):  # the verdict is still to come
            self.said.setdefault(load.id, set()).add(part.token)

    def heard_landed(self, token: Token) -> None:
        """For a world whose copies land by themselves."""

    def note_fenced(self, flight: Flight) -> None:
        self.blame.fenced(flight)

    def sent(self, work: Work) -> None:
        if work.kind == Kind.PERSIST:
            books = self.ledger.books
            owner = books.parts[books.tokens[work.token.serial]].owner
            assert owner is not None
            self.persists[work.token] = books.jobs[owner[1]].id
        elif work.kind != Kind.STORE:
            self.blame.launched(work)
        super().sent(work)

    def undone(self, undo: Undo) -> None:
        """An object is removed; nobody may be making it."""
        under_way = {flight.work.token for flight in (*self.flights, *self.waiting) if not flight.dead}
        assert undo.token not in under_way, f"L5.no_object: {undo} while it is made"
        self.objects.discard(undo.token)

    def tended(self, effect: Adopt | Sweep) -> None:
        """For a world that knows what rests in a durable pool; see `durable_world`."""

    def land_lines(self, flight: Flight, count: int) -> None:
        super().land_lines(flight, count)
        if flight.work.kind == Kind.PERSIST and flight.over:
            self.objects.add(flight.work.token)

    def stopped(self, cancel: Cancel) -> None:
        """A copy is asked to stop, and sometimes it does."""
        self.asked_to_stop.add(cancel.token)
        if self.dice.chance(50):
            for flight in [f for f in self.flights if f.work.token == cancel.token]:
                if not flight.over and not flight.timed_out and self.can_stop(flight):
                    self.send(flight, Report(cancel.token, Outcome.CANCELLED))

    def can_stop(self, flight: Flight) -> bool:
        """Is there somebody to say so? What waits for its step can be stopped as well."""
        return True

    # -- after every move ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Take what comes out of the ledger until nothing does, and ask."""
        ledger = self.ledger
        while True:
            verdicts = self.turn()
            news, self.news = self.news, []
            for effect in news:
                if isinstance(effect, Work):
                    self.sent(effect)
                elif isinstance(effect, Undo):
                    self.undone(effect)
                elif isinstance(effect, Adopt | Sweep):
                    self.tended(effect)
            for effect in news:
                if isinstance(effect, Cancel):
                    self.stopped(effect)
            assert ledger.fatal is None, f"L8.poison: {ledger.fatal}"
            assert not self.wrong, self.wrong[0]
            for verdict in verdicts:
                self.hear(verdict)
            if not news and not verdicts:
                break
        for name in self.QUESTIONS:
            getattr(self, name)()

    def balance(self) -> None:
        """L4, L5, L8, L9: what the audit counts."""
        problems = audit(self.ledger)
        assert not problems, problems[0]

    # -- copies --------------------------------------------------------------------------------------------------------

    def under_way(self) -> Iterator[Flight]:
        """Copies that may still touch memory, or of which nothing is proved."""
        return (flight for flight in (*self.flights, *self.waiting))

    def reuse(self) -> None:
        """L3: nobody else has what a copy touches."""
        for flight in self.under_way():
            self.untouched(flight)

    def untouched(self, flight: Flight) -> None:
        states = self.ledger.books.block_state
        for block, tenant in flight.tenants.items():
            same = self.tenant[block] == tenant and states[block] != FREE
            assert same, (
                f"L3.no_reuse: {flight.work} touches block {block}, which is {B(states[block]).name.lower()} "
                f"in hands {self.tenant[block]}, not {tenant}"
            )

    def writer_place(self) -> None:
        """L3: who is written is loading, draining or quarantined."""
        states = self.ledger.books.block_state
        for flight in self.under_way():
            if flight.work.kind in MOVING:
                for block in flight.work.dst:
                    assert states[block] in (B.LOADING, B.DRAINING, B.QUARANTINED), (
                        f"L3.writer_place: block {block} is {B(states[block]).name} under {flight.work}"
                    )

    def recorded(self) -> None:
        """L4: what is under way is known as that."""
        books = self.ledger.books
        for flight in self.under_way():
            slot = books.tokens.get(flight.work.token.serial)
            assert slot is not None, f"L4.recorded: {flight.work} is on no record"
            assert books.parts_state[slot] in (P.FLYING, P.LOST), f"L4.recorded: {flight.work} is taken for over"

    # -- names and tables ----------------------------------------------------------------------------------------------

    def look_at(self, hit: Hit) -> None:
        """L5: what was called bad is no hit in this life of its block."""
        for key, ref in zip(hit.keys, hit.blocks, strict=True):
            assert (key, ref) not in self.blame.condemned, f"L5.bad_keys: {key!r} is a hit again in {ref}"

    def holds(self, block: int, content: Content, coming: set[tuple[int, Content]]) -> str:
        """Empty if every rank holds this, or will when a step ends; else what it holds."""
        if (block, content) in coming:
            return ""
        for rank in range(self.scope.ranks):
            found = self.found(rank, block)
            if found != content and not isinstance(found, Junk):
                return f"block {block} holds {found} on rank {rank}, not {content}"
        return ""

    def coming(self) -> set[tuple[int, Content]]:
        return {(block, content) for writes in self.writes.values() for block, _, content in writes}

    def true_names(self) -> None:
        """L9: what a key names is its bytes, or a step is on the way to write them."""
        keys, coming = self.ledger.books.keys, self.coming()
        for slot, space in enumerate(keys.spaces_of):
            if space is not None and keys.state[slot] in NAMING:
                wrong = self.holds(keys.blocks[slot], Content(space.namespace, keys.keys[slot], self.epoch), coming)
                assert not wrong, f"L9.bytes: {wrong}, and is named so"

    def tables(self) -> None:
        """L9: the active blocks of a lease hold what its request believes; until a verdict it believes nothing."""
        states, coming = self.ledger.books.block_state, self.coming()
        for request in self.running():
            for place, ref in request.table.items():
                if states[ref.block] == B.ACTIVE:
                    wrong = self.holds(ref.block, request.content(place), coming)
                    assert not wrong, f"L9.bytes: {wrong}, and a request runs over it"

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
            hole = next((index for index, slot in enumerate(load.batches) if told[slot]), None)
            for slot in load.batches[hole:] if hole is not None else ():
                assert told[slot], (
                    f"L5.behind: batch {slot} lies behind batch {hole} of load {load.id} and was not told"
                )
                assert states[slot] != X.COMMITTED, f"L5.behind: batch {slot} has committed"

    def none_loading(self, number: int) -> None:
        """L5: at the verdict none of its blocks is loading. (Later they may be again, for another.)"""
        books = self.ledger.books
        if number in books.load_ids:
            for slot in books.loads[books.load_ids[number]].batches:
                for block in books.batches[slot].dsts:
                    assert books.block_state[block] != B.LOADING, f"L5.behind: block {block} is still loading"

    def no_object(self) -> None:
        """L5: an object is somebody's: of a committed job, of one that lives, or of a copy that is not proved over."""
        under_way = {flight.work.token for flight in self.under_way()}
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
        for slot, state in enumerate(books.keys.state):
            if state == K.COOLING:
                assert ("key", "warm", slot) in armed, f"L7.timer: key {books.keys.name(slot)} is cold for ever"

    def no_retry(self) -> None:
        """L7: no attempt is waited for where one may still be written, or would read what was bad."""
        books = self.ledger.books
        for machine, owner, state in self.owners():
            if state == WAITING[machine]:
                for slot in owner.parts:
                    assert books.parts_state[slot] not in (P.BROKEN, P.LOST, P.GONE), (
                        f"L7.no_retry: {machine} {owner.id} waits for another attempt after {books.parts[slot]}"
                    )

    def all_forgotten(self) -> None:
        """L9: a reset forgets every key, those that were held against somebody as well."""
        left = [name for _, name in self.ledger.books.keys.names()]
        assert not left or self.ledger.fatal is not None, f"L9.reset: the cache was reset, and {left} are on record"

    def pins(self) -> None:
        """L9: a verdict leaves no pin of its load behind."""
        books = self.ledger.books
        states = books.column("load", "state")
        for lease in books.leases.values():
            for block, batch in lease.pins.items():
                assert batch < 0 or states[books.batches[batch].load] in (L.PLANNED, L.WAITING), (
                    f"L9.pins: lease {lease.id} pins block {block} for a load that was told"
                )

    def turn_taken(self) -> None:
        """L11: whose turn it is has taken it."""
        books = self.ledger.books
        for load in self.loads_by_state(L.WAITING):
            states = [books.column("transfer", "state")[slot] for slot in load.batches]
            first = next(state for state in states if state != X.COMMITTED)
            assert first != X.VERIFIED, f"L11.turn: load {load.id} has missed a turn"

    # -- keys that pay -------------------------------------------------------------------------------------------------

    def slow_keys(self) -> None:
        """L5: when a batch has fallen, the keys of what failed, or was silent, are no hits."""
        keys, ready = self.ledger.books.keys, int(K.READY)
        for key, ref in self.blame.to_cool():
            slot = keys.named(ref)
            assert slot < 0 or keys.state[slot] != ready, f"L5.slow_keys: {key!r} in {ref} is a hit after its load fell"

    def innocent(self) -> None:
        """L5: no other key was condemned or cooled."""
        assert not self.blame.innocents, f"L5.innocent: {self.blame.innocents[0]}"

    # -- verdicts ------------------------------------------------------------------------------------------------------

    def hear(self, verdict: object) -> None:
        """L1: one verdict each, and for a load one settlement behind it."""
        if isinstance(verdict, LoadVerdict):
            assert verdict.load in self.loads.keys() - self.told, f"L1.verdict_once: {verdict}"
            self.told.add(verdict.load)
            self.hear_load(verdict)
            if verdict.ending is Ending.RECOMPUTE:
                self.cause(verdict.load, verdict)
        elif isinstance(verdict, JobVerdict):
            assert verdict.job in self.jobs - self.told, f"L1.verdict_once: {verdict}"
            self.told.add(verdict.job)
            if verdict.ending is Ending.FAILED:
                self.cause(verdict.job, verdict)
            elif verdict.ending is Ending.COMMITTED:
                self.committed.add(verdict.job)
        elif isinstance(verdict, Settlement):
            assert verdict.load in self.told - self.settled, f"L1.verdict_once: {verdict}"
            self.settled.add(verdict.load)

    def hear_load(self, verdict: LoadVerdict) -> None:
        """L5: what it says is there, is."""
        request = next((r for r in self.requests if r.load == verdict.load), None)
        if request is None:
            assert verdict.ending is Ending.ABORTED, verdict
            return
        request.load = None
        self.none_loading(verdict.load)
        assert request.hit is not None
        books = self.ledger.books
        for place in self.promised(request, verdict):
            ref = request.table[place]
            wrong = self.holds(ref.block, request.content(place), set()) or self.not_its(request.lease, ref.block)
            assert not wrong, f"L5.proceed: {wrong}"
            assert books.current(ref), f"L5.proceed: {ref} is over"
            junk = any(isinstance(self.found(rank, ref.block), Junk) for rank in range(self.scope.ranks))
            assert not junk, f"L5.proceed: block {ref.block} holds junk"
        for place, ref in list(request.table.items()):
            if ref.block in verdict.left:
                del request.table[place]

    def promised(self, request: Request, verdict: LoadVerdict) -> list[Place]:
        """L5: the places of what was loaded, as far as the verdict says; and that it says enough."""
        assert request.hit is not None
        beyond = [request.table[place].block for place in request.hit.below if place >= verdict.blocks][:1]
        assert all(self.not_its(request.lease, block) for block in beyond), f"L5.proceed: {verdict} is too short"
        return [place for place in request.hit.below if place < verdict.blocks]

    def not_its(self, lease: int, block: int) -> str:
        books = self.ledger.books
        state = B(books.block_state[block])
        owned = books.owns(books.leases[lease], block)
        return "" if owned and state == B.ACTIVE else f"block {block} is {state.name.lower()}, owned: {owned}"

    def cause(self, number: int, verdict: LoadVerdict | JobVerdict) -> None:
        """L10: whatever a part said went wrong stands in the verdict, with token and attempt."""
        named = {error.token for error in verdict.errors if error.attempt >= 1}
        assert self.said.get(number, set()) <= named, f"L10.cause: {verdict} lacks one of {self.said[number]}"
        assert verdict.errors, f"L10.cause: {verdict}"

    # -- the clock alone -----------------------------------------------------------------------------------------------

    def clock(self) -> None:
        """L7, L11: from here, with no report and no request, everything that waits comes to an end."""
        ledger = self.ledger
        before, self.deaf = ledger.snapshot(), True
        for hours in (1, 2, 3):
            ledger.tick(self.now + hours * 3600.0)
        self.ended(ledger)
        ledger.restore(before)
        self.deaf = False

    def ended(self, ledger: Ledger) -> None:
        books = ledger.books
        assert ledger.fatal is None, f"L8.poison: {ledger.fatal}"
        assert not books.job_ids, "L7.clock: a job goes on for ever"
        assert not books.load_ids, "L7.clock: a load goes on for ever"
        flying = [part for part in books.parts.live() if books.parts_state[part.slot] == P.FLYING]
        assert not flying, f"L7.clock: {flying} are waited for for ever"
        assert K.COOLING not in books.keys.state, "L7.clock: a key is cold for ever"
