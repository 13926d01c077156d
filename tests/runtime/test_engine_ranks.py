"""An engine of two ranks in this process: what goes where, and what happens when one of them is gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from kvstate.errors import Code
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Effect, Kind, Outcome, Report, Token, Work
from kvstate.machines.verdicts import Ending, JobVerdict
from kvstate.runtime.clock import VirtualClock
from kvstate.runtime.copiers.hand import HandCopier
from kvstate.runtime.dispatcher import Dispatcher, fail_to_begin
from kvstate.runtime.engine import Engine
from kvstate.runtime.inbox import Inbox
from kvstate.wire import Found
from tests.runtime.parts import BLOCK, key, part, pools
from tests.runtime.rig import got


class Gone:
    """A rank whose process is gone, and of which nobody has another yet."""

    lost = "it was killed"

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox

    def give(self, effects: Iterable[Effect]) -> None:
        fail_to_begin(effects, self.inbox, 1)

    def step_retired(self, step: int) -> None:
        """Nobody is there to hear it."""

    def probe(self, token: Token) -> str:
        return "unknown"

    def take_found(self) -> list[Found]:
        return []

    def fence(self) -> Iterator[tuple[str, int]]:
        return iter(())


class Two:
    def __init__(self) -> None:
        self.inbox, self.clock = Inbox(), VirtualClock()
        self.copiers = [HandCopier(pools(BLOCK, 4, 4), self.inbox) for _ in range(2)]
        self.ledger = Ledger(LedgerConfig((PoolConfig("device", 4), PoolConfig("host", 4)), ranks=2))
        links = [self.link(rank) for rank in range(2)]
        self.engine = Engine(self.ledger, links, self.inbox, self.clock)

    def link(self, rank: int) -> Dispatcher:
        return Dispatcher({"cpu": self.copiers[rank]}, self.inbox)

    def sealed(self, number: int) -> tuple[int, list[BlockRef]]:
        """A lease with a block that is under its key; what a step does is not looked at here."""
        lease = got(self.ledger.open("a"))
        refs = list(got(self.ledger.allocate(lease, 1)).blocks)
        got(self.ledger.seal(lease, refs, [key(number)]))
        return lease, refs


def test_each_rank_gets_its_own() -> None:
    two = Two()
    lease, refs = two.sealed(1)
    got(two.ledger.offload(lease, refs))
    two.engine.pump()
    works = [copier.flights[0].work for copier in two.copiers]
    assert [work.rank for work in works] == [0, 1]
    assert two.engine.fence(1) == 1
    assert [copier.flights[0].over for copier in two.copiers] == [False, True]
    assert two.engine.fence() == 1


def test_an_engine_has_a_link_for_each_rank() -> None:
    two = Two()
    for links in (two.engine.links[:1], [*two.engine.links, two.link(0)]):
        with pytest.raises(ValueError, match=f"counts 2 ranks, and the engine was given {len(links)}; give a link"):
            Engine(two.ledger, links, two.inbox, two.clock)


def test_a_rank_without_a_worker_fails_what_it_is_given_until_there_is_another() -> None:
    two = Two()
    two.engine.links[1] = Gone(two.inbox)
    lease, refs = two.sealed(1)
    (loss,) = two.engine.poll().lost
    assert (loss.rank, loss.leases, loss.error.code) == (1, (lease,), Code.PEER_LOST)
    assert two.engine.poll().lost == ()
    lease, refs = two.sealed(2)
    job = got(two.ledger.offload(lease, refs)).job
    verdicts: list[JobVerdict] = []
    for _ in range(2):  # and again, after the back-off
        two.engine.pump()
        flight = two.copiers[0].in_flight()[0]
        two.copiers[0].land(flight.serial)
        two.copiers[0].deliver(flight.serial)
        verdicts += two.engine.poll().jobs
        two.clock.advance(1.0)
        verdicts += two.engine.poll().jobs
    (verdict,) = verdicts
    assert (verdict.job, verdict.ending) == (job, Ending.FAILED)
    assert {error.code for error in verdict.errors} == {Code.PEER_LOST}
    assert two.ledger.books.retries == 1


def test_a_new_link_is_told_which_steps_are_over() -> None:
    """A store that was accepted during a step, and is handed out when the step is over and the rank was replaced."""
    two = Two()
    two.engine.links[1] = Gone(two.inbox)
    two.engine.poll()
    lease = got(two.ledger.open("a"))
    refs = list(got(two.ledger.allocate(lease, 1)).blocks)
    assert two.engine.step_dispatched(1, [lease])
    got(two.ledger.seal(lease, refs, [key(1)]))
    got(two.ledger.offload(lease, refs))
    assert two.engine.step_retired(1)
    two.engine.replace(1, two.link(1))
    two.engine.pump()
    assert [len(copier.in_flight()) for copier in two.copiers] == [1, 1]


def test_only_work_can_fail_to_begin() -> None:
    inbox = Inbox()
    work = part(Kind.FETCH, [4], [0], [key(1)], 9)
    fail_to_begin([work, object()], inbox, 3)
    (report,) = inbox.drain(9)
    assert isinstance(work, Work)
    assert report == Report(Token(1, 9), Outcome.FAILED, report.failures)
    assert report.failures[0].message == "no worker of rank 3 was given it"
