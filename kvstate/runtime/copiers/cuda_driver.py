"""A CUDA device as the copier for CUDA sees it: torch's streams and events, and the driver's batched copy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from kvstate.runtime.copiers.batch_call import call_batch, find_batch_call, load_library
from kvstate.runtime.copiers.driver import DriverError, NoBatchError, Numbers


class CudaDriver:
    """The `Driver` of one CUDA device. Errors: `DriverError` for what CUDA says."""

    def __init__(
        self, device: str | torch.device, *, compute: torch.cuda.Stream | None = None, batched: bool = True
    ) -> None:
        """`compute` is the engine's stream; without, the current one of whichever thread submits a store.

        `batched=False` leaves `cuMemcpyBatchAsync` alone where it is there.
        """
        place = torch.device(device)
        self.device = torch.device(place.type, torch.cuda.current_device()) if str(place) == place.type else place
        """Where its pools lie; always with its number."""
        self._compute = compute
        library = load_library() if batched else None
        self._call = None if library is None else find_batch_call(library)

    @property
    def batched(self) -> bool:
        """Did the driver's library have the call?"""
        return self._call is not None

    def enter(self) -> None:
        """Makes the device the current one of this thread, which calls by ctypes rely on.

        To choose a device that is the current one already may do nothing, and then the thread has no context; any other
        call of the runtime gives it one.
        """
        with _told():
            torch.cuda.set_device(self.device)
            torch.cuda.current_stream(self.device).query()

    def stream(self) -> torch.cuda.Stream:
        """A stream that is not the default one."""
        with _told():
            return torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]

    def mark(self) -> torch.cuda.Event:
        """An event behind what the compute stream has been given. Not while a graph is captured there."""
        return self.record(torch.cuda.current_stream(self.device) if self._compute is None else self._compute)

    def record(self, stream: torch.cuda.Stream) -> torch.cuda.Event:
        """An event behind what this stream has been given; who waits for it sleeps."""
        with _told():
            event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            event.record(stream)
            return event

    def wait(self, stream: torch.cuda.Stream, event: torch.cuda.Event) -> None:
        """By `cudaStreamWaitEvent`; the CPU does not wait."""
        with _told():
            stream.wait_event(event)

    def synchronize(self, event: torch.cuda.Event) -> None:
        """Sleeps in the driver, without the interpreter's lock."""
        with _told():
            event.synchronize()

    def copy_batch(self, stream: torch.cuda.Stream, dsts: Numbers, srcs: Numbers, sizes: Numbers) -> None:
        """By `cuMemcpyBatchAsync`. Raises `NoBatchError` where that is not there."""
        if self._call is None:
            raise NoBatchError
        call_batch(self._call, stream.cuda_stream, dsts, srcs, sizes)

    def copy(self, stream: torch.cuda.Stream, dst: torch.Tensor, src: torch.Tensor) -> None:
        """By `Tensor.copy_`, which does not wait between a device and page-locked memory."""
        with _told(), torch.cuda.stream(stream):
            dst.copy_(src, non_blocking=True)

    def staging(self, size: int) -> torch.Tensor:
        """Page-locked memory of torch's own allocator, which rounds up; a check needs it for a moment."""
        with _told():
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)


@contextmanager
def _told() -> Iterator[None]:
    """What torch raises for CUDA, as a `DriverError` with CUDA's own number."""
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise DriverError("cudaErrorMemoryAllocation", str(error)) from error
    except RuntimeError as error:
        number = getattr(error, "error_code", None)
        raise DriverError("" if number is None else str(int(number)), str(error)) from error
