"""The loop: drain reports, feed the ledger, hand effects out in order. Nothing here decides.

    while serving:
        1. done = engine.poll(max_reports=512)      reports in, the clock, effects out, verdicts back
        2. tell the scheduler what done.verdicts say
        3. make requests of engine.ledger: open, lookup, allocate, load, offload, seal, finish, ...
        4. engine.pump()                            effects of those requests go out before the step that needs them
        5. engine.step_dispatched(n, leases) ... engine.step_retired(m)

Each rank has an end of its own, a `Link`: a `Dispatcher` where its copiers are in this process, a pipe where they are
not. A rank whose process is gone is noticed in `poll` and told in `Poll.lost`; what that means stands in
`kvstate.machines.ranks`.

One thread owns the engine and its ledger; the inbox is the only door for others. `poll` is bounded, never waits and
never raises: what a worker says, and what goes wrong in a copier, comes back as a report; a broken invariant comes back
as `Poll.fatal`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kvstate.errors import Code, KVError
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Adopt, Cancel, Effect, Failure, Hold, Report, Sweep, Undo, Unhold, Work
from kvstate.machines.ranks import rank_lost
from kvstate.machines.verdicts import Fatal, JobVerdict, LoadVerdict, Refusal, Settlement, Verdict
from kvstate.runtime.clock import Clock
from kvstate.runtime.copiers import Copier
from kvstate.runtime.dispatcher import Dispatcher, Link
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.recovery import Recoveries, Recovery
from kvstate.runtime.tiers.keeper import Keeper
from kvstate.trace.observer import Observer
from kvstate.trace.ring import Crash


class Loss(NamedTuple):
    """A rank whose process is gone, and its memory with it. All bytes are: a block has a piece on every rank."""

    rank: int
    """It fails what it is given until `Engine.replace` brings another."""
    error: KVError
    """PEER_LOST, with what was seen of its end."""
    leases: tuple[int, ...]
    """They were open and are aborted; their requests have to be admitted again, and computed from the start."""
    keys: int
    """So many were dropped: nothing of before is a hit again."""
    parts: int
    """So many were under way there, and are over: the end of the process is the proof."""


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
    lost: tuple[Loss, ...] = ()
    """Ranks that are gone since the last turn. To be looked at first: verdicts of their leases mean nothing then."""
    recovered: tuple[Recovery, ...] = ()
    """What was taken in from durable pools, at a start or after a loss; hits from now on."""


class Engine:
    """A ledger, and a link to each rank. See the module for the loop.

    It belongs to the thread that made it.

    Errors: `RuntimeError` from every method that another thread calls. Making one raises `ValueError` for a ledger that
    has a durable pool whose copier in this process keeps no objects (is no `Keeper`), or counts other ranks than it is
    given. What goes wrong in the ledger or in a copier is no error here; it comes back in a verdict.
    """

    def __init__(
        self, ledger: Ledger, copiers: Mapping[str, Copier] | Sequence[Link], inbox: Inbox, clock: Clock
    ) -> None:
        """`copiers` are links, one a rank; or, for one rank in this process, its copiers by the names that
        `Work.copier` gives them. `inbox` is the one that all of them report to.
        """
        links: list[Link] = [Dispatcher(copiers, inbox)] if isinstance(copiers, Mapping) else list(copiers)
        _check_durable(ledger, links)
        if ledger.config.ranks != len(links):
            raise ValueError(
                f"the ledger counts {ledger.config.ranks} ranks, and the engine was given {len(links)}; give a link "
                "for each rank"
            )
        self.ledger = ledger
        """For requests; reports, effects and the clock are the engine's to pass on."""
        self.inbox = inbox
        """Reports on their way to the ledger."""
        self.clock = clock
        """What the ledger is told the time from."""
        self.links = links
        """The way to each rank, by its number."""
        self.retired = 0
        """The last compute step that is over."""
        self.holds: list[Hold | Unhold] = []
        """What an engine with an allocator of its own is asked for, in order; whoever tells it takes it out."""
        self.tap: Callable[[Effect], None] | None = None
        """Told of every effect as it goes out; for records."""
        self.heard: Callable[[Report], None] | None = None
        """Told of every report before the ledger is."""
        self.sieve: Callable[[Report], Sequence[Report]] | None = None
        """Asked of every report what the ledger is to hear for it, now: a report may be kept back until a peer has
        answered, and is fed later (`feed`)."""
        self.listeners: list[Observer] = []
        """Told of every effect, report, verdict and turn: a record, a ring, metrics, a log. Rows they hear from the
        ledger by themselves."""
        self.crash: Crash | None = None
        """Writes down the end of the run when the ledger is poisoned."""
        self.recoveries = Recoveries(ledger)
        """What durable pools held, and who has yet to say so."""
        self._owner = threading.get_ident()
        self._lost: set[int] = set()
        self._void: set[str] = set()
        """Copiers that were told to remove everything."""

    def poll(self, max_reports: int = 512) -> Poll:
        """One turn of the loop; feeds at most `max_reports` reports. What is left comes in the next turn."""
        self._mine()
        lost = self._look_after_ranks()
        recovered = self.recover()
        reports = self._hear(max_reports)
        self.ledger.tick(self.clock.now())
        self.pump()
        verdicts = self.ledger.take_verdicts()
        self._tell(verdicts)
        return Poll(
            tuple([verdict for verdict in verdicts if isinstance(verdict, LoadVerdict)]),
            tuple([verdict for verdict in verdicts if isinstance(verdict, JobVerdict)]),
            tuple([verdict for verdict in verdicts if isinstance(verdict, Settlement)]),
            self.ledger.fatal,
            reports,
            lost,
            recovered,
        )

    def recover(self) -> tuple[Recovery, ...]:
        """Take in what all ranks have found in durable pools, if they have said so by now; `poll` does it as well."""
        self._mine()
        if not self.recoveries.awaited:
            return ()
        for rank, link in enumerate(self.links):
            for found in link.take_found():
                if rank not in self._lost:  # else it is the word of a process that is gone: its successor is asked
                    self.recoveries.heard(rank, found)
        return self.recoveries.take()

    def pump(self) -> None:
        """Hand out the effects of the requests since the last turn."""
        self._mine()
        effects = self.ledger.take_effects()
        if self.tap is not None:
            for effect in effects:
                self.tap(effect)
        for listener in self.listeners:
            for effect in effects:
                listener.on_effect(effect)
        if effects:
            self._route(effects)

    def _route(self, effects: Sequence[Effect]) -> None:
        """To each rank its own, in order. A cancel goes where its part is; of a part that is over it is moot."""
        books = self.ledger.books
        shares: list[list[Effect]] = [[] for _ in self.links]
        for effect in effects:
            match effect:
                case Work() | Undo() | Adopt() | Sweep():
                    shares[effect.rank].append(effect)
                    if isinstance(effect, Sweep) and effect.everything:
                        self._void.add(effect.copier)
                case Cancel() if effect.token.serial in books.tokens:
                    shares[books.parts[books.tokens[effect.token.serial]].rank].append(effect)
                case Hold() | Unhold():
                    self.holds.append(effect)
                case _:
                    pass
        for link, share in zip(self.links, shares, strict=True):
            if share:
                link.give(share)

    def step_dispatched(self, step: int, leases: Sequence[int]) -> bool | Refusal:
        """As `Ledger.step_dispatched`: this step goes out and may touch the blocks of these leases."""
        self._mine()
        return self.ledger.step_dispatched(step, leases)

    def step_retired(self, step: int) -> bool | Refusal:
        """As `Ledger.step_retired`: this step and all before it are over. Copies that waited for them start now."""
        self._mine()
        retired = self.ledger.step_retired(step)
        if retired:
            self.retired = max(self.retired, step)
            for link in self.links:
                link.step_retired(step)
        return retired

    def fence(self, rank: int | None = None) -> int:
        """Wait until all copiers, of one rank or of all, have proved their work over; how many parts that ended."""
        self._mine()
        self.pump()
        ended = 0
        for number, link in enumerate(self.links):
            if rank is not None and rank != number:
                continue
            for copier, serial in link.fence():
                ended += self.proved(number, copier, serial)
        return ended

    def proved(self, rank: int, copier: str, serial: int) -> int:
        """All that this copier was given up to `serial` is over; returns how many parts that ended.

        What has been reported is heard before: a report knows how a part ended, and this only that it did.
        """
        self._mine()
        self._hear(len(self.inbox))
        ended = self.ledger.fenced(rank, copier, serial)
        return 0 if isinstance(ended, Refusal) else ended

    def replace(self, rank: int, link: Link) -> None:
        """A new process is there for a rank that was lost. Its memory holds nothing, and nothing there is believed."""
        self._mine()
        self.links[rank] = link
        self._lost.discard(rank)
        link.step_retired(self.retired)
        # A store is not emptied by a reset: who comes anew must not find there what was stored before it.
        void = [pool.copier for pool in self.ledger.config.pools if pool.shared and pool.copier in self._void]
        link.give([Sweep(rank, copier, everything=True) for copier in void])

    def _look_after_ranks(self) -> tuple[Loss, ...]:
        """Tell the ledger of ranks that are gone since the last look."""
        gone = [number for number, link in enumerate(self.links) if number not in self._lost and link.lost]
        if not gone:
            return ()
        self.pump()  # what was minted so far goes to its rank, or nowhere; see `rank_lost`
        found = []
        for rank in gone:
            self._lost.add(rank)
            self.recoveries.lost(rank)
            error = KVError.of(Failure(-1, int(Code.PEER_LOST), "fetch", message=self.links[rank].lost))
            over = rank_lost(self.ledger, rank)
            leases, keys, parts = ((), 0, 0) if isinstance(over, Refusal) else over
            found.append(Loss(rank, error, leases, keys, parts))
        return tuple(found)

    def _hear(self, most: int) -> int:
        """Feed up to so many reports to the ledger; returns how many there were."""
        reports = self.inbox.drain(most)
        for report in reports:
            for passed in (report,) if self.sieve is None else self.sieve(report):
                self.feed(passed)
        return len(reports)

    def feed(self, report: Report) -> None:
        """Have the ledger hear a report, and whoever listens before it. For the engine's own thread."""
        if self.heard is not None:
            self.heard(report)
        for listener in self.listeners:
            listener.on_report(report)
        self.ledger.report(report)

    def _tell(self, verdicts: Sequence[Verdict]) -> None:
        """Tell the listeners how things ended; after a `Fatal`, which comes once, write down how it came to that."""
        for kind in (LoadVerdict, JobVerdict, Settlement, Fatal) if self.listeners else ():
            for verdict in verdicts:
                if isinstance(verdict, kind):
                    for listener in self.listeners:
                        listener.on_verdict(verdict)
        for listener in self.listeners:
            listener.on_turn()
        if self.crash is not None and any(isinstance(verdict, Fatal) for verdict in verdicts):
            self.crash.write()

    def _mine(self) -> None:
        if threading.get_ident() != self._owner:
            raise RuntimeError(
                "the engine belongs to the thread that made it; other threads put reports into the inbox"
            )


def _check_durable(ledger: Ledger, links: Sequence[Link]) -> None:
    """Of copiers in this process it can be seen whether they keep objects; those of other processes will show."""
    for pool in ledger.config.pools:
        for link in links if pool.durable or pool.shared else ():
            if isinstance(link, Dispatcher) and not isinstance(link.copiers.get(pool.copier), Keeper):
                what, other = ("durable", "volatile") if pool.durable else ("shared", "our own")
                raise ValueError(
                    f"pool {pool.name} is {what}, and its copier {pool.copier!r} keeps no objects; give it one that "
                    f"does, such as a DiskCopier, or make the pool {other}"
                )
