"""The one interface to whoever moves bytes between processes, and what each transport can be held to.

    ours = transport.connect("prefill-0", description)     of the peer's `describe`, however it came here
    transfer = ours.pull(remote, local, told)              blocks of theirs into blocks of ours
    ...                                                    `told(transfer)` from a thread of the transport, once
    ours.quiet(within)                                     nothing of any pull touches our memory from here on

**A pull is one-sided in what it promises.** Whoever pulls owns the memory that is written, and only that is guarded
here. What the peer had in its blocks when they were read is for the peer to say, afterwards.

**What ends a transfer.** It is done when all bytes are in our blocks. It has failed when that will not be; then
`proved` says whether the transport knows that our blocks are not written any more. An error of a connection proves
nothing by itself, and neither does a handle that was released: in NIXL 1.5 the bytes of a released handle went on
landing. So a connection that breaks is torn down before its transfers are told, and what they are told is proof.

**A peer that is stopped.** Nothing is heard of it, for as long as it likes. Its transfers run, until somebody who
knows a deadline calls `quiet`, which needs no answer from the other side.

Nothing here blocks the thread that calls, but `quiet` and `close`, which say how long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, Protocol

from kvstate.errors import Code
from kvstate.machines.messages import Failure

SETUP_SECONDS: Final = 10.0
"""So long a peer may take to answer while a connection is made; one that is stopped never does."""


class State(StrEnum):
    """How far a transfer is."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


Told = Callable[["Transfer"], None]
"""Called once, when a transfer is not running any more, in whatever thread found that out. Must not raise or block."""


class Transfer:
    """Blocks of a peer on their way into ours. Changed by its connection alone."""

    __slots__ = ("_drop", "_lock", "_told", "asked", "failure", "local", "proved", "remote", "state")

    def __init__(
        self, remote: Sequence[int], local: Sequence[int], told: Told | None = None, drop: Told | None = None
    ) -> None:
        """From the peer's blocks `remote` into ours, line by line. `drop` is called when it is to be cancelled."""
        self.remote = tuple(remote)
        """Block numbers of the peer's memory."""
        self.local = tuple(local)
        """Block numbers of ours, one for each."""
        self.state = State.RUNNING
        """Written once, last of all."""
        self.failure: Failure | None = None
        """Why it failed."""
        self.proved = False
        """Are our blocks not touched any more? True for what is done."""
        self.asked = False
        """Does somebody wish it cancelled?"""
        self._told = told
        self._drop = drop
        self._lock = threading.Lock()

    def cancel(self) -> None:
        """Ask that it be stopped. A wish: it ends as cancelled if nothing of it had begun, else as it ends."""
        self.asked = True
        if self._drop is not None:
            self._drop(self)

    def end(self, failure: Failure | None = None, *, proved: bool = True) -> bool:
        """It is over; no failure is success. For its connection. False if it was over before, which changes nothing,
        but that a later proof is kept.
        """
        with self._lock:
            if self.state is not State.RUNNING:
                self.proved = self.proved or proved
                return False
            self.failure, self.proved = failure, proved
            self.state = State.DONE if failure is None else State.FAILED
        if self._told is not None:
            self._told(self)
        return True


class Connection(Protocol):
    """One way to one life of a peer's rank. A peer that was started again needs another. Any thread may call."""

    @property
    def peer(self) -> str:
        """Whose blocks it pulls, for messages."""
        ...

    @property
    def broken(self) -> Failure | None:
        """Why it takes no more pulls; None while it does, also while it is still being made."""
        ...

    @property
    def progress(self) -> int:
        """Grows whenever bytes of any pull have come; whoever sees it stand still may think the peer stopped."""
        ...

    def pull(self, remote: Sequence[int], local: Sequence[int], told: Told | None = None) -> Transfer:
        """Begin to bring the peer's blocks into ours, line by line. Never blocks, never raises: what is wrong is a
        failure of the transfer, which is told as any other.

        Our blocks belong to the transfer until it is over with proof.
        """
        ...

    def quiet(self, within: float) -> None:
        """Tear down and deregister: what runs fails, with proof, and nothing of any pull is written from here on.

        May be called again. Errors: `TimeoutError` if that could not be proved in so many seconds.
        """
        ...


class Transport(Protocol):
    """Of one rank in one process, over all of its memory, which others may read from when it is made."""

    @property
    def name(self) -> str:
        """Which transport it is; both sides have to have the same."""
        ...

    def describe(self) -> bytes:
        """What a peer's `connect` needs: addresses, sizes, no secret. Another in each life."""
        ...

    def connect(self, peer: str, description: bytes) -> Connection:
        """A connection to whoever gave this description. Returns at once and is made in the background.

        Errors: `DescriptionError` for bytes that are none, or of a transport, version or layout that does not fit.
        """
        ...

    def close(self, within: float) -> bool:
        """Serve no more and tear everything down; False if that could not be proved in so many seconds."""
        ...


class DescriptionError(ValueError):
    """A peer's description with which no connection can be made; one sentence."""


def lost(peer: str, why: object, *, stage: str = "fetch") -> Failure:
    """The failure of what runs on a connection that broke."""
    kind = "" if isinstance(why, str) else type(why).__name__
    return Failure(-1, int(Code.PEER_LOST), stage, type=kind, message=f"{peer}: {why}"[:500])


def cancelled() -> Failure:
    """The failure of a transfer that was called off before anything of it had begun."""
    return Failure(-1, int(Code.CANCELLED), "fetch", message="cancelled before anything was asked for")


def missing(message: str) -> Failure:
    """The failure of a transfer of a block that is not there."""
    return Failure(-1, int(Code.BLOCK_NOT_FOUND), "fetch", message=message)
