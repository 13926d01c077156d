"""What crosses the edge of the ledger: plain values, no memory, no clock.

Down to a worker go *effects*: `Work` (start this part), `Cancel` (stop it if you can), and to one that keeps objects
`Undo`, `Adopt` and `Sweep`; to an engine that has an allocator of its own go `Hold` and `Unhold`, of the blocks that it
freed under a copy. Up from a worker come *reports*. To the scheduler go *verdicts* (see `verdicts`). All are tuples of
numbers, strings and bytes, so that a codec, a record or another language can carry them as they are. Blocks are
numbered through all pools of a runtime. What the ledger answers about many blocks comes as `BlockRefs`, which holds
them as two columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple, overload

from kvstate.machines import bulk


class BlockRef(NamedTuple):
    """A block in one of its lives. A reference to an earlier life is stale, never "probably the same block"."""

    block: int
    generation: int


class BlockRefs(Sequence[BlockRef]):
    """Blocks, each in one of its lives, as two columns: no object a block, however many there are.

    A sequence of `BlockRef` to whoever reads it (length, index, slice, iteration, equality with any list or tuple of
    them), and never changed. The ledger gives it out; whoever has references from elsewhere makes one of them.
    """

    __slots__ = ("blocks", "bound", "generations")

    def __init__(self, refs: Iterable[tuple[int, int]] = ()) -> None:
        """The same references as columns.

        Errors: `ValueError` or `TypeError` if one is no pair, `TypeError` or `OverflowError` if one is of anything but
        whole numbers of 64 bits.
        """
        pairs = [(block, generation) for block, generation in refs]
        self.blocks = array("q", [block for block, _ in pairs])
        """The numbers of the blocks, an array of "q"."""
        self.generations = array("q", [generation for _, generation in pairs])
        """The life that each is in; as long as `blocks`."""
        self.bound = max(self.blocks, default=-1) + 1 if min(self.blocks, default=0) >= 0 else UNBOUNDED
        """A bound that is known to hold: every number is at least 0 and below it."""

    @classmethod
    def of(cls, refs: Iterable[tuple[int, int]]) -> BlockRefs:
        """What is `BlockRefs` already as it is, and all else made one; errors as there."""
        return refs if isinstance(refs, BlockRefs) else cls(refs)

    @classmethod
    def trusted(cls, blocks: array[int], generations: array[int], bound: int) -> BlockRefs:
        """These columns as they are, for whoever knows that all of it holds; a ledger does not look again."""
        refs = cls.__new__(cls)
        refs.blocks, refs.generations, refs.bound = blocks, generations, bound
        return refs

    def at(self, places: array[int]) -> BlockRefs:
        """Those that stand at these places, in that order."""
        blocks = bulk.run(bulk.gather(self.blocks, places))
        return self.trusted(blocks, bulk.gather(self.generations, places), self.bound)

    def __len__(self) -> int:
        return len(self.blocks)

    @overload
    def __getitem__(self, place: int) -> BlockRef: ...
    @overload
    def __getitem__(self, place: slice) -> BlockRefs: ...
    def __getitem__(self, place: int | slice) -> BlockRef | BlockRefs:
        if isinstance(place, slice):
            return self.trusted(bulk.cut(self.blocks, place), self.generations[place], self.bound)
        return BlockRef(self.blocks[place], self.generations[place])

    def __iter__(self) -> Iterator[BlockRef]:
        return map(BlockRef, self.blocks, self.generations)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, BlockRefs):
            return self.blocks == other.blocks and self.generations == other.generations
        return isinstance(other, tuple | list) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"BlockRefs({', '.join(f'{block} gen {generation}' for block, generation in self)})"


UNBOUNDED = 2**63
"""The bound of references that nobody has looked at."""
NO_BLOCKS = array("q")
"""No slots; shared, so it is never added to."""
NO_REFS = BlockRefs()
"""No references, as columns."""


class Token(NamedTuple):
    """Names one part at one attempt. Minted with the effect that starts it, returned untouched by every report."""

    incarnation: int
    serial: int


class Kind(StrEnum):
    """What a part does."""

    STORE = "store"
    """Copy `src` blocks (device) to `dst` blocks (a lower tier) and seal them: key and checksum."""
    PERSIST = "persist"
    """Make what is in the `src` blocks durable."""
    FETCH = "fetch"
    """Copy `src` blocks (a lower tier) to `dst` blocks (device)."""
    VERIFY = "verify"
    """Compare the bytes in `dst` with the keys and the seals of `src`. Writes nothing."""
    SEEK = "seek"
    """Look which of the keys are there. Touches no block; what is missing is a failure of its line in a `done`."""
    STEP = "step"
    """A compute step of the engine; never sent down."""
    HOLD = "hold"
    """A touch that the embedder asked for; never sent down."""


class Outcome(StrEnum):
    """What a report says. All but TIMEOUT prove that the part will never touch memory again."""

    DONE = "done"
    FAILED = "failed"
    """Did not work this time; may be tried again."""
    DENIED = "denied"
    """Did not work and would not another time; the bytes are not to blame."""
    BROKEN = "broken"
    """The bytes are bad or not there: the key is condemned."""
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    """Nothing was heard; proves nothing."""


class Failure(NamedTuple):
    """One thing that went wrong, as a worker saw it; the ledger adds block, token and attempt."""

    line: int
    """Which line of the part (index into `src` and `dst`); -1 for the part as a whole."""
    code: int
    """The number of an error code (`errors.toml`)."""
    stage: str
    driver: str = ""
    """Whose code `raw` is: `errno`, `http`, `cuda`, ..., as in `errors.toml`."""
    raw: str = ""
    """The driver's own code, as it came."""
    type: str = ""
    """The class of the driver's exception, if there was one."""
    message: str = ""
    """In the driver's words."""
    transient: bool = False
    """The driver says that it may work another time."""


class Work(NamedTuple):
    """Start one part. `src`, `dst` and `keys` are of one length: a line a block.

    But for PERSIST `dst` is empty, and for SEEK so is `src`.
    """

    token: Token
    kind: str
    """STORE, PERSIST, FETCH, VERIFY or SEEK; the other kinds are never sent down."""
    rank: int
    copier: str
    attempt: int
    src: tuple[int, ...]
    dst: tuple[int, ...]
    keys: tuple[bytes, ...]
    after_step: int
    """Start only AFTER this compute step has retired; 0 is at once."""
    spaces: tuple[str, ...] = ()
    """The key space of each line: the namespace, with the KV group where there are groups; one word stands for all."""

    def space(self, line: int) -> str:
        """The key space of that line; empty where nobody said."""
        return self.spaces[line if len(self.spaces) > 1 else 0] if self.spaces else ""


class Cancel(NamedTuple):
    """Stop this part if that is possible. The answer is a report like any other, or none."""

    token: Token


class Undo(NamedTuple):
    """Remove the object that this part made durable (its own object on its own rank, never "the key")."""

    token: Token
    rank: int
    copier: str
    src: tuple[int, ...]
    """The blocks that it was made durable from."""
    keys: tuple[bytes, ...]


class Adopt(NamedTuple):
    """These blocks hold these objects from here on, line by line. To the copier of a pool that is durable or shared.

    It comes BEFORE any work on these blocks. Whatever else the copier knew of them is over.
    """

    rank: int
    copier: str
    blocks: tuple[int, ...]
    spaces: tuple[str, ...]
    """One for each line."""
    keys: tuple[bytes, ...]


class Sweep(NamedTuple):
    """Remove objects of a durable pool: all, or those that no block holds.

    With `everything`, what was begun before it must never become visible, whenever it ends: the bytes are of an epoch
    that is over.
    """

    rank: int
    copier: str
    everything: bool


class Hold(NamedTuple):
    """Keep this life of the block out of your free list until the `Unhold` of it. To the engine that owns the pool."""

    ref: BlockRef
    """The block, in the life that was freed."""


class Unhold(NamedTuple):
    """Nothing of ours touches this life of the block any more: it is yours again. One for each `Hold` that was kept."""

    ref: BlockRef
    """The same block and life as in the hold."""


Effect = Work | Cancel | Undo | Adopt | Sweep | Hold | Unhold
"""What `take_effects` gives."""


class Report(NamedTuple):
    """A worker's answer to one part."""

    token: Token
    outcome: str
    failures: tuple[Failure, ...] = ()
    """What went wrong, if anything did; a report may give no reason."""
