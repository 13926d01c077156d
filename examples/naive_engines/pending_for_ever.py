"""A key that somebody loads is pending, and stays pending when he is gone (vllm 49829; sglang 28651).

A request that wants it is told to ask again. The mark is taken away where the load is handed to its request.
"""

from __future__ import annotations

from collections.abc import Sequence

from examples.naive_engines.tiny import Job, Tiny
from kvstate.testing import Copier, Scope


class Engine(Tiny):
    """See the module."""

    def __init__(self, scope: Scope, copier: Copier) -> None:
        super().__init__(scope, copier)
        self.pending: set[str] = set()

    def admit(self, request: str, keys: Sequence[str]) -> bool:
        if self.pending.intersection(keys):
            return False  # ask again
        return super().admit(request, keys)

    def submit(self, job: Job) -> None:
        if job.kind == "load":
            self.pending.update(job.keys)
        super().submit(job)

    def loaded(self, job: Job, ok: bool) -> None:
        if not job.life.over:
            self.pending.difference_update(job.keys)
        super().loaded(job, ok)
