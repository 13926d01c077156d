"""The same engine with asynchronous scheduling: a step is scheduled while the one before it still runs.

vLLM's `EngineCore.step_with_batch_queue` keeps two steps in its queue. The worker's side of a step comes when its
kernels are launched; what it brings up is told to the scheduler when the step has ended, in order. In between the
scheduler goes on: requests end and give their blocks back while kernels write them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from vllm.v1.core.sched.async_scheduler import AsyncScheduler

from kvstate.integrations.vllm.stock import Life, Stock
from kvstate.integrations.vllm.stock_engine import OTHER, STOP, StockEngine
from kvstate.testing.adapter import Copier, Report, Scope

DEPTH = 2
"""Steps in vLLM's queue, at most."""


@dataclass(eq=False, slots=True)
class Batch:
    """A step that was launched: what its end will tell the scheduler."""

    output: Any
    """What the scheduler has sent down."""
    told: Any
    """What the worker's side of the connector brings up."""
    token: int
    """What each of its requests samples."""
    step: int | None
    """The kit's number of it; None if the kit has not asked for it, and it ends as soon as those before it have."""


class AheadEngine(StockEngine):
    """See the module."""

    ahead: ClassVar[bool] = True
    kind: ClassVar[Any] = AsyncScheduler

    def __post_init__(self) -> None:
        super().__post_init__()
        self.queue: deque[Batch] = deque()
        assert self.scheduler.defer_block_free, "vLLM schedules ahead with blocks that are freed late"

    @property
    def full(self) -> bool:
        """Has the next step to wait until one has ended?"""
        return len(self.queue) >= DEPTH

    def finish(self, output: Any, token: int = OTHER, step: int | None = None) -> None:
        """The kernels are launched; the scheduler hears of it when the step has ended."""
        if step is not None:
            self.worker.launched = step
        self.queue.append(Batch(output, self.collect(output), token, step))
        self._drain()

    def retired(self, step: int) -> None:
        """A step of the kit's has ended."""
        for batch in self.queue:
            if batch.step == step:
                batch.step = None
        self._drain()

    def _drain(self) -> None:
        while self.queue and self.queue[0].step is None:
            batch = self.queue.popleft()
            self.update(batch.output, batch.told, batch.token)

    def stops(self, request: Any) -> bool:
        """Let the newest step under way that the request is in sample its stop token; False if it is in none.

        An older one may be of its life before a preemption: what that samples is dropped.
        """
        for batch in reversed(self.queue):
            if request.request_id in batch.output.num_scheduled_tokens:
                batch.token = STOP
                return True
        return False


class StockAhead(Stock):
    """See the module. Nothing goes wrong but the order of events."""

    steps: ClassVar[bool] = True
    faults: ClassVar[Sequence[str]] = ()

    def __init__(self, scope: Scope, copier: Copier) -> None:
        super().__init__(scope, copier)
        self.engine: AheadEngine = AheadEngine(scope, copier)

    def admit(self, request: str, keys: Sequence[str]) -> bool:
        """As `Stock.admit`, if another step can be scheduled."""
        return not self.engine.full and super().admit(request, keys)

    def compute(self, request: str, step: int) -> None:
        """Launch what was begun for it; if there is nothing, it decodes another token."""
        life = self.lives[request]
        output, life.begun = life.begun, None
        if output is None and not self.engine.full:
            output = self.engine.begin(*self._chosen(life))
        if output is not None:
            self.engine.finish(output, step=step)
        life.ready = [True] * len(life.keys)
        self._resume()

    def retired(self, step: int) -> None:
        """Its tokens have come up, and what its worker's side had to tell."""
        self.engine.retired(step)
        self._go_on()

    def _decode(self, life: Life, token: int = OTHER) -> None:
        if not self.engine.full:
            super()._decode(life, token)

    def finish(self, request: str) -> None:
        """A step that it is in turns out to have sampled its stop token, or the next one does."""
        life = self.lives[request]
        if self.engine.stops(life.request):
            del self.lives[request]
        elif self.engine.full:
            self.abort(request)
        else:
            super().finish(request)

    def reset(self) -> None:
        """As `Stock.reset`, with a step after it."""
        if not self.engine.full:
            super().reset()

    def on_report(self, report: Report) -> None:
        """vLLM's worker hears of it in the next step."""
        self.engine.worker.heard(report)
        self._go_on()

    def tick(self, now: float) -> None:
        """As `Stock.tick`."""
        if not self.engine.queue:
            super().tick(now)

    def _go_on(self) -> None:
        if not self.engine.full:
            self.engine.step()
        self._resume()

    def _resume(self) -> None:
        if not self.engine.full:
            super()._resume()


class StockAheadResets(StockAhead):
    """A reset takes the running requests with it, as after an update of the weights; they come again afterwards.

    While something is loaded it is not asked for: vLLM says itself that it does not support that.
    """

    def reset(self) -> None:
        """With `reset_running_requests`."""
        if self.engine.loads:
            return
        self.engine.reset(running=True)
        self.queued |= {name: life.request for name, life in self.lives.items()}
        self.lives.clear()
        self._go_on()
