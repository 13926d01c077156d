"""What is physically true: the bytes in every place, the copies under way, and for whom a place was meant.

Bytes are symbols: the key that they are the bytes of, or a word for what is nobody's. A copy makes two events: it
*lands*, and its report is *delivered*. Copies are told apart by a serial of their own, which no engine ever sees, and a
place has a new *tenant* whenever it is given to somebody. So a reuse is seen whatever identity an engine believes in.

Nothing here knows of engines, requests or ledgers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

STORE, LOAD, CHECK = "store", "load", "check"
"""What a copy does: `STORE` reads the device, `LOAD` writes it, `CHECK` compares what was loaded."""
NOTHING, POISON, JUNK, ROTTEN = "nothing", "what was there before", "half of a copy", "bytes that went bad"
"""Nothing was ever written; a block that was given out anew; the target of a copy that failed; a bit that flipped."""


class Place(NamedTuple):
    """Where one block of bytes can be, by pool and number: `b0` on the device, `h0` below it."""

    pool: str
    number: int

    def __str__(self) -> str:
        return f"{self.pool}{self.number}"


class Line(NamedTuple):
    """One block of a copy: from `src` to `dst`, the bytes of a key."""

    src: Place
    dst: Place
    key: str


@dataclass(eq=False, slots=True)
class Flight:
    """One copy, from the moment it was submitted until it is over; kind, tag and `after` are as submitted."""

    serial: int
    kind: str
    lines: tuple[Line, ...]
    tag: Hashable
    after: int = 0
    tenants: dict[Place, int] = field(default_factory=dict)
    """For whom its places were meant when it was submitted."""
    landed: bool = False
    over: bool = False
    lost: bool = False
    asked: bool = False
    """Somebody asked for it to be stopped."""
    bad: tuple[int, ...] = ()
    """The lines that a check found wrong."""

    def __str__(self) -> str:
        lines = ", ".join(f"{line.src} to {line.dst} ({line.key})" for line in self.lines)
        return f"copy {self.serial}, a {self.kind} of {lines}"

    def writes(self) -> Iterator[Place]:
        """The places that it changes."""
        return (line.dst for line in self.lines if self.kind != CHECK)

    def reads(self) -> Iterator[Place]:
        """The places that it only looks at."""
        for line in self.lines:
            yield line.src
            if self.kind == CHECK:
                yield line.dst

    def does(self, place: Place) -> str:
        """`writes` or `reads`, or nothing."""
        if place in self.writes():
            return "writes"
        return "reads" if place in self.reads() else ""


class Write(NamedTuple):
    """What a compute step will put into a place, and the tenant that it is meant for."""

    place: Place
    tenant: int
    key: str


@dataclass
class Memory:
    """The `contents` of all places, and their `tenants`. A place that nothing was written to holds `NOTHING`."""

    contents: dict[Place, str] = field(default_factory=dict)
    tenants: dict[Place, int] = field(default_factory=dict)
    filled: dict[Place, int] = field(default_factory=dict)
    """For which tenant a copy has last been sent to the place."""
    flights: list[Flight] = field(default_factory=list)
    """Copies that are not over, in the order in which they were submitted."""
    steps: dict[int, list[Write]] = field(default_factory=dict)
    """Compute steps under way, by number."""
    ran: set[int] = field(default_factory=set)
    """Those of them whose kernels have ended, and the engine has not been told."""

    def at(self, place: Place) -> str:
        """What is in the place."""
        return self.contents.get(place, NOTHING)

    def tenant(self, place: Place) -> int:
        """Whose place it is: a number that rises whenever it is given to somebody."""
        return self.tenants.get(place, 0)

    def holds(self, place: Place, key: str) -> bool:
        """Does the place hold the bytes of the key, or will it when the steps under way have written?"""
        coming = [write.key for writes in self.steps.values() for write in writes if write.place == place]
        return (coming[-1] if coming else self.at(place)) == key

    def hand(self, place: Place) -> None:
        """Give the place to somebody new. What was in it is nobody's."""
        self.tenants[place] = self.tenant(place) + 1
        self.contents[place] = POISON

    def touching(self, place: Place) -> Iterator[Flight]:
        """The copies that are not over and touch the place."""
        return (flight for flight in self.flights if flight.does(place))

    def submit(self, flight: Flight) -> None:
        """From here on the copy may land at any time."""
        places = [*flight.reads(), *flight.writes()]
        flight.tenants = {place: self.tenant(place) for place in places}
        for place in flight.writes():
            self.filled[place] = self.tenant(place)
        self.flights.append(flight)

    def reused(self, flight: Flight) -> Iterator[Place]:
        """The places of the copy that are somebody else's by now."""
        return (place for place, tenant in flight.tenants.items() if self.tenant(place) != tenant)

    def may_land(self, flight: Flight) -> bool:
        """Has it not landed, and is the step over that it waits for?"""
        return not flight.landed and not any(step <= flight.after for step in self.steps if step not in self.ran)

    def land(self, flight: Flight, *, whole: bool = True) -> None:
        """The bytes move; half of them if it is to fail."""
        flight.landed = True
        bad: list[int] = []
        for number, line in enumerate(flight.lines):
            if flight.kind != CHECK:
                self.contents[line.dst] = self.at(line.src) if whole else JUNK
            elif self.at(line.dst) != line.key:
                bad.append(number)
        flight.bad = tuple(bad)

    def end(self, flight: Flight) -> None:
        """The copy will not touch memory again."""
        flight.over = True
        if flight in self.flights:
            self.flights.remove(flight)

    def run(self, step: int) -> list[Place]:
        """The kernels of a step write; returns the places that a copy was sent to for somebody new meanwhile."""
        struck: list[Place] = []
        writes, self.steps[step] = self.steps[step], []
        self.ran.add(step)
        for place, tenant, key in writes:
            self.contents[place] = key
            if self.tenant(place) != tenant and self.filled.get(place) == self.tenant(place):
                struck.append(place)
        return struck

    def retire(self, step: int) -> None:
        """A step that has run is over."""
        del self.steps[step]
        self.ran.discard(step)


def shown(places: Iterable[Place]) -> str:
    """`b0, b2`, or `-`."""
    return ", ".join(map(str, places)) or "-"
