"""Explicit life cycles for the KV cache of an LLM serving runtime.

Finite state machines, declared as data in ``spec/``, say what a block, an offload job and a batch of loads may do, and
the same data drives the real copies. Importing this package brings neither torch nor NumPy: the machines are pure, and
only `kvstate.runtime` and `kvstate.replay` touch memory. `KVRuntime` and `RuntimeConfig`, which an engine embeds, are
found here, and bring torch where they make memory, and not before.
"""

from typing import TYPE_CHECKING

from kvstate._version import __version__

if TYPE_CHECKING:
    from kvstate.runtime.kv import KVRuntime
    from kvstate.runtime.settings import RuntimeConfig

__all__ = ["KVRuntime", "RuntimeConfig", "__version__"]


def __getattr__(name: str) -> object:
    if name == "KVRuntime":
        from kvstate.runtime.kv import KVRuntime

        return KVRuntime
    if name == "RuntimeConfig":
        from kvstate.runtime.settings import RuntimeConfig

        return RuntimeConfig
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
