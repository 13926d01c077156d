"""The only door between threads: copiers put reports in, the thread that owns the ledger takes them out.

Memory is bounded twice. A copier posts about one report for each part that it was given, so an inbox that is drained
holds about as many reports as parts are in flight. And there is a hard limit for an inbox that nobody drains, or that a
broken worker floods: what comes beyond it is dropped and counted. A dropped report is a lost report, which the ledger
survives by its deadlines and a fence; memory that grows for ever is not survived by anybody.

There is no lock. `deque.append` and `deque.popleft` are atomic in CPython, and one thread alone takes out.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from kvstate.machines.messages import Report

LIMIT: Final = 1 << 20
"""Reports that wait at most, where the maker of an inbox says nothing else: some hundred megabytes."""


class Inbox:
    """Reports on their way to the ledger, in the order in which they came.

    Any thread may put; one alone drains and waits. Raises `ValueError` for a `limit` below 1, which leaves no room.
    """

    __slots__ = ("_arrived", "_asleep", "_decode", "_limit", "_reports", "bad", "dropped", "first_bad")

    def __init__(self, *, decode: Callable[[bytes], Report] | None = None, limit: int = LIMIT) -> None:
        """`decode` turns the bytes of an encoded report into a report, and raises whatever it likes for bytes that are
        none; `limit` is how many reports wait at most.
        """
        if limit < 1:
            raise ValueError(f"an inbox of {limit} reports can't hold any; give a limit of 1 or more")
        self._reports: deque[Report] = deque()
        self._decode = decode or _no_decoder
        self._limit = limit
        self._arrived = threading.Event()
        self._asleep = False
        self.bad = 0
        """Encoded messages that could not be read."""
        self.first_bad = ""
        """Why the first of them could not be read, for the log."""
        self.dropped = 0
        """Reports that came when the inbox was full."""

    def __len__(self) -> int:
        return len(self._reports)

    def put(self, report: Report) -> bool:
        """Take a report from any thread. False if there was no room; never raises and never blocks."""
        if len(self._reports) >= self._limit:
            self.dropped += 1
            return False
        self._reports.append(report)
        if self._asleep:
            self._arrived.set()
        return True

    def put_bytes(self, message: bytes) -> bool:
        """Take an encoded report, from any thread. False if it could not be read; never raises.

        Bytes come from another process, which may be of another version or out of its mind. They are counted, and the
        part that they spoke of is as one whose report was lost.
        """
        try:
            report = self._decode(message)
        except Exception as error:  # whatever a decoder raises at bad bytes, this door stays open
            self.bad += 1
            if not self.first_bad:
                self.first_bad = f"{type(error).__name__}: {error}"
            return False
        return self.put(report)

    def drain(self, most: int) -> list[Report]:
        """Take out up to `most` reports, oldest first. For the thread that owns the ledger; never blocks."""
        reports = self._reports
        return [reports.popleft() for _ in range(min(most, len(reports)))]

    def wake(self) -> None:
        """End a `wait` early, from any thread: something else has come that its caller looks after."""
        if self._asleep:
            self._arrived.set()

    def wait(self, seconds: float, also: Callable[[], bool] | None = None) -> bool:
        """Sleep until a report is there, `seconds` at most. For the thread that drains; says whether one is there.

        `also` says whether there is something else to do; whoever makes it true calls `wake` afterwards.
        """
        self._arrived.clear()
        self._asleep = True  # from here on a `put` wakes us; one that came before is seen in the next line
        try:
            ready = bool(self._reports) or (also is not None and also())
            return ready or self._arrived.wait(seconds) or bool(self._reports)
        finally:
            self._asleep = False


def _no_decoder(message: bytes) -> Report:
    raise TypeError(f"this inbox was given no decoder for {len(message)} bytes")
