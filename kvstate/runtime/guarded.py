"""The requests of a `KVRuntime`: those of the ledger, for one thread of one process, while the runtime is open."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from kvstate.machines.adaptive import Adaptive
from kvstate.machines.books import MakePolicy
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Hold, Outcome, Report, Token, Unhold
from kvstate.machines.policy import LRU
from kvstate.machines.verdicts import Closed, Freed, Given, Grant, Hit, LoadVerdict, Refusal, Short, Started, Stored
from kvstate.runtime.engine import Engine, Poll
from kvstate.runtime.hints import size
from kvstate.runtime.notes import Notes
from kvstate.runtime.offers import Offers
from kvstate.runtime.recovery import Recovery
from kvstate.runtime.settings import PolicyChoice, RuntimeConfig
from kvstate.tiering import Tiering
from kvstate.trace.observer import Observer
from kvstate.wire import Probed

T = TypeVar("T")
_EVICTS: Final[Mapping[PolicyChoice, MakePolicy]] = {PolicyChoice.ADAPTIVE: Adaptive, PolicyChoice.LRU: LRU}


class RuntimeUseError(RuntimeError):
    """A call that nobody may make: from another thread or a forked child, or after the shutdown. Nothing was done."""


class Requests(Offers):
    """What a scheduler asks. Each answer and each refusal is the ledger's: see the method of the same name there.

    All of it is for the thread that made the runtime. Whoever listens hears of a request when it has been answered.

    Errors: `RuntimeUseError` from every method, for another thread, for another process, and after the shutdown.
    """

    def __init__(self, config: RuntimeConfig) -> None:
        self.config = config
        """What it was told."""
        self.ledger = Ledger(config.ledger, policy=_EVICTS[config.policy])
        """For looking: `rest`, `fired`, `fatal`, `books`. Requests go through the runtime."""
        self.notes = Notes(config, self.ledger)
        """The ring, and what is written of it."""
        self.listeners: list[Observer] = self.notes.listeners
        """Told of requests, and of all that passes through the engine; add metrics or a log of your own."""
        self.tiering = Tiering(self.ledger, config.tiers, self)
        """What is stored where, as the settings say; `counts` has what became of it."""
        self.engine: Engine
        """The loop below."""
        self._probed: list[Probed] = []
        self._pid = os.getpid()
        self._thread = threading.get_ident()
        self._over = ""

    @property
    def recovered(self) -> Mapping[str, Recovery]:
        """What was taken in of each durable pool, the last time that it was: at the start, or after a lost rank."""
        return self.engine.recoveries.done

    def open(self, namespace: str) -> int | Refusal:
        """As `Ledger.open`, in a namespace that the settings name, if they name any."""
        self._enter("open")
        if self.config.namespaces and namespace not in self.config.namespaces:
            return Refusal(f"there is no namespace {namespace!r} here; there are {', '.join(self.config.namespaces)}")
        lease = self.ledger.open(namespace)
        return self._told("open", lease, lease=lease)

    def lookup(self, lease: int, keys: Sequence[bytes]) -> Hit | Refusal:
        """As `Ledger.lookup`: pinned, or pending, or what is missing is a miss."""
        self._enter("lookup")
        return self._told("lookup", self.ledger.lookup(lease, keys), lease=lease, keys=size(keys))

    def lookup_groups(self, lease: int, lists: Sequence[Sequence[bytes]]) -> Hit | Refusal:
        """As `Ledger.lookup_groups`, where the model has KV groups."""
        self._enter("lookup_groups")
        hit = self.ledger.lookup_groups(lease, lists)
        counts = [] if isinstance(hit, Refusal) else [len(keys) for keys in lists]
        return self._told("lookup_groups", hit, lease=lease, keys=counts)

    def unpin(self, hit: Hit) -> bool | Refusal:
        """As `Ledger.unpin`."""
        self._enter("unpin")
        return self._told("unpin", self.ledger.unpin(hit), lease=getattr(hit, "lease", 0))

    def allocate(self, lease: int, count: int) -> Grant | Short | Refusal:
        """As `Ledger.allocate`."""
        self._enter("allocate")
        return self._told("allocate", self.ledger.allocate(lease, count), lease=lease, blocks=count)

    def load(
        self, lease: int, hit: Hit, into: Sequence[BlockRef], *, deadline: float | None = None
    ) -> Started | Refusal:
        """As `Ledger.load`; `load_for` seconds of the settings where no deadline is given."""
        self._enter("load")
        until = self.ledger.books.now + self.config.load_for if deadline is None else deadline
        load = self.ledger.load(lease, hit, into, deadline=until)
        begun = {"load": load.load, "tokens": hit.tokens} if isinstance(load, Started) else {}
        return self._told("load", load, lease=lease, **begun)

    def offload(
        self,
        lease: int,
        blocks: Sequence[BlockRef],
        *,
        pool: int = 1,
        deadline: float | None = None,
        keys: Sequence[bytes] | None = None,
        group: int | None = None,
    ) -> Stored | Refusal:
        """As `Ledger.offload`."""
        self._enter("offload")
        job = self.ledger.offload(lease, blocks, pool=pool, deadline=deadline, keys=keys, group=group)
        return self._told("offload", job, lease=lease, pool=pool, job=job.job if isinstance(job, Stored) else 0)

    def store(
        self,
        lease: int,
        blocks: Sequence[BlockRef],
        *,
        deadline: float | None = None,
        keys: Sequence[bytes] | None = None,
        group: int | None = None,
    ) -> Stored | None:
        """As `Tiering.sealed`: `offload`, to where the settings say, and as far as they go."""
        self._enter("store")
        return self.tiering.sealed(lease, blocks, deadline=deadline, keys=keys, group=group)

    def promote(self, verdict: LoadVerdict, hit: Hit, into: Sequence[BlockRef]) -> int:
        """As `Tiering.loaded`: what a load brought from far below is stored in the tiers between."""
        self._enter("promote")
        return self.tiering.loaded(verdict, hit, into)

    def seal(
        self, lease: int, blocks: Sequence[BlockRef], keys: Sequence[bytes], *, group: int | None = None
    ) -> tuple[bool, ...] | Refusal:
        """As `Ledger.seal`."""
        self._enter("seal")
        return self._told("seal", self.ledger.seal(lease, blocks, keys, group=group), lease=lease, blocks=size(blocks))

    def release(self, lease: int, blocks: Sequence[BlockRef]) -> Closed | Refusal:
        """As `Ledger.release`."""
        self._enter("release")
        return self._told("release", self.ledger.release(lease, blocks), lease=lease, blocks=size(blocks))

    def finish(self, lease: int) -> Closed | Refusal:
        """As `Ledger.finish`."""
        self._enter("finish")
        return self._told("finish", self.ledger.finish(lease), lease=lease)

    def abort(self, lease: int) -> Closed | Refusal:
        """As `Ledger.abort`; what the lease has offered to peers is withdrawn, as by `preempt` and not by `finish`."""
        self._enter("abort")
        return self._told("abort", self._not_wanted(lease, self.ledger.abort(lease)), lease=lease)

    def preempt(self, lease: int) -> Closed | Refusal:
        """As `Ledger.preempt`."""
        self._enter("preempt")
        return self._told("preempt", self._not_wanted(lease, self.ledger.preempt(lease)), lease=lease)

    def cancel(self, number: int) -> bool | Refusal:
        """As `Ledger.cancel`."""
        self._enter("cancel")
        return self._told("cancel", self.ledger.cancel(number), work=number)

    def hold(self, lease: int, blocks: Sequence[BlockRef], *, deadline: float) -> Token | Refusal:
        """As `Ledger.hold`; the token is reported like any other, in a message of the embedder's own."""
        self._enter("hold")
        return self._told("hold", self.ledger.hold(lease, blocks, deadline=deadline), lease=lease, blocks=size(blocks))

    def let_go(self, token: Token) -> None:
        """What `hold` gave this token for touches its blocks no more."""
        self._enter("let_go")
        self.engine.inbox.put(Report(token, Outcome.DONE))

    def foreign_allocated(self, ids: Sequence[int]) -> Given | Refusal:
        """As `Ledger.foreign_allocated`, where the device pool is the engine's own."""
        self._enter("foreign_allocated")
        return self._told("foreign_allocated", self.ledger.foreign_allocated(ids), blocks=size(ids))

    def foreign_reused(self, ids: Sequence[int]) -> Given | Refusal:
        """As `Ledger.foreign_reused`."""
        self._enter("foreign_reused")
        return self._told("foreign_reused", self.ledger.foreign_reused(ids), blocks=size(ids))

    def foreign_freed(self, blocks: Sequence[BlockRef]) -> Freed | Refusal:
        """As `Ledger.foreign_freed`."""
        self._enter("foreign_freed")
        return self._told("foreign_freed", self.ledger.foreign_freed(blocks), blocks=size(blocks))

    def drain(self) -> bool | Refusal:
        """As `Ledger.drain`: no new work, and jobs are called off. `shutdown` does it, too."""
        self._enter("drain")
        return self._told("drain", self.ledger.drain())

    def rest(self) -> list[str]:
        """As `Ledger.rest`: what is under way, a sentence each."""
        self._enter("rest")
        return self.ledger.rest()

    def reset(self) -> int | Refusal:
        """As `Ledger.reset`. Copiers of this process have taken their objects away when this returns; others are told
        so by the next effects.
        """
        self._enter("reset")
        dropped = self._told("reset", self.ledger.reset())
        self._void()
        self.engine.pump()
        return dropped

    def step_dispatched(self, step: int, leases: Sequence[int]) -> bool | Refusal:
        """As `Ledger.step_dispatched`: BEFORE the step's kernels are queued."""
        self._enter("step_dispatched")
        return self._told("step_dispatched", self.engine.step_dispatched(step, leases), step=step, leases=size(leases))

    def step_retired(self, step: int) -> bool | Refusal:
        """As `Ledger.step_retired`: AFTER the step's kernels are over, on every rank."""
        self._enter("step_retired")
        return self._told("step_retired", self.engine.step_retired(step), step=step)

    def fence(self, rank: int | None = None) -> int:
        """Have all copies proved over, of one rank or of all; returns how many parts that ended.

        It blocks, but for workers of the embedder's: those are only asked, and what they answer is heard in a poll.
        Errors: `TimeoutError` for a worker that does not answer.
        """
        self._enter("fence")
        return self._told("fence", self.engine.fence(rank), rank=rank)

    def probe(self, token: Token) -> bool:
        """Ask what the copiers know of a part, given up or not. The answer is in this or a later `Done.probed`, or
        never comes; `over` there says that it touches memory no more, and nothing of how it ended. False for a token
        that no part has now.
        """
        self._enter("probe")
        books = self.ledger.books
        if books.tokens.get(token.serial) is None or token.incarnation != self.config.ledger.incarnation:
            return False
        answer = self.engine.links[books.parts[books.tokens[token.serial]].rank].probe(token)
        self._probed += [] if answer is None else [Probed(token, answer)]
        return True

    def take_holds(self) -> list[Hold | Unhold]:
        """What an engine with an allocator of its own has to do with its free list, in order; to be done at once."""
        self._enter("take_holds")
        self.engine.pump()
        taken, self.engine.holds = self.engine.holds, []
        return taken

    def explain(self, *, block: int | None = None, work: int | None = None, lease: int | None = None) -> str:
        """As `Ledger.explain`."""
        self._enter("explain")
        return self.ledger.explain(block=block, work=work, lease=lease)

    def _turn_of_tiers(self, done: Poll) -> None:
        """Tell the tiers what has been stored, and have them write back; what that asks for goes out at once."""
        for job in done.jobs:
            self.tiering.told(job)
        self.tiering.turn()
        if self.ledger.books.effects:
            self.engine.pump()

    def _told(self, name: str, answer: T, /, **values: Any) -> T:
        """Tell the listeners, and pass the answer on. Of what was refused the reason: its values may be nonsense."""
        if self.listeners:
            if isinstance(answer, Refusal):
                values = {"refused": answer.reason}
            elif isinstance(answer, Short):
                values |= {"free": answer.free, "draining": answer.draining, "quarantined": answer.quarantined}
            self.notes.tell(name, answer, **values)
        return answer

    def _enter(self, what: str) -> None:
        """Errors: `RuntimeUseError` for a caller that may not call this now."""
        if os.getpid() != self._pid:
            raise RuntimeUseError(
                f"{what}: the runtime was made in process {self._pid}, and this is {os.getpid()}, a fork of it; its "
                "threads and pipes stayed behind. Make a runtime here, or start workers by spawn"
            )
        if threading.get_ident() != self._thread:
            raise RuntimeUseError(
                f"{what}: the runtime belongs to the thread that made it; another may call `report`, and nothing else"
            )
        if self._over:
            raise RuntimeUseError(f"{what}: {self._over}")
