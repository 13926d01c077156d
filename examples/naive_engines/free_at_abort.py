"""The end of a request is taken for the end of its copies (vllm 32255, 52360; sglang 24527).

An abort asks for the copies to be stopped, and gives their blocks back without waiting for the answer.
"""

from __future__ import annotations

from examples.naive_engines.tiny import Tiny


class Engine(Tiny):
    """See the module."""

    def end(self, request: str) -> None:
        life = self.lives.get(request)
        for tag, job in list(self.jobs.items()):
            if job.life is life:
                self.copier.cancel(tag)
                del self.jobs[tag]
                self.unpin(job.blocks, job.slots)
        super().end(request)
