"""What the copier of a rank says of its parts, over the transport whose bytes land and whose transfers end by hand."""

from __future__ import annotations

from time import monotonic, sleep
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import Adopt, Failure, Kind, Outcome, Report, Sweep, Token, Undo
from kvstate.runtime.copiers import Copier, CopierClosedError, Progress
from kvstate.runtime.copy import Integrity
from kvstate.runtime.memory import Memory, Pool
from kvstate.runtime.peers.copier import PeerCopier
from kvstate.runtime.peers.loop import Exchange, LoopError, LoopTransport
from kvstate.runtime.peers.transport import Connection, Transfer, Transport
from kvstate.runtime.tiers.keeper import Keeper
from tests.transport.harness import HANDLES, SPACE, Puller, name, write

BLOCK, BLOCKS = 256, 8
REMOTE = list(range(100, 100 + BLOCKS))


class Two:
    """A peer and a copier in one process; handle n stands for the peer's block 100 + n."""

    def __init__(self, *, sums: bool = True, **options: Any) -> None:
        self.exchange = Exchange()
        self.theirs = Memory([Pool("device", 100, BLOCKS, BLOCK)])
        write(self.theirs, REMOTE, 0)
        self.peer = LoopTransport(self.theirs, self.exchange)
        ours = Memory([Pool("device", 0, BLOCKS, BLOCK)])
        self.puller = Puller(
            "loop", BLOCKS, BLOCK, memory=ours, transport=LoopTransport(ours, self.exchange), **options
        )
        self.copier = self.puller.copier
        serving = PeerCopier(self.peer, self.theirs, self.puller.inbox, base=HANDLES, count=0)
        self.sums = serving.seal(REMOTE) if sums else ()
        self.copier.meet("p", 1, serving.describe())
        self.puller.offer(range(BLOCKS), "p", 1, REMOTE, sums=self.sums)

    def fetch(self, *handles: int) -> Token:
        return self.puller.fetch(handles, handles, [REMOTE[handle] for handle in handles])

    def verify(self, *handles: int) -> Report:
        return self.puller.verify(handles, handles, [REMOTE[handle] for handle in handles])

    def transfer(self) -> Transfer:
        return self.exchange.running[0]

    def finish(self) -> None:
        transfer = self.transfer()
        self.exchange.land(transfer)
        self.exchange.finish(transfer)


def told(report: Report) -> tuple[str, list[tuple[int, Code, str]]]:
    return report.outcome, [(one.line, Code(one.code), one.stage) for one in report.failures]


def test_it_is_what_an_engine_needs() -> None:
    two = Two()
    copier: Copier = two.copier
    transport: Transport = two.peer
    line: Connection = two.exchange.transports[two.peer.life].connect("p", two.peer.describe())
    assert isinstance(copier, Keeper)
    assert (transport.name, line.peer) == ("loop", "p")
    assert two.copier.found().last
    assert two.copier.found().keys == ()


def test_bytes_land_and_then_it_is_told() -> None:
    two = Two()
    token = two.fetch(2, 5)
    assert two.copier.probe(token) is Progress.RUNNING
    two.exchange.land(two.transfer(), 1)
    assert two.puller.wrong([2, 5], [102, 105]) == [1]
    two.exchange.land(two.transfer())
    assert not two.puller.hear()
    two.exchange.finish(two.transfer())
    assert told(two.puller.wait(token)) == ("done", [])
    assert two.copier.probe(token) is Progress.OVER
    assert two.copier.probe(Token(1, 99)) is Progress.UNKNOWN
    assert two.puller.wrong([2, 5], [102, 105]) == []
    assert told(two.verify(2, 5)) == ("done", [])


def test_a_handle_is_what_it_was_adopted_for() -> None:
    two = Two()
    keys = [name(100), name(101)]
    report = two.puller.wait(two.puller.submit(Kind.FETCH, [0, 2, 1], [0, 1, 2], [*keys, name(105)]))
    assert told(report) == ("broken", [(1, Code.KEY_MISMATCH, "fetch"), (2, Code.KEY_MISMATCH, "fetch")])
    two.copier.adopt(Adopt(0, "peer", (HANDLES,), (SPACE,), (name(100),)))  # adopted again, and not routed
    report = two.puller.wait(two.puller.submit(Kind.FETCH, [0, 1], [0, 1], keys))
    assert told(report) == ("broken", [(0, Code.BLOCK_NOT_FOUND, "fetch")])
    assert not two.exchange.running, "bytes were asked for in vain"
    other = two.puller.work(Kind.VERIFY, [1], [1], [name(101)])._replace(spaces=("another tenant",))
    two.copier.submit(other)
    assert told(two.puller.wait(other.token)) == ("broken", [(0, Code.KEY_MISMATCH, "verify")])


def test_a_route_counts_from_its_adopt_on_and_not_before() -> None:
    two = Two()
    two.copier.route([HANDLES], "p", 1, [107])
    token = two.puller.fetch([0], [0], [100])
    two.finish()
    two.puller.done(token)
    assert two.puller.wrong([0], [100]) == []
    two.copier.adopt(Adopt(0, "peer", (HANDLES,), (SPACE,), (name(107),)))
    token = two.puller.fetch([0], [0], [107])
    two.finish()
    two.puller.done(token)
    assert two.puller.wrong([0], [107]) == []
    two.copier.sweep(Sweep(0, "peer", everything=False))
    assert two.verify(1).outcome == Outcome.BROKEN  # what is in block 1 is not the peer's
    two.copier.sweep(Sweep(0, "peer", everything=True))
    assert told(two.verify(1)) == ("broken", [(0, Code.BLOCK_NOT_FOUND, "verify")])
    two.copier.undo(Undo(Token(1, 1), 0, "peer", (HANDLES,), (name(100),)))


@pytest.mark.parametrize(
    ("integrity", "sums", "outcome"),
    [(Integrity.BOUNDARY, True, "broken"), (Integrity.HOST, True, "broken"), (Integrity.OFF, True, "done"),
     (Integrity.BOUNDARY, False, "done")],
)  # fmt: skip
def test_sums_are_compared_where_there_are_some_and_integrity_is_not_off(
    integrity: Integrity, sums: bool, outcome: str
) -> None:
    two = Two(integrity=integrity, sums=sums)
    token = two.fetch(3)
    two.finish()
    two.puller.done(token)
    two.puller.memory.pools[0].array[3, 17] ^= 1
    assert two.verify(3).outcome == outcome


def test_work_that_makes_no_sense_is_reported_and_nothing_else_disturbed() -> None:
    two = Two()
    good = two.fetch(1)
    bad = [
        two.puller.work(Kind.STORE, [0], [0], [name(100)]),
        two.puller.work(Kind.FETCH, [0, 1], [0], [name(100), name(101)]),
        two.puller.work(Kind.FETCH, [0, 2], [0, 0], [name(100), name(102)]),
        two.puller.work(Kind.FETCH, [0], [99], [name(100)]),
        two.puller.work(Kind.FETCH, [BLOCKS + 5], [0], [name(100)]),
    ]
    for work in bad:
        two.copier.submit(work)
        assert two.puller.wait(work.token).outcome == Outcome.DENIED, work
        assert two.copier.probe(work.token) is Progress.OVER
    two.finish()
    two.puller.done(good)


def test_bad_words_about_peers_are_troubles() -> None:
    two = Two()
    two.copier.route([HANDLES, HANDLES + 1], "p", 1, [100])
    two.copier.route([5], "p", 1, [100])
    two.copier.route([HANDLES], "p", 1, [100], [b"short"])
    two.copier.meet("q", 1, b"nonsense")
    two.puller.offer([0], "q", 1, [100])
    assert told(two.puller.wait(two.fetch(0))) == ("failed", [(-1, Code.PEER_LOST, "fetch")])
    said = two.copier.take_troubles()
    assert [sentence.split(":")[0] for sentence in said] == ["copier peer can't take a Route"] * 3 + [
        "peer q in life 1 can't be reached"
    ]
    assert two.copier.take_troubles() == []


def test_a_peer_that_died_is_a_failure_that_may_be_tried_again() -> None:
    two = Two()
    token = two.fetch(0, 1)
    two.exchange.land(two.transfer(), 1)
    two.exchange.kill(two.peer)
    assert told(two.puller.wait(token)) == ("failed", [(-1, Code.PEER_LOST, "fetch")])
    assert told(two.puller.wait(two.fetch(0))) == ("failed", [(-1, Code.PEER_LOST, "fetch")])


@pytest.mark.parametrize("how", ["another life", "leave"])
def test_a_life_that_is_over_ends_what_runs_from_it(how: str) -> None:
    two = Two()
    token = two.fetch(0)
    if how == "leave":
        two.copier.leave("p", 2)  # not this one
        sleep(0.1)
        assert not two.puller.hear()
        two.copier.leave("p", 1)
    else:
        two.copier.meet("p", 1, two.peer.describe())  # said again
        sleep(0.1)
        assert not two.puller.hear()
        two.copier.meet("p", 2, two.peer.describe())
    assert told(two.puller.wait(token)) == ("failed", [(-1, Code.PEER_LOST, "fetch")])
    assert not two.exchange.running
    assert told(two.puller.wait(two.fetch(0))) == ("failed", [(-1, Code.PEER_LOST, "fetch")])


def test_a_cancel_is_a_wish_and_then_an_end_by_force() -> None:
    """1. a part is asked to stop. 2. its connection moves, and it goes on. 3. nothing moves: the connection is torn
    down; the part is cancelled, and its neighbour has failed and may be tried again."""
    two = Two(cancel_grace=0.3)
    token, neighbour = two.fetch(0, 1, 2, 3), two.fetch(4)
    two.copier.cancel(token)
    for _ in range(3):
        sleep(0.15)
        two.exchange.land(two.transfer(), 1)
        assert not two.puller.hear()
    begin = monotonic()
    assert two.puller.wait(token).outcome == Outcome.CANCELLED
    assert monotonic() - begin > 0.1
    assert told(two.puller.wait(neighbour)) == ("failed", [(-1, Code.PEER_LOST, "fetch")])
    two.copier.cancel(token)  # over: no mistake
    two.copier.cancel(Token(9, 9))


def test_a_cancelled_part_whose_bytes_come_is_done() -> None:
    two = Two(cancel_grace=5.0)
    token = two.fetch(0)
    two.copier.cancel(token)
    two.finish()
    assert two.puller.wait(token).outcome == Outcome.DONE


def test_what_can_not_be_proved_is_a_timeout_and_told_again_when_it_is() -> None:
    two = Two(cancel_grace=0.05, fence_patience=0.05)
    token = two.fetch(0)
    two.exchange.lines[0].stuck = True
    lost = Failure(-1, int(Code.PEER_LOST), "fetch", message="no answer")
    transfer = two.transfer()
    two.exchange.finish(transfer, lost, proved=False)
    assert told(two.puller.wait(token)) == ("timeout", [(-1, Code.PEER_LOST, "fetch")])
    assert two.copier.probe(token) is Progress.RUNNING
    two.exchange.land(transfer)  # as bytes do, of which nothing was proved
    assert two.puller.wrong([0], [100]) == []
    with pytest.raises(TimeoutError, match="nothing is proved"):
        two.copier.fence()
    assert two.copier.close(0.05) == (token,)
    two.exchange.lines[0].stuck = False
    assert two.copier.close(0.05) == ()
    two.puller.hear()
    assert [told(report)[0] for report in two.puller.reports[token]] == ["timeout", "failed"]
    assert two.copier.probe(token) is Progress.OVER


def test_the_late_proof_comes_by_itself() -> None:
    two = Two(cancel_grace=0.05)
    token = two.fetch(0)
    two.exchange.lines[0].stuck = True
    two.exchange.finish(two.transfer(), Failure(-1, int(Code.PEER_LOST), "fetch"), proved=False)
    two.puller.wait(token)
    two.exchange.lines[0].stuck = False
    end = monotonic() + 20
    while len(two.puller.reports[token]) < 2 and monotonic() < end:
        two.puller.inbox.wait(0.05)
        two.puller.hear()
    assert [report.outcome for report in two.puller.reports[token]] == [Outcome.TIMEOUT, Outcome.FAILED]


def test_a_fence_speaks_for_what_was_submitted() -> None:
    two = Two(fence_patience=0.05)
    assert two.copier.fence() == 0
    first, second = two.fetch(0), two.fetch(1)
    assert two.copier.fence() == second.serial
    for token in (first, second):
        assert told(two.puller.wait(token)) == ("failed", [(-1, Code.PEER_LOST, "fetch")])
    assert not two.exchange.running
    third = two.fetch(2)
    two.finish()
    two.puller.done(third)


def test_a_close_takes_no_more_and_ends_all() -> None:
    two = Two()
    token = two.fetch(0)
    assert two.copier.close(0.05) == ()
    assert two.puller.wait(token).outcome == Outcome.FAILED
    with pytest.raises(CopierClosedError):
        two.fetch(1)


def test_a_part_of_no_lines_is_done() -> None:
    two = Two()
    two.puller.done(two.puller.submit(Kind.FETCH, [], [], []))
    assert two.puller.verify([], [], []).outcome == Outcome.DONE


def test_the_loop_refuses_what_no_transport_does() -> None:
    two = Two()
    two.fetch(0)
    transfer = two.transfer()
    with pytest.raises(LoopError, match="not landed"):
        two.exchange.finish(transfer)
    two.finish()
    with pytest.raises(LoopError, match="none that is under way"):
        two.exchange.land(transfer)
