"""What the hardware does: copies land, and reports of them come, in any order, twice, late or never; and the clock."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from kvstate.testing.adapter import BROKEN, CANCELLED, DENIED, DONE, FAILED, TIMEOUT, Adapter, Report, Scope
from kvstate.testing.kit.copier import HOST, Yard
from kvstate.testing.kit.memory import NOTHING, ROTTEN, STORE, Flight, Place
from kvstate.testing.kit.oracle import Stats
from kvstate.testing.kit.scheduler import REMEMBERED, Scheduling, pick

TICKS = (0.3, 1.0, 2.5, 10.0)
"""How many seconds can pass at once."""


class Hardware(Scheduling):
    """The moves of copiers and clock; each answers whether something was done."""

    past: tuple[Report, ...] = ()
    """Reports that were delivered, the last few."""

    def __init__(self, build: Callable[[Scope, Yard], Adapter], scope: Scope, stats: Stats | None = None) -> None:
        super().__init__(build, scope, stats)
        self.yard.waiter = self._wait_for

    def _wait_for(self, tag: Hashable) -> list[Report]:
        """The engine blocks until the copies of the tag are over, some of which it may have submitted just now."""
        submitted = self.yard.submitted
        self.yard.submitted = [flight for flight in submitted if flight.tag != tag]
        for flight in submitted:
            if flight.tag == tag:
                self._sent(flight)
        reports: list[Report] = []
        for flight in [flight for flight in self.memory.flights if flight.tag == tag]:
            self.tell(f"the engine waits for copy {flight.serial}")
            if not flight.landed:
                for step in sorted(step for step in self.memory.steps if step <= flight.after):
                    self._run_kernels(step)
                self.touch_down(flight)
            self.memory.end(flight)
            reports.append(Report(tag, *self._honest(flight)))
        self.past = (*self.past, *reports)[-REMEMBERED:]
        return reports

    def land(self, which: int) -> bool:
        """Bytes move, and nobody hears of it yet."""
        flight = pick([flight for flight in self.memory.flights if self.memory.may_land(flight)], which)
        if flight is None:
            return False
        self.touch_down(flight)
        return True

    def deliver(self, which: int) -> bool:
        """The report of a copy that has landed comes."""
        flight = pick([f for f in self.memory.flights if f.landed and not f.lost], which)
        if flight is None:
            return False
        self._answer(flight, *self._honest(flight))
        return True

    def complete(self, which: int) -> bool:
        """A copy lands, and its report comes."""
        flight = pick([f for f in self.memory.flights if (f.landed or self.memory.may_land(f)) and not f.lost], which)
        if flight is None:
            return False
        self._finish_copy(flight)
        return True

    def _finish_copy(self, flight: Flight) -> None:
        if not flight.landed:
            self.touch_down(flight)
        self._answer(flight, *self._honest(flight))

    def _honest(self, flight: Flight) -> tuple[str, tuple[int, ...]]:
        return (BROKEN, flight.bad) if flight.bad else (DONE, ())

    def _answer(self, flight: Flight, outcome: str, bad: tuple[int, ...] = ()) -> None:
        """A report comes, after which the copy will not touch memory again."""
        self.memory.end(flight)
        if outcome == BROKEN and flight.kind != STORE:
            lines = [flight.lines[number] for number in bad] if bad else flight.lines
            self.condemned.update((line.src, flight.tenants[line.src]) for line in lines)
        report = Report(flight.tag, outcome, bad)
        self.past = (*self.past, report)[-REMEMBERED:]
        self._deliver(report, f"copy {flight.serial} reports {outcome}")

    def _deliver(self, report: Report, said: str) -> None:
        self.tell(said)
        self.call("on_report", report)
        self.settle()

    def fail(self, which: int, how: int) -> bool:
        """A copy fails; if it had not landed, it has by half."""
        outcome = pick([word for word in (FAILED, DENIED, BROKEN) if word in self.engine.faults], how)
        flight = pick([f for f in self.memory.flights if (f.landed or self.memory.may_land(f)) and not f.lost], which)
        if flight is None or outcome is None:
            return False
        if not flight.landed:
            self.touch_down(flight, whole=False)
        self._answer(flight, outcome)
        return True

    def timeout(self, which: int) -> bool:
        """Nothing was heard of a copy; it goes on."""
        flight = pick(self.memory.flights, which)
        if flight is None or TIMEOUT not in self.engine.faults:
            return False
        self._deliver(Report(flight.tag, TIMEOUT), f"nothing is heard of copy {flight.serial}: it reports a timeout")
        return True

    def twice(self, which: int) -> bool:
        """A report comes a second time."""
        report = pick(self.past, which)
        if report is None or "twice" not in self.engine.faults:
            return False
        self._deliver(report, f"the report {report.outcome} for {report.tag!r} comes a second time")
        return True

    def stop(self, which: int) -> bool:
        """A copy that was asked to stop does so before it has moved a byte."""
        flight = pick([f for f in self.memory.flights if f.asked and not f.landed], which)
        if flight is None:
            return False
        self._answer(flight, CANCELLED)
        return True

    def lose(self, which: int) -> bool:
        """The report of a copy will never come; its bytes may."""
        flight = pick([f for f in self.memory.flights if not f.lost], which)
        if flight is None or "lost" not in self.engine.faults:
            return False
        flight.lost = True
        self.tell(f"the report of copy {flight.serial} is lost")
        return True

    def fence(self) -> bool:
        """Every copy so far comes to its end, reported or not, and is then proved over."""
        if "lost" not in self.engine.faults:
            return False
        while self.memory.steps:
            self._retire()
        for flight in list(self.memory.flights):
            if not flight.landed:
                self.touch_down(flight)
            self.memory.end(flight)
            self.past = (*self.past, Report(flight.tag, DONE))[-REMEMBERED:]
        self.tell("everything that was submitted is proved over")
        self.call("fenced")
        self.settle()
        return True

    def refuse(self) -> bool:
        """The next copy can't be submitted."""
        if "refused" not in self.engine.faults or self.yard.refuse:
            return False
        self.yard.refuse = True
        self.tell("the next copy that is submitted will be refused")
        return True

    def corrupt(self, which: int) -> bool:
        """Bytes below the device go bad."""
        slots = [Place(HOST, slot) for slot in range(self.scope.host)]
        place = pick([slot for slot in slots if self.memory.at(slot) not in (NOTHING, ROTTEN)], which)
        if place is None or "corrupt" not in self.engine.faults:
            return False
        self.memory.contents[place] = ROTTEN
        self.tell(f"the bytes in {place} go bad")
        return True

    # -- the clock -----------------------------------------------------------------------------------------------------

    def tick(self, which: int) -> bool:
        """Time passes."""
        self.pass_time(TICKS[which % len(TICKS)])
        return True

    def pass_time(self, seconds: float) -> None:
        """So many seconds pass."""
        self.now = round(self.now + seconds, 3)
        self.tell(f"it is {self.now:g} s")
        self.call("tick", self.now)
        self.settle()

    # -- both ------------------------------------------------------------------------------------------------------

    def warm(self, chain: int, length: int) -> bool:
        """All of it in one move: a request computes a prompt, it is stored, all is answered, the device is emptied."""
        if not self.engine.loads or len(self.requests) >= self.scope.requests:
            return False
        before = set(self.memory.flights)
        if not self.admit(chain, length):
            return False
        request = self.requests.get(f"r{self.arrived}")
        if request is None or request.view.waiting:
            return True
        self._dispatch(request)
        while self.memory.steps:
            self._retire()
        if request.name in self.requests:
            self.call("offload", request.name)
            self.settle()
        while mine := [f for f in self.memory.flights if f not in before and self.memory.may_land(f) and not f.lost]:
            self._finish_copy(mine[0])
        if request.name in self.requests:
            self._end("finish", 0, [request])
        self.evict()
        return True
