"""Copiers that do what fates say, in virtual time and in real time."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import Kind, Outcome, Report, Token, Work
from kvstate.replay.chaos import Chaos
from kvstate.replay.chaos_copiers import ChaosThreadCopier, VirtualCopier
from kvstate.replay.chaotic import Chaotic
from kvstate.runtime.clock import RealClock, VirtualClock
from kvstate.runtime.copiers import Copier, CopierClosedError
from kvstate.runtime.copy import Integrity, perform
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory
from tests.runtime.parts import fill, holds, key, part, pools, stored

KEYS = [key(number) for number in range(32)]
LATE = (5.0, 6.0)
WILD = Chaos(
    fail=0.2, late=0.1, duplicate=0.1, lost=0.05, corrupt=0.1, delay=(0.001, 0.004), late_by=(0.02, 0.03), seed=11
)


class Bench:
    """A virtual copier over small pools whose device blocks are filled."""

    def __init__(self, chaos: Chaos) -> None:
        self.memory = pools()
        fill(self.memory, range(32), KEYS)
        self.inbox = Inbox()
        self.clock = VirtualClock()
        self.log: list[object] = []
        self.copier = VirtualCopier(
            self.memory,
            self.inbox,
            self.clock,
            chaos,
            on_land=lambda work, when: self.log.append((when, work)),
            on_submit=lambda work: self.log.append(work.token.serial),
        )

    def to(self, when: float) -> list[Report]:
        self.clock.advance_to(when)
        self.copier.advance(when)
        return self.inbox.drain(1000)

    def dst(self, work: Work) -> list[int]:
        """The destination blocks of a part whose bytes have landed, all or some."""
        return [block for block in work.dst if self.memory.bytes_of(block).any()]


def store(serial: int = 1, blocks: Sequence[int] = (0, 1, 2, 3)) -> Work:
    return part(Kind.STORE, blocks, [32 + block for block in blocks], [KEYS[block] for block in blocks], serial)


def test_bytes_and_report_each_at_their_time() -> None:
    bench = Bench(Chaos(delay=(1.0, 1.0)))
    copier: Copier = bench.copier
    work = store()
    copier.submit(work)
    assert bench.copier.next_due() == 1.0
    assert bench.to(0.9) == []
    assert bench.dst(work) == []
    assert bench.copier.in_flight() == [work]
    assert bench.to(1.0) == []
    assert holds(bench.memory, work.dst, work.keys)
    assert bench.copier.in_flight() == []
    assert bench.copier.next_due() == 2.0
    assert bench.to(2.0) == [Report(work.token, Outcome.DONE)]
    assert bench.copier.next_due() is None
    assert bench.log == [1, (1.0, work)]


def test_a_long_step_of_the_clock_runs_through_all_that_was_due() -> None:
    bench = Bench(Chaos(delay=(1.0, 1.0)))
    bench.copier.submit(store())
    assert [report.outcome for report in bench.to(100.0)] == [Outcome.DONE]
    assert bench.log == [1, (1.0, store())], "each at its own time, not at the time of the step"


@pytest.mark.parametrize("code", ["LOAD_TIMEOUT", "PEER_LOST"])
def test_after_a_timeout_the_bytes_land_late_and_the_truth_is_told(code: str) -> None:
    bench = Bench(Chaos(fail_codes=((code, 1.0),), delay=(1.0, 1.0), late_by=LATE))
    bench.copier.submit(store())
    (report,) = bench.to(1.0)
    assert (report.outcome, report.failures[0].code) == (Outcome.TIMEOUT, Code[code])
    assert bench.dst(store()) == []
    assert bench.copier.in_flight() == [store()]
    (late,) = bench.to(10.0)
    assert late == Report(Token(1, 1), Outcome.DONE)
    assert holds(bench.memory, store().dst, store().keys)
    counts = bench.copier.counts
    assert (counts.timeouts, counts.late_landings, counts.late, counts.landed) == (1, 1, 1, 1)


def test_a_lost_report_does_not_keep_the_bytes_from_landing() -> None:
    bench = Bench(Chaos(lost=1.0, delay=(1.0, 1.0), late_by=LATE))
    for serial in range(1, 9):
        bench.copier.submit(store(serial, [serial]))
    assert bench.to(1.0) == []
    landed = bench.copier.counts.landed
    assert 0 < landed < 8, "half of them land in time, half late"
    assert bench.to(99.0) == []
    assert holds(bench.memory, range(33, 41), KEYS[1:9])
    assert (bench.copier.counts.lost, bench.copier.counts.late_landings) == (8, 8 - landed)


def test_a_late_part_lands_late_or_reports_late() -> None:
    bench = Bench(Chaos(late=1.0, delay=(1.0, 1.0), late_by=LATE))
    for serial in range(1, 9):
        bench.copier.submit(store(serial, [serial]))
    assert bench.to(2.0) == []
    assert 0 < bench.copier.counts.landed < 8
    assert len(bench.to(99.0)) == bench.copier.counts.late == 8


def test_a_report_may_come_twice() -> None:
    bench = Bench(Chaos(duplicate=1.0, delay=(1.0, 1.0)))
    bench.copier.submit(store())
    assert bench.to(2.0) == bench.to(3.0) == [Report(Token(1, 1), Outcome.DONE)]
    assert bench.copier.counts.duplicates == 1


def test_a_failure_proves_that_no_more_bytes_come() -> None:
    bench = Bench(Chaos(fail_codes=(("NO_SPACE", 1.0),), seed=5))
    for serial in range(1, 5):
        first = 4 * serial
        bench.copier.submit(store(serial, range(first, first + 4)))
    reports = bench.to(99.0)
    landed = {serial: len(bench.dst(store(serial, range(4 * serial, 4 * serial + 4)))) for serial in range(1, 5)}
    assert set(landed.values()) == {0, 2}, "none, or half of them"
    assert {report.outcome for report in reports} == {Outcome.DENIED}
    assert {report.token.serial: report.failures[0].line for report in reports} == landed
    assert bench.copier.counts.failed == 4
    assert bench.copier.counts.landed == 0


def test_failures_come_as_many_codes_and_as_exceptions() -> None:
    bench = Bench(Chaos(fail=1.0, seed=6))
    for serial in range(1, 301):
        bench.copier.submit(store(serial, [serial % 32]))
    reports = bench.to(99.0)
    failures = [report.failures[0] for report in reports if report.failures]
    assert len({failure.code for failure in failures}) == 9
    assert {failure.driver for failure in failures} >= {"raw", "http", "errno", "python"}
    assert {"RuntimeError", "MemoryError"} <= {failure.type for failure in failures}
    assert {report.outcome for report in reports} >= {Outcome.FAILED, Outcome.DENIED, Outcome.TIMEOUT}


def test_a_corrupted_store_is_found_when_it_is_loaded() -> None:
    bench = Bench(Chaos(corrupt=1.0, seed=2))
    work = store()
    bench.copier.submit(work)
    assert [report.outcome for report in bench.to(1.0)] == [Outcome.DONE], "the copier knows nothing of it"
    assert not holds(bench.memory, work.dst, work.keys)
    assert bench.copier.counts.corrupted == 1
    up, back = part(Kind.FETCH, work.dst, [8, 9, 10, 11], work.keys), (8, 9, 10, 11)
    assert perform(bench.memory, up, integrity=Integrity.HOST) == ()
    failures = perform(bench.memory, part(Kind.VERIFY, work.dst, back, work.keys), integrity=Integrity.HOST)
    assert [failure.code for failure in failures] == [Code.CRC_MISMATCH]


def test_a_corrupted_fetch_is_found_by_the_verify() -> None:
    bench = Bench(Chaos(corrupt=1.0, seed=2))
    stored(bench.memory, [40, 41], KEYS[:2])
    bench.copier.submit(part(Kind.FETCH, [40, 41], [8, 9], KEYS[:2], 1))
    bench.copier.submit(part(Kind.PERSIST, [40], (), KEYS[:1], 2))
    bench.to(1.0)
    bench.copier.submit(part(Kind.VERIFY, [40, 41], [8, 9], KEYS[:2], 3))
    (report,) = bench.to(2.0)
    assert report.outcome == Outcome.BROKEN
    assert [failure.code for failure in report.failures] == [Code.CRC_MISMATCH]
    assert holds(bench.memory, [40, 41], KEYS[:2])


def test_a_cancel_is_obeyed_before_the_bytes_or_never() -> None:
    obedient, deaf = Bench(Chaos(obey=1.0, delay=(1.0, 1.0))), Bench(Chaos(obey=0.0, delay=(1.0, 1.0)))
    for bench in (obedient, deaf):
        bench.copier.submit(store())
        bench.copier.cancel(Token(1, 1))
        bench.copier.cancel(Token(1, 9))
    assert obedient.to(9.0) == [Report(Token(1, 1), Outcome.CANCELLED)]
    assert obedient.dst(store()) == []
    assert obedient.copier.counts.cancelled == 1
    assert deaf.to(9.0) == [Report(Token(1, 1), Outcome.DONE)]
    late = Bench(Chaos(obey=1.0, delay=(1.0, 1.0)))
    late.copier.submit(store())
    late.to(1.0)
    late.copier.cancel(Token(1, 1))
    assert late.to(9.0) == [Report(Token(1, 1), Outcome.DONE)]


def test_a_fence_lands_everything_and_leaves_reports_when_they_are_due() -> None:
    bench = Bench(Chaos(late=0.5, lost=0.3, fail=0.3, delay=(1.0, 2.0), late_by=LATE, seed=1))
    for serial in range(1, 21):
        bench.copier.submit(store(serial, [serial]))
    assert bench.copier.fence() == 20
    assert bench.copier.in_flight() == []
    assert bench.inbox.drain(99) == []
    before = bench.memory.pools[1].array.copy()
    counts = bench.copier.counts
    assert counts.landed + counts.failed == 20
    assert len(bench.to(99.0)) >= 20 - counts.lost
    assert (bench.memory.pools[1].array == before).all()


def test_after_close_nothing_lands() -> None:
    bench = Bench(Chaos(delay=(1.0, 1.0)))
    bench.copier.submit(store())
    assert bench.copier.close(1.0) == ()
    assert bench.to(9.0) == []
    assert bench.dst(store()) == []
    with pytest.raises(CopierClosedError):
        bench.copier.submit(store(2))


def run(chaos: Chaos) -> tuple[list[object], list[Report], bytes]:
    """The same program under some chaos: all that could be seen of it."""
    bench = Bench(chaos)
    reports: list[Report] = []
    for serial in range(1, 300):
        block = serial % 30
        bench.copier.submit(store(serial, [block, block + 1]))
        if serial % 5 == 0:
            bench.copier.cancel(Token(1, serial - 1))
        reports += bench.to(bench.clock.now() + 0.001)
    reports += bench.to(99.0)
    return bench.log, reports, bench.memory.pools[1].array.tobytes()


def test_the_same_seed_is_the_same_run() -> None:
    first, again = run(WILD), run(WILD)
    assert first == again
    other = run(Chaos(fail=0.2, delay=(0.001, 0.004), seed=12))
    assert other[0] != first[0]
    assert other[1] != first[1]


def test_what_is_due_at_once_comes_in_a_seeded_order() -> None:
    orders = []
    for seed in (1, 1, 2):
        bench = Bench(Chaos(seed=seed))
        for serial in range(1, 20):
            bench.copier.submit(store(serial, [serial]))
        orders.append([report.token.serial for report in bench.to(0.0)])
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == list(range(1, 20)) != orders[0]


# The same in real time.


def threaded(chaos: Chaos, memory: Memory, inbox: Inbox, **hooks: object) -> ChaosThreadCopier:
    return ChaosThreadCopier(memory, inbox, RealClock(), chaos, 2, **hooks)  # type: ignore[arg-type]


def test_threads_give_every_part_the_same_fate_as_virtual_time_does() -> None:
    parts = [store(serial, [serial % 32]) for serial in range(1, 400)]
    bench = Bench(WILD)
    for work in parts:
        bench.copier.submit(work)
    virtual = bench.to(99.0)
    memory, inbox = pools(), Inbox()
    fill(memory, range(32), KEYS)
    copier = threaded(WILD, memory, inbox)
    plain: Copier = copier
    for work in parts:
        plain.submit(work)
    real: list[Report] = []
    end = time.monotonic() + 10
    while len(real) < len(virtual) and time.monotonic() < end:
        inbox.wait(0.1)
        real += inbox.drain(1000)
    assert copier.fence() == 399
    assert sorted(map(_plain, real)) == sorted(map(_plain, virtual))
    assert counted(copier) == counted(bench.copier)
    assert copier.close(5.0) == ()
    assert not inbox.drain(9)


def counted(copier: Chaotic) -> dict[str, float]:
    """What happened to the parts, without the time that it took."""
    return {name: count for name, count in copier.counts.as_dict().items() if name != "seconds"}


def _plain(report: Report) -> tuple[int, str, list[tuple[int, int]]]:
    return report.token.serial, report.outcome, [(failure.line, failure.code) for failure in report.failures]


def test_a_fence_in_real_time_does_not_wait_for_what_is_late() -> None:
    memory, inbox = pools(), Inbox()
    fill(memory, range(32), KEYS)
    seen: list[Work] = []
    slow = Chaos(late=1.0, late_by=(60.0, 60.0), delay=(30.0, 30.0))
    copier = threaded(slow, memory, inbox, on_land=lambda work, _: seen.append(work))
    for serial in range(1, 9):
        copier.submit(store(serial, [serial]))
    assert copier.in_flight()
    start = time.monotonic()
    assert copier.fence(within=5) == 8
    assert time.monotonic() - start < 5
    assert sorted(work.token.serial for work in seen) == list(range(1, 9))
    assert holds(memory, range(33, 41), KEYS[1:9])
    assert len(inbox) == 0
    assert copier.close(5.0) == ()


def test_a_cancel_in_real_time() -> None:
    memory, inbox = pools(), Inbox()
    fill(memory, range(32), KEYS)
    copier = threaded(Chaos(obey=1.0, delay=(0.3, 0.3)), memory, inbox)
    copier.submit(store(1, [1]))
    copier.cancel(Token(1, 1))
    assert inbox.wait(5)
    assert inbox.drain(9) == [Report(Token(1, 1), Outcome.CANCELLED)]
    copier.fence()
    assert not memory.pools[1].array.any()
    assert copier.close(5.0) == ()


def test_after_close_in_real_time_nothing_lands() -> None:
    memory, inbox = pools(), Inbox()
    fill(memory, range(32), KEYS)
    copier = threaded(Chaos(delay=(60.0, 60.0)), memory, inbox)
    copier.submit(store(1, [1]))
    assert copier.close(5.0) == ()
    assert copier.fence(within=5) == 1
    assert not memory.pools[1].array.any()
    assert copier.in_flight() == []
    assert len(inbox) == 0
    with pytest.raises(CopierClosedError):
        copier.submit(store(2))


def test_a_mistake_in_a_hook_is_loud() -> None:
    def wrong(work: Work, when: float) -> None:
        raise AssertionError(f"part {work.token.serial} lands in a block of another life")

    copier = threaded(Chaos(), pools(), Inbox(), on_land=wrong)
    copier.submit(store())
    with pytest.raises(AssertionError, match="another life"):
        copier.fence()
    with pytest.raises(AssertionError, match="another life"):
        copier.close(1.0)
