"""`kvstate replay` with the real driver: small runs, from the command line to the status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvstate.cli import run
from tests.replay.runs import PROMISED

pytest.importorskip("torch", reason="a replay copies real bytes, and torch is not installed")

Captured = pytest.CaptureFixture[str]
SMALL = ["--device-blocks", "200", "--host-blocks", "600", "--block-bytes", "256", "--quiet"]


def test_a_generated_workload_with_chaos_ends_well(capsys: Captured) -> None:
    assert run(["replay", "--limit", "150", *SMALL, "--chaos", "--no-race", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert [name for name in PROMISED if name not in result] == []
    assert result["requests"] == 150
    assert result["block_refs"] == sum(result["hits"].values()) + result["misses"]
    assert result["wrong_bytes"] == result["violations"] == result["leaked_blocks"] == 0


def test_the_table_ends_with_the_verdict(capsys: Captured) -> None:
    assert run(["replay", "--limit", "30", *SMALL]) == 0
    out = capsys.readouterr().out
    assert "leaked blocks" in out
    assert out.endswith("PASSED: every byte that was loaded was right, no law was violated, no block leaked.\n")


def test_a_broken_line_ends_the_run_or_is_counted(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "t.jsonl"
    assert run(["workload", "--requests", "20", "-o", str(path)]) == 0
    lines = path.read_text().splitlines()
    lines[6] = '{"timestamp": 1}'
    path.write_text("\n".join(lines))
    capsys.readouterr()
    assert run(["replay", str(path), *SMALL]) == 1
    assert capsys.readouterr().err.startswith(f"kvstate: {path}, line 7: input_length is missing.")
    assert run(["replay", str(path), *SMALL, "--skip-bad", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["requests"], result["skipped_lines"]) == (19, 1)


def test_one_seed_is_one_record(tmp_path: Path) -> None:
    records = []
    for name in ("a", "b"):
        path = tmp_path / name
        options = ["--limit", "100", "--seed", "4", *SMALL, "--chaos", "--deterministic", "--trace-out", str(path)]
        assert run(["replay", *options]) == 0
        records.append(path.read_bytes())
    assert records[0] == records[1]
    assert len(records[0].splitlines()) > 100
