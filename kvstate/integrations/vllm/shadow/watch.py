"""The tape, the thread that reads it, and what becomes of what is found: counts, a log, records, a report.

A hook puts an event onto the tape and goes on. The tape has a bound: if nobody reads for too long, what comes is
dropped and counted until the tape is empty, and then the machines begin anew, for they have missed something. The
thread reads in bites, and lets others run between two of them, so that the engine's own is never kept waiting for long.

Whatever goes wrong in here switches the observer off, says so once, and reaches nobody else.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol

from kvstate.integrations.vllm.shadow.kinds import MEANINGS, Kind, Violation
from kvstate.integrations.vllm.shadow.record import Ring
from kvstate.integrations.vllm.shadow.settings import ShadowSettings

BITE: Final = 100e-6
"""Seconds that the thread reads before it lets others run."""
BURST, WINDOW = 5, 60.0
"""Of one kind so many lines are logged in so many seconds."""
log = logging.getLogger("vllm.kvstate.shadow")
"""Where it says what it finds."""


class Reads(Protocol):
    """What reads a tape."""

    def read(self, event: Any, /) -> None:
        """One event."""
        ...

    def forget(self) -> None:
        """Events were missed."""
        ...

    def tick(self, now: float, /) -> None:
        """It is this time."""
        ...


class Watch:
    """One observer: of a scheduler or of a worker. None of its methods raises."""

    def __init__(self, half: str, settings: ShadowSettings, said: Mapping[str, Any]) -> None:
        """`half` is `scheduler` or `worker`; `said` stands in the first line of records."""
        self.half = half
        self.settings = settings
        self.on = True
        """Does it still observe?"""
        self.ring = Ring(settings.ring_events)
        self.found: Counter[Kind] = Counter()
        """How often each kind was found."""
        self.first: dict[Kind, Violation] = {}
        """The first of each kind."""
        self.events = 0
        """Events that were read."""
        self.dropped = 0
        """Events that were dropped."""
        self.seconds = 0.0
        """What reading has taken in all, in seconds of CPU time."""
        self.written: list[str] = []
        """Records that were written."""
        self.reader: Reads | None = None
        """Set by whoever makes it."""
        self._said = dict(said)
        self._tape: deque[Any] = deque()
        self._blind = False
        self._fresh: Counter[str] = Counter()
        self._told: dict[Kind, tuple[float, int]] = {}
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    # -- in the hooks --------------------------------------------------------------------------------------------------

    def note(self, event: Any) -> None:
        """Put it onto the tape, or drop it."""
        if self._blind or len(self._tape) >= self.settings.tape_events:
            self._blind = True
            self.dropped += 1
        else:
            self._tape.append(event)

    def start(self) -> None:
        """Let a thread read from here on."""
        self._thread = threading.Thread(target=self._run, name=f"kvstate-shadow-{self.half}", daemon=True)
        self._thread.start()

    def switch_off(self, error: BaseException) -> None:
        """Something went wrong in the observer: it ends, and the engine does not hear of it."""
        with suppress(Exception):
            was, self.on = self.on, False
            self._tape.clear()
            self._stop.set()
            if was:
                self._fresh["off"] += 1
                log.error(
                    "kvstate shadow (%s): switched itself off, and the engine goes on without it: %s: %s",
                    self.half, type(error).__name__, error, exc_info=error,
                )  # fmt: skip

    # -- reading -------------------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Read all that is on the tape, here and now."""
        while self._bite(time.monotonic() + 3600.0):
            pass

    def _run(self) -> None:
        while not self._stop.wait(self.settings.every_seconds):
            while self._bite(time.monotonic() + BITE):
                time.sleep(0)  # whoever waits for the interpreter goes first

    def _bite(self, until: float) -> bool:
        """Read until then; is there more?"""
        try:
            with self._lock:
                return self._read(until)
        except Exception as error:
            self.switch_off(error)
            return False

    def _read(self, until: float) -> bool:
        reader, tape = self.reader, self._tape
        if reader is None or not self.on:
            return False
        now, begin = time.monotonic(), time.thread_time()
        while tape:
            reader.read(tape.popleft())
            self.events += 1
            if time.monotonic() > until:
                break
        if not tape and self._blind:
            reader.forget()
            self._blind = False
        if not tape:
            reader.tick(now)
        self.seconds += time.thread_time() - begin
        return bool(tape)

    # -- what is found -------------------------------------------------------------------------------------------------

    def tell(self, violation: Violation) -> None:
        """A violation was found: count it, log it, write a record of it."""
        kind = violation.kind
        self.found[kind] += 1
        self._fresh[f"{kind}.{violation.law}"] += 1
        since, count = self._told.get(kind, (violation.seconds, 0))
        if violation.seconds - since > WINDOW:
            since, count = violation.seconds, 0
        self._told[kind] = since, count + 1
        if count < BURST:
            last = f"; more of these are only counted for {WINDOW:g} s" if count + 1 == BURST else ""
            where = self._record(violation)
            log.warning(
                "kvstate shadow (%s): %s is broken (%s): %s%s%s",
                self.half, violation.law, kind, violation.sentence, last, where and f"; kvstate autopsy {where}",
            )  # fmt: skip
        self.first.setdefault(kind, violation)

    def _record(self, violation: Violation) -> str:
        """Write a record of the first of its kind, where a folder is given and it has room; says where."""
        settings = self.settings
        if not settings.record or violation.kind in self.first or len(self.written) >= settings.records:
            return ""
        path = self._path(f"{violation.kind}.ndjson")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.ring.dump(path, violation, self._said)
        except OSError as error:
            log.warning("kvstate shadow (%s): %s can't be written: %s", self.half, path, error.strerror)
            return ""
        self.written.append(str(path))
        return str(path)

    def _path(self, name: str) -> Path:
        return Path(self.settings.record) / f"shadow-{self.half}-{os.getpid()}-{name}"

    def take(self) -> dict[str, int]:
        """What was found since the last time, for vLLM's own metrics: by kind and law, and `off`."""
        if not self._fresh:
            return {}
        with self._lock:
            fresh, self._fresh = self._fresh, Counter()
            return dict(fresh)

    # -- the end -------------------------------------------------------------------------------------------------------

    def report(self) -> dict[str, Any]:
        """What was seen and found, in plain values."""
        found = [
            {"kind": str(kind), "law": MEANINGS[kind].law, "count": count, "first": self.first[kind].sentence}
            for kind, count in sorted(self.found.items())
        ]
        return {
            "half": self.half, "on": self.on, "events": self.events, "dropped": self.dropped,
            "seconds_beside": round(self.seconds, 3), "violations": sum(self.found.values()), "found": found,
            "records": self.written, **self._said,
        }  # fmt: skip

    def close(self) -> None:
        """Read the rest and say what was found. May be called again."""
        if self._stop.is_set():
            return
        self._stop.set()
        with suppress(Exception):
            if self._thread is not None and self._thread is not threading.current_thread():
                self._thread.join(5.0)
            self.drain()
        with suppress(Exception):
            self._say()

    def _say(self) -> None:
        report = self.report()
        named = "; ".join(f"{one['law']} ({one['kind']}) {one['count']} times" for one in report["found"])
        log.log(
            logging.WARNING if report["violations"] or not self.on else logging.INFO,
            "kvstate shadow (%s): %d events seen, %d dropped, %d violations%s",
            self.half, self.events, self.dropped, report["violations"], named and f": {named}",
        )  # fmt: skip
        if self.settings.record:
            path = self._path("report.json")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
