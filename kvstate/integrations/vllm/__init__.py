"""kvstate in vLLM: a connector for its KV offload, found by module path, without a patch to vLLM.

    --kv-transfer-config '{"kv_connector": "KVStateConnector", "kv_role": "kv_both",
                           "kv_connector_module_path": "kvstate.integrations.vllm",
                           "kv_connector_extra_config": {"host_bytes": 8589934592}}'

Importing this brings no vLLM; asking for one of the names does. See `docs/vllm.md`.
"""

from importlib import import_module

_WHERE = {
    "KVStateConnector": "connector",
    "ShadowConnector": "shadow.connector",
    "Stock": "stock",
    "StockAhead": "stock_ahead",
    "StockAheadResets": "stock_ahead",
    "StockCorrupt": "stock",
    "StockFailed": "stock",
    "StockLost": "stock",
    "StockRefused": "stock",
    "StockResets": "stock",
    "StockTwice": "stock",
}
"""Each name and the module of this package that has it."""
MISSING = "{name} needs vLLM, which is not installed here; install vllm, or run `make test-vllm` in a checkout"
"""What is said where vLLM is missing."""

__all__ = list(_WHERE)


def __getattr__(name: str) -> object:
    if name in _WHERE:
        try:
            return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "vllm":
                raise
            raise ImportError(MISSING.format(name=name), name="vllm") from error
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
