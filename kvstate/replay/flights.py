"""What the chaotic copiers keep of a part: its flight, its events to come, and the counts over all of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import NamedTuple

from kvstate.machines.messages import Report, Work
from kvstate.replay.chaos import Fate


@dataclass(slots=True)
class Counts:
    """What was done to the parts so far."""

    submitted: int = 0
    """Parts that came."""
    landed: int = 0
    """Parts all of whose bytes moved."""
    failed: int = 0
    """Parts that failed for good, with none or half of their bytes."""
    timeouts: int = 0
    """Reports that proved nothing."""
    cancelled: int = 0
    """Parts that obeyed a cancel."""
    late_landings: int = 0
    """Parts whose bytes moved late."""
    late: int = 0
    """Reports that were delivered late: because the bytes were, or by themselves."""
    duplicates: int = 0
    """Reports that were delivered again."""
    lost: int = 0
    """Parts whose bytes are over and whose report never comes."""
    corrupted: int = 0
    """Lines in which a byte was flipped."""
    seconds: float = 0.0
    """Time that threads spent on moving bytes, sums and comparisons included."""

    def as_dict(self) -> dict[str, float]:
        """By name."""
        return asdict(self)


class Flight:
    """One physical copy of the part `work`, whose fate is drawn.

    Its `serial` is its own and no ledger knows it. Its bytes are `moving` right now, or `over` and will never move
    again; both change under the lock of the copier.
    """

    __slots__ = ("fate", "moving", "over", "serial", "work")

    def __init__(self, serial: int, work: Work, fate: Fate) -> None:
        self.serial = serial
        self.work = work
        self.fate = fate
        self.moving = False
        self.over = False


class Step(NamedTuple):
    """An event to come. Ordered by time, then by lot, then by the order in which it was planned."""

    when: float
    """On the clock of the copier, in seconds."""
    tie: float
    """The lot of its flight."""
    number: int
    """How many were planned before it, and itself."""
    flight: Flight
    """Whose event it is."""
    report: Report | None
    """What is delivered; `None` where bytes land."""
    late: bool
    """Is it delivered late?"""
    again: bool
    """Was it delivered before?"""
