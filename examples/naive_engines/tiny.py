"""A tiny engine that is right: two pools, a prefix cache, a tier below, one record for each copy.

The naive engines beside it are this one with one thing done the way it was done somewhere.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from kvstate.testing.adapter import Adapter, Copier, Free, Refused, Report, Scope, View


class Pool:
    """Blocks with reference counts. One without references is idle: free, or cached under its key until it is taken."""

    def __init__(self, size: int) -> None:
        self.refs = [0] * size
        self.idle = list(range(size))  # what comes first is taken first
        self.where: dict[str, int] = {}
        self.key: dict[int, str] = {}

    def take(self, count: int) -> list[int] | None:
        """So many idle blocks, with a reference each; what was cached in them is forgotten. All or None."""
        if count > len(self.idle):
            return None
        taken, self.idle = self.idle[:count], self.idle[count:]
        for block in taken:
            self.where.pop(self.key.pop(block, ""), None)
            self.refs[block] = 1
        return taken

    def hold(self, block: int) -> None:
        if self.refs[block] == 0:
            self.idle.remove(block)
        self.refs[block] += 1

    def drop(self, block: int) -> None:
        assert self.refs[block] > 0, f"block {block} is dropped by somebody who does not hold it"
        self.refs[block] -= 1
        if self.refs[block] == 0:
            self.idle.append(block)

    def name(self, block: int, key: str) -> None:
        """The block holds the bytes of the key, and may be shared; the first block of a key wins."""
        if key not in self.where:
            self.where[key] = block
            self.key[block] = key


@dataclass(eq=False)
class Life:
    """One life of a request."""

    name: str
    keys: list[str]
    blocks: list[int]
    ready: list[bool]
    waiting: bool = False
    over: bool = False


@dataclass(eq=False)
class Job:
    """One copy: what it touches is held until its report comes."""

    kind: str
    life: Life
    blocks: list[int]
    slots: list[int]
    keys: list[str]
    places: list[int] = field(default_factory=list)


class Tiny(Adapter):
    """See the module."""

    def __init__(self, scope: Scope, copier: Copier) -> None:
        self.copier = copier
        self.device, self.host = Pool(scope.device), Pool(scope.host)
        self.lives: dict[str, Life] = {}
        self.jobs: dict[Hashable, Job] = {}
        self.number = 0

    # -- requests ------------------------------------------------------------------------------------------------------

    def admit(self, request: str, keys: Sequence[str]) -> bool:
        hits, slots = self.lookup(keys)
        fresh = self.device.take(len(keys) - len(hits))
        if fresh is None:
            self.unpin(hits, slots)
            return False
        ready = [place < len(hits) for place in range(len(keys))]
        life = self.lives[request] = Life(request, list(keys), hits + fresh, ready)
        if slots:
            self.load(life, len(hits), slots)
        return True

    def lookup(self, keys: Sequence[str]) -> tuple[list[int], list[int]]:
        """The cached prefix: blocks on the device, then slots below it. Both are held."""
        hits: list[int] = []
        slots: list[int] = []
        for key in keys:
            if key in self.device.where and not slots:
                hits.append(self.device.where[key])
                self.device.hold(hits[-1])
            elif key in self.host.where:
                slots.append(self.host.where[key])
                self.host.hold(slots[-1])
            else:
                break
        return hits, slots

    def unpin(self, hits: list[int], slots: list[int]) -> None:
        for block in hits:
            self.device.drop(block)
        for slot in slots:
            self.host.drop(slot)

    def view(self, request: str) -> View:
        life = self.lives[request]
        return View(tuple(life.blocks), tuple(life.ready), life.waiting)

    def compute(self, request: str, step: int) -> None:  # noqa: ARG002, its steps end at once
        life = self.lives[request]
        life.ready = [True] * len(life.keys)
        for block, key in zip(life.blocks, life.keys, strict=True):
            self.device.name(block, key)

    def finish(self, request: str) -> None:
        self.end(request)

    def abort(self, request: str) -> None:
        self.end(request)

    def end(self, request: str) -> None:
        life = self.lives.pop(request, None)
        if life is None:
            return
        life.over = True
        for block in reversed(life.blocks):
            self.device.drop(block)

    # -- copies --------------------------------------------------------------------------------------------------------

    def load(self, life: Life, first: int, slots: list[int]) -> None:
        places = list(range(first, first + len(slots)))
        job = Job("load", life, [life.blocks[at] for at in places], slots, [life.keys[at] for at in places], places)
        life.waiting = True
        for block in job.blocks:
            self.device.hold(block)
        self.submit(job)

    def offload(self, request: str) -> None:
        life = self.lives[request]
        rows = self.to_store(life)
        slots = self.host.take(min(len(rows), len(self.host.idle)))
        if slots:
            rows = rows[: len(slots)]
            job = Job("store", life, [block for block, _ in rows], slots, [key for _, key in rows])
            self.hold_sources(job)
            self.submit(job)

    def to_store(self, life: Life) -> list[tuple[int, str]]:
        """Blocks and keys of the request that are ready, and neither stored nor being stored."""
        known = {*self.host.where, *(key for job in self.jobs.values() if job.kind == "store" for key in job.keys)}
        rows = zip(life.blocks, life.keys, life.ready, strict=True)
        return [(block, key) for block, key, ready in rows if ready and key not in known]

    def hold_sources(self, job: Job) -> None:
        for block in job.blocks:
            self.device.hold(block)

    def submit(self, job: Job) -> None:
        tag = self.tag(job)
        self.jobs[tag] = job
        try:
            if job.kind == "store":
                self.copier.store(job.blocks, job.slots, job.keys, tag)
            else:
                self.copier.load(job.slots, job.blocks, job.keys, tag)
        except Refused:
            self.on_report(Report(tag, "failed"))

    def tag(self, job: Job) -> Hashable:  # noqa: ARG002, for an engine that names copies after it
        """What the report will bring back: a number that no other copy ever had."""
        self.number += 1
        return self.number

    def on_report(self, report: Report) -> None:
        job = self.jobs.pop(report.tag, None)
        if job is None:
            return  # a report that has come before
        if job.kind == "store":
            self.stored(job, report.ok)
        else:
            self.loaded(job, report.ok)

    def stored(self, job: Job, ok: bool) -> None:
        if ok:
            for slot, key in zip(job.slots, job.keys, strict=True):
                self.host.name(slot, key)
        self.unpin(job.blocks, job.slots)

    def loaded(self, job: Job, ok: bool) -> None:
        job.life.waiting = False
        for place, block, key in zip(job.places, job.blocks, job.keys, strict=True):
            job.life.ready[place] = ok
            if ok:
                self.device.name(block, key)
        self.unpin(job.blocks, job.slots)

    # -- what can be seen ----------------------------------------------------------------------------------------------

    def free(self) -> Free:
        return Free(len(self.device.idle), len(self.host.idle))

    def index(self) -> Mapping[str, int]:
        return self.host.where
