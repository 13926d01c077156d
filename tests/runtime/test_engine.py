"""The loop: reports in, effects out, and nothing that a copier does brings it to a stop."""

from __future__ import annotations

import errno
import threading

import pytest

from kvstate.errors import Code, KVError, KVException
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Failure, Kind, Outcome, Report, Token
from kvstate.machines.tables.block import State as B
from kvstate.machines.tables.part import State as PartState
from kvstate.machines.verdicts import Ending, Refusal, Short
from kvstate.runtime.clock import VirtualClock
from kvstate.runtime.copiers.hand import HandCopier
from kvstate.runtime.engine import Engine
from kvstate.runtime.inbox import Inbox
from tests.runtime.parts import holds, key, pools
from tests.runtime.rig import Rig, end, got, keys_of, only_load


@pytest.fixture
def rig() -> Rig:
    return Rig()


# ---- A turn is bounded and never raises ------------------------------------------------------------------------------


def test_a_turn_hears_at_most_what_it_is_told_to(rig: Rig) -> None:
    for serial in range(10):
        rig.inbox.put(Report(Token(1, 100 + serial), Outcome.DONE))
    assert [rig.engine.poll(most).reports for most in (3, 0, -1, 4, 512, 512)] == [3, 0, 0, 4, 3, 0]
    assert rig.ledger.books.unknown == 10


def test_a_turn_tells_each_verdict_once(rig: Rig) -> None:
    rig.only_in_host(keys_of(1))
    lease = rig.open()
    load, _ = rig.load(lease, keys_of(1))
    turns = rig.run()
    assert [verdict.load for turn in turns for verdict in turn.loads] == [load]
    assert [settled.load for turn in turns for settled in turn.settled] == [load]
    assert rig.engine.poll() == ((), (), (), None, 0, (), ())


def test_a_copier_that_raises_when_it_is_asked_to_cancel_does_not_stop_the_loop(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wish is lost, and with it nothing but time: the copy ends by itself."""

    def cancel(token: Token) -> None:
        raise OSError(errno.EPIPE, f"no way to {token.serial}")

    lease = rig.open()
    job = rig.offload(lease, rig.computed(lease, keys_of(1)))
    (flight,) = rig.flying()
    monkeypatch.setattr(rig.copier, "cancel", cancel)
    assert rig.ledger.cancel(job)
    assert rig.engine.poll().fatal is None
    rig.copier.land(flight.serial)
    assert [verdict.ending for verdict in rig.deliver(flight).jobs] == [Ending.CANCELLED]


def test_another_thread_is_sent_away(rig: Rig) -> None:
    said: list[str] = []

    def intrude() -> None:
        for call in (
            rig.engine.poll,
            rig.engine.pump,
            rig.engine.fence,
            lambda: rig.engine.step_dispatched(1, []),
            lambda: rig.engine.step_retired(1),
        ):
            try:
                call()
            except RuntimeError as error:
                said.append(str(error))

    thread = threading.Thread(target=intrude)
    thread.start()
    thread.join()
    assert said == ["the engine belongs to the thread that made it; other threads put reports into the inbox"] * 5
    assert rig.ledger.books.last_step == 0


def test_a_durable_pool_whose_copier_keeps_nothing_is_refused_at_once() -> None:
    """A copier that keeps nothing would say of every object that it is durable, and lose it."""
    two = (PoolConfig("device", 1), PoolConfig("disk", 1, durable=True))
    inbox = Inbox()
    for copiers in ({}, {"cpu": HandCopier(pools(64, 1, 1), inbox)}):
        with pytest.raises(ValueError, match="pool disk is durable, and its copier 'cpu' keeps no objects"):
            Engine(Ledger(LedgerConfig(pools=two)), copiers, inbox, VirtualClock())


# ---- What can't be started has failed (I20, I22) ---------------------------------------------------------------------


def test_a_part_that_could_not_start_is_a_part_that_failed() -> None:
    """I20. The load ends when its other part has stopped, and not one part earlier."""
    rig = Rig(parts=1)
    keys = keys_of(1, 2)
    rig.only_in_host(keys)
    lease = rig.open()
    rig.copier.refuse = RuntimeError("the queue is full")
    _, into = rig.load(lease, keys)
    (other,) = rig.copier.in_flight()
    assert rig.engine.poll().loads == ()
    assert other.asked
    rig.copier.land(other.serial)
    verdict = only_load([rig.deliver(other)])
    assert (verdict.ending, verdict.tokens) == (Ending.RECOMPUTE, 0)
    assert set(verdict.kept) == {ref.block for ref in into}
    (error,) = verdict.errors
    assert (error.code, error.block, error.message) == (Code.INTERNAL, -1, "the queue is full")


def test_an_exception_in_submit_disturbs_nothing_else(rig: Rig) -> None:
    """I22. Two stores at the same time: one can't be started, and the other does not notice."""
    lease = rig.open()
    bad, good = rig.computed(lease, keys_of(1)), rig.computed(lease, keys_of(2))
    rig.copier.refuse = ConnectionRefusedError(errno.ECONNREFUSED, "nobody is there")
    jobs = [rig.offload(lease, bad), rig.offload(lease, good)]
    (flight,) = rig.flying()
    assert flight.work.keys == (key(2),)
    endings = {verdict.job: verdict.ending for turn in rig.run() for verdict in turn.jobs}
    assert endings[jobs[1]] is Ending.COMMITTED
    assert holds(rig.memory, flight.work.dst, keys_of(2))
    # What failed is tried again under a new token, if its code says that this makes sense, and works this time.
    rig.wait(1.0)
    endings |= {verdict.job: verdict.ending for turn in rig.run() for verdict in turn.jobs}
    assert endings[jobs[0]] is Ending.COMMITTED
    assert rig.ledger.books.retries == 1


def test_a_copier_that_does_not_exist_is_one_that_failed(rig: Rig) -> None:
    del end(rig.engine).copiers["cpu"]
    lease = rig.open()
    rig.offload(lease, rig.computed(lease, keys_of(1)))
    rig.engine.pump()
    (verdict,) = rig.engine.poll().jobs
    assert verdict.ending is Ending.FAILED
    assert [error.code for error in verdict.errors] == [Code.INTERNAL]


class Mute(Exception):  # noqa: N818, it is not only an error but a broken one
    """An error with an error in its own text."""

    def __str__(self) -> str:
        raise AttributeError("'Mute' object has no attribute 'reason'")


def test_an_error_without_a_text_still_ends_in_a_verdict_with_the_first_cause(rig: Rig) -> None:
    """I21, I40. A driver wraps the trouble into an exception of its own, and that one can't be printed."""
    error = Mute()
    error.__cause__ = OSError(errno.ENOSPC, "no space left in the slab")
    rig.copier.refuse = error
    lease = rig.open()
    rig.offload(lease, rig.computed(lease, keys_of(1)))
    rig.engine.pump()
    (verdict,) = rig.engine.poll().jobs
    (found,) = verdict.errors
    assert (verdict.ending, found.code, found.raw) == (Ending.FAILED, Code.NO_SPACE, "ENOSPC")
    assert "without a text: AttributeError" in found.message
    assert "no space left in the slab" in found.message
    assert found.type.endswith("Mute")


def test_a_handler_that_raises_in_its_turn_does_not_hide_what_it_was_handling(rig: Rig) -> None:
    """I40 as it was: the second exception merely came up in the handler, and is a bug of its own."""
    try:
        try:
            raise ConnectionResetError(errno.ECONNRESET, "the peer has gone")
        except ConnectionResetError as first:
            first.reason  # type: ignore[attr-defined]  # noqa: B018
    except AttributeError as second:
        rig.copier.refuse = second
    lease = rig.open()
    rig.offload(lease, rig.computed(lease, keys_of(1)))
    rig.engine.pump()
    (verdict,) = rig.engine.poll().jobs
    assert [error.code for error in verdict.errors] == [Code.INTERNAL]
    assert "the peer has gone" in verdict.errors[0].message


# ---- Work that waits for a step --------------------------------------------------------------------------------------


def store_behind_a_step(rig: Rig, *numbers: int) -> tuple[int, int]:
    """A store of blocks that step 1 still writes; returns the lease and the job."""
    lease = rig.open()
    assert rig.engine.step_dispatched(1, [lease])
    job = rig.offload(lease, rig.computed(lease, keys_of(*numbers)))
    rig.engine.pump()
    return lease, job


def test_work_waits_for_its_step(rig: Rig) -> None:
    store_behind_a_step(rig, 1)
    rig.engine.poll()
    assert rig.copier.flights == []
    assert rig.engine.step_retired(1)
    (flight,) = rig.copier.flights
    assert flight.work.after_step == 1
    assert rig.run()[-1].jobs[0].ending is Ending.COMMITTED


def test_a_step_that_was_never_sent_frees_nothing(rig: Rig) -> None:
    store_behind_a_step(rig, 1)
    assert isinstance(rig.engine.step_retired(7), Refusal)
    assert rig.copier.flights == []


def test_what_is_called_off_while_it_waits_is_over_at_once(rig: Rig) -> None:
    _, job = store_behind_a_step(rig, 1)
    assert rig.ledger.cancel(job)
    rig.engine.pump()
    assert end(rig.engine).waiting == []
    (verdict,) = rig.engine.poll().jobs
    assert verdict.ending is Ending.CANCELLED
    rig.engine.step_retired(1)
    assert rig.copier.flights == []
    assert not rig.memory.pools[1].array.any()


def test_a_fence_says_nothing_of_work_that_was_never_submitted(rig: Rig) -> None:
    """The request goes, the fence comes, the step retires, and the store reads what it was meant to read.

    A load that began after the store was minted has a higher serial, and has been submitted: a proof up to it would be
    one for the store as well, and hand the store's source to the next request before it is read.
    """
    rig.only_in_host(keys_of(9))
    lease, _ = store_behind_a_step(rig, 1)
    (source,) = rig.ledger.books.owned(rig.ledger.books.leases[lease])
    other = rig.open()
    load, _ = rig.load(other, keys_of(9))
    (flight,) = rig.flying()
    assert flight.token.serial > end(rig.engine).waiting[0].token.serial
    rig.ledger.finish(lease)
    assert rig.engine.fence() == 0
    assert load in rig.ledger.books.load_ids
    assert rig.state(source) is B.CACHED
    assert isinstance(rig.ledger.allocate(rig.open(), 3), Short)
    assert source not in {ref.block for ref in rig.allocate(rig.open(), 2)}
    assert rig.engine.step_retired(1)
    (store,) = (flight for flight in rig.flying() if flight.work.kind == Kind.STORE)
    assert store.work.src == (source,)
    assert Ending.COMMITTED in {verdict.ending for turn in rig.run() for verdict in turn.jobs}
    assert holds(rig.memory, store.work.dst, keys_of(1))


def test_a_fence_ends_what_was_submitted_before_what_waits(rig: Rig) -> None:
    first = rig.open()
    early = rig.offload(first, rig.computed(first, keys_of(1)))
    rig.engine.pump()
    _, late = store_behind_a_step(rig, 2)
    assert rig.engine.fence() == 1
    assert [work.keys for work in end(rig.engine).waiting] == [(key(2),)]
    assert {early, late} == set(rig.ledger.books.job_ids)


def test_a_fence_hears_what_was_said_before_it_says_anything_itself(rig: Rig) -> None:
    """A report that lies in the inbox knows why a part ended; the fence knows only that it did (I40)."""
    lease = rig.open()
    rig.copier.refuse = OSError(errno.ENOSPC, "full")
    bad = rig.offload(lease, rig.computed(lease, keys_of(1)))
    good = rig.offload(lease, rig.computed(lease, keys_of(2)))
    (flight,) = rig.flying()
    rig.copier.land(flight.serial)
    rig.copier.deliver(flight.serial)
    assert rig.engine.fence() == 0
    verdicts = {verdict.job: verdict for verdict in rig.engine.poll().jobs}
    assert verdicts[good].ending is Ending.COMMITTED
    assert [error.code for error in verdicts[bad].errors] == [Code.NO_SPACE]


def test_a_fence_that_proves_nothing_claims_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fence() -> int:
        raise TimeoutError("a copy is still running")

    monkeypatch.setattr(rig.copier, "fence", fence)
    lease = rig.open()
    job = rig.offload(lease, rig.computed(lease, keys_of(1)))
    with pytest.raises(TimeoutError, match="still running"):
        rig.engine.fence()
    assert job in rig.ledger.books.job_ids
    assert len(rig.copier.in_flight()) == 1


# ---- Poison ----------------------------------------------------------------------------------------------------------


def test_a_broken_invariant_is_fatal_and_nothing_more_goes_out(rig: Rig) -> None:
    lease = rig.open()
    refs = rig.computed(lease, keys_of(1))
    rig.offload(lease, refs)
    (flight,) = rig.flying()
    store_behind_a_step(rig, 2)
    rig.ledger.books.column("block", "readers")[refs[0].block] = 0  # a counter that lost its count
    rig.offload(lease, rig.computed(lease, keys_of(3)))  # and an effect that waits to be handed out
    rig.copier.land(flight.serial)
    done = rig.deliver(flight)
    assert done.fatal is not None
    assert done.fatal.law == "block.read_end"
    assert f"block {refs[0].block} is active" in done.fatal.sentence
    assert len(rig.copier.flights) == 1
    assert not rig.engine.step_retired(1)
    assert rig.engine.poll() == ((), (), (), done.fatal, 0, (), ())
    assert len(rig.copier.flights) == 1
    for refused in (rig.ledger.open("test"), rig.ledger.finish(lease), rig.ledger.allocate(lease, 0)):
        assert isinstance(refused, Refusal)
        assert "poisoned" in refused.reason


BROKEN_DEVICE = Failure(-1, int(Code.DEVICE_ERROR), "write", "cuda", "700", message="an illegal memory access")


def test_a_device_error_poisons_and_frees_nothing(rig: Rig) -> None:
    """The device may have written anywhere, so no block of it can be believed, least of all one that seems free."""
    lease = rig.open()
    rig.offload(lease, rig.computed(lease, keys_of(1, 2)))
    (flight,) = rig.flying()
    before = list(rig.ledger.books.block_state)
    rig.copier.deliver(flight.serial, Outcome.DENIED, (BROKEN_DEVICE,))
    done = rig.engine.poll()
    assert done.fatal is not None
    assert "DEVICE_ERROR" in done.fatal.sentence
    assert "an illegal memory access" in done.fatal.sentence
    assert list(rig.ledger.books.block_state) == before
    assert rig.engine.fence() == 0
    assert list(rig.ledger.books.block_state) == before


def test_a_device_error_out_of_submit_is_as_fatal(rig: Rig) -> None:
    rig.copier.refuse = KVException(KVError.of(BROKEN_DEVICE))
    lease = rig.open()
    rig.offload(lease, rig.computed(lease, keys_of(1)))
    rig.engine.pump()
    done = rig.engine.poll()
    assert done.fatal is not None
    assert "DEVICE_ERROR" in done.fatal.sentence


# ---- Several copiers -------------------------------------------------------------------------------------------------


@pytest.fixture
def slow(rig: Rig) -> HandCopier:
    """Another copier, for a third pool."""
    config = LedgerConfig(pools=(PoolConfig("device", 4), PoolConfig("host", 4), PoolConfig("slab", 4, copier="slow")))
    rig.ledger = Ledger(config)
    slow = HandCopier(rig.memory, rig.inbox, name="slow")
    rig.engine = Engine(rig.ledger, {"cpu": rig.copier, "slow": slow}, rig.inbox, rig.clock)
    return slow


def test_each_copier_is_fenced_for_itself(rig: Rig, slow: HandCopier) -> None:
    """Serials are minted for all, and a proof of one copier says nothing of another's work, however high it reaches."""
    lease = rig.open()
    refs = rig.computed(lease, keys_of(1))
    got(rig.ledger.offload(lease, refs, pool=2))
    got(rig.ledger.offload(lease, refs, pool=1))
    rig.engine.pump()
    assert [len(copier.flights) for copier in (rig.copier, slow)] == [1, 1]
    assert rig.ledger.fenced(0, "cpu", rig.copier.fence()) == 1
    assert [flight.over for flight in slow.flights] == [False]
    assert sum(1 for part in rig.ledger.books.parts.live() if part.copier == "slow") == 1


def test_what_waits_for_one_copier_does_not_keep_another_from_its_proof(rig: Rig, slow: HandCopier) -> None:
    rig.only_in_host(keys_of(9))
    lease = rig.open()
    assert rig.engine.step_dispatched(1, [lease])
    got(rig.ledger.offload(lease, rig.computed(lease, keys_of(1)), pool=2))
    load, _ = rig.load(rig.open(), keys_of(9))
    assert rig.engine.fence() == 1
    assert [work.copier for work in end(rig.engine).waiting] == ["slow"]
    assert slow.flights == []
    part = next(part for part in rig.ledger.books.parts.live() if part.copier == "slow")
    assert PartState(rig.ledger.books.parts_state[part.slot]) is PartState.FLYING
    assert load in rig.ledger.books.load_ids  # called off by the fence, and tried again in a moment
