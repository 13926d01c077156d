"""The copier of two events: bytes land, a report is delivered."""

from __future__ import annotations

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import Failure, Kind, Outcome, Token
from kvstate.runtime.copiers import Copier, CopierClosedError
from kvstate.runtime.copiers.hand import HandCopier, HandError
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory
from tests.runtime.parts import fill, holds, key, part, pools, stored

KEYS = [key(number) for number in range(4)]
SRC, DST = [0, 1, 2, 3], [40, 42, 44, 46]
STORE = part(Kind.STORE, SRC, DST, KEYS)


@pytest.fixture
def memory() -> Memory:
    memory = pools()
    fill(memory, SRC, KEYS)
    return memory


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def copier(memory: Memory, inbox: Inbox) -> HandCopier:
    return HandCopier(memory, inbox)


def test_nothing_happens_by_itself(copier: HandCopier, memory: Memory, inbox: Inbox) -> None:
    plain: Copier = copier
    plain.submit(STORE)
    assert not memory.pools[1].array.any()
    assert len(inbox) == 0
    assert [flight.token for flight in copier.in_flight()] == [STORE.token]


def test_bytes_first_and_the_report_later(copier: HandCopier, memory: Memory, inbox: Inbox) -> None:
    copier.submit(STORE)
    copier.land(STORE.token)
    assert holds(memory, DST, KEYS)
    assert len(inbox) == 0
    assert len(copier.in_flight()) == 1
    report = copier.deliver(STORE.token)
    assert inbox.drain(9) == [report]
    assert report == (STORE.token, Outcome.DONE, ())
    assert copier.in_flight() == []


def test_a_timeout_first_and_the_bytes_later(copier: HandCopier, memory: Memory, inbox: Inbox) -> None:
    copier.submit(STORE)
    copier.deliver(STORE.token, Outcome.TIMEOUT)
    assert len(copier.in_flight()) == 1
    copier.land(STORE.token)
    assert holds(memory, DST, KEYS)
    copier.deliver(STORE.token)
    assert [report.outcome for report in inbox.drain(9)] == [Outcome.TIMEOUT, Outcome.DONE]


def test_some_lines_then_the_rest(copier: HandCopier, memory: Memory) -> None:
    copier.submit(STORE)
    copier.land(STORE.token, lines=3)
    assert holds(memory, DST[:3], KEYS[:3])
    assert not memory.bytes_of(DST[3]).any()
    with pytest.raises(HandError, match="has not landed"):
        copier.deliver(STORE.token)
    with pytest.raises(HandError, match="3 of 4 lines"):
        copier.deliver(STORE.token, Outcome.DONE)
    copier.land(STORE.token, lines=9)
    assert holds(memory, DST, KEYS)
    assert copier.flight(STORE.token).over


def test_a_proof_ends_the_copy(copier: HandCopier, memory: Memory, inbox: Inbox) -> None:
    copier.submit(STORE)
    why = Failure(0, int(Code.NO_SPACE), "write")
    copier.land(STORE.token, lines=1)
    assert copier.deliver(STORE.token, Outcome.DENIED, (why,)).failures == (why,)
    with pytest.raises(HandError, match="is over"):
        copier.land(STORE.token)
    assert not memory.bytes_of(DST[1]).any()


def test_delivered_twice_and_never(copier: HandCopier, inbox: Inbox) -> None:
    copier.submit(STORE)
    copier.submit(STORE._replace(token=Token(1, 2)))
    copier.land(Token(1, 1))
    copier.deliver(Token(1, 1))
    copier.deliver(Token(1, 1))
    assert len(inbox.drain(9)) == 2
    copier.lose(Token(1, 2))
    assert [flight.serial for flight in copier.in_flight()] == [1], "its bytes may still land"
    copier.land(Token(1, 2))
    assert copier.in_flight() == []
    with pytest.raises(HandError, match="had its report lost"):
        copier.deliver(Token(1, 2))


def test_bad_bytes_are_what_the_report_says(copier: HandCopier, memory: Memory) -> None:
    stored(memory, DST, KEYS)
    memory.bytes_of(3)[5] ^= 1
    copier.submit(part(Kind.VERIFY, DST, SRC, KEYS))
    copier.land(0, lines=2)
    copier.land(0)
    report = copier.deliver(0)
    assert report.outcome == Outcome.BROKEN
    assert [(failure.line, failure.code) for failure in report.failures] == [(3, Code.CRC_MISMATCH)]


def test_an_exception_in_the_copy_ends_it(copier: HandCopier) -> None:
    copier.submit(part(Kind.STORE, [0], [99], KEYS[:1]))
    assert copier.land(0).over
    report = copier.deliver(0)
    assert (report.outcome, report.failures[0].code) == (Outcome.DENIED, Code.INTERNAL)
    assert "block 99 lies in no pool" in report.failures[0].message


def test_copies_under_one_token_are_told_apart(copier: HandCopier, memory: Memory) -> None:
    copier.submit(STORE)
    copier.submit(part(Kind.STORE, [0], [50], KEYS[:1]))
    copier.land(1)
    assert holds(memory, [50], KEYS[:1])
    assert not memory.bytes_of(DST[0]).any()
    copier.deliver(1)
    assert copier.flight(STORE.token).serial == 0, "the oldest that is not at rest"
    copier.cancel(STORE.token)
    assert [flight.asked for flight in copier.flights] == [True, False]


def test_a_fence_lands_everything_and_reports_nothing(copier: HandCopier, memory: Memory, inbox: Inbox) -> None:
    assert copier.fence() == 0
    copier.submit(STORE._replace(token=Token(1, 7)))
    copier.land(Token(1, 7), lines=1)
    copier.submit(STORE._replace(token=Token(1, 5)))
    assert copier.fence() == 7
    assert holds(memory, DST, KEYS)
    assert len(inbox) == 0
    assert all(flight.over for flight in copier.flights)


def test_a_dead_process_lands_nothing(copier: HandCopier, memory: Memory) -> None:
    copier.submit(STORE)
    assert copier.kill() == 1
    assert copier.in_flight() == []
    assert not memory.pools[1].array.any()


def test_a_driver_may_refuse_to_begin(copier: HandCopier) -> None:
    copier.refuse = OSError("no handle")
    with pytest.raises(OSError, match="no handle"):
        copier.submit(STORE)
    copier.submit(STORE)
    assert len(copier.flights) == 1


def test_close_says_what_may_still_land(copier: HandCopier) -> None:
    copier.submit(STORE)
    copier.submit(STORE._replace(token=Token(1, 2)))
    copier.land(Token(1, 1))
    assert copier.close(1.0) == (Token(1, 2),)
    with pytest.raises(CopierClosedError, match=r"part 1 \(store\) was not started"):
        copier.submit(STORE)


def test_what_was_never_submitted_is_an_error_of_the_test(copier: HandCopier) -> None:
    for which in (Token(1, 3), 0, -1):
        with pytest.raises(HandError, match=r"was ever submitted|was never submitted"):
            copier.land(which)
