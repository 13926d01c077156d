"""What the world is made of: bytes, copies in flight, requests of an engine, chance, and how large it all is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, NamedTuple, TypeVar

from kvstate.errors import Code
from kvstate.machines.config import GroupConfig, LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Effect, Failure, Report, Token, Work
from kvstate.machines.verdicts import Hit, Verdict

T = TypeVar("T")
Place = Any
"""Where a block stands in a prefix: a number; where there are groups, a group's number and a number."""


class Content(NamedTuple):
    """The bytes of a key, as they are between two resets."""

    space: str
    key: bytes
    epoch: int


class Poison(NamedTuple):
    """What a block holds that nobody has written in this life."""

    block: int
    life: int


class Junk(NamedTuple):
    """What it holds after an accident; the number tells one accident from the next."""

    accident: int


Bytes = Content | Poison | Junk


class Dice:
    """Where the world takes its choices from: chance, or numbers that were written down; it remembers what it gave.

    A number is taken modulo what there is to choose from, and 0 stands for all that are missing. So any list of numbers
    is a list of choices, whatever was taken out of it.
    """

    def __init__(self, source: Random | Iterable[int]) -> None:
        self._random = source if isinstance(source, Random) else None
        self._numbers = iter(() if isinstance(source, Random) else source)
        self.given: list[int] = []

    def below(self, count: int) -> int:
        """A number from 0 up, below `count`."""
        number = self._random.randrange(count) if self._random is not None else next(self._numbers, 0) % count
        self.given.append(number)
        return number

    def one(self, things: Sequence[T]) -> T:
        return things[self.below(len(things))]

    def chance(self, percent: int) -> bool:
        """True so often; where numbers are missing, False."""
        return self.below(100) >= 100 - percent

    def shuffled(self, things: Iterable[T]) -> list[T]:
        left, done = list(things), []
        while left:
            done.append(left.pop(self.below(len(left))))
        return done


@dataclass(eq=False)
class Flight:
    """One physical copy. It lands line by line, and its report may come any number of times, or never."""

    hidden: int
    """Its own number; tokens are the ledger's, and not to be trusted here."""
    work: Work
    tenants: dict[int, int]
    """Block: whose it was when the copy was sent."""
    names: tuple[tuple[bytes, BlockRef], ...] = ()
    """Of a fetch or a check: the key of each line and the life of the block that it was read from."""
    landed: int = 0
    """Lines whose bytes have moved."""
    bad: tuple[int, ...] = ()
    timed_out: bool = False
    dead: bool = False
    """What was to move it is gone; no further byte will."""

    @property
    def lines(self) -> int:
        """A seek has keys and no blocks, a hold has blocks and no keys."""
        return max(len(self.work.src), len(self.work.keys))

    @property
    def over(self) -> bool:
        return self.landed == self.lines


@dataclass(eq=False)
class Request:
    """What the engine knows of a lease."""

    lease: int
    space: str
    keys: list[bytes]
    epoch: int
    hit: Hit | None = None
    load: int | None = None
    table: dict[Place, BlockRef] = field(default_factory=dict)
    """Place in the prefix to block."""
    out: int = 0
    """The newest step that it is out on."""

    def key(self, place: Place) -> bytes:
        """The key of this place of the prefix."""
        return self.keys[place]

    def content(self, place: Place) -> Content:
        """What its block at this place of the prefix is to hold."""
        return Content(self.space, self.key(place), self.epoch)


class Tier(NamedTuple):
    """A pool below the device."""

    blocks: int
    durable: bool = False
    verify: bool = True
    copier: str = "cpu"
    shared: bool = False


@dataclass(frozen=True)
class Scope:
    """How large the world is and what may go wrong in it."""

    device: int = 5
    tiers: tuple[Tier, ...] = (Tier(4),)
    part_blocks: int = 1
    batch_blocks: int = 2
    ranks: int = 1
    attempts: int = 2
    keys: int = 6
    longest: int = 4
    requests: int = 4
    max_jobs: int = 3
    step_for: float = 6.0
    groups: tuple[GroupConfig, ...] = ()
    """Where there are any, `longest` counts stretches of as many tokens as are whole blocks in each."""

    def config(self, incarnation: int = 1) -> LedgerConfig:
        pools = [PoolConfig("device", self.device)]
        pools += [
            PoolConfig(f"tier{number}", tier.blocks, tier.durable, tier.verify, tier.copier, shared=tier.shared)
            for number, tier in enumerate(self.tiers, start=1)
        ]
        return LedgerConfig(
            pools=tuple(pools),
            groups=self.groups,
            ranks=self.ranks,
            attempts=self.attempts,
            part_blocks=self.part_blocks,
            batch_blocks=self.batch_blocks,
            max_jobs=self.max_jobs,
            grace=2.0,
            retry_delay=0.5,
            cool_for=3.0,
            pending_for=2.0,
            step_for=self.step_for,
            incarnation=incarnation,
        )

    @property
    def total(self) -> int:
        return self.device + sum(tier.blocks for tier in self.tiers)


SCOPES = {
    "one rank": Scope(),
    "roomy": Scope(device=8, tiers=(Tier(10),), batch_blocks=1, keys=8, longest=6),
    "two ranks": Scope(tiers=(Tier(6),), ranks=2),
    "tight": Scope(device=3, tiers=(Tier(3),), part_blocks=2, batch_blocks=1, max_jobs=1, longest=3, step_for=1.0),
    "durable": Scope(tiers=(Tier(4, durable=True),)),
    "unverified": Scope(tiers=(Tier(4, verify=False),), part_blocks=2),
    "tiers": Scope(
        device=6, tiers=(Tier(4), Tier(6, durable=True, copier="disk")), ranks=2, part_blocks=2, batch_blocks=3,
        attempts=3, keys=7,
    ),
    "wide": Scope(
        device=96, tiers=(Tier(128),), part_blocks=36, batch_blocks=40, keys=90, longest=88, requests=5, max_jobs=2,
    ),
}  # fmt: skip
"""In `wide` lists are longer than `bulk.WIDE`, so that they go by columns."""
SMALL = tuple(name for name in SCOPES if name != "wide")


class Base:
    """What the world knows and the ledger does not. The moves are in `requests` and `copies`, the laws in `laws`."""

    def __init__(self, source: int | Random | Iterable[int], scope: Scope | None = None, **ledger: object) -> None:
        self.dice = Dice(Random(source) if isinstance(source, int) else source)
        self.scope = scope or Scope()
        self.now = 0.0
        self.bytes: list[list[Bytes]] = [
            [Poison(block, 0) for block in range(self.scope.total)] for _ in range(self.scope.ranks)
        ]
        """What each rank holds in each block."""
        self.tenant = [0] * self.scope.total
        """How often each block was handed out."""
        self.hidden = 0
        self.accidents = 0
        self.past: list[Token] = []
        """Of copies that are over, those of an earlier process as well."""
        self.log: list[str] = []
        """The moves, each with the numbers that it took."""
        self.fired: Counter[str] = Counter()
        """Rows that ledgers of earlier processes have fired."""
        self._ledger_options = ledger
        self.begin(1)

    def begin(self, incarnation: int) -> None:
        """A process starts: a new ledger, and nothing under way."""
        self.flights: list[Flight] = []
        self.waiting: list[Flight] = []
        """Copies whose report will never come. Their bytes may still land."""
        self.requests: list[Request] = []
        self.preempted: list[Request] = []
        self.steps: list[int] = []
        self.step = 0
        self.writes: dict[int, list[tuple[int, int, Content]]] = {}
        """What a step under way will write: (block, tenant, bytes)."""
        self.epoch = 0
        self.loads: dict[int, float] = {}
        """Every load that was started, and its deadline."""
        self.told: set[int] = set()
        self.settled: set[int] = set()
        self.jobs: set[int] = set()
        self.newest_sent = 0
        self.refuse_next = False
        self.shutting = self.closed = False
        self.news: list[Effect] = []
        self.ledger = self.make_ledger(self.scope.config(incarnation))
        hear, take = self.ledger.report, self.ledger.take_effects

        def report(said: Report) -> None:
            self.note(said)
            hear(said)

        def take_effects() -> list[Effect]:
            effects = take()
            self.took(effects)
            return effects

        self.ledger.report, self.ledger.take_effects = report, take_effects  # type: ignore[method-assign, assignment]
        for port in self.ledger.core.ports.ports.values():
            port.sink = partial(self.rows_of, self.ledger)

    def make_ledger(self, config: LedgerConfig) -> Ledger:
        return Ledger(config, **self._ledger_options)  # type: ignore[arg-type]

    def took(self, effects: list[Effect]) -> None:
        """These are on their way down."""
        self.news += effects

    # -- what a runtime does in its own way ----------------------------------------------------------------------------

    def turn(self) -> list[Verdict]:
        """One turn of the loop: effects go out (to `news`), verdicts come back."""
        self.ledger.take_effects()
        return self.ledger.take_verdicts()

    def send(self, flight: Flight, report: Report) -> None:
        """A worker's report on this copy is on its way."""
        self.ledger.report(report)

    def post(self, report: Report) -> None:
        """A report that no copy stands behind."""
        self.ledger.report(report)

    def close(self) -> None:
        """The world is not used any more."""

    def tell_time(self) -> None:
        self.ledger.tick(self.now)

    def tell_dispatched(self, step: int, leases: list[int]) -> None:
        assert self.ledger.step_dispatched(step, leases)

    def tell_retired(self, step: int) -> None:
        assert self.ledger.step_retired(step), f"L3.no_reuse: step {step} was over in the books before it ended"

    def tell_fenced(self, rank: int, copier: str, serial: int) -> None:
        self.ledger.fenced(rank, copier, serial)

    def write(self, rank: int, block: int, content: Bytes) -> None:
        """The engine, or an accident, writes a block."""
        self.bytes[rank][block] = content

    def copy(self, flight: Flight, line: int) -> None:
        """A copy writes a block."""
        held = self.bytes[flight.work.rank]
        held[flight.work.dst[line]] = held[flight.work.src[line]]

    def found(self, rank: int, block: int) -> Bytes:
        return self.bytes[rank][block]

    # -- what the laws look at (see there) -----------------------------------------------------------------------------

    def note(self, said: Report) -> None:
        """The ledger is about to hear this."""
        raise NotImplementedError

    def rows_of(self, ledger: Ledger, machine: str, slots: Sequence[int], row: str, before: int, after: int) -> None:
        """A row has fired on these; of a ledger that has been replaced nothing is looked at."""
        for slot in slots if ledger is self.ledger else ():
            self.row(machine, ledger.books.uid(machine, slot), row, before, after)

    def row(self, machine: str, uid: int, row: str, before: int, after: int) -> None:
        """A row has fired."""
        raise NotImplementedError

    def check(self) -> None:
        raise NotImplementedError

    # -- choices -------------------------------------------------------------------------------------------------------

    def pick(self, things: Sequence[T]) -> T | None:
        """Any of them; None where there is none."""
        return self.dice.one(things) if things else None


TIMED_OUT = (Failure(-1, int(Code.PEER_LOST), "fetch"),)
