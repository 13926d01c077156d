"""The observer of one worker: between vLLM's connector and the part below it that copies.

`Tap` stands there as a proxy that passes every call on first. So what a copy was said to come to is seen where it is
said, before the connector asserts that it went well; and whether a wait for copies is worth what the scheduler makes of
it, which gives their blocks away.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from kvstate.integrations.vllm.shadow.beside import LOST
from kvstate.integrations.vllm.shadow.kinds import Kind, Violation
from kvstate.integrations.vllm.shadow.machines import Parts
from kvstate.integrations.vllm.shadow.reading import Raised
from kvstate.integrations.vllm.shadow.record import Ring
from kvstate.machines.tables.part import Event as P


class Submitted(NamedTuple):
    """Copies were handed to the part below and taken, by `now`: numbers of the jobs, and which are stores."""

    now: float
    jobs: Collection[tuple[int, bool]]


class Results(NamedTuple):
    """What the part below says to be over, `now`: `results` are vLLM's `TransferResult`s."""

    now: float
    results: Collection[Any]


class Waited(NamedTuple):
    """The part below was to wait for the jobs with these `numbers`, and has returned, `now`."""

    now: float
    numbers: Collection[int]


class Told(NamedTuple):
    """What the connector tells the scheduler to be completed, `now`: the `numbers` of the jobs."""

    now: float
    numbers: Collection[int]


class Tap:
    """Stands before vLLM's `OffloadingWorker`, and is asked whatever that is asked."""

    def __init__(self, worker: Any, note: Callable[[Callable[[], Any]], None]) -> None:
        """`note` takes what makes an event, so that it is made under the observer's guard."""
        self._worker = worker
        self._note = note
        self._jobs: list[tuple[int, bool]] = []

    def submit_store(self, job_id: int, *args: Any, **kwargs: Any) -> Any:
        """From the device."""
        taken = self._worker.submit_store(job_id, *args, **kwargs)
        self._jobs.append((job_id, True))
        return taken

    def submit_load(self, job_id: int, *args: Any, **kwargs: Any) -> Any:
        """To the device."""
        taken = self._worker.submit_load(job_id, *args, **kwargs)
        self._jobs.append((job_id, False))
        return taken

    def get_finished(self) -> Any:
        """What is over."""
        results = self._worker.get_finished()
        if self._jobs:
            self._note(self._submitted)
        self._note(lambda: Results(time.monotonic(), tuple(results)))
        return results

    def wait(self, job_ids: Any) -> Any:
        """Until these are over."""
        answer = self._worker.wait(job_ids)
        if self._jobs:
            self._note(self._submitted)
        self._note(lambda: Waited(time.monotonic(), tuple(job_ids)))
        return answer

    def _submitted(self) -> Submitted:
        jobs, self._jobs = self._jobs, []
        return Submitted(time.monotonic(), jobs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._worker, name)


class WorkerReader:
    """Reads a worker's tape and plays it to the machine of parts: one for each copy of this rank.

    Errors: `ShadowError` where what was seen can't have been.
    """

    def __init__(self, told: Callable[[Violation], None], ring: Ring, *, deadline: float) -> None:
        self.told = told
        """Hears of each violation."""
        self.ring = ring
        """Keeps what happens."""
        self.deadline = deadline
        """Seconds that a copy may take."""
        self.parts = Parts(ring)
        self.live: dict[int, tuple[int, float, str]] = {}
        """Of each copy that is not over, the oldest first: its part, when it began, and what it is."""
        self.highest = -1
        """The highest number of a job that was begun."""
        self.forgiven = -1
        """Nothing is known of jobs up to this number."""
        self._late: set[int] = set()
        self._waited: set[int] = set()
        self._failed: dict[int, None] = {}

    def found(self, kind: Kind, sentence: str) -> None:
        """A law was broken."""
        self.told(Violation(kind, sentence, self.ring.now))

    def read(self, event: Any) -> None:
        """One event of the tape."""
        self.ring.at(event.now)
        match event:
            case Submitted():
                for number, store in event.jobs:
                    self._submitted(number, "store" if store else "load")
            case Results():
                self._results(event.results)
            case Waited():
                self._waited |= self.live.keys() & set(event.numbers)
            case Told():
                self._completed(event.numbers)
            case Raised():
                self.ring.say(**{"in": "raised", "hook": event.hook, "error": event.error})
                self.found(Kind.RAISED, f"{event.hook} raised {event.error}")

    def forget(self) -> None:
        """Events were missed: begin anew."""
        self.parts, self.forgiven = Parts(self.ring), self.highest
        for known in (self.live, self._late, self._waited, self._failed):
            known.clear()

    def tick(self, now: float) -> None:
        """It is this time: copies that take too long are given up."""
        self.ring.at(now)
        for number, (part, began, what) in list(self.live.items()):
            if now - began <= self.deadline:
                break
            if number not in self._late:
                self._late.add(number)
                self.parts.must(part, P.GIVE_UP, number)
                self.found(
                    Kind.ENDLESS, f"part {number} is a {what} that this rank has not ended in {self.deadline:g} s"
                )
        while len(self._late) > LOST:
            number = next(number for number in self.live if number in self._late)
            self._leave(number)
            self.forgiven = max(self.forgiven, number)

    def _submitted(self, number: int, what: str) -> None:
        if number in self.live:
            self.found(Kind.LISTED_TWICE, f"part {number} is under way, and is submitted again")
            return
        self.highest = max(self.highest, number)
        part = self.parts.born()
        self.live[number] = part, self.ring.now, what
        self.ring.say(out="store" if what == "store" else "fetch", token=[0, number], src=[], dst=[])
        self.parts.must(part, P.LAUNCH, number)

    def _results(self, results: Iterable[Any]) -> None:
        for result in results:
            number, well = result.job_id, bool(result.success)
            outcome = "done" if well else "failed"
            self.ring.say(**{"in": "report", "token": [0, number], "outcome": outcome, "failures": []})
            self._waited.discard(number)
            if number in self.live:
                self.parts.must(self.live[number][0], P.DONE if well else P.FAILED, number)
                self._leave(number)
                if not well:
                    self._failed[number] = None
            elif number > self.highest:
                self.found(Kind.UNKNOWN_REPORT, f"part {number} is unknown, and is said to be over")
            elif number > self.forgiven:
                self.found(Kind.SECOND_REPORT, f"part {number} is over, and is said so again")
        for number in sorted(self._waited):
            self.found(Kind.WAIT_UNPROVED, f"part {number} is under way, though a wait for it has returned")
        self._waited.clear()
        while len(self._failed) > LOST:
            del self._failed[next(iter(self._failed))]

    def _completed(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number in self._failed:
                del self._failed[number]
                self.found(Kind.FAILURE_AS_SUCCESS, f"part {number} is failed, and is told as completed")

    def _leave(self, number: int) -> None:
        part, _, _ = self.live.pop(number)
        self._late.discard(number)
        self.parts.leave(part)
