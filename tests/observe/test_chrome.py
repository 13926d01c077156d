"""A record as a trace: valid by the rules of the format, and true to the record."""

from __future__ import annotations

import io
import json
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kvstate.cli import run
from kvstate.errors import Code
from kvstate.machines.messages import Failure, Outcome
from kvstate.observe.chrome import INSTANTS, RANKS, SCHEDULER, export
from kvstate.observe.lanes import Lanes
from kvstate.observe.levels import Levels, pools_in
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.settings import RuntimeConfig, Workers
from kvstate.trace.lines import Header, RecordError
from tests.observe.served import Served
from tests.runtime.rig import got

Event = dict[str, Any]
BUSY = Failure(-1, int(Code.BUSY), "fetch", transient=True)
PHASES = {"M", "X", "b", "e", "n", "i", "C"}


def exported(path: Path) -> list[Event]:
    """The events of a record, after a look at the rules of the format."""
    stream = io.StringIO()
    done = export(path, stream)
    assert done.cut == ""
    whole = json.loads(stream.getvalue())
    events = whole["traceEvents"]
    assert len(events) == done.events
    valid(events)
    assert isinstance(events, list)
    return events


def valid(events: list[Event]) -> None:
    """What the trace-event format asks of every event, and what makes a viewer drop or misplace one."""
    named: set[tuple[int, int]] = {(event["pid"], 0) for event in events if event["name"] == "process_name"}
    named |= {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    open_ones: Counter[tuple[str, str, str]] = Counter()
    for event in sorted(
        events, key=lambda event: (event["ts"], "ben".index(event["ph"]) if event["ph"] in "be" else 2)
    ):
        assert event["ph"] in PHASES
        assert isinstance(event["ts"], int | float)
        assert event["ts"] >= 0
        assert type(event["pid"]) is int
        assert type(event["tid"]) is int
        assert isinstance(event["name"], str)
        assert (event["pid"], event["tid"]) in named, f"{event} lies on a track without a name"
        match event["ph"]:
            case "X":
                assert event["dur"] >= 0
                tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
            case "b" | "e" | "n":
                key = (event["cat"], event["id"], event["name"])
                open_ones[key] += {"b": 1, "e": -1, "n": 0}[event["ph"]]
                assert open_ones[key] in ((0, 1) if event["ph"] != "n" else (1,)), f"{event} matches nothing"
            case "i":
                assert event["s"] in ("t", "p", "g")
            case "C":
                assert event["args"]
                assert all(type(value) is int and value >= 0 for value in event["args"].values())
    assert set(open_ones.values()) <= {0}, "every begin has its end"
    for spans in tracks.values():
        for (_, end), (begin, _) in zip(sorted(spans), sorted(spans)[1:], strict=False):
            assert begin >= end - 1e-3, "slices of one track overlap"


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of a replay with every kind of chaos."""
    path = tmp_path_factory.mktemp("chrome") / "run.ndjson"
    args = ["replay", "--limit", "60", "--device-blocks", "200", "--host-blocks", "400", "--deterministic", "--chaos"]
    assert run([*args, *"--abort 20% --preempt 20% --lost 3% --no-race --quiet".split(), "--trace-out", str(path)]) == 0
    return path


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open() as file:
        yield from map(json.loads, file)


def test_a_replay_with_chaos_is_a_valid_trace_and_has_all_of_it(replayed: Path) -> None:
    events = exported(replayed)
    said = list(lines(replayed))
    works = [line for line in said if "src" in line]
    copies = [event for event in events if event["ph"] == "X" and event["pid"] >= RANKS]
    assert sorted(tuple(event["args"]["token"]) for event in copies) == sorted(tuple(line["token"]) for line in works)
    begun = {tuple(line["token"]): line["t"] for line in works}
    ended: dict[tuple[int, ...], float] = {}
    heard: list[tuple[int, ...]] = []
    for line in said:
        if line.get("in") == "report" and line["outcome"] != "timeout":
            heard.append(tuple(line["token"]))
        elif line.get("in") == "turn":
            ended = dict.fromkeys(heard, line["t"]) | ended
            heard.clear()
    for event in copies:
        token = tuple(event["args"]["token"])
        assert event["ts"] == pytest.approx(begun[token] * 1e6)
        if "outcome" in event["args"] and event["args"]["outcome"] != "timeout":
            assert event["dur"] == pytest.approx((ended[token] - begun[token]) * 1e6, abs=2e-3)
    for cat in ("job", "load"):
        verdicts = {line[cat]: line["ending"] for line in said if line.get("verdict") == cat}
        ends = {event["id"]: event["args"]["outcome"] for event in events if event["ph"] == "e" and event["cat"] == cat}
        assert ends == {f"{cat}-{number}": ending for number, ending in verdicts.items()}
    asked = Counter(line["in"] for line in said if line.get("in") in INSTANTS)
    marks = Counter(event["name"] for event in events if event["ph"] == "i" and event["name"] in INSTANTS)
    assert marks == asked + Counter(line["out"] for line in said if line.get("out") == "cancel")
    assert {"abort", "preempt"} <= set(marks)
    steps = sum(line.get("in") == "step_dispatched" for line in said)
    assert sum(event["ph"] == "X" and event["cat"] == "step" for event in events) == steps


def test_blocks_by_state_add_up_and_end_as_the_rows_say(replayed: Path) -> None:
    events = exported(replayed)
    last: dict[str, dict[str, int]] = {}
    for event in events:
        if event["ph"] == "C":
            assert sum(event["args"].values()) == {"blocks of device": 200, "blocks of host": 400}[event["name"]]
            last[event["name"]] = event["args"]
    states = {"block": dict.fromkeys(range(600), "free")}
    for line in lines(replayed):
        if line.get("m") == "block" and "row" in line:
            states["block"][line["id"]] = line["to"]
    for name, blocks in (("blocks of device", range(200)), ("blocks of host", range(200, 600))):
        found = Counter(states["block"][block] for block in blocks)
        assert last[name] == {state: found[state] for state in last[name]}


def test_the_whole_of_a_load_that_is_tried_again_and_settles_late(tmp_path: Path) -> None:
    path = tmp_path / "run.ndjson"
    rig = Served(record=path)
    lease, _ = rig.compute(1, 2)
    rig.land(0.01)
    rig.kv.finish(lease)
    rig.crowd()
    lease, _, started = rig.fetch(1, 2)
    rig.land(0.02, failures=[BUSY])
    rig.clock.advance(0.05)
    rig.kv.poll()  # the second attempt goes on
    rig.clock.advance(1.0)
    rig.kv.poll()  # the deadline
    rig.kv.preempt(lease)
    rig.land(0.3)
    rig.kv.reset()
    rig.kv.step_dispatched(1, [])
    rig.clock.advance(0.5)
    rig.kv.poll()
    rig.kv.step_retired(1)
    assert not rig.kv.shutdown(1.0)
    events = exported(path)
    load = [event for event in events if event.get("id") == f"load-{started.load}"]
    assert [event["ph"] for event in load] == ["b", "n", "e"]
    assert load[-1]["args"] == {"outcome": "recompute", "codes": ["BUSY"]}
    assert {event["name"] for event in load} == {"load of 2 blocks"}
    settling = [event for event in events if event.get("cat") == "settling"]
    assert [(event["ph"], event["ts"]) for event in settling] == [("b", 1080000.0), ("e", 1380000.0)]
    fetches = [event for event in events if event["ph"] == "X" and event["cat"] == "fetch"]
    assert [(event["dur"], event["args"]["attempt"], event["args"]["outcome"]) for event in fetches] == [
        (20000.0, 1, "failed"),
        (1350000.0, 2, "done"),
    ]
    assert fetches[0]["args"]["codes"] == [int(Code.BUSY)]
    assert {"preempt", "reset"} <= {event["name"] for event in events if event["ph"] == "i"}
    (step,) = [event for event in events if event.get("cat") == "step"]
    assert (step["name"], step["dur"]) == ("step 1", 500000.0)
    counters = [event["args"] for event in events if event["name"] == "blocks of device"]
    assert sum(counters[-1].values()) == 4


def test_ranks_have_processes_of_their_own_and_a_lost_one_is_marked(tmp_path: Path) -> None:
    path = tmp_path / "run.ndjson"
    ledger = Served(ledger={"ranks": 1}).kv.config.ledger
    kv = KVRuntime(RuntimeConfig(ledger=replace(ledger, ranks=2), block_bytes=64, workers=Workers.OWN, record=path))
    lease = got(kv.open("a"))
    refs = got(kv.allocate(lease, 1)).blocks
    got(kv.seal(lease, refs, [b"k" * 16]))
    got(kv.offload(lease, refs))
    kv.take_effects()
    kv.worker_lost(1, "it was killed")
    kv.poll()
    kv.close()
    events = exported(path)
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {SCHEDULER: "scheduler", RANKS: "rank 0", RANKS + 1: "rank 1"}
    (mark,) = [event for event in events if event["name"] == "rank_lost"]
    assert (mark["s"], mark["args"]["rank"]) == ("g", 1)
    parts = {event["pid"]: event["args"] for event in events if event["ph"] == "X"}
    assert parts[RANKS + 1]["ended"] == "by proof"
    assert parts[RANKS]["ended"] == "not in the record"


def test_what_was_given_up_and_what_came_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "run.ndjson"
    rig = Served(record=path)
    rig.compute(1)
    (flight,) = rig.copier.in_flight()
    rig.copier.deliver(flight.serial, Outcome.TIMEOUT)
    rig.kv.poll()
    rig.copier.land(flight.serial)
    rig.clock.advance(0.1)
    rig.copier.deliver(flight.serial)
    rig.copier.deliver(flight.serial)
    rig.kv.poll()
    rig.kv.close()
    events = exported(path)
    (store,) = [event for event in events if event["ph"] == "X"]
    assert store["dur"] == 100000.0
    assert store["args"]["given up"] == 0.0
    assert store["args"]["outcome"] == "done"
    assert [event["name"] for event in events if event["ph"] == "i"] == ["report of what is over"]


def test_the_end_of_a_run_has_no_counters_and_its_verdicts_stand_alone(tmp_path: Path) -> None:
    path = tmp_path / "end.ndjson"
    rig = Served(crash_dump=path, ring_events=30)
    for number in range(5):
        lease, _ = rig.compute(number)
        rig.land(0.01)
        rig.kv.finish(lease)
    rig.compute(9)
    done = rig.land(failures=[Failure(-1, int(Code.DEVICE_ERROR), "store", message="xid 79")])
    assert done.fatal is not None
    assert any("the end of the run, " in trouble for trouble in done.troubles)
    events = exported(path)
    assert not [event for event in events if event["ph"] == "C"]
    (fatal,) = [event for event in events if event["name"] == "fatal"]
    assert fatal["s"] == "g"
    assert "xid 79" in fatal["args"]["sentence"]


def test_lanes_are_given_and_taken_the_lowest_first() -> None:
    lanes = Lanes()
    assert [lanes.take() for _ in range(3)] == [0, 1, 2]
    lanes.give(2)
    lanes.give(0)
    assert [lanes.take() for _ in range(3)] == [0, 2, 3]


def test_pools_that_are_not_said_are_not_counted() -> None:
    assert pools_in({}) == []
    assert pools_in({"ledger": {"pools": [{"name": "device", "blocks": "many"}]}}) == []
    assert pools_in({"ledger": {"pools": ["device"]}}) == []
    assert pools_in({"device_blocks": 3}) == [("device", 3, False)]
    settings = {"ledger": {"pools": [{"name": "engine", "blocks": 2, "foreign": True}, {"name": "host", "blocks": 1}]}}
    levels = Levels(Header("0", {}, 0, settings))
    levels.move("foreign", 1, "outside", "owned")
    levels.move("block", 2, "free", "open")
    levels.move("block", 9, "free", "open")
    levels.move("block", 2, "gone", "open")
    found = dict(levels.changed())
    assert (found["engine"]["outside"], found["engine"]["owned"], found["host"]["open"]) == (1, 1, 1)
    assert list(levels.changed()) == []


# ---- Large and broken records ----------------------------------------------------------------------------------------


def shifted(line: dict[str, Any], turn: int) -> dict[str, Any]:
    """The same again, of other records: their numbers are moved on. Blocks are used again, as they are."""
    far = 1_000_000 * turn
    moved: dict[str, Any] = {name: line[name] + far for name in ("job", "load", "step") if name in line}
    if "token" in line:
        moved["token"] = [line["token"][0], line["token"][1] + far]
    if line.get("m") not in (None, "block"):
        moved["id"] = line["id"] + far
    return line | moved


def test_memory_does_not_grow_with_the_record(tmp_path: Path) -> None:
    """A run that comes to rest, told again and again: what is over is forgotten."""

    class Nowhere(io.StringIO):
        def write(self, text: str) -> int:
            return len(text)

    def peak(path: Path) -> int:
        tracemalloc.start()
        export(path, Nowhere())
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    rig = Served(record=tmp_path / "run.ndjson", ledger={"part_blocks": 1, "batch_blocks": 1})
    for step in range(1, 9):
        lease, _ = rig.compute(step, step + 100)
        rig.kv.step_dispatched(step, [lease])
        rig.land(0.01)
        rig.kv.step_retired(step)
        rig.kv.finish(lease)
        rig.crowd()
        lease, _, _ = rig.fetch(step, step + 100)
        rig.land(0.02)
        rig.land(0.01)
        rig.kv.preempt(lease)
    assert not rig.kv.shutdown(1.0)
    head, *rest = list(lines(tmp_path / "run.ndjson"))
    sizes = []
    for times in (1, 9):
        path = tmp_path / f"{times}.ndjson"
        with path.open("w") as file:
            print(json.dumps(head), file=file)
            for turn in range(times):
                for place, line in enumerate(rest):
                    number = turn * len(rest) + place + 1
                    print(json.dumps(shifted(line, turn) | {"n": number, "t": turn + line["t"]}), file=file)
        sizes.append(peak(path))
    assert sizes[1] < sizes[0] + 10_000, sizes


def test_a_record_that_was_cut_off_is_exported_up_to_there(
    replayed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut, out = tmp_path / "cut.ndjson", tmp_path / "cut.json"
    cut.write_text(replayed.read_text()[:200_000])
    assert run(["trace", "export", str(cut), "-o", str(out)]) == 1
    told = capsys.readouterr()
    assert "the record ends early, and what came before is exported: " in told.err
    assert "it is the last one, so the record may have been cut off" in told.err
    assert "events of" in told.out
    events = json.loads(out.read_text())["traceEvents"]
    valid(events)
    assert [event for event in events if event.get("args", {}).get("ended") == "not in the record"]
    assert sorted(tmp_path.iterdir()) == sorted([cut, out])


def test_mistakes_are_a_sentence_and_leave_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    none, out = tmp_path / "none.ndjson", tmp_path / "out.json"
    none.write_text("{}\n")
    out.write_text("mine")
    assert run(["trace", "export", str(none), "-o", str(out)]) == 1
    assert "this is no record of format" in capsys.readouterr().err
    assert out.read_text() == "mine", "what was there is left alone"
    assert run(["trace", "export", str(none), "-o", str(none)]) == 2
    assert "is the record itself; write the trace to another file" in capsys.readouterr().err
    assert run(["trace", "export", str(none), "-o", str(tmp_path / "no" / "out.json")]) == 1
    assert "can't be written: No such file or directory" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == [none, out]
    (tmp_path / "empty").touch()
    with pytest.raises(RecordError, match="is empty"):
        export(tmp_path / "empty", io.StringIO())
