"""The handler of failures is the bug (vllm 50687, 35780).

Errors are handled block by block, with a tuple that has had one field less since somebody tidied up.
"""

from __future__ import annotations

from typing import Any

from examples.naive_engines.tiny import Job, Tiny


class Engine(Tiny):
    """See the module."""

    def stored(self, job: Job, ok: bool) -> None:
        if not ok:
            self.handle_errors(list(zip(job.slots, job.keys, strict=True)))
        super().stored(job, ok)

    def handle_errors(self, failed: list[Any]) -> None:
        for slot, key, _code in failed:
            if self.host.where.get(key) == slot:
                del self.host.where[key]
