"""The sources of a store are a list, and a block stands in it twice (vllm 42571, 42085; local-inference-lab/vllm 197).

Two KV groups share their first block. The job takes one reference for each block, and gives one back for each line.
"""

from __future__ import annotations

from examples.naive_engines.tiny import Job, Life, Tiny


class Engine(Tiny):
    """See the module."""

    def to_store(self, life: Life) -> list[tuple[int, str]]:
        full_attention = super().to_store(life)
        sliding_window = full_attention[:1]
        return full_attention + sliding_window

    def hold_sources(self, job: Job) -> None:
        for block in set(job.blocks):
            self.device.hold(block)
