"""A record as a file in the trace-event format, which Perfetto's UI and chrome://tracing open.

What there is to see, from top to bottom:

* the scheduler: requests that matter (abort, preempt, reset, ...) as instants, compute steps from dispatch to
  retirement, jobs and loads from their birth to their verdict, with code and outcome, and loads that settle after it;
* a process for each rank, with a track for each copier: its copies from the effect that asked for them to their report.
  Copies that overlap lie in lanes of their own, so that no slice hides another;
* blocks by state over time, a counter for each pool, where the record begins at the beginning and says how large the
  pools are.

The record is read and the file is written line by line. What is kept in between is what is under way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

from kvstate.machines.table import Table
from kvstate.machines.tables.offload import OffloadTable
from kvstate.machines.tables.part import PartTable
from kvstate.machines.tables.transfer import TransferTable
from kvstate.observe.lanes import Lanes, Slice
from kvstate.observe.levels import Levels
from kvstate.trace.lines import Header, Line, RecordError, read

SCHEDULER: Final = 1
"""The process that stands for the scheduler; ranks follow from `RANKS` on."""
RANKS: Final = 10
REQUESTS, STEPS = "requests", "compute steps"
"""Two tracks of the scheduler."""
MOST: Final = 64
"""Blocks that are named in one slice."""
INSTANTS: Final = {
    "abort": "t", "preempt": "t", "cancel": "t", "reset": "g", "fence": "p", "drain": "p", "rank_lost": "g",
    "trouble": "p",
}  # fmt: skip
"""The inputs that are shown, and how far their mark reaches: a thread, a process, everything."""
_TABLES: Final[Mapping[str, type[Table]]] = {"part": PartTable, "offload": OffloadTable, "transfer": TransferTable}
ENDS: Final = {name: frozenset(table.STATES[state] for state in table.HOME) for name, table in _TABLES.items()}
"""The states in which a record of these machines is over."""

_encode = json.JSONEncoder(separators=(",", ":")).encode
Event = dict[str, Any]
"""A trace event."""


class Exporter:
    """Turns the lines of one record into trace events; each is handed to `put` as soon as it is known."""

    def __init__(self, header: Header, put: Callable[[Event], None]) -> None:
        self._put = put
        self._now = 0.0
        self._threads: dict[tuple[int, str], int] = {}
        self._lanes: dict[tuple[int, str], Lanes] = {}
        self._parts: dict[int, Slice] = {}
        self._steps: dict[int, Slice] = {}
        self._reported: list[tuple[Slice, float, dict[str, Any]]] = []
        """Copies whose report was heard in a turn that is not over, and at which time of the ledger."""
        self._open: dict[tuple[str, int], str] = {}
        """Jobs and loads that are not told: their names."""
        self._records: dict[tuple[str, int], tuple[str, int]] = {}
        """The job or load that a record of `offload` or `transfer` belongs to."""
        self._unsettled: dict[int, float] = {}
        """Loads that are told and not settled: when they were told."""
        self._levels = Levels(header)
        self._process(SCHEDULER, "scheduler")

    # -- lines ---------------------------------------------------------------------------------------------------------

    def feed(self, line: Line) -> None:
        """Take the next line."""
        if line.time > self._now:
            self._count()
            self._now = line.time
        data = line.data
        match line.kind:
            case "row":
                self._row(data)
            case "born":
                self._born(data)
            case "in":
                self._input(data)
            case "out":
                self._effect(data)
            case _:
                self._verdict(data)

    def close(self) -> None:
        """The record is over: end what is not."""
        self._count()
        self._heard(None)
        for slices in (self._parts, self._steps):
            for one in slices.values():
                self._end(one, {"ended": "not in the record"})
            slices.clear()
        for (cat, number), name in self._open.items():
            self._async("e", cat, number, name, {"outcome": "not in the record"})
        self._open.clear()

    def _row(self, data: Mapping[str, Any]) -> None:
        machine, after = data["m"], data.get("to")
        self._levels.move(machine, data["id"], data.get("from"), after)
        if machine == "part" and data["id"] in self._parts:
            if after == "lost":
                self._parts[data["id"]].args["given up"] = self._now
            elif after in ENDS["part"]:
                self._end(self._parts.pop(data["id"]), {"ended": "by proof", "state": after})
        elif machine in ("offload", "transfer"):
            record = (machine, data["id"])
            owner = self._records.get(record)
            if owner in self._open and after == "retry_wait":
                self._async("n", *owner, self._open[owner], {"event": "waits for another attempt"})
            if after in ENDS[machine]:
                self._records.pop(record, None)

    def _born(self, data: Mapping[str, Any]) -> None:
        machine = data["m"]
        number = data.get("job" if machine == "offload" else "load")
        if type(number) is not int:
            return
        cat = "job" if machine == "offload" else "load"
        if machine != "load":
            self._records[machine, data["id"]] = cat, number
        if machine != "transfer":
            self._open[cat, number] = name = f"{cat} of {data.get('blocks')} blocks"
            told = {key: data[key] for key in ("lease", "pool", "blocks") if key in data}
            self._async("b", cat, number, name, {cat: number, **told})

    def _input(self, data: Mapping[str, Any]) -> None:
        name = data["in"]
        if name == "report":
            self._report(data)
        elif name == "turn":
            self._heard(self._now)
        elif name == "step_dispatched" and "refused" not in data:
            self._steps[data["step"]] = self._begin(SCHEDULER, STEPS, f"step {data['step']}", "step", {})
        elif name == "step_retired" and "refused" not in data:
            for step in [step for step in self._steps if step <= data["step"]]:
                self._end(self._steps.pop(step), {})
        elif name in INSTANTS:
            self._instant(name, INSTANTS[name], _rest(data, "in"))

    def _effect(self, data: Mapping[str, Any]) -> None:
        if "src" not in data:  # no copy: a cancel, an undo, a hold
            if "token" in data:
                self._instant(data["out"], "t", _rest(data, "out"))
            return
        blocks, kind = data["src"], data["out"]
        args = {"token": data["token"], "attempt": data["attempt"], "after step": data["after"]}
        args |= {"src": blocks[:MOST], "dst": data["dst"][:MOST]}
        pid = self._process(RANKS + data["rank"], f"rank {data['rank']}")
        self._parts[data["token"][-1]] = self._begin(
            pid, data.get("copier", "copier"), f"{kind} of {len(blocks)} blocks", kind, args
        )

    def _report(self, data: Mapping[str, Any]) -> None:
        if self._reported and self._reported[0][1] < self._now:  # a record without turns
            self._heard(None)
        codes = [failure[1] for failure in data.get("failures", ())]
        said = {"outcome": data["outcome"], **({"codes": codes} if codes else {})}
        part = self._parts.get(data["token"][-1])
        if part is None:
            self._instant("report of what is over", "t", {"token": data["token"], **said})
        elif data["outcome"] == "timeout":
            part.args |= said
        else:
            self._reported.append((self._parts.pop(data["token"][-1]), self._now, said))

    def _heard(self, when: float | None) -> None:
        """The turn is over in which copies were reported: they end now, or when the ledger said, if nobody knows."""
        reported, self._reported = self._reported, []
        for part, told, said in reported:
            self._end(part, said, told if when is None else when)

    def _verdict(self, data: Mapping[str, Any]) -> None:
        cat = data["verdict"]
        if cat == "fatal":
            self._instant("fatal", "g", {"law": data.get("law"), "sentence": data.get("sentence")})
        elif cat == "settled":
            told = self._unsettled.pop(data["load"], self._now)
            if told < self._now:
                self._async("b", "settling", data["load"], "load settles", {"load": data["load"]}, told)
                self._async("e", "settling", data["load"], "load settles", {})
        else:
            number = data[cat]
            said = {"outcome": data["ending"], "codes": data["errors"][:MOST]}
            name = self._open.pop((cat, number), None)
            if name is None:
                self._instant(f"{cat} {number} {data['ending']}", "t", said)
            else:
                self._async("e", cat, number, name, said)
            if cat == "load":
                self._unsettled[number] = self._now

    # -- events --------------------------------------------------------------------------------------------------------

    def _begin(self, pid: int, track: str, name: str, cat: str, args: dict[str, Any]) -> Slice:
        lane = self._lanes.setdefault((pid, track), Lanes()).take()
        return Slice(self._now, pid, track, lane, name, cat, args)

    def _end(self, one: Slice, more: Mapping[str, Any], when: float | None = None) -> None:
        self._lanes[one.pid, one.track].give(one.lane)
        args = {**one.args, **more}
        took = round(_us(self._now if when is None else when) - _us(one.begun), 3)
        self._event("X", one.name, one.pid, one.track, one.begun, lane=one.lane, cat=one.cat, dur=took, args=args)

    def _instant(self, name: str, reach: str, args: Mapping[str, Any]) -> None:
        self._event("i", name, SCHEDULER, REQUESTS, self._now, cat="request", s=reach, args=args)

    def _async(
        self, phase: str, cat: str, number: int, name: str, args: Mapping[str, Any], when: float | None = None
    ) -> None:
        at = self._now if when is None else when
        self._event(phase, name, SCHEDULER, REQUESTS, at, cat=cat, id=f"{cat}-{number}", args=args)

    def _count(self) -> None:
        for pool, counts in self._levels.changed():
            self._event("C", f"blocks of {pool}", SCHEDULER, "", self._now, args=counts)

    def _event(self, phase: str, name: str, pid: int, track: str, when: float, *, lane: int = 0, **more: Any) -> None:
        tid = self._thread(pid, f"{track}, lane {lane + 1}" if lane else track, lane) if track else 0
        self._put({"name": name, "ph": phase, "ts": _us(when), "pid": pid, "tid": tid, **more})

    def _process(self, pid: int, name: str) -> int:
        """The process, which is named when it is met for the first time."""
        if (pid, "") not in self._threads:
            self._threads[pid, ""] = 0
            self._put({"name": "process_name", "ph": "M", "ts": 0, "pid": pid, "tid": 0, "args": {"name": name}})
        return pid

    def _thread(self, pid: int, track: str, order: int) -> int:
        tid = self._threads.get((pid, track))
        if tid is None:
            tid = self._threads[pid, track] = len(self._threads)
            of_it = {"ph": "M", "ts": 0, "pid": pid, "tid": tid}
            self._put({"name": "thread_name", **of_it, "args": {"name": track}})
            self._put({"name": "thread_sort_index", **of_it, "args": {"sort_index": order}})
        return tid


def _us(seconds: float) -> float:
    """Microseconds, to the nanosecond."""
    return round(seconds * 1e6, 3)


def _rest(data: Mapping[str, Any], known: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in ("n", "t", known)}


class Exported(NamedTuple):
    """What came of an export."""

    lines: int
    """Of the record that were read, the first included."""
    events: int
    """That were written."""
    cut: str = ""
    """Why the rest of the record could not be read, in a sentence; empty if all of it was."""


def export(path: Path, stream: TextIO) -> Exported:
    """Write the record at `path` to a text stream in the trace-event format, as one JSON object.

    A record that was cut off is exported up to there, and the answer says so. Errors: `RecordError` for what is no
    record; whatever the stream raises.
    """
    header, lines = read(path)
    events = 0

    def put(event: Event) -> None:
        nonlocal events
        stream.write(f"{',' if events else ''}\n{_encode(event)}")
        events += 1

    stream.write('{"displayTimeUnit":"ms","traceEvents":[')
    exporter, count, cut = Exporter(header, put), 1, ""
    try:
        for line in lines:
            exporter.feed(line)
            count = line.number
    except RecordError as error:
        cut = str(error)
    exporter.close()
    stream.write("\n]}\n")
    return Exported(count, events, cut)
