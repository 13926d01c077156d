"""Does to each part what its fate says. When, is for the two copiers of `kvstate.replay.chaos_copiers` to say.

A part goes through these events, each at a time of its own:

1. `submit`. Its fate is drawn.
2. If the fate is a timeout: the report of that. It proves nothing, and nothing else changes.
3. The bytes *land*: all of them, or half and a failure, or none and a failure. A cancel before this moment may keep
   them from it; one after it does nothing.
4. The report is *delivered*; or never, or twice.

A fence is what it is on a device: all that was submitted lands now. What is to be reported stays due when it was.
"""

from __future__ import annotations

import heapq
import threading
from functools import partial
from time import perf_counter
from typing import NoReturn

from kvstate.errors import Code, from_exception, translate
from kvstate.machines.messages import Failure, Outcome, Report, Token, Work
from kvstate.replay.chaos import EXCEPTIONS, Chaos
from kvstate.replay.flights import Counts, Flight, Step
from kvstate.runtime.clock import Clock
from kvstate.runtime.copiers import CopierClosedError, Past, Progress
from kvstate.runtime.copiers.threads import OnLand, OnSubmit
from kvstate.runtime.copy import Carry, Integrity, answer, attempt, lines_of
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory
from kvstate.runtime.stages import STAGES


class Chaotic:
    """What both copiers do with a flight. When it happens is theirs to say, through `_later`.

    Any thread may call what is public.
    """

    def __init__(
        self,
        memory: Memory,
        inbox: Inbox,
        clock: Clock,
        chaos: Chaos,
        *,
        name: str = "cpu",
        integrity: Integrity = Integrity.HOST,
        carry: Carry | None = None,
        on_land: OnLand | None = None,
        on_submit: OnSubmit | None = None,
    ) -> None:
        """Copies within `memory`, reports to `inbox`; `name` is what `Work.copier` says. With `carry`, that is how
        bytes are moved instead.

        `on_land(work, when)` is called in the thread that moves bytes, right before they move, with the lines that
        do; `on_submit(work)` in the thread that submits, before anything else. An error in a hook is a mistake of the
        program, not of a driver: it becomes no failure of the part.
        """
        self.name = name
        self.counts = Counts()
        """What was done so far."""
        self._memory = memory
        self._inbox = inbox
        self._clock = clock
        self._chaos = chaos
        self._carry = carry or partial(attempt, memory, integrity=integrity)
        self._on_land = on_land
        self._on_submit = on_submit
        self._lock = threading.Lock()
        self._flights: dict[int, Flight] = {}
        """Those whose bytes are not over, by serial, oldest first."""
        self._by_token: dict[Token, Flight] = {}
        """The same, for cancels; of two under one token, which no sound ledger makes, the newer."""
        self._past = Past()
        self._steps: list[Step] = []
        self._planned = 0
        self._serial = 0
        self._closed = False

    @property
    def seconds(self) -> float:
        """Time that threads spent on moving bytes, sums and comparisons included."""
        return self.counts.seconds

    def in_flight(self) -> list[Work]:
        """The parts whose bytes are not over, oldest first."""
        with self._lock:
            return [flight.work for flight in self._flights.values()]

    def submit(self, work: Work) -> None:
        """Take one part, draw its fate, and plan what comes first. Raises `CopierClosedError`."""
        if self._closed:
            raise CopierClosedError(self.name, work)
        if self._on_submit is not None:
            self._on_submit(work)
        fate = self._chaos.fate(work.token.serial, work.kind)
        with self._lock:
            flight = Flight(self.counts.submitted, work, fate)
            self.counts.submitted += 1
            self._serial = max(self._serial, work.token.serial)
            self._flights[flight.serial] = flight
            self._by_token[work.token] = flight
        if fate.proves_nothing:
            self._later(fate.land, flight, Report(work.token, Outcome.TIMEOUT, (_failure(flight),)))
            self._later(fate.land + fate.late_landing, flight, None)
        else:
            self._later(fate.land + fate.late_landing, flight, None)

    def cancel(self, token: Token) -> None:
        """As `Copier.cancel`: it comes true if the fate says so and no byte has moved yet."""
        with self._lock:
            flight = self._by_token.get(token)
            if flight is None or flight.moving or not flight.fate.obeys:
                return
            self._end(flight)
            self.counts.cancelled += 1
        self._answer(flight, Report(token, Outcome.CANCELLED), late=flight.fate.late_report > 0)

    def probe(self, token: Token) -> Progress:
        """As `Copier.probe`. A flight whose report is late, lost or a timeout may be over all the same."""
        with self._lock:
            if token in self._by_token:
                return Progress.RUNNING
            return Progress.OVER if token in self._past else Progress.UNKNOWN

    def _later(
        self, seconds: float, flight: Flight, report: Report | None, late: bool = False, again: bool = False
    ) -> None:
        """See to it that, in so many seconds, the flight lands (`report` is None) or the report is delivered."""
        raise NotImplementedError

    def _plan(self, when: float, flight: Flight, report: Report | None, late: bool, again: bool) -> Step:
        """Put an event on the heap. Needs the lock where there are threads."""
        self._planned += 1
        step = Step(when, flight.fate.tie, self._planned, flight, report, late, again)
        heapq.heappush(self._steps, step)
        return step

    def _land(self, flight: Flight, when: float) -> None:
        """Move what the fate lets move, and plan the report. Does nothing for a flight that is moving or over."""
        with self._lock:
            if flight.moving or flight.over:
                return
            flight.moving = True
        fault = None if flight.fate.proves_nothing else flight.fate.fault
        if fault is None:
            report = self._move(flight, len(flight.work.keys), when)
            spoiled = self._spoil(flight) if report.outcome == Outcome.DONE else 0
        else:
            spoiled = 0
            moved = self._move(flight, _lines_before(flight), when)
            report = self._fail(flight, moved)
        with self._lock:
            self._end(flight)
            self.counts.landed += fault is None
            self.counts.failed += fault is not None
            self.counts.late_landings += flight.fate.late_landing > 0
            self.counts.corrupted += spoiled
        self._answer(flight, report, late=flight.fate.late_report > 0 or flight.fate.late_landing > 0)

    def _move(self, flight: Flight, lines: int, when: float) -> Report:
        """The bytes of the first lines of a part."""
        if not lines:
            return Report(flight.work.token, Outcome.DONE)
        piece = lines_of(flight.work, 0, lines)
        if self._on_land is not None:
            self._on_land(piece, when)
        start = perf_counter()
        report = self._carry(piece)
        with self._lock:
            self.counts.seconds += perf_counter() - start
        return report

    def _fail(self, flight: Flight, moved: Report) -> Report:
        """The fault of a flight, in the way that its fate names; exceptions are raised where real ones would be."""
        way = flight.fate.fault.way if flight.fate.fault is not None else None
        if moved.outcome != Outcome.DONE or way is None:
            return moved
        if way.driver != "exception":
            failure = _failure(flight)
            return Report(flight.work.token, answer((failure,)), (failure,))

        def trip() -> NoReturn:
            raise EXCEPTIONS[way.raw](f"chaos in part {flight.work.token.serial}")

        return self._carry(flight.work, cancelled=trip)

    def _spoil(self, flight: Flight) -> int:
        """Flip a byte of one block that has just been written; returns how many lines that spoiled."""
        blemish, dst = flight.fate.blemish, flight.work.dst
        if blemish is None or not dst:
            return 0
        pool, slot = self._memory.place(dst[int(blemish.line * len(dst))])
        byte = int(blemish.byte * pool.block_bytes)
        pool.tensor[slot, byte] ^= blemish.mask
        return 1

    def _answer(self, flight: Flight, report: Report, late: bool) -> None:
        """Plan the report of a flight whose bytes are over: once, twice or never."""
        fate = flight.fate
        if fate.lost:
            with self._lock:
                self.counts.lost += 1
            return
        seconds = fate.report + fate.late_report
        self._later(seconds, flight, report, late=late)
        if fate.duplicate is not None:
            self._later(seconds + fate.duplicate, flight, report, again=True)

    def _deliver(self, step: Step) -> None:
        assert step.report is not None
        with self._lock:
            self.counts.timeouts += step.report.outcome == Outcome.TIMEOUT and not step.again
            self.counts.late += step.late
            self.counts.duplicates += step.again
        self._inbox.put(step.report)

    def _end(self, flight: Flight) -> None:
        """Its bytes are over. Needs the lock."""
        flight.over = True
        self._past.add(flight.work.token)
        del self._flights[flight.serial]
        if self._by_token.get(flight.work.token) is flight:
            del self._by_token[flight.work.token]


def _lines_before(flight: Flight) -> int:
    """How many lines land before the fault of a flight strikes."""
    fault = flight.fate.fault
    return len(flight.work.keys) // 2 if fault is not None and fault.half_way else 0


def _failure(flight: Flight) -> Failure:
    """What the driver says of a flight's fault."""
    fault, work = flight.fate.fault, flight.work
    assert fault is not None
    driver, raw = fault.way
    stage, message = STAGES[work.kind], f"chaos in part {work.token.serial}"
    line = -1 if fault.proves_nothing else _lines_before(flight)
    if driver == "exception":
        return from_exception(EXCEPTIONS[raw](message), stage=stage, line=line)
    if not driver:
        return Failure(line, int(Code[fault.code]), stage, driver="chaos", message=message)
    return translate(driver, raw, stage=stage, line=line, message=message)
