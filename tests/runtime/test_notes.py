"""What a runtime writes down of itself: always the end of its run, a file of it when it breaks, a record on demand."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.config import ConfigError
from kvstate.machines.messages import Failure, Report, Token
from kvstate.machines.policy import LRU
from kvstate.observe.counts import Counts
from kvstate.runtime.notes import Notes, Sheet
from kvstate.spec.loader import load_spec
from kvstate.trace.autopsy import autopsy
from kvstate.trace.check import check
from kvstate.trace.observer import Observer
from kvstate.trace.record import Recorder
from tests.observe.served import Served
from tests.runtime.rig import got, keys_of

SPEC = load_spec(check=False)
FATAL = Failure(-1, int(Code.DEVICE_ERROR), "store", message="xid 79")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def served(rig: Served) -> None:
    """A store, a load, a preemption."""
    lease, _ = rig.compute(1, 2)
    rig.land(0.01)
    rig.kv.finish(lease)
    rig.crowd()
    lease, _, _ = rig.fetch(1, 2)
    rig.land(0.01)
    rig.land(0.01)
    rig.kv.preempt(lease)


# ---- The end of the run ----------------------------------------------------------------------------------------------


def test_the_ring_is_always_on_and_written_out_when_the_ledger_is_poisoned(tmp_path: Path) -> None:
    path = tmp_path / "crash.ndjson"
    rig = Served(crash_dump=path)
    served(rig)
    assert not path.exists()
    rig.compute(3)
    done = rig.land(failures=[FATAL])
    assert done.fatal is not None
    assert done.troubles == (f"the end of the run, {len(lines(path))} lines, is in {path}: kvstate autopsy {path}",)
    assert rig.kv.poll().troubles == (), "it is said once"
    found = check(path, SPEC)
    assert found.violation is not None
    assert "xid 79" in found.violation.sentence
    assert autopsy(path, SPEC).lost == 0
    head = lines(path)[0]
    assert [pool["name"] for pool in head["settings"]["ledger"]["pools"]] == ["device", "host"]
    assert "crash_dump" not in head["settings"]


def test_without_a_path_the_end_is_kept_and_can_be_written_by_hand(tmp_path: Path) -> None:
    rig = Served()
    served(rig)
    rig.compute(3)
    assert rig.land(failures=[FATAL]).troubles == ()
    ring = rig.kv.notes.ring
    assert ring is not None
    assert ring.dump(tmp_path / "end.ndjson") > 100
    assert lines(tmp_path / "end.ndjson")[-2]["verdict"] == "fatal"


def test_a_ring_can_be_switched_off() -> None:
    rig = Served(ring_events=0)
    served(rig)
    assert (rig.kv.notes.ring, rig.kv.listeners) == (None, [])


def test_a_crash_dump_that_fails_is_a_trouble(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    rig = Served(crash_dump=folder / "crash.ndjson")
    folder.rmdir()
    rig.compute(1)
    (trouble,) = rig.land(failures=[FATAL]).troubles
    assert trouble == f"the end of the run could not be written to {folder / 'crash.ndjson'}: No such file or directory"


# ---- The record ------------------------------------------------------------------------------------------------------


def test_the_record_has_requests_rows_effects_and_verdicts(tmp_path: Path) -> None:
    path = tmp_path / "run.ndjson"
    rig = Served(record=path)
    served(rig)
    assert not rig.kv.allocate(99, 1)
    assert not rig.kv.allocate(got(rig.kv.open("a")), 9)
    assert not rig.kv.lookup(None, None)  # type: ignore[arg-type]
    assert not rig.kv.seal(1, None, None)  # type: ignore[arg-type]
    assert rig.kv.shutdown(1.0).tokens == ()
    assert check(path, SPEC).violation is None
    said = lines(path)
    asked = [line for line in said if "in" in line]
    names = {line["in"] for line in asked}
    assert names >= {"open", "lookup", "allocate", "seal", "offload", "load", "finish", "preempt", "report", "turn"}
    (load,) = [line for line in asked if line["in"] == "load"]
    (born,) = [line for line in said if "born" in line and line["m"] == "load"]
    assert (load["load"], load["tokens"]) == (born["load"], 32)
    assert next(line["refused"] for line in asked if "refused" in line) == "lease 99 is not open"
    short = [line for line in asked if line["in"] == "allocate"][-1]
    assert {short["free"], short["blocks"]} == {4, 9}
    assert next(line for line in said if line.get("verdict") == "load")["ending"] == "proceed"
    assert "record" not in said[0]["settings"]
    (copy,) = [line for line in said if line.get("out") == "fetch"]
    assert copy["copier"] == "cpu"


def test_reports_are_followed_by_the_time_at_which_they_were_heard(tmp_path: Path) -> None:
    path = tmp_path / "run.ndjson"
    rig = Served(record=path)
    rig.compute(1)
    rig.land(0.5)
    rig.kv.poll()
    rig.kv.close()
    times = [(line["in"], line["t"]) for line in lines(path) if line.get("in") in ("report", "turn")]
    assert times == [("report", 0.0), ("turn", 0.5)], "a turn without reports is no line"


def test_a_record_and_a_ring_of_one_run_are_the_same(tmp_path: Path) -> None:
    path, kept = tmp_path / "run.ndjson", tmp_path / "end.ndjson"
    rig = Served(record=path)
    served(rig)
    ring = rig.kv.notes.ring
    assert ring is not None
    ring.dump(kept)
    rig.kv.close()
    assert kept.read_text().splitlines()[1:] == path.read_text().splitlines()[1:]


@pytest.mark.parametrize("report", [None, Report(None, "done"), Report(Token(1, 1), ()), Report(Token(1, []), "done")])  # type: ignore[arg-type]
def test_what_is_no_report_ends_neither_loop_nor_record(report: Any, tmp_path: Path) -> None:
    path, kept = tmp_path / "run.ndjson", tmp_path / "end.ndjson"
    rig = Served(record=path)
    counts = Counts(rig.kv, every=0.0)
    rig.compute(1)
    rig.inbox.put(report)
    assert rig.kv.poll().fatal is None
    assert counts.snapshot.counts["reports_unknown"] == {(): 1}
    assert counts.snapshot.counts["parts"] == {}
    ring = rig.kv.notes.ring
    assert ring is not None
    ring.dump(kept)
    rig.kv.close()
    for file in (path, kept):
        (told,) = [line for line in lines(file) if line.get("in") == "report"]
        assert (told["token"], told["outcome"]) == ([0, 0], "unreadable")
        assert check(file, SPEC).violation is None


class Full:
    """A file on a disk that is full."""

    closed = False

    def __init__(self, at: str) -> None:
        self.at = at

    def write(self, text: str) -> None:
        if self.at == "write":
            raise OSError(errno.ENOSPC, "No space left on device")

    def flush(self) -> None:
        if self.at == "flush":
            raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        self.closed = True
        raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("at", ["write", "flush"])
def test_a_disk_that_is_full_ends_the_record_and_not_the_runtime(at: str, tmp_path: Path) -> None:
    rig = Served(record=tmp_path / "run.ndjson")
    sheet = rig.kv.notes._sheet
    assert isinstance(sheet, Sheet)
    sheet._file.close()
    sheet._file = Full(at)  # type: ignore[assignment]
    rig.compute(1)
    done = rig.land()
    assert rig.kv.ledger.fatal is None
    if at == "write":
        assert done.troubles == (f"the record in {tmp_path / 'run.ndjson'} ends early: No space left on device",)
        assert rig.kv.poll().troubles == ()
    rig.compute(2)
    assert rig.land().jobs
    rig.kv.close()
    assert sheet.trouble.endswith("ends early: No space left on device")
    rig.kv.close()


def test_the_record_is_flushed_when_the_ledger_is_poisoned(tmp_path: Path) -> None:
    path = tmp_path / "run.ndjson"
    rig = Served(record=path)
    rig.compute(1)
    rig.land(failures=[FATAL])
    assert any(line.get("verdict") == "fatal" for line in lines(path))
    rig.kv.close()


@pytest.mark.parametrize(
    ("setting", "where", "sentence"),
    [
        ("record", "no/run.ndjson", "record: {}/no/run.ndjson can't be written: No such file or directory"),
        ("record", "folder", "record: {}/folder can't be written: Is a directory"),
        ("crash_dump", "no/run.ndjson", "crash_dump: there is no folder {}/no; make it, or name another"),
        ("crash_dump", "folder", "crash_dump: {}/folder is a folder; name a file in it"),
    ],
)
def test_a_file_that_can_not_be_made_is_said_at_the_start(
    setting: str, where: str, sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError) as refused:
        Served(**{setting: tmp_path / where})
    assert str(refused.value) == sentence.format(tmp_path)


# ---- Others who listen -----------------------------------------------------------------------------------------------


class Heard(Observer):
    """Keeps what it is told, and does nothing with the rest."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object, dict[str, Any]]] = []

    def on_input(self, name: str, answer: object = None, /, **values: Any) -> None:
        self.told.append((name, answer, values))


def test_whoever_listens_hears_of_every_request_and_its_answer() -> None:
    rig, heard = Served(ring_events=0), Heard()
    kv = rig.kv
    kv.listeners.append(heard)
    lease = got(kv.open("a"))
    refs = got(kv.allocate(lease, 2)).blocks
    kv.seal(lease, refs, keys_of(1, 2))
    token = got(kv.hold(lease, refs, deadline=1.0))
    kv.let_go(token)
    job = got(kv.offload(lease, refs)).job
    kv.cancel(job)
    kv.step_dispatched(1, [lease])
    kv.step_retired(1)
    kv.release(lease, refs)
    hit = got(kv.lookup(lease, keys_of(1)))
    kv.unpin(hit)
    kv.abort(lease)
    kv.fence()
    kv.reset()
    kv.drain()
    assert not kv.foreign_allocated([1])
    names = " ".join(name for name, _, _ in heard.told)
    assert names == (
        "open allocate seal hold offload cancel step_dispatched step_retired release lookup unpin abort fence reset "
        "drain foreign_allocated"
    )
    values = {name: values for name, _, values in heard.told}
    assert values["offload"] == {"lease": lease, "pool": 1, "job": job}
    assert values["step_dispatched"] == {"step": 1, "leases": 1}
    assert values["lookup"] == {"lease": lease, "keys": 1}
    assert "refused" in values["foreign_allocated"]
    assert {name: answer for name, answer, _ in heard.told}["lookup"] is hit


def test_a_recorder_is_a_listener_like_any_other(tmp_path: Path) -> None:
    rig = Served(record=tmp_path / "run.ndjson")
    assert [type(one).__name__ for one in rig.kv.listeners] == ["Ring", "Recorder"]
    assert rig.kv.engine.listeners is rig.kv.listeners
    assert isinstance(rig.kv.notes, Notes)
    assert isinstance(rig.kv.listeners[1], Recorder)
    rig.kv.close()


def test_the_policy_is_the_one_of_the_settings() -> None:
    lru, adaptive = Served(policy="lru"), Served()
    assert {type(pool.evictable) for pool in lru.kv.ledger.books.pools} == {LRU}
    assert {type(pool.evictable).__name__ for pool in adaptive.kv.ledger.books.pools} == {"Adaptive"}
