"""The end of a run, kept in memory: as true as the record of it, whatever has fallen out before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvstate.cli import run
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Outcome, Report, Work
from kvstate.machines.verdicts import Grant
from kvstate.spec.loader import load_spec
from kvstate.trace.autopsy import autopsy
from kvstate.trace.check import check
from kvstate.trace.lines import RecordError, read
from kvstate.trace.record import Recorder
from kvstate.trace.ring import Crash, Ring

SPEC = load_spec(check=False)


def served(ledger: Ledger, rings: list[Any], lives: int) -> None:
    """Requests that store one block each, one after the other."""
    for number in range(lives):
        lease = ledger.open("a")
        assert isinstance(lease, int)
        for ring in rings:
            ring.on_input("open", lease=lease)
        grant = ledger.allocate(lease, 1)
        assert isinstance(grant, Grant)
        assert ledger.seal(lease, grant.blocks, [b"%d" % number])
        assert ledger.offload(lease, grant.blocks)
        while effects := ledger.take_effects():
            for effect in effects:
                assert isinstance(effect, Work)
                report = Report(effect.token, Outcome.DONE)
                for ring in rings:
                    ring.on_effect(effect)
                    ring.on_report(report)
                ledger.report(report)
        for verdict in ledger.take_verdicts():
            for ring in rings:
                ring.on_verdict(verdict)
        ledger.finish(lease)


def ledger() -> Ledger:
    return Ledger(LedgerConfig((PoolConfig("device", 2), PoolConfig("host", 4))))


def test_what_is_kept_is_the_record_line_by_line(tmp_path: Path) -> None:
    book, whole = ledger(), tmp_path / "whole.ndjson"
    with whole.open("w", encoding="utf-8") as stream:
        recorder, ring = Recorder(book, stream, {"seed": 1}), Ring(book)
        served(book, [recorder, ring], 5)
    kept = tmp_path / "kept.ndjson"
    assert ring.dump(kept, {"seed": 1, "crash_dump": str(kept)}) == recorder.lines
    assert kept.read_bytes() == whole.read_bytes()
    assert ring.lost == 0


@pytest.mark.parametrize("events", [1, 7, 40])
def test_what_falls_out_is_counted_and_the_rest_is_as_the_spec_allows(tmp_path: Path, events: int) -> None:
    book, whole, kept = ledger(), tmp_path / "whole.ndjson", tmp_path / "kept.ndjson"
    with whole.open("w", encoding="utf-8") as stream:
        recorder, ring = Recorder(book, stream, {}), Ring(book, events)
        served(book, [recorder, ring], 20)
    lines = ring.dump(kept)
    assert lines - 1 + ring.lost == recorder.lines - 1
    tail = [line.data for line in read(whole)[1]][ring.lost :]
    assert [{**line.data, "n": 0} for line in read(kept)[1]] == [{**line, "n": 0} for line in tail]
    found = check(kept, SPEC)
    assert (found.violation, found.lost) == (None, ring.lost)
    assert found.rows.total() == sum("row" in line for line in tail)


def test_a_guard_whose_values_are_missing_is_counted_and_one_that_can_be_asked_is(tmp_path: Path) -> None:
    book, kept = ledger(), tmp_path / "kept.ndjson"
    ring = Ring(book, 40)
    served(book, [ring], 20)
    ring.dump(kept)
    assert check(kept, SPEC).unasked > 0
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    # A reader too many is begun, and its end is missed by the guard of the block's next end.
    at = next(n for n, line in enumerate(lines) if line.get("row") == "B13")
    lines[at]["row"] = "B24"
    kept.write_text("".join(json.dumps(line) + "\n" for line in lines))
    violation = autopsy(kept, SPEC).violation
    assert violation is not None
    assert violation.line.number == at + 1
    assert "B24 in cached, which it does not leave" in violation.sentence


def wide(ledger: Ledger, lives: int, blocks: int) -> None:
    """Requests that get so many blocks at once and give them back; nobody is told but the sinks."""
    for _ in range(lives):
        lease = ledger.open("a")
        assert isinstance(lease, int)
        assert ledger.allocate(lease, blocks)
        ledger.finish(lease)


@pytest.mark.parametrize("blocks", [1, 8, 64])
def test_what_events_about_many_name_is_bounded_too(
    blocks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstate.trace.ring.NAMED", 300)
    monkeypatch.setattr("kvstate.trace.ring.CHUNK", 10)
    book, kept, whole = Ledger(LedgerConfig((PoolConfig("device", 64),))), tmp_path / "kept", tmp_path / "whole"
    with whole.open("w", encoding="utf-8") as stream:
        recorder, ring = Recorder(book, stream, {}), Ring(book, 500)
        for _ in range(100):
            wide(book, 1, blocks)
            ring.on_turn()
    lines = ring.dump(kept)
    assert lines + ring.lost == recorder.lines
    assert (ring.lost > 0) == (blocks > 1)
    assert ring.lost_events <= ring.lost
    held = sum(len(one) for one, _ in ring._old) + len(ring._now)
    assert held <= 5 * 520
    assert lines < 300 + 2 * 10 * blocks if blocks > 1 else lines == 100 * 3 + 1
    assert check(kept, SPEC).violation is None
    tail = whole.read_text().splitlines()[-5:]
    assert [line.partition('"t"')[2] for line in kept.read_text().splitlines()[-5:]] == [
        line.partition('"t"')[2] for line in tail
    ]


def test_lists_of_the_ledger_are_copied(tmp_path: Path) -> None:
    """A row may be told with a list that changes when the input is over."""
    book = Ledger(LedgerConfig((PoolConfig("device", 4),)))
    ring = Ring(book)
    port, slots = book.core.ports.ports["block"], [0, 1]
    assert port.sink is not None
    port.fired[0] += 2
    port.sink("block", slots, "B01", 0, 1)
    slots[:] = [2, 3]
    ring.dump(tmp_path / "kept")
    assert [line.data["id"] for line in read(tmp_path / "kept")[1]] == [0, 1]


def test_row_ids_name_their_machine() -> None:
    """A ring keeps the row alone."""
    rows = [row for port in ledger().core.ports.ports.values() for row in port.table.ROWS]
    assert len(rows) == len(set(rows))


def test_a_ring_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="a ring of 0 events keeps nothing; keep at least 1"):
        Ring(ledger(), 0)


@pytest.mark.parametrize("lost", [-1, "3", None, 1.5])
def test_a_first_line_that_lies_of_what_is_lost_is_no_record(tmp_path: Path, lost: Any) -> None:
    book, path = ledger(), tmp_path / "kept.ndjson"
    Ring(book).dump(path)
    head = json.loads(path.read_text())
    path.write_text(json.dumps(head | {"lost": lost}) + "\n")
    with pytest.raises(RecordError, match=r"kept\.ndjson:1: .* lines are said to be lost, which is no count"):
        read(path)


# ---- Written when something broke ------------------------------------------------------------------------------------


def test_a_crash_is_written_down_and_says_where(tmp_path: Path) -> None:
    book, path = ledger(), tmp_path / "crash.ndjson"
    crash = Crash(Ring(book), path)
    assert crash.said == f"nothing was written to {path}: the ledger was never poisoned"
    served(book, [crash.ring], 1)
    crash.write()
    assert crash.said == f"the end of the run, {crash.written} lines, is in {path}: kvstate autopsy {path}"
    assert check(path, SPEC).violation is None


def test_a_crash_that_can_not_be_written_adds_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "crash.ndjson"
    crash = Crash(Ring(ledger()), path)
    crash.write()
    assert crash.said == f"the end of the run could not be written to {path}: No such file or directory"


def test_a_crash_that_can_not_be_put_into_words_adds_no_trouble_either(tmp_path: Path) -> None:
    ring, path = Ring(ledger()), tmp_path / "crash.ndjson"
    ring.on_input("open", lease=object())
    crash = Crash(ring, path)
    crash.write()
    assert crash.said.startswith(f"the end of the run could not be written to {path}: TypeError: ")


BREAK = ["--limit", "200", "--device-blocks", "200", "--host-blocks", "400", "--deterministic", "--chaos", "--quiet"]


def test_a_replay_that_breaks_leaves_its_end_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "crash.ndjson"
    assert run(["replay", *BREAK, "--break", "no-draining", "--crash-dump", str(path)]) == 1
    assert f"kvstate autopsy {path}" in capsys.readouterr().err.replace("\n", "")
    assert run(["autopsy", str(path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert "fires B21 to free, and the row leads to draining" in told["violation"]["sentence"]
    assert len(told["story"]) > 1
    assert [line["verdict"] for line in map(json.loads, path.read_text().splitlines()) if "verdict" in line][-1] == (
        "fatal"
    )


def test_a_run_that_goes_well_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "crash.ndjson"
    assert run(["replay", *BREAK, "--no-race", "--crash-dump", str(path)]) == 0
    assert not path.exists()
    capsys.readouterr()
    missing = tmp_path / "no" / "crash.ndjson"
    assert run(["replay", *BREAK, "--crash-dump", str(missing)]) != 0
    assert f"there is no folder {missing.parent}" in capsys.readouterr().err.replace("\n", "")
