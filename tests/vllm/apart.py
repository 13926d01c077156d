"""An engine whose scheduler and workers are processes of their own; run as a program, it prints what came out as JSON.

    python -m tests.vllm.apart FOLDER RANKS

The prompts are served one after the other, twice, and vLLM's own cache is emptied before each.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from tests.vllm.tiny import BLOCK, ENVIRON, ours, prompt

PROMPTS = [prompt(41, 200) + prompt(seed, 20) for seed in (42, 43)]
TOKENS = 6
MARK = "found: "
"""Before what is printed; vLLM writes to the same channel."""
PATIENCE = 60.0
"""Seconds for vLLM to let its cache be emptied: its blocks are pinned until they are stored."""


def serve(folder: Path, ranks: int) -> dict[str, object]:
    """Tokens, and how many tokens of each prompt were not computed."""
    from vllm import LLM, SamplingParams
    from vllm.config import KVTransferConfig

    llm = LLM(
        model=str(folder), load_format="safetensors", skip_tokenizer_init=True, enforce_eager=True, block_size=BLOCK,
        num_gpu_blocks_override=64, max_model_len=1024, max_num_seqs=8, dtype="float32", seed=0,
        enable_prefix_caching=True, disable_log_stats=False, tensor_parallel_size=ranks,
        kv_transfer_config=KVTransferConfig(**ours(store_seconds=300.0, load_seconds=300.0)),
    )  # fmt: skip
    params = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True, detokenize=False)
    tokens, cached = [], []
    for one in PROMPTS * 2:
        (out,) = llm.generate([{"prompt_token_ids": one}], params, use_tqdm=False)
        tokens.append(list(out.outputs[0].token_ids))
        cached.append(out.num_cached_tokens)
        end = time.monotonic() + PATIENCE
        while not llm.reset_prefix_cache() and time.monotonic() < end:
            time.sleep(0.05)
    return {"tokens": tokens, "cached": cached, "processes": hasattr(llm.llm_engine.engine_core, "resources")}


def main() -> None:
    """See the module."""
    os.environ.update(ENVIRON | {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_WORKER_MULTIPROC_METHOD": "spawn"})
    found = serve(Path(sys.argv[1]), int(sys.argv[2]))
    print(MARK + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
