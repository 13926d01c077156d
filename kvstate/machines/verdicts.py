"""What the ledger tells the scheduler, and what it answers to a request. Values all; none has a method that acts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from kvstate.errors import KVError
from kvstate.machines.messages import BlockRef, BlockRefs, Token


class Ending(StrEnum):
    """How a load or a job ended, as its owner is told."""

    PROCEED = "proceed"
    """Every block of the load is there."""
    RECOMPUTE = "recompute"
    """The first `tokens` tokens are there; compute the rest."""
    ABORTED = "aborted"
    """The lease closed while the load ran."""
    COMMITTED = "committed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class GroupVerdict(NamedTuple):
    """What a load leaves of one KV group: its blocks from place `first` up to `blocks` hold what `tokens` needs."""

    first: int
    """What lies before this place is not needed: the window has passed it."""
    blocks: int
    """`tokens` in blocks of this group."""
    kept: tuple[int, ...]
    """Of the group's destination blocks those that the lease still owns, in token order."""
    left: tuple[int, ...]
    """Those that it has left."""
    spare: tuple[int, ...]
    """Of the kept ones those that were loaded and are of no use to this length. They are sealed and named, so they are
    not to be written: release them, or look up again, which may find them part of another length. In a `foreign` pool
    they are the engine's, who may give them the names that the ledger has not."""


class LoadVerdict(NamedTuple):
    """Exactly one for each load (law L1). `tokens` counts from the start of the prefix, not of the load."""

    load: int
    lease: int
    ending: Ending
    """Proceed, recompute or aborted."""
    tokens: int
    blocks: int
    """`tokens` in blocks; where there are groups, of the first one."""
    kept: tuple[int, ...]
    """Destination blocks that the lease still owns: loaded ones, and open ones whose load is proved over."""
    left: tuple[int, ...]
    """Destination blocks that the lease has left, since a copy may still write them."""
    errors: tuple[KVError, ...]
    """Why, if it was to recompute: every failure, batch by batch, or what ended the wait; else empty."""
    groups: tuple[GroupVerdict, ...] = ()
    """By group, where the ledger has any; `tokens` is valid for all of them."""


class JobVerdict(NamedTuple):
    """Exactly one for each offload job, when all its parts have stopped or were given up."""

    job: int
    lease: int
    ending: Ending
    """Committed, failed or cancelled."""
    keys: tuple[bytes, ...]
    """What is stored, if it was committed."""
    errors: tuple[KVError, ...]
    """Why, if it failed; else empty."""


class Settlement(NamedTuple):
    """Every part of the load has stopped, or was given up with its memory held."""

    load: int


class Fatal(NamedTuple):
    """A broken invariant. The ledger is poisoned: it frees nothing and takes no further request."""

    law: str
    """What was refused (`block.write_end`: machine and event), `device`, or `INTERNAL` for a fault in the code."""
    sentence: str
    """What was found, with the values."""
    dump: tuple[str, ...] = ()
    """What was under way, a sentence each: leases, jobs, loads, parts, and what each pool held."""


Verdict = LoadVerdict | JobVerdict | Settlement | Fatal
"""What `take_verdicts` gives."""


class Refusal(NamedTuple):
    """A request that was not granted and changed nothing. It is false in a condition."""

    reason: str
    """One sentence."""

    def __bool__(self) -> bool:
        return False


class Short(NamedTuple):
    """Not enough blocks: what could be had at once, and what will come without anybody's doing."""

    wanted: int
    """How many were asked for; this and the rest are counts of blocks of that pool."""
    free: int
    """Free, or cached and evictable."""
    draining: int
    """Draining, or cached and still read: theirs to have as soon as a copy or a step has stopped."""
    quarantined: int
    """Quarantined, or cached and read only by what was given up: to be had by proof alone."""

    def __bool__(self) -> bool:
        return False


class Span(NamedTuple):
    """Where the blocks of one KV group stand in a hit."""

    first: int
    """The place of its first block; what lies before is not needed, and the engine sets its null block there."""
    lines: tuple[int, ...]
    """From `first` on, place by place: which of the hit's blocks it is."""


@dataclass(frozen=True, slots=True)
class Hit:
    """The longest prefix of `keys` that is cached, pinned for the lease. Falsy when it is empty or pending."""

    lease: int
    blocks: Sequence[BlockRef]
    """Position by position, in whatever tier the bytes are; of several groups in token order, see `Span`."""
    keys: tuple[bytes, ...]
    below: tuple[int, ...]
    """The positions whose block is not on the device and has to be loaded."""
    tokens: int
    pinned: tuple[int, ...] = ()
    """The blocks that this very lookup pinned; others the lease had before. What `unpin` gives back."""
    pending: bool = False
    """Some of it is being loaded by another; ask again (nothing is pinned)."""
    groups: tuple[Span, ...] = ()
    """By group, where the ledger has any: exactly what `tokens` needs of each."""

    def __bool__(self) -> bool:
        return bool(self.blocks) and not self.pending


class Grant(NamedTuple):
    """Blocks that the lease owns now, open for the engine to write."""

    blocks: BlockRefs

    def __bool__(self) -> bool:
        return True


class Given(NamedTuple):
    """What the engine has given to a request has begun another life; `refs` are the references to it, in its order."""

    refs: BlockRefs
    writing: tuple[int, ...]
    """Of these, the blocks that a copy of an earlier life may still write. What is computed there is not safe before
    that copy is over, and in this life it is never stored."""

    def __bool__(self) -> bool:
        return True


class Freed(NamedTuple):
    """What the engine has taken back."""

    held: BlockRefs
    """Of the given references those that it is asked to keep, each once: a copy still touches them. `Unhold` comes."""

    def __bool__(self) -> bool:
        return True


class Dropped(NamedTuple):
    """A line that an offload did not take: the block `ref`, and the `reason` in a few words."""

    ref: BlockRef
    reason: str


class Recovered(NamedTuple):
    """What `Ledger.recover` has taken in."""

    refs: BlockRefs
    """The blocks that hold it, in their present lives."""
    lines: tuple[int, ...]
    """Which of the names that were given: one for each block. The others found no room, or are on record."""


class Announced(NamedTuple):
    """What `Ledger.announce` has named in a shared pool."""

    refs: BlockRefs
    """The blocks that stand for it, in their present lives."""
    lines: tuple[int, ...]
    """Which of the names that were given: one for each block. The others are on record, or found no room."""

    def __bool__(self) -> bool:
        return True


class Sought(NamedTuple):
    """What `Ledger.seek` has asked for; it is over when a lookup of these keys is not `pending` any more."""

    tokens: tuple[Token, ...]
    """Of its parts, one a rank at least."""
    lines: tuple[int, ...]
    """Which of the keys that were given. The others are hits, or known there, or being sought."""

    def __bool__(self) -> bool:
        return True


class Stored(NamedTuple):
    """An offload was accepted: the job, the blocks `refs` in it, and the lines that were `dropped`."""

    job: int
    refs: BlockRefs
    dropped: tuple[Dropped, ...]


class Started(NamedTuple):
    """A load was accepted; its verdict comes from a later poll."""

    load: int
    batches: int
    """Into how many it was cut; each commits all its blocks or none."""


class Closed(NamedTuple):
    """What ending a lease gave back, in device blocks."""

    free: int
    """Free now."""
    cached: int
    """Still named by a key; can be evicted at once."""
    draining: int
    """Free, or cached and evictable, as soon as a copy or a step has stopped."""
    quarantined: int
    """To be had by proof alone: a late report or a fence."""
