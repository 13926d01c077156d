"""Who moves the bytes, and when.

`threads` copies in the background, `cuda` on streams of a GPU, `hand` when a test says so; `choice` says which of them
runs. All answer in the same way: a report in an inbox, from whatever thread, at whatever time, and with luck exactly
once. None knows what its reports lead to.
"""

from __future__ import annotations

from collections import deque
from enum import StrEnum
from typing import Final, Protocol

from kvstate.machines.messages import Token, Work


class CopierClosedError(RuntimeError):
    """Work was given to a copier that had been closed; nothing of it was started."""

    def __init__(self, name: str, work: Work) -> None:
        super().__init__(f"copier {name} is closed: part {work.token.serial} ({work.kind}) was not started")


class Progress(StrEnum):
    """What a copier knows of a part. It is no report: whoever asks learns how far it is, and not how it ended."""

    OVER = "over"
    """It will never touch memory again, for sure."""
    RUNNING = "running"
    """It was submitted and is not over: it may touch memory now, or later."""
    UNKNOWN = "unknown"
    """It was never submitted here, or so long ago that this is forgotten. Proves nothing."""


REMEMBERED: Final = 4096
"""Of how many parts that are over a copier remembers that they are."""


class Past:
    """The parts that were over last, by token. Not for several threads at once."""

    __slots__ = ("_order", "_tokens")

    def __init__(self, most: int = REMEMBERED) -> None:
        """Remembers `most` of them."""
        self._order: deque[Token] = deque(maxlen=most)
        self._tokens: set[Token] = set()

    def __contains__(self, token: object) -> bool:
        return token in self._tokens

    def add(self, token: Token) -> None:
        """This part is over; the oldest is forgotten where there is no room."""
        if token in self._tokens:
            return
        if len(self._order) == self._order.maxlen:
            self._tokens.discard(self._order[0])
        self._order.append(token)
        self._tokens.add(token)


class Copier(Protocol):
    """What an engine needs of whoever makes copies. All methods are called by the thread that owns the ledger."""

    @property
    def name(self) -> str:
        """What `Work.copier` calls it."""
        ...

    def submit(self, work: Work) -> None:
        """Take one part. It is done, or fails, on its own time; the answer is a report.

        Raises `CopierClosedError`; what else it raises, nothing of the part was started then.
        """
        ...

    def cancel(self, token: Token) -> None:
        """Ask that a part be stopped. A wish: only a report of CANCELLED says that it came true. Never raises.

        A token that was never submitted, or whose part is over, is no mistake: the part may have ended a moment ago.
        """
        ...

    def probe(self, token: Token) -> Progress:
        """Is this part over, for sure? Never blocks and never raises; see `Progress`.

        Over means that its bytes are; its report may still be on its way, or lost. Any thread may ask.
        """
        ...

    def fence(self) -> int:
        """Block until no copy that was submitted can touch memory any more; returns up to which serial that holds.

        The serial is the highest of all tokens that were submitted, so it speaks for this copier alone, and only for
        work that it was given: whoever holds work back must not fence above it.
        """
        ...

    def close(self, within: float) -> tuple[Token, ...]:
        """Take no more work, and let what is under way end, for `within` seconds at most.

        Returns the tokens of the parts that may touch memory even now; only if there are none may the memory be given
        back. May be called again.
        """
        ...


class Patient(Protocol):
    """What some copiers can do beside: all of this package but the one of tests."""

    def fence(self, within: float | None = None) -> int:
        """As `Copier.fence`. Errors: `TimeoutError` where nothing is proved after so many seconds."""
        ...
