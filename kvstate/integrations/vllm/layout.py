"""What both halves have to agree on: how many blocks there are, how large, on how many ranks, and what names them."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import Any, Final

from kvstate.integrations.vllm.settings import ConnectorConfigError, Settings


@dataclass(frozen=True, slots=True)
class Layout:
    """The blocks of one engine."""

    device_blocks: int
    """vLLM's own, numbered from 0; the host's follow."""
    host_blocks: int
    """Of the host pool."""
    block_bytes: int
    """Of one rank's piece of a block."""
    block_tokens: int
    """Tokens of a block; also what a block hash of vLLM's covers."""
    ranks: int
    """Workers, each with a piece of every block."""
    fingerprint: str
    """Of all that the bytes of a block depend on, but for the request."""
    windows: tuple[int | None, ...] = ()
    """By KV cache group of vLLM's, how many tokens before one it attends to; None for all. Empty for a single group
    that attends to all tokens."""
    disk_blocks: int = 0
    """Of the disk; their numbers follow the host's. 0 if there is none."""
    engine: int | None = None
    """Which of several engines with the same configuration this is; each has a part of the disk's folder to itself."""

    @property
    def counts(self) -> tuple[int, int, int]:
        """Blocks of the device pool, of the host pool and of the disk: both halves have to number them alike."""
        return self.device_blocks, self.host_blocks, self.disk_blocks


def layout_of(vllm_config: Any, kv_cache_config: Any, settings: Settings) -> Layout:
    """The layout of this engine. Errors: `ConnectorConfigError` for what this connector can't do."""
    parallel = vllm_config.parallel_config
    specs = [group.kv_cache_spec for group in kv_cache_config.kv_cache_groups]
    for spec in specs:
        if type(spec).__name__ not in (_KINDS if len(specs) > 1 else (*_KINDS, _MIXED)):
            raise ConnectorConfigError(
                f"a KV cache group of the model is of kind {type(spec).__name__}, and this connector knows "
                f"{', '.join(_KINDS)}; set --disable-hybrid-kv-cache-manager, if vLLM can do without it"
            )
    if len({int(spec.block_size) for spec in specs}) != 1:
        raise ConnectorConfigError(
            f"the KV cache groups of the model have blocks of {', '.join(str(spec.block_size) for spec in specs)} "
            "tokens, and this connector knows groups of one size; set --disable-hybrid-kv-cache-manager"
        )
    if parallel.pipeline_parallel_size > 1 and not settings.host_blocks:
        raise ConnectorConfigError(
            "kv_connector_extra_config.host_bytes: with pipeline parallelism a block has another size on each stage; "
            "give host_blocks instead"
        )
    if parallel.pipeline_parallel_size > 1 and settings.disk and not settings.disk.blocks:
        raise ConnectorConfigError(
            "kv_connector_extra_config.disk.bytes: with pipeline parallelism a block has another size on each stage; "
            "give disk.blocks instead"
        )
    blocks = int(kv_cache_config.num_blocks)
    block_bytes = sum(int(one.size) for one in kv_cache_config.kv_cache_tensors) // blocks
    tokens = int(specs[0].block_size) * int(parallel.decode_context_parallel_size)
    windows = tuple(_window(spec) for spec in specs)
    ranks = int(parallel.world_size)
    return Layout(
        blocks,
        settings.blocks(block_bytes, ranks),
        block_bytes,
        tokens,
        ranks,
        _fingerprint(vllm_config, specs),
        () if windows == (None,) else windows,
        settings.disk.blocks_of(block_bytes, ranks) if settings.disk else 0,
        int(parallel.data_parallel_rank) if int(parallel.data_parallel_size) > 1 else None,
    )


_KINDS: Final = ("FullAttentionSpec", "MLAAttentionSpec", "SlidingWindowSpec")
"""Of vLLM's KV cache groups, by the class of their spec."""
_MIXED: Final = "UniformTypeKVCacheSpecs"
"""Layers of one kind and of several sizes; by itself."""


def _window(spec: Any) -> int | None:
    """A token attends to itself and to one less before it. What is loaded ends before the token that is computed."""
    return max(1, int(spec.sliding_window) - 1) if type(spec).__name__ == "SlidingWindowSpec" else None


def namespace(layout: Layout, request: Any) -> str:
    """Where the keys of this request live: what the bytes depend on, its adapter, and its salt.

    vLLM mixes adapter and salt into its block hashes as well; a namespace keeps them apart even if a hash collides.
    """
    adapter = request.lora_request
    name = "" if adapter is None else f"{adapter.lora_name}:{adapter.lora_int_id}:{adapter.lora_path}"
    return f"vllm/{layout.fingerprint}/{short(name)}/{short(request.cache_salt or '')}"


def unstable_hashes(vllm_config: Any) -> str:
    """A warning, if the block hashes of vLLM are others in its next life; else an empty text."""
    algorithm = str(getattr(vllm_config.cache_config, "prefix_caching_hash_algo", "sha256"))
    if os.getenv("PYTHONHASHSEED") not in (None, "random"):
        return ""
    if algorithm.startswith("sha256") and os.getenv("PYTHONHASHSEED") is None and _fixed_root():
        return ""
    return (
        f"block hashes ({algorithm}) begin with a random value: no block is found again after a restart, or by another "
        "instance; set PYTHONHASHSEED to a fixed number"
    )


def _fixed_root() -> bool:
    """Does this vLLM have a fixed root hash where the algorithm is cryptographic?"""
    from vllm.v1.core import kv_cache_utils

    return hasattr(kv_cache_utils, "DEFAULT_NONE_HASH_SEED")


def _fingerprint(vllm_config: Any, specs: list[Any]) -> str:
    model, cache, parallel = vllm_config.model_config, vllm_config.cache_config, vllm_config.parallel_config
    parts = (
        model.model,
        model.revision,
        model.dtype,
        model.quantization,
        model.seed if getattr(vllm_config.load_config, "load_format", "") == "dummy" else None,
        cache.cache_dtype,
        getattr(cache, "prefix_caching_hash_algo", None),
        os.getenv("PYTHONHASHSEED"),
        parallel.tensor_parallel_size,
        parallel.pipeline_parallel_size,
        parallel.decode_context_parallel_size,
        specs,
    )
    return short("\n".join(map(str, parts)))


def short(text: str) -> str:
    """A digest of a text, the same in every process; `-` for none."""
    return hashlib.sha256(text.encode()).hexdigest()[:16] if text else "-"
