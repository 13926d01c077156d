"""Asynchronous scheduling: a step is scheduled while the one before it still runs, over vLLM's own `AsyncScheduler`.

vLLM turns it off on a CPU, so no model runs here. A kernel is what writes a block's content when its step *ends*, with
the block table that it was launched with; copies are made as a worker's dispatcher makes them. What is stored under a
key has to be what was computed for it, and at rest nothing may be left.
"""

from __future__ import annotations

from collections import Counter, deque
from random import Random
from typing import Any, NamedTuple

import pytest

from kvstate.machines.messages import Kind, Outcome, Report, Work
from kvstate.wire import decode_down, encode_up
from tests.vllm.tiny import ours, prompt

pytest.importorskip("vllm")

pytestmark = pytest.mark.filterwarnings("ignore")  # of vLLM and what it imports

DEVICE, HOST, DEPTH = 20, 40, 2
"""Blocks of the pools, too few for all, and steps in vLLM's queue."""


class Batch(NamedTuple):
    """A step that was launched."""

    output: Any
    step: int
    writes: list[tuple[int, tuple[str, int] | None]]
    """What its kernel leaves in each block: a request and a place of its prefix, or half of it."""
    told: Any


class Ahead:
    """The scheduler, its queue, and the memory below."""

    def __init__(self, random: Random) -> None:
        from types import SimpleNamespace

        from vllm.config import KVTransferConfig
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler

        from kvstate.integrations.vllm.stock_engine import TOKENS, configured

        config, caches, grammars = configured.__wrapped__(DEVICE, HOST, True)
        config.kv_transfer_config = KVTransferConfig(**ours(host_blocks=HOST))
        caches.kv_cache_tensors = [SimpleNamespace(size=512 * (DEVICE + 1))]
        self.tokens = TOKENS
        self.scheduler: Any = AsyncScheduler(config, caches, grammars, block_size=TOKENS)
        self.half: Any = self.scheduler.connector.scheduler
        self.random = random
        self.queue: deque[Batch] = deque()
        self.requests: dict[str, Any] = {}
        self.device: dict[int, tuple[str, int] | None] = {}
        self.host: dict[int, tuple[str, int] | None] = {}
        self.waiting: list[Work] = []
        self.over: list[Report] = []
        self.retired = 0
        self.did: Counter[str] = Counter()

    def add(self) -> None:
        """A request of one of three families, that share four blocks."""
        from vllm.sampling_params import SamplingParams
        from vllm.utils.hashing import sha256
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher
        from vllm.v1.request import Request

        family, own = self.random.randrange(3), self.random.randrange(4)
        tokens = prompt(family, 4 * self.tokens) + prompt(10 * family + own + 5, self.random.randrange(1, 80))
        name = f"r{len(self.requests)}"
        params = SamplingParams(max_tokens=self.random.randrange(1, 70), ignore_eos=True)
        hasher = get_request_block_hasher(self.tokens, sha256)
        self.requests[name] = Request(name, tokens, params, None, block_hasher=hasher)
        self.scheduler.add_request(self.requests[name])

    def abort(self) -> None:
        """A client of somebody goes away."""
        from vllm.v1.request import RequestStatus

        if self.scheduler.requests:
            name = self.random.choice(sorted(self.scheduler.requests))
            self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    def launch(self) -> None:
        """Schedule a step and queue its kernel; what the worker has to say then goes up with it."""
        from vllm.v1.outputs import KVConnectorOutput

        from kvstate.integrations.vllm.messages import StepReport

        output = self.scheduler.schedule()
        message, writes = output.kv_connector_metadata, []
        self.did["preempted"] += len(output.preempted_req_ids or ())
        assert not message.failed
        for name, count in output.num_scheduled_tokens.items():
            end = self.requests[name].num_computed_tokens
            (ids,) = self.scheduler.kv_cache_manager.get_block_ids(name)
            for place in range((end - count) // self.tokens, -(-end // self.tokens)):
                whole = (place + 1) * self.tokens <= end
                writes.append((ids[place], (name, place) if whole else None))
        for down in message.messages.values():
            self.waiting += [item for item in decode_down(down).items if isinstance(item, Work)]
        self.copy()
        over, self.over = self.over, []
        report = StepReport({0: [encode_up(0, 1, over)]} if over else {}, {0: self.retired})
        told = KVConnectorOutput(kv_connector_worker_meta=report)
        self.queue.append(Batch(output, message.step, writes, told))

    def copy(self) -> None:
        """Make the copies whose step is over, in any order."""
        ready = [work for work in self.waiting if work.after_step <= self.retired]
        self.waiting = [work for work in self.waiting if work.after_step > self.retired]
        self.random.shuffle(ready)
        for work in ready:
            for src, dst, key in zip(work.src, work.dst, work.keys, strict=False):
                if work.kind == Kind.STORE:
                    found = self.device.get(src)
                    assert found is not None, f"block {src} is stored, and it is not whole"
                    assert self.requests[found[0]].block_hashes[found[1]] == key, f"block {src} has other tokens"
                    self.host[dst] = found
                elif work.kind == Kind.FETCH:
                    self.device[dst] = self.host[src]
            self.did[str(work.kind)] += 1
            self.over.append(Report(work.token, Outcome.DONE))

    def end(self) -> None:
        """The oldest step ends: its kernel has written, and the scheduler hears of it."""
        from vllm.v1.outputs import ModelRunnerOutput

        batch = self.queue.popleft()
        self.device.update(batch.writes)
        self.retired = batch.step
        names = list(batch.output.num_scheduled_tokens)
        places = {name: place for place, name in enumerate(names)}
        sampled = [[self.random.randrange(3, 500)] for _ in names]
        ran = ModelRunnerOutput(names, places, sampled_token_ids=sampled, kv_connector_output=batch.told)
        self.scheduler.update_from_output(batch.output, ran)

    def settle(self, most: int = 3000) -> None:
        """Until nothing is under way."""
        for _ in range(most):
            if not self.scheduler.has_requests() and not self.queue:
                return
            if len(self.queue) < DEPTH and self.scheduler.has_requests():
                self.launch()
            else:
                self.end()
        raise TimeoutError(f"{list(self.scheduler.requests)}: {self.half.kv.rest()}")


@pytest.mark.parametrize("seed", [0, 1])
def test_steps_that_are_scheduled_ahead(seed: int) -> None:
    rig = Ahead(Random(seed))
    for _ in range(400):
        act = rig.random.random()
        if act < 0.12:
            rig.add()
        elif act < 0.15:
            rig.abort()
        elif act < 0.16:
            rig.scheduler.reset_prefix_cache(reset_connector=rig.random.random() < 0.3)
        elif len(rig.queue) < DEPTH:
            rig.launch()
        else:
            rig.end()
    rig.settle()
    for _ in range(DEPTH):  # so that the end of the last step is heard of
        rig.launch()
        rig.end()
    pool = rig.scheduler.kv_cache_manager.block_pool
    counts = rig.half.counts.total
    assert pool.get_num_free_blocks() == DEVICE
    assert rig.half.kv.rest() == []
    assert not rig.half.copies.broken
    assert not counts["stores_failed"] + counts["loads_failed"]
    assert counts["blocks_loaded"] > 0, "nothing came from below"
    assert counts["blocks_stored"] > 0
    assert rig.did["preempted"] + counts["loads_aborted"] > 0, "the walk did not get there"
