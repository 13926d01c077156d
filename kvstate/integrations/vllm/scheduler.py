"""The half in the scheduler process: a ledger beside vLLM's scheduler, one call of it for each hook of vLLM's.

vLLM's blocks are the ledger's device pool, a foreign one; see `copies` for what that means. The hooks, in the order in
which a step calls them:

    matched      lookup, pinned below until the request has its blocks, or this pass of the scheduler is over
    allocated    load into them
    built        what was filled is stored; bytes for each worker
    heard        reports in, verdicts out: a load that proceeds is told to vLLM here, a failed one by the workers
    finished     the lease is closed; what is under way goes on, its blocks pinned
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from kvstate.integrations.vllm.copies import Copies
from kvstate.integrations.vllm.layout import Layout, namespace
from kvstate.integrations.vllm.lives import Life
from kvstate.integrations.vllm.messages import StepMessage, StepReport
from kvstate.integrations.vllm.pins import Pins
from kvstate.integrations.vllm.settings import Settings
from kvstate.integrations.vllm.tiers import runtime_of
from kvstate.machines.verdicts import Hit, Refusal
from kvstate.runtime.clock import Clock

_log = logging.getLogger("vllm.kvstate")

FAILURES: Final = 3
"""After so many loads that failed a request looks no further: it is computed, whatever lies below."""


class SchedulerHalf:
    """See the module. All methods are for the thread of vLLM's scheduler."""

    def __init__(self, settings: Settings, layout: Layout, *, clock: Clock | None = None) -> None:
        self.settings, self.layout = settings, layout
        self.kv = runtime_of(settings, layout, clock)
        """The ledger and its outboxes."""
        self.copies = Copies(self.kv)
        """What is under way, and what it pins."""
        self.counts = self.copies.counts
        """For metrics and the log."""
        self.lives: dict[str, Life] = {}
        """By vLLM's id of the request."""
        self._manager: Any = None
        self._step = 0
        self._told: deque[int] = deque()
        self._retired = 0
        self._recover_until: float | None = None
        self._reset = False
        """Was there one that the workers do not know of?"""

    def bind(self, manager: Any) -> None:
        """`manager` is vLLM's `KVCacheManager`."""
        self._manager = manager
        self.copies.pins = Pins(manager.block_pool)

    # -- admission -----------------------------------------------------------------------------------------------------

    def matched(self, request: Any, computed: int) -> tuple[int | None, bool]:
        """How many tokens behind the first `computed` lie below; None where it is worth asking again in the next step.

        Asked again, it begins another life: the last one was preempted, or has not been admitted.
        """
        if old := self.lives.pop(request.request_id, None):
            self.copies.end(old)
        self.copies.keep_time()
        if self.copies.broken:
            return 0, False
        if self.recovers:
            self.counts.add("lookups_pending")
            return None, False
        lease = self.kv.open(namespace(self.layout, request))
        if isinstance(lease, Refusal):
            return 0, False
        local = computed // self.layout.block_tokens
        last = max(0, request.num_tokens - 1) // self.layout.block_tokens  # the last token is computed in any case
        life = Life(request, lease, local, request.block_hashes[local:last])
        self.lives[life.id] = life
        if self.copies.failures[life.id] >= FAILURES:
            return 0, False
        hit = self._lookup(life, len(life.keys))
        if isinstance(hit, Hit) and hit.pending:
            self.counts.add("lookups_pending")
            return None, False
        if isinstance(hit, Refusal) or not hit:
            self.counts.add("lookups_missed")
            return 0, False
        self.counts.add("lookups_hit")
        life.hit = hit
        return hit.tokens, True

    def _lookup(self, life: Life, count: int) -> Hit | Refusal:
        """What of the first `count` blocks behind the local ones lies below; a group with a window needs its end."""
        keys = life.keys[:count]
        if self.layout.windows:
            return self.kv.lookup_groups(life.lease, [keys] * len(self.layout.windows))
        return self.kv.lookup(life.lease, keys)

    def allocated(self, request: Any, block_ids: Sequence[Sequence[int]], external: int) -> None:
        """The request has its blocks; those behind the local ones are to be loaded, `external` tokens of them."""
        life = self.lives.get(request.request_id)
        if life is None:
            return
        hit, life.hit = life.hit, None
        life.admitted = life.admitted or self._step + 1
        if hit is not None and hit.tokens != external:  # vLLM wants less than was found, or nothing
            self.kv.unpin(hit)
            found = self._lookup(life, external // self.layout.block_tokens)
            hit = found if isinstance(found, Hit) and found.tokens == external else None
        if external:
            why = self._load(life, hit, block_ids) if hit else f"{external} promised tokens are not there any more"
            if why:
                self.copies.give_up(life, block_ids[0][life.local :], why)

    def _load(self, life: Life, hit: Hit, block_ids: Sequence[Sequence[int]]) -> str:
        """Load the hit into the request's blocks; returns why that could not be started, or an empty text."""
        self._tell_step()
        if not self.layout.windows:
            return self.copies.load(life, hit, [int(block_ids[0][life.local + place]) for place in hit.below])
        into: dict[int, int] = {}
        for ids, span in zip(block_ids, hit.groups, strict=True):
            into |= {line: int(ids[life.local + span.first + place]) for place, line in enumerate(span.lines)}
        if any(self.copies.pins.is_null(block) for block in into.values()):
            return "vLLM has no block for a part of it"
        return self.copies.load(life, hit, [into[line] for line in hit.below])

    # -- the step ------------------------------------------------------------------------------------------------------

    def built(self, output: Any) -> StepMessage:
        """The message that goes with this step. What it fills is stored once it has retired."""
        self._step += 1
        if self.copies.broken:
            return self._message({})
        for name in output.preempted_req_ids or ():
            life = self.lives.get(name)
            if life is not None and 0 < life.admitted < self._step:  # else: admitted again since
                self.copies.end(self.lives.pop(name))
                self.counts.add("preempted")
        for name in [name for name, life in self.lives.items() if not life.admitted]:
            self.copies.end(self.lives.pop(name))  # no pin outlives the pass that made it
        tokens_per_block = self.layout.block_tokens
        for name, tokens in output.num_scheduled_tokens.items():
            life = self.lives.get(name)
            if life is not None:
                life.seen = life.request.num_computed_tokens + tokens
                if life.seen // tokens_per_block > life.offered_to:
                    self._store(life, life.seen, self._manager.get_block_ids(name))
        self.copies.fence_if_need_be()
        messages, self._reset = self.kv.take_effects(), False
        self.copies.heed()
        return self._message(messages)

    def heard(self, report: StepReport | None, output: Any) -> None:
        """What came up with a step. `output` is vLLM's: it is told there whose blocks have arrived."""
        if report is not None and not self.copies.broken:
            for message in (one for messages in report.messages.values() for one in messages):
                self.kv.report(message)
            if len(report.retired) == self.layout.ranks:
                self._retire(min(report.retired.values()))
            self.copies.turn()
        if self.copies.arrived:
            output.finished_recving = (output.finished_recving or set()) | self.copies.arrived
            self.copies.arrived = set()

    def finished(self, request: Any, block_ids: Sequence[Sequence[int]]) -> dict[str, Any] | None:
        """The request is over, however. vLLM may free its blocks at once: what is touched is pinned.

        Returns what goes into the response: the codes of its failed loads, if there were any.
        """
        life = self.lives.pop(request.request_id, None)
        if life is not None:
            if not self.copies.broken and not life.load:
                # Of what is still in flight nobody knows whether all of it will count (speculated tokens may not).
                sure = request.num_computed_tokens - getattr(request, "num_in_flight_tokens", 0)
                self._store(life, min(life.seen, sure), block_ids)
            self.copies.end(life)
        self.copies.failures.pop(request.request_id, None)
        codes = self.copies.codes.pop(request.request_id, None)
        return {"kvstate": {"load_errors": codes}} if codes else None

    def reset(self) -> bool:
        """No key of before is a hit again. Copies under way go on, and what they bring is not found either."""
        if self.copies.broken:
            return False
        dropped, self._reset = self.kv.reset(), True
        _log.info("kvstate: reset, %s keys were dropped", dropped)
        self.copies.heed()
        return True

    # -- steps ---------------------------------------------------------------------------------------------------------

    def _store(self, life: Life, tokens: int, block_ids: Sequence[Sequence[int]]) -> None:
        self._tell_step()
        self.copies.store(life, tokens, block_ids)

    def _tell_step(self) -> None:
        """The newest step is one that a copy has to wait for, unless it is over: only of such does the ledger hear."""
        if self._retired < self._step and (not self._told or self._told[-1] < self._step):
            self.kv.step_dispatched(self._step, ())
            self._told.append(self._step)

    def _retire(self, step: int) -> None:
        """This step and all before it are over on all ranks."""
        self._retired, last = max(self._retired, step), 0
        while self._told and self._told[0] <= step:
            last = self._told.popleft()
        if last:
            self.kv.step_retired(last)

    # -- what vLLM asks ------------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """As `Copies.is_busy`; at the start, until it is known what the disk holds, and after a reset, until it is on
        its way to the workers: on the disk is still what it made void.
        """
        return self.recovers or self._reset or self.copies.is_busy

    @property
    def recovers(self) -> bool:
        """Is it worth waiting for what the disk holds from before? The first to ask starts the clock."""
        if self.settings.disk is None or self.copies.broken or not self.kv.engine.recoveries.awaited:
            return False
        if self._recover_until is None:
            self._recover_until = self.kv.now() + self.settings.disk.recover_seconds
        return self.kv.now() < self._recover_until

    def frees_soon(self) -> bool:
        """As `Copies.frees_soon`, for the seconds of the settings."""
        return self.copies.frees_soon(self.settings.wait_seconds)

    def close(self) -> None:
        """vLLM shuts down."""
        self.kv.close()

    def _message(self, messages: dict[int, bytes]) -> StepMessage:
        failed, self.copies.failed = tuple(self.copies.failed), []
        return StepMessage(self._step, self.layout.counts, messages, failed, self.copies.pins.take_scrub())
