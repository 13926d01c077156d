"""Records of an engine that allocates by itself: held against the spec, and taken apart where a line is wrong."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Outcome, Report, Work
from kvstate.machines.verdicts import Given
from kvstate.spec.loader import load_spec
from kvstate.trace.autopsy import autopsy, mermaid, said
from kvstate.trace.check import check
from kvstate.trace.record import Recorder

SPEC = load_spec(check=False)


def recorded() -> list[str]:
    """A store whose block is freed under it, held, and handed on all the same: the lines of its record."""
    ledger, stream = Ledger(LedgerConfig((PoolConfig("device", 1, foreign=True), PoolConfig("host", 1)))), StringIO()
    recorder = Recorder(ledger, stream, {})
    lease = ledger.open("a")
    assert isinstance(lease, int)
    given = ledger.foreign_allocated([0])
    assert isinstance(given, Given)
    recorder.on_input("foreign_allocated", ids=[0])
    for _ in range(2):
        assert ledger.offload(lease, given.refs, keys=[b"K1"])
        [work, *_] = (effect for effect in ledger.take_effects() if isinstance(effect, Work))
        recorder.on_effect(work)
        ledger.foreign_freed(given.refs)
        hold, *_ = ledger.take_effects()
        recorder.on_effect(hold)
        given = ledger.foreign_allocated([0])
        assert isinstance(given, Given)
        report = Report(work.token, Outcome.DONE)
        recorder.on_report(report)
        ledger.report(report)
        for effect in ledger.take_effects():
            recorder.on_effect(effect)
        for verdict in ledger.take_verdicts():
            recorder.on_verdict(verdict)
    return stream.getvalue().splitlines()


def test_the_record_is_as_the_spec_allows(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join(recorded()) + "\n", encoding="utf-8")
    found = check(path, SPEC)
    assert found.violation is None
    assert {"E01", "E04", "E06", "E10", "E12", "E14", "P06", "P14"} <= set(found.rows)


def test_a_hold_is_part_of_the_story_of_its_block(tmp_path: Path) -> None:
    lines = recorded()
    last = max(place for place, line in enumerate(lines) if '"row":"E06"' in line)
    spoiled = json.loads(lines[last]) | {"to": "held"}
    path = tmp_path / "run.jsonl"
    path.write_text("\n".join([*lines[:last], json.dumps(spoiled), *lines[last + 1 :]]) + "\n", encoding="utf-8")
    found = autopsy(path, SPEC)
    words = [said(line) for line in found.story]
    assert "hold 0.2" in words
    assert "foreign 0: E04, owned -> held" in words
    assert words[-1].startswith("foreign 0: E06")
    assert "    L->>S: hold 0.2" in mermaid(found.story)
