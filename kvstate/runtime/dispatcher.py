"""One rank's end: effects go to its copiers, in order, each not before the step that it waits for has retired."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, cast

from kvstate.codec import CodecError
from kvstate.errors import Code, from_exception, outcome_of
from kvstate.machines.messages import Adopt, Cancel, Effect, Failure, Outcome, Report, Sweep, Token, Undo, Work
from kvstate.runtime.copiers import Copier, Patient, Progress
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.stages import STAGES
from kvstate.runtime.tiers.keeper import Keeper
from kvstate.wire import DownItem, Found, encode_down


class Link(Protocol):
    """What an engine needs of the way to one rank: a `Dispatcher` in this process, or a pipe to another.

    All methods are called by the thread that owns the ledger. Nothing raises but `fence`, which says what.
    """

    @property
    def lost(self) -> str:
        """Why the other end is gone for good, and with it its memory; empty while it is there.

        It is proof: nothing that was given can touch memory any more. What is given from then on fails at once.
        """
        ...

    def give(self, effects: Iterable[Effect]) -> None:
        """Pass effects on, in their order."""
        ...

    def step_retired(self, step: int) -> None:
        """This compute step and all before it are over: what waited for them may begin."""
        ...

    def probe(self, token: Token) -> str | None:
        """What is known of this part: a word of `Progress`, or `waiting` for its step; None if it is answered later."""
        ...

    def take_found(self) -> list[Found]:
        """What copiers of this rank found in durable pools when they were made; each is given out once."""
        ...

    def fence(self) -> Iterator[tuple[str, int]]:
        """Block until the copiers of this rank have proved their work over: for each its name and up to which serial.

        Reports that came before the proof are in the inbox by then. Errors: `TimeoutError` where a copier has any.
        """
        ...


def fail_to_begin(items: Iterable[object], inbox: Inbox, rank: int) -> None:
    """Of these effects, work that can't be handed out has failed (I20): no worker of its rank will begin it."""
    for item in items:
        if isinstance(item, Work):
            why = Failure(-1, int(Code.PEER_LOST), STAGES[item.kind], message=f"no worker of rank {rank} was given it")
            inbox.put(Report(item.token, Outcome.FAILED, (why,)))


def encoded(rank: int, incarnation: int, items: Sequence[DownItem], inbox: Inbox) -> tuple[list[bytes], str]:
    """Messages of these items, in their order, and a sentence if some of them are lacking. One message, if they fit.

    An effect that no message can carry (a key that is too long) has failed like any that could not be handed out.
    """
    try:
        return [encode_down(rank, incarnation, items)], ""
    except CodecError:
        good, sentence = [], ""
    for item in items:
        try:
            encode_down(rank, incarnation, [item])
            good.append(item)
        except CodecError as problem:
            sentence = f"rank {rank} was not sent all of its work: {problem}"
            fail_to_begin([item], inbox, rank)
    return _messages(rank, incarnation, good), sentence


def _messages(rank: int, incarnation: int, items: Sequence[DownItem]) -> list[bytes]:
    """Of items each of which fits into a message by itself: what a large pool recovers is too long for one."""
    try:
        return [encode_down(rank, incarnation, items)] if items else []
    except CodecError:
        half = len(items) // 2
        return [*_messages(rank, incarnation, items[:half]), *_messages(rank, incarnation, items[half:])]


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
        self.lost = ""
        """Nothing, ever: it is in this very process."""
        self._troubles: list[str] = []
        self._keepers: dict[str, Keeper] = {
            name: copier for name, copier in self.copiers.items() if isinstance(copier, Keeper)
        }
        self._found = [keeper.found() for keeper in self._keepers.values()]

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
            elif isinstance(effect, Undo | Adopt | Sweep):
                self._keep(effect)

    def step_retired(self, step: int) -> None:
        """This compute step and all before it are over: hand out what waited for them."""
        self.retired = max(self.retired, step)
        ready = [work for work in self.waiting if work.after_step <= self.retired]
        self.waiting = [work for work in self.waiting if work.after_step > self.retired]
        for work in ready:
            self._submit(work)

    def probe(self, token: Token) -> str:
        """As `Link.probe`, at once: the word of whichever copier has the part."""
        if any(work.token == token for work in self.waiting):
            return "waiting"
        for copier in self.copiers.values():
            with suppress(Exception):
                if (found := copier.probe(token)) is not Progress.UNKNOWN:
                    return found.value
        return Progress.UNKNOWN.value

    @property
    def troubles(self) -> list[str]:
        """What copiers could not do with what they keep, a sentence each; some do it in a thread, and say so later.
        Whoever tells them takes them out.
        """
        for keeper in self._keepers.values():
            with suppress(Exception):
                self._troubles += keeper.take_troubles()
        return self._troubles

    def take_found(self) -> list[Found]:
        """As `Link.take_found`."""
        taken, self._found = self._found, []
        return taken

    def fence(self, within: float | None = None) -> Iterator[tuple[str, int]]:
        """As `Link.fence`. Work that still waits for its step was never given to a copier, so a fence says nothing of
        it: the proof reaches up to the oldest of that. `within` is for copiers that can do with so many seconds.
        """
        for name, copier in self.copiers.items():
            unsent = [work.token.serial - 1 for work in self.waiting if work.copier == name]
            proved = copier.fence() if within is None else cast("Patient", copier).fence(within)
            yield name, min((proved, *unsent))

    def _submit(self, work: Work) -> None:
        """Start the part; one that can't start has failed, and says so like every other (I20, I22)."""
        try:
            self.copiers[work.copier].submit(work)
        except Exception as error:
            failure = from_exception(error, stage=STAGES[work.kind])
            self.inbox.put(Report(work.token, outcome_of([failure], proved=True), (failure,)))

    def _keep(self, effect: Undo | Adopt | Sweep) -> None:
        """Pass on what is about objects; what that raises is a trouble, and so is a copier that keeps none."""
        try:
            keeper = self._keepers[effect.copier]
            match effect:
                case Undo():
                    keeper.undo(effect)
                case Adopt():
                    keeper.adopt(effect)
                case _:
                    keeper.sweep(effect)
        except Exception as error:
            what = type(effect).__name__.lower()
            self._troubles.append(f"copier {effect.copier} could not {what}: {type(error).__name__}: {error}")

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
