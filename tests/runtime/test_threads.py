"""Copies in the background: each part answered exactly once, whatever happens to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import Kind, Outcome, Report, Token, Work
from kvstate.runtime import pieces
from kvstate.runtime.copiers import Copier, CopierClosedError
from kvstate.runtime.copiers.threads import ThreadCopier
from kvstate.runtime.copiers.workers import Workers
from kvstate.runtime.copy import Integrity
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory
from tests.runtime.parts import fill, holds, key, part, pools

Make = Callable[..., ThreadCopier]
PARTS, LINES = 200, 16


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def make(inbox: Inbox) -> Iterator[Make]:
    """Makes copiers and closes them at the end."""
    made: list[ThreadCopier] = []

    def one(memory: Memory, threads: int = 2, integrity: Integrity = Integrity.HOST) -> ThreadCopier:
        made.append(ThreadCopier(memory, inbox, threads, integrity=integrity))
        return made[-1]

    yield one
    for copier in made:
        assert copier.close(5.0) == ()


class Gate:
    """Holds copies up at their first line until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.reached = threading.Event()
        move = pieces.move

        def held(piece: pieces.Piece) -> None:
            self.reached.set()
            assert self.open.wait(10)
            move(piece)

        monkeypatch.setattr(pieces, "move", held)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(monkeypatch)
    yield gate
    gate.open.set()


def work(serial: int, kind: Kind = Kind.STORE, first: int = 0, lines: int = 2) -> Work:
    src = range(first, first + lines)
    return part(kind, src, [32 + block for block in src], [key(block) for block in src], serial)


def test_a_burst_of_parts_moves_every_byte_and_answers_each_once(make: Make, inbox: Inbox) -> None:
    total = PARTS * LINES
    memory = pools(block_bytes=4096, device=total, host=total)
    keys = [key(number) for number in range(total)]
    fill(memory, range(total), keys)
    copier: Copier = make(memory)
    for number in range(PARTS):
        # Every second part is scattered: source and destination go up by different steps.
        lines = range(number * LINES, (number + 1) * LINES)
        dst = [total + line for line in (lines if number % 2 else reversed(lines))]
        copier.submit(part(Kind.STORE, lines, dst, [keys[line] for line in lines], number + 1))
    assert copier.fence() == PARTS
    reports = inbox.drain(10_000)
    assert sorted(report.token.serial for report in reports) == list(range(1, PARTS + 1))
    assert {report.outcome for report in reports} == {Outcome.DONE}
    order = [line for n in range(PARTS) for line in range(n * LINES, n * LINES + LINES)[:: 1 if n % 2 else -1]]
    at = {line: total + place for place, line in zip(range(total), order, strict=True)}
    assert holds(memory, [at[line] for line in range(total)], keys)


def test_work_that_waits_is_cancelled_at_once(make: Make, inbox: Inbox, gate: Gate) -> None:
    memory = pools()
    copier = make(memory, threads=1)
    copier.submit(work(1))
    assert gate.reached.wait(5)
    copier.submit(work(2, first=10))
    copier.cancel(Token(1, 2))
    copier.cancel(Token(1, 2))
    assert inbox.drain(9) == [Report(Token(1, 2), Outcome.CANCELLED)]
    gate.open.set()
    assert copier.fence() == 2
    assert [report.token.serial for report in inbox.drain(9)] == [1]
    assert not memory.bytes_of(42).any()
    assert memory.pools[1].seals.keys[10] == b""


def test_work_that_runs_is_stopped_between_two_pieces(make: Make, inbox: Inbox, gate: Gate) -> None:
    memory = pools(block_bytes=2 * pieces.SMALL_BYTES)
    fill(memory, range(4), [key(n) for n in range(4)])
    copier = make(memory, threads=1)
    copier.submit(part(Kind.STORE, [0, 2], [40, 50], [key(0), key(2)]))
    assert gate.reached.wait(5)
    copier.cancel(Token(1, 1))
    gate.open.set()
    copier.fence()
    (report,) = inbox.drain(9)
    assert (report.outcome, report.failures[0].line) == (Outcome.CANCELLED, 1)
    assert holds(memory, [40], [key(0)]), "what was begun is finished"
    assert not memory.bytes_of(50).any()


def test_a_cancel_that_comes_too_late_is_nothing(make: Make, inbox: Inbox) -> None:
    copier = make(pools())
    copier.submit(work(1))
    copier.fence()
    copier.cancel(Token(1, 1))
    copier.cancel(Token(9, 9))
    assert [report.outcome for report in inbox.drain(9)] == [Outcome.DONE]


def test_an_exception_is_a_failure_of_its_part_alone(make: Make, inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    move = pieces.move

    def moody(piece: pieces.Piece) -> None:
        if 10 in pieces.each(piece.src_at):
            raise RuntimeError("the driver lost its mind")
        move(piece)

    monkeypatch.setattr(pieces, "move", moody)
    copier = make(pools(), threads=1)
    copier.submit(work(1, first=10))
    copier.submit(work(2, first=20))
    copier.submit(part(Kind.STORE, [0], [99], [key(0)], 3))
    copier.fence()
    first, second, third = inbox.drain(9)
    assert (first.outcome, first.failures[0].code) == (Outcome.DENIED, Code.INTERNAL)
    assert "the driver lost its mind" in first.failures[0].message
    assert second.outcome == Outcome.DONE
    assert (third.outcome, third.failures[0].code) == (Outcome.DENIED, Code.INTERNAL)


def test_a_fence_waits_for_what_was_submitted_before_it(make: Make, gate: Gate, inbox: Inbox) -> None:
    copier = make(pools(), threads=2)
    assert copier.fence() == 0
    copier.submit(work(5))
    with pytest.raises(TimeoutError, match="nothing is proved"):
        copier.fence(within=0.01)
    threading.Timer(0.05, gate.open.set).start()
    assert copier.fence() == 5
    assert len(inbox) == 1, "the report is there when the fence has passed"


def test_after_close_nothing_is_started(make: Make, inbox: Inbox) -> None:
    copier = make(pools())
    copier.submit(work(1))
    assert copier.close(5.0) == ()
    assert [report.outcome for report in inbox.drain(9)] == [Outcome.DONE]
    with pytest.raises(CopierClosedError, match=r"copier cpu is closed: part 2 \(store\) was not started"):
        copier.submit(work(2))
    copier.cancel(Token(1, 1))
    assert copier.fence() == 1


def test_close_says_what_still_touches_memory(inbox: Inbox, gate: Gate) -> None:
    memory = pools()
    copier = ThreadCopier(memory, inbox, threads=1)
    copier.submit(work(1))
    assert gate.reached.wait(5)
    copier.submit(work(2, first=10))
    start = time.monotonic()
    assert copier.close(0.05) == (Token(1, 1),)
    assert time.monotonic() - start < 2
    assert inbox.drain(9) == [Report(Token(1, 2), Outcome.CANCELLED)], "what waited was dropped, and says so"
    gate.open.set()
    assert copier.close(5.0) == ()
    assert not memory.bytes_of(42).any()


def test_workers_outlive_what_an_item_does() -> None:
    done: list[int] = []

    def run(item: int) -> None:
        if item == 1:
            raise KeyError("a bug")
        done.append(item)

    workers: Workers[int] = Workers(run, 1, "test")
    for item in range(3):
        workers.put(item)
    assert workers.wait(5)
    assert done == [0, 2]
    assert isinstance(workers.trouble, KeyError)
    assert workers.under_way() == []
    assert workers.stop(5)
    with pytest.raises(ValueError, match="at least one thread"):
        Workers(run, 0, "test")
