"""vLLM's own KV offload as an engine of the conformance kit: what is broken here is broken in vLLM.

    kvstate fuzz --adapter kvstate.integrations.vllm:StockFailed

Each class is the same engine and differs in what may go wrong around it. `Stock` meets nothing but the order of
events, and keeps every law; the others have one thing more, and each shows what that one alone leads to.

The kit's words and vLLM's: a key is a full block of a prompt, the last key of a request the block that it goes on
writing and never shares. `offload` is one more step of decoding, since vLLM stores without being asked. A request that
is not admitted stays in vLLM's queue, and is looked at again when the kit says so. See `docs/vllm-stock.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from vllm.v1.request import RequestStatus

from kvstate.integrations.vllm.stock_engine import OTHER, STOP, TOKENS, StockEngine
from kvstate.testing.adapter import NONE, Adapter, Copier, Free, Report, Scope, View

IDLE = 4
"""So many steps without a request are enough for what vLLM puts off."""


@dataclass(eq=False, slots=True)
class Life:
    """One life of a request in the kit: the request of vLLM's, and a step that was begun for it and not finished."""

    request: Any
    keys: tuple[str, ...]
    begun: Any = None
    ready: list[bool] = field(default_factory=list)
    loading: frozenset[int] = frozenset()
    """The blocks that its load fills."""

    @property
    def waiting(self) -> bool:
        """Does vLLM hold it back for a load?"""
        return bool(self.request.status == RequestStatus.WAITING_FOR_REMOTE_KVS)

    @property
    def room(self) -> bool:
        """Can it decode another token into the blocks that it has?"""
        coming = self.request.num_output_placeholders
        return bool(self.request.num_tokens + coming < len(self.keys) * TOKENS)


class Stock(Adapter):
    """See the module. Nothing goes wrong: every copy works and is reported once. After a reset comes a step."""

    eager: ClassVar[bool] = True
    resets: ClassVar[bool] = True
    faults: ClassVar[Sequence[str]] = ()

    def __init__(self, scope: Scope, copier: Copier) -> None:
        self.engine = StockEngine(scope, copier)
        self.lives: dict[str, Life] = {}
        self.queued: dict[str, Any] = {}
        """Requests that vLLM has in its queue and that the kit has not brought back yet."""

    # -- the scheduler -------------------------------------------------------------------------------------------------

    def admit(self, request: str, keys: Sequence[str]) -> bool:
        """Queue it, and schedule a step for it: it is computed in this step, or waits for a load, or is left queued."""
        promised = self._promised()
        if promised and self.engine.free_blocks() - promised < len(keys):
            return False  # a router in front of vLLM does not send what would take the blocks of those that load
        queued = self.queued.pop(request, None) or self.engine.arrive(request, keys)
        life = Life(queued, tuple(keys))
        if not self._begin(life):
            self.queued[request] = queued
            return False
        self.lives[request] = life
        return True

    def _begin(self, life: Life) -> bool:
        """Schedule a step for it; True if it is in the step, or loads."""
        output = self.engine.begin(life.request)
        if life.request.request_id in output.num_scheduled_tokens:
            news = [*output.scheduled_new_reqs]
            cached = output.scheduled_cached_reqs
            known = {new.req_id: new.num_computed_tokens for new in news}
            known |= dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
            computed = known[life.request.request_id] // TOKENS
            life.begun, life.loading = output, frozenset()
            life.ready = [place < computed for place in range(len(life.keys))]
            return True
        for job in output.kv_connector_metadata.load_jobs.values():
            if job.req_id == life.request.request_id:
                life.loading = frozenset(int(block) - 1 for block in job.dst_spec.block_ids)
        self.engine.finish(output)
        return life.waiting

    def view(self, request: str) -> View | None:
        """vLLM's table; while it loads, what is there already counts as ready."""
        life = self.lives.get(request)
        if life is None:
            return None
        blocks = self.engine.table(life.request)[: len(life.keys)]
        if life.waiting:
            table = tuple(NONE if block in life.loading else block for block in blocks)
            return View(table, tuple(block != NONE for block in table), waiting=True)
        if life.request.status != RequestStatus.RUNNING:
            return None  # vLLM has preempted it by itself, or ended it with an error
        return View(tuple(blocks), tuple(life.ready))

    def compute(self, request: str, step: int) -> None:  # noqa: ARG002, a step of vLLM's ends at once here
        """Finish the step that was begun for it; if there is none, it decodes another token."""
        life = self.lives[request]
        output, life.begun = life.begun, None
        if output is None:
            self._decode(life)
        else:
            self.engine.finish(output)
        life.ready = [True] * len(life.keys)
        self._resume()

    def _decode(self, life: Life, token: int = OTHER) -> None:
        self.engine.step(*self._chosen(life), token=token)

    @staticmethod
    def _chosen(life: Life) -> tuple[Any, ...]:
        return (life.request,) if not life.waiting and life.room else ()

    def offload(self, request: str) -> None:
        """One more step: what was stored in the step before is submitted in this one."""
        self._decode(self.lives[request])
        self._resume()

    def finish(self, request: str) -> None:
        """It samples its stop token."""
        life = self.lives.pop(request)
        if life.room:
            self._decode(life, STOP)
        else:
            self.engine.end(life.request)
        for _ in range(IDLE):
            if self.engine.put_off():
                self._go_on()
        self._resume()

    def abort(self, request: str) -> None:
        """Its client has gone, wherever it is."""
        life = self.lives.pop(request, None)
        gone = life.request if life is not None else self.queued.pop(request, None)
        if gone is not None:
            self.engine.end(gone)

    def preempt(self, request: str) -> None:
        """Back to the queue; vLLM does not preempt whoever loads, so that one is aborted."""
        life = self.lives[request]
        if life.waiting:
            self.abort(request)
            return
        del self.lives[request]
        self.engine.preempt(life.request)
        self.queued[request] = life.request

    def reset(self) -> None:
        """Of the prefix cache and of the connector's."""
        self.engine.reset()
        self._go_on()

    # -- the world -----------------------------------------------------------------------------------------------------

    def on_report(self, report: Report) -> None:
        """vLLM's worker hears of it in the next step, and the scheduler at the end of that."""
        self.engine.worker.heard(report)
        self._go_on()

    def tick(self, now: float) -> None:  # noqa: ARG002, vLLM has no deadlines here
        """The engine goes on while it has something to do."""
        for _ in range(IDLE):
            if self.engine.scheduler.has_requests():
                self.engine.step()
        self._resume()

    def _go_on(self) -> None:
        self.engine.step()
        self._resume()

    def _resume(self) -> None:
        """Whoever has loaded is scheduled; one at a time, since its step has to be computed first."""
        for life in self.lives.values():
            if life.waiting and self.engine.loaded(life.request):
                self._begin(life)
                return

    # -- what can be seen ----------------------------------------------------------------------------------------------

    def _promised(self) -> int:
        """Blocks that those who load will need once they have loaded."""
        return sum(
            len(life.keys) - len(self.engine.table(life.request)) for life in self.lives.values() if life.waiting
        )

    def free(self) -> Free:
        """What the pool and the manager can give out."""
        return Free(max(self.engine.free_blocks() - self._promised(), 0), self.engine.free_slots())

    def index(self) -> Mapping[str, int]:
        """What the manager would call a hit."""
        return {key: slot for key, (slot, ready) in self.engine.chunks().items() if ready}

    def close(self) -> Sequence[str]:
        """Shut down; vLLM says nothing of what is left."""
        self.engine.close()
        return ()


class StockResets(Stock):
    """A reset may follow a reset: two calls that both arrive while a step runs are handled before the next one."""

    def reset(self) -> None:
        """As `Stock.reset`, without the step."""
        self.engine.reset()


class StockFailed(Stock):
    """A copy may fail, and say so."""

    faults: ClassVar[Sequence[str]] = ("failed",)


class StockRefused(Stock):
    """The call that submits a copy may raise."""

    faults: ClassVar[Sequence[str]] = ("refused",)


class StockTwice(Stock):
    """A report may come twice. vLLM's own worker never does that; one that a spec brings along may."""

    faults: ClassVar[Sequence[str]] = ("twice",)


class StockLost(Stock):
    """A report may be lost."""

    faults: ClassVar[Sequence[str]] = ("lost",)


class StockCorrupt(Stock):
    """Bytes in host memory may go bad."""

    faults: ClassVar[Sequence[str]] = ("corrupt",)
