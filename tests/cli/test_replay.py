"""`kvstate replay`: from options to settings, and from a result to a table, an object and a status.

The driver is replaced by one that only says what it was told, so these tests are about the command alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kvstate.replay
from kvstate.cli import run
from kvstate.replay.config import CHAOS, CHAOS_DELAY_MS, Progress, ReplayConfig
from kvstate.replay.trace import TraceError, format_request, read_trace
from kvstate.replay.workload import generate

Captured = pytest.CaptureFixture[str]


@dataclass
class Result:
    numbers: dict[str, Any] = field(default_factory=lambda: {"requests": 1234, "wrong_bytes": 0, "news": [1, 2]})
    problems: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return self.numbers


class Driver(ModuleType):
    """Stands for `kvstate.replay.driver`."""

    def __init__(self) -> None:
        super().__init__("kvstate.replay.driver")
        self.config = ReplayConfig()
        self.result = Result()
        self.error: Exception | None = None

    def run(self, config: ReplayConfig, progress: Progress) -> Result:
        self.config = config
        progress(1, None)
        progress(2, 2)
        if self.error:
            raise self.error
        return self.result


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    double = Driver()
    monkeypatch.setitem(sys.modules, "kvstate.replay.driver", double)
    monkeypatch.setattr(kvstate.replay, "driver", double, raising=False)
    return double


def test_without_options_it_runs_the_defaults(driver: Driver, capsys: Captured) -> None:
    assert run(["replay"]) == 0
    assert driver.config == ReplayConfig()
    out = capsys.readouterr().out
    assert "1,234" in out
    assert "wrong bytes" in out
    assert "news" in out


def test_every_option_arrives(driver: Driver, tmp_path: Path) -> None:
    trace = tmp_path / "t.jsonl"
    trace.write_text("")
    out = tmp_path / "record.ndjson"
    text = (
        "--device-blocks 10 --host-blocks 20 --block-bytes 64 --concurrency 3 --hold 0.5 --limit 7 --seed 9 --abort 5% "
        "--preempt 0.04 --fail 2% --fail BUSY=1% --late 1% --duplicate 3% --lost 0.2% --corrupt 0.5% --delay 1:2 "
        "--deterministic --integrity host --break no-draining --skip-bad --must-race --quiet"
    )
    assert run(["replay", str(trace), *text.split(), "--trace-out", str(out)]) == 0
    assert driver.config == ReplayConfig(
        trace=trace,
        device_blocks=10,
        host_blocks=20,
        block_bytes=64,
        concurrency=3,
        hold=0.5,
        limit=7,
        seed=9,
        abort=0.05,
        preempt=0.04,
        fail=0.02,
        fail_codes=(("BUSY", 0.01),),
        late=0.01,
        duplicate=0.03,
        lost=0.002,
        corrupt=0.005,
        delay=(1.0, 2.0),
        deterministic=True,
        integrity="host",
        break_law="no-draining",
        skip_bad=True,
        trace_out=out,
        must_race=True,
    )


def test_workers_arrive_and_must_be_there_to_be_killed(driver: Driver, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "--workers", "3", "--kill-workers", "5", "--quiet"]) == 0
    assert driver.config == ReplayConfig(workers=3, kill_workers=5)
    capsys.readouterr()
    assert run(["replay", "--kill-workers", "5"]) == 2
    assert "--kill-workers is 5, and there are none; give --workers as well." in capsys.readouterr().err
    assert run(["replay", "--workers", "2", "--deterministic"]) == 2
    assert "processes have no virtual time; give one of the two." in capsys.readouterr().err


def test_chaos_is_a_preset_and_what_is_given_wins(driver: Driver) -> None:
    assert run(["replay", "--chaos", "--quiet"]) == 0
    expected = ReplayConfig(delay=CHAOS_DELAY_MS, integrity="host", must_race=True)
    assert driver.config.as_dict() == expected.as_dict() | CHAOS
    assert run(["replay", "--chaos", "--no-race", "--quiet"]) == 0
    assert not driver.config.must_race
    assert run(["replay", "--fail", "1%", "--quiet"]) == 0
    assert (driver.config.must_race, driver.config.delay) == (False, CHAOS_DELAY_MS)
    assert run(["replay", "--chaos", "--integrity", "off", "--quiet"]) == 0
    assert driver.config.integrity == "off"
    assert run(["replay", "--chaos", "--abort", "0", "--fail", "BUSY=3%", "--delay", "5", "--quiet"]) == 0
    assert (driver.config.abort, driver.config.preempt) == (0.0, CHAOS["preempt"])
    assert (driver.config.fail, driver.config.fail_codes) == (0.0, (("BUSY", 0.03),))
    assert driver.config.delay == (5.0, 5.0)


def test_bytes_that_are_corrupted_in_the_host_pool_are_looked_for_there(driver: Driver) -> None:
    seen = []
    for options in (["--corrupt", "1%"], ["--chaos", "--corrupt", "0"], ["--corrupt", "1%", "--integrity", "boundary"]):
        assert run(["replay", "--quiet", *options]) == 0
        seen.append(driver.config.integrity)
    assert seen == ["host", "boundary", "boundary"]


def test_json_is_one_object_and_nothing_else(driver: Driver, capsys: Captured) -> None:
    assert run(["replay", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == driver.result.numbers


def test_a_failed_run_says_why_and_has_status_1(driver: Driver, capsys: Captured) -> None:
    driver.result = Result({"requests": 5, "wrong_bytes": 3}, ("3 bytes were wrong.", "2 blocks leaked."))
    assert run(["replay", "--quiet"]) == 1
    captured = capsys.readouterr()
    assert captured.err == "FAILED: 3 bytes were wrong.\nFAILED: 2 blocks leaked.\n"
    assert run(["replay", "--quiet", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["wrong_bytes"] == 3


def test_a_broken_trace_is_one_sentence(driver: Driver, capsys: Captured) -> None:
    driver.error = TraceError("t.jsonl", 7, "not JSON: what")
    assert run(["replay", "--quiet"]) == 1
    assert capsys.readouterr().err == (
        "kvstate: t.jsonl, line 7: not JSON: what. Mend the line, or count and skip such lines with --skip-bad.\n"
    )


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--abort", "120%"], "--abort is '120%', which is no share of a whole; give 0% to 100%, or 0 to 1."),
        (["--fail", "BUZY=1%"], "--fail names BUZY, which is no error code; did you mean BUSY?"),
        (["--delay", "9:1"], "--delay is 9:1; give the smaller number first."),
        (["--block-bytes", "12"], "--block-bytes is 12; give a number from 64 to"),
        (["--break", "law"], "Invalid value for '--break': 'law' is not one of 'no-draining'"),
        (["none.jsonl"], "Invalid value for '[TRACE]': File 'none.jsonl' does not exist."),
        (["--trace-out", "no/such/folder/x"], "--trace-out is no/such/folder/x; there is no folder no/such/folder."),
        (
            ["--device-blocks", "16777216", "--block-bytes", "65536"],
            "--block-bytes times all blocks is ",
        ),
    ],
)
def test_a_bad_option_is_one_sentence_and_status_2(
    driver: Driver, args: list[str], sentence: str, capsys: Captured
) -> None:
    assert run(["replay", *args]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"kvstate replay: {sentence}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""


def test_without_torch_it_says_what_to_install() -> None:
    """In a process of its own, where nothing has imported torch yet."""
    code = (
        "import sys\n"
        "sys.modules['torch'] = None\n"
        "import kvstate.cli\n"
        "sys.exit(kvstate.cli.run(['replay', '--quiet']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == "kvstate: a replay copies real bytes and needs torch: pip install 'kvstate[runtime]'.\n"
    assert done.returncode == 1


def test_a_workload_is_written_and_reads_back(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "w.jsonl"
    assert run(["workload", "--requests", "20", "--seed", "3", "-o", str(path)]) == 0
    assert list(read_trace(path)) == list(generate(20, 3))
    assert capsys.readouterr().err == f"{path}: 20 requests of seed 3\n"
    assert run(["workload", "--requests", "2", "--seed", "3"]) == 0
    assert capsys.readouterr().out == "".join(format_request(request) + "\n" for request in generate(2, 3))
    assert run(["workload", "-o", str(tmp_path / "no" / "w.jsonl")]) == 1
    assert "could not be written: No such file or directory." in capsys.readouterr().err
