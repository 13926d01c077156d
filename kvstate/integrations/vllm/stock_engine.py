"""vLLM's own scheduler and offloading connector, stepped by hand: no GPU, no model, no thread, and nothing patched.

What runs here is what vLLM runs: `Scheduler` with its cache manager and block pool, `OffloadingConnector` in both of
its roles, `CPUOffloadingManager`. Two things are not vLLM's. The bytes are not moved: the `OffloadingWorker` at the
very bottom, the part that vLLM lets a spec replace, hands each job to the kit's copier. And no model is run: a step
computes what it was scheduled to compute, and samples the token that it is told.

A step makes the calls that `EngineCore.step` and the model runner make, in their order:

1. `Scheduler.schedule`, which asks the connector and ends with `build_connector_meta`;
2. `handle_preemptions` on the worker's side, before the kernels of the step: it submits stores that were put off, and
   waits for those that somebody needs the blocks of;
3. the kernels;
4. `start_load_kv`, `wait_for_save`, `get_transfer_results`, `build_connector_worker_meta`;
5. `Scheduler.update_from_output`, which tells the connector what has ended.

Between two steps come what comes there in vLLM: new requests, aborts, preemptions of a reset, resets. Which of the
requests are in a step is chosen by the kit; vLLM chooses by a budget of tokens.
"""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import torch
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    KVTransferConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    VllmConfig,
)
from vllm.distributed.kv_transfer.kv_connector.v1 import KVConnectorRole
from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.kv_offload.base import make_offload_key
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import Request, RequestStatus
from vllm.v1.structured_output import StructuredOutputManager

from kvstate.integrations.vllm.stock_worker import KitWorker, host_slots
from kvstate.testing.adapter import Copier, Scope

TOKENS = 32
"""Tokens of a block."""
STOP, OTHER = 2, 3
"""The token that ends a request, and one that does not."""
FIRST = 10
"""The token of the first key; each key has its own."""
MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 1 << 20,
    "max_position_embeddings": 1 << 17, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": STOP,
}  # fmt: skip
"""What vLLM reads of a model that is never built."""
LAYOUT = FullAttentionSpec(block_size=TOKENS, num_kv_heads=2, head_size=32, dtype=torch.float32)
"""The layout of its one layer."""

logging.getLogger("vllm").setLevel(logging.ERROR)


@cache
def model_config() -> Any:
    """A `ModelConfig` of a tiny model, from a file of configuration alone."""
    with tempfile.TemporaryDirectory(prefix="kvstate-vllm-") as folder:
        Path(folder, "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
        return ModelConfig(model=folder, skip_tokenizer_init=True, dtype="float32", seed=0, max_model_len=1 << 17)


@cache
def configured(device: int, host: int, ahead: bool) -> tuple[Any, Any, Any]:
    """`VllmConfig`, `KVCacheConfig` and the manager of structured output, for so many device blocks and host slots.

    `ahead` is asynchronous scheduling: a step is scheduled before the one before it has been heard of.

    Block 0 is vLLM's null block, which nobody gets, so there is one more.
    """
    unit = CPUOffloadingSpec.BLOCK_SIZE_ALIGNMENT
    chunk = -(-LAYOUT.page_size_bytes // unit) * unit
    config = VllmConfig(
        model_config=model_config(),
        cache_config=CacheConfig(block_size=TOKENS, enable_prefix_caching=True),
        scheduler_config=SchedulerConfig(
            max_num_seqs=64, max_num_batched_tokens=1 << 16, max_model_len=1 << 17, enable_chunked_prefill=True,
            is_encoder_decoder=False, async_scheduling=ahead,
        ),
        parallel_config=ParallelConfig(),
        device_config=DeviceConfig("cpu"),
        kv_transfer_config=KVTransferConfig(
            kv_connector="OffloadingConnector", kv_role="kv_both",
            kv_connector_extra_config={"cpu_bytes_to_use": host * chunk},
        ),
    )  # fmt: skip
    config.cache_config.num_gpu_blocks = device + 1
    config.scheduler_config.async_scheduling = ahead  # which is for GPUs, and turned off for a CPU
    caches = KVCacheConfig(
        num_blocks=device + 1, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], LAYOUT)]
    )
    init_none_hash(sha256)
    return config, caches, StructuredOutputManager(config)


def collected(connector: Any, output: Any) -> Any:
    """What a worker's half of vLLM's connector does in a step and tells of it, from the kernels on."""
    connector.bind_connector_metadata(output.kv_connector_metadata)
    connector.start_load_kv(None)
    connector.wait_for_save()
    results = connector.get_transfer_results(output.finished_req_ids)
    told = KVConnectorOutput(
        finished_sending=results.finished_sending,
        finished_recving=results.finished_recving,
        failed_recving=results.failed_recving,
        invalid_block_ids=connector.get_block_ids_with_load_errors(),
        kv_connector_worker_meta=connector.build_connector_worker_meta(),
    )
    connector.clear_connector_metadata()
    return told


def updated(scheduler: Any, output: Any, told: Any, token: int) -> None:
    """The end of a step: every request in it has sampled this token, and `told` is what the connector's half told."""
    names = list(output.num_scheduled_tokens)
    places = {name: place for place, name in enumerate(names)}
    ran = ModelRunnerOutput(names, places, sampled_token_ids=[[token] for _ in names], kv_connector_output=told)
    scheduler.update_from_output(output, ran)


@dataclass
class StockEngine:
    """An engine core of vLLM with `scope.device` blocks and `scope.host` slots, for one rank. Sizes are the kit's."""

    ahead: ClassVar[bool] = False
    """Is a step scheduled before the one before it has been heard of?"""
    kind: ClassVar[Any] = Scheduler
    """The class of the scheduler."""
    scope: Scope
    copier: Copier
    names: dict[bytes, str] = field(default_factory=dict)
    """The kit's key for each key of vLLM's offloading."""
    tokens: dict[str, int] = field(default_factory=dict)
    """The token of each of the kit's keys."""
    job_keys: dict[int, Sequence[str]] = field(default_factory=dict)
    """The kit's keys of each of vLLM's jobs, line by line."""
    made: int = 0
    """How many requests there were."""

    def __post_init__(self) -> None:
        config, caches, grammars = configured(self.scope.device, self.scope.host, self.ahead)
        self.scheduler = self.kind(config, caches, grammars, block_size=TOKENS)
        self.connector = OffloadingConnector(config, KVConnectorRole.WORKER, caches)
        self.worker = KitWorker(self.copier, self.job_keys)
        self.connector.connector_worker.worker = self.worker
        self.manager = self.scheduler.connector.connector_scheduler.manager
        self.hasher = get_request_block_hasher(TOKENS, sha256)

    # -- between steps -------------------------------------------------------------------------------------------------

    def arrive(self, name: str, keys: Sequence[str]) -> Any:
        """A new request is queued. Its last block is one that it goes on writing: one token of it is in the prompt."""
        self.made += 1
        numbers = [self.tokens.setdefault(key, FIRST + len(self.tokens)) for key in keys]
        prompt = [number for number in numbers[:-1] for _ in range(TOKENS)] + numbers[-1:]
        params = SamplingParams(max_tokens=1 << 16, stop_token_ids=[STOP])
        request = Request(f"{name}.{self.made}", prompt, params, None, block_hasher=self.hasher)
        for key, block_hash in zip(keys, request.block_hashes, strict=False):
            self.names[make_offload_key(block_hash, 0)] = key
        self.scheduler.add_request(request)
        return request

    def end(self, request: Any) -> None:
        """An abort by its client, or a stop string: vLLM hears the same of both."""
        self.scheduler.finish_requests(request.request_id, RequestStatus.FINISHED_ABORTED)

    def preempt(self, request: Any) -> None:
        """As `Scheduler.reset_prefix_cache(reset_running_requests=True)` does with each running request."""
        self.scheduler.running.remove(request)
        self.scheduler._preempt_request(request, time.monotonic(), drop_stale_output=True)  # noqa: SLF001

    def reset(self, running: bool = False) -> None:
        """As `EngineCore.reset_prefix_cache` with the connector's cache; with `running`, of what runs as well."""
        self.scheduler.reset_prefix_cache(reset_running_requests=running, reset_connector=True)

    @property
    def loads(self) -> bool:
        """Does somebody hold blocks for a load, or did, and has gone?"""
        idle = (RequestStatus.RUNNING, RequestStatus.WAITING, RequestStatus.PREEMPTED)
        return any(request.status not in idle for request in self.scheduler.requests.values())

    # -- a step --------------------------------------------------------------------------------------------------------

    def begin(self, *chosen: Any) -> Any:
        """Schedule a step with these requests, up to where the kernels of the step would be launched."""
        with self._only(chosen):
            output = self.scheduler.schedule()
        meta = output.kv_connector_metadata
        slots = {slot: key for key, (slot, _) in self.chunks().items()}
        for job, entry in (meta.load_jobs | meta.store_jobs).items():
            host = entry.src_spec if job in meta.load_jobs else entry.dst_spec
            self.job_keys[job] = [slots[slot] for slot in host_slots(host)]
        self.connector.handle_preemptions(meta)
        return output

    def finish(self, output: Any, token: int = OTHER) -> None:
        """The rest of the step; every request in it samples this token."""
        self.update(output, self.collect(output), token)

    def collect(self, output: Any) -> Any:
        """The worker's side of the rest of a step."""
        return collected(self.connector, output)

    def update(self, output: Any, told: Any, token: int) -> None:
        """The scheduler's side of it: tokens, and what the connector was told."""
        updated(self.scheduler, output, told, token)

    def step(self, *chosen: Any, token: int = OTHER) -> None:
        """A whole step."""
        self.finish(self.begin(*chosen), token)

    @contextmanager
    def _only(self, chosen: Iterable[Any]) -> Iterator[None]:
        """Let the scheduler see these requests alone."""
        scheduler, wanted = self.scheduler, set(chosen)
        running = [request for request in scheduler.running if request not in wanted]
        scheduler.running = [request for request in scheduler.running if request in wanted]
        queues = (scheduler.waiting, scheduler.kv_holding_waiting)
        hidden = [[request for request in queue if request not in wanted] for queue in queues]
        for queue, requests in zip(queues, hidden, strict=True):
            queue.remove_requests(requests)
        try:
            yield
        finally:
            scheduler.running = running + scheduler.running
            for queue, requests in zip(queues, hidden, strict=True):
                for request in requests:
                    queue.add_request(request)

    # -- what can be seen ----------------------------------------------------------------------------------------------

    def table(self, request: Any) -> list[int]:
        """The kit's numbers of a request's blocks."""
        (blocks,) = self.scheduler.kv_cache_manager.get_block_ids(request.request_id)
        return [block - 1 for block in blocks]

    def loaded(self, request: Any) -> bool:
        """Has a request that waits for a load been told that it is over?"""
        return request.request_id in self.scheduler.finished_recving_kv_req_ids

    def put_off(self) -> bool:
        """Are there stores that the worker's side has and has not submitted?"""
        return bool(self.connector.connector_worker._unsubmitted_store_jobs)  # noqa: SLF001

    def chunks(self) -> dict[str, tuple[int, bool]]:
        """The manager's slot for each of the kit's keys, and whether it may be read."""
        policy = self.manager._policy  # noqa: SLF001
        found = {name: policy.get(key) for key, name in self.names.items()}
        return {name: (chunk.chunk_id, chunk.is_ready) for name, chunk in found.items() if chunk is not None}

    def free_blocks(self) -> int:
        """Blocks that the pool can give out."""
        return int(self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks())

    def free_slots(self) -> int:
        """Slots that the manager can give out, those that hold something included."""
        manager = self.manager
        return int(manager._get_num_free_chunks() + manager._num_evictable_cache_chunks)  # noqa: SLF001

    def close(self) -> None:
        """Shut down."""
        self.scheduler.shutdown()
