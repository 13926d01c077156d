"""The record of a copy is found by the name of its request (vllm 51637, 43265).

A request has one record; its end removes the record, and the callback pops it.
"""

from __future__ import annotations

from collections.abc import Hashable

from examples.naive_engines.tiny import Job, Tiny
from kvstate.testing import Report


class Engine(Tiny):
    """See the module."""

    def tag(self, job: Job) -> Hashable:
        return job.life.name

    def on_report(self, report: Report) -> None:
        job = self.jobs.pop(report.tag)
        if job.kind == "store":
            self.stored(job, report.ok)
        else:
            self.loaded(job, report.ok)

    def end(self, request: str) -> None:
        job = self.jobs.pop(request, None)  # nobody will ask for it any more
        if job is not None:
            self.unpin(job.blocks, job.slots)
        super().end(request)
