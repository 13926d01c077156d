"""A count that would fall below zero is set to zero, to be safe (LMCache 3381, 5005; vllm 26351).

A request can end twice, by itself and by its client. The second end gives everything back once more.
"""

from __future__ import annotations

from examples.naive_engines.tiny import Pool, Tiny
from kvstate.testing import Copier, Scope


class ClampedPool(Pool):
    """Never below zero."""

    def drop(self, block: int) -> None:
        self.refs[block] = max(self.refs[block] - 1, 0)
        if self.refs[block] == 0:
            self.idle.append(block)


class Engine(Tiny):
    """See the module."""

    def __init__(self, scope: Scope, copier: Copier) -> None:
        super().__init__(scope, copier)
        self.device, self.host = ClampedPool(scope.device), ClampedPool(scope.host)

    def end(self, request: str) -> None:
        life = self.lives.get(request)
        if life is not None:
            for block in life.blocks:
                self.device.drop(block)
