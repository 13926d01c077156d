"""What the world is made of: copies in flight, the requests of an engine, how large it all is, and the ledger in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from kvstate.errors import Code
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Failure, Token, Work
from kvstate.machines.verdicts import Hit

T = TypeVar("T")

POISON = "poison"
TIMED_OUT = (Failure(-1, int(Code.PEER_LOST), "fetch"),)


@dataclass(eq=False)
class Flight:
    """One physical copy. It may land once, and its report may come any number of times."""

    hidden: int
    work: Work
    lives: dict[int, int]
    landed: bool = False
    bad: tuple[int, ...] = ()


@dataclass(eq=False)
class Request:
    """What the engine knows of a lease."""

    lease: int
    keys: list[bytes]
    hit: Hit | None = None
    load: int | None = None
    table: dict[int, BlockRef] = field(default_factory=dict)
    """Place in the prefix to block."""
    out: int = 0
    """The newest step that it is out on."""


@dataclass
class Scope:
    """How large the world is and what may go wrong in it."""

    device: int = 5
    host: int = 4
    part_blocks: int = 1
    batch_blocks: int = 2
    ranks: int = 1
    keys: int = 6
    longest: int = 4
    max_jobs: int = 3
    durable: bool = False
    verify: bool = True
    lose: bool = True


SCOPES = {
    "one rank": Scope(),
    "wide": Scope(device=6, host=8, batch_blocks=2, part_blocks=1, keys=7),
    "two ranks": Scope(ranks=2, part_blocks=2, host=6),
    "tight": Scope(device=3, host=3, part_blocks=2, batch_blocks=1, max_jobs=1, longest=3),
    "durable": Scope(durable=True),
    "unverified": Scope(verify=False, part_blocks=2),
}


class Base:
    """What the world knows and the ledger does not; the moves are in the classes above, the laws in `world`."""

    def __init__(self, seed: int | Random, scope: Scope | None = None, **ledger: object) -> None:
        self.random = Random(seed) if isinstance(seed, int) else seed
        self.scope = scope = scope or Scope()
        config = LedgerConfig(
            pools=(
                PoolConfig("device", scope.device),
                PoolConfig("host", scope.host, durable=scope.durable, verify=scope.verify),
            ),
            ranks=scope.ranks,
            part_blocks=scope.part_blocks,
            batch_blocks=scope.batch_blocks,
            max_jobs=scope.max_jobs,
            grace=2.0,
            retry_delay=0.5,
            cool_for=3.0,
            pending_for=2.0,
            step_for=6.0,
        )
        self.ledger = Ledger(config, **ledger)  # type: ignore[arg-type]
        self.now = 0.0
        self.bytes: dict[tuple[int, int], object] = {}
        """What each rank holds in each block: (namespace, key), or poison."""
        self.flights: list[Flight] = []
        self.past: list[Token] = []
        self.requests: list[Request] = []
        self.steps: list[int] = []
        self.step = 0
        self.waiting: list[Flight] = []
        self.writes: dict[int, list[tuple[int, int, object]]] = {}
        """What a step under way will write: (block, generation, bytes)."""
        self.loads: set[int] = set()
        self.told: set[int] = set()
        self.settled: set[int] = set()
        self.jobs: set[int] = set()
        self.condemned: set[tuple[bytes, BlockRef]] = set()
        self.log: list[str] = []

    def pick(self, things: list[T]) -> T | None:
        """Any of them; None where there is none."""
        return self.random.choice(things) if things else None
