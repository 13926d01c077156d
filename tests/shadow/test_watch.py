"""The tape and its bound, the switch, the log, records that `kvstate` reads, the report; all of it without vLLM."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from kvstate.cli import run
from kvstate.integrations.vllm.settings import ConnectorConfigError
from kvstate.integrations.vllm.shadow.beside import Beside
from kvstate.integrations.vllm.shadow.kinds import Kind, Violation
from kvstate.integrations.vllm.shadow.reading import Heard, Raised, Reader
from kvstate.integrations.vllm.shadow.record import FORMAT, Ring
from kvstate.integrations.vllm.shadow.settings import ShadowSettings
from kvstate.integrations.vllm.shadow.watch import BURST, Watch
from kvstate.trace.lines import read
from tests.shadow.doubles import BLOCKS, Scene, job, new

LOGGER = "vllm.kvstate.shadow"


def watch(reader: Any = None, **settings: Any) -> Watch:
    """One, with a scheduler's reader where no other is given."""
    one = Watch("scheduler", ShadowSettings(**settings), {"vllm": "0"})
    if reader is None:
        beside = Beside(one.tell, one.ring, deadline=60.0, blocks=BLOCKS)
        reader = Reader(beside, groups={0: 32}, ranks=1, host=True)
    one.reader = reader
    return one


class Slow:
    """A reader that takes its time, and counts."""

    def __init__(self) -> None:
        self.seen: list[Any] = []
        self.forgot = 0
        self.ticks = 0

    def read(self, event: Any) -> None:
        self.seen.append(event)

    def forget(self) -> None:
        self.forgot += 1

    def tick(self, now: float) -> None:
        self.ticks += 1


def test_nothing_piles_up_what_does_not_fit_is_dropped_and_counted() -> None:
    slow = Slow()
    one = watch(slow, tape_events=10)
    for number in range(1000):
        one.note(number)
    assert len(one._tape) == 10
    assert one.dropped == 990
    one._tape.popleft()
    one.note(1)
    assert one.dropped == 991, "until the tape is empty, so that nothing comes behind a gap as if there were none"
    one.drain()
    assert slow.seen == [*range(1, 10)]
    assert slow.forgot == 1
    one.note(1000)
    one.drain()
    assert slow.seen[-1] == 1000
    assert slow.forgot == 1


def test_after_a_gap_the_machines_begin_anew() -> None:
    one = watch(tape_events=2)
    assert isinstance(one.reader, Reader)
    for number in range(5):
        one.note(Heard(1.0, {number: 1}))
    one.drain()
    assert one.found[Kind.UNKNOWN_REPORT] == 2
    assert one.reader.beside.blind


def test_a_thread_reads_what_is_put_onto_the_tape_and_ends() -> None:
    slow = Slow()
    one = watch(slow, every_seconds=0.001)
    one.start()
    one.note(1)
    until = time.monotonic() + 10
    while not slow.ticks or not slow.seen:
        assert time.monotonic() < until
        time.sleep(0.001)
    one.close()
    assert one._thread is not None
    assert not one._thread.is_alive()


def test_a_fault_in_the_observer_switches_it_off_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    one = watch()
    one.note(object())
    with caplog.at_level(logging.INFO, LOGGER):
        one.drain()
        one.switch_off(ValueError("again"))
        one.close()
    said = [record.getMessage() for record in caplog.records]
    assert not one.on
    assert [text for text in said if "switched itself off, and the engine goes on without it" in text] == said[:1]
    assert "AttributeError" in said[0]
    assert one.take() == {"off": 1}
    assert one.take() == {}


def test_of_a_storm_a_few_lines_are_logged_and_all_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    one = watch()
    with caplog.at_level(logging.WARNING, LOGGER):
        for number in range(100):
            one.tell(Violation(Kind.SECOND_REPORT, f"part {number} is over", 1.0))
        one.tell(Violation(Kind.ENDLESS, "part 3 is a job", 1.0))
        one.tell(Violation(Kind.SECOND_REPORT, "part 7 is over", 100.0))
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == BURST + 2
    assert "L2.stale_counted is broken (second_report): part 0 is over" in said[0]
    assert said[BURST - 1].endswith("more of these are only counted for 60 s")
    assert one.take() == {"second_report.L2.stale_counted": 101, "endless.L7.clock": 1}
    assert one.found == {Kind.SECOND_REPORT: 101, Kind.ENDLESS: 1}


# -- records -----------------------------------------------------------------------------------------------------------


def recorded(folder: Path, events: int = 1000) -> Path:
    """The record of a block that was given away under a store, after a few requests."""
    one = watch(record=str(folder), ring_events=events)
    scene = Scene()
    scene.reader, scene.ring = one.reader, one.ring  # type: ignore[assignment]
    scene.stored("r0", [1, 2, 3], [0, 1, 2])
    scene.built(loads={1: job("r1", [0, 1], [4, 5])}, gone=["r0"])
    scene.completed(1)
    scene.built(new("r2", [7, 8]), stores={2: job("r2", [7, 8], [3, 0])})
    scene.built(new("r3", [8]), gone=["r2"])
    (path,) = map(Path, one.written)
    return path


@pytest.mark.parametrize("events", [1000, 12])
def test_a_record_is_one_that_kvstate_checks(events: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded(tmp_path, events)
    assert (read(path)[0].lost > 0) == (events == 12)
    assert json.loads(path.read_text().splitlines()[0])["kvstate"] == FORMAT
    assert run(["trace", "check", str(path)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "L3.no_reuse: foreign 8 is given to request r3 under job 2" in said
    sound = tmp_path / "sound.ndjson"
    sound.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    assert run(["trace", "check", str(sound)]) == 0, "every row before that is one that the spec allows"


def test_an_autopsy_tells_the_story_of_the_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["autopsy", str(recorded(tmp_path))]) in (0, 1)
    said = " ".join(capsys.readouterr().out.split())
    assert "foreign 8: E01, outside -> owned" in said
    assert "foreign 8: E10" in said
    assert "foreign 8: E06" in said


def test_of_a_kind_one_record_is_written_and_not_more_than_are_allowed(tmp_path: Path) -> None:
    one = watch(record=str(tmp_path / "deep" / "folder"), records=2)
    for kind in (Kind.ENDLESS, Kind.ENDLESS, Kind.PUT_OFF, Kind.RAISED):
        one.tell(Violation(kind, "part 1 is late", 1.0))
    assert len(one.written) == 2
    assert len(list((tmp_path / "deep" / "folder").iterdir())) == 2


def test_a_folder_that_can_not_be_written_is_told_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    one = watch(record=str(tmp_path / "file" / "below"))
    one.tell(Violation(Kind.ENDLESS, "part 1 is late", 1.0))
    assert one.found[Kind.ENDLESS] == 1
    assert "can't be written" in caplog.text
    one.close()


def test_the_report_says_what_was_found(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = watch(record=str(tmp_path))
    one.note(Raised(1.0, "reset_cache", "AssertionError"))
    with caplog.at_level(logging.INFO, LOGGER):
        one.close()
        one.close()
    (path,) = tmp_path.glob("*report.json")
    report = json.loads(path.read_text())
    assert (report["half"], report["events"], report["dropped"], report["violations"]) == ("scheduler", 1, 0, 1)
    first = "reset_cache raised AssertionError"
    assert report["found"] == [{"kind": "raised", "law": "L6.total", "count": 1, "first": first}]
    ends = [record for record in caplog.records if "events seen" in record.getMessage()]
    assert len(ends) == 1
    assert ends[0].levelno == logging.WARNING
    assert ends[0].getMessage().endswith("1 events seen, 0 dropped, 1 violations: L6.total (raised) 1 times")


def test_a_ring_never_goes_back_in_time() -> None:
    ring = Ring(2)
    for now in (1.0, 3.0, 2.0):
        ring.at(now)
        ring.say(what="x")
    assert [event[0] for event in ring.kept] == [3.0, 3.0]


# -- settings ----------------------------------------------------------------------------------------------------------


def test_settings_have_defaults_and_are_read_from_their_own_place() -> None:
    assert ShadowSettings.of({"cpu_bytes_to_use": 1}) == ShadowSettings()
    assert ShadowSettings.of({"kvstate_shadow": {"record": "here", "deadline_seconds": 5}}).deadline_seconds == 5.0


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (7, "kv_connector_extra_config.kvstate_shadow: 7 is no mapping"),
        ({"recrod": "x"}, "kvstate_shadow.recrod: there is no such setting; did you mean record?"),
        ({"records": "x"}, "kvstate_shadow.records: 'x' is of type str, not int"),
        ({"deadline_seconds": 0}, "kvstate_shadow.deadline_seconds: 0 is too few"),
        ({"tape_events": -1}, "kvstate_shadow.tape_events: -1 is out of range"),
    ],
)
def test_a_setting_that_can_not_be_is_a_sentence(given: Any, sentence: str) -> None:
    with pytest.raises(ConnectorConfigError, match=sentence.replace("?", r"\?")):
        ShadowSettings.of({"kvstate_shadow": given})
