"""Explicit life cycles for the KV cache of an LLM serving runtime.

Finite state machines, declared as data in ``spec/``, say what a block, an offload job and a batch of loads may do, and
the same data drives the real copies. Importing this package brings neither torch nor NumPy: the machines are pure, and
only `kvstate.runtime` and `kvstate.replay` touch memory.
"""

from kvstate._version import __version__

__all__ = ["__version__"]
