"""What must be true after every call of an engine: what it says of its blocks, held against what is in them.

Who owns a device block is read off the tables of the running requests. A block that is new in a table and not ready was
given out: it has a new tenant, and what was in it is gone. From there on everything is a comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kvstate.testing.adapter import NONE, Adapter, Scope, View
from kvstate.testing.kit.copier import DEVICE, HOST, Yard, raised
from kvstate.testing.kit.laws import AdapterError, Found
from kvstate.testing.kit.memory import CHECK, JUNK, LOAD, ROTTEN, STORE, Flight, Memory, Place, shown

T = TypeVar("T")
EMPTY = View((), ())
"""What a request has before it has anything."""
REPORTS = ("on_report", "fenced", "tick", "retired")
"""The calls that tell an engine what has happened; it can't refuse them."""


@dataclass(eq=False, slots=True)
class Request:
    """One life of a request, as the kit has seen it; `view` is the last one."""

    name: str
    keys: tuple[str, ...]
    view: View = EMPTY
    fresh: frozenset[tuple[int, int]] = frozenset()
    """Places in the prompt and blocks, as they stood after the last call."""
    step: int = 0
    """The newest step that it is out on."""

    @property
    def lacks(self) -> bool:
        """Can it be computed, and is there something to compute?"""
        return not self.view.waiting and not all(self.view.ready)

    def rows(self) -> Iterator[tuple[int, Place, str, bool]]:
        """Place in the prompt, block, key, ready."""
        for at, (block, key, ready) in enumerate(zip(self.view.blocks, self.keys, self.view.ready, strict=False)):
            if block != NONE:
                yield at, Place(DEVICE, block), key, ready


@dataclass
class Stats:
    """How far the walks got; a kit that never sees a load proves nothing of loads."""

    steps: int = 0
    """Moves that did something."""
    walks: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    """What the kit saw: copies by kind, landings, hits, ends of a request while a copy was under way."""
    marks: dict[str, int] = field(default_factory=dict)
    """What the engines counted of themselves; see `Adapter.counted`."""

    def count(self, what: str, number: int = 1) -> None:
        """Something was seen."""
        self.counts[what] += number

    def mark(self, counted: Mapping[str, int]) -> None:
        """Add what an engine counted."""
        for name, number in counted.items():
            self.marks[name] = self.marks.get(name, 0) + number


class Oracle:
    """An engine, its memory, its requests, and what is asked after every call.

    Errors: `Found` with the first law that is broken, `AdapterError` if the adapter does not keep to its protocol.
    """

    def __init__(self, build: Callable[[Scope, Yard], Adapter], scope: Scope, stats: Stats | None = None) -> None:
        self.scope = scope
        self.stats = stats or Stats()
        self.memory = Memory()
        self.yard = Yard(scope, self.memory)
        self.requests: dict[str, Request] = {}
        self.parked: dict[str, tuple[str, ...]] = {}
        """Requests that will come again, and their keys."""
        self.said: list[str] = []
        """What happened in this move, a line each."""
        self.now = 0.0
        self.admitting = False
        self.condemned: set[tuple[Place, int]] = set()
        """Slots, and the tenants whose bytes in them were reported bad."""
        try:
            self.engine = build(scope, self.yard)
        except Exception as error:
            raise AdapterError(raised("building the engine", error)) from error

    # -- calling the engine --------------------------------------------------------------------------------------------

    def call(self, name: str, *args: Any) -> Any:
        """Call the engine. Whatever it raises is a finding: no input of the kit's is a mistake of the caller's."""
        try:
            return getattr(self.engine, name)(*args)
        except (AdapterError, Found):
            raise
        except NotImplementedError as error:
            raise AdapterError(f"{type(self.engine).__name__}.{name} is not written yet") from error
        except Exception as error:
            law = "L6.total" if name in REPORTS else "raises"
            words = ", ".join(str(arg) if name == "on_report" else repr(arg) for arg in args)
            raise Found(law, raised(f"{name}({words})", error)) from error

    def tell(self, line: str) -> None:
        """Say what happened."""
        self.said.append(line)

    # -- after a call --------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Look at everything anew. Raises `Found` with the first law that is broken."""
        submitted, asked = self.yard.take()
        for flight in self.memory.flights:
            flight.asked = flight.asked or flight.tag in asked
        for found in self.yard.found:
            raise found
        for request in list(self.requests.values()):
            self._look(request)
        self._one_owner()
        for request in self.requests.values():
            self._handed(request)
        for flight in submitted:
            self._sent(flight)
            flight.asked = flight.tag in asked
        self._truth()
        self._balance()
        for sentence in self.call("check"):
            raise Found("check", sentence)

    def _look(self, request: Request) -> None:
        """Ask for the table, and see that it is one."""
        view = self.call("view", request.name)
        if view is None:
            self.tell(f"{request.name} has lost its blocks and has to come again")
            del self.requests[request.name]
            self.parked[request.name] = request.keys
            return
        blocks, ready, waiting = view
        if len(blocks) != len(ready) or len(blocks) > len(request.keys):
            raise AdapterError(
                f"the view of {request.name} has {len(blocks)} blocks and {len(ready)} times ready for "
                f"{len(request.keys)} keys; give one of each for a key"
            )
        if not waiting and len(blocks) < len(request.keys):
            raise AdapterError(
                f"{request.name} has {len(blocks)} blocks for {len(request.keys)} keys; admit() gives one for each key "
                "or answers False"
            )
        for block in blocks:
            if block not in range(self.scope.device) and not (waiting and block == NONE):
                raise AdapterError(
                    f"{request.name} has block {block!r}; there are 0 to {self.scope.device - 1}, and {NONE} for none "
                    "while it waits"
                )
        request.view = View(tuple(blocks), tuple(ready), bool(waiting))

    def _one_owner(self) -> None:
        """A block is in two tables only as the same key, and only one of them may have to fill it."""
        seen: dict[Place, tuple[Request, int, str, bool]] = {}
        for request in self.requests.values():
            for at, place, key, ready in request.rows():
                other = seen.setdefault(place, (request, at, key, ready))
                if other[0] is request and other[1] == at:
                    continue
                same = "twice in the table of" if other[0] is request else f"{other[0].name}'s as {other[2]}, and of"
                both = f"{place} is {same} {request.name} as {key}"
                if other[0] is request or other[2] != key:
                    raise Found("L3.one_owner", both)
                if not (ready or other[3] or request.view.waiting or other[0].view.waiting):
                    raise Found("L3.one_owner", f"{both}, and both are to fill it")

    def _handed(self, request: Request) -> None:
        """New in the table and not ready: it was given out just now."""
        fresh = frozenset(enumerate(request.view.blocks))
        for at, place, key, ready in request.rows():
            if (at, place.number) in request.fresh or ready or self._shared(request, place):
                continue
            for flight in self._in_the_way(place):
                does = flight.does(place)
                raise Found(
                    "L3.no_reuse", f"{place} was given to {request.name} for {key} while {flight} still {does} it"
                )
            self.memory.hand(place)
        request.fresh = fresh

    def _in_the_way(self, place: Place) -> Iterator[Flight]:
        """The copies for which the place can't be had: all that touch it, but for a store that is to be thrown away."""
        for flight in self.memory.touching(place):
            if flight.does(place) == "writes" or not (self.engine.discards and flight.kind == STORE):
                yield flight

    def _shared(self, request: Request, place: Place) -> bool:
        """Is the block one that another request had before, and is waiting for with this one?"""
        return any(
            block == place.number
            for other in self.requests.values()
            if other is not request
            for _, block in other.fresh
        )

    def _sent(self, flight: Flight) -> None:
        """A copy was submitted: nobody else may be in its way."""
        targets = list(flight.writes())
        twice = [place for place in targets if targets.count(place) > 1]
        if twice:
            raise Found("L3.no_reuse", f"{flight}: it writes {twice[0]} twice")
        for place in targets:
            for other in self._in_the_way(place):
                raise Found("L3.no_reuse", f"{flight}: {other} still {other.does(place)} {place}")
            if flight.kind == STORE:
                self.memory.hand(place)
        for line in flight.lines:
            for other in self.memory.touching(line.src):
                if other.does(line.src) == "writes":
                    raise Found("L3.no_reuse", f"{flight}: {other} still writes {line.src}")
            if self.admitting and (line.src, self.memory.tenant(line.src)) in self.condemned:
                raise Found("L5.condemned", f"{flight}: {line.key} in {line.src} was reported bad, and is a hit again")
        self.memory.submit(flight)
        self.stats.count(flight.kind)
        self.tell(f"{flight}, is submitted")

    # -- what is claimed, and what is there ----------------------------------------------------------------------------

    def _truth(self) -> None:
        for request in self.requests.values():
            for _, place, key, ready in request.rows():
                if ready and not self.memory.holds(place, key):
                    self._lie(place, f"{request.name} relies on {place} for {key}")
        for key, slot in (self.call("index") or {}).items():
            place = Place(HOST, slot)
            content = self.memory.at(place)
            if content in (key, ROTTEN):
                continue
            writer = next((f for f in self.memory.flights if f.does(place) == "writes" and not f.landed), None)
            why = f"; {writer} has not landed" if writer else ""
            law = "L5.failed" if content == JUNK else "L9.index"
            raise Found(law, f"{key} is a hit in {place}, which holds {content}{why}")

    def _lie(self, place: Place, claim: str) -> None:
        content = self.memory.at(place)
        raise Found("L5.failed" if content == JUNK else "L9.bytes", f"{claim}, and it holds {content}")

    def _balance(self) -> None:
        """What can be had at once is not owned and not written."""
        free = self.call("free")
        owned = {place for request in self.requests.values() for _, place, _, _ in request.rows()}
        written = {place for flight in self.memory.flights if flight.kind == LOAD for place in flight.writes()}
        most = self.scope.device - len(owned)
        if not 0 <= free.device <= most:
            why = f", since {shown(sorted(owned))} are owned" if owned else ""
            raise Found("L8.balance", f"free() says {free.device} device blocks; it can be 0 to {most}{why}")
        if free.device > self.scope.device - len(owned | written):
            under = shown(sorted(written - owned))
            raise Found("L3.no_reuse", f"free() says {free.device} device blocks, and counts {under}, under a copy")
        if free.host is not None and not 0 <= free.host <= self.scope.host:
            raise Found("L8.balance", f"free() says {free.host} host slots; there are {self.scope.host}")

    # -- when a copy lands ---------------------------------------------------------------------------------------------

    def touch_down(self, flight: Flight, *, whole: bool = True) -> None:
        """Bytes move; whoever has the places now should be whom they were meant for."""
        for place in self.memory.reused(flight):
            does = flight.does(place)
            if does == "writes" or not (self.engine.discards and flight.kind == STORE):
                raise Found("L3.no_reuse", f"{flight}, {does} {place}, which was given to somebody else meanwhile")
        if flight.kind == STORE and whole and not self.engine.discards:
            for line in flight.lines:
                content = self.memory.at(line.src)
                if content != line.key:
                    raise Found("L9.stored", f"{flight}, files {content} as {line.key}")
        self.memory.land(flight, whole=whole)
        if flight.kind != CHECK:
            self.stats.count("landed")
            self.tell(f"{flight}, {'lands' if whole else 'lands by half'}")
        self._truth()
