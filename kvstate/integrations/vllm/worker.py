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
from kvstate.machines.messages import Token, Work
from kvstate.runtime.copiers import Copier, Progress
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.worker import Worker

_log = logging.getLogger("vllm.kvstate")

COPIER: Final = "cpu"
"""What the ledger's pools call the copier of each rank."""
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
        device = KVPool.from_tensors("device", 0, by_block(kv_caches, blocks), blocks=blocks)
        self.memory = Memory([device, host_pool("host", blocks, self.layout.host_blocks, device.block_bytes)])
        inbox = Inbox()
        copier = make_copier(
            self.memory,
            inbox,
            name=COPIER,
            integrity=Integrity(self.settings.integrity),
            threads=self.settings.threads,
        )
        if str(device.device).startswith("cuda"):
            from kvstate.runtime.copiers.cuda_driver import CudaDriver

            self._mark = CudaDriver(device.device).mark
        self.worker = Worker(self.rank, 1, {COPIER: BoundedFence(copier)}, inbox)
        _log.info(
            "kvstate, rank %d: %d device blocks of %d bytes on %s, %d host blocks, integrity %s",
            self.rank, blocks, device.block_bytes, device.device, self.layout.host_blocks, self.settings.integrity,
        )  # fmt: skip

    def bind(self, message: StepMessage) -> None:
        """Take what comes with a step, BEFORE its kernels: copies that wait for no step of now begin beside them.

        Errors: `ConnectorConfigError` if the scheduler's half counts other blocks; in the first step, or never.
        """
        if message.blocks != (self.layout.device_blocks, self.layout.host_blocks):
            raise ConnectorConfigError(
                f"rank {self.rank} has {self.layout.device_blocks} device and {self.layout.host_blocks} host blocks, "
                f"and the scheduler counts {message.blocks[0]} and {message.blocks[1]}; give host_blocks"
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
            self.worker.dispatcher.step_retired(step)


class BoundedFence:
    """A copier whose fence waits for a moment only: in vLLM it is asked in the middle of a step."""

    def __init__(self, copier: Any) -> None:
        self.copier: Any = copier
        """Which makes the copies."""

    @property
    def name(self) -> str:
        """As in `Copier`."""
        return str(self.copier.name)

    def submit(self, work: Work) -> None:
        """As in `Copier`."""
        self.copier.submit(work)

    def cancel(self, token: Token) -> None:
        """As in `Copier`."""
        self.copier.cancel(token)

    def probe(self, token: Token) -> Progress:
        """As in `Copier`."""
        found: Progress = self.copier.probe(token)
        return found

    def fence(self) -> int:
        """As in `Copier`. Errors: `TimeoutError` after `FENCE_SECONDS`."""
        return int(self.copier.fence(within=FENCE_SECONDS))

    def close(self, within: float) -> tuple[Token, ...]:
        """As in `Copier`."""
        left: tuple[Token, ...] = self.copier.close(within)
        return left


_IS_COPIER: type[Copier] = BoundedFence
"""For the type checker."""


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
