"""The runtime that an engine embeds: who may call what, what a turn brings, and what a shutdown leaves."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import kvstate
from kvstate.errors import Code
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.messages import Failure, Hold, Outcome, Token, Unhold
from kvstate.machines.verdicts import Ending, Hit, LoadVerdict, Refusal
from kvstate.runtime.clock import VirtualClock
from kvstate.runtime.copiers.hand import HandCopier
from kvstate.runtime.guarded import RuntimeUseError
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.processes import ProcessLink
from kvstate.runtime.settings import RuntimeConfig, Workers
from kvstate.wire import Probed, Trouble, encode_up
from tests.runtime.parts import BLOCK, key, pools
from tests.runtime.rig import got

POOLS = (PoolConfig("device", 4), PoolConfig("host", 8, verify=True))
PATIENCE = 60.0


def config(workers: Workers = Workers.THREADS, ranks: int = 2, **more: Any) -> RuntimeConfig:
    return RuntimeConfig(ledger=LedgerConfig(POOLS, ranks=ranks), block_bytes=BLOCK, workers=workers, **more)


class Hand:
    """A runtime of one rank with a copier that is released by hand."""

    def __init__(self, **more: Any) -> None:
        self.inbox = Inbox()
        self.copier = HandCopier(pools(BLOCK, 4, 8), self.inbox)
        self.clock = VirtualClock()
        self.kv = KVRuntime(config(ranks=1, **more), copiers=[{"cpu": self.copier}], inbox=self.inbox, clock=self.clock)

    def store(self, number: int = 1) -> int:
        """An offload of one block is under way; its lease is open."""
        lease = got(self.kv.open("a"))
        refs = got(self.kv.allocate(lease, 1)).blocks
        assert self.kv.seal(lease, refs, [key(number)]) == (True,)
        got(self.kv.offload(lease, refs))
        assert self.kv.take_effects() == {}, "the runtime has the copiers itself"
        return lease


def served(kv: KVRuntime) -> list[Ending]:
    """A request that stores a block, and one that loads it; how job and load ended."""
    endings: list[Ending] = []
    for number in range(2):
        kv.poll()  # tells the time: processes may have taken longer to start than an offload is waited for
        lease = got(kv.open("a"))
        hit = got(kv.lookup(lease, [key(1)]))
        refs = got(kv.allocate(lease, 1)).blocks
        if number:
            got(kv.load(lease, hit, refs))
        else:
            kv.step_dispatched(1, [lease])
            got(kv.seal(lease, refs, [key(1)]))
            got(kv.offload(lease, refs))
            kv.take_effects()
            kv.step_retired(1)
        end = time.monotonic() + PATIENCE
        while len(endings) == number:
            done = kv.poll()
            endings += [job.ending for job in done.jobs] + [load.ending for load in done.verdicts]
            assert time.monotonic() < end
            kv.wait(0.05)
        kv.finish(lease)
        got(kv.allocate(lease := got(kv.open("a")), 4))  # whatever the device has cached is evicted
        kv.finish(lease)
    return endings


# ---- The loop --------------------------------------------------------------------------------------------------------


def test_copies_by_threads_of_this_process_on_two_ranks() -> None:
    with KVRuntime(config(integrity="host")) as kv:
        assert served(kv) == [Ending.COMMITTED, Ending.PROCEED]
        assert not kv.shutdown(PATIENCE)


@pytest.mark.slow
def test_processes_are_started_killed_started_again_and_ended() -> None:
    with KVRuntime(config(Workers.PROCESSES, restarts=1)) as kv:
        assert kv.ready(PATIENCE)
        assert served(kv) == [Ending.COMMITTED, Ending.PROCEED]
        links = [link for link in kv.engine.links if isinstance(link, ProcessLink)]
        open_lease = got(kv.open("a"))
        links[1].kill()
        loss = _lost(kv)
        assert (loss.rank, loss.leases, loss.error.code) == (1, (open_lease,), Code.PEER_LOST)
        assert "ended by signal 9" in loss.error.message
        assert [kv.incarnation(rank) for rank in (0, 1)] == [1, 2]
        lease = got(kv.open("a"))
        assert got(kv.lookup(lease, [key(1)])).blocks == (), "nothing of before is a hit"
        kv.finish(lease)
        second = kv.engine.links[1]
        assert isinstance(second, ProcessLink)
        assert second.ready(PATIENCE)
        second.kill()
        assert _lost(kv).rank == 1
        assert kv.engine.links[1] is second, "it was started again once, and that is all that the settings allow"
        lease = got(kv.open("a"))
        refs = got(kv.allocate(lease, 1)).blocks
        got(kv.seal(lease, refs, [key(2)]))
        got(kv.offload(lease, refs))
        jobs = [job for _ in range(200) for job in (kv.poll().jobs, kv.wait(0.02))[0]]
        assert [job.ending for job in jobs] == [Ending.FAILED], "there is no worker to store the other piece"
        assert Code.PEER_LOST in {error.code for error in jobs[0].errors}
        kv.shutdown(PATIENCE)
        assert [link.process.exitcode for link in (*links, second)] == [0, -9, -9]


def _lost(kv: KVRuntime) -> Any:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done = kv.poll()
        if done.lost:
            (loss,) = done.lost
            return loss
        kv.wait(0.02)
    raise AssertionError("it was never noticed")


def test_the_time_may_be_told() -> None:
    hand = Hand()
    hand.store()
    assert hand.kv.poll(now=100.0).jobs == ()
    assert hand.kv.now() == 100.0
    assert [job.ending for job in hand.kv.poll(now=200.0).jobs] == [Ending.FAILED], "after deadline, grace and lapse"
    hand.kv.close()


def test_a_load_without_a_deadline_has_that_of_the_settings() -> None:
    hand = Hand(load_for=7.0)
    lease = hand.store()
    (flight,) = hand.copier.in_flight()
    hand.copier.land(flight.serial)
    hand.copier.deliver(flight.serial)
    hand.kv.poll()
    hand.kv.finish(lease)
    got(hand.kv.allocate(lease := got(hand.kv.open("a")), 4))
    hand.kv.finish(lease)
    lease = got(hand.kv.open("a"))
    hit = got(hand.kv.lookup(lease, [key(1)]))
    got(hand.kv.load(lease, hit, got(hand.kv.allocate(lease, 1)).blocks))
    hand.clock.advance(6.9)
    assert hand.kv.poll().verdicts == ()
    hand.clock.advance(0.2)
    assert [verdict.ending for verdict in hand.kv.poll().verdicts] == [Ending.RECOMPUTE]
    hand.kv.close()


def test_a_namespace_that_nobody_named_is_refused() -> None:
    hand = Hand(namespaces=("tenant/model",))
    refused = hand.kv.open("other")
    assert isinstance(refused, Refusal)
    assert refused.reason == "there is no namespace 'other' here; there are tenant/model"
    assert got(hand.kv.open("tenant/model"))
    hand.kv.close()


def test_a_probe_says_how_far_a_part_is() -> None:
    hand = Hand()
    hand.store()
    (flight,) = hand.copier.in_flight()
    assert hand.kv.probe(flight.token)
    assert hand.kv.poll().probed == (Probed(flight.token, "running"),)
    hand.copier.land(flight.serial)
    assert hand.kv.probe(flight.token)
    assert [found.answer for found in hand.kv.poll().probed] == ["over"]
    assert not hand.kv.probe(Token(1, 99))
    assert not hand.kv.probe(Token(2, flight.token.serial))
    assert hand.kv.poll().probed == ()
    hand.kv.close()


def test_a_hold_is_let_go_by_its_token() -> None:
    hand = Hand()
    lease = got(hand.kv.open("a"))
    refs = got(hand.kv.allocate(lease, 4)).blocks
    token = hand.kv.hold(lease, refs[:1], deadline=9.0)
    assert isinstance(token, Token)
    assert got(hand.kv.finish(lease)).draining == 1
    hand.kv.let_go(token)
    hand.kv.poll()
    assert got(hand.kv.allocate(got(hand.kv.open("a")), 4))
    hand.kv.close()


def test_an_engine_with_its_own_allocator_is_asked_to_hold_and_unhold() -> None:
    inbox = Inbox()
    copier = HandCopier(pools(BLOCK, 4, 8), inbox)
    settings = RuntimeConfig(
        ledger=LedgerConfig((PoolConfig("device", 4, foreign=True), PoolConfig("host", 8))), block_bytes=BLOCK
    )
    kv = KVRuntime(settings, copiers=[{"cpu": copier}], inbox=inbox)
    lease = got(kv.open("a"))
    refs = got(kv.foreign_allocated([2])).refs
    got(kv.offload(lease, refs, keys=[key(1)]))
    kv.take_effects()
    assert kv.take_holds() == []
    got(kv.foreign_freed(refs))
    assert kv.take_holds() == [Hold(refs[0])]
    (flight,) = copier.in_flight()
    copier.land(flight.serial)
    copier.deliver(flight.serial)
    kv.poll()
    assert kv.take_holds() == [Unhold(refs[0])]
    kv.close()


# ---- Messages --------------------------------------------------------------------------------------------------------


def test_bytes_that_nobody_can_read_are_told_once() -> None:
    kv = KVRuntime(config(Workers.OWN))
    for _ in range(3):
        kv.report(b"junk")
        kv.report(b"")
        kv.report(memoryview(b""))
        kv.report(encode_up(7, 1, []))
        kv.report(encode_up(1, 1, [Trouble("rank 1 is not well")]))
    troubles = kv.poll().troubles
    assert len(troubles) == 3
    assert "a message of a worker could not be read" in troubles[0]
    assert troubles[1:] == ("a message came from rank 7; there are 2 ranks", "rank 1 is not well")
    assert kv.poll().troubles == ()


def test_any_thread_may_report_and_wakes_who_waits() -> None:
    kv = KVRuntime(config(Workers.OWN))
    thread = threading.Thread(target=kv.report, args=(encode_up(0, 1, [Trouble("hello")]),))
    thread.start()
    end = time.monotonic() + PATIENCE
    while not (troubles := kv.poll().troubles):
        assert time.monotonic() < end
        kv.wait(PATIENCE)
    thread.join()
    assert troubles == ("hello",)


def test_a_key_that_no_message_can_carry_fails_its_own_work() -> None:
    kv = KVRuntime(config(Workers.OWN))
    lease = got(kv.open("a"))
    refs = got(kv.allocate(lease, 2)).blocks
    got(kv.seal(lease, refs, [b"x" * 1000, key(2)]))
    bad, _ = [got(kv.offload(lease, [ref])).job for ref in refs]
    messages = kv.take_effects()
    done = kv.poll(now=0.0)
    assert len(done.troubles) == 2
    assert "rank 0 was not sent all of its work" in done.troubles[0]
    assert all(key(2) in message and b"x" * 1000 not in message for message in messages.values())
    kv.poll(now=1.0)  # it is tried once more
    assert kv.take_effects() == {}
    (job,) = kv.poll(now=2.0).jobs
    assert (job.job, job.ending) == (bad, Ending.FAILED)


# ---- Who may call what -----------------------------------------------------------------------------------------------

NOTHING = Hit(1, (), (), (), 0)
CALLS: dict[str, Callable[[KVRuntime], object]] = {
    "poll": lambda kv: kv.poll(),
    "take_effects": lambda kv: kv.take_effects(),
    "take_holds": lambda kv: kv.take_holds(),
    "fence": lambda kv: kv.fence(),
    "probe": lambda kv: kv.probe(Token(1, 1)),
    "wait": lambda kv: kv.wait(0.0),
    "ready": lambda kv: kv.ready(0.0),
    "worker_lost": lambda kv: kv.worker_lost(0, ""),
    "open": lambda kv: kv.open("a"),
    "lookup": lambda kv: kv.lookup(1, []),
    "lookup_groups": lambda kv: kv.lookup_groups(1, []),
    "unpin": lambda kv: kv.unpin(NOTHING),
    "allocate": lambda kv: kv.allocate(1, 0),
    "load": lambda kv: kv.load(1, NOTHING, []),
    "offload": lambda kv: kv.offload(1, []),
    "store": lambda kv: kv.store(1, []),
    "promote": lambda kv: kv.promote(LoadVerdict(1, 1, Ending.ABORTED, 0, 0, (), (), ()), NOTHING, []),
    "seal": lambda kv: kv.seal(1, [], []),
    "release": lambda kv: kv.release(1, []),
    "finish": lambda kv: kv.finish(1),
    "abort": lambda kv: kv.abort(1),
    "preempt": lambda kv: kv.preempt(1),
    "cancel": lambda kv: kv.cancel(1),
    "hold": lambda kv: kv.hold(1, [], deadline=1.0),
    "let_go": lambda kv: kv.let_go(Token(1, 1)),
    "reset": lambda kv: kv.reset(),
    "drain": lambda kv: kv.drain(),
    "rest": lambda kv: kv.rest(),
    "step_dispatched": lambda kv: kv.step_dispatched(1, []),
    "step_retired": lambda kv: kv.step_retired(1),
    "explain": lambda kv: kv.explain(block=0),
    "foreign_allocated": lambda kv: kv.foreign_allocated([0]),
    "foreign_reused": lambda kv: kv.foreign_reused([0]),
    "foreign_freed": lambda kv: kv.foreign_freed([]),
    "announce": lambda kv: kv.announce(1, []),
    "vanish": lambda kv: kv.vanish(1, []),
    "seek": lambda kv: kv.seek(1, [], pool=1),
    "greet": lambda kv: kv.greet("b"),
    "offer": lambda kv: kv.offer(1, [], to="b", request=b""),
    "withdraw": lambda kv: kv.withdraw(1),
    "close_offer": lambda kv: kv.close_offer(1, taken=False),
    "shutdown": lambda kv: kv.shutdown(0.0),
    "close": lambda kv: kv.close(),
}
ANYBODY = {"report", "now", "incarnation", "tell"}
"""What any thread may call at any time."""


def test_every_call_is_known_here() -> None:
    public = {name for name in dir(KVRuntime) if not name.startswith("_") and callable(getattr(KVRuntime, name))}
    assert public == CALLS.keys() | ANYBODY


def test_another_thread_is_sent_away_and_changes_nothing() -> None:
    hand = Hand()
    assert got(hand.kv.open("a")) == 1
    said: dict[str, str] = {}

    def intrude() -> None:
        for name, call in CALLS.items():
            try:
                call(hand.kv)
            except RuntimeUseError as error:
                said[name] = str(error)

    before = hand.kv.ledger.canonical_hash()
    thread = threading.Thread(target=intrude)
    thread.start()
    thread.join()
    assert said == {
        name: f"{name}: the runtime belongs to the thread that made it; another may call `report`, and nothing else"
        for name in CALLS
    }
    assert hand.kv.ledger.canonical_hash() == before
    hand.kv.close()


def test_nothing_is_done_after_the_shutdown() -> None:
    hand = Hand()
    got(hand.kv.open("a"))
    assert not hand.kv.shutdown(0.0)
    for name, call in CALLS.items():
        if name != "close":
            with pytest.raises(RuntimeUseError, match=f"^{name}: the runtime was shut down$"):
                call(hand.kv)
    hand.kv.close()
    hand.kv.report(b"junk")


def test_a_fork_of_the_process_is_told_that_it_has_no_runtime() -> None:
    """In a process of its own, since this one has threads, which a fork must not have."""
    text = """
import os
from kvstate import KVRuntime, RuntimeConfig
from kvstate.machines.config import LedgerConfig, PoolConfig

kv = KVRuntime(RuntimeConfig(ledger=LedgerConfig((PoolConfig("device", 1),)), block_bytes=64, workers="own"))
pid = os.fork()
if pid == 0:
    kv.close()  # does nothing, and above all nothing to the parent
    try:
        kv.poll()
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
import sys
print(kv.poll().fatal, kv.shutdown(1.0), "torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=PATIENCE)
    first, second = done.stdout.splitlines()
    assert first.startswith("poll: the runtime was made in process ")
    assert "a fork of it; its threads and pipes stayed behind. Make a runtime here, or start workers by spawn" in first
    assert second == "None Left(sentences=(), tokens=(), blocks=()) False", "a scheduler with workers needs no torch"


def test_it_is_found_at_the_top_and_brings_torch_only_where_it_makes_memory() -> None:
    assert kvstate.KVRuntime is KVRuntime
    assert kvstate.RuntimeConfig is RuntimeConfig
    with pytest.raises(AttributeError, match="module 'kvstate' has no attribute 'Nothing'"):
        _ = kvstate.Nothing
    text = "import sys, kvstate; kvstate.KVRuntime; print('torch' in sys.modules, 'KVRuntime' in dir(kvstate))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert done.stdout == "False True\n"


# ---- What does not fit together --------------------------------------------------------------------------------------


def test_copiers_of_this_process_need_their_inbox_and_threads() -> None:
    inbox = Inbox()
    copiers = [{"cpu": HandCopier(pools(), inbox)}]
    for settings, door in ((config(ranks=1), None), (config(Workers.OWN, 1), inbox)):
        with pytest.raises(ValueError, match='go with workers = "threads" and the inbox that they report to'):
            KVRuntime(settings, copiers=copiers, inbox=door)
    with pytest.raises(ValueError, match="the ledger counts 2 ranks, and the engine was given 1"):
        KVRuntime(config(), copiers=copiers, inbox=inbox)
    assert copiers[0]["cpu"]._closed, "what was made is closed again"


def test_a_rank_of_this_process_cannot_be_lost() -> None:
    hand = Hand()
    with pytest.raises(ValueError, match="rank 0 has no worker of the embedder's"):
        hand.kv.worker_lost(0, "gone")
    hand.kv.close()


# ---- The way out -----------------------------------------------------------------------------------------------------


def test_a_shutdown_waits_for_what_is_under_way() -> None:
    kv = KVRuntime(config())
    lease = got(kv.open("a"))
    refs = got(kv.allocate(lease, 4)).blocks
    got(kv.seal(lease, refs, [key(number) for number in range(4)]))
    got(kv.offload(lease, refs))
    kv.step_dispatched(1, [lease])
    kv.step_retired(1)
    assert not kv.shutdown(PATIENCE)
    assert kv.ledger.books.leases == {}


def test_what_a_copier_was_never_given_is_over_when_it_is_closed() -> None:
    """A store that waits for a step which nobody retires; only the step itself is left."""
    kv = KVRuntime(config())
    lease = got(kv.open("a"))
    refs = got(kv.allocate(lease, 1)).blocks
    kv.step_dispatched(1, [lease])
    got(kv.seal(lease, refs, [key(1)]))
    got(kv.offload(lease, refs))
    left = kv.shutdown(0.0)
    assert (left.tokens, left.blocks) == ((), ())
    assert [sentence.partition(" part")[0] for sentence in left.sentences] == ["step"]


def test_a_shutdown_says_what_it_left() -> None:
    """A copy that hangs holds nobody up, and is named."""
    hand = Hand()
    hand.store(1)
    hand.store(2)
    first, second = hand.copier.in_flight()
    hand.copier.land(first.serial)
    left = hand.kv.shutdown(0.0)
    assert left
    assert left.tokens == (second.token,)
    assert left.blocks == (*second.work.src, *second.work.dst)
    assert [sentence.partition(" ")[2] for sentence in left.sentences] == [
        "5 is cancelling",
        f"part {second.token.serial} is flying",
    ]


def test_what_workers_of_the_embedders_have_not_proved_is_left() -> None:
    kv = KVRuntime(config(Workers.OWN))
    lease = got(kv.open("a"))
    refs = got(kv.allocate(lease, 1)).blocks
    got(kv.seal(lease, refs, [key(1)]))
    got(kv.offload(lease, refs))
    assert set(kv.take_effects()) == {0, 1}
    left = kv.shutdown(0.0)
    assert len(left.tokens) == 2
    assert left.blocks == (0, 4)


def test_a_poisoned_runtime_is_shut_down_all_the_same() -> None:
    hand = Hand()
    hand.store()
    (flight,) = hand.copier.in_flight()
    hand.copier.deliver(flight.serial, Outcome.DENIED, (Failure(-1, int(Code.DEVICE_ERROR), "write"),))
    assert hand.kv.poll().fatal is not None
    left = hand.kv.shutdown(5.0)
    assert left.sentences
    assert os.getpid()
