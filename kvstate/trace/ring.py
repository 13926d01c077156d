"""The end of a record, kept in memory: cheap enough to be always on, and written out when something broke.

Nothing is put into words before that: an event is kept as it came, and costs about as much as the call that tells of
it. What falls out of the ring is only counted. The file is a record like any other, whose first line says how many
lines are missing before its second; `kvstate autopsy` and `kvstate trace check` read it. What they can't know of a
record that was there before is what its variables were, so a guard that asks for them is not held against it.

An event is five things in a row in a list that is one of several: there is no object to make for it, and the oldest
list leaves as a whole. Counting and weighing is done where a list is full, or where something else than a row is told.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

from kvstate.machines import bulk
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Adopt, Effect, Report, Work
from kvstate.machines.ports import Sink
from kvstate.machines.records import Roster
from kvstate.machines.verdicts import JobVerdict, Verdict
from kvstate.trace.observer import Observer
from kvstate.trace.record import Lines
from kvstate.trace.rows import listen
from kvstate.trace.words import Values, birth, of_birth, of_effect, of_report, of_turn, of_verdict

EVENTS: Final = 20_000
"""How many events a ring keeps where nothing is said; a row that fired on many records at once is one."""
NAMED: Final = 500_000
"""Blocks and keys that the kept events name, about: eight bytes each, and more where they are not in a column."""
CHUNK: Final = 1_000
"""Events of one list, about."""
FIELDS: Final = 5
"""Of one event: (time, row, records, before, after), or (time, "", what is said, its words, 0)."""

_Words = Callable[[Any], Values]
_Event = tuple[float, str, Any, Any, int]


class Ring(Observer):
    """Keeps the last `events` events of a ledger, which is never restored. Errors: `ValueError` for less than one."""

    def __init__(self, ledger: Ledger, events: int = EVENTS) -> None:
        """Listen to the ledger, which has had no input yet."""
        if events < 1:
            raise ValueError(f"a ring of {events} events keeps nothing; keep at least 1")
        self.ledger = ledger
        """Whose end it keeps."""
        self._most = events
        self._now: list[Any] = []
        """Events that are not in a list of their own yet."""
        self._wide = 0
        """What those name that are about many."""
        self._old: deque[tuple[list[Any], int]] = deque()
        """Full lists, and how many blocks and keys the events of each name."""
        self._gone = 0
        """Events that have left."""
        self._heard = 0
        """Reports of this turn."""
        ports = ledger.core.ports.ports
        self._machines = {row: name for name, port in ports.items() for row in port.table.ROWS}
        self._fired = self._rows()
        self._said: Callable[[], int]
        """Events that were no rows."""
        self._listen()

    def _rows(self) -> int:
        """How many rows have fired."""
        return sum(sum(port.fired) for port in self.ledger.core.ports.ports.values())

    def _listen(self) -> None:
        """Make what is told: closures, since the call alone costs half of what an event may."""
        books, now, keep, many, said = self.ledger.books, self._now, self._now.extend, self._many, 0

        def note(value: object, words: _Words | None) -> None:
            nonlocal said
            said += 1
            keep((books.now, "", value, words, 0))

        def by_number(_machine: str, slots: Sequence[int], row: str, before: int, after: int) -> None:
            keep((books.now, row, slots[0] if len(slots) == 1 else many(slots[:]), before, after))

        def by_uid(uids: Sequence[int]) -> Sink:
            def sink(_machine: str, slots: Sequence[int], row: str, before: int, after: int) -> None:
                found = uids[slots[0]] if len(slots) == 1 else many(_all(uids, slots))
                keep((books.now, row, found, before, after))

            return sink

        def with_birth(uids: Sequence[int], words: _Words) -> Sink:
            known: dict[int, int] = {}

            def sink(machine: str, slots: Sequence[int], row: str, before: int, after: int) -> None:
                for slot in slots:
                    uid = uids[slot]
                    if known.get(slot) != uid:
                        known[slot] = uid
                        note(birth(books, machine, slot, uid), words)
                    keep((books.now, row, uid, before, after))
                if len(now) >= FIELDS * CHUNK:
                    self._turn_over()

            return sink

        def on_input(name: str, _answer: object = None, /, **values: Any) -> None:
            note({"in": name, **values}, None)

        def on_report(report: Report) -> None:
            self._heard += 1
            note(report, of_report)

        def on_effect(effect: Effect) -> None:
            if isinstance(effect, Work | Adopt):
                self._wide += len(effect.keys)
            note(effect, of_effect)

        def on_verdict(verdict: Verdict) -> None:
            if isinstance(verdict, JobVerdict):
                self._wide += len(verdict.keys)
            note(verdict, of_verdict)

        self._note, self._said = note, lambda: said
        self.on_input, self.on_report = on_input, on_report  # type: ignore[method-assign]
        self.on_effect, self.on_verdict = on_effect, on_verdict  # type: ignore[method-assign]
        rosters: dict[str, Roster[Any]] = {
            "part": books.parts, "offload": books.jobs, "transfer": books.batches, "load": books.loads
        }  # fmt: skip
        for name, port in self.ledger.core.ports.ports.items():
            if name in rosters:
                uids, words = rosters[name].uids, partial(of_birth, given=port.table.GIVEN)
                listen(self.ledger, with_birth(uids, words) if port.table.GIVEN else by_uid(uids), [name])
            else:
                listen(self.ledger, by_uid(books.keys.uids) if name == "key" else by_number, [name])

    def _many(self, named: Sequence[int]) -> Sequence[int]:
        """An event is about many; these are a copy, since the ledger's lists live on."""
        self._wide += len(named)
        return named

    def _turn_over(self) -> None:
        """Begin a new list, and let the oldest go where the others are enough, or name too many."""
        self._old.append((self._now[:], self._wide))
        self._now.clear()
        self._wide = 0
        events, named = sum(len(one) for one, _ in self._old) // FIELDS, sum(named for _, named in self._old)
        while len(self._old) > 1:
            oldest, its = self._old[0]
            if events - len(oldest) // FIELDS < self._most and named <= NAMED:
                break
            self._old.popleft()
            self._gone += len(oldest) // FIELDS
            events, named = events - len(oldest) // FIELDS, named - its

    def on_turn(self) -> None:
        """Keep when reports were heard; and begin a new list where this one is full, which rows do not look at."""
        if self._heard:
            reports, self._heard = self._heard, 0
            self._note(reports, of_turn)
        if len(self._now) >= FIELDS * CHUNK or self._wide > NAMED:
            self._turn_over()

    # -- what is kept --------------------------------------------------------------------------------------------------

    def _kept(self) -> Iterator[_Event]:
        """The last events, as many as there are to be; without those that are only waiting to leave."""
        left = max(0, self._seen() - self._gone - self._most)
        events = chain.from_iterable(_events(one) for one in (*(one for one, _ in self._old), self._now))
        return (event for place, event in enumerate(events) if place >= left)

    def _seen(self) -> int:
        """How many events there were."""
        return self._gone + (sum(len(one) for one, _ in self._old) + len(self._now)) // FIELDS

    @property
    def lost(self) -> int:
        """How many lines have fallen out. It takes a look at all that is kept."""
        return self._rows() - self._fired + self._said() - sum(map(_lines, self._kept()))

    @property
    def lost_events(self) -> int:
        """How many events have fallen out. It takes no time."""
        return max(self._gone, self._seen() - self._most)

    def dump(self, path: Path, settings: Values | None = None) -> int:
        """Write what is kept as a record; returns the number of its lines.

        A file that is there is replaced when the new one is whole. Errors: `OSError`.
        """
        part = path.with_name(path.name + ".part")
        lost = self.lost
        more: dict[str, Any] = {"lost": lost} if lost else {}
        with part.open("w", encoding="utf-8") as stream:
            lines = Lines(self.ledger, stream, settings or {}, **more)
            for now, row, what, before, after in self._kept():
                if row:
                    lines.rows(now, self._machines[row], (what,) if type(what) is int else what, row, before, after)
                else:
                    lines.line(now, what if before is None else before(what))
        part.replace(path)
        return lines.lines


def _events(flat: list[Any]) -> Iterator[_Event]:
    one = iter(flat)
    return zip(one, one, one, one, one, strict=True)


def _lines(event: _Event) -> int:
    """Lines of an event in a record."""
    return 1 if not event[1] or type(event[2]) is int else len(event[2])


def _all(uids: Sequence[int], slots: Sequence[int]) -> Sequence[int]:
    """The uids of these slots, as a column of their own."""
    return bulk.gather(uids, slots) if isinstance(uids, array) else [uids[slot] for slot in slots]


class Crash:
    """Where the ring is written when the ledger is poisoned. It must not add to the trouble, so it never raises."""

    def __init__(self, ring: Ring, path: Path, settings: Values | None = None) -> None:
        """`path` is the file; `settings` stand in its first line."""
        self.ring = ring
        """What is written."""
        self.path = path
        """Where."""
        self.written: int | None = None
        """How many lines were written; None as long as nothing was."""
        self.trouble: Exception | None = None
        """Why nothing could be written."""
        self._settings = settings

    @property
    def said(self) -> str:
        """What became of it, in a sentence."""
        if self.trouble is not None:
            why = getattr(self.trouble, "strerror", None) or f"{type(self.trouble).__name__}: {self.trouble}"
            return f"the end of the run could not be written to {self.path}: {why}"
        if self.written is None:
            return f"nothing was written to {self.path}: the ledger was never poisoned"
        return f"the end of the run, {self.written} lines, is in {self.path}: kvstate autopsy {self.path}"

    def write(self) -> None:
        """Write what is kept, `Ring.dump`; what goes wrong is kept in `trouble`."""
        try:
            self.written = self.ring.dump(self.path, self._settings)
        except Exception as error:  # a ledger that is broken may have told anything
            self.trouble = error
