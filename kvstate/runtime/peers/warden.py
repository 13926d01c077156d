"""A thread that ends by force what does not end by itself: connections whose peer was given up, parts that were to be
stopped and are not, and what could not be proved at once.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from time import monotonic
from typing import Final

from kvstate.runtime.peers.parts import Part, Parts
from kvstate.runtime.peers.transport import Connection
from kvstate.runtime.peers.ways import Ways

QUIET_SECONDS: Final = 1.0
"""So long one connection may take to be torn down, at a try; it needs some 20 ms."""
RETRY_SECONDS: Final = 1.0
"""Until the next try, where that was not enough."""


class Warden:
    """See the module. Any thread may call its methods."""

    def __init__(self, parts: Parts, ways: Ways, grace: float, name: str) -> None:
        """Looks after these parts; `grace` is how long nothing may move after a cancel."""
        self._parts, self._ways, self._grace = parts, ways, grace
        self._woken = threading.Event()
        self._stopped = False
        self._old: list[Connection] = []
        self._retry = 0.0
        self._thread = threading.Thread(target=self._run, name=f"kvstate-{name}-warden", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Something was asked for; look."""
        self._woken.set()

    def quiet_all(self) -> None:
        """Tear down every connection on which something runs or is in doubt, in the calling thread."""
        parts = self._parts.under_way() + self._parts.doubtful()
        self._quiet([line for part in parts for line in part.running()])
        self._settle()

    def stop(self) -> None:
        """End the thread, soon; what it had to do is done."""
        self._stopped = True
        self._woken.set()
        self._thread.join(2 * QUIET_SECONDS)

    def _run(self) -> None:
        while not self._stopped:
            self._woken.wait(self._turn())
            self._woken.clear()

    def _turn(self) -> float | None:
        """Do what is due; in how many seconds to look again, None for when woken."""
        now = monotonic()
        fresh = self._ways.take_old()
        if fresh or now >= self._retry:
            self._old = self._quiet(self._old + fresh)
            self._settle()
            self._retry = monotonic() + RETRY_SECONDS
        due = [self._patience(part, now) for part in self._parts.under_way() if part.asked and part.pulls]
        if self._old or self._parts.doubtful():
            due.append(self._retry - now)
        return max(min(due), 0.001) if due else None

    def _patience(self, part: Part, now: float) -> float:
        """For how long this part, which was asked to stop, may go on; when that is over, it is ended."""
        lines = part.running()
        progress = sum(line.progress for line in lines)
        if not part.until or progress != part.seen:
            part.until, part.seen = now + self._grace, progress
        elif now >= part.until:
            self._quiet(lines)
            part.until = monotonic() + self._grace
        return part.until - now

    def _settle(self) -> None:
        """Of what was told without proof, say what is over by now."""
        for part in self._parts.doubtful():
            lines = part.running()
            if not self._quiet(lines):
                self._parts.prove(part)

    def _quiet(self, lines: list[Connection]) -> list[Connection]:
        """Tear these down; those for which that could not be proved."""
        left = []
        for line in dict.fromkeys(lines):
            proved = False
            with suppress(Exception):
                line.quiet(QUIET_SECONDS)
                proved = True
            if not proved:
                left.append(line)
        return left
