"""Replays with every kind of trouble, one after the other in one process, for as long as one likes.

    python -m tests.replay.soak --minutes 60 [--seed N] [--out FILE.json]

Each round is another seed: device, host and a disk that is kept from round to round, all chaos on, written through and
back by turns, every fourth round with two worker processes of which three are killed. After each round memory, open
files, threads and children of this process are counted. It fails for a wrong byte, a violation, a leak; for a file,
thread or child that was not there after the first rounds; and for memory that grew: the median of the last quarter of
the rounds may be at most `GROWTH` above that of the second.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import resource
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any, Final

from kvstate.machines.tables import SPEC_VERSION
from kvstate.replay import driver
from kvstate.replay.config import CHAOS, CHAOS_DELAY_MS, ReplayConfig

GROWTH: Final = 0.05
"""A share of the memory."""
REQUESTS: Final = 1200
"""Of one round."""
LEAST: Final = 8
"""Rounds, so that each kind of them is in either half."""
COUNTED: Final = (
    "requests", "block_refs", "aborts", "preempts", "retries", "stale_reports", "quarantined_blocks", "late_landings",
    "reuses_after_drain", "aborts_while_copying", "workers_killed", "wrong_bytes", "violations", "leaked_blocks",
    "quarantined_after_fence", "unknown_reports",
)  # fmt: skip
"""Summed over all rounds."""


def config_of(number: int, seed: int, disk: Path) -> ReplayConfig:
    """The settings of one round."""
    workers = 2 if number % 4 == 3 else 0
    rates: dict[str, Any] = dict(CHAOS)
    return ReplayConfig(
        limit=REQUESTS, seed=seed + number, device_blocks=400, host_blocks=1500, block_bytes=4096,
        disk=disk / ("two" if workers else "one"), disk_bytes=64 << 20, tiers="back" if number % 2 else "through",
        workers=workers, kill_workers=3 if workers else 0, integrity="host", delay=CHAOS_DELAY_MS, **rates,
    )  # fmt: skip


def look() -> dict[str, int]:
    """What this process has of the system: bytes of memory, open files, threads, children."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return {
        "rss": pages * resource.getpagesize(),
        "files": len(list(Path("/proc/self/fd").iterdir())),
        "threads": threading.active_count(),
        "children": len(children),
    }


def soak(minutes: float, seed: int, said: Any = print) -> dict[str, Any]:
    """Rounds until the time is over, `LEAST` at the least; what was counted, and why it failed, if it did."""
    end = time.monotonic() + 60 * minutes
    totals: Counter[str] = Counter()
    hits: Counter[str] = Counter()
    looks: list[dict[str, int]] = []
    problems: list[str] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        while (time.monotonic() < end or len(looks) < LEAST) and not problems:
            number = len(looks)
            result = driver.run(config_of(number, seed, Path(folder)), lambda done, total: None)
            totals.update({name: getattr(result, name) for name in COUNTED})
            hits.update(result.hits)
            totals["recovered"] += result.recovered.get("recovered", 0)
            problems += [f"round {number}, seed {seed + number}: {sentence}" for sentence in result.problems]
            looks.append(look())
            said(f"round {number}: {result.seconds:.0f} s, {looks[-1]}")
    problems += grown(looks)
    return {
        "version": {"spec": SPEC_VERSION, "python": platform.python_version()}, "seed": seed, "rounds": len(looks),
        "seconds": round(time.monotonic() - began), "cores": os.cpu_count(), "totals": dict(totals), "hits": dict(hits),
        "looks": looks, "problems": problems,
    }  # fmt: skip


def grown(looks: list[dict[str, int]]) -> list[str]:
    """What there is more of at the end than there was after the first quarter of the rounds."""
    quarter = max(1, len(looks) // 4)
    before, after = looks[quarter : 2 * quarter] or looks[:1], looks[-quarter:]
    problems = []
    first, last = (median(one["rss"] for one in part) for part in (before, after))
    if last > first * (1 + GROWTH):
        problems.append(f"memory grew from {first / 2**20:.0f} to {last / 2**20:.0f} MiB")
    for name in ("files", "threads", "children"):
        most, now = max(one[name] for one in looks[: 2 * quarter]), looks[-1][name]
        if now > most:
            problems.append(f"there are {now} {name} at the end, and there were {most} at most in the first half")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replay.soak")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="write what was counted there, as JSON")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    found = soak(options.minutes, options.seed, lambda line: print(line, flush=True))
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    for sentence in found["problems"]:
        print(f"FAILED: {sentence}", file=sys.stderr)
    print(f"{found['rounds']} rounds in {found['seconds']} s: {found['totals']}")
    return 1 if found["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
