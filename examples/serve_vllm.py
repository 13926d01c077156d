"""vLLM with kvstate below it: the configuration to copy, at work on a tiny model with random weights.

    python -m examples.serve_vllm

No network, no GPU: the model is written to a folder of its own, prompts are token ids. It serves prompts that share
their beginning, empties vLLM's own prefix cache before each, and says how many tokens came from host memory. vLLM has
to be installed (`make test-vllm` makes an environment with a build for CPUs). For a server, take `CONFIG`:

    vllm serve MODEL --kv-transfer-config "$(python -m examples.serve_vllm --config)"
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

CONFIG: Final[dict[str, Any]] = {
    "kv_connector": "KVStateConnector",
    "kv_connector_module_path": "kvstate.integrations.vllm",
    "kv_role": "kv_both",
    "kv_load_failure_policy": "recompute",
    "kv_connector_extra_config": {"host_bytes": 8 * 2**30},
}
"""What `--kv-transfer-config` is given: 8 GiB of host memory, all ranks together; a load that fails is computed."""
ENVIRON: Final = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "PYTHONHASHSEED": "0",
    "OMP_NUM_THREADS": "1",  # several spin for longer than a model of this size computes
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
}
"""For this example alone, before vLLM is imported. A server needs none of it; see `docs/vllm.md` of PYTHONHASHSEED."""
LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INTER, VOCAB = 2, 128, 4, 2, 32, 256, 512
BLOCK: Final = 32
"""Tokens of a block; the build for CPUs takes multiples of 32."""
SHARED, OWN, COUNT = 200, 20, 4
"""Tokens that all prompts begin with, tokens of each alone, and how many prompts there are."""


def model(folder: Path) -> Path:
    """The folder with a Llama of two layers in it, written if it is not there: the same weights each time.

    They are large enough that every token depends on all before it, so that a wrong byte in the KV cache shows.
    """
    import torch
    from safetensors.torch import save_file  # type: ignore[import-not-found,unused-ignore]

    if (folder / "config.json").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    random = torch.Generator().manual_seed(7)

    def weight(*shape: int, scale: float) -> torch.Tensor:
        return torch.randn(*shape, generator=random) * scale

    tensors = {
        "model.embed_tokens.weight": weight(VOCAB, HIDDEN, scale=1.0),
        "model.norm.weight": torch.ones(HIDDEN),
        "lm_head.weight": weight(VOCAB, HIDDEN, scale=0.3),
    }
    for layer in range(LAYERS):
        of = f"model.layers.{layer}"
        for name, rows, columns in (
            ("self_attn.q_proj", HEADS * HEAD_DIM, HIDDEN),
            ("self_attn.k_proj", KV_HEADS * HEAD_DIM, HIDDEN),
            ("self_attn.v_proj", KV_HEADS * HEAD_DIM, HIDDEN),
            ("self_attn.o_proj", HIDDEN, HEADS * HEAD_DIM),
            ("mlp.gate_proj", INTER, HIDDEN),
            ("mlp.up_proj", INTER, HIDDEN),
            ("mlp.down_proj", HIDDEN, INTER),
        ):
            tensors[f"{of}.{name}.weight"] = weight(rows, columns, scale=0.15)
        tensors[f"{of}.input_layernorm.weight"] = torch.ones(HIDDEN)
        tensors[f"{of}.post_attention_layernorm.weight"] = torch.ones(HIDDEN)
    save_file(tensors, folder / "model.safetensors")
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "intermediate_size": INTER,
        "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS,
        "vocab_size": VOCAB, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "torch_dtype": "float32",
        "bos_token_id": 1, "eos_token_id": 2, "tie_word_embeddings": False,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def prompt(seed: int, length: int) -> list[int]:
    """Token ids, the same for the same seed; the shorter is a prefix of the longer."""
    value, found = seed * 7919 + 1, []
    for _ in range(length):
        value = (value * 1103515245 + 12345) % 2**31
        found.append(3 + (value >> 8) % (VOCAB - 3))
    return found


def serve(folder: Path) -> tuple[int, int, bool]:
    """Tokens that could have come from below, tokens that did, and whether each prompt was answered alike twice."""
    from vllm import LLM, SamplingParams
    from vllm.config import KVTransferConfig

    extra = {"kv_connector_extra_config": {"host_blocks": 256}}
    llm = LLM(
        model=str(model(folder)), load_format="safetensors", skip_tokenizer_init=True, enforce_eager=True,
        block_size=BLOCK, num_gpu_blocks_override=64, max_model_len=1024, dtype="float32", seed=0,
        enable_prefix_caching=True, kv_transfer_config=KVTransferConfig(**(CONFIG | extra)),
    )  # fmt: skip
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True, detokenize=False)
    prompts = [prompt(1, SHARED) + prompt(2 + number, OWN) for number in range(COUNT)]
    answers, loaded = [], 0
    for number, one in enumerate(prompts * 2):
        (out,) = llm.generate([{"prompt_token_ids": one}], params, use_tqdm=False)
        answers.append(out.outputs[0].token_ids)
        loaded += (out.num_cached_tokens or 0) if number else 0
        while not llm.reset_prefix_cache():  # its blocks are pinned until they are stored
            llm.llm_engine.step()
    return (2 * COUNT - 1) * SHARED, loaded, answers[:COUNT] == answers[COUNT:]


def main() -> int:
    """See the module."""
    if "--config" in sys.argv[1:]:
        print(json.dumps(CONFIG))
        return 0
    os.environ.update(ENVIRON)
    with TemporaryDirectory() as folder:
        could, did, same = serve(Path(folder) / "model")
    print(f"{did} of {could} shared prompt tokens came from host memory; the tokens {'agree' if same else 'DIFFER'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
