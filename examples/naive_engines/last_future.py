"""One future for each request: a new one takes the place of the one before (LMCache 4955, 4822).

What the earlier copy held is given back when it is forgotten.
"""

from __future__ import annotations

from collections.abc import Hashable

from examples.naive_engines.tiny import Job, Life, Tiny
from kvstate.testing import Copier, Scope


class Engine(Tiny):
    """See the module."""

    def __init__(self, scope: Scope, copier: Copier) -> None:
        super().__init__(scope, copier)
        self.future: dict[str, Hashable] = {}

    def to_store(self, life: Life) -> list[tuple[int, str]]:
        rows = zip(life.blocks, life.keys, life.ready, strict=True)
        return [(block, key) for block, key, ready in rows if ready and key not in self.host.where]

    def submit(self, job: Job) -> None:
        earlier = self.jobs.pop(self.future.get(job.life.name), None)
        if earlier is not None:
            self.unpin(earlier.blocks, earlier.slots)
        super().submit(job)

    def tag(self, job: Job) -> Hashable:
        self.future[job.life.name] = super().tag(job)
        return self.future[job.life.name]
