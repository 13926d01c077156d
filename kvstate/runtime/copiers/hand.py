"""The copier whose bytes *land* and whose report is *delivered* when a test says so, as the two events that they are.

Between the two, and before the first, and instead of the second, anything may happen: that is what the tests are for.
A copy is named by a serial of its own, counted here, never by its token alone: a copier that trusted tokens could not
show what happens when a ledger mints one twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from kvstate.machines.messages import Failure, Outcome, Report, Token, Work
from kvstate.runtime.copiers import CopierClosedError, Progress
from kvstate.runtime.copy import Carry, Integrity, answer, attempt, lines_of
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory


class HandError(RuntimeError):
    """The test asked for something that no copier can do, such as bytes that land after a proof that they are over."""


@dataclass(slots=True)
class Flight:
    """One physical copy. To be read by tests; changed by the copier alone."""

    serial: int
    """Its place in `HandCopier.flights`; not the serial of its token."""
    work: Work
    """What was submitted."""
    landed: int = 0
    """Lines whose bytes have moved."""
    over: bool = False
    """It will never touch memory again."""
    asked: bool = False
    """Somebody wished it cancelled."""
    lost: bool = False
    """Its report will never come."""
    delivered: int = 0
    """Reports that were posted."""
    failures: list[Failure] = field(default_factory=list)
    """What went wrong while its bytes moved."""

    @property
    def token(self) -> Token:
        """Of its work; two copies may have one, if a ledger minted it twice."""
        return self.work.token

    @property
    def at_rest(self) -> bool:
        """Its bytes are over and its report has come, or never will."""
        return self.over and (self.lost or self.delivered > 0)


class HandCopier:
    """Holds every part until the test releases it. Copies are named by `Flight.serial` or, where there is one, a token.

    A token names the oldest copy under it that is not at rest; if all are, the newest. For one thread: the bytes move
    in the call that lands them, and the report is in the inbox when the call that delivers it returns.
    """

    def __init__(
        self,
        memory: Memory,
        inbox: Inbox,
        *,
        name: str = "cpu",
        integrity: Integrity = Integrity.HOST,
        carry: Carry | None = None,
    ) -> None:
        """Copies within `memory`, reports to `inbox`; `name` is what `Work.copier` says. `carry` does it otherwise."""
        self.name = name
        self.flights: list[Flight] = []
        """Every copy that was ever submitted, in that order; `Flight.serial` is the index."""
        self.refuse: BaseException | None = None
        """Raised by the next `submit`, once: a driver that fails before it has begun."""
        self._inbox = inbox
        self._carry = carry or partial(attempt, memory, integrity=integrity)
        self._serial = 0
        self._closed = False

    # What the engine calls.

    def submit(self, work: Work) -> None:
        """Take one part and do nothing with it. Raises `CopierClosedError`, or once what `refuse` holds."""
        if self._closed:
            raise CopierClosedError(self.name, work)
        if self.refuse is not None:
            error, self.refuse = self.refuse, None
            raise error
        self._serial = max(self._serial, work.token.serial)
        self.flights.append(Flight(len(self.flights), work))

    def cancel(self, token: Token) -> None:
        """Only noted: whether a wish comes true is for the test to say."""
        for flight in self.flights:
            if flight.token == token and not flight.at_rest:
                flight.asked = True

    def probe(self, token: Token) -> Progress:
        """Of all copies under this token: running if one is not over, over if all are, unknown if there is none."""
        under = [flight for flight in self.flights if flight.token == token]
        if not under:
            return Progress.UNKNOWN
        return Progress.OVER if all(flight.over for flight in under) else Progress.RUNNING

    def fence(self) -> int:
        """Everything in flight lands, as when a stream is synchronised. Reports stay undelivered."""
        for flight in self.flights:
            if not flight.over:
                self.land(flight.serial)
        return self._serial

    def close(self, within: float) -> tuple[Token, ...]:  # noqa: ARG002 - nothing here takes time
        """Takes no more work, lands nothing, and says what has not landed."""
        self._closed = True
        return tuple(flight.token for flight in self.flights if not flight.over)

    # What the test calls.

    def in_flight(self) -> list[Flight]:
        """Copies whose bytes are not over or whose report is still to come, oldest first."""
        return [flight for flight in self.flights if not flight.at_rest]

    def flight(self, which: Token | int) -> Flight:
        """The copy of that serial (an index into `flights`), or the one that the token names.

        Raises `HandError` if there is none.
        """
        if isinstance(which, int):
            if not 0 <= which < len(self.flights):
                raise HandError(f"copy {which} was never submitted; {len(self.flights)} copies were")
            return self.flights[which]
        under = [flight for flight in self.flights if flight.token == which]
        if not under:
            raise HandError(f"no copy was ever submitted under token {which.serial} of incarnation {which.incarnation}")
        return next((flight for flight in under if not flight.at_rest), under[-1])

    def land(self, which: Token | int, lines: int | None = None) -> Flight:
        """Move the bytes of the next `lines` lines, or of all that are left; no report.

        An exception in there is kept as a failure of the copy, which is then over. Raises `HandError` for a copy that
        is over already.
        """
        flight = self.flight(which)
        if flight.over:
            raise HandError(f"copy {flight.serial} ({flight.work.kind}) is over: its bytes can't land any more")
        total = len(flight.work.src)
        stop = total if lines is None else min(total, flight.landed + lines)
        piece = lines_of(flight.work, flight.landed, stop)
        report = self._carry(piece)
        flight.failures.extend(
            failure._replace(line=failure.line + flight.landed) if failure.line >= 0 else failure
            for failure in report.failures
        )
        flight.landed = stop
        flight.over = stop == total or any(failure.line < 0 for failure in report.failures)
        return flight

    def deliver(self, which: Token | int, outcome: str | None = None, failures: tuple[Failure, ...] = ()) -> Report:
        """Post a report, and return it: what came of the bytes, or the outcome that is given. May be said again.

        An outcome that proves the copy over ends it: bytes that have not landed never will. TIMEOUT proves nothing and
        leaves it in flight. DONE is no outcome for bytes that have not landed: copiers fail, they do not lie. Raises
        `HandError` for that, for a report that was lost, and for a copy in flight where no outcome is given.
        """
        flight = self.flight(which)
        if flight.lost:
            raise HandError(f"copy {flight.serial} had its report lost: it can't be delivered")
        if outcome is None and not flight.over:
            raise HandError(f"copy {flight.serial} has not landed: say with which outcome it is reported")
        if outcome == Outcome.DONE and flight.landed < len(flight.work.src):
            raise HandError(f"copy {flight.serial} has {flight.landed} of {len(flight.work.src)} lines: it is not done")
        told = failures or tuple(flight.failures)
        report = Report(flight.token, answer(told) if outcome is None else outcome, told)
        if outcome != Outcome.TIMEOUT:
            flight.over = True
            flight.delivered += 1
        self._inbox.put(report)
        return report

    def lose(self, which: Token | int) -> Flight:
        """The report of this copy will never come. Its bytes may still land. Raises `HandError` if there is none."""
        flight = self.flight(which)
        flight.lost = True
        return flight

    def kill(self) -> int:
        """The process behind it is gone: nothing in flight will land or report. Returns the serial, as a fence does."""
        for flight in self.flights:
            flight.over = True
            flight.lost = flight.lost or not flight.delivered
        return self._serial
