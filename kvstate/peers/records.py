"""What a party has on record: a record for each slot of a table, with the links that rows don't know of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from kvstate.errors.codes import Code
from kvstate.machines.messages import Report, Token
from kvstate.machines.table import Table
from kvstate.peers.words import Action, Goods, Handoff, Hello, Letter, Out, Source, Terms, Word

NOBODY: Final = 0
"""The life of a peer that was greeted and has not answered."""
NO_HANDOFF: Final = Handoff(0, 0)
NO_WORD: Final = Word("", 0, 0)
"""`NO_HANDOFF` and this: what stands where none is."""


@dataclass(slots=True, eq=False)
class Record:
    """One record of a machine: its `slot` in the table, and the timers that wait for it."""

    machine: str
    slot: int
    timers: dict[int, int] = field(default_factory=dict)
    """By event: the number of the timer that counts. An older one rings for nobody."""


@dataclass(slots=True, eq=False)
class Link(Record):
    """A life of a peer."""

    peer: str = ""
    life: int = NOBODY
    challenge: int = 0
    """Ours, which an answer must echo."""
    theirs: int = 0
    """The last that it told us, which our hellos echo."""
    hello: Hello | None = None
    """The last that fitted."""
    code: Code = Code.PEER_LOST
    """Why it is gone or strange."""
    sentence: str = ""
    """In what it differs."""


@dataclass(slots=True, eq=False)
class Lend(Record):
    """A handoff of blocks of ours, over a `link`, by its `number`."""

    link: Link = None  # type: ignore[assignment]  # given by whoever makes one; a default is asked for by the base class
    number: int = 0
    goods: Goods | None = None
    """None where the handoff is long over and only answered for."""
    hold: Token | None = None
    code: int = Code.LEASE_EXPIRED
    """Why it is over."""
    granted: int = 0
    """The number of the last extension."""


@dataclass(slots=True, eq=False)
class Borrow(Record):
    """A handoff of blocks of a peer, over a `link`; `code` is why it is over, `asked_at` when more time was asked."""

    link: Link = None  # type: ignore[assignment]
    handoff: Handoff = NO_HANDOFF
    goods: Goods | None = None
    """None until it is announced."""
    lease: float = 0.0
    lines: tuple[int, ...] | None = None
    """Those that were announced; None until the caller has said."""
    vanished: bool = False
    """Have its names been taken back?"""
    code: int = Code.CANCELLED
    question: int = 0
    """The number of the last extension that was asked for, and when that was first."""
    asked_at: float = 0.0


@dataclass(slots=True, eq=False)
class Check(Record):
    """A report that waits for the word of producers; `sources` is what each line was copied from."""

    report: Report = None  # type: ignore[assignment]
    sources: tuple[Source | None, ...] = ()
    waiting: dict[int, Handoff] = field(default_factory=dict)
    """By the number of the question: the handoff that it is about. An answer takes it out."""
    denied: Handoff | None = None
    """The one whose producer said no."""


@dataclass(slots=True)
class Past:
    """Which handoffs of a producer are over here: those below `floor`, and these."""

    floor: int = 1
    over: set[int] = field(default_factory=set)

    def has(self, number: int) -> bool:
        """Is that one over?"""
        return number < self.floor or number in self.over

    def add(self, number: int) -> None:
        """That one is over."""
        if number >= self.floor:
            self.over.add(number)

    def raise_to(self, floor: int) -> None:
        """Everything below is over, so it need not be remembered one by one."""
        if floor > self.floor:
            self.floor = floor
            self.over = {number for number in self.over if number >= floor}


@dataclass(slots=True)
class Books:
    """All that a party knows: its `terms`, the time (`now`), its `counts`, and its records. Rows change the tables;
    acts and inputs the rest."""

    terms: Terms
    tables: dict[str, Table]
    now: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)
    names: set[str] = field(default_factory=set)
    """The peers that were greeted; nobody else is listened to."""
    links: list[Link] = field(default_factory=list)
    """In the order of their making."""
    lends: dict[int, Lend] = field(default_factory=dict)
    """By number, in the order of their making."""
    borrows: dict[Handoff, Borrow] = field(default_factory=dict)
    """Those that are announced, in the order in which they were heard of."""
    checks: dict[Token, Check] = field(default_factory=dict)
    """Those whose report is kept back."""
    expected: dict[Token, tuple[Source | None, ...]] = field(default_factory=dict)
    """Parts that copy from peers and have not reported."""
    past: dict[int, Past] = field(default_factory=dict)
    """By life of a producer."""
    free: dict[str, list[int]] = field(default_factory=dict)
    """Slots of each table that are used again."""
    touched: dict[int, Record] = field(default_factory=dict)
    """Records that this input has fired a row of, by identity."""
    minted: int = 0
    """The last number that was given to a handoff."""
    asked: int = 0
    """The last number that was given to a question or a challenge."""
    rung: int = 0
    """The last number that was given to a timer."""
    timers: list[tuple[float, int, int, Record]] = field(default_factory=list)
    """A heap: when, number, event, whose."""
    heard: Letter | None = None
    """The letter that is being answered."""
    word: Word = NO_WORD
    """What it says, if it is about a handoff."""
    out: list[Out] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    """This and `out` are what was said and not yet taken."""

    def slot(self, machine: str, **given: int) -> int:
        """A newborn record of that machine."""
        if self.free.get(machine):
            slot = self.free[machine].pop()
            self.tables[machine].renew(slot, **given)
            return slot
        return self.tables[machine].add(**given)

    def question(self) -> int:
        """A number that was never used before, in this life."""
        self.asked += 1
        return self.asked

    def arm(self, record: Record, event: int, due: float) -> None:
        """Ring for that event, and no longer at the time that was said before for it."""
        self.rung += 1
        record.timers[event] = self.rung
        heappush(self.timers, (due, self.rung, event, record))

    def ring(self) -> tuple[Record, int] | None:
        """The next timer that is due, and its event."""
        while self.timers and self.timers[0][0] <= self.now:
            _, number, event, record = heappop(self.timers)
            if record.timers.get(event) == number:
                del record.timers[event]
                return record, event
        return None

    def due(self) -> float | None:
        """When the next timer rings; None if none waits."""
        while self.timers:
            due, number, event, record = self.timers[0]
            if record.timers.get(event) == number:
                return due
            heappop(self.timers)
        return None
