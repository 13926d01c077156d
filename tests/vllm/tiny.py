"""vLLM in this process, over the tiny model of `examples.serve_vllm`: no network, no GPU, no tokenizer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from examples.serve_vllm import BLOCK, ENVIRON, model, prompt

__all__ = ["BLOCK", "ENVIRON", "Tiny", "model", "ours", "prompt"]


class Tiny:
    """One engine over that model, in this process, driven step by step or by `generate`."""

    def __init__(self, folder: Path, transfer: dict[str, Any] | None = None, **more: Any) -> None:
        os.environ.update(ENVIRON)
        from vllm import LLM
        from vllm.config import KVTransferConfig

        if transfer is not None:
            more["kv_transfer_config"] = KVTransferConfig(**transfer)
        settings = {
            "load_format": "safetensors", "skip_tokenizer_init": True, "enforce_eager": True, "block_size": BLOCK,
            "num_gpu_blocks_override": 64, "max_model_len": 1024, "max_num_seqs": 8, "dtype": "float32", "seed": 0,
            "enable_prefix_caching": True, "disable_log_stats": False,
        }  # fmt: skip
        self.llm = LLM(model=str(model(folder)), **(settings | more))
        self.core: Any = self.llm.llm_engine.engine_core.engine_core
        self.scheduler: Any = self.core.scheduler
        self._count = 0
        self.done: dict[str, Any] = {}
        """The last output of each request, by name."""

    # -- the loop ------------------------------------------------------------------------------------------------------

    def add(self, prompt: Sequence[int], tokens: int = 8, **more: Any) -> str:
        """Give a request; returns its name."""
        from vllm import SamplingParams

        self._count += 1
        name = f"r{self._count}"
        params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False, **more)
        self.llm.llm_engine.add_request(name, {"prompt_token_ids": list(prompt)}, params)
        return name

    def step(self, count: int = 1) -> None:
        """So many steps of the engine, whether or not there is work."""
        for _ in range(count):
            for output in self.llm.llm_engine.step():
                if output.finished:
                    self.done[output.request_id] = output

    def run(self, most: int = 5000) -> None:
        """Step until no request is left. Errors: `TimeoutError` after `most` steps."""
        for _ in range(most):
            if not self.llm.llm_engine.has_unfinished_requests():
                return
            self.step()
        raise TimeoutError(f"requests were left after {most} steps: {list(self.scheduler.requests)}")

    def settle(self, most: int = 5000) -> None:
        """Step until nothing is under way."""
        import time

        for _ in range(most):
            if not self.scheduler.has_requests():
                return
            self.step()
            time.sleep(0.001)
        raise TimeoutError(f"the engine is not at rest after {most} steps")

    def abort(self, name: str) -> None:
        """As a client does."""
        self.llm.llm_engine.abort_request([name])

    def serve(self, prompts: Sequence[Sequence[int]], tokens: int = 8) -> list[list[int]]:
        """The tokens for these prompts, all at once, and the engine at rest after it."""
        names = [self.add(prompt, tokens) for prompt in prompts]
        self.run()
        self.settle()
        return [self.tokens(name) for name in names]

    # -- looking -------------------------------------------------------------------------------------------------------

    def tokens(self, name: str) -> list[int]:
        """What came out."""
        return list(self.done[name].outputs[0].token_ids)

    def reason(self, name: str) -> str:
        """Why it has finished."""
        return str(self.done[name].outputs[0].finish_reason)

    def cached(self, name: str) -> int:
        """So many tokens of its prompt were not computed."""
        return int(self.done[name].num_cached_tokens or 0)

    def forget(self) -> bool:
        """Drop vLLM's own prefix cache; what is offloaded stays."""
        return bool(self.llm.reset_prefix_cache())

    @property
    def used(self) -> int:
        """Blocks that are not free, but for the one that stands for none."""
        pool = self.scheduler.kv_cache_manager.block_pool
        return int(pool.num_gpu_blocks - pool.get_num_free_blocks() - 1)

    def close(self) -> None:
        """Give everything back, so that another engine can be made in this process. May be called again."""
        if not hasattr(self, "llm"):
            return
        import gc

        from vllm.distributed import destroy_distributed_environment, destroy_model_parallel
        from vllm.distributed.kv_transfer import ensure_kv_transfer_shutdown

        self.llm.llm_engine.engine_core.shutdown()  # the client's, which takes its finalizer back: log records keep it
        ensure_kv_transfer_shutdown()
        del self.llm, self.core, self.scheduler
        gc.unfreeze()
        destroy_model_parallel()
        destroy_distributed_environment()


def ours(policy: str = "recompute", /, **extra: Any) -> dict[str, Any]:
    """The configuration with our connector."""
    return {
        "kv_connector": "KVStateConnector",
        "kv_role": "kv_both",
        "kv_connector_module_path": "kvstate.integrations.vllm",
        "kv_load_failure_policy": policy,
        "kv_connector_extra_config": {"host_blocks": 256} | extra,
    }
