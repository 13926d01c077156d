"""The parts of `examples/tiny_server.py`: `decoder`, `traffic`, `server` (the loop), `pools`, `weather`, `counts`."""

from typing import Final

BLOCK: Final = 16
"""Tokens in a block of the KV cache."""
