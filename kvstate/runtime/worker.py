"""One rank's end in another process: bytes in, copies, bytes out. It knows no ledger and no channel.

    while messages from the scheduler:
        1. worker.feed(message)              effects go to the copiers, as their steps retire
        2. send(worker.take_reports())       what came of them, and the answers to fences and probes

Whoever has the channel calls both, from one thread; copiers report from theirs. Neither call raises: what can't be read
is a `Trouble` in the next message up, a sentence that is said once.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from kvstate.codec import CodecError
from kvstate.errors import Code
from kvstate.machines.messages import Adopt, Cancel, Failure, Outcome, Report, Sweep, Token, Undo, Work
from kvstate.runtime.copiers import Copier
from kvstate.runtime.dispatcher import Dispatcher
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.tiers.keeper import in_parts
from kvstate.wire import (
    AskFence,
    AskProbe,
    Down,
    DownItem,
    Fenced,
    Probed,
    Retired,
    Trouble,
    UpItem,
    decode_down,
    encode_up,
)

MOST: Final = 4096
"""Reports of one message up."""
SENTENCES: Final = 64
"""So many troubles are told in all; a scheduler that speaks another version makes one with each message."""


class Worker:
    """The copiers of one rank, in one life of its process. See the module.

    It belongs to the thread that made it. Errors: `RuntimeError` from every method that another thread calls, and
    `ValueError` for a rank below 0 or an incarnation below 1.
    """

    def __init__(
        self,
        rank: int,
        incarnation: int,
        copiers: Mapping[str, Copier],
        inbox: Inbox,
        *,
        fence_seconds: float | None = None,
    ) -> None:
        """`copiers` by the names that `Work.copier` gives them, all of which report to `inbox`. What those that keep
        objects have found is the first thing that goes up.

        `fence_seconds` bounds each fence, where `feed` must not block for longer: what is not proved by then is told as
        a trouble. All copiers have to be `Patient` then.
        """
        if rank < 0 or incarnation < 1:
            raise ValueError(f"a worker has a rank from 0 and a life from 1 up, not {rank} and {incarnation}")
        self.rank = rank
        """Which piece of every block it holds."""
        self.incarnation = incarnation
        """Which life of this rank's process it is."""
        self.inbox = inbox
        """Where the copiers report."""
        self.dispatcher = Dispatcher(copiers, inbox)
        """What gives effects to the copiers."""
        self.fence_seconds = fence_seconds
        """So long a fence may take; None is for ever."""
        self._up: list[UpItem] = [part for found in self.dispatcher.take_found() for part in in_parts(found)]
        self._told: set[str] = set()
        self._owner = threading.get_ident()

    def feed(self, message: bytes | bytearray | memoryview) -> None:
        """Take one message of the scheduler. Total: one that can't be read is told, and nothing of it is done.

        A fence in it blocks until the copiers have answered, or for `fence_seconds`.
        """
        self._mine()
        try:
            down = decode_down(message)
        except CodecError as problem:
            self._tell(f"rank {self.rank} could not read a message: {problem}")
            return
        if self._is_mine(down):
            for item in down.items:
                self._take(item)

    def take_reports(self, most: int = MOST) -> bytes:
        """What is to be sent up now, at most `most` reports of it; empty if there is nothing."""
        self._mine()
        while self.dispatcher.troubles:
            self._tell(f"rank {self.rank}: {self.dispatcher.troubles.pop(0)}")
        self._up += self.inbox.drain(max(most - len(self._up), 0))
        taken, self._up = self._up[:most], self._up[most:]
        if not taken:
            return b""
        try:
            return encode_up(self.rank, self.incarnation, taken)
        except CodecError:
            return self._fitting([self._sendable(item) for item in taken])

    @property
    def waiting(self) -> bool:
        """Is there something to send?"""
        return bool(self._up) or bool(len(self.inbox))

    def step_retired(self, step: int) -> None:
        """This step is over on this rank: what waited for it begins now, before the scheduler has said so."""
        self._mine()
        self.dispatcher.step_retired(step)

    def close(self, within: float) -> tuple[Token, ...]:
        """Close all copiers, each within so many seconds; the tokens of parts that may touch memory even now."""
        self._mine()
        return tuple(token for copier in self.dispatcher.copiers.values() for token in copier.close(within))

    def _is_mine(self, down: Down) -> bool:
        """Was the message meant for this rank, and for this life of it? One for an earlier life is over; see `wire`."""
        if (down.rank, down.incarnation) == (self.rank, self.incarnation):
            return True
        self._tell(
            f"rank {self.rank} in its life {self.incarnation} was sent a message for rank {down.rank} in life "
            f"{down.incarnation}; nothing of it was done"
        )
        return False

    def _take(self, item: DownItem) -> None:
        match item:
            case Work() | Cancel() | Undo() | Adopt() | Sweep():
                self.dispatcher.give([item])
            case Retired():
                self.dispatcher.step_retired(item.step)
            case AskFence():
                self._fence(item.number)
            case AskProbe():
                self._up.append(Probed(item.token, self.dispatcher.probe(item.token)))

    def _fence(self, number: int) -> None:
        """Reports that are there go up before the proof: they know how a part ended, and a fence only that it did."""
        proved: list[tuple[str, int]] = []
        try:
            proved.extend(self.dispatcher.fence(self.fence_seconds))
        except Exception as error:  # a driver that can't say that it is over has proved nothing
            self._tell(f"rank {self.rank} could not be fenced: {type(error).__name__}: {error}")
        self._up += self.inbox.drain(len(self.inbox))
        self._up.append(Fenced(number, tuple(proved)))

    def _fitting(self, items: list[UpItem]) -> bytes:
        """As many of these as go into one message, the first of them; the rest comes with the next."""
        try:
            return encode_up(self.rank, self.incarnation, items)
        except CodecError:
            half = len(items) // 2
            self._up = items[half:] + self._up
            return self._fitting(items[:half])

    def _sendable(self, item: UpItem) -> UpItem:
        """The item, or, for one that no message can carry, one that says so. A part is over in any case."""
        if _fits(item):
            return item
        if not isinstance(item, Report):
            return Trouble(f"rank {self.rank}: a {type(item).__name__} is too long for any message")
        why = Failure(-1, int(Code.INTERNAL), "commit", message="its report could not be sent as it was")
        other = Report(item.token, Outcome.TIMEOUT if item.outcome == Outcome.TIMEOUT else Outcome.DENIED, (why,))
        return other if _fits(other) else Trouble(f"rank {self.rank}: a copier reported on {item.token!r}, no token")

    def _tell(self, sentence: str) -> None:
        if sentence not in self._told and len(self._told) < SENTENCES:
            self._told.add(sentence)
            self._up.append(Trouble(sentence))

    def _mine(self) -> None:
        if threading.get_ident() != self._owner:
            raise RuntimeError("the worker belongs to the thread that made it; other threads put into its inbox")


def _fits(item: UpItem) -> bool:
    """Can a message carry it?"""
    try:
        encode_up(0, 1, [item])
    except CodecError:
        return False
    return True
