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
from typing import NamedTuple

from kvstate.errors import Code
from kvstate.machines.messages import Failure, Kind, Outcome, Report, Work
from kvstate.testing.names import COMMON, Mistake, Names


class Bytes(NamedTuple):
    """The contents of a block: the bytes of a key, as somebody computed them."""

    space: str
    """The namespace of the key."""
    key: str
    by: str
    """The life of the request whose step computed them; empty for bytes that are no key's."""

    def __str__(self) -> str:
        return f"{self.key}{'' if self.space == COMMON else f' of {self.space}'} by {self.by}"


NOTHING = Bytes("", "nothing", "")
"""What a block holds that nobody has written."""
JUNK = Bytes("", "junk", "")
"""What it holds after an accident."""


def shown(content: Bytes) -> str:
    """Bytes that belong to no key have nobody who computed them."""
    return str(content) if content.by else content.key


@dataclass(eq=False)
class Flight:
    """One copy, from the moment it was sent until it is proved over."""

    work: Work
    """What was sent down for it."""
    tenants: dict[int, int]
    """Block: its tenant at that moment."""
    landed: bool = False
    over: bool = False
    bad: tuple[Failure, ...] = ()
    """What an honest worker has to say of it."""
    said: Report | None = None
    """The last report that was made of it."""


@dataclass(eq=False)
class Step:
    """A compute step: what it will write, and where."""

    serial: int
    writes: tuple[tuple[int, int, Bytes], ...]
    """Block, its tenant when the step was dispatched, bytes."""
    landed: bool = False


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
        if work.kind == Kind.PERSIST:
            return [f"{self.names.block(block)} is durable{where}" for block in work.src]
        lines = range(len(work.src))
        if work.kind == Kind.VERIFY:
            return [self._check(flight, line) + where for line in lines]
        return [self._copy(flight, line) + where for line in lines]

    def _same_tenants(self, word: str, flight: Flight) -> None:
        for block, tenant in flight.tenants.items():
            if self.tenant(block) != tenant and not self.from_engine(block):
                does = "writes" if block in flight.work.dst and flight.work.kind != Kind.VERIFY else "reads"
                self.broken.append(f"L3.no_reuse: {word} {does} {self.names.block(block)}, which was given to another")

    def _copy(self, flight: Flight, line: int) -> str:
        work = flight.work
        src, dst = work.src[line], work.dst[line]
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
        if flight is None:
            return report
        if outcome == Outcome.DONE and not (flight.landed or flight.over):
            raise Mistake(f"{word} has not landed, so it can't be done; land it first")
        flight.over = flight.over or outcome != Outcome.TIMEOUT
        flight.said = report
        return report

    def truth(self, word: str) -> tuple[str, tuple[Failure, ...]]:
        """Outcome and failures, as an honest worker reports a copy that has landed."""
        flight = self.flight(word)
        if not flight.landed:
            raise Mistake(f"{word} has not landed; land it first, or say what is reported of it")
        return (Outcome.BROKEN if flight.bad else Outcome.DONE), flight.bad

    def fence(self, serial: int) -> None:
        """Every copy up to this one is over, whether it landed or not."""
        for number, flight in self.flights.items():
            if number <= serial and flight.work.kind != Kind.HOLD:
                flight.over = True

    def lose(self, rank: int) -> None:
        """Nothing of this rank's is left, neither bytes nor copies."""
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
        return found + list(self._misnamed())

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
