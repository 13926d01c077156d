"""The half in the worker process: the copiers of one rank, between vLLM's KV cache and the host pool.

It knows no request and decides nothing. What comes down with a step is fed to `kvstate.runtime.worker.Worker`; what it
has to say goes up with the step's output. What vLLM wants to hear from a worker, failed loads, the scheduler's half has
told it to say.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

from kvstate.integrations.vllm.layout import Layout
from kvstate.integrations.vllm.messages import FailedLoad, StepMessage, StepReport
from kvstate.integrations.vllm.settings import ConnectorConfigError, Settings
from kvstate.integrations.vllm.tiers import COPIER, DISK, disk_of, ledger_of
from kvstate.machines.config import ConfigError
from kvstate.runtime.copiers import Copier
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.worker import Worker

_log = logging.getLogger("vllm.kvstate")

FENCE_SECONDS: Final = 0.5
"""A fence that is not proved by then has proved nothing; the engine's step waits no longer for it."""
CLOSE_SECONDS: Final = 5.0
"""For copies to end at a shutdown."""

LEFT: Final[list[object]] = []
"""Memory of workers that were closed under a copy which never ended: it must not be given back."""


class WorkerHalf:
    """See the module. All methods are for the thread of vLLM's worker."""

    def __init__(self, settings: Settings, layout: Layout, rank: int) -> None:
        self.settings, self.layout, self.rank = settings, layout, rank
        self.worker: Worker | None = None
        """There once the KV cache is registered."""
        self.memory: Any = None
        """`kvstate.runtime.memory.Memory`: the pool over vLLM's tensors, and the host pool."""
        self._step = 0
        self._retired = 0
        self._failed: tuple[FailedLoad, ...] = ()
        self._marks: deque[tuple[int, Any]] = deque()
        self._mark: Callable[[], Any] | None = None

    def register(self, kv_caches: Mapping[str, Any]) -> None:
        """Make the pools and the copier. Errors: `LayoutError`, `ConnectorConfigError` for tensors that don't fit."""
        from kvstate.runtime.copiers.choice import make_copier
        from kvstate.runtime.copy import Integrity
        from kvstate.runtime.memory import Memory
        from kvstate.runtime.pages import host_pool
        from kvstate.runtime.tensors import KVPool

        blocks = self.layout.device_blocks
        views = by_block(kv_caches, blocks)
        device = KVPool.from_tensors("device", 0, views, blocks=blocks)
        self.memory = Memory([device, host_pool("host", blocks, self.layout.host_blocks, device.block_bytes)])
        inbox = Inbox()
        copiers: dict[str, Copier] = {
            COPIER: make_copier(
                self.memory,
                inbox,
                name=COPIER,
                integrity=Integrity(self.settings.integrity),
                threads=self.settings.threads,
            )
        }
        try:
            self._add_disk(copiers, inbox, forms_of(views))
        except BaseException:
            copiers[COPIER].close(0.0)
            raise
        if str(device.device).startswith("cuda"):
            from kvstate.runtime.copiers.cuda_driver import CudaDriver

            self._mark = CudaDriver(device.device).mark
        self.worker = Worker(self.rank, 1, copiers, inbox, fence_seconds=FENCE_SECONDS)
        _log.info(
            "kvstate, rank %d: %d device blocks of %d bytes on %s, %d host blocks, %d on disk, integrity %s",
            self.rank, blocks, device.block_bytes, device.device, *self.layout.counts[1:], self.settings.integrity,
        )  # fmt: skip

    def _add_disk(self, copiers: dict[str, Copier], inbox: Inbox, forms: str) -> None:
        """The copier of the disk, if there is one. Errors: `ConnectorConfigError` for a disk that can't be used."""
        config = disk_of(self.settings, self.layout, forms)
        if config is None:
            return
        from kvstate.runtime.tiers.copier import DiskCopier, make_disk

        ledger, summed = ledger_of(self.settings, self.layout), self.settings.integrity != "off"
        try:
            disk = make_disk(config, ledger, self.memory, self.rank, summed=summed)
        except ConfigError as error:
            raise ConnectorConfigError(f"kv_connector_extra_config.{error}") from None
        copiers[DISK] = DiskCopier(disk, self.memory, inbox, config.threads)

    def bind(self, message: StepMessage) -> None:
        """Take what comes with a step, BEFORE its kernels: copies that wait for no step of now begin beside them.

        Errors: `ConnectorConfigError` if the scheduler's half counts other blocks; in the first step, or never.
        """
        if message.blocks != self.layout.counts:
            raise ConnectorConfigError(
                "rank {} has {} device blocks, {} of the host and {} of the disk, and the scheduler counts {}, {} and "
                "{}; give host_blocks and disk.blocks".format(self.rank, *self.layout.counts, *message.blocks)
            )
        self._step, self._failed = message.step, message.failed
        self._look_at_marks()
        self._scrub(list(message.scrub))
        down = message.messages.get(self.rank)
        if down and self.worker is not None:
            self.worker.feed(down)

    def forward_over(self) -> None:
        """The kernels of the step have been queued, AFTER that their end can be told."""
        if self._mark is not None:
            self._marks.append((self._step, self._mark()))
        else:
            self._retire(self._step)

    def take_failed(self) -> tuple[FailedLoad, ...]:
        """Loads that this step says have failed; asked twice, it says so once."""
        taken, self._failed = self._failed, ()
        return taken

    def report(self) -> StepReport:
        """What goes up with the step: always something, so that the scheduler's half is called in every step."""
        self._look_at_marks()
        up = b"" if self.worker is None else self.worker.take_reports()
        return StepReport({self.rank: [up]} if up else {}, {self.rank: self._retired})

    def close(self) -> None:
        """End the copier. Memory that a copy may touch even then is kept for the rest of the process."""
        if self.worker is None:
            return
        left = self.worker.close(CLOSE_SECONDS)
        if left:
            _log.error("kvstate, rank %d: %d copies did not end; their memory is kept", self.rank, len(left))
            LEFT.append(self.memory)
        else:
            self.memory.close()
        self.worker = self.memory = None

    def _scrub(self, blocks: list[int]) -> None:
        """Zero these device blocks, which nobody computes into or loads into before this step."""
        for span in self.memory.pools[0].spans if blocks and self.memory is not None else ():
            span.tensor[blocks] = 0

    def _look_at_marks(self) -> None:
        """Retire the steps whose event has come."""
        while self._marks and self._marks[0][1].query():
            self._retire(self._marks.popleft()[0])

    def _retire(self, step: int) -> None:
        """AFTER the kernels of this step on this rank: what waited for it begins now, and not a step later."""
        self._retired = step
        if self.worker is not None:
            self.worker.step_retired(step)


def forms_of(views: Mapping[str, Any]) -> str:
    """How a block lies in these tensors, as `by_block` gives them: the same bytes in another order are other blocks.

    The number of blocks, which may be another one in the next life, has no part in it.
    """
    return repr([(layer, str(view.dtype), *_form(view)) for layer, view in views.items()])


def _form(view: Any) -> tuple[list[int], list[int]]:
    """The dimensions of a block, and their order in memory."""
    strides = view.stride()[1:]
    return list(view.shape[1:]), sorted(range(len(strides)), key=lambda dim: -strides[dim])


def by_block(kv_caches: Mapping[str, Any], blocks: int) -> dict[str, Any]:
    """vLLM's tensors with the block dimension first, layers that share a cache once.

    A block of the scheduler's may be several of a kernel's. Errors: `ConnectorConfigError` for a tensor in which the
    blocks can't be found.
    """
    found: dict[str, Any] = {}
    seen: set[tuple[int, tuple[int, ...]]] = set()
    for layer, cache in kv_caches.items():
        for part, tensor in enumerate(cache if isinstance(cache, list | tuple) else [cache]):
            where = (int(tensor.data_ptr()), tuple(tensor.stride()))
            if where not in seen:
                seen.add(where)
                found[f"{layer}.{part}" if part else layer] = _blocks_first(layer, tensor, blocks)
    return found


def _blocks_first(layer: str, tensor: Any, blocks: int) -> Any:
    """As a view of the same memory. Keys and values may come first (a dimension of 2), then the blocks do."""
    for dim in (0, 1) if tensor.dim() > 1 else (0,):
        size = tensor.shape[dim]
        if size == blocks or (size > blocks and size % blocks == 0 and (dim == 0 or tensor.shape[0] == 2)):
            view = tensor if size == blocks else tensor.unflatten(dim, (blocks, size // blocks))
            return view.movedim(dim, 0)
    raise ConnectorConfigError(
        f"the KV cache of {layer} has the shape {list(tensor.shape)}, in which {blocks} blocks are not to be found"
    )
