"""Time as an argument. Whoever needs "now" is given a clock, so that a run can be replayed in time of its own making.

All times are seconds since the start of the clock. The ledger never sees a clock: it is told the time.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Whoever can say what time it is."""

    def now(self) -> float:
        """Seconds since this clock was started; never goes back."""
        ...


class RealClock:
    """The monotonic clock of the machine, from zero at birth. Any thread may ask it."""

    __slots__ = ("_start",)

    def __init__(self) -> None:
        self._start = time.monotonic()

    def now(self) -> float:
        """Seconds since it was made."""
        return time.monotonic() - self._start


class VirtualClock:
    """A clock that stands still until it is told to move; a second costs nothing and is the same on every machine."""

    __slots__ = ("_now",)

    def __init__(self, start: float = 0.0) -> None:
        """It stands at `start`, in seconds."""
        self._now = start

    def now(self) -> float:
        """Seconds, as it was told last."""
        return self._now

    def advance(self, seconds: float) -> float:
        """Move on by so many seconds; returns the new time. Raises `ValueError` for a step back."""
        return self.advance_to(self._now + seconds)

    def advance_to(self, when: float) -> float:
        """Move on to that time; returns it. Raises `ValueError` if it is over already."""
        if not when >= self._now:
            raise ValueError(f"a clock at {self._now:g} s can't go to {when:g} s: time does not run backwards")
        self._now = when
        return when
