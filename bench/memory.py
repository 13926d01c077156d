"""Memory per block, in a process of its own, so that nothing of the other benches is counted.

The keys are made before the first look and so are not counted: 32 bytes each, they are the caller's. Resident memory
says what the machine loses, allocator and all; it is read from `/proc`, so there is no figure where there is none.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path

from bench.measure import Line, Size, spread
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger

STATM = Path("/proc/self/statm")
PAGE = 4096
BATCH = 4096


def resident() -> int:
    """Bytes of this process that are in memory now."""
    gc.collect()
    return int(STATM.read_text(encoding="ascii").split()[1]) * PAGE


def weigh(blocks: int) -> dict[str, float]:
    """Bytes per block of a ledger whose blocks are all free, and of one whose blocks are all cached under a key."""
    from bench.lives import given

    keys = [number.to_bytes(32, "big") for number in range(blocks)]
    before = resident()
    ledger = Ledger(LedgerConfig((PoolConfig("device", blocks),)))
    free = resident() - before
    for start in range(0, blocks, BATCH):
        some = keys[start : start + BATCH]
        lease = given(ledger.open("bench"))
        given(ledger.seal(lease, given(ledger.allocate(lease, len(some))).blocks, some))
        given(ledger.finish(lease))
    cached = resident() - before
    assert len(ledger.books.pools[0].evictable) == blocks
    return {"free": free / blocks, "cached": cached / blocks}


def lines(size: Size) -> list[Line]:
    """Both figures; the second is the one with a target."""
    names = f"memory, {size.memory_blocks:,} blocks free, a block", f"memory, {size.memory_blocks:,} cached, a block"
    if not STATM.exists():
        return [Line(name, "bytes", None, note="this system has no /proc to read it from") for name in names]
    command = [sys.executable, "-m", "bench.memory", str(size.memory_blocks)]
    root = Path(__file__).resolve().parents[1]
    answer = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    weighed = json.loads(answer.stdout)
    note = "keys' own bytes apart"
    return [
        Line(names[0], "bytes", spread([weighed["free"]]), "at most", 250),
        Line(names[1], "bytes", spread([weighed["cached"]]), "at most", 250, note),
    ]


if __name__ == "__main__":
    print(json.dumps(weigh(int(sys.argv[1]))))
