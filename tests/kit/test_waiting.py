"""Engines that wait for a copy before they give its blocks away, and engines whose admission computes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest

from examples.naive_engines.tiny import Job, Tiny
from kvstate.testing import Adapter, AdapterError, Copier, Report, Scope, View, replay, search, story
from kvstate.testing.suite import sights


class Flusher(Tiny):
    """Blocks of whoever has ended are free at once, though a store still reads them; who takes one waits for that."""

    waits: ClassVar[bool] = True

    def hold_sources(self, job: Job) -> None:
        pass

    def stored(self, job: Job, ok: bool) -> None:
        job.blocks = []
        super().stored(job, ok)

    def admit(self, request: str, keys: Sequence[str]) -> bool:
        admitted = super().admit(request, keys)
        if admitted and self.waits:
            life = self.lives[request]
            for tag, job in list(self.jobs.items()):
                if job.kind == "store" and set(job.blocks) & set(life.blocks):
                    for report in self.copier.wait(tag):
                        self.on_report(report)
        return admitted


class Careless(Flusher):
    """It does not wait."""

    waits: ClassVar[bool] = False


class Eager(Tiny):
    """What admits a request computes it."""

    eager: ClassVar[bool] = True


class Lazy(Eager):
    """It says that it computes at once, and does not."""

    def compute(self, request: str, step: int) -> None:
        pass


def test_an_engine_that_waits_keeps_every_law() -> None:
    done = search(Flusher, seed=1, steps=3000)
    assert done.played is None or done.violation is None, story(done.played)


def test_the_same_engine_without_waiting_gives_out_a_block_that_is_read() -> None:
    done = search(Careless, seed=1, steps=3000)
    assert done.violation is not None
    assert done.violation.law == "L3.no_reuse"


def test_what_was_waited_for_is_over_and_comes_no_second_time() -> None:
    heard: list[Report] = []

    class Waits(Tiny):
        def offload(self, request: str) -> None:
            super().offload(request)
            for tag in list(self.jobs):
                heard.extend(self.copier.wait(tag))
                self.on_report(heard[-1])
                assert not self.copier.wait(tag)

    played = replay(Waits, [("admit", 0, 1), ("run", 0), ("offload", 0), ("complete", 0)])
    assert played.violation is None, story(played)
    assert [report.outcome for report in heard] == ["done"]
    assert ("complete", 0) not in played.steps
    assert "the engine waits for copy 1" in story(played)


def test_the_step_before_a_copy_runs_first_and_retires_later() -> None:
    retired: list[int] = []

    class Stepping(Tiny):
        steps: ClassVar[bool] = True

        def offload(self, request: str) -> None:
            life = self.lives[request]
            self.copier.store(life.blocks, [0], life.keys, tag="t", after=1)
            assert [report.ok for report in self.copier.wait("t")] == [True]
            assert not retired

        def retired(self, step: int) -> None:
            retired.append(step)

    played = replay(Stepping, [("admit", 0, 0), ("dispatch", 0), ("offload", 0)])
    assert played.violation is None, story(played)  # the store found the bytes that the step writes
    assert retired[0] == 1


def test_an_engine_that_computes_at_once_is_never_asked_to() -> None:
    played = replay(
        Eager, [("admit", 0, 1), ("offload", 0), ("complete", 0), ("finish", 0), ("evict",), ("admit", 0, 1)]
    )
    assert played.violation is None, story(played)
    said = story(played)
    assert "r1 has b0 for A1; b1 for A2\n      r1 is computed: b0 with A1, b1 with A2 is filled" in said
    done = search(Eager, seed=1, steps=3000)
    assert done.violation is None
    assert not sights(Eager, done.stats)


def test_an_engine_that_says_so_and_does_not_is_told() -> None:
    with pytest.raises(AdapterError, match="compute\\(\\) was called for r1, and its view still lacks something"):
        replay(Lazy, [("admit", 0, 1)])


def test_a_law_that_breaks_while_the_engine_waits_is_that_law() -> None:
    class Wrong(Adapter):
        faults: ClassVar[Sequence[str]] = ()

        def __init__(self, scope: Scope, copier: Copier) -> None:
            self.inner = Tiny(scope, copier)
            self.copier = copier

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

        def admit(self, request: str, keys: Sequence[str]) -> bool:
            return self.inner.admit(request, keys)

        def view(self, request: str) -> View | None:
            return self.inner.view(request)

        def compute(self, request: str, step: int) -> None:
            self.inner.compute(request, step)

        def offload(self, request: str) -> None:
            self.copier.store([self.inner.lives[request].blocks[0]], [0], ["B1"], tag="t")
            self.copier.wait("t")

        def finish(self, request: str) -> None:
            self.inner.finish(request)

        def abort(self, request: str) -> None:
            self.inner.abort(request)

        def on_report(self, report: Report) -> None:
            self.inner.on_report(report)

        def free(self):  # type: ignore[no-untyped-def]
            return self.inner.free()

    played = replay(Wrong, [("admit", 0, 0), ("run", 0), ("offload", 0)])
    assert played.violation is not None
    assert played.violation.law == "L9.stored"
