"""What there is in the world of a search: contents, copies and steps that are not over, requests, loads."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvstate.machines.messages import BlockRef, Work
from kvstate.machines.verdicts import Hit

EMPTY, JUNK = "", "junk"
"""What a block holds that nobody has written since it was handed out, and what it holds after an accident."""


class LawBroken(Exception):  # noqa: N818, it is what the search looks for
    """A law was seen broken; the text is `LAW.property: sentence`."""


@dataclass(slots=True)
class Flight:
    """One copy, until it is proved over."""

    work: Work
    """What was sent down for it."""
    tenants: tuple[tuple[int, int], ...]
    """Block and its tenant when the copy was sent."""
    landed: bool = False
    asked: bool = False
    """Was it asked to stop? Kept only where a copy can say that it did."""
    silent: bool = False
    """Was a timeout reported of it?"""
    found: str = ""
    """What an honest worker has to say of it when it has landed, if that is not that it was done: an outcome."""
    missing: tuple[int, ...] = ()
    """Of a seek: the lines whose key others did not have when it landed."""


@dataclass(slots=True)
class StepOut:
    """A compute step that has not retired: block, tenant and key of what it writes."""

    writes: tuple[tuple[int, int, str], ...]
    landed: bool = False


@dataclass(slots=True)
class Run:
    """What a request is at."""

    lives: int
    """How often it may still come."""
    lease: int = 0
    """0 while it has none."""
    at: int = 0
    """The place in its program."""
    hit: Hit | None = None
    refs: list[BlockRef | None] = field(default_factory=list)
    """Place by place of its prompt: the block it has there."""
    passed: tuple[int, ...] = ()
    """Places that lie before the window of a group: nothing is to be there."""
    done: int = 0
    """How many places a load has filled."""
    load: int = 0
    """The load that it waits for; 0 is none."""
    step: int = 0

    def over(self) -> None:
        """Its lease is closed; it may come again."""
        self.lease, self.at, self.hit, self.refs, self.passed, self.load, self.step = 0, 0, None, [], (), 0, 0
        self.done = 0


@dataclass(slots=True)
class LoadOut:
    """A load that has not settled: its lines as (place, block, key), and whether its verdict was told."""

    lines: tuple[tuple[int, int, str], ...]
    keys: tuple[str, ...] = ()
    """The prompt that it is for."""
    told: bool = False
