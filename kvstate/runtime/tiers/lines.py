"""The lines of one part on their way to or from a store of objects: where each goes, and what went wrong."""

from __future__ import annotations

from typing import Final

from kvstate.errors import Code, from_exception
from kvstate.machines.messages import Failure, Kind, Work
from kvstate.runtime.copy import Cancelled
from kvstate.runtime.stages import STAGES

TOGETHER: Final = 16
"""Lines whose files are open at the same time."""


class Lines:
    """See the module. Errors: `ValueError` for work that makes no sense."""

    def __init__(self, work: Work, asked: Cancelled | None) -> None:
        """`asked` says whether the rest is still wanted."""
        if len(work.keys) != len(work.src) or (len(work.dst) != len(work.src) and work.kind != Kind.PERSIST):
            raise ValueError(
                f"part {work.token.serial} has {len(work.src)} sources, {len(work.dst)} destinations and "
                f"{len(work.keys)} keys; a line has one of each"
            )
        self.work = work
        self.slots: list[int] = []
        """Where each line's object is."""
        self.failures: list[Failure] = []
        self.done: list[str] = []
        """Names of what was made visible."""
        self.stopped = False
        """Are the lines that are left not to be begun?"""
        self.asked = asked
        """Is the rest still wanted, if there is anybody to ask?"""
        self._stage = STAGES[work.kind]
        self._space = work.space(0) if len(work.spaces) <= 1 else None

    def space(self, line: int) -> str:
        """The key space of a line."""
        return self._space if self._space is not None else self.work.spaces[line]

    def cancelled(self, line: int) -> bool:
        """Is this line, with all behind it, no longer wanted? Then that is told of it."""
        if self.asked is None or not self.asked():
            return False
        if not self.stopped:
            what = f"cancelled before line {line}"
            self.failures.append(Failure(line, int(Code.CANCELLED), self._stage, message=what))
        self.stopped = True
        return True

    def failed(self, line: int, error: Exception, *, stop: bool = False) -> None:
        """What went wrong with a line, or, as -1, with all; with `stop` the others need not be begun."""
        self.failures.append(from_exception(error, stage=self._stage, line=line))
        self.stopped = self.stopped or stop
