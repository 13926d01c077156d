"""A worker by itself: messages in, messages out, and nothing that comes stops it."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import msgspec
import pytest

from kvstate.errors import Code
from kvstate.machines.messages import Cancel, Kind, Outcome, Report, Token, Work
from kvstate.runtime.copiers.hand import HandCopier
from kvstate.runtime.copiers.threads import ThreadCopier
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.worker import SENTENCES, Worker
from kvstate.wire import AskFence, AskProbe, DownItem, Fenced, Probed, Retired, Trouble, UpItem, decode_up, encode_down
from tests.runtime.parts import key, part, pools


class Bench:
    """A worker of rank 1 in its life 2, with a copier that is released by hand."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.copier = HandCopier(pools(), self.inbox)
        self.worker = Worker(1, 2, {"cpu": self.copier}, self.inbox)

    def feed(self, *items: DownItem) -> None:
        self.worker.feed(encode_down(1, 2, items))

    def said(self) -> Sequence[UpItem]:
        message = self.worker.take_reports()
        if not message:
            return []
        up = decode_up(message)
        assert (up.rank, up.incarnation) == (1, 2)
        return up.items


@pytest.fixture
def bench() -> Bench:
    return Bench()


def store(serial: int, *, after: int = 0) -> Work:
    return part(Kind.STORE, [0], [32], [key(serial)], serial)._replace(rank=1, after_step=after)


def test_a_report_goes_up_and_an_empty_message_says_nothing(bench: Bench) -> None:
    bench.feed(store(1))
    assert bench.said() == []
    assert [bench.worker.waiting] == [False]
    bench.copier.land(0)
    bench.copier.deliver(0)
    assert bench.worker.waiting
    assert bench.said() == [Report(Token(1, 1), Outcome.DONE)]


def test_work_waits_for_its_step(bench: Bench) -> None:
    bench.feed(store(1, after=4), Retired(3), AskProbe(Token(1, 1)))
    assert bench.copier.flights == []
    assert bench.said() == [Probed(Token(1, 1), "waiting")]
    bench.feed(Retired(4))
    assert [flight.token.serial for flight in bench.copier.flights] == [1]
    bench.feed(store(2, after=2))
    assert len(bench.copier.flights) == 2


def test_what_is_cancelled_while_it_waits_is_over(bench: Bench) -> None:
    bench.feed(store(1, after=4), Cancel(Token(1, 1)))
    assert bench.said() == [Report(Token(1, 1), Outcome.CANCELLED)]


def test_a_fence_comes_after_the_reports_that_were_there(bench: Bench) -> None:
    bench.feed(store(1), store(2), store(3, after=9))
    bench.copier.land(0)
    bench.copier.deliver(0)
    bench.feed(AskFence(5))
    assert bench.said() == [Report(Token(1, 1), Outcome.DONE), Fenced(5, (("cpu", 2),))]
    assert all(flight.over for flight in bench.copier.flights)


def test_a_copier_that_can_prove_nothing_is_told_and_proves_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fence() -> int:
        raise TimeoutError("a copy still runs")

    monkeypatch.setattr(bench.copier, "fence", fence)
    bench.feed(store(1), AskFence(1), AskFence(2))
    assert bench.said() == [
        Trouble("rank 1 could not be fenced: TimeoutError: a copy still runs"), Fenced(1, ()), Fenced(2, ()),
    ]  # fmt: skip


def test_a_probe_says_what_a_copier_knows(bench: Bench) -> None:
    bench.feed(store(1), store(2))
    bench.copier.land(0)
    bench.feed(*[AskProbe(Token(1, serial)) for serial in (1, 2, 3)])
    assert [item.answer for item in bench.said() if isinstance(item, Probed)] == ["over", "running", "unknown"]


def test_what_cannot_be_begun_has_failed(bench: Bench) -> None:
    bench.copier.refuse = OSError(5, "the driver fails")
    bench.feed(store(1), store(2)._replace(copier="tape"))
    reports = [item for item in bench.said() if isinstance(item, Report)]
    assert [report.token.serial for report in reports] == [1, 2]
    assert all(report.outcome != Outcome.DONE for report in reports)


def test_bytes_that_are_no_message_are_told_once_each(bench: Bench) -> None:
    other = msgspec.msgpack.encode(["kvstate", 7, "9.0.0", "down", 1, 2, []])
    for _ in range(3):
        bench.worker.feed(b"junk")
        bench.worker.feed(other)
    said = [item.sentence for item in bench.said() if isinstance(item, Trouble)]
    assert len(said) == 2
    assert "no message between a scheduler and a worker" in said[0]
    assert "format 7, and this side reads format 1" in said[1]
    bench.worker.feed(b"junk")
    assert bench.said() == []


def test_troubles_have_an_end(bench: Bench) -> None:
    for incarnation in range(3, 3 + 2 * SENTENCES):
        bench.worker.feed(encode_down(1, incarnation, [store(1)]))
    assert len(bench.said()) == SENTENCES
    assert bench.copier.flights == []


def test_a_long_answer_goes_up_in_pieces(bench: Bench) -> None:
    for serial in range(1, 8):
        bench.inbox.put(Report(Token(1, serial), Outcome.DONE))
    sizes = []
    while message := bench.worker.take_reports(3):
        sizes.append(len(decode_up(message).items))
    assert sizes == [3, 3, 1]


def test_a_report_that_no_message_can_carry_is_replaced_by_one_that_says_so(bench: Bench) -> None:
    """The part is over, whatever its copier says of it; that must not be lost."""
    bench.inbox.put(Report(Token(1, 1), "sideways"))
    bench.inbox.put(Report(Token(1, 2), Outcome.DONE))
    bench.inbox.put(Report("nonsense", Outcome.DONE))  # type: ignore[arg-type]
    first, second, third = bench.said()
    assert isinstance(first, Report)
    assert (first.token, first.outcome) == (Token(1, 1), Outcome.DENIED)
    assert [failure.code for failure in first.failures] == [Code.INTERNAL]
    assert second == Report(Token(1, 2), Outcome.DONE)
    assert third == Trouble("rank 1: a copier reported on 'nonsense', no token")


def test_it_belongs_to_one_thread(bench: Bench) -> None:
    said: list[str] = []

    def intrude() -> None:
        for call in (lambda: bench.worker.feed(b""), bench.worker.take_reports, lambda: bench.worker.close(0.0)):
            try:
                call()
            except RuntimeError as error:
                said.append(str(error))

    thread = threading.Thread(target=intrude)
    thread.start()
    thread.join()
    assert said == ["the worker belongs to the thread that made it; other threads put into its inbox"] * 3


def test_a_worker_has_a_rank_and_a_life() -> None:
    for rank, life in ((-1, 1), (0, 0)):
        with pytest.raises(ValueError, match=f"not {rank} and {life}"):
            Worker(rank, life, {}, Inbox())


def test_closing_names_what_may_touch_memory_even_now(bench: Bench) -> None:
    bench.feed(store(1))
    assert bench.worker.close(0.0) == (Token(1, 1),)


def test_copies_by_threads_report_through_it() -> None:
    inbox = Inbox()
    copier = ThreadCopier(pools(), inbox)
    worker = Worker(0, 1, {"cpu": copier}, inbox)
    worker.feed(encode_down(0, 1, [store(1)._replace(rank=0)]))
    assert inbox.wait(30.0)
    assert decode_up(worker.take_reports()).items == [Report(Token(1, 1), Outcome.DONE)]
    assert worker.close(5.0) == ()


def test_a_step_that_is_over_here_is_not_waited_for(bench: Bench) -> None:
    bench.feed(store(1, after=4))
    bench.worker.step_retired(3)
    assert bench.copier.flights == []
    bench.worker.step_retired(4)
    assert [flight.token.serial for flight in bench.copier.flights] == [1]


def test_a_fence_that_is_bounded_proves_nothing_when_its_time_is_over() -> None:
    gate, inbox = threading.Event(), Inbox()

    def wait(_work: Work, _start: float) -> None:
        gate.wait(10.0)

    copier = ThreadCopier(pools(), inbox, 1, on_land=wait)
    worker = Worker(1, 2, {"cpu": copier}, inbox, fence_seconds=0.01)
    try:
        worker.feed(encode_down(1, 2, [store(1), AskFence(7)]))
        *troubles, fenced = decode_up(worker.take_reports()).items
        assert fenced == Fenced(7, ())
        (trouble,) = troubles
        assert isinstance(trouble, Trouble)
        assert "still running after 0.01 s" in trouble.sentence
        gate.set()
        copier.fence()
        worker.feed(encode_down(1, 2, [AskFence(8)]))
        assert decode_up(worker.take_reports()).items[-1] == Fenced(8, (("cpu", 1),))
    finally:
        gate.set()
        worker.close(5.0)
