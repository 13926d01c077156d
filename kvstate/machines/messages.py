"""What crosses the edge of the ledger: plain values, no methods, no memory, no clock.

Down to a worker go *effects*: `Work` (start this part), `Cancel` (stop it if you can), `Undo`. Up from it come
*reports*. To the scheduler go *verdicts* (see `verdicts`). All are tuples of numbers, strings and bytes, so that a
codec, a record or another language can carry them as they are. Blocks are numbered through all pools of a runtime.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class BlockRef(NamedTuple):
    """A block in one of its lives. A reference to an earlier life is stale, never "probably the same block"."""

    block: int
    generation: int


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
    raw: str = ""
    """The driver's own code, as it came."""
    type: str = ""
    message: str = ""
    transient: bool = False
    """The driver says that it may work another time."""


class Work(NamedTuple):
    """Start one part. `src`, `dst` and `keys` are of one length: a line a block (`dst` is empty for PERSIST)."""

    token: Token
    kind: str
    rank: int
    copier: str
    attempt: int
    src: tuple[int, ...]
    dst: tuple[int, ...]
    keys: tuple[bytes, ...]
    after_step: int
    """Start only AFTER this compute step has retired; 0 is at once."""


class Cancel(NamedTuple):
    """Stop this part if that is possible. The answer is a report like any other, or none."""

    token: Token


class Undo(NamedTuple):
    """Remove the object that this part made durable (its own object on its own rank, never "the key")."""

    token: Token
    rank: int
    copier: str
    src: tuple[int, ...]
    keys: tuple[bytes, ...]


Effect = Work | Cancel | Undo


class Report(NamedTuple):
    """A worker's answer to one part."""

    token: Token
    outcome: str
    failures: tuple[Failure, ...] = ()
