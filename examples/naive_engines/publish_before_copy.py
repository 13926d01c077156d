"""A key can be hit before its bytes are there (LMCache 4991, 4385).

The index is written when the store is submitted, where all the names are at hand. The report only gives blocks back.
"""

from __future__ import annotations

from examples.naive_engines.tiny import Job, Tiny


class Engine(Tiny):
    """See the module."""

    def submit(self, job: Job) -> None:
        if job.kind == "store":
            for slot, key in zip(job.slots, job.keys, strict=True):
                self.host.name(slot, key)
        super().submit(job)

    def stored(self, job: Job, ok: bool) -> None:  # noqa: ARG002, that is the bug
        self.unpin(job.blocks, job.slots)
