"""Deadlines, tries, races and codes, against a real server with a proxy before it that plays the network."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import Kind
from kvstate.runtime.tiers.objects.answers import FIRST_PAUSE, LOST_IN_A_ROW, StoreError
from kvstate.runtime.tiers.objects.bucket import Bucket
from kvstate.runtime.tiers.objects.names import TOMB
from kvstate.runtime.tiers.objects.settings import StoreConfig
from tests.objects.proxy import ACT_AND_DROP, CUT, DROP, HANG, Proxy
from tests.objects.rig import Rig, codes
from tests.objects.server import S3Server
from tests.runtime.parts import fill, holds

SHORT = 0.5
"""Seconds of a request that is to run out of time."""


@pytest.fixture
def rig(proxy: Proxy, running: S3Server, request: pytest.FixtureRequest) -> Iterator[Rig]:
    """A process behind the proxy, with a key that others have put."""
    prefix = f"{request.node.name}-{time.time_ns()}".replace("[", "-").replace("]", "").replace(" ", "-")
    plain = Rig(running.url(prefix))
    plain.put([0], [1])
    plain.close()
    one = Rig(running.url(prefix, proxy.port), request_for=SHORT)
    yield one
    proxy.hanging.set()
    one.close()


def methods(proxy: Proxy) -> list[str]:
    return [method for method, _ in proxy.seen]


STATUSES: list[tuple[int, Code, str, bool]] = [
    (400, Code.UNKNOWN, "denied", False),
    (401, Code.PERMISSION_DENIED, "denied", False),
    (403, Code.PERMISSION_DENIED, "denied", False),
    (408, Code.LOAD_TIMEOUT, "failed", True),
    (429, Code.BUSY, "failed", True),
    (500, Code.UNKNOWN, "failed", True),
    (501, Code.UNKNOWN, "denied", False),
    (502, Code.PEER_LOST, "failed", True),
    (503, Code.BUSY, "failed", True),
    (504, Code.LOAD_TIMEOUT, "failed", True),
    (507, Code.NO_SPACE, "denied", False),
]


@pytest.mark.parametrize(("status", "code", "outcome", "again"), STATUSES)
def test_a_status_is_a_code_and_only_what_is_transient_is_tried_again(
    rig: Rig, proxy: Proxy, status: int, code: Code, outcome: str, again: bool
) -> None:
    rig.adopt([0], [1])
    rig.store([1], [2])
    proxy.always = status
    stages = {Kind.FETCH: "fetch", Kind.PERSIST: "commit", Kind.SEEK: "lookup"}
    for kind, stage in stages.items():
        proxy.seen.clear()
        report = rig.objects.carry(
            rig.work(kind, [12] if kind is Kind.FETCH else [13] if kind is Kind.PERSIST else [],
                     [0] if kind is Kind.FETCH else [], [2 if kind is Kind.PERSIST else 1])
        )  # fmt: skip
        expected = Code.UNKNOWN if code is Code.NO_SPACE and kind is not Kind.PERSIST else code
        assert codes(report) == [(0, expected, stage)]
        assert report.outcome == outcome
        assert report.failures[0].raw == str(status)
        assert len(proxy.seen) == (3 if again else 1)
        rig.bucket._patience.told(0.0, answered=True)
    proxy.always = None
    assert rig.serves(1)
    assert rig.persist([1], [2]).outcome == "done"


@pytest.mark.parametrize("what", [429, 503, 500, 502, DROP, CUT])
def test_what_goes_well_the_second_time_is_no_failure(rig: Rig, proxy: Proxy, what: int | str) -> None:
    for _ in range(2):
        proxy.next.append(what)
        assert rig.serves(1)
    rig.store([1], [2])
    proxy.next.append(what if what != CUT else DROP)
    assert rig.persist([1], [2]).outcome == "done"
    assert rig.seek([1, 2, 3]) == [True, True, False]


def test_a_store_that_says_nothing_costs_one_deadline(rig: Rig, proxy: Proxy) -> None:
    rig.adopt([0], [1])
    fill(rig.memory, [0], [b"before"])
    proxy.always = HANG
    start = time.monotonic()
    report = rig.fetch([0], [1])
    took = time.monotonic() - start
    assert (report.outcome, codes(report)) == ("failed", [(0, Code.LOAD_TIMEOUT, "fetch")])
    assert SHORT * 0.9 <= took < 2 * SHORT + 1.0
    assert methods(proxy) == ["GET"]
    assert holds(rig.memory, [0], [b"before"])


def test_an_answer_that_drips_ends_at_the_deadline(rig: Rig, proxy: Proxy) -> None:
    proxy.delay = SHORT / 4
    assert rig.serves(1)  # slow, and in time
    proxy.delay = 3 * SHORT
    report = rig.fetch([0], [1])
    assert codes(report) == [(0, Code.LOAD_TIMEOUT, "fetch")]


def test_a_store_that_is_away_is_left_alone_and_asked_again(rig: Rig, proxy: Proxy) -> None:
    rig.adopt([0], [1])
    proxy.always = DROP
    for _ in range(LOST_IN_A_ROW):
        rig.fetch([0], [1])
    proxy.seen.clear()
    start = time.monotonic()
    report = rig.fetch([0], [1])
    assert codes(report) == [(0, Code.PEER_LOST, "fetch")]
    assert "not asked" in report.failures[0].message
    assert report.outcome == "failed"
    assert time.monotonic() - start < SHORT
    assert proxy.seen == []
    time.sleep(FIRST_PAUSE + 0.05)
    assert codes(rig.fetch([0], [1])) == [(0, Code.PEER_LOST, "fetch")]
    assert len(proxy.seen) == 1  # one to see whether it is there again, and no second try of it
    proxy.always = None
    time.sleep(2 * FIRST_PAUSE + 0.05)
    assert rig.serves(1)
    assert rig.seek([1]) == [True]


def test_a_put_whose_answer_was_lost_counts_and_can_be_undone(rig: Rig, proxy: Proxy) -> None:
    rig.store([1], [2])
    proxy.only = "PUT"
    proxy.next.append(ACT_AND_DROP)
    report = rig.persist([1], [2])
    assert report.outcome == "done"
    assert methods(proxy) == ["PUT", "PUT", "HEAD"]
    proxy.only = ""
    rig.undo(report.token, [1], [2])
    assert rig.raw(2).startswith(TOMB)


def test_a_put_that_was_given_up_and_done_all_the_same_is_undone(rig: Rig, proxy: Proxy) -> None:
    rig.store([1], [2])
    proxy.only = "PUT"
    proxy.next.extend([ACT_AND_DROP, 503, 503])
    report = rig.persist([1], [2])
    assert (report.outcome, codes(report)) == ("failed", [(0, Code.BUSY, "commit")])
    assert rig.seek([2]) == [True]  # nobody knew
    rig.undo(report.token, [1], [2])
    assert rig.seek([2]) == [False]


def test_a_bad_object_that_can_not_be_replaced_now_is_by_the_next_store(rig: Rig, proxy: Proxy) -> None:
    data = bytearray(rig.raw(1))
    data[-1] ^= 1
    rig.plant(1, bytes(data))
    rig.adopt([0], [1])
    proxy.only, proxy.always = "PUT", 403
    assert codes(rig.fetch([0], [1])) == [(0, Code.CRC_MISMATCH, "fetch")]
    assert rig.objects.settle(30)
    (trouble,) = rig.objects.take_troubles()
    assert "still has what is void" in trouble
    assert rig.raw(1) == bytes(data)
    assert rig.seek([1]) == [False]
    proxy.always = None
    rig.put([0], [1])
    assert rig.serves(1)


def test_a_put_is_one_request_with_a_condition(rig: Rig, proxy: Proxy) -> None:
    rig.put([1], [2])
    (put,) = [headers for method, headers in proxy.seen if method == "PUT"]
    assert {name.lower(): value for name, value in put.items()}["if-none-match"] == "*"
    rig.plant(2, b"bad")
    proxy.seen.clear()
    rig.put([1], [2])
    sent = [{name.lower(): value for name, value in headers.items()} for _, headers in proxy.seen]
    assert methods(proxy) == ["PUT", "HEAD", "PUT"]
    assert "if-match" in sent[2]
    assert "if-none-match" not in sent[2]


@pytest.mark.parametrize("status", [409, 412])
def test_a_race_is_looked_at_and_tried_again(rig: Rig, proxy: Proxy, status: int) -> None:
    rig.store([1], [2])
    proxy.only = "PUT"
    proxy.next.extend([status, status])
    assert rig.persist([1], [2]).outcome == "done"
    assert methods(proxy) == ["PUT", "HEAD", "PUT", "HEAD", "PUT"]
    rig.store([2], [3])
    proxy.always = status
    assert codes(rig.persist([2], [3])) == [(0, Code.SLOT_CONFLICT, "commit")]


def test_two_writers_of_one_key_never_leave_a_mixture(running: S3Server) -> None:
    prefix = f"race-{time.time_ns()}"
    rigs = [Rig(running.url(prefix)) for _ in range(4)]
    rounds = 10

    def write(rig: Rig, failed: list[Any]) -> None:
        for number in range(rounds):
            rig.store([0], [number])
            failed += rig.persist([0], [number]).failures

    failed: list[Any] = []
    threads = [threading.Thread(target=write, args=(rig, failed)) for rig in rigs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    for number in range(rounds):
        assert all(rig.serves(number) for rig in rigs)
    for rig in rigs:
        rig.close()


def test_of_two_that_replace_one_version_one_does(running: S3Server) -> None:
    bucket = Bucket(StoreConfig(url=running.url(f"replace-{time.time_ns()}"), fingerprint="f"))
    tag = bucket.create("a", memoryview(b"one"), "commit")
    assert bucket.replace("a", memoryview(b"two"), tag, "commit") != tag
    with pytest.raises(StoreError) as raised:
        bucket.replace("a", memoryview(b"three"), tag, "commit")
    assert raised.value.error.code is Code.SLOT_CONFLICT
    with pytest.raises(StoreError):
        bucket.create("a", memoryview(b"four"), "commit")
    got = bucket.get("a", 100, "fetch")
    assert got is not None
    assert bytes(got.data) == b"two"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda url: url.replace("kvstate-test", "no-such-bucket"), "NoSuchBucket"),
        (lambda url: "s3://kvstate-test?endpoint=http://127.0.0.1:1", "PEER_LOST"),
    ],
)
def test_a_store_that_can_not_be_read_is_said_in_a_sentence(running: S3Server, change: Any, sentence: str) -> None:
    bucket = Bucket(StoreConfig(url=change(running.url()), fingerprint="f", tries=1))
    assert sentence in bucket.reach("x/")
    assert Bucket(StoreConfig(url=running.url(), fingerprint="f")).reach("x/") == ""


def test_wrong_credentials_are_said_in_a_sentence(running: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    bucket = Bucket(StoreConfig(url=running.url(), fingerprint="f"))
    assert "PERMISSION_DENIED" in bucket.reach("x/")
