"""The parts that a peer's copier has under way, and the one place where each of them ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

from kvstate.errors import Code
from kvstate.machines.messages import Failure, Report, Token, Work
from kvstate.runtime.copiers import Past, Progress
from kvstate.runtime.copy import answer
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.peers.transport import Connection, State, Transfer
from kvstate.runtime.stages import STAGES


class Part:
    """One part under way. `left`, `failures`, `proved` and `over` are written under the lock of its `Parts`."""

    __slots__ = ("asked", "failures", "left", "over", "proved", "pulls", "seen", "until", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.left = 0
        """Pulls that are not over."""
        self.failures: list[Failure] = []
        self.pulls: list[tuple[Transfer, Connection | None]] = []
        """Each with the connection that it runs on."""
        self.proved = True
        """Is all that is over so with proof?"""
        self.over = False
        """Was it told?"""
        self.asked = False
        """Does somebody wish it cancelled?"""
        self.until = 0.0
        """When patience with what runs on is over, once it was asked to stop; 0 where nobody counts."""
        self.seen = -1
        """The progress of its connections when `until` was set."""

    def running(self) -> list[Connection]:
        """Connections with a pull of it that is not over, or not over with proof."""
        lines = [line for transfer, line in list(self.pulls) if line is not None and not _is_over(transfer)]
        return list(dict.fromkeys(lines))


class Parts:
    """See the module. Any thread may call any method."""

    def __init__(self, inbox: Inbox) -> None:
        """Reports go to `inbox`."""
        self.serial = 0
        """The highest of all tokens that were submitted."""
        self.in_doubt: Callable[[], None] | None = None
        """Called when something was told without proof, that somebody may look for one."""
        self._inbox = inbox
        self._changed = threading.Condition(threading.Lock())
        self._parts: dict[Token, Part] = {}
        self._doubtful: dict[Token, Part] = {}
        """Told without proof."""
        self._past = Past()

    def add(self, work: Work) -> Part:
        """A part that was submitted."""
        part = Part(work)
        with self._changed:
            self._parts[work.token] = part
            self.serial = max(self.serial, work.token.serial)
        return part

    def find(self, token: Token) -> Part | None:
        """The part under way with this token."""
        with self._changed:
            return self._parts.get(token)

    def under_way(self) -> list[Part]:
        """What is not told yet."""
        with self._changed:
            return list(self._parts.values())

    def doubtful(self) -> list[Part]:
        """What was told without proof."""
        with self._changed:
            return list(self._doubtful.values())

    def left(self) -> tuple[Token, ...]:
        """What may touch memory even now."""
        with self._changed:
            return (*self._parts, *self._doubtful)

    def probe(self, token: Token) -> Progress:
        """As `Copier.probe`."""
        with self._changed:
            if token in self._parts or token in self._doubtful:
                return Progress.RUNNING
            return Progress.OVER if token in self._past else Progress.UNKNOWN

    def wait(self, end: float) -> bool:
        """Wait until nothing is under way or in doubt, up to that time; says whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._parts and not self._doubtful, max(end - monotonic(), 0.0))

    def pulled(self, part: Part, line: int, transfer: Transfer) -> None:
        """One pull of a part is over; `line` is where it begins in the part, -1 where it is all of it."""
        with self._changed:
            part.left -= 1
            if transfer.failure is not None:
                part.failures.append(transfer.failure._replace(line=line, stage="fetch"))
                part.proved = part.proved and transfer.proved
            last = part.left == 0
        if last:
            self.tell(part, tuple(part.failures), proved=part.proved)

    def tell(self, part: Part, failures: tuple[Failure, ...], *, proved: bool = True) -> None:
        """Report a part, unless it was told before; no failure is success."""
        token = part.work.token
        failures = _told(part, failures) if proved else failures
        with self._changed:
            if part.over:
                return
            part.over = True
            if self._parts.get(token) is part:
                del self._parts[token]
            if proved:
                self._past.add(token)
            else:
                part.failures = list(failures)
                self._doubtful[token] = part
            self._changed.notify_all()
        self._inbox.put(Report(token, answer(failures, proved=proved), failures))
        if not proved and self.in_doubt is not None:
            self.in_doubt()

    def prove(self, part: Part) -> None:
        """What was told without proof is over: say so, under the same token."""
        token = part.work.token
        with self._changed:
            if self._doubtful.get(token) is not part:
                return
            del self._doubtful[token]
            self._past.add(token)
            self._changed.notify_all()
        failures = tuple(part.failures)
        self._inbox.put(Report(token, answer(failures, proved=True), failures))


def _is_over(transfer: Transfer) -> bool:
    return transfer.state is State.DONE or (transfer.state is State.FAILED and transfer.proved)


def _told(part: Part, failures: tuple[Failure, ...]) -> tuple[Failure, ...]:
    """A part that was asked to stop, and whose pulls were ended by force, was cancelled."""
    ended = {int(Code.PEER_LOST), int(Code.CANCELLED)}
    if part.asked and failures and all(failure.code in ended for failure in failures):
        stage = STAGES.get(part.work.kind, "fetch")
        return (Failure(-1, int(Code.CANCELLED), stage, message=failures[0].message),)
    return failures
