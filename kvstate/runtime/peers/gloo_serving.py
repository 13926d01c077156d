"""The owner's side of a connection over gloo: questions come on a socket, and blocks are sent.

A question names blocks, in messages. What is in the hands of the kernel is said on the socket, some messages at a time:
whoever pulls waits for that word, and not for gloo.
"""

from __future__ import annotations

import select
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from kvstate.runtime.memory import Memory
from kvstate.runtime.peers.group import OWNER, Pair, gathered, straight
from kvstate.runtime.peers.handshake import Wire
from kvstate.runtime.peers.transport import SETUP_SECONDS

if TYPE_CHECKING:
    from torch.distributed import Work

STALL_SECONDS: Final = 60.0
"""A message that nobody takes by then ends its connection."""
WINDOW: Final = 256
"""Messages that are under way at once; enough to keep the other side busy."""
WINDOW_BYTES: Final = 128 << 20
"""The same in bytes, whichever is less: a cancel waits for what is under way."""
SAY_BYTES: Final = 2 << 20
"""So much is sent before it is said, unless there is nothing else to send: each word wakes the other side."""
SENT: Final = b"s"
"""The word for a message that is sent."""
_LENGTHS: Final = np.dtype("<u4")
_BLOCKS: Final = np.dtype("<i8")


class Serving:
    """One connection, in a thread of its own. `run` raises when it is over, whatever the reason.

    Errors: `OSError`, `RuntimeError` of gloo, `ValueError` and `NoSuchBlockError` for a question that makes no sense.
    """

    def __init__(self, memory: Memory, life: str, wire: Wire, secret: bytes, stall: float) -> None:
        """Serves `memory`, as the process of that `life`, to whoever is on the wire and knows the secret."""
        self._memory, self._life, self._wire = memory, life, wire
        self._secret, self._stall = secret, stall
        self._pair: Pair | None = None
        self._under_way: deque[tuple[Work, torch.Tensor]] = deque()
        self._bytes = 0
        """Of what is under way."""
        self._unsaid = 0

    def run(self) -> None:
        """Serve until it is over."""
        self._wire.sock.settimeout(SETUP_SECONDS)
        self._wire.greet(self._life, self._secret, dialled=False)
        self._pair = pair = Pair(self._wire, OWNER)
        self._wire.sock.settimeout(None)
        while True:
            if not self._under_way or self._is_asked():
                for blocks in asked(self._wire.receive()):
                    data = straight(self._memory, blocks)
                    data = gathered(self._memory, blocks) if data is None else data
                    self._under_way.append((pair.send(data), data))
                    self._bytes += data.numel()
                    while len(self._under_way) >= WINDOW or self._bytes >= WINDOW_BYTES:
                        self._wait()
            else:
                self._wait()

    def stop(self) -> None:
        """End it, from any thread."""
        self._wire.close()
        pair = self._pair
        if pair is not None:
            pair.cut()

    def _is_asked(self) -> bool:
        """Is there another question?"""
        return bool(select.select([self._wire.sock], [], [], 0)[0])

    def _wait(self) -> None:
        """Until the oldest message is in the hands of the kernel."""
        work, data = self._under_way.popleft()
        work.wait(timedelta(seconds=self._stall))
        self._bytes -= data.numel()
        self._unsaid += 1
        if not self._under_way or self._unsaid * data.numel() >= SAY_BYTES:
            self._wire.sock.sendall(SENT * self._unsaid)
            self._unsaid = 0


def asking(groups: Sequence[tuple[int, ...]]) -> bytes:
    """A question for these blocks, a message each."""
    lengths = np.array([len(group) for group in groups], _LENGTHS)
    blocks = np.array([block for group in groups for block in group], _BLOCKS)
    return len(groups).to_bytes(4, "little") + lengths.tobytes() + blocks.tobytes()


def asked(frame: bytes) -> Iterator[tuple[int, ...]]:
    """The blocks that a question is for. Errors: `ValueError`."""
    count = int.from_bytes(frame[:4], "little")
    lengths = np.frombuffer(frame, _LENGTHS, count, 4).tolist()
    blocks = np.frombuffer(frame, _BLOCKS, -1, 4 + count * _LENGTHS.itemsize).tolist()
    if min(lengths, default=0) < 1 or sum(lengths) != len(blocks):
        raise ValueError("a question whose numbers do not fit")
    start = 0
    for length in lengths:
        yield tuple(blocks[start : start + length])
        start += length
