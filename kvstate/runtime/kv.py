"""What a serving engine embeds: ledger, engine and workers of one runtime behind one object.

    for message in worker_messages:
        kv.report(message)                    any thread: bytes from a worker; total, never raises
    done = kv.poll(max_reports=512)           reports in, the clock, effects out; bounded, never waits
    for loss in done.lost: ...                a rank is gone: these leases are over, their requests begin anew
    for verdict in done.verdicts: ...         how loads ended
    ...                                       open, lookup, allocate, load; see `kvstate.runtime.guarded`
    kv.step_dispatched(n, leases)             BEFORE the step's kernels are queued
    workers.send(kv.take_effects())           bytes, a message a rank; in front of the step that they are for
    kv.step_retired(m)                        AFTER the step is over, on every rank

`docs/embedding.md` takes it apart, and a test runs what stands there. Everything but `report` is for the thread that
made the runtime. Nothing starts at import, and workers of ours are started by `spawn`, so a script that makes a runtime
with processes does it under `if __name__ == "__main__":`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from kvstate.codec import CodecError
from kvstate.machines.config import ENGINE
from kvstate.machines.messages import Report, Token
from kvstate.runtime.answers import Copiers, Done, Left, Told, end_all, parts_of, prove_closed
from kvstate.runtime.clock import Clock, RealClock
from kvstate.runtime.dispatcher import Dispatcher, Link
from kvstate.runtime.engine import Engine
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.offers import make_handoffs
from kvstate.runtime.outbox import Outbox
from kvstate.runtime.processes import ProcessLink
from kvstate.runtime.ranked import TURN_SECONDS, Ranked
from kvstate.runtime.settings import RuntimeConfig, Workers
from kvstate.runtime.standard import copiers_of, memory_of
from kvstate.wire import decode_up

if TYPE_CHECKING:
    from kvstate.runtime.memory import Memory

CLOSE_SECONDS: Final = 5.0
"""For copiers and processes to end, where nobody says how long."""


class KVRuntime(Ranked):
    """See the module. `with KVRuntime(config) as kv:` ends threads and processes in any case.

    Errors: `RuntimeUseError` as in `Requests`. Making one raises `ValueError` for copiers that do not fit the settings,
    and what pools, copiers and processes raise when they are made; nothing is left running then.
    """

    def __init__(
        self,
        config: RuntimeConfig,
        *,
        copiers: Sequence[Copiers] | None = None,
        inbox: Inbox | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`copiers`, one mapping a rank, all of which report to `inbox`, are for an engine that has its tensors and
        copiers in this process; without them the runtime makes pools and copiers as `config` says.
        """
        super().__init__(config)
        self.inbox = Inbox() if inbox is None else inbox
        """Where reports wait for the next poll."""
        self.copiers: tuple[Copiers, ...] = ()
        """Of the ranks of this process."""
        self.memories: tuple[Memory, ...] = ()
        """Of these ranks, where the runtime has made the pools."""
        self._clock = Told(clock or RealClock())
        ranks, links = range(config.ledger.ranks), list[Link]()
        try:
            if config.workers is Workers.OWN:
                links += [Outbox(rank, 1, self.inbox) for rank in ranks]
            elif config.workers is Workers.PROCESSES:
                for rank in ranks:
                    links.append(self._process(rank, 1))
            else:
                for one in self._made() if copiers is None else copiers:
                    self.copiers += (one,)  # at once, so that it is closed if the next can't be made
                    links.append(Dispatcher(one, self.inbox))
            if copiers is not None and (config.workers is not Workers.THREADS or inbox is None):
                raise ValueError(
                    'copiers of this process go with workers = "threads" and the inbox that they report to'
                )
            self.engine = Engine(self.ledger, links, self.inbox, self._clock)
            self.engine.listeners, self.engine.crash = self.listeners, self.notes.crash
            self.engine.recover()
            self.handoffs, self._link = make_handoffs(self)
        except BaseException:
            self.notes.close()
            end_all(links, self.copiers, CLOSE_SECONDS)
            raise

    def _made(self) -> Iterator[Copiers]:
        for rank in range(self.config.ledger.ranks):
            self.memories += (memory_of(self.config),)
            yield copiers_of(self.config, self.inbox, self.memories[rank], rank)

    # -- the loop ------------------------------------------------------------------------------------------------------

    def report(self, message: bytes | bytearray | memoryview) -> None:
        """Take a message of a worker, from any thread. Total: what can't be read is a trouble of the next poll, which
        says the same once; an empty one says nothing.
        """
        if message == b"":
            return
        try:
            up = decode_up(message)
        except CodecError as problem:
            self._troubles.tell(f"a message of a worker could not be read: {problem}")
            return
        for item in up.items:
            if isinstance(item, Report):
                self.inbox.put(item)
        self._up.append(up)
        self.inbox.wake()

    def poll(self, now: float | None = None, max_reports: int = 512) -> Done:
        """One turn: hear at most `max_reports` reports, tell the time, hand out effects. Never waits, never raises.

        A turn in which a process of ours is found dead starts another one, which takes some ten milliseconds.
        `now` is in seconds on a clock of the embedder's, the one of all deadlines; given always, or never.
        """
        self._enter("poll")
        self._clock.told = now
        early = self._turn_of_peers()
        done = self.engine.poll(max_reports)
        self._turn_of_tiers(done)
        news = early.and_then(self._turn_of_peers())
        self._answered()
        for loss in done.lost:
            self._restart(loss.rank)
        for link in self.engine.links:
            if isinstance(link, ProcessLink):
                self._probed += [link.probed.popleft() for _ in range(len(link.probed))]
            while isinstance(link, ProcessLink | Outbox | Dispatcher) and link.troubles:
                self._troubles.tell(link.troubles.pop(0))
        told = self.notes.turn(done, self._troubles)
        probed, self._probed = tuple(self._probed), []
        return Done(
            done.lost, done.loads, done.jobs, done.settled, probed, told, done.fatal, done.reports, done.recovered,
            *news,
        )  # fmt: skip

    def now(self) -> float:
        """The time that deadlines are counted on, in seconds."""
        return self._clock.now()

    def wait(self, seconds: float) -> bool:
        """Sleep until something has come for the next poll, so long at most; says whether a report has."""
        self._enter("wait")
        return self.inbox.wait(seconds, lambda: bool(self._up) or (self.handoffs is not None and self.handoffs.rung))

    def take_effects(self) -> dict[int, bytes]:
        """Hand out what the requests since the last turn asked for.

        Returns a message for each rank that the embedder has the channel to, in its order and to be sent before the
        step that it is for; empty where the runtime has the workers itself.
        """
        self._enter("take_effects")
        self.engine.pump()
        boxes = [link for link in self.engine.links if isinstance(link, Outbox)]
        return {box.rank: message for box in boxes if (message := box.take())}

    # -- the end -------------------------------------------------------------------------------------------------------

    def shutdown(self, within: float) -> Left:
        """Take no new work, close what is open, let copies end for so many seconds, and end threads and processes.

        Steps that are under way are to be retired first. With workers of the embedder's, say `drain`, exchange messages
        until `rest` is empty, and then this. Says what was left; the runtime is over in any case.
        """
        self._enter("shutdown")
        end, self._closing = monotonic() + within, True
        self._drain(end)
        tokens = self._close(max(0.0, end - monotonic()))
        prove_closed(self.engine, tokens)
        sentences = tuple(self.ledger.rest())
        self.ledger.shut()
        self.notes.close()
        blocks = sorted({block for part in parts_of(self.ledger, tokens) for block in (*part.reads, *part.writes)})
        return Left(sentences, tokens, tuple(blocks))

    def close(self) -> None:
        """End threads and processes now; for the way out after an error. May be called again, and after a shutdown."""
        if self._over or os.getpid() != self._pid:
            return
        self._enter("close")
        self._close(CLOSE_SECONDS)
        self.notes.close()
        self._over = "the runtime was closed"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drain(self, end: float) -> None:
        """Let what is under way end by itself. A time that was told goes on from there."""
        start, told = monotonic(), self._clock.told
        for lease in tuple(self.ledger.books.leases):
            self.ledger.abort(lease)
        self.ledger.drain()
        while self.ledger.fatal is None and self.ledger.rest() and monotonic() < end:
            self.poll(None if told is None else told + monotonic() - start)
            self.inbox.wait(min(TURN_SECONDS, max(0.0, end - monotonic())))
        self.engine.pump()

    def _close(self, within: float) -> tuple[Token, ...]:
        """End what makes copies; the parts that may touch memory even now. A process that has ended touches none."""
        self._over = "the runtime was shut down"
        if self.handoffs is not None:
            self.handoffs.close()
        own = {link.rank for link in self.engine.links if isinstance(link, Outbox)}
        books = self.ledger.books
        sent = [part for part in books.parts.live() if part.rank in own and part.copier != ENGINE]
        left = [part.token for part in sent if books.parts_state[part.slot] not in books.parts.table.HOME]
        left += end_all(self.engine.links, self.copiers, within)
        for memory in () if left else self.memories:
            memory.close()
        return tuple(left)
