"""Bytes that are on their way into a store: copied out of their blocks, and not put yet.

Its memory is bounded. What nobody asks for any more, since its job ended before it was to be put, is not known here: so
where there is no room, what has waited long gives way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Final

import numpy as np

from kvstate.errors import Code
from kvstate.runtime.memory import Bytes
from kvstate.runtime.tiers.objects.answers import StoreError

SPARE: Final = 8
"""So many buffers are kept for the next ones: to touch fresh memory takes longer than to copy into it."""
WAITS: Final = 60.0
"""Seconds after which a buffer that is not being put gives way to another: longer than a store takes in all."""


class Staged:
    """An object as it will lie in the store, header and bytes."""

    __slots__ = ("born", "buffer", "busy", "gone")

    def __init__(self, buffer: Bytes, born: float) -> None:
        self.buffer = buffer
        """Its bytes."""
        self.born = born
        """When, in seconds of a clock."""
        self.busy = False
        """A request reads it now, or may read it still."""
        self.gone = False
        """It was given up: the bytes are none of its any more."""


class Staging:
    """Buffers up to a bound, all of about one size. For several threads."""

    def __init__(self, most: int, clock: Callable[[], float] = monotonic) -> None:
        """`most` bytes in all."""
        self._most = most
        self._clock = clock
        self._used = 0
        self._lock = threading.Lock()
        self._held: dict[Staged, None] = {}
        self._spare: list[Bytes] = []

    @property
    def used(self) -> int:
        """Bytes that are held."""
        return self._used

    def take(self, size: int) -> Staged:
        """A buffer of so many bytes. Errors: `StoreError` with NO_SPACE, transient, where the bound is reached."""
        with self._lock:
            now = self._clock()
            while self._used + size > self._most:
                oldest = next((one for one in self._held if not one.busy), None)
                if oldest is None or now - oldest.born < WAITS:
                    raise StoreError.of(
                        Code.NO_SPACE, "write", f"{self._used} bytes wait to be put, of {self._most} at most",
                        transient=True,
                    )  # fmt: skip
                self._drop(oldest)
            buffer = self._spare.pop() if self._spare and len(self._spare[-1]) == size else np.empty(size, np.uint8)
            staged = Staged(buffer, now)
            self._held[staged] = None
            self._used += size
            return staged

    def hold(self, staged: Staged) -> bool:
        """Its bytes are about to be put: it does not give way now. False if it has already."""
        with self._lock:
            staged.busy = not staged.gone
            return staged.busy

    def let_go(self, staged: Staged, *, clean: bool) -> None:
        """The request is over. If that was not `clean`, its bytes may be read still, and are not written over."""
        with self._lock:
            staged.busy = False
            if not clean and not staged.gone:
                staged.buffer = staged.buffer.copy()

    def give_back(self, staged: Staged) -> None:
        """It is not needed any more. May be said again."""
        with self._lock:
            if not staged.gone:
                self._drop(staged)

    def _drop(self, staged: Staged) -> None:
        """Needs the lock."""
        staged.gone = True
        del self._held[staged]
        self._used -= len(staged.buffer)
        if not staged.busy and len(self._spare) < SPARE:
            self._spare.append(staged.buffer)
        staged.buffer = np.empty(0, np.uint8)
