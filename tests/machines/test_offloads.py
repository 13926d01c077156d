"""Offload jobs: copying, making durable, trying again, calling off, running out of time, and waiting for a place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.config import PoolConfig
from kvstate.machines.messages import Cancel, Undo, Work
from kvstate.machines.verdicts import Ending, JobVerdict
from tests.machines.rig import Rig, failure, key, keys

MakeRig = Callable[..., Rig]
OUTCOMES = ("done", "failed", "denied", "broken", "cancelled")
"""The reports that prove that a part is over."""


def stored(rig: Rig, *numbers: int, **options: Any) -> tuple[int, list[Work]]:
    """A job for fresh blocks of these keys, whose lease has gone; and what it sends."""
    lease, refs = rig.sealed(*(numbers or (1,)))
    job = rig.offload(lease, refs, **options)
    rig.ledger.finish(lease)
    return job, rig.works()


def persisting(rig: Rig, *numbers: int) -> tuple[int, list[Work]]:
    """A job whose copies are done; and the persists that it sends."""
    job, works = stored(rig, *numbers)
    for work in works:
        rig.report(work)
    assert rig.job_state(job) == "persisting"
    return job, rig.works()


def undone(rig: Rig) -> list[int]:
    """The parts whose object is to be removed, in all that was ever sent."""
    rig.effects()
    return [effect.token.serial for effect in rig.sent if isinstance(effect, Undo)]


# -- copying -----------------------------------------------------------------------------------------------------------


def test_what_is_sent_down(make_rig: MakeRig) -> None:
    """Part by part and rank by rank; after the step that is under way; attempt 1; keys from the ledger."""
    rig = make_rig(part_blocks=2, ranks=2, incarnation=7)
    lease, refs = rig.sealed(1, 2, 3)
    rig.step(4, lease)
    job = rig.offload(lease, refs)
    works = rig.works()
    assert [(work.rank, work.src, work.keys) for work in works] == [
        (rank, tuple(ref.block for ref in refs[lines]), tuple(keys(1, 2, 3)[lines]))
        for rank in range(2)
        for lines in (slice(0, 2), slice(2, 3))
    ]
    assert {(work.kind, work.copier, work.attempt, work.after_step) for work in works} == {("store", "cpu", 1, 4)}
    assert [work.token for work in works] == [(7, serial) for serial in range(2, 6)], "the step has the first"
    assert works[0].dst + works[1].dst == works[2].dst + works[3].dst
    for work in works[1:]:
        rig.report(work)
        assert rig.key_state(1) == "writing", "no rank's part stands for another's"
    rig.report(works[0])
    assert [rig.key_state(number) for number in (1, 2, 3)] == ["ready"] * 3
    assert rig.verdicts() == [JobVerdict(job, lease, Ending.COMMITTED, tuple(keys(1, 2, 3)), ())]


def test_a_store_waits_for_the_newest_step_under_way(rig: Rig) -> None:
    lease, (a, b) = rig.sealed(1, 2)
    rig.step(1, lease)
    rig.step(2)
    rig.offload(lease, [a])
    rig.retire(2)
    rig.offload(lease, [b])
    assert [work.after_step for work in rig.works()] == [2, 0]


def test_a_store_that_failed_is_tried_again_later_and_later(make_rig: MakeRig) -> None:
    """New tokens, the same blocks; the delay doubles; the errors of all attempts are told when it was the last."""
    rig = make_rig(attempts=3, retry_delay=0.5)
    job, [work] = stored(rig)
    for attempt, due in ((1, 0.5), (2, 1.5)):
        assert work.attempt == attempt
        rig.report(work, "failed", failure(Code.KV_OOM, raw=str(attempt)))
        assert rig.job_state(job) == "retry_wait"
        assert rig.ledger.next_timer() == due
        rig.tick(due - 0.01)
        assert rig.works() == []
        rig.tick(due)
        [again] = rig.works()
        assert (again.src, again.dst, again.keys) == (work.src, work.dst, work.keys)
        rig.report(work)
        assert rig.books.stale == attempt, "the attempt before is stale"
        work = again
    assert rig.books.retries == 2
    rig.report(work, "failed")
    verdict = rig.verdict()
    assert (verdict.ending, verdict.keys) == ("failed", ())
    assert [(error.code, error.attempt, error.raw) for error in verdict.errors] == [
        (Code.KV_OOM, 1, "1"),
        (Code.KV_OOM, 2, "2"),
        (Code.UNKNOWN, 3, ""),
    ]
    assert verdict.errors[0].token.serial == 1
    assert (verdict.errors[2].stage, verdict.errors[2].message) == (
        "store",
        "the worker reported failed and gave no reason",
    )
    assert rig.key_state(1) == "absent"
    assert rig.state(work.dst[0]) == "free"


@pytest.mark.parametrize(("outcome", "rows"), [("denied", {"P18", "O18"}), ("broken", {"P05", "O18"})])
def test_what_would_fail_again_is_not_tried_again(rig: Rig, outcome: str, rows: set[str]) -> None:
    job, [work] = stored(rig)
    assert rows <= rig.fires(lambda: rig.report(work, outcome, failure(Code.PERMISSION_DENIED, 0)))
    verdict = rig.verdict()
    assert (verdict.job, verdict.ending) == (job, "failed")
    [error] = verdict.errors
    assert (error.block, error.generation) == (work.dst[0], 0), "L10: the error names the block of its line"


@pytest.mark.parametrize("last", OUTCOMES)
def test_a_lost_part_ends_the_job_when_the_others_have_stopped(make_rig: MakeRig, last: str) -> None:
    """L3: no new attempt over memory that an old one may still write; the lost part holds its blocks."""
    rig = make_rig(part_blocks=1)
    _, (first, second) = stored(rig, 1, 2)
    rig.report(first, "timeout", failure(Code.PEER_LOST))
    assert rig.verdicts() == []
    rig.report(second, last)
    verdict = rig.verdict()
    assert verdict.ending == "failed"
    assert verdict.errors[0].code is Code.PEER_LOST
    assert rig.state(first.dst[0]) == "quarantined"
    assert rig.state(second.dst[0]) == "free"
    assert rig.state(first.src[0]) == "cached"
    assert {"P09", "B54"} <= rig.fires(lambda: rig.report(first))
    assert rig.state(first.dst[0]) == "free"


@pytest.mark.parametrize("first", ["failed", "broken"])
@pytest.mark.parametrize(("second", "row"), [("done", "O13"), ("failed", "O16")])
def test_the_last_part_to_stop_ends_the_last_attempt(make_rig: MakeRig, first: str, second: str, row: str) -> None:
    rig = make_rig(part_blocks=1, attempts=1)
    _, works = stored(rig, 1, 2)
    rig.report(works[0], first)
    assert row in rig.fires(lambda: rig.report(works[1], second))
    assert rig.verdict().ending == "failed"


# -- making durable ----------------------------------------------------------------------------------------------------


def test_what_is_stored_in_a_durable_pool_is_a_hit_when_it_is_durable(make_rig: MakeRig) -> None:
    rig = make_rig(durable=True, part_blocks=1)
    job, (first, second) = persisting(rig, 1, 2)
    assert (first.kind, first.dst, first.keys, first.after_step) == ("persist", (), (key(1),), 0)
    assert rig.column("block", "readers")[first.src[0]] == 1
    rig.report(first)
    assert rig.key_state(1) == "writing", "all or nothing"
    assert rig.job_state(job) == "persisting"
    rig.report(second)
    assert [rig.key_state(number) for number in (1, 2)] == ["ready", "ready"]
    assert rig.verdict().ending == "committed"
    assert undone(rig) == []


def test_a_persist_is_tried_again_without_copying_again(make_rig: MakeRig) -> None:
    rig = make_rig(durable=True)
    job, [work] = persisting(rig)
    rig.report(work, "failed")
    assert rig.job_state(job) == "retry_wait"
    assert "O41" in rig.fires(lambda: rig.tick(0.05))
    [again] = rig.works()
    assert (again.kind, again.attempt, again.src) == ("persist", 2, work.src)
    rig.report(again)
    assert rig.verdict().ending == "committed"
    assert undone(rig) == []
    assert rig.books.retries == 0, "nothing was copied twice"


@pytest.mark.parametrize(
    ("reports", "row"),
    [
        (("failed", "done"), "O31"),
        (("done", "failed"), "O32"),
        (("done", "broken"), "O33"),
        (("denied", "denied"), "O33"),
    ],
)
def test_a_persist_that_fails_for_good_is_undone(make_rig: MakeRig, reports: tuple[str, ...], row: str) -> None:
    """Each part's own object, once, whatever the part said: one that failed may have been half made."""
    rig = make_rig(durable=True, part_blocks=1, attempts=1)
    _, works = persisting(rig, 1, 2)
    rig.report(works[0], reports[0])
    assert row in rig.fires(lambda: rig.report(works[1], reports[1]))
    assert undone(rig) == [work.token.serial for work in works]
    [undo, _] = (effect for effect in rig.sent if isinstance(effect, Undo))
    assert undo == (works[0].token, 0, "cpu", works[0].src, works[0].keys)
    assert [rig.key_state(number) for number in (1, 2)] == ["absent", "absent"]
    assert [rig.state(work.src[0]) for work in works] == ["free", "free"]
    for work in works:
        rig.report(work)
    assert len(undone(rig)) == 2


def test_every_attempt_of_a_persist_is_undone(make_rig: MakeRig) -> None:
    rig = make_rig(durable=True)
    _, [first] = persisting(rig)
    rig.report(first, "failed")
    rig.tick(0.05)
    [second] = rig.works()
    rig.report(second, "failed")
    assert undone(rig) == [first.token.serial, second.token.serial]


@pytest.mark.parametrize("late", [*OUTCOMES, "fence"])
def test_a_late_persist_is_undone_once_when_it_is_heard(make_rig: MakeRig, late: str) -> None:
    """Undone before it has stopped, the object might appear afterwards; so the late report carries it."""
    rig = make_rig(durable=True)
    _, [work] = persisting(rig)
    rig.report(work, "timeout")
    assert rig.verdict().ending == "failed"
    assert undone(rig) == [], "it may still be writing"
    assert rig.state(work.src[0]) == "quarantined"
    if late == "fence":
        assert rig.ledger.fenced(0, "cpu", work.token.serial) == 1
    else:
        rig.report(work, late)
    assert undone(rig) == [work.token.serial]
    assert rig.state(work.src[0]) == "free"
    rig.report(work)
    assert undone(rig) == [work.token.serial]


def test_a_late_persist_is_undone_once_by_the_job_if_the_job_still_lives(make_rig: MakeRig) -> None:
    rig = make_rig(durable=True, part_blocks=1)
    _, (first, second) = persisting(rig, 1, 2)
    rig.report(first, "timeout")
    rig.report(first)
    assert undone(rig) == [], "the job knows of it still"
    rig.report(second)
    assert rig.verdict().ending == "failed"
    assert undone(rig) == [first.token.serial, second.token.serial]


# -- calling off -------------------------------------------------------------------------------------------------------


def copying(rig: Rig) -> int:
    return stored(rig)[0]


def waiting_to_copy(rig: Rig) -> int:
    job, [work] = stored(rig)
    rig.report(work, "failed")
    return job


def waiting_to_persist(rig: Rig) -> int:
    job, [work] = persisting(rig)
    rig.report(work, "failed")
    return job


def queued(rig: Rig) -> int:
    for number in range(rig.ledger.config.max_jobs):
        stored(rig, 10 + number)
    return stored(rig)[0]


AT_ONCE = {
    "queued": (queued, "O02", "O03", 0),
    "waiting to copy": (waiting_to_copy, "O42", "O44", 0),
    "waiting to persist": (waiting_to_persist, "O43", "O45", 1),
}


@pytest.mark.parametrize("where", AT_ONCE)
@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_where_nothing_flies_the_end_comes_at_once(make_rig: MakeRig, where: str, how: str) -> None:
    rig = make_rig(device=6, durable=True, max_jobs=2, offload_for=2.0, retry_delay=9.0)
    reach, by_cancel, by_deadline, undo = AT_ONCE[where]
    job = reach(rig)
    rig.verdicts()
    if how == "cancel":
        assert by_cancel in rig.fires(lambda: rig.ledger.cancel(job))
    else:
        assert by_deadline in rig.fires(lambda: rig.tick(2.0))
    [verdict] = [told for told in rig.verdicts() if told.job == job]  # type: ignore[union-attr]
    assert verdict.ending == ("cancelled" if how == "cancel" else "failed")  # type: ignore[union-attr]
    assert bool(verdict.errors) == (how == "deadline")  # type: ignore[union-attr]
    assert rig.key_state(1) == "absent"
    assert len(undone(rig)) == undo
    rig.refuses(lambda: rig.ledger.cancel(job), "no job and no load that is under way")


def test_who_ran_out_of_time_is_told_so(make_rig: MakeRig) -> None:
    rig = make_rig(max_jobs=1)
    queued(rig)
    rig.tick(30.0)
    [error] = rig.verdict().errors
    assert (error.code, error.stage, error.message) == (Code.LOAD_TIMEOUT, "store", "no answer by the deadline")


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_where_something_flies_it_is_asked_to_stop_and_waited_for(
    make_rig: MakeRig, how: str, durable: bool, outcome: str
) -> None:
    """The key goes at once, so a second job may bring it; the blocks stay until the copy has stopped."""
    rig = make_rig(durable=durable, part_blocks=1, offload_for=2.0)
    job, works = persisting(rig, 1, 2) if durable else stored(rig, 1, 2)
    if how == "cancel":
        assert rig.ledger.cancel(job) is True
    else:
        rig.tick(2.0)
    assert rig.job_state(job) == "cancelling"
    assert [rig.key_state(number) for number in (1, 2)] == ["absent", "absent"]
    assert [effect for effect in rig.effects() if isinstance(effect, Cancel)] == [Cancel(work.token) for work in works]
    rig.refuses(lambda: rig.ledger.cancel(job), f"job {job} is ending already")
    assert rig.verdicts() == []
    rig.report(works[0], outcome)
    assert rig.verdicts() == []
    rig.report(works[1])
    verdict = rig.verdict()
    assert verdict.ending == ("cancelled" if how == "cancel" else "failed"), "L10: out of time is never called off"
    assert bool(verdict.errors) == (how == "deadline")
    assert undone(rig) == ([work.token.serial for work in works] if durable else [])
    assert rig.column("block", "owners")[4:] == [0, 0, 0, 0]


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("how", ["cancel", "deadline"])
def test_what_does_not_stop_is_given_up(make_rig: MakeRig, how: str, durable: bool) -> None:
    """L7: the lapse ends the job, not the copy; L4: the part keeps its blocks, and its late report frees them."""
    rig = make_rig(durable=durable, offload_for=2.0, grace=1.0)
    job, [work] = persisting(rig) if durable else stored(rig)
    if how == "cancel":
        rig.ledger.cancel(job)
    rig.tick(2.0)
    give_up = {(False, "cancel"): "O57", (True, "cancel"): "O58", (False, "deadline"): "O55", (True, "deadline"): "O56"}
    if how == "deadline":
        assert give_up[durable, how] in rig.fires(lambda: rig.tick(3.0))
    assert rig.ledger.fired()[give_up[durable, how]] == 1
    assert rig.verdict().ending == ("cancelled" if how == "cancel" else "failed")
    host = work.src[0] if durable else work.dst[0]
    assert rig.state(host) == "quarantined"
    assert rig.ledger.rest() == [f"{work.kind} part {work.token.serial} is lost"]
    assert undone(rig) == []
    rig.report(work)
    assert rig.state(host) == "free"
    assert undone(rig) == ([work.token.serial] if durable else [])
    assert rig.ledger.rest() == []


def test_a_key_that_was_called_off_can_be_stored_again_meanwhile(rig: Rig) -> None:
    """The first job's late success must not commit the second job's key."""
    lease, refs = rig.sealed(1)
    first = rig.offload(lease, refs)
    rig.ledger.cancel(first)
    rig.offload(lease, refs)
    old, new = rig.works()
    assert old.dst != new.dst
    rig.report(old)
    assert rig.verdict().ending == "cancelled"
    assert rig.key_state(1) == "writing"
    rig.report(new)
    assert rig.verdict().ending == "committed"
    assert rig.key_state(1) == "ready"


# -- waiting for a place -----------------------------------------------------------------------------------------------


def line_up(rig: Rig, count: int) -> list[int]:
    lease, refs = rig.sealed(*range(1, count + 1))
    return [rig.offload(lease, [ref]) for ref in refs]


def states(rig: Rig, jobs: list[int]) -> list[str]:
    return [rig.job_state(job) for job in jobs if job in rig.books.job_ids]


def test_no_more_jobs_run_than_may(make_rig: MakeRig) -> None:
    rig = make_rig(max_jobs=2)
    jobs = line_up(rig, 4)
    assert states(rig, jobs) == ["copying", "copying", "queued", "queued"]
    first, _ = rig.works()
    rig.report(first)
    assert states(rig, jobs) == ["copying", "copying", "queued"]


@pytest.mark.parametrize("which", [1, 2, 3])
def test_a_queued_job_that_is_called_off_gives_its_place_to_nobody(make_rig: MakeRig, which: int) -> None:
    """Wherever in the queue it was: it never had a place among those that run."""
    rig = make_rig(max_jobs=1)
    jobs = line_up(rig, 4)
    assert rig.ledger.cancel(jobs[which]) is True
    assert states(rig, jobs) == ["copying", "queued", "queued"]
    rig.finish_all()
    endings = {verdict.job: verdict.ending for verdict in rig.verdicts()}  # type: ignore[union-attr]
    assert endings == {job: "cancelled" if job == jobs[which] else "committed" for job in jobs}


def test_a_queued_job_expires_in_the_queue(make_rig: MakeRig) -> None:
    rig = make_rig(max_jobs=1)
    lease, (a, b, c) = rig.sealed(1, 2, 3)
    running, short, long = (rig.offload(lease, [ref], deadline=at) for ref, at in ((a, 9.0), (b, 1.0), (c, 9.0)))
    assert "O03" in rig.fires(lambda: rig.tick(1.0))
    assert rig.verdict().job == short
    assert states(rig, [running, short, long]) == ["copying", "queued"]
    rig.report(rig.works()[0])
    assert states(rig, [running, short, long]) == ["copying"]


def test_draining_empties_the_queue(make_rig: MakeRig) -> None:
    rig = make_rig(max_jobs=1)
    jobs = line_up(rig, 3)
    rig.ledger.drain()
    assert states(rig, jobs) == ["cancelling"]
    assert list(rig.books.queue) == []
    assert [verdict.job for verdict in rig.verdicts()] == jobs[1:]  # type: ignore[union-attr]


def test_two_lower_pools_are_apart(make_rig: MakeRig) -> None:
    rig = make_rig(pools=(PoolConfig("device", 2), PoolConfig("host", 1), PoolConfig("disk", 1, copier="disk")))
    lease, refs = rig.sealed(1)
    for pool in (1, 2):
        rig.offload(lease, refs, pool=pool)
    host, disk = rig.works()
    assert (host.copier, host.dst, disk.copier, disk.dst) == ("cpu", (2,), "disk", (3,))
    rig.report(host)
    assert [rig.key_state(1, pool) for pool in (0, 1, 2)] == ["ready", "ready", "writing"]
