"""What the ledger writes down beside the machines: who belongs to whom.

The tables hold states and counters. These records hold *links* and nothing that decides: no record here has a state, a
flag or a count of its own. A part carries copies of the lines it works on, so that it can still be settled when its
owner is long over (law L4: a late report settles the part and the blocks, never the batch).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kvstate.errors import Code, KVError
from kvstate.machines.messages import BlockRef, Kind, Token
from kvstate.machines.table import Table


@dataclass(slots=True, eq=False)
class Part:
    """One piece of physical work under one token."""

    slot: int
    token: Token
    kind: Kind
    rank: int
    copier: str
    attempt: int
    owner: tuple[str, int] | None
    """Machine and slot of the job or batch; `None` for a step or a hold, and once the owner is over."""
    reads: list[int]
    writes: list[int]
    names: tuple[BlockRef, ...]
    """Line by line: the block that the line's key named when the part began. A key is found again only through it."""
    keys: tuple[bytes, ...]
    since: float
    bad: tuple[int, ...] = ()
    """The lines that its report named; empty means all of them."""


@dataclass(slots=True, eq=False)
class Job:
    """An offload: copy these blocks to a lower tier and publish them there."""

    slot: int
    id: int
    lease: int
    pool: int
    srcs: tuple[int, ...]
    dsts: tuple[int, ...]
    """The blocks of the lower tier that the job owns; empty once it has released them."""
    refs: tuple[BlockRef, ...]
    """The sources with their generations; what the keys named when the job was accepted."""
    keys: tuple[bytes, ...]
    key_slots: tuple[int, ...]
    after_step: int
    deadline: float
    since: float
    parts: list[int] = field(default_factory=list)
    failures: list[KVError] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Batch:
    """A part of a load that is published as a whole or not at all."""

    slot: int
    id: int
    load: int
    index: int
    pool: int
    srcs: tuple[int, ...]
    """The pinned blocks of the lower tier; empty once they are unpinned."""
    dsts: tuple[int, ...]
    """The device blocks of the lease; empty once the lease has left them."""
    names: tuple[BlockRef, ...]
    keys: tuple[bytes, ...]
    epoch: int
    since: float
    parts: list[int] = field(default_factory=list)
    failures: list[KVError] = field(default_factory=list)
    left: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class Load:
    """An ordered list of batches; it owns the deadline and the verdict."""

    slot: int
    id: int
    lease: int
    namespace: str
    positions: tuple[int, ...]
    """The place in the prefix of each line, over all batches."""
    total: int
    """How many blocks the prefix has, loaded or not."""
    deadline: float
    since: float
    batches: list[int] = field(default_factory=list)
    live: list[int] = field(default_factory=list)
    """The batches that are not over, in order."""
    turn: int = 0
    """The batch that may commit next: nothing is committed behind a hole."""
    hole: int | None = None
    """The lowest batch that fell."""
    ended_by: Code = Code.LOAD_TIMEOUT
    """The code of what nobody reported on, when the wait is over: the deadline came, or the load was called off."""


@dataclass(slots=True, eq=False)
class Lease:
    """One life of one request. A request that is admitted again gets another lease."""

    id: int
    namespace: str
    epoch: int
    since: float
    owned: dict[int, int] = field(default_factory=dict)
    """Device blocks by generation, in the order in which they came."""
    pins: dict[int, int] = field(default_factory=dict)
    """Blocks of lower tiers that a lookup pinned, and the slot of the batch that loads from them (-1: none yet)."""
    loads: list[int] = field(default_factory=list)
    """Slots of the loads whose verdict it waits for."""
    steps: list[int] = field(default_factory=list)
    """Slots of the step parts that this lease is out on."""


R = TypeVar("R")


class Roster(Generic[R]):
    """The records of one machine that come and go: a table, and the record of each slot that is in use."""

    __slots__ = ("free", "items", "table", "uids", "used")

    def __init__(self, table: Table) -> None:
        self.table = table
        self.items: list[R | None] = []
        self.free: list[int] = []
        self.uids: list[int] = []
        self.used = 0

    def slot(self, **given: int) -> int:
        """A slot in the initial state; the caller puts its record there with `put`."""
        self.used += 1
        if self.free:
            slot = self.free.pop()
            self.table.renew(slot, **given)
            self.uids[slot] = self.used
            return slot
        self.items.append(None)
        self.uids.append(self.used)
        return self.table.add(**given)

    def put(self, slot: int, record: R) -> None:
        self.items[slot] = record

    def __getitem__(self, slot: int) -> R:
        record = self.items[slot]
        assert record is not None, f"slot {slot} holds no record"
        return record

    def drop(self, slot: int) -> None:
        self.items[slot] = None
        self.uids[slot] = 0
        self.free.append(slot)

    def live(self) -> list[R]:
        return [record for record in self.items if record is not None]
