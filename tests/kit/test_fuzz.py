"""`kvstate fuzz`: what it prints and writes, its status, and one sentence for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvstate.cli import run

Captured = pytest.CaptureFixture[str]
NAIVE = "examples.naive_engines.failed_load_is_done:Engine"


def test_the_own_ledger_passes(capsys: Captured) -> None:
    assert run(["fuzz", "--steps", "300", "--seed", "3", "--quiet"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("kvstate ")
    assert "seed 3" in said.splitlines()[0]
    assert "rows fired" in said
    assert "PASSED" in said


def test_the_same_seed_and_steps_are_the_same_run(capsys: Captured) -> None:
    seen = []
    for _ in range(2):
        assert run(["fuzz", "--steps", "300", "--json"]) == 0
        seen.append(json.loads(capsys.readouterr().out))
        assert seen[-1].pop("seconds") > 0
    assert seen[0] == seen[1]
    assert seen[0]["violations"] == 0
    assert seen[0]["steps"] >= 300
    assert seen[0]["counterexample"] == []


def test_a_broken_engine_is_told_written_and_played_again(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "found"
    assert run(["fuzz", "--seconds", "5", "--adapter", NAIVE, "--out", str(out)]) == 1
    said = capsys.readouterr()
    assert "BROKEN L" in said.out
    assert f"FAILED: {NAIVE} breaks L" in said.err
    [record] = out.glob("*.json")
    assert [path.suffix for path in sorted(out.iterdir())] == [".json", ".txt", ".py"]
    assert run(["fuzz", "--replay", str(record)]) == 1
    assert capsys.readouterr().out == record.with_suffix(".txt").read_text(encoding="utf-8")
    assert run(["fuzz", "--replay", str(record), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["violations"] == 1


def test_a_broken_engine_as_json(tmp_path: Path, capsys: Captured) -> None:
    assert run(["fuzz", "--adapter", NAIVE, "--json", "--out", str(tmp_path)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["violations"] >= 1
    assert len(found["counterexample"]) <= 8
    assert found["law"] in ("L5.failed", "L9.bytes")
    assert len(found["files"]) == 3


def test_a_record_of_an_engine_that_is_mended_passes(tmp_path: Path, capsys: Captured) -> None:
    run(["fuzz", "--adapter", NAIVE, "--out", str(tmp_path)])
    [record] = tmp_path.glob("*.json")
    record.write_text(record.read_text(encoding="utf-8").replace(NAIVE, "examples.naive_engines.tiny:Tiny"))
    capsys.readouterr()
    assert run(["fuzz", "--replay", str(record)]) == 0
    assert "Every law was kept." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "status", "said"),
    [
        (["--adapter", "nothing"], 1, "write it module:Class"),
        (["--adapter", "no.such:Thing"], 1, "there is no module no"),
        (["--device-blocks", "1"], 2, "does not fit"),
        (["--host-blocks", "-1"], 2, "host"),
        (["--seconds", "-1"], 2, "--seconds"),
        (["--replay", "no-such-file"], 2, "no-such-file"),
    ],
)
def test_a_mistake_is_one_sentence(args: list[str], status: int, said: str, capsys: Captured) -> None:
    assert run(["fuzz", "--quiet", *args]) == status
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_what_is_no_record_is_one_sentence(tmp_path: Path, capsys: Captured) -> None:
    for content in (b"{}", b"\xff\xfe"):
        (tmp_path / "record.json").write_bytes(content)
        assert run(["fuzz", "--replay", str(tmp_path / "record.json")]) == 1
        err = capsys.readouterr().err
        assert "is no record" in err
        assert err.count("\n") == 1


def test_progress_goes_to_stderr(capsys: Captured) -> None:
    assert run(["fuzz", "--steps", "50", "--json"]) == 0
    json.loads(capsys.readouterr().out)
