"""The loop: drain reports, feed the ledger, hand effects out in order. Nothing here decides.

    while serving:
        1. done = engine.poll(max_reports=512)      reports in, the clock, effects out, verdicts back
        2. tell the scheduler what done.verdicts say
        3. make requests of engine.ledger: open, lookup, allocate, load, offload, seal, finish, ...
        4. engine.pump()                            effects of those requests go out before the step that needs them
        5. engine.step_dispatched(n, leases) ... engine.step_retired(m)

One thread owns the engine and its ledger; the inbox is the only door for others. `poll` is bounded, never waits and
never raises: what a worker says, and what goes wrong in a copier, comes back as a report; a broken invariant comes back
as `Poll.fatal`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from kvstate.errors import from_exception, outcome_of
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Cancel, Effect, Outcome, Report, Work
from kvstate.machines.verdicts import Fatal, JobVerdict, LoadVerdict, Refusal, Settlement
from kvstate.runtime.clock import Clock
from kvstate.runtime.copiers import Copier
from kvstate.runtime.copy import STAGES
from kvstate.runtime.inbox import Inbox


class Poll(NamedTuple):
    """What one turn of the loop brought."""

    loads: tuple[LoadVerdict, ...]
    """How loads ended, in the order in which they did; so are the next two."""
    jobs: tuple[JobVerdict, ...]
    """How offloads ended."""
    settled: tuple[Settlement, ...]
    """Loads none of whose copies is waited for any more."""
    fatal: Fatal | None
    """Why the ledger is poisoned. Unlike the others it is said again in every turn from then on."""
    reports: int
    """How many reports were fed to the ledger."""


class Dispatcher:
    """Gives effects to copiers, in order, each not before the step that it waits for has retired.

    It needs no ledger: a recorded stream of effects and retired steps makes the same copies again. Nothing here raises:
    what a copier raises becomes a report.
    """

    def __init__(self, copiers: Mapping[str, Copier], inbox: Inbox) -> None:
        """`copiers` by the names that `Work.copier` gives them; `inbox` takes the reports of what never began."""
        self.copiers = dict(copiers)
        """By name."""
        self.inbox = inbox
        """Where reports go, the copiers' as well."""
        self.retired = 0
        """The last compute step that is over."""
        self.waiting: list[Work] = []
        """Work whose step is not over, in order. No copier knows of it."""

    def give(self, effects: Iterable[Effect]) -> None:
        """Hand effects out, in their order; work whose step is not over is kept until it is."""
        for effect in effects:
            if isinstance(effect, Work):
                if effect.after_step > self.retired:
                    self.waiting.append(effect)
                else:
                    self._submit(effect)
            elif isinstance(effect, Cancel):
                self._cancel(effect)
            # There is no Undo: it belongs to durable pools, which no copier here has and `Engine` refuses.

    def step_retired(self, step: int) -> None:
        """This compute step and all before it are over: hand out what waited for them."""
        self.retired = max(self.retired, step)
        ready = [work for work in self.waiting if work.after_step <= self.retired]
        self.waiting = [work for work in self.waiting if work.after_step > self.retired]
        for work in ready:
            self._submit(work)

    def _submit(self, work: Work) -> None:
        """Start the part; one that can't start has failed, and says so like every other (I20, I22)."""
        try:
            self.copiers[work.copier].submit(work)
        except Exception as error:
            failure = from_exception(error, stage=STAGES[work.kind])
            self.inbox.put(Report(work.token, outcome_of([failure], proved=True), (failure,)))

    def _cancel(self, cancel: Cancel) -> None:
        """Work that has not been given out is over at once; else every copier is asked, and the right one listens.

        A cancel is a wish. One that a copier can't even take is lost, and the copy ends by itself or by the lapse.
        """
        for work in self.waiting:
            if work.token == cancel.token:
                self.waiting.remove(work)
                self.inbox.put(Report(work.token, Outcome.CANCELLED))
                return
        for copier in self.copiers.values():
            with suppress(Exception):
                copier.cancel(cancel.token)


class Engine:
    """A ledger with copiers of its own process. See the module for the loop.

    It belongs to the thread that made it.

    Errors: `RuntimeError` from every method that another thread calls. Making one raises `ValueError` for a ledger that
    asks for what one process without a disk can't do: a durable pool, or more ranks than one. What goes wrong in the
    ledger or in a copier is no error here; it comes back in a verdict.
    """

    def __init__(self, ledger: Ledger, copiers: Mapping[str, Copier], inbox: Inbox, clock: Clock) -> None:
        """`copiers` by the names that `Work.copier` gives them; `inbox` is the one that they all report to."""
        durable = [pool.name for pool in ledger.config.pools if pool.durable]
        if durable:
            raise ValueError(
                f"pool {durable[0]} is durable, and no copier of this process can persist; make it volatile"
            )
        if ledger.config.ranks != 1:
            raise ValueError(f"the ledger counts {ledger.config.ranks} ranks; an engine of one process drives one")
        self.ledger = ledger
        """For requests; reports, effects and the clock are the engine's to pass on."""
        self.inbox = inbox
        """Reports on their way to the ledger."""
        self.clock = clock
        """What the ledger is told the time from."""
        self.dispatcher = Dispatcher(copiers, inbox)
        """What gives effects to the copiers."""
        self.tap: Callable[[Effect], None] | None = None
        """Told of every effect as it goes out; for records."""
        self.heard: Callable[[Report], None] | None = None
        """Told of every report before the ledger is."""
        self._owner = threading.get_ident()

    def poll(self, max_reports: int = 512) -> Poll:
        """One turn of the loop; feeds at most `max_reports` reports. What is left comes in the next turn."""
        self._mine()
        reports = self._hear(max_reports)
        self.ledger.tick(self.clock.now())
        self.pump()
        verdicts = self.ledger.take_verdicts()
        return Poll(
            tuple(verdict for verdict in verdicts if isinstance(verdict, LoadVerdict)),
            tuple(verdict for verdict in verdicts if isinstance(verdict, JobVerdict)),
            tuple(verdict for verdict in verdicts if isinstance(verdict, Settlement)),
            self.ledger.fatal,
            reports,
        )

    def pump(self) -> None:
        """Hand out the effects of the requests since the last turn."""
        self._mine()
        effects = self.ledger.take_effects()
        if self.tap is not None:
            for effect in effects:
                self.tap(effect)
        self.dispatcher.give(effects)

    def step_dispatched(self, step: int, leases: Sequence[int]) -> bool | Refusal:
        """As `Ledger.step_dispatched`: this step goes out and may touch the blocks of these leases."""
        self._mine()
        return self.ledger.step_dispatched(step, leases)

    def step_retired(self, step: int) -> bool | Refusal:
        """As `Ledger.step_retired`: this step and all before it are over. Copies that waited for them start now."""
        self._mine()
        retired = self.ledger.step_retired(step)
        if retired:
            self.dispatcher.step_retired(step)
        return retired

    def fence(self, rank: int = 0) -> int:
        """Wait until every copier of this process has proved its work over; returns how many parts that ended.

        Work that still waits for its step was never given to a copier, so a fence says nothing of it: the proof reaches
        up to the oldest of that. Reports that are there already are heard first: a fence knows that a copy is over, and
        they know how it ended.
        """
        self._mine()
        self.pump()
        ended = 0
        for name, copier in self.dispatcher.copiers.items():
            unsent = [work.token.serial - 1 for work in self.dispatcher.waiting if work.copier == name]
            serial = min((copier.fence(), *unsent))
            self._hear(len(self.inbox))
            over = self.ledger.fenced(rank, name, serial)
            ended += 0 if isinstance(over, Refusal) else over
        return ended

    def _hear(self, most: int) -> int:
        """Feed up to so many reports to the ledger; returns how many there were."""
        reports = self.inbox.drain(most)
        for report in reports:
            if self.heard is not None:
                self.heard(report)
            self.ledger.report(report)
        return len(reports)

    def _mine(self) -> None:
        if threading.get_ident() != self._owner:
            raise RuntimeError(
                "the engine belongs to the thread that made it; other threads put reports into the inbox"
            )
