"""What the copier for CUDA needs of a device: streams, events, and two ways to copy.

The real one is `kvstate.runtime.copiers.cuda_driver`. That this is all which the copier knows of CUDA is what lets its
order, its batches and its error paths be tested where there is no GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:  # whoever only asks what there is needs neither
    import numpy as np
    import numpy.typing as npt
    import torch

Numbers: TypeAlias = "npt.NDArray[np.int64]"
"""Addresses or sizes, one for each copy of a batch."""
Stream = Any
"""What copies are queued in. Only the driver looks inside."""
Event = Any
"""A mark in a stream. Only the driver looks inside."""


class DriverError(RuntimeError):
    """The driver refused a call, or told of an error that had happened before."""

    def __init__(self, raw: str, message: str) -> None:
        """`raw` is the driver's own code, a number or a name, empty where it gave none."""
        super().__init__(message)
        self.raw = raw


class NoBatchError(Exception):
    """This driver has no batched copies after all. Nothing was queued."""


class Driver(Protocol):
    """One device. All methods but `synchronize` return at once; all may raise `DriverError`."""

    @property
    def device(self) -> torch.device:
        """Where its pools lie."""
        ...

    @property
    def batched(self) -> bool:
        """Are batched copies there to be tried?"""
        ...

    def enter(self) -> None:
        """Called once in each thread, before anything else is called there."""
        ...

    def stream(self) -> Stream:
        """A new stream, in order with no other."""
        ...

    def mark(self) -> Event:
        """An event behind all that the engine has queued for computation up to now."""
        ...

    def record(self, stream: Stream) -> Event:
        """An event behind all that was queued in this stream up to now."""
        ...

    def wait(self, stream: Stream, event: Event) -> None:
        """What is queued in `stream` from here on begins after `event`."""
        ...

    def synchronize(self, event: Event) -> None:
        """Sleep until it has happened, without the interpreter's lock. An error that it raises is one of the device."""
        ...

    def copy_batch(self, stream: Stream, dsts: Numbers, srcs: Numbers, sizes: Numbers) -> None:
        """Queue these copies, by address, as one. They are made in any order; a source is read in stream order.

        Raises `NoBatchError` where there is no such call; after a `DriverError` some of them may be queued.
        """
        ...

    def copy(self, stream: Stream, dst: torch.Tensor, src: torch.Tensor) -> None:
        """Queue one copy of bytes, [size], contiguous on both sides."""
        ...

    def staging(self, size: int) -> torch.Tensor:
        """So many bytes of host memory that the device can write by itself, [size]."""
        ...
