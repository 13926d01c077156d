"""What the ledger writes down beside the machines: who belongs to whom.

The tables hold states and counters. These records hold *links* and nothing that decides: no record here has a state, a
flag or a counter of its own (a lease's `struck` only says when a list is worth tidying). `slot` is a record's place in
its table. A part carries copies of the lines it works on, so that it can still be settled when its owner is long over
(law L4: a late report settles the part and the blocks, never the batch).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kvstate.errors import Code, KVError
from kvstate.machines.messages import NO_BLOCKS, BlockRefs, Kind, Token
from kvstate.machines.table import Table


@dataclass(slots=True, eq=False)
class Part:
    """One piece of physical work under one token."""

    slot: int
    token: Token
    kind: Kind
    """What is done: a store, a fetch, a step, ..."""
    rank: int
    copier: str
    attempt: int
    owner: tuple[str, int] | None
    """Machine and slot of the job or batch; `None` for a step or a hold, and once the owner is over."""
    reads: array[int]
    """The blocks that it touches and leaves as they are; a step adds what it adopts."""
    writes: array[int]
    """The blocks that it fills."""
    names: BlockRefs
    """Line by line: the block that the line's key named when the part began. A key is found again only through it."""
    keys: tuple[bytes, ...]
    since: float
    """When it was made, in seconds."""
    bad: tuple[int, ...] = ()
    """The lines that its report named; empty means all of them."""


@dataclass(slots=True, eq=False)
class Seek:
    """A question to a shared pool: which of these keys are there? Its `id` says which came first."""

    id: int
    pool: int
    space: str
    """The key space of all of them."""
    keys: tuple[bytes, ...]
    """Each once."""
    waits: dict[int, int] = field(default_factory=dict)
    """The slots of the parts that have yet to answer; for each the place of its first key."""
    missing: set[int] = field(default_factory=set)
    """The places of the keys that some rank does not have, or said nothing of."""


@dataclass(slots=True, eq=False)
class Job:
    """An offload: copy these blocks to a lower tier and publish them there. Its `id` is what its owner knows it by."""

    slot: int
    id: int
    lease: int
    pool: int
    srcs: array[int]
    """The blocks that the job holds to read from; empty once it has let go of them."""
    dsts: array[int]
    """The blocks of the lower tier that the job owns; empty once it has released them."""
    refs: BlockRefs
    """The sources with their generations; what the keys named when the job was accepted."""
    keys: tuple[bytes, ...]
    key_slots: array[int]
    """The records of the keys in the lower pool, line by line."""
    after_step: int
    """The last step that was under way when it was accepted; its stores begin after that. 0 if there was none."""
    deadline: float
    since: float
    """When it was accepted, in seconds."""
    spaces: tuple[str, ...]
    """Line by line the key space; one word where that is one for all."""
    parts: list[int] = field(default_factory=list)
    failures: list[KVError] = field(default_factory=list)
    """What its parts reported, over all attempts, for the verdict."""


@dataclass(slots=True, eq=False)
class Batch:
    """Lines of a load that are published as a whole or not at all. Its `id` says which came first."""

    slot: int
    id: int
    load: int
    index: int
    """Its place among the batches of the load."""
    pool: int
    srcs: array[int]
    """The pinned blocks of the lower tier; empty once they are unpinned."""
    dsts: array[int]
    """The device blocks of the lease; empty once the lease has left them."""
    names: BlockRefs
    """The sources with their generations, line by line: what the keys named when the load began."""
    keys: tuple[bytes, ...]
    awaited: tuple[bytes, ...]
    """The keys for which a lookup is told to wait; empty once the batch can bring them no more."""
    epoch: int
    since: float
    """When the load began, in seconds."""
    spaces: tuple[str, ...] = ()
    """Line by line the key space, where there are groups; else that of all is the load's namespace."""
    parts: list[int] = field(default_factory=list)
    failures: list[KVError] = field(default_factory=list)
    """What its parts reported, over all attempts, for the verdict."""
    left: array[int] = field(default_factory=lambda: NO_BLOCKS)
    """The device blocks that the lease has left to it, for the verdict."""


@dataclass(slots=True, eq=False)
class Load:
    """An ordered list of batches; it owns the deadline and the verdict. Its `id` is what its owner knows it by."""

    slot: int
    id: int
    lease: int
    namespace: str
    positions: array[int]
    """The place in the prefix of each line, over all batches."""
    total: int
    """How many blocks the prefix has, loaded or not."""
    tokens: int
    """The length of the hit."""
    deadline: float
    since: float
    """When it began, in seconds."""
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
    """One life of one request, by its `id`. A request that is admitted again gets another lease."""

    id: int
    namespace: str
    epoch: int
    since: float
    """When it was opened, in seconds."""
    shared: dict[int, None] = field(default_factory=dict)
    """Device blocks that it came to own by a hit, in the order in which they came."""
    own: array[int] = field(default_factory=lambda: array("q"))
    """Device blocks that were allocated for it, in that order. Those that it gave back stay listed for a while:
    a block is its own if `Books.holder` says so, in the life that it got it in."""
    lives: array[int] = field(default_factory=lambda: array("q"))
    """The generations of `own`, as they were then."""
    struck: int = 0
    """How many of `own` it has given back: when these are most of them, the list is tidied."""
    pins: dict[int, int] = field(default_factory=dict)
    """Blocks of lower tiers that a lookup pinned, and the slot of the batch that loads from them (-1: none yet)."""
    loads: list[int] = field(default_factory=list)
    """Slots of the loads whose verdict it waits for."""
    steps: list[int] = field(default_factory=list)
    """Slots of the step parts that this lease is out on."""


class Seeks:
    """What was asked of shared pools: questions that are not answered, and answers that nobody has acted on yet."""

    __slots__ = ("answered", "by_part", "live", "sought")

    def __init__(self) -> None:
        self.live: dict[int, Seek] = {}
        """By id, those that wait for a part."""
        self.by_part: dict[int, Seek] = {}
        """The same, by the slot of each part that has yet to answer."""
        self.sought: dict[str, dict[bytes, int]] = {}
        """Keys for which a lookup is told to wait, by key space: the id of the seek."""
        self.answered: list[Seek] = []
        """Those that are over; what they found is named at the end of the input."""

    def enter(self, seek: Seek) -> None:
        """Put a new one on record. None of its keys is being sought."""
        self.live[seek.id] = seek
        self.sought.setdefault(seek.space, {}).update(dict.fromkeys(seek.keys, seek.id))

    def unlist(self, seek: Seek, keys: Sequence[bytes]) -> list[bytes]:
        """Nobody is told to wait for these keys of it any more; returns those for which somebody was until now."""
        sought = self.sought.get(seek.space, {})
        waited = [key for key in keys if sought.get(key) == seek.id]
        for key in waited:
            del sought[key]
        if not sought:
            self.sought.pop(seek.space, None)
        return waited

    def over(self, number: int) -> None:
        """The last of its parts has answered."""
        self.answered.append(self.live.pop(number))

    def clear(self) -> None:
        """Whatever is answered from here on, nobody asked for."""
        self.live.clear()
        self.by_part.clear()
        self.sought.clear()


R = TypeVar("R")


class Roster(Generic[R]):
    """The records of one machine that come and go: a table, and the record of each slot that is in use."""

    __slots__ = ("free", "items", "table", "uids", "used")

    def __init__(self, table: Table) -> None:
        self.table = table
        self.items: list[R | None] = []
        self.free: list[int] = []
        self.uids: list[int] = []
        """Tells the record in a slot from those that were there before it; 0 while there is none."""
        self.used = 0
        """How many uids have been given out."""

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
        """Put the record at the slot that `slot` gave."""
        self.items[slot] = record

    def __getitem__(self, slot: int) -> R:
        record = self.items[slot]
        assert record is not None, f"slot {slot} holds no record"
        return record

    def drop(self, slot: int) -> None:
        """Forget the record; its slot is used again."""
        self.items[slot] = None
        self.uids[slot] = 0
        self.free.append(slot)

    def live(self) -> list[R]:
        """The records of all slots that are in use, in the order of the slots."""
        return [record for record in self.items if record is not None]
