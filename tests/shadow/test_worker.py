"""The observer of a worker, over a double of what copies below vLLM's connector."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kvstate.integrations.vllm.shadow.kinds import Kind, Violation
from kvstate.integrations.vllm.shadow.record import Ring
from kvstate.integrations.vllm.shadow.worker import Tap, Told, WorkerReader


class Below:
    """What copies: it is over when a test says so."""

    def __init__(self) -> None:
        self.over: list[Any] = []
        self.calls: list[Any] = []
        self.waits = 0
        self.name = "below"

    def submit_store(self, job_id: int, src: Any, dst: Any) -> bool:
        self.calls.append(("store", job_id, src, dst))
        return True

    def submit_load(self, job_id: int, src: Any, dst: Any, expedited: bool = False) -> bool:
        self.calls.append(("load", job_id, src, dst, expedited))
        return True

    def get_finished(self) -> list[Any]:
        over, self.over = self.over, []
        return over

    def wait(self, job_ids: set[int]) -> None:
        self.waits += 1


class Rank:
    """A worker with its observer."""

    def __init__(self) -> None:
        self.below = Below()
        self.found: list[Violation] = []
        self.reader = WorkerReader(self.found.append, Ring(1000), deadline=60.0)
        self.tap = Tap(self.below, self._note)

    def _note(self, make: Callable[[], Any]) -> None:
        self.reader.read(make())

    def over(self, *jobs: int, well: bool = True) -> list[Any]:
        self.below.over += [SimpleNamespace(job_id=one, success=well) for one in jobs]
        found: list[Any] = self.tap.get_finished()
        return found

    def told(self, *jobs: int) -> None:
        self.reader.read(Told(0.0, jobs))

    @property
    def kinds(self) -> list[Kind]:
        return [one.kind for one in self.found]


@pytest.fixture
def rank() -> Rank:
    """One with a store 0 and a load 1 under way."""
    one = Rank()
    one.tap.submit_store(0, "src", "dst")
    one.tap.submit_load(1, "src", "dst", expedited=True)
    return one


def test_what_is_below_is_asked_first_and_answers(rank: Rank) -> None:
    assert rank.below.calls == [("store", 0, "src", "dst"), ("load", 1, "src", "dst", True)]
    results = rank.over(0, 1)
    assert [one.job_id for one in results] == [0, 1]
    rank.tap.wait({0})
    assert rank.below.waits == 1
    assert rank.tap.name == "below"
    rank.told(0, 1)
    assert rank.found == []
    assert not rank.reader.live


def test_a_second_word_and_one_of_an_unknown_job(rank: Rank) -> None:
    rank.over(0)
    rank.over(0, 9)
    assert rank.kinds == [Kind.SECOND_REPORT, Kind.UNKNOWN_REPORT]


def test_a_failure_is_one_and_is_broken_only_if_it_is_told_as_completed(rank: Rank) -> None:
    rank.over(0, 1, well=False)
    assert rank.found == []
    rank.told(1)
    assert [(one.law, one.sentence) for one in rank.found] == [
        ("L2.identity", "part 1 is failed, and is told as completed")
    ]


def test_a_wait_after_which_a_copy_is_not_over(rank: Rank) -> None:
    rank.tap.wait({0, 7})
    assert rank.found == []
    rank.over(1)
    assert [one.sentence for one in rank.found] == ["part 0 is under way, though a wait for it has returned"]
    rank.over(0)
    assert rank.kinds == [Kind.WAIT_UNPROVED]


def test_a_copy_that_never_ends_is_told_once_and_may_come_late(rank: Rank) -> None:
    rank.over()
    rank.reader.tick(rank.reader.ring.now + 61.0)
    rank.reader.tick(rank.reader.ring.now + 62.0)
    assert rank.kinds == [Kind.ENDLESS] * 2
    rank.over(0, 1)
    assert rank.reader.parts.state(0) == rank.reader.parts.state(1) == "gone"
    assert len(rank.found) == 2


def test_copies_without_an_end_and_failures_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvstate.integrations.vllm.shadow.worker.LOST", 3)
    rank = Rank()
    for number in range(20):
        rank.tap.submit_store(number, "src", "dst")
    rank.over()
    rank.reader.tick(rank.reader.ring.now + 61.0)
    assert len(rank.reader.live) == 3
    rank.over(0)
    assert rank.kinds == [Kind.ENDLESS] * 20
    for number in range(20, 30):
        rank.tap.submit_store(number, "src", "dst")
    rank.over(*range(20, 30), well=False)
    assert len(rank.reader._failed) == 3


def test_a_job_is_submitted_again_under_its_copy(rank: Rank) -> None:
    rank.tap.submit_store(0, "src", "dst")
    rank.over()
    assert rank.kinds == [Kind.LISTED_TWICE]


def test_after_a_gap_nothing_is_held_against_what_was_before(rank: Rank) -> None:
    rank.over()
    rank.reader.forget()
    rank.over(0, 1)
    assert rank.found == []
    rank.over(5)
    assert rank.kinds == [Kind.UNKNOWN_REPORT]


def test_what_below_raises_goes_through(rank: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    error = OSError(5, "no")

    def refuse(*_: Any) -> None:
        raise error

    monkeypatch.setattr(rank.below, "submit_store", refuse)
    with pytest.raises(OSError, match="no") as raised:
        rank.tap.submit_store(2, "src", "dst")
    assert raised.value is error
    rank.over()
    assert 2 not in rank.reader.live
