"""When the workers are asked for a proof that copies which were given up are over."""

from __future__ import annotations

from typing import Final

from kvstate.runtime.kv import KVRuntime

FENCE_EVERY: Final = 1.0
"""Seconds between two fences, where copies may have been given up and hold blocks."""
FENCES: Final = 5
"""So many are asked for in a row; what is not proved by then is not proved by asking."""


class Fences:
    """A few fences after each failure, for as long as blocks are pinned."""

    def __init__(self, kv: KVRuntime) -> None:
        self._kv = kv
        self._left, self._next = 0, 0.0

    def suspect(self) -> None:
        """A copy may have been given up, and then it holds its blocks until it is proved over."""
        if not self._left:
            self._next = self._kv.now() + FENCE_EVERY
        self._left = FENCES

    def turn(self, pinned: int) -> None:
        """Ask, if it is time and something is pinned."""
        if not pinned:
            self._left = 0
        elif self._left and self._kv.now() >= self._next:
            self._left -= 1
            self._next = self._kv.now() + FENCE_EVERY
            self._kv.fence()

    def __bool__(self) -> bool:
        """Will there be another one?"""
        return bool(self._left)
