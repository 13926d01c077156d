"""What an engine has to answer so that the conformance kit can drive it: ten methods, most of them a line or two.

The kit plays the scheduler above the engine, the kernels, and the hardware that copies. The engine keeps its books and
decides: which block, what to load, what to store, when a block is free. It never moves a byte. It hands every copy to
the copier that it was built with; the kit decides when the bytes *land* and when the report is *delivered*, in any
order, late, twice, or never, and compares what the engine says of its blocks with what is in them.

    class MyEngine(Adapter):
        def __init__(self, scope: Scope, copier: Copier) -> None: ...
        def admit(self, request: str, keys: Sequence[str]) -> bool: ...
        ...

`docs/testing.md` walks through one. `examples/naive_engines/tiny.py` is one in full.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

DONE, FAILED, DENIED, BROKEN, CANCELLED, TIMEOUT = "done", "failed", "denied", "broken", "cancelled", "timeout"
"""What a report can say: `DONE`, `FAILED`, `DENIED`, `BROKEN`, `CANCELLED`, `TIMEOUT`; see `Report`."""
NONE = -1
"""Stands in a table for no block."""
FAULTS = {
    "failed": "a copy reports that it did not work this time; what it was writing is half written",
    "denied": "the same, and it would not work another time",
    "broken": "a copy reports that the bytes are bad or missing",
    "refused": "the call that submits a copy raises `Refused`",
    "twice": "a report comes a second time, however late",
    "timeout": "a report says that nothing was heard; the copy may still land",
    "lost": "a report never comes; the engine has deadlines, and a fence is what ends the copy",
    "corrupt": "bytes below the device go bad; the engine compares what it loads, with `Copier.check`",
}
"""What may go wrong, by the word with which an adapter declares it."""


@dataclass(frozen=True, slots=True)
class Scope:
    """How large the engine is to be built, and how much is asked of it. Small on purpose: races need crowding.

    Errors: `ValueError` for sizes that make no engine.
    """

    device: int = 4
    """Device blocks; they are numbered from 0."""
    host: int = 4
    """Slots of the tier below; they are numbered from 0, too."""
    chains: int = 2
    """How many prompts there are. Prompt A has the keys A1, A2...; two prompts have no key in common."""
    longest: int = 3
    """Blocks of the longest prompt."""
    requests: int = 3
    """Requests that run at once, at most."""

    def __post_init__(self) -> None:
        for name in ("device", "host", "chains", "longest", "requests"):
            value = getattr(self, name)
            if type(value) is not int or value < (0 if name == "host" else 1):
                raise ValueError(f"{name}: {value!r} is too small or no whole number; give one of at least 1")
        if self.longest > self.device:
            raise ValueError(f"longest: a prompt of {self.longest} blocks does not fit into {self.device}; give fewer")
        if self.chains > 26:
            raise ValueError(f"chains: {self.chains} is too many; a prompt is named by a letter, so give at most 26")


class View(NamedTuple):
    """What a running request may touch, as the engine sees it now."""

    blocks: tuple[int, ...]
    """A device block for each key, in order. While it waits there may be fewer, and `NONE` where it is its load's."""
    ready: tuple[bool, ...]
    """True where the request may rely on the bytes of the key: computed, shared, or loaded and heard of."""
    waiting: bool = False
    """It can't be computed yet: a load for it is under way."""


class Free(NamedTuple):
    """What the engine could give out if it were asked for all of it at once."""

    device: int
    """Blocks that nobody owns and no copy touches, cached ones included."""
    host: int | None = None
    """Slots that no copy touches and none is reserved for, whether they hold a key or not; None if it is not known."""


class Report(NamedTuple):
    """The answer to one copy."""

    tag: Hashable
    """What the engine gave when it submitted the copy."""
    outcome: str
    """`done`, `failed`, `denied`, `broken`, `cancelled`: the copy will not touch memory again. `timeout`: it may."""
    bad: tuple[int, ...] = ()
    """The lines (from 0) whose bytes are bad, if that is known; empty with `broken` means that any may be."""

    @property
    def ok(self) -> bool:
        """Did it work?"""
        return self.outcome == DONE


class Refused(RuntimeError):  # noqa: N818, what is at fault is not the engine
    """Submitting a copy did not work (no descriptor, no memory, a dead worker). Nothing was begun."""


class Copier(Protocol):
    """What the engine submits its copies to. A copy has a line for each block; the lists are of one length.

    `tag` is what the engine finds its record by when the report comes: a request's name, a job's number, anything. It
    comes back as it was given. `keys` says whose bytes are copied.
    """

    def store(
        self, blocks: Sequence[int], slots: Sequence[int], keys: Sequence[str], tag: Hashable, after: int = 0
    ) -> None:
        """Copy device blocks to host slots, but not before step `after` has retired. May raise `Refused`."""

    def load(self, slots: Sequence[int], blocks: Sequence[int], keys: Sequence[str], tag: Hashable) -> None:
        """Copy host slots to device blocks. May raise `Refused`."""

    def check(self, slots: Sequence[int], blocks: Sequence[int], keys: Sequence[str], tag: Hashable) -> None:
        """Compare what was loaded into the blocks with the keys; reports `broken` with the bad lines, or `done`."""

    def cancel(self, tag: Hashable) -> None:
        """Ask for the copies with this tag to be stopped. The answer is a report like any other."""

    def wait(self, tag: Hashable) -> Sequence[Report]:
        """Block until the copies with this tag are over: they land now, and their reports are the answer.

        For an engine that synchronises before it lets somebody have a block. The steps that a copy comes after run
        first; that they have retired is told later. Nothing happens for a tag without a copy.
        """

    def began(self, work: Hashable) -> None:
        """Optional: somebody will be told how `work` (a job, a load) ended, once."""

    def told(self, work: Hashable) -> None:
        """Optional: somebody has been told."""


class Adapter(ABC):
    """An engine as the kit sees it. What it does not have is declared in these, so that it is not asked for."""

    loads: ClassVar[bool] = True
    """Blocks are stored below the device, and loaded from there."""
    steps: ClassVar[bool] = False
    """Compute is asynchronous: `compute` sends a step down, and its kernels write until `retired`.

    If not, the blocks are filled when `compute` is called."""
    resets: ClassVar[bool] = False
    """The cache can be emptied while all goes on."""
    discards: ClassVar[bool] = False
    """A block that a store still reads may be given out again; what that store brings down is thrown away."""
    eager: ClassVar[bool] = False
    """Whoever has a block for each key is computed at once: the step that admits a request computes it, too."""
    faults: ClassVar[Sequence[str]] = ("failed", "refused", "twice")
    """What may go wrong, of `FAULTS`. An engine whose copies can't be lost has no `lost` here."""

    # -- the scheduler above ---------------------------------------------------------------------------------------

    @abstractmethod
    def admit(self, request: str, keys: Sequence[str]) -> bool:
        """Begin a life of the request: look its keys up, give it a block for each, start the loads.

        False if there is no room, or if it has to wait for another's load; then nothing has changed. A request that was
        preempted comes again under its name.
        """

    @abstractmethod
    def view(self, request: str) -> View | None:
        """What the request may touch now; None if the engine has taken its blocks back and it has to come again."""

    @abstractmethod
    def compute(self, request: str, step: int) -> None:
        """Step number `step` fills every block of the request that is not ready: they are full, and may be shared."""

    @abstractmethod
    def offload(self, request: str) -> None:
        """Store what of the request's blocks is ready and not stored yet. Nothing to do, or no room: do nothing."""

    @abstractmethod
    def finish(self, request: str) -> None:
        """The request is done."""

    @abstractmethod
    def abort(self, request: str) -> None:
        """The request is not wanted any more, whatever it was doing. If it is not running, nothing changes."""

    def preempt(self, request: str) -> None:
        """The blocks of the request are wanted; it will come again under its name."""
        self.abort(request)

    # -- the hardware below ----------------------------------------------------------------------------------------

    @abstractmethod
    def on_report(self, report: Report) -> None:
        """The report of a copy is delivered."""

    def retired(self, step: int) -> None:  # noqa: B027, optional, as the next three
        """That step and all before it have ended on the device. Only if `steps`."""

    def fenced(self) -> None:  # noqa: B027
        """Every copy that was submitted is proved over, whether it has reported or not. Only with fault `lost`."""

    def tick(self, now: float) -> None:  # noqa: B027
        """So many seconds have passed since the engine was built."""

    def reset(self) -> None:  # noqa: B027
        """Empty the cache: no key of before is a hit. Only if `resets`."""

    # -- what can be seen ------------------------------------------------------------------------------------------

    @abstractmethod
    def free(self) -> Free:
        """What could be given out now. Asked often; must not change anything."""

    def index(self) -> Mapping[str, int] | None:
        """The keys that a lookup would find below the device, with their slots; None if that can't be seen."""
        return None

    def check(self) -> Sequence[str]:
        """What the engine's own checks have to complain about, a sentence each. Asked after every step."""
        return ()

    def counted(self) -> Mapping[str, int]:
        """Optional: what the engine counts of itself (branches, rows fired), zeros too; added up over the walks."""
        return {}

    def close(self) -> Sequence[str]:
        """Everything has ended and is answered: shut down. Returns what is left, a sentence each."""
        return ()
