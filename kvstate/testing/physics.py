"""What is physically true in a scenario: the bytes in every block, and the copies that are on their way.

Bytes are symbols (which key, computed by whom), so that one can see whose they are. A copy makes two events here as it
does in the world: it *lands*, and its report is *delivered*; what is over never lands any more. The identity scheme is
not the ledger's: a block has a new *tenant* whenever it is handed to somebody, and a copy remembers for which tenant
it was sent. So a reuse is seen even by a ledger whose generations do not move.

Errors: a command that the world does not allow raises `Mistake`: a copy that never was sent can't land, and none twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kvstate.errors import Code
from kvstate.machines.messages import Adopt, Effect, Failure, Kind, Outcome, Report, Sweep, Undo, Work
from kvstate.testing.matter import NOTHING, Bytes, Flight, Step, shown
from kvstate.testing.names import Mistake, Names
from kvstate.testing.objects import Objects
from kvstate.testing.others import Others


@dataclass
class Physics:
    """See the module."""

    names: Names
    """Of the scenario, for sentences."""
    contents: dict[tuple[int, int], Bytes] = field(default_factory=dict)
    """By rank and block."""
    tenants: dict[int, int] = field(default_factory=dict)
    """Block: how often it has been given to somebody."""
    flights: dict[int, Flight] = field(default_factory=dict)
    """By serial."""
    steps: dict[int, Step] = field(default_factory=dict)
    """Steps under way, by number."""
    broken: list[str] = field(default_factory=list)
    """Laws that were seen broken since somebody last looked."""
    objects: Objects = field(default_factory=Objects)
    """What outlives the process, if a pool keeps it."""
    others: Others = field(default_factory=Others)
    """What others have, if a pool is shared with them."""

    # -- tenants and bytes ---------------------------------------------------------------------------------------------

    def handed(self, blocks: Iterable[int]) -> None:
        """These blocks have been given to somebody."""
        for block in blocks:
            self.tenants[block] = self.tenants.get(block, 0) + 1

    def tenant(self, block: int) -> int:
        """How often the block has been given to somebody."""
        return self.tenants.get(block, 0)

    def at(self, block: int, rank: int = 0) -> Bytes:
        """What the block holds on that rank."""
        return self.contents.get((rank, block), NOTHING)

    def put(self, block: int, content: Bytes) -> None:
        """The same on every rank: what the engine computes, and what befalls a block."""
        for rank in range(self.names.books.config.ranks):
            self.contents[rank, block] = content

    def all_of(self, block: int) -> str:
        """What the block holds, rank by rank where the ranks differ."""
        ranks = range(self.names.books.config.ranks)
        seen = [shown(self.at(block, rank)) for rank in ranks]
        if len(set(seen)) == 1:
            return seen[0]
        return ", ".join(f"{content} on rank {rank}" for rank, content in enumerate(seen))

    def holds(self, block: int, space: str, key: bytes) -> bool:
        """Does the block hold the bytes of the key, or will it when the steps under way have written?"""
        coming = {place: content for step in self.steps.values() for place, _, content in step.writes}
        contents = [self.at(block, rank) for rank in range(self.names.books.config.ranks)]
        return all((one.space, one.key) == (space, key.decode()) for one in contents) or (
            block in coming and (coming[block].space, coming[block].key) == (space, key.decode())
        )

    # -- copies --------------------------------------------------------------------------------------------------------

    def sent(self, works: list[Work]) -> None:
        """Workers have got this to do, in one input. What a store fills was given to its job, on all ranks at once."""
        stores = [work for work in works if work.kind == Kind.STORE and work.attempt == 1]
        self.handed({block for work in stores for block in work.dst})
        for work in works:
            tenants = {block: self.tenant(block) for block in (*work.src, *work.dst)}
            self.flights[work.token.serial] = Flight(work, tenants, landed=work.kind == Kind.HOLD)

    def tended(self, effects: Iterable[Effect]) -> None:
        """What these say of objects is done, in their order."""
        newest = max(self.flights, default=0)
        for effect in effects:
            if isinstance(effect, Work):
                newest = max(newest, effect.token.serial)
            elif isinstance(effect, Adopt):
                if effect.rank == 0:  # a handle in its next life, on all ranks at once
                    self.handed(block for block in effect.blocks if block in self.others.blocks)
                for block, held in list(self.objects.adopt(effect, newest, self.contents)):
                    self.contents[effect.rank, block] = held
            elif isinstance(effect, Undo | Sweep):
                self.others.tend(effect, newest)
                undo = isinstance(effect, Undo)
                gone = self.objects.undo(effect) if undo else self.objects.sweep(effect, newest)  # type: ignore[arg-type]
                self.contents |= {(effect.rank, block): NOTHING for block in gone}

    def flight(self, word: str) -> Flight:
        """The copy with that token."""
        token = self.names.find_token(word)
        if token.serial not in self.flights:
            raise Mistake(f"no copy was sent under {word}")
        return self.flights[token.serial]

    def land(self, word: str) -> list[str]:
        """The copy does what it was sent for; returns what can be seen of it."""
        flight = self.flight(word)
        work = flight.work
        if flight.over:
            raise Mistake(f"{word} is over, so it can't land any more")
        if flight.landed:
            raise Mistake(f"{word} has landed already")
        if work.after_step in self.steps:
            raise Mistake(f"{word} starts after step {work.after_step}, which is under way")
        self._same_tenants(word, flight)
        flight.landed = True
        where = "" if self.names.books.config.ranks == 1 else f" on rank {work.rank}"
        kinds = {Kind.PERSIST: self._persist, Kind.VERIFY: self._check, Kind.SEEK: self.others.seek}
        does = kinds.get(Kind(work.kind), self._copy)
        return [does(flight, line) + where for line in range(len(work.keys))]

    def _same_tenants(self, word: str, flight: Flight) -> None:
        for block, tenant in flight.tenants.items():
            if self.tenant(block) != tenant and not self.from_engine(block):
                does = "writes" if block in flight.work.dst and flight.work.kind != Kind.VERIFY else "reads"
                self.broken.append(f"L3.no_reuse: {word} {does} {self.names.block(block)}, which was given to another")

    def _persist(self, flight: Flight, line: int) -> str:
        work, slot = flight.work, flight.work.src[line]
        block, key = self.names.block(slot), self.names.key(work.space(line), work.keys[line])
        if slot in self.others.blocks:
            made = self.others.persist(work, line, self.at(slot, work.rank))
        elif slot in self.objects.blocks:
            made = self.objects.persist(work, line)
        else:
            return f"{block} is durable"
        match made:
            case "":
                return f"{key} can be found, in {block}"
            case "newer":
                return f"{key} stays as it is: a newer one is there"
            case "there":
                return f"{key} stays as it is: somebody has put it there"
            case _:
                flight.swept = True
                return f"{key} is not made visible: it was begun before all was swept"

    def _copy(self, flight: Flight, line: int) -> str:
        work = flight.work
        src, dst = work.src[line], work.dst[line]
        if dst in self.objects.blocks:
            self.objects.vacate(work.rank, dst)
        elif src in self.objects.blocks and (unfit := self._unfit(flight, line)):
            return unfit
        elif src in self.others.blocks:
            return self.others.fetch(flight, line, self.contents, self.names.block)
        content, over = self.at(src, work.rank), self.at(dst, work.rank)
        self.contents[work.rank, dst] = content
        if content == NOTHING:
            flight.bad += (Failure(line, int(Code.BLOCK_NOT_FOUND), "fetch"),)
        elif work.kind == Kind.STORE and content.by and content.key != work.keys[line].decode():
            if self.from_engine(src):
                return f"{self.names.block(dst)} holds {shown(content)}, which is not {work.keys[line].decode()}"
            self.broken.append(f"L9.bytes: t{work.token.serial} files {content} as {work.keys[line].decode()}")
        before = "" if over == NOTHING else f" (was {shown(over)})"
        return f"{self.names.block(dst)} holds {shown(content)}{before}"

    def _unfit(self, flight: Flight, line: int) -> str:
        """What a fetch finds wrong with an object, which is then removed; empty if it is as it should be."""
        work, block = flight.work, flight.work.src[line]
        found, key = self.at(block, work.rank), work.keys[line].decode()
        held = self.objects.slots.get((work.rank, block))
        if held == (work.space(line), work.keys[line]) and found.by and found.key == key:
            return ""
        code = Code.BLOCK_NOT_FOUND if held is None else Code.KEY_MISMATCH if found.by else Code.CRC_MISMATCH
        flight.bad += (Failure(line, int(code), "fetch"),)
        if held is not None:
            self.objects.vacate(work.rank, block)
            self.objects.spoilt.add((work.rank, block))
        self.contents[work.rank, block] = NOTHING
        has = "has no object" if held is None else f"has {shown(found)} and not {key}, and lets go of it"
        return f"{self.names.block(block)} {has}"

    def _check(self, flight: Flight, line: int) -> str:
        work = flight.work
        found, key = self.at(work.dst[line], work.rank), work.keys[line].decode()
        if found.key == key:
            return f"{self.names.block(work.dst[line])} holds {key}, as it should"
        code = Code.KEY_MISMATCH if found.by else Code.CRC_MISMATCH
        flight.bad += (Failure(line, int(code), "verify"),)
        return f"{self.names.block(work.dst[line])} holds {shown(found)} and not {key}"

    def say(self, word: str, outcome: str, failures: tuple[Failure, ...]) -> Report:
        """What a worker reports; all but a timeout prove that the copy is over."""
        token = self.names.find_token(word)
        flight = self.flights.get(token.serial)
        report = Report(token, outcome, failures)
        self.others.sayings.heard(report)
        if flight is None:
            return report
        if outcome == Outcome.DONE and not (flight.landed or flight.over):
            raise Mistake(f"{word} has not landed, so it can't be done; land it first")
        flight.over = flight.over or outcome != Outcome.TIMEOUT
        if outcome not in (Outcome.DONE, Outcome.TIMEOUT) and flight.work.kind == Kind.PERSIST:
            self.objects.undo(flight.work)  # who says that it failed leaves nothing
            self.others.undo(flight.work)
        flight.said = report
        return report

    def truth(self, word: str) -> tuple[str, tuple[Failure, ...]]:
        """Outcome and failures, as an honest worker reports a copy that has landed."""
        flight = self.flight(word)
        if not flight.landed:
            raise Mistake(f"{word} has not landed; land it first, or say what is reported of it")
        if flight.swept:
            return Outcome.CANCELLED, ()
        return (Outcome.BROKEN if flight.bad and flight.work.kind != Kind.SEEK else Outcome.DONE), flight.bad

    def fence(self, serial: int) -> None:
        """Every copy up to this one is over, whether it landed or not."""
        for number, flight in self.flights.items():
            if number <= serial and flight.work.kind != Kind.HOLD:
                flight.over = True

    def lose(self, rank: int) -> None:
        """Nothing of this rank's is left, neither bytes nor copies."""
        self.objects.outlive([rank], self.contents)
        self.contents = {place: content for place, content in self.contents.items() if place[0] != rank}
        for flight in self.flights.values():
            flight.over = flight.over or (flight.work.rank == rank and flight.work.kind != Kind.HOLD)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def land_step(self, number: int) -> list[str]:
        """The step's kernels write what they were sent for."""
        if number not in self.steps:
            raise Mistake(f"step {number} is not under way")
        step = self.steps[number]
        if step.landed:
            raise Mistake(f"step {number} has landed already")
        step.landed = True
        for block, tenant, content in step.writes:
            if self.tenant(block) != tenant and not self.from_engine(block):
                name = self.names.block(block)
                self.broken.append(f"L3.no_reuse: step {number} writes {name}, which was given to another")
            self.put(block, content)
        seen = [f"{self.names.block(block)} holds {content}" for block, _, content in step.writes]
        return seen or ["it writes nothing"]

    # -- what must be true ---------------------------------------------------------------------------------------------

    def look(self) -> list[str]:
        """The laws that were seen broken since the last look, and the blocks that are free under a copy now."""
        found, self.broken = self.broken, []
        states = self.names.books.tables["block"].STATES
        for number, flight in self.flights.items():
            for block in () if flight.over else flight.tenants:
                if states[self.names.books.block_state[block]] == "free" and not self.from_engine(block):
                    found.append(f"L3.no_reuse: {self.names.block(block)} is free and t{number} is not over")
        for number, step in self.steps.items():
            for block, _, _ in step.writes:
                if states[self.names.books.block_state[block]] == "free" and not self.from_engine(block):
                    found.append(f"L3.no_reuse: {self.names.block(block)} is free and step {number} is under way")
        old = (f"L9.swept: {self.names.key(*name)} of before the reset can be found" for name in self.objects.stale())
        return [*found, *self._misnamed(), *self._without_object(), *old, *self.others.sayings.look(self.names.books)]

    def _without_object(self) -> Iterator[str]:
        """What a key names in a pool that keeps objects has one on every rank, or one was found bad there just now."""
        books, objects = self.names.books, self.objects
        for slot, (_, space, key) in books.keys.names() if objects.blocks else ():
            block, state = books.keys.blocks[slot], books.keys.table.STATES[books.keys.state[slot]]
            if block in objects.blocks and state in ("ready", "cooling"):
                for rank in range(books.config.ranks):
                    if not objects.holds(rank, block, (space, key)) and (rank, block) not in objects.spoilt:
                        yield f"L9.bytes: {key.decode()} names {self.names.block(block)}, and has no object there"

    # -- a device of the engine's own ----------------------------------------------------------------------------------

    def from_engine(self, block: int) -> bool:
        """Does the engine allocate it? Then the ledger can't keep another from having it, and a copy may go wrong."""
        return block < self.names.books.engine.count

    def _misnamed(self) -> Iterator[str]:
        """But no key may name what came of it. (In other worlds it is seen when the copy lands.)"""
        books = self.names.books
        for slot, (_, space, key) in books.keys.names() if books.engine.count else ():
            block, state = books.keys.blocks[slot], books.keys.table.STATES[books.keys.state[slot]]
            if state in ("ready", "cooling") and not self.holds(block, space, key) and self.all_of(block) != "junk":
                yield f"L9.bytes: {key.decode()} names {self.names.block(block)}, which holds {self.all_of(block)}"
