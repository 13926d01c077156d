"""The door between threads."""

from __future__ import annotations

import threading
import time

import pytest

from kvstate.machines.messages import Outcome, Report, Token
from kvstate.runtime.inbox import Inbox


def report(serial: int) -> Report:
    return Report(Token(1, serial), Outcome.DONE)


def test_reports_come_out_in_the_order_in_which_they_came() -> None:
    inbox = Inbox()
    for serial in range(5):
        assert inbox.put(report(serial))
    assert len(inbox) == 5
    assert [each.token.serial for each in inbox.drain(3)] == [0, 1, 2]
    assert [each.token.serial for each in inbox.drain(100)] == [3, 4]
    assert inbox.drain(1) == []


def test_nothing_is_lost_between_threads() -> None:
    inbox = Inbox()
    threads = [
        threading.Thread(target=lambda first=first: [inbox.put(report(first + i)) for i in range(2000)])
        for first in range(0, 8000, 2000)
    ]
    for thread in threads:
        thread.start()
    seen: list[int] = []
    while len(seen) < 8000 and inbox.wait(5):
        seen.extend(each.token.serial for each in inbox.drain(64))
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(8000))


def test_what_nobody_takes_out_is_dropped_and_counted() -> None:
    inbox = Inbox(limit=2)
    assert [inbox.put(report(serial)) for serial in range(4)] == [True, True, False, False]
    assert (len(inbox), inbox.dropped) == (2, 2)
    with pytest.raises(ValueError, match="limit of 1 or more"):
        Inbox(limit=0)


def test_bytes_are_read_or_counted() -> None:
    inbox = Inbox(decode=lambda message: report(int(message)))
    assert inbox.put_bytes(b"7")
    assert not inbox.put_bytes(b"\xff not a number")
    assert not inbox.put_bytes(b"")
    assert [each.token.serial for each in inbox.drain(9)] == [7]
    assert inbox.bad == 2
    assert inbox.first_bad.startswith("ValueError")


def test_bytes_without_a_decoder_are_bad_bytes() -> None:
    inbox = Inbox()
    assert not inbox.put_bytes(b"7")
    assert "no decoder" in inbox.first_bad


def test_wait_ends_with_a_report_or_with_the_time() -> None:
    inbox = Inbox()
    start = time.monotonic()
    assert not inbox.wait(0.01)
    assert time.monotonic() - start < 2
    threading.Timer(0.02, inbox.put, (report(1),)).start()
    assert inbox.wait(10)
    assert inbox.wait(10), "it is still there"
