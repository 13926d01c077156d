"""An engine with a disk below its host pool, for one life of its process; run as a program, it prints what came out.

    python -m tests.vllm.restarted FOLDER DISK

The prompts are served one after the other, vLLM's own cache emptied before each; then it waits for what is on its way
to the disk.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from tests.vllm.tiny import ENVIRON, Tiny, ours, prompt

SHARED = prompt(61, 200)
PROMPTS = [SHARED + prompt(seed, 20) for seed in (62, 63, 64)]
TOKENS = 6
MARK = "found: "
"""Before what is printed; vLLM writes to the same channel."""
PATIENCE = 60.0
"""Seconds for the disk."""


def disk(path: Path, **more: Any) -> dict[str, Any]:
    """The extra configuration."""
    return {"disk": {"path": str(path), "blocks": 64, "sync": "none"} | more, "load_seconds": 60.0}


def serve(engine: Tiny) -> dict[str, Any]:
    """Tokens, how many of each prompt were not computed, and what was counted."""
    half, names = engine.scheduler.connector.scheduler, []
    for one in PROMPTS:
        names.append(engine.add(one, TOKENS))
        engine.run()
        engine.settle()
        assert engine.forget()
    end = time.monotonic() + PATIENCE
    while half.copies.in_tiers and time.monotonic() < end:
        engine.step()
    recovered = half.kv.recovered.get("disk")
    return {
        "tokens": [engine.tokens(name) for name in names],
        "cached": [engine.cached(name) for name in names],
        "params": [engine.done[name].kv_transfer_params for name in names],
        "counts": dict(half.counts.total),
        "on_disk": half.kv.tiering.counts["disk"].stored,
        "recovered": recovered.recovered if recovered else 0,
        "used": engine.used,
        "rest": half.kv.rest(),
    }


def main() -> None:
    """See the module."""
    os.environ.update(ENVIRON)
    engine = Tiny(Path(sys.argv[1]), ours("recompute", **disk(Path(sys.argv[2]))))
    try:
        found = serve(engine)
    finally:
        engine.close()
    print(MARK + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
