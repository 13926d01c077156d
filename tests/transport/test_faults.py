"""Peers that die and stop in the middle of a pull, and pulls that are to be stopped: what is said, and when it is true.

In each of these the peer's process is another one, so that it can be killed and stopped as a whole.
"""

from __future__ import annotations

import signal
from time import monotonic, sleep
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import Outcome, Token
from kvstate.runtime.copiers import Progress
from tests.transport.harness import Host, Puller

pytestmark = pytest.mark.long

BLOCKS = 512
BLOCK = 256 << 10
LONG = 20.0
"""Far longer than a report takes that is to come at once; a busy machine takes seconds."""


def begin(host: Host, kind: str, **options: Any) -> tuple[Puller, Token]:
    """A pull of 128 MiB, of which some has come."""
    peer = host.serve(kind, BLOCKS, BLOCK)
    puller = Puller(kind, BLOCKS, BLOCK, **options)
    puller.copier.meet("p", 1, peer.description)
    puller.offer(range(BLOCKS), "p", 1, range(BLOCKS))
    puller.poison(range(BLOCKS))
    scattered = [*range(0, BLOCKS, 2), *range(1, BLOCKS, 2)]  # no two side by side: a message a block
    token = puller.fetch(scattered, scattered, scattered)
    end = monotonic() + LONG
    while puller.wrong([0], [0]):
        assert monotonic() < end, "nothing comes"
        sleep(0.001)
    return puller, token


def test_a_peer_that_is_killed_is_told_at_once_and_with_proof(slow_kind: str, mortal: Host) -> None:
    puller, token = begin(mortal, slow_kind)
    mortal.signal(signal.SIGKILL)
    report = puller.wait(token, LONG)
    assert (report.outcome, report.failures[0].code) == (Outcome.FAILED, Code.PEER_LOST), report
    assert puller.copier.probe(token) is Progress.OVER
    assert puller.untouched_for(0.3)
    assert puller.wrong(range(BLOCKS), range(BLOCKS)), "all of it had come; nothing was tested"
    again = puller.wait(puller.fetch([0], [0], [0]), LONG)
    assert (again.outcome, again.failures[0].code) == (Outcome.FAILED, Code.PEER_LOST)
    assert puller.close() == ()


def test_a_peer_that_is_stopped_is_waited_for_until_somebody_cancels(slow_kind: str, mortal: Host) -> None:
    """And when it goes on, nothing of it lands: that is what the report said."""
    puller, token = begin(mortal, slow_kind, cancel_grace=0.2)
    mortal.signal(signal.SIGSTOP)
    sleep(0.5)
    assert not puller.hear(), "nothing is known, and so nothing is said"
    assert puller.copier.probe(token) is Progress.RUNNING
    puller.copier.cancel(token)
    report = puller.wait(token, LONG)
    assert report.outcome == Outcome.CANCELLED, report
    assert puller.copier.probe(token) is Progress.OVER
    bad = puller.wrong(range(BLOCKS), range(BLOCKS))
    assert bad, "all of it had come; nothing was tested"
    puller.poison(range(BLOCKS))  # the blocks have another owner now
    mortal.signal(signal.SIGCONT)
    assert puller.untouched_for(1.0), "bytes landed after the pull was said to be over"
    again = puller.wait(puller.fetch(range(8), range(8), range(8)))  # over a connection of its own
    if slow_kind == "gloo":
        assert again.outcome == Outcome.DONE, again
    # UCX over TCP may end the process that served when it goes on: "Fatal: unexpected error: Endpoint timeout". That is
    # the end of a peer, as any other; what is ours holds all the same.
    assert again.outcome in (Outcome.DONE, Outcome.FAILED), again
    assert again.outcome != Outcome.DONE or puller.wrong(range(8), range(8)) == []
    assert puller.close() == ()


def test_a_fence_ends_what_a_stopped_peer_holds_up(slow_kind: str, mortal: Host) -> None:
    puller, token = begin(mortal, slow_kind, fence_patience=0.1)
    mortal.signal(signal.SIGSTOP)
    start = monotonic()
    assert puller.copier.fence() == token.serial
    assert monotonic() - start < LONG
    report = puller.wait(token, 0.1)
    assert (report.outcome, report.failures[0].code) == (Outcome.FAILED, Code.PEER_LOST)
    puller.poison(range(BLOCKS))
    mortal.signal(signal.SIGCONT)
    assert puller.untouched_for(1.0), "bytes landed after a fence"
    assert puller.close() == ()


def test_a_cancel_in_flight_while_the_peer_goes_on(slow_kind: str, mortal: Host) -> None:
    """It ends as it ends, whole or cancelled; after its report no byte moves."""
    puller, token = begin(mortal, slow_kind, cancel_grace=0.05)
    puller.copier.cancel(token)
    report = puller.wait(token, 3 * LONG)
    assert report.outcome in (Outcome.DONE, Outcome.CANCELLED), report
    assert (puller.wrong(range(BLOCKS), range(BLOCKS)) == []) >= (report.outcome == Outcome.DONE)
    assert puller.untouched_for(0.5)
    assert puller.close() == ()


def test_to_connect_to_a_stopped_peer_keeps_nobody_waiting(slow_kind: str, mortal: Host) -> None:
    peer = mortal.serve(slow_kind, 4, BLOCK)
    puller = Puller(slow_kind, 4, BLOCK, cancel_grace=0.1)
    mortal.signal(signal.SIGSTOP)
    start = monotonic()
    puller.copier.meet("p", 1, peer.description)
    puller.offer(range(4), "p", 1, range(4))
    token = puller.fetch(range(4), range(4), range(4))
    assert monotonic() - start < 1.0
    sleep(0.3)
    puller.copier.cancel(token)
    assert puller.wait(token, LONG).outcome == Outcome.CANCELLED
    assert puller.close() == ()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_close_in_the_middle_leaves_nothing_that_writes(slow_kind: str, mortal: Host, how: int) -> None:
    puller, token = begin(mortal, slow_kind)
    mortal.signal(how)
    assert puller.copier.close(0.5) == ()
    puller.poison(range(BLOCKS))
    if how == signal.SIGSTOP:
        mortal.signal(signal.SIGCONT)
    assert puller.untouched_for(0.5)
    assert puller.wait(token, 0.1).outcome == Outcome.FAILED
