"""Short replays for the tests of this folder, and what holds of every one of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kvstate.replay import config as settings
from kvstate.replay import driver
from kvstate.replay.config import ReplayConfig
from kvstate.replay.result import ReplayResult
from kvstate.replay.trace import Request, format_request

PROMISED = (
    "requests block_refs unique_blocks hits misses loaded_blocks stored_blocks bytes_copied seconds copy_gb_per_s "
    "memcpy_gb_per_s aborts preempts failures retries recomputes stale_reports unknown_reports quarantined_blocks "
    "quarantined_after_fence wrong_bytes violations leaked_blocks max_inflight_jobs aborts_while_copying "
    "reuses_after_drain late_landings drain_blocks_p99 rows_fired rows_never_fired"
).split()
"""What the JSON object of a replay has at the least."""
SMALL: dict[str, Any] = {"block_bytes": 64, "device_blocks": 200, "host_blocks": 800}
CHAOS: dict[str, Any] = settings.CHAOS | {"delay": settings.CHAOS_DELAY_MS, "integrity": "host"}
"""What `--chaos` does."""
STORM: dict[str, Any] = CHAOS | {
    "abort": 0.1,
    "preempt": 0.1,
    "fail": 0.1,
    "late": 0.1,
    "duplicate": 0.1,
    "lost": 0.01,
    "corrupt": 0.02,
}
"""As much as short runs need to meet everything."""


@pytest.fixture(autouse=True)
def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a large copy takes on this machine is measured in every run; here it would be most of the time."""
    monkeypatch.setattr(driver, "_memcpy", lambda: 1.0)


def replay(**settings: Any) -> ReplayResult:
    """Run it, without a bar."""
    return driver.run(ReplayConfig(**settings), lambda done, total: None)


def sound(result: ReplayResult) -> ReplayResult:
    """What must be true of every run that says it went well."""
    assert result.problems == []
    assert (result.wrong_bytes, result.violations, result.leaked_blocks, result.quarantined_after_fence) == (0, 0, 0, 0)
    assert sum(result.hits.values()) + result.misses == result.block_refs
    return result


def write_trace(path: Path, prompts: Iterable[Iterable[int]], output: int = 64) -> Path:
    """A trace of these prompts, a request each."""
    lines = []
    for number, ids in enumerate(prompts, start=1):
        prompt = tuple(ids)
        lines.append(format_request(Request(number, 10.0 * number, 512 * len(prompt), output, prompt)))
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path
