"""The record of a run: every line can be read alone, and all of them together are the run."""

from __future__ import annotations

import io
import json
from collections import Counter
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from kvstate.errors import Code, KVError
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Cancel, Failure, Outcome, Report, Token, Undo
from kvstate.machines.tables import SPEC_VERSION, TABLES
from kvstate.machines.tables.block import State as B
from kvstate.machines.verdicts import Ending, Fatal, JobVerdict, LoadVerdict, Settlement
from kvstate.replay.result import ReplayResult
from kvstate.spec.diagram_record import FORMAT
from kvstate.spec.loader import load_spec
from kvstate.trace.check import Checker, check_lines
from kvstate.trace.lines import KINDS
from kvstate.trace.lines import Line as Read
from kvstate.trace.record import Recorder
from tests.replay.runs import SMALL, STORM, no_measuring, replay, sound
from tests.runtime.rig import Rig

__all__ = ["no_measuring"]

Line = dict[str, Any]


def recorded(**settings: Any) -> tuple[ReplayResult, list[Line]]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "record.ndjson"
        result = replay(trace_out=path, deterministic=True, **settings)
        return result, [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@cache
def run() -> tuple[ReplayResult, list[Line]]:
    return recorded(limit=150, seed=3, **SMALL, **STORM)


def test_the_first_line_says_what_wrote_it() -> None:
    _, (head, *_) = run()
    assert (head["kvstate"], head["spec"]) == (FORMAT, SPEC_VERSION)
    assert head["settings"]["seed"] == 3
    assert "trace_out" not in head["settings"]  # where the record lies is no part of it


def test_lines_are_numbered_and_time_never_goes_back() -> None:
    _, (_, *lines) = run()
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1))
    times = [line["t"] for line in lines]
    assert times == sorted(times)
    kinds = Counter(next(word for word in ("row", "born", "in", "out", "verdict") if word in line) for line in lines)
    assert sum(kinds.values()) == len(lines)
    assert min(kinds.values()) > 100


def test_a_chaotic_record_is_as_the_spec_allows_to_its_last_line() -> None:
    """Guards and counters, too: every row is fired again on what the record says of its births."""
    _, (head, *lines) = run()
    checker = Checker(load_spec(check=False), head["params"])
    numbered = [Read(at, next(kind for kind in KINDS if kind in line), line) for at, line in enumerate(lines, 2)]
    found = check_lines(checker, numbered)
    assert found.violation is None
    assert found.lines == len(lines) + 1


def test_every_row_fits_the_spec_and_the_state_before_it() -> None:
    """The whole record is walked through the data: each row leads from where its record was to where it says."""
    spec = load_spec()
    rows = {row.id: (machine, row) for machine in spec.machines for row in machine.rows}
    at: dict[tuple[str, int], str] = {}
    result, (_, *lines) = run()
    fired: Counter[str] = Counter()
    for line in lines:
        if "row" not in line:
            continue
        machine, row = rows[line["row"]]
        assert line["m"] == machine.name
        before = at.get((line["m"], line["id"]), machine.initial)
        assert line["from"] == before, line
        assert before in row.sources, line
        assert line["to"] == (row.to or before), line
        at[line["m"], line["id"]] = line["to"]
        fired[line["row"]] += 1
    assert len(fired) == sound(result).rows_fired
    assert set(rows) - set(fired) == set(result.rows_never_fired)


def test_every_part_is_sent_once_and_every_report_is_of_one() -> None:
    result, (_, *lines) = run()
    works = [line for line in lines if line.get("out") in ("store", "fetch", "verify")]
    tokens = Counter(tuple(line["token"]) for line in works)
    assert max(tokens.values()) == 1
    for line in works:
        assert len(line["src"]) == len(line["dst"]) == len(line["keys"]) > 0
    told = [line for line in lines if line.get("in") == "report"]
    assert {tuple(line["token"]) for line in told} <= tokens.keys()
    assert {tuple(line["token"]) for line in lines if line.get("out") == "cancel"} <= tokens.keys()
    # A failure is counted where a part was there to hear it; the others were stale.
    codes = Counter(Code(code).name for line in told for _, code, _ in line["failures"])
    assert all(codes[name] >= count for name, count in result.failures.items())


def test_every_load_and_job_is_told_once() -> None:
    result, (_, *lines) = run()
    loads = Counter(line["load"] for line in lines if line.get("verdict") == "load")
    settled = Counter(line["load"] for line in lines if line.get("verdict") == "settled")
    jobs = Counter(line["job"] for line in lines if line.get("verdict") == "job")
    assert set(loads.values()) == set(settled.values()) == set(jobs.values()) == {1}
    assert loads.keys() == settled.keys()
    assert sum(loads.values()) == sum(result.loads.values())
    assert sum(jobs.values()) == sum(result.offloads.values())


def test_a_poisoned_run_says_so_in_its_record() -> None:
    result, lines = recorded(limit=100, fail_codes=(("DEVICE_ERROR", 0.05),), **SMALL)
    fatal = [line for line in lines if line.get("verdict") == "fatal"]
    assert len(fatal) == 1
    assert "DEVICE_ERROR" in fatal[0]["sentence"]
    assert lines[-1]["n"] == len(lines) - 1
    assert result.problems


# ---- Line by line ----------------------------------------------------------------------------------------------------


@pytest.fixture
def ledger() -> Ledger:
    return Rig().ledger


def written(ledger: Ledger) -> tuple[Recorder, io.StringIO]:
    stream = io.StringIO()
    return Recorder(ledger, stream, {"seed": 1, "trace_out": "somewhere"}), stream


def test_what_each_line_looks_like(ledger: Ledger) -> None:
    recorder, stream = written(ledger)
    recorder.on_input("abort", lease=3)
    failure = Failure(2, int(Code.NO_SPACE), "write", "errno", "ENOSPC", message="full")
    recorder.on_report(Report(Token(1, 5), Outcome.DENIED, (failure,)))
    recorder.on_effect(Cancel(Token(1, 5)))
    recorder.on_effect(Undo(Token(1, 6), 0, "cpu", (4,), (b"\x01",)))
    error = KVError.of(failure)
    recorder.on_verdict(LoadVerdict(7, 3, Ending.RECOMPUTE, 512, 1, (2,), (), (error,)))
    recorder.on_verdict(JobVerdict(8, 3, Ending.FAILED, (), (error,)))
    recorder.on_verdict(Settlement(7))
    recorder.on_verdict(Fatal("L8", "a counter"))
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    params = {"ranks": 1, "attempts": ledger.config.attempts}
    assert lines[0] == {"kvstate": FORMAT, "spec": SPEC_VERSION, "params": params, "settings": {"seed": 1}}
    assert [{name: value for name, value in line.items() if name not in "nt"} for line in lines[1:]] == [
        {"in": "abort", "lease": 3},
        {"in": "report", "token": [1, 5], "outcome": "denied", "failures": [[2, int(Code.NO_SPACE), "ENOSPC"]]},
        {"out": "cancel", "token": [1, 5]},
        {"out": "undo", "token": [1, 6]},
        {"verdict": "load", "load": 7, "ending": "recompute", "blocks": 1, "errors": ["NO_SPACE"]},
        {"verdict": "job", "job": 8, "ending": "failed", "errors": ["NO_SPACE"]},
        {"verdict": "settled", "load": 7},
        {"verdict": "fatal", "law": "L8", "sentence": "a counter", "dump": []},
    ]


def test_a_row_is_written_as_an_encoder_would(ledger: Ledger) -> None:
    """Its line is put together by hand; nobody who reads it can tell."""
    recorder, stream = written(ledger)
    for now in (0.0, 1e-9, 0.1 + 0.2, 12345.678901234567, 1e15):
        ledger.books.now = now
        recorder.on_rows("block", [0, 2**40], "B10", B.CACHED, B.ACTIVE)
        recorder.on_rows("block", [0, 2**40], "B10", B.ACTIVE, B.ACTIVE)
        recorder.on_input("open", lease=2**40)
    lines = stream.getvalue().splitlines()
    assert len(lines) == recorder.lines == 26
    assert [json.dumps(json.loads(line), separators=(",", ":")) for line in lines] == lines
    assert {json.loads(line)["t"] for line in lines[1:]} == {0.0, 1e-9, 0.3, 12345.678901235, 1e15}  # nanoseconds
    assert json.loads(lines[-2]) == {
        "n": 24, "t": 1e15, "row": "B10", "m": "block", "id": 2**40, "from": "active", "to": "active",
    }  # fmt: skip


def test_every_machine_is_listened_to(ledger: Ledger) -> None:
    _, stream = written(ledger)
    ledger.open("test")
    ledger.drain()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()[1:]]
    assert [(line["m"], line["row"], line["from"], line["to"]) for line in lines] == [
        ("service", "S01", "serving", "serving"),
        ("service", "S02", "serving", "draining"),
    ]
    assert {name for name, port in ledger.core.ports.ports.items() if port.sink is not None} == set(TABLES)
