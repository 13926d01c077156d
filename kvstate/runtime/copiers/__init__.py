"""Who moves the bytes, and when.

`threads` copies in the background, `hand` when a test says so. All answer in the same way: a report in an inbox, from
whatever thread, at whatever time, and with luck exactly once. None knows what its reports lead to.
"""

from __future__ import annotations

from typing import Protocol

from kvstate.machines.messages import Token, Work


class CopierClosedError(RuntimeError):
    """Work was given to a copier that had been closed; nothing of it was started."""

    def __init__(self, name: str, work: Work) -> None:
        super().__init__(f"copier {name} is closed: part {work.token.serial} ({work.kind}) was not started")


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
