"""What the two halves of the connector send each other, inside of what vLLM sends with each step anyway.

Down goes a `StepMessage` in vLLM's scheduler output, up comes a `StepReport` in its worker output. What matters in them
is bytes of `kvstate.wire`, one message a rank; the rest is for vLLM's own hooks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorMetadata, KVConnectorWorkerMetadata


@dataclass(frozen=True, slots=True)
class FailedLoad:
    """A load whose verdict is to recompute: each worker says so to vLLM in this step, once."""

    request: str
    """vLLM's id of it."""
    blocks: tuple[int, ...]
    """The device blocks that were not loaded, for vLLM to keep what is in front of them. Empty: keep nothing."""


@dataclass(slots=True)
class StepMessage(KVConnectorMetadata):  # type: ignore[misc]
    """What goes to the workers with one step."""

    step: int
    """Of this connector's own counting, from 1 up."""
    blocks: tuple[int, int, int]
    """As `Layout.counts`, so that both sides number them alike."""
    messages: dict[int, bytes]
    """By rank: what `Worker.feed` takes."""
    failed: tuple[FailedLoad, ...] = ()
    scrub: tuple[int, ...] = ()
    """Device blocks to be zeroed, BEFORE the step's kernels: a load has left them with bytes that nobody vouches for.
    Kernels exist that multiply what they mask, and there a NaN behind the end of a sequence spoils all of it."""


@dataclass(slots=True)
class StepReport(KVConnectorWorkerMetadata):  # type: ignore[misc]
    """What comes back from the workers of one step; vLLM puts those of all ranks together."""

    messages: dict[int, list[bytes]] = field(default_factory=dict)
    """By rank: what `KVRuntime.report` takes."""
    retired: dict[int, int] = field(default_factory=dict)
    """By rank: the last step whose kernels are over."""

    def aggregate(self, other: KVConnectorWorkerMetadata) -> KVConnectorWorkerMetadata:
        """This one and another one's in one."""
        assert isinstance(other, StepReport), f"{type(other).__name__} is of another connector"
        messages = {rank: list(own) for rank, own in self.messages.items()}
        for rank, more in other.messages.items():
            messages.setdefault(rank, []).extend(more)
        return StepReport(messages, self.retired | other.retired)
