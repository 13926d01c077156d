"""The lowest part of vLLM's offload, the one that a spec may replace, over the copier of the conformance kit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult

from kvstate.testing.adapter import Copier, Report


class KitWorker(OffloadingWorker):  # type: ignore[misc]  # vLLM is not there when types are checked
    """vLLM's lowest part, over the kit's copier: it submits, waits, and says what has ended. The tag is vLLM's job."""

    def __init__(self, copier: Copier, keys: Mapping[int, Sequence[str]]) -> None:
        self.copier = copier
        self.keys = keys
        """The kit's keys of a job, line by line."""
        self.results: list[Any] = []
        """What `get_finished` will return."""
        self.launched = 0
        """The newest step of the kit's whose kernels were launched; a store comes after it, as on vLLM's stream."""

    def submit_store(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        """Device to host; may raise `Refused`."""
        self.copier.store(device_blocks(src_spec), host_slots(dst_spec), self.keys[job_id], job_id, self.launched)
        return True

    def submit_load(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        """Host to device; may raise `Refused`."""
        self.copier.load(host_slots(src_spec), device_blocks(dst_spec), self.keys[job_id], tag=job_id)
        return True

    def get_finished(self) -> list[Any]:
        """As vLLM asks for it, once a step."""
        results, self.results = self.results, []
        return results

    def wait(self, job_ids: set[int]) -> None:
        """As vLLM's own worker: returns when the copies are over, and `get_finished` tells of them afterwards."""
        for job in sorted(job_ids):
            for report in self.copier.wait(job):
                self.heard(report)

    def heard(self, report: Report) -> None:
        """A report has come."""
        self.results.append(TransferResult(job_id=report.tag, success=report.ok))


def device_blocks(spec: Any) -> list[int]:
    """The kit's numbers of a job's device blocks."""
    return [int(block) - 1 for block in spec.block_ids]


def host_slots(spec: Any) -> list[int]:
    """The numbers of a job's host slots."""
    return [int(slot) for slot in spec.block_ids]
