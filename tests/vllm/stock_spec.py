"""vLLM's own offloading connector on a CPU: its manager and connector as they are, and a worker that copies here.

vLLM's own spec refuses a CPU as device, so `get_worker` alone is another. The worker is of the simplest kind, and does
what it is told in `STATE`, which is of this process: the faults are the same as those of `faults.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec


class State:
    """What the worker of this process does wrong."""

    def __init__(self) -> None:
        self.act: Callable[[bool], str] = lambda _is_store: "go"
        """What is done with a job, a store or a load: `go`, `fail`, `raise`, `keep`."""
        self.arrivals = 1
        """How often each completion arrives: the second time a step later."""
        self.kept: list[Callable[[], None]] = []
        """Copies that have not begun."""
        self.loads = 0
        self.worker: CPUWorker | None = None


STATE = State()


class CPUWorker(OffloadingWorker):  # type: ignore[misc]
    """Copies at once, in the calling thread."""

    def __init__(self, kv_caches: Any, chunks: int) -> None:
        self.device = [one.tensor for one in kv_caches.tensors]
        self.host = [torch.zeros((chunks, one.tensor.shape[1]), dtype=torch.int8) for one in kv_caches.tensors]
        self.over: list[Any] = []
        self.again: list[Any] = []
        STATE.worker = self

    def submit_store(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        return self._begin(job_id, True, src_spec, dst_spec)

    def submit_load(self, job_id: int, src_spec: Any, dst_spec: Any, **_more: Any) -> bool:
        STATE.loads += 1
        return self._begin(job_id, False, dst_spec, src_spec)

    def get_finished(self) -> list[Any]:
        over, self.over = self.over, []
        again, self.again = self.again, over if STATE.arrivals > 1 else []
        return [*again, *over] if STATE.arrivals else []

    def wait(self, job_ids: set[int]) -> None:
        self.let_go()

    def let_go(self) -> None:
        kept, STATE.kept = STATE.kept, []
        for copy in kept:
            copy()

    def _begin(self, job_id: int, is_store: bool, device: Any, host: Any) -> bool:
        def copy() -> None:
            here, there = torch.tensor(device.block_ids), torch.tensor(host.block_ids)
            for on_device, on_host in zip(self.device, self.host, strict=True):
                if is_store:
                    on_host[there] = on_device[here]
                else:
                    on_device[here] = on_host[there]
            self.over.append(TransferResult(job_id=job_id, success=True))

        match STATE.act(is_store):
            case "fail":
                self.over.append(TransferResult(job_id=job_id, success=False))
            case "raise":
                raise OSError(5, "the test says so")
            case "keep":
                STATE.kept.append(copy)
            case _:
                copy()
        return True


class CPUSpec(CPUOffloadingSpec):  # type: ignore[misc]
    """As vLLM's, with that worker."""

    def get_worker(self, kv_caches: Any) -> Any:
        return CPUWorker(kv_caches, self.num_chunks)


def stock(policy: str = "recompute", **extra: Any) -> dict[str, Any]:
    """The configuration with vLLM's own connector."""
    return {
        "kv_connector": "OffloadingConnector",
        "kv_role": "kv_both",
        "kv_load_failure_policy": policy,
        "kv_connector_extra_config": {
            "spec_name": "CPUSpec",
            "spec_module_path": "tests.vllm.stock_spec",
            "cpu_bytes_to_use": 256 * 32768,
        }
        | extra,
    }
