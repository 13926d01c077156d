"""A device in software: streams of copies that move real bytes when a test says so, or when somebody waits for them.

What is queued stays queued until `advance`, or, with `eager`, until an event behind it is waited for. Copies of one
batch are made from the last to the first, since nobody may rely on an order.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from kvstate.runtime.copiers.driver import DriverError, NoBatchError, Numbers


@dataclass(eq=False)
class Mark:
    """An event."""

    name: str
    happened: bool = False


@dataclass(eq=False)
class Queue:
    """A stream: what was queued in it, oldest first."""

    name: str
    todo: list[Mark | Callable[[], None] | tuple[Mark]] = field(default_factory=list)
    """An event to be marked, a copy, or (in a tuple) an event to wait for."""


class SoftDriver:
    """As `Driver`, on the CPU. `log` tells what was queued; `fail` says what calls raise, `None` lets one pass."""

    def __init__(self, *, batched: bool = True, eager: bool = True, device: str = "cpu") -> None:
        self.device = torch.device(device)
        self.batched = batched
        self.eager = eager
        self.log: list[str] = []
        self.fail: dict[str, list[BaseException | None]] = {}
        self.streams = [Queue("compute")]
        self.broken: DriverError | None = None
        self.stages: list[torch.Tensor] = []
        self.threads: set[int] = set()
        self._changed = threading.Condition()

    # -- the driver ----------------------------------------------------------------------------------------------------

    def enter(self) -> None:
        assert threading.get_ident() not in self.threads, "once in each thread"
        self.threads.add(threading.get_ident())

    def stream(self) -> Queue:
        self.streams.append(Queue(("store", "load")[len(self.streams) - 1]))
        return self.streams[-1]

    def mark(self) -> Mark:
        return self.record(self.streams[0])

    def record(self, stream: Queue) -> Mark:
        mark = Mark(f"{stream.name} event")
        self._put(stream, f"{stream.name}: record", mark)
        return mark

    def wait(self, stream: Queue, event: Mark) -> None:
        self._put(stream, f"{stream.name}: wait for {event.name}", (event,))

    def synchronize(self, event: Mark) -> None:
        with self._changed:
            if self.eager:
                self._advance()
            while not event.happened and self.broken is None:
                assert self._changed.wait(10), "nobody advanced the device"
            if self.broken is not None:
                raise self.broken
        self._trip("synchronize")

    def copy_batch(self, stream: Queue, dsts: Numbers, srcs: Numbers, sizes: Numbers) -> None:
        if not self.batched:
            raise NoBatchError
        self._trip("copy_batch")
        copies = list(zip(dsts.tolist(), srcs.tolist(), sizes.tolist(), strict=True))

        def move() -> None:
            for dst, src, size in reversed(copies):
                ctypes.memmove(dst, src, size)

        self._put(stream, f"{stream.name}: batch of {', '.join(str(size) for _, _, size in copies)}", move)

    def copy(self, stream: Queue, dst: torch.Tensor, src: torch.Tensor) -> None:
        assert dst.is_contiguous()
        assert src.is_contiguous()
        self._trip("copy")

        def move() -> None:
            dst.copy_(src)

        self._put(stream, f"{stream.name}: copy of {src.numel()}", move)

    def staging(self, size: int) -> torch.Tensor:
        self._trip("staging")
        self.stages.append(torch.zeros(size, dtype=torch.uint8))
        return self.stages[-1]

    # -- what a test says ----------------------------------------------------------------------------------------------

    def advance(self, name: str = "") -> None:
        """Do all that can be done, in all streams or in the one of that name."""
        with self._changed:
            self._advance(name)
            self._changed.notify_all()

    def die(self, raw: str, message: str) -> None:
        """From here on whoever waits is told of a sticky error."""
        with self._changed:
            self.broken = DriverError(raw, message)
            self._changed.notify_all()

    def until(self, count: int) -> list[str]:
        """Sleep until so many lines are in the log; returns it."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.log) >= count, 10), self.log
            return list(self.log)

    def _put(self, stream: Queue, line: str, item: Mark | Callable[[], None] | tuple[Mark]) -> None:
        self._trip(line.split(": ")[1].split(maxsplit=1)[0])
        if self.broken is not None:
            raise self.broken
        with self._changed:
            stream.todo.append(item)
            self.log.append(line)
            self._changed.notify_all()

    def _trip(self, call: str) -> None:
        if (errors := self.fail.get(call)) and (error := errors.pop(0)) is not None:
            raise error

    def _advance(self, name: str = "") -> None:
        moved = True
        while moved:
            moved = False
            for stream in self.streams:
                while stream.todo and name in ("", stream.name):
                    first = stream.todo[0]
                    if isinstance(first, tuple) and not first[0].happened:
                        break
                    stream.todo.pop(0)
                    moved = True
                    if isinstance(first, Mark):
                        first.happened = True
                    elif not isinstance(first, tuple):
                        first()
