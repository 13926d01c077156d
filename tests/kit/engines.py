"""The naive engines, what the kit says of each, and engines with one fault each for the laws that those leave out."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from examples.naive_engines.tiny import Job, Life, Tiny
from kvstate.testing import Adapter, Copier, Free, Refused, Report, Scope, View

NAIVE = {
    "ids_as_keys": {"L6.total", "L3.no_reuse"},
    "error_handler": {"L6.total", "raises"},
    "free_at_abort": {"L3.no_reuse"},
    "listed_twice": {"L8.balance", "L6.total"},
    "publish_before_copy": {"L9.index"},
    "clamped_counts": {"L8.balance", "L3.no_reuse"},
    "lookup_without_pin": {"L3.one_owner"},
    "failed_load_is_done": {"L5.failed", "L9.bytes"},
    "last_future": {"L3.no_reuse"},
    "pending_for_ever": {"L7.wait"},
}
"""The engine's file, and the laws by which it may be caught; which of them is shortest depends on the seed."""


def naive(name: str) -> type[Adapter]:
    engine: type[Adapter] = importlib.import_module(f"examples.naive_engines.{name}").Engine
    return engine


class Forgetful(Tiny):
    """Says that a store began, and never how it ended."""

    def submit(self, job: Job) -> None:
        self.copier.began(self.number)
        super().submit(job)


class Talkative(Forgetful):
    """Says it twice."""

    def on_report(self, report: Report) -> None:
        super().on_report(report)
        self.copier.told(self.number)
        self.copier.told(self.number)


class Gullible(Tiny):
    """Goes on with a key whose bytes were bad."""

    faults = ("broken",)


class Leaky(Tiny):
    """A load whose request is gone keeps its blocks."""

    def loaded(self, job: Job, ok: bool) -> None:
        if not job.life.over:
            super().loaded(job, ok)


class Shifted(Tiny):
    """Stores each block under the key of the one before it."""

    def to_store(self, life: Life) -> list[tuple[int, str]]:
        rows = super().to_store(life)
        return [(block, rows[place - 1][1]) for place, (block, _) in enumerate(rows)]


class Hasty(Tiny):
    """Relies on what is being loaded."""

    def view(self, request: str) -> View:
        view = super().view(request)
        return view._replace(ready=(True,) * len(view.ready))


class Restless(Tiny):
    """Stores again what was stored, for ever."""

    def stored(self, job: Job, ok: bool) -> None:
        super().stored(job, ok)
        again = Job("store", job.life, job.blocks, self.host.take(len(job.slots)) or job.slots, job.keys)
        self.hold_sources(again)
        self.submit(again)


class Complaining(Tiny):
    """Has a check of its own that fails."""

    def check(self) -> Sequence[str]:
        return ("two and two is five",) if self.jobs else ()


class Clumsy(Tiny):
    """Raises where a request is turned away."""

    def admit(self, request: str, keys: Sequence[str]) -> bool:
        if len(keys) > len(self.device.idle):
            raise MemoryError("no room")
        return super().admit(request, keys)


class Boastful(Tiny):
    """Says that it has more than it has."""

    def free(self) -> Free:
        return Free(len(self.device.refs))


FAULTY: dict[str, type[Adapter]] = {
    "L1.verdict_once": Talkative,
    "L5.condemned": Gullible,
    "L8.balance": Boastful,
    "L8.leak": Leaky,
    "L9.stored": Shifted,
    "L9.bytes": Hasty,
    "L11.rest": Restless,
    "check": Complaining,
    "raises": Clumsy,
}
"""An engine for each law that no naive engine is sure to break."""


class Stepping(Tiny):
    """Its steps are asynchronous, its stores wait for them, and it takes the end of a request for the end of a step."""

    steps = True
    newest = 0

    def compute(self, request: str, step: int) -> None:
        self.newest = step
        super().compute(request, step)

    def submit(self, job: Job) -> None:
        if job.kind == "load":
            super().submit(job)
            return
        tag = self.tag(job)
        self.jobs[tag] = job
        try:
            self.copier.store(job.blocks, job.slots, job.keys, tag, after=self.newest)
        except Refused:
            self.on_report(Report(tag, "failed"))


class Waiting(Stepping):
    """The same, and a block that a request leaves under a step is dropped when the step has retired: right."""

    def __init__(self, scope: Scope, copier: Copier) -> None:
        super().__init__(scope, copier)
        self.left: list[tuple[int, list[int]]] = []
        self.over = 0

    def end(self, request: str) -> None:
        life = self.lives.get(request)
        if life is not None and self.newest > self.over:
            for block in life.blocks:
                self.device.hold(block)
            self.left.append((self.newest, life.blocks))
        super().end(request)

    def retired(self, step: int) -> None:
        self.over = step
        for _, blocks in [one for one in self.left if one[0] <= step]:
            self.unpin(blocks, [])
        self.left = [one for one in self.left if one[0] > step]


class Discarding(Tiny):
    """Gives the sources of a store out again when its request ends, and throws away what it brings: right, as told."""

    discards = True

    def end(self, request: str) -> None:
        life = self.lives.get(request)
        for job in self.jobs.values():
            if job.life is life and job.kind == "store":
                self.unpin(job.blocks, [])
                job.blocks = []
        super().end(request)

    def stored(self, job: Job, ok: bool) -> None:
        super().stored(job, ok and bool(job.blocks))


class Poolless(Tiny):
    """A block pool and nothing below it."""

    loads = False

    def offload(self, request: str) -> None:
        raise AssertionError("nobody should ask for it")
