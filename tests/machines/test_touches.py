"""What reaches parts from outside: steps and holds of the engine, reports of any kind, fences, and the clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import Failure, Kind, Outcome, Report, Token
from kvstate.machines.verdicts import Closed
from tests.machines.rig import Rig, failure, keys

MakeRig = Callable[..., Rig]

# -- compute steps -----------------------------------------------------------------------------------------------------


def test_a_closed_lease_s_blocks_drain_until_its_steps_retire(rig: Rig) -> None:
    """L3: the engine's own compute counts as a toucher; open, private and published blocks alike."""
    lease, [named] = rig.sealed(1)
    [open_] = rig.allocate(lease, 1)
    rig.step(1, lease)
    rig.step(2, lease, lease)
    assert rig.ledger.finish(lease) == Closed(free=0, cached=0, draining=2, quarantined=0)
    assert rig.column("block", "readers")[:2] == [2, 2]
    assert rig.books.step_leases.keys() == set(rig.books.steps.values())
    assert all(leases == [] for leases in rig.books.step_leases.values())
    rig.retire(1)
    assert [rig.state(ref.block) for ref in (named, open_)] == ["cached", "draining"]
    rig.retire(2)
    assert [rig.state(ref.block) for ref in (named, open_)] == ["cached", "free"]
    assert rig.books.steps == {}


def test_retiring_a_step_retires_all_before_it(rig: Rig) -> None:
    lease = rig.open()
    for step in (1, 2, 5):
        rig.step(step, lease)
    rig.retire(2)
    assert list(rig.books.steps) == [5]
    assert len(rig.books.leases[lease].steps) == 1
    rig.retire(5)
    assert rig.books.leases[lease].steps == []


def test_a_lease_that_was_not_on_the_step_is_free_at_once(rig: Rig) -> None:
    lease, other = rig.open(), rig.open()
    rig.allocate(other, 1)
    rig.step(1, lease)
    assert rig.ledger.finish(other) == Closed(1, 0, 0, 0)


def test_what_leaves_a_window_under_a_step_is_handed_to_the_step(rig: Rig) -> None:
    lease = rig.open()
    a, b = rig.allocate(lease, 2)
    rig.step(1, lease)
    assert {"P12", "B30", "B21"} <= rig.fires(lambda: rig.ledger.release(lease, [a]))
    assert [rig.state(ref.block) for ref in (a, b)] == ["draining", "open"]
    rig.retire(1)
    assert rig.state(a.block) == "free"


def test_a_hit_that_is_given_back_under_a_step_is_handed_to_the_step(rig: Rig) -> None:
    _, [a] = rig.sealed(1)
    lease = rig.open()
    hit = rig.lookup(lease, 1)
    rig.step(1, lease)
    rig.ledger.unpin(hit)
    assert (rig.column("block", "owners")[a.block], rig.column("block", "readers")[a.block]) == (1, 1)
    rig.retire(1)
    assert rig.column("block", "readers")[a.block] == 0


def test_a_step_that_does_not_retire_is_given_up_and_its_blocks_held(make_rig: MakeRig) -> None:
    """A block that is handed over before and one that is handed over after: both wait for a proof."""
    rig = make_rig(step_for=5.0)
    before, after = rig.open(), rig.open()
    [a] = rig.allocate(before, 1)
    [b] = rig.allocate(after, 1)
    rig.step(1, before, after)
    assert rig.ledger.finish(before) == Closed(0, 0, 1, 0)
    assert {"P07", "B42"} <= rig.fires(lambda: rig.tick(5.0))
    assert rig.state(a.block) == "quarantined"
    assert {"P13", "B40", "B22"} <= rig.fires(lambda: rig.ledger.finish(after))
    assert rig.state(b.block) == "quarantined"
    assert rig.ledger.rest() == ["step part 1 is lost"]
    assert {"P09", "B52"} <= rig.fires(lambda: rig.ledger.step_retired(1)), "late, and a proof all the same"
    assert [rig.state(ref.block) for ref in (a, b)] == ["free", "free"]
    assert rig.books.steps == {}


def test_a_fence_of_the_engine_ends_its_steps(make_rig: MakeRig) -> None:
    rig = make_rig(step_for=5.0)
    lease = rig.open()
    rig.allocate(lease, 1)
    rig.step(1, lease)
    rig.step(2, lease)
    rig.tick(5.0)
    rig.ledger.finish(lease)
    assert rig.ledger.fenced(0, "engine", 1) == 1
    assert list(rig.books.steps) == [2]
    assert rig.ledger.fenced(0, "engine", 2) == 1
    assert rig.state(0) == "free"


# -- holds -------------------------------------------------------------------------------------------------------------


def test_a_hold_outlives_its_lease(rig: Rig) -> None:
    lease, [named] = rig.sealed(1)
    [open_] = rig.allocate(lease, 1)
    token = rig.ledger.hold(lease, [named, open_, named], deadline=5.0)
    assert isinstance(token, Token)
    assert rig.effects() == [], "nobody is told: the embedder does it"
    assert rig.column("block", "readers")[:2] == [1, 1]
    assert rig.ledger.finish(lease) == Closed(0, 0, 2, 0)
    rig.report(token)
    assert [rig.state(ref.block) for ref in (named, open_)] == ["cached", "free"]
    assert rig.fires(lambda: rig.tick(5.0)) == set(), "its deadline finds nobody"


def test_a_hold_that_is_never_reported_is_given_up(rig: Rig) -> None:
    lease = rig.open()
    refs = rig.allocate(lease, 2)
    token = rig.ledger.hold(lease, refs, deadline=5.0)
    assert isinstance(token, Token)
    rig.tick(5.0)
    assert rig.ledger.finish(lease) == Closed(0, 0, 0, 2)
    assert {"P10"} == rig.fires(lambda: rig.report(token, "timeout"))
    rig.report(token, "failed")
    assert [rig.state(ref.block) for ref in refs] == ["free", "free"]


# -- reports -----------------------------------------------------------------------------------------------------------


def test_a_report_on_a_step_is_unknown(rig: Rig) -> None:
    """Steps are never sent down, so no worker was given their tokens: the step goes on until it is retired."""
    lease = rig.open()
    rig.allocate(lease, 1)
    assert rig.ledger.step_dispatched(1, [lease])
    [slot] = rig.books.steps.values()
    rig.ledger.report(Report(rig.books.parts[slot].token, Outcome.CANCELLED))
    assert (rig.books.unknown, rig.books.stale, list(rig.books.steps)) == (1, 0, [1])
    assert rig.ledger.step_retired(1)
    assert not rig.books.steps


@pytest.mark.parametrize("token", [Token(3, 0), Token(3, 2), Token(3, -1), Token(2, 0), Token(4, 1)])
def test_a_token_that_was_never_minted_is_unknown(make_rig: MakeRig, token: Token) -> None:
    rig = make_rig(incarnation=3)
    lease, refs = rig.sealed(1)
    rig.offload(lease, refs)
    before = rig.shape()
    for outcome in Outcome:
        rig.report(token, outcome)
    assert (rig.books.unknown, rig.books.stale) == (6, 0)
    assert rig.shape() == before


@pytest.mark.parametrize("outcome", ["launch", "adopt", "give_up", "over", ""])
def test_an_outcome_that_is_none_is_unknown(rig: Rig, outcome: str) -> None:
    """Also one that the part would take as a request: a report is not the way to ask."""
    lease, refs = rig.sealed(1)
    rig.offload(lease, refs)
    before = rig.shape()
    rig.report(Token(1, 1), outcome)
    assert (rig.books.unknown, rig.books.stale) == (1, 0)
    assert rig.shape() == before


@pytest.mark.parametrize("serial", [1, 10**9])
def test_what_an_earlier_incarnation_sent_is_stale(make_rig: MakeRig, serial: int) -> None:
    """What was minted before the restart can't be told any more, and touches nothing: the serials begin anew."""
    rig = make_rig(incarnation=3)
    lease, refs = rig.sealed(1)
    rig.offload(lease, refs)
    before = rig.shape()
    rig.report(Token(2, serial), "broken", failure(Code.CRC_MISMATCH))
    assert (rig.books.unknown, rig.books.stale) == (0, 1)
    assert rig.shape() == before


@pytest.mark.parametrize("outcome", list(Outcome))
def test_a_second_report_is_stale(make_rig: MakeRig, outcome: str) -> None:
    """While its owner lives the part is on record (P11); afterwards it is not. It is counted either way."""
    rig = make_rig(part_blocks=1)
    lease, refs = rig.sealed(1, 2)
    rig.offload(lease, refs)
    first, second = rig.works()
    rig.report(first)
    before = rig.ledger.canonical_hash()
    assert rig.fires(lambda: rig.report(first, outcome)) == {"P11"}
    rig.report(second)
    assert rig.ledger.canonical_hash() != before
    assert rig.fires(lambda: rig.report(first, outcome)) == set()
    assert (rig.books.unknown, rig.books.stale) == (0, 2)


def test_a_failure_of_an_unknown_code_is_kept_as_it_came(rig: Rig) -> None:
    """A newer worker may know more codes than we do; its report still ends the part."""
    lease, refs = rig.sealed(1)
    rig.offload(lease, refs)
    rig.report(rig.works()[0], "denied", Failure(0, 9999, "store", "tape", "77"))
    [error] = rig.verdict().errors
    assert (error.code, error.driver, error.raw) == (Code.UNKNOWN, "tape", "code 9999 77")


# -- fences ------------------------------------------------------------------------------------------------------------


def test_a_fence_ends_what_this_copier_of_this_rank_was_given_up_to_the_serial(make_rig: MakeRig) -> None:
    rig = make_rig(part_blocks=1, ranks=2)
    lease, refs = rig.sealed(1, 2)
    rig.offload(lease, refs)
    works = rig.works()
    assert [(work.rank, work.token.serial) for work in works] == [(0, 1), (0, 2), (1, 3), (1, 4)]
    assert rig.ledger.fenced(0, "cpu", 0) == 0
    assert rig.ledger.fenced(0, "disk", 4) == 0
    assert rig.ledger.fenced(2, "cpu", 4) == 0
    assert rig.ledger.fenced(0, "cpu", 1) == 1
    assert rig.ledger.fenced(0, "cpu", 1) == 0, "what is settled has nothing left to prove"
    assert rig.ledger.fenced(1, "cpu", 3) == 1
    assert _flying(rig) == {2, 4}
    assert rig.ledger.fenced(1, "cpu", 10**9) == 1
    assert rig.ledger.fenced(0, "cpu", 2) == 1
    assert rig.ledger.rest()[1:] == [f"job {lease + 1} is retry_wait"]
    assert rig.books.stale == 0


def _flying(rig: Rig) -> set[int]:
    return {serial for serial, slot in rig.books.tokens.items() if rig.books.parts_state[slot] == 1}


def test_a_fence_goes_by_the_order_of_minting(make_rig: MakeRig) -> None:
    """Not by slots, which depend on what was there before: two ledgers in one state answer one fence alike."""
    rig = make_rig()
    lease, (a, b, c) = rig.sealed(1, 2, 3)
    jobs = [rig.offload(lease, [ref]) for ref in (a, b)]
    rig.report(rig.works()[0], "denied")
    jobs.append(rig.offload(lease, [c]))
    first, second = (rig.books.tokens[serial] for serial in sorted(rig.books.tokens))
    assert first > second, "the younger part has the older slot"
    for job in jobs[1:]:
        rig.ledger.cancel(job)
    rig.verdicts()
    assert rig.ledger.fenced(0, "cpu", rig.books.serial) == 2
    assert [verdict.job for verdict in rig.verdicts()] == jobs[1:]  # type: ignore[union-attr]


def test_a_fence_frees_what_was_given_up_and_undoes_nothing_that_was_told(make_rig: MakeRig) -> None:
    rig = make_rig(part_blocks=1)
    rig.below(1)
    lease = rig.open()
    rig.load(lease, rig.lookup(lease, 1))
    [work] = rig.works()
    rig.report(work, "timeout")
    verdict = rig.verdict()
    assert rig.ledger.fenced(0, "cpu", work.token.serial) == 1
    assert rig.verdicts() == []
    assert rig.state(verdict.left[0]) == "free"
    assert rig.ledger.rest() == [f"lease {lease} is open"]


# -- the clock ---------------------------------------------------------------------------------------------------------


def test_time_that_runs_backwards_is_ignored(make_rig: MakeRig) -> None:
    rig = make_rig(offload_for=4.0)
    rig.tick(5.0)
    lease, refs = rig.sealed(1)
    rig.offload(lease, refs)
    assert rig.ledger.next_timer() == 9.0
    before = rig.shape()
    for past in (4.0, -1.0):
        rig.tick(past)
        assert rig.books.now == 5.0
    assert rig.shape() == before
    assert {"O21"} <= rig.fires(lambda: rig.tick(9.0))


def test_timers_fire_in_the_order_of_their_times(make_rig: MakeRig) -> None:
    """Also when the clock jumps over all of them; a timer that one of them arms is due in its turn."""
    rig = make_rig(device=6, grace=1.0)
    lease, refs = rig.sealed(1, 2, 3)
    late, early, last = (rig.offload(lease, [ref], deadline=at) for ref, at in zip(refs, (3.0, 2.0, 8.0), strict=True))
    rig.tick(100.0)
    told = [(verdict.job, verdict.ending) for verdict in rig.verdicts()]  # type: ignore[union-attr]
    assert told == [], "the lapse counts from when the clock said so"
    rig.tick(101.0)
    told = [(verdict.job, verdict.ending) for verdict in rig.verdicts()]  # type: ignore[union-attr]
    assert told == [(early, "failed"), (late, "failed"), (last, "failed")]
    assert rig.ledger.next_timer() is None


def test_a_timer_of_a_record_that_is_gone_finds_nobody(make_rig: MakeRig) -> None:
    """Its slot has another record by then: the timer knows the one that armed it."""
    rig = make_rig(offload_for=4.0)
    lease, refs = rig.sealed(1, 2)
    rig.offload(lease, refs[:1])
    slot = rig.books.jobs.live()[0].slot
    rig.finish_all()
    rig.tick(2.0)
    rig.offload(lease, refs[1:])
    assert rig.books.jobs.live()[0].slot == slot
    assert rig.fires(lambda: rig.tick(4.0)) == set()
    assert "O21" in rig.fires(lambda: rig.tick(6.0))


def test_every_deadline_ends_a_wait_by_the_clock_alone(make_rig: MakeRig) -> None:
    """L7 and L11: nothing reports, and everybody is told; what is left are parts that only a proof can end."""
    rig = make_rig(device=6)
    rig.below(1)
    lease, refs = rig.sealed(2)
    rig.load(lease, rig.lookup(lease, 1))
    rig.offload(lease, refs)
    other = rig.open()
    rig.step(1, other)
    assert isinstance(rig.ledger.hold(lease, refs, deadline=3.0), Token)
    while (due := rig.ledger.next_timer()) is not None:
        rig.tick(due)
    assert {type(verdict).__name__ for verdict in rig.verdicts()} == {"LoadVerdict", "Settlement", "JobVerdict"}
    assert {sentence.split()[0] for sentence in rig.ledger.rest()} == {"lease", "fetch", "store", "step", "hold"}
    assert all(sentence.endswith("is lost") for sentence in rig.ledger.rest()[2:])
    rig.ledger.finish(lease)
    rig.ledger.finish(other)
    rig.ledger.fenced(0, "cpu", rig.books.serial)
    rig.ledger.fenced(0, "engine", rig.books.serial)
    assert rig.ledger.rest() == []


# -- a reset -----------------------------------------------------------------------------------------------------------


def test_a_reset_drops_every_ready_key_and_calls_the_jobs_off(make_rig: MakeRig) -> None:
    rig = make_rig(device=6, attempts=1)
    rig.below(1, 2)
    lease, refs = rig.sealed(3)
    job = rig.offload(lease, refs)
    reader = rig.open()
    rig.load(reader, rig.lookup(reader, 1))
    store, fetch = rig.works()
    rig.report(fetch, "broken")
    assert [rig.key_state(number) for number in (1, 2, 3)] == ["condemned", "ready", "writing"]
    assert rig.ledger.reset() == 3, "two that were hits, and the mark on bad bytes"
    assert [rig.key_state(number) for number in (1, 2, 3)] == ["absent"] * 3
    assert rig.key_state(3, pool=0) == "absent"
    assert rig.job_state(job) == "cancelling"
    rig.report(store)
    assert not list(rig.books.keys.names())
    assert rig.state(4 + 2) in ("free", "cached")
    assert rig.ledger.seal(lease, rig.allocate(lease, 1), keys(9)) == (False,)
    assert rig.ledger.reset() == 0


# -- both ends of a copy at once ---------------------------------------------------------------------------------------


def test_source_and_destination_are_free_together_when_the_check_of_a_void_load_is_over(make_rig: MakeRig) -> None:
    """A check reads both. The reader is gone and its source forgotten: both pools wait for the same report."""
    rig = make_rig(verify=True)
    rig.below(1, 2)
    lease = rig.open()
    _, into = rig.load(lease, rig.lookup(lease, 1, 2))
    [fetch] = rig.works()
    rig.report(fetch)
    [check] = rig.works()
    assert check.kind == Kind.VERIFY
    rig.ledger.reset()
    rig.ledger.finish(lease)
    both = [*check.src, *(ref.block for ref in into)]
    assert [rig.state(block) for block in both] == ["draining"] * 4
    rig.report(check)
    assert [rig.state(block) for block in both] == ["free"] * 4
    assert rig.ledger.rest() == []
    rig.check()
