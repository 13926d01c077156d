"""How many states each printable scope has, on both sides. `docs/spin.md` has the same numbers."""

from __future__ import annotations

STATES = {
    "batch": 10410,
    "job": 1062,
    "store-load": 756,
    "shared": 3836,
    "steps": 2620,
    "batches": 6520,
    "retries": 1844,
    "queue": 2800,
    "durable": 1310,
    "twice": 1117,
    "holes": 2484,
    "parts": 1268,
}
"""By scope: the vectors that the ledger reaches, and the states that Spin stores."""
