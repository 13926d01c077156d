"""Long parts are carried by several threads, and still answered once; what a copier knows of a part."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from kvstate.errors import Code
from kvstate.machines.messages import Kind, Outcome, Token, Work
from kvstate.replay.chaos import Chaos
from kvstate.replay.chaos_copiers import VirtualCopier
from kvstate.runtime import pieces
from kvstate.runtime.clock import VirtualClock
from kvstate.runtime.copiers import Past, Progress
from kvstate.runtime.copiers.hand import HandCopier
from kvstate.runtime.copiers.threads import TASK_BYTES, ThreadCopier
from kvstate.runtime.copy import Integrity
from kvstate.runtime.inbox import Inbox
from tests.runtime.parts import fill, holds, key, part, pools

LINES = 9
BLOCK = TASK_BYTES // 4
SRC = [3, 0, 7, 8, 1, 2, 4, 6, 5]
DST = [16, 17, 11, 9, 15, 12, 14, 10, 13]
KEYS = [key(number) for number in range(LINES)]


class Rig:
    """A copier of three threads over blocks of which four make a task."""

    def __init__(self) -> None:
        self.memory = pools(BLOCK, LINES, LINES)
        self.inbox = Inbox()
        self.landed: list[tuple[int, ...]] = []
        self.copier = ThreadCopier(
            self.memory, self.inbox, 3, integrity=Integrity.HOST, on_land=lambda work, _: self.landed.append(work.src)
        )


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    yield rig
    assert rig.copier.close(10.0) == ()


def store(serial: int = 1, lines: int = LINES, dst: Sequence[int] = DST) -> Work:
    return part(Kind.STORE, SRC[:lines], dst[:lines], KEYS[:lines], serial)


def test_a_long_part_is_shared_out_and_reported_once(rig: Rig) -> None:
    fill(rig.memory, SRC, KEYS)
    rig.copier.submit(store())
    rig.copier.submit(part(Kind.FETCH, DST[:4], SRC[:4], KEYS[:4], 2)._replace(src=(), dst=(), keys=()))
    assert rig.copier.fence() == 2
    assert sorted(rig.landed) == sorted([tuple(SRC[:4]), tuple(SRC[4:]), ()])
    assert sorted((report.token.serial, report.outcome) for report in rig.inbox.drain(9)) == [
        (1, Outcome.DONE),
        (2, Outcome.DONE),
    ]
    assert holds(rig.memory, DST, KEYS)


@pytest.mark.parametrize(("lines", "shares"), [(1, 1), (7, 1), (8, 2), (9, 2)])
def test_no_share_is_smaller_than_a_task(rig: Rig, lines: int, shares: int) -> None:
    fill(rig.memory, SRC, KEYS)
    rig.copier.submit(store(1, lines))
    rig.copier.fence()
    assert len(rig.landed) == shares
    assert [line for share in sorted(rig.landed, key=lambda s: SRC.index(s[0])) for line in share] == SRC[:lines]


def test_where_all_threads_are_busy_only_large_shares_are_made(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setattr(pieces, "move", lambda piece: go.wait(10))
    for serial in range(1, 4):
        rig.copier.submit(store(serial, 1))
    rig.landed.clear()
    monkeypatch.setattr("kvstate.runtime.copiers.threads.BUSY_BYTES", 4 * BLOCK)
    rig.copier.submit(store(4, 7))
    rig.copier.submit(store(5, 9))
    go.set()
    rig.copier.fence()
    assert sorted(map(len, rig.landed[-3:])) == [4, 5, 7]


def test_every_share_checks_and_every_bad_line_has_its_own_number(rig: Rig) -> None:
    fill(rig.memory, SRC, KEYS)
    rig.copier.submit(store())
    rig.copier.fence()
    for line in (1, 3, 8):
        rig.memory.bytes_of(SRC[line])[5] ^= 1
    rig.copier.submit(part(Kind.VERIFY, DST, SRC, KEYS, 2))
    rig.copier.fence()
    _, found = rig.inbox.drain(9)
    assert [(failure.line, failure.code) for failure in found.failures] == [(n, Code.CRC_MISMATCH) for n in (1, 3, 8)]


def test_a_block_that_does_not_exist_stops_every_share(rig: Rig) -> None:
    fill(rig.memory, SRC, KEYS)
    rig.copier.submit(store(1, LINES, [*DST[:8], 99]))
    rig.copier.fence()
    (report,) = rig.inbox.drain(9)
    assert (report.outcome, report.failures[0].code) == (Outcome.DENIED, Code.INTERNAL)
    assert not rig.memory.pools[1].array.any()


def test_an_exception_in_one_share_is_told_when_the_others_have_stopped(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(rig.memory, SRC, KEYS)
    monkeypatch.setattr(pieces, "PIECE_BYTES", BLOCK)
    move, tripped = pieces.move, threading.Event()

    def moody(piece: pieces.Piece) -> None:
        if SRC[0] in pieces.each(piece.src_at):
            tripped.set()
            raise RuntimeError("the driver lost its mind")
        assert tripped.wait(10)
        assert len(rig.inbox) == 0, "the other share still writes"
        move(piece)

    monkeypatch.setattr(pieces, "move", moody)
    rig.copier.submit(store())
    rig.copier.fence()
    (report,) = rig.inbox.drain(9)
    assert [(failure.line, failure.code) for failure in report.failures] == [(-1, Code.INTERNAL)]
    assert holds(rig.memory, DST[4:], KEYS[4:])


def test_a_cancel_stops_all_shares(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(rig.memory, SRC, KEYS)
    monkeypatch.setattr(pieces, "PIECE_BYTES", BLOCK)
    reached, go, move = threading.Semaphore(0), threading.Event(), pieces.move

    def held(piece: pieces.Piece) -> None:
        reached.release()
        assert go.wait(10)
        move(piece)

    monkeypatch.setattr(pieces, "move", held)
    rig.copier.submit(store())
    assert reached.acquire(timeout=10)
    assert reached.acquire(timeout=10)
    rig.copier.cancel(Token(1, 1))
    assert rig.copier.probe(Token(1, 1)) is Progress.RUNNING
    go.set()
    rig.copier.fence()
    (report,) = rig.inbox.drain(9)
    assert report.outcome == Outcome.CANCELLED
    assert [failure.line for failure in report.failures] == [1, 5]
    assert np.flatnonzero(rig.memory.pools[1].array.any(axis=1)).tolist() == sorted([DST[0] - 9, DST[4] - 9])


# -- probe -------------------------------------------------------------------------------------------------------------


def test_a_part_that_waits_runs_and_one_that_was_dropped_is_over(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()
    monkeypatch.setattr(pieces, "move", lambda piece: go.wait(10))
    for serial in range(1, 6):
        rig.copier.submit(store(serial, 1))
    rig.copier.cancel(Token(1, 5))
    asked = [rig.copier.probe(Token(1, serial)) for serial in range(1, 7)]
    assert asked == [Progress.RUNNING] * 4 + [Progress.OVER, Progress.UNKNOWN]
    go.set()
    rig.copier.fence()
    assert {rig.copier.probe(Token(1, serial)) for serial in range(1, 6)} == {Progress.OVER}
    assert rig.copier.probe(Token(2, 1)) is Progress.UNKNOWN, "another life of the process"


def test_by_hand_a_copy_is_over_when_its_bytes_are() -> None:
    copier = HandCopier(pools(), Inbox())
    token = Token(1, 1)
    assert copier.probe(token) is Progress.UNKNOWN
    copier.submit(part(Kind.STORE, [1, 2], [40, 41], KEYS[:2]))
    assert copier.probe(token) is Progress.RUNNING
    copier.deliver(token, Outcome.TIMEOUT)
    copier.land(token, 1)
    assert copier.probe(token) is Progress.RUNNING
    copier.land(token)
    copier.lose(token)
    assert copier.probe(token) is Progress.OVER, "its report never comes, and the probe knows all the same"
    copier.submit(part(Kind.STORE, [1, 2], [40, 41], KEYS[:2]))
    assert copier.probe(token) is Progress.RUNNING, "of two under one token, one is not over"


def test_under_chaos_a_probe_knows_what_no_report_tells() -> None:
    memory, clock = pools(), VirtualClock()
    copier = VirtualCopier(memory, Inbox(), clock, Chaos(lost=1.0, seed=1))
    copier.submit(part(Kind.STORE, [1], [40], KEYS[:1]))
    assert copier.probe(Token(1, 1)) is Progress.RUNNING
    copier.fence()
    assert copier.probe(Token(1, 1)) is Progress.OVER
    assert copier.probe(Token(1, 2)) is Progress.UNKNOWN


def test_the_past_is_bounded_and_forgets_the_oldest() -> None:
    past = Past(2)
    for serial in (1, 2, 2, 3):
        past.add(Token(1, serial))
    assert [Token(1, serial) in past for serial in (1, 2, 3)] == [False, True, True]
