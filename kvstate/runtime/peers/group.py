"""A process group of two for one connection, by gloo, and messages of blocks on it.

The group needs a place where both sides leave their addresses. That is the socket on which the one asks the other for
blocks: so a connection needs one address, and is gone when that socket is.

**How it ends.** `shutdown` and `abort` of a group close nothing: bytes of a peer that had been stopped went on landing
when it woke. What closes its sockets is a wait that has run out, and the end of the group and of everything that waits
on it. Both are done here, and the second is looked at.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from torch._C._distributed_c10d import Store

from kvstate.runtime.memory import Memory
from kvstate.runtime.peers.handshake import Wire
from kvstate.runtime.peers.transport import SETUP_SECONDS

if TYPE_CHECKING:
    from torch.distributed import Work

TAG: Final = 7
"""Of all messages; they come in the order in which they were asked for."""
END_TAG: Final = 8
"""Of one that is never sent."""
MOMENT: Final = timedelta(milliseconds=1)
"""The shortest wait that gloo knows; none at all would mean for ever."""
OWNER, PULLER = 0, 1
"""Ranks in a group: who has the blocks, and who pulls them."""
_NAME_BYTES: Final = 2


class _Meeting(Store):
    """What both sides of a group tell each other of their addresses, over the wire between them."""

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire
        self._known: dict[str, bytes] = {}

    def set(self, key: str, value: Any) -> None:
        name, said = key.encode(), value.encode() if isinstance(value, str) else bytes(value)
        self._known[key] = said
        self._wire.send(len(name).to_bytes(_NAME_BYTES, "big") + name + said)

    def get(self, key: str) -> bytes:
        while key not in self._known:
            frame = self._wire.receive(1 << 16)
            end = _NAME_BYTES + int.from_bytes(frame[:_NAME_BYTES], "big")
            self._known[frame[_NAME_BYTES:end].decode()] = frame[end:]
        return self._known[key]

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:  # noqa: ARG002 - the wire has a limit
        for key in keys:
            self.get(key)


class Pair:
    """Both ends of one connection: `send` on the owner's side, `receive` on the other.

    Errors: `RuntimeError` of gloo, for a group that broke, and `OSError` of the wire while it is made.
    """

    def __init__(self, wire: Wire, rank: int) -> None:
        """Meets the other side on the wire."""
        from torch.distributed import ProcessGroupGloo

        gloo: Any = ProcessGroupGloo  # torch's own types leave out what a group of its own needs
        options = gloo._Options()  # noqa: SLF001 - there is no other way to name the address
        host = wire.sock.getsockname()[0]
        options._devices = [gloo.create_device(hostname=host, lazy_init=False)]  # noqa: SLF001
        options._timeout = timedelta(seconds=SETUP_SECONDS)  # noqa: SLF001
        options._threads = 1  # noqa: SLF001
        self._store = _Meeting(wire)
        self._lock = Lock()
        self._other = 1 - rank
        self._group: Any = gloo(self._store, rank, 2, options)
        self._gone = weakref.ref(self._group)

    def send(self, data: torch.Tensor) -> Work:
        """Begin to send these bytes, which stay as they are until the work has been waited for."""
        work: Work = self._alive().send([data], self._other, TAG)
        return work

    def receive(self, data: torch.Tensor) -> Work:
        """Begin to receive into these bytes."""
        work: Work = self._alive().recv([data], self._other, TAG)
        return work

    def cut(self) -> None:
        """Close its sockets, from any thread: all that waits on it raises, and no byte comes or goes any more."""
        with self._lock:
            if self._group is not None:
                with suppress(RuntimeError):
                    self._group.recv([torch.empty(1, dtype=torch.uint8)], self._other, END_TAG).wait(MOMENT)

    def end(self) -> None:
        """Cut it and take it apart. Everything that was waited for must be dropped before. Errors: `RuntimeError` if
        something holds on to it, and with it to memory.
        """
        self.cut()
        with self._lock:
            self._group = None
        if self._gone() is not None:
            raise RuntimeError("a process group that was torn down is still in use somewhere; nothing is proved")

    def _alive(self) -> Any:
        if self._group is None:
            raise RuntimeError("the process group of this connection was torn down")
        return self._group


def straight(memory: Memory, blocks: Sequence[int]) -> torch.Tensor | None:
    """The bytes of these blocks where they lie, [bytes], if they are one run on the CPU; else None."""
    pool, slot = memory.place(blocks[0])
    if not (pool.on_cpu and pool.is_whole and slot + len(blocks) <= pool.count):
        return None
    if len(blocks) == 1:
        return pool.tensor[slot]
    if any(block != blocks[0] + number for number, block in enumerate(blocks)):
        return None
    run = pool.tensor[slot : slot + len(blocks)]
    return run.view(-1) if run.is_contiguous() else None


def gathered(memory: Memory, blocks: Sequence[int]) -> torch.Tensor:
    """A copy of the bytes of these blocks, [bytes], end to end."""
    size = memory.block_bytes
    found = np.empty((len(blocks), size), np.uint8)
    pool = memory.pool_of(blocks[0])
    slots = [block - pool.base for block in blocks]
    if pool.views is not None and min(slots) >= 0 and max(slots) < pool.count:
        np.take(pool.views[0], slots, axis=0, out=found)
    else:
        for row, block in zip(found, blocks, strict=True):
            row[:] = memory.bytes_of(block)
    return torch.from_numpy(found.reshape(-1))


def scatter(memory: Memory, blocks: Sequence[int], data: torch.Tensor) -> None:
    """Bytes end to end, [bytes], into these blocks."""
    rows = data.view(len(blocks), memory.block_bytes).numpy()
    pool = memory.pool_of(blocks[0])
    slots = [block - pool.base for block in blocks]
    if pool.views is not None and min(slots) >= 0 and max(slots) < pool.count:
        pool.views[0][slots] = rows
        return
    for row, block in zip(rows, blocks, strict=True):
        home, slot = memory.place(block)
        home.put(slot, row)
        if home.device.type == "cuda":
            torch.cuda.current_stream(home.device).synchronize()
