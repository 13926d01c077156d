"""`kvstate replay --store`: device, host and a store, with a server that dies in the middle, and all kinds of chaos."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kvstate.cli import run as command
from kvstate.replay import driver
from kvstate.replay.config import ConfigError, ReplayConfig
from kvstate.replay.result import ReplayResult
from kvstate.spec.loader import load_spec
from kvstate.trace.check import check
from tests.objects.server import S3Server
from tests.replay.runs import CHAOS, SMALL, STORM, no_measuring, replay, sound

__all__ = ["no_measuring"]

TINY: dict[str, Any] = SMALL | {"device_blocks": 150, "host_blocks": 200, "limit": 120}
OUTAGES = {"PEER_LOST", "LOAD_TIMEOUT", "NO_SPACE", "CANCELLED"}
"""Codes of what a server that is away does to a run: what waits is called off, or finds no room."""


def run(store: str, **settings: Any) -> ReplayResult:
    return sound(replay(store=store, **TINY | settings))


def test_what_a_run_leaves_the_next_one_hits(url: str) -> None:
    first = run(url, seed=3)
    assert first.failures == {}
    assert first.recovered == {}
    assert first.sought_keys > 100
    second = run(url, seed=3)
    assert second.hits["store"] > first.hits["store"]
    assert second.misses < first.misses


@pytest.mark.parametrize("tiers", ["through", "back"])
def test_a_disk_and_a_store_below_the_host(tmp_path: Path, tiers: str) -> None:
    settings = {"disk": tmp_path / "disk", "disk_bytes": 1 << 20, "tiers": tiers, "seed": 2}
    url = f"file://{tmp_path}/objects"
    first = run(url, **settings)
    assert first.failures == {}
    if tiers == "through":
        again = run(url, **settings | {"disk": tmp_path / "another"})
        assert again.hits["store"] > 0


def test_all_chaos_at_once() -> None:
    result = run(f"memory://chaos-{time.time_ns()}", seed=1, **STORM)
    assert result.failures["CRC_MISMATCH"] > 0
    assert result.hits["store"] > 0


def test_a_seed_gives_one_record_in_virtual_time(tmp_path: Path) -> None:
    records = []
    for number in (1, 2):
        path = tmp_path / f"{number}.ndjson"
        run(f"memory://virtual-{time.time_ns()}", deterministic=True, trace_out=path, limit=60, **CHAOS)
        records.append([line for line in path.read_text().splitlines() if '"settings"' not in line])
    assert len(records[0]) > 1000
    assert records[0] == records[1]
    assert check(tmp_path / "1.ndjson", load_spec(check=False)).violation is None


def test_a_server_that_is_killed_and_started_again_in_the_middle(own: S3Server) -> None:
    """The run goes on, and failures have codes. The server's own data survive the kill."""
    died: list[int] = []

    def progress(done: int, total: int | None) -> None:
        if done >= 128 and not died:
            died.append(done)
            own.kill()
        if done >= 256 and len(died) == 1:
            died.append(done)
            own.start()

    result = sound(driver.run(ReplayConfig(store=own.url(), **TINY | {"limit": 400, "seed": 5}), progress))
    assert len(died) == 2
    assert set(result.failures) <= OUTAGES
    assert result.failures["PEER_LOST"] > 0
    assert result.requests == 400
    again = run(own.url(), seed=5)
    assert set(again.failures) <= {"CANCELLED"}
    assert again.hits["store"] > 0


def test_a_server_that_stops_answering_for_a_while(own: S3Server) -> None:
    stopped: list[float] = []

    def progress(done: int, total: int | None) -> None:
        if done >= 64 and not stopped:
            stopped.append(time.monotonic())
            own.stop()
        if done >= 128 and len(stopped) == 1:
            stopped.append(time.monotonic())
            own.go_on()

    result = sound(driver.run(ReplayConfig(store=own.url(), **TINY | {"limit": 200, "seed": 6}), progress))
    assert len(stopped) == 2
    assert set(result.failures) <= OUTAGES
    assert sum(result.failures.values()) > 0


@pytest.mark.slow
def test_workers_have_a_piece_each_in_the_store(running: S3Server) -> None:
    result = run(running.url(f"workers-{time.time_ns()}"), workers=2, seed=4)
    assert result.hits["store"] > 0
    assert result.failures == {}


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("ftp://x", "names none of s3, file, memory"),
        ("s3://", "names no bucket"),
        ("s3://b/../c", "names no bucket"),
        ("s3://bucket/../c", "has an empty part or dots"),
        ("s3://bucket?access_key_id=x", "give credentials in the environment"),
        ("s3://u:p@bucket", "holds credentials"),
        ("s3://bucket?endpont=http://x", "did you mean endpoint?"),
        ("s3://bucket?endpoint=x", "is no address"),
        ("s3://bucket?region=a&region=b", "set twice"),
        ("s3://bucket#x", "has a #"),
        ("s3://bucket?x", "is no URL"),
        ("s3://[", "is no URL"),
        ("file://host/x", "names no folder"),
        ("file:///x?y=1", "has none; leave out the ?"),
        ("memory://a/b", "memory has none"),
    ],
)
def test_a_url_that_says_nothing_of_use_is_one_sentence(url: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ReplayConfig(store=url)
    assert sentence in str(raised.value)
    assert str(raised.value).startswith("--store ")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--store", "ftp://x"], "names none of s3, file, memory"),
        (["--store", "s3://bucket-x?endpoint=http://127.0.0.1:1"], "can't be read: PEER_LOST"),
        (["--store", "file:///dev/null/x"], "can't be used"),
        (["--store-blocks", "5"], "give --store, too"),
        (["--store", "memory://", "--store-blocks", "0"], "--store-blocks is 0"),
    ],
)
def test_what_can_not_work_is_said_before_the_run(
    options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["replay", "--limit", "5", *options]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "Traceback" not in said


def test_settings_bring_neither_torch_nor_obstore() -> None:
    script = "import sys, kvstate.runtime.settings; sys.exit(bool({'torch', 'obstore', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], env=dict(os.environ), check=False)
    assert done.returncode == 0
