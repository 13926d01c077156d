"""The lanes of a store's copier, and the small parts below it: names, patience, settings."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.config import ConfigError
from kvstate.machines.messages import Kind, Outcome, Report
from kvstate.runtime.copiers import CopierClosedError, Progress
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.tiers.keeper import Keeper
from kvstate.runtime.tiers.objects.answers import FIRST_PAUSE, LONGEST_PAUSE, LOST_IN_A_ROW, Patience, StoreError
from kvstate.runtime.tiers.objects.copier import StoreCopier
from kvstate.runtime.tiers.objects.names import Names, is_plausible, tombstone
from kvstate.runtime.tiers.objects.settings import StoreConfig, place_of
from kvstate.runtime.tiers.sealed import UNIT, Sum
from tests.objects.rig import Rig, codes, slot
from tests.runtime.parts import fill, holds, key


class Gate:
    """Holds up all requests of a kind until it is opened."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.waiting = 0

    def before(self, ask: Any) -> Any:
        def held(*args: Any, **more: Any) -> Any:
            self.waiting += 1
            assert self.open.wait(30)
            return ask(*args, **more)

        return held


@pytest.fixture
def rig() -> Iterator[Rig]:
    one = Rig(f"memory://copier-{time.time_ns()}")
    one.put([0, 1, 2, 3], [1, 2, 3, 4])
    yield one
    one.close()


@pytest.fixture
def gate() -> Iterator[Gate]:
    one = Gate()
    yield one
    one.open.set()


def lanes(rig: Rig) -> tuple[StoreCopier, Inbox]:
    inbox = Inbox()
    return StoreCopier(rig.objects, rig.memory, inbox, 4), inbox


def reports(inbox: Inbox, count: int) -> list[Report]:
    heard: list[Report] = []
    end = time.monotonic() + 30
    while len(heard) < count and time.monotonic() < end:
        inbox.wait(0.05)
        heard += inbox.drain(100)
    assert len(heard) == count
    return heard


def until(so: Any) -> None:
    end = time.monotonic() + 30
    while not so():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_lines_of_a_part_are_asked_for_at_the_same_time(rig: Rig, gate: Gate) -> None:
    copier, inbox = lanes(rig)
    assert isinstance(copier, Keeper)
    rig.bucket.get = gate.before(rig.bucket.get)  # type: ignore[method-assign]
    fetch = rig.work(Kind.FETCH, [slot(number) for number in range(4)], range(4), [1, 2, 3, 4])
    copier.submit(fetch)
    until(lambda: gate.waiting == 4)
    assert copier.probe(fetch.token) is Progress.RUNNING
    assert not len(inbox)
    gate.open.set()
    (report,) = reports(inbox, 1)
    assert (report.token, report.outcome) == (fetch.token, Outcome.DONE)
    assert holds(rig.memory, range(4), [key(number) for number in (1, 2, 3, 4)])
    assert copier.probe(fetch.token) is Progress.OVER
    assert copier.close(10.0) == ()


def test_a_put_that_hangs_keeps_neither_loads_nor_copies_waiting(rig: Rig, gate: Gate) -> None:
    copier, inbox = lanes(rig)
    rig.bucket.create = gate.before(rig.bucket.create)  # type: ignore[method-assign]
    for number in (4, 5):
        rig.store([number], [number + 10])
        copier.submit(rig.work(Kind.PERSIST, [slot(number)], (), [number + 10]))
    until(lambda: gate.waiting == 2)
    fill(rig.memory, [0], [key(30)])
    store = rig.work(Kind.STORE, [0], [slot(3)], [30])
    fetch = rig.work(Kind.FETCH, [slot(0)], [5], [1])
    seek = rig.work(Kind.SEEK, (), (), [1, 99])
    for work in (store, fetch, seek):
        copier.submit(work)
    heard = {report.token: report for report in reports(inbox, 3)}
    assert {report.outcome for report in heard.values()} == {Outcome.DONE}
    assert codes(heard[seek.token]) == [(1, Code.BLOCK_NOT_FOUND, "lookup")]
    gate.open.set()
    assert {report.outcome for report in reports(inbox, 2)} == {Outcome.DONE}
    assert copier.fence() == seek.token.serial
    assert copier.close(10.0) == ()


def test_what_waits_is_cancelled_at_once_and_what_runs_when_its_request_is_over(rig: Rig, gate: Gate) -> None:
    copier, inbox = lanes(rig)
    rig.bucket.get = gate.before(rig.bucket.get)  # type: ignore[method-assign]
    first = rig.work(Kind.FETCH, [slot(number) for number in range(4)], range(4), [1, 2, 3, 4])
    second = rig.work(Kind.FETCH, [slot(0)], [5], [1])
    copier.submit(first)
    until(lambda: gate.waiting == 4)
    copier.submit(second)
    copier.cancel(second.token)
    copier.cancel(first.token)
    (report,) = reports(inbox, 1)
    assert (report.token, report.outcome) == (second.token, Outcome.CANCELLED)
    with pytest.raises(TimeoutError):
        copier.fence(0.05)
    assert copier.close(0.05) == (first.token,)  # its requests are under way even now
    gate.open.set()
    (report,) = reports(inbox, 1)
    assert report.token == first.token
    assert copier.fence() == second.token.serial
    with pytest.raises(CopierClosedError):
        copier.submit(second)


def test_a_seek_of_which_a_line_has_no_answer_has_found_nothing(rig: Rig) -> None:
    look = rig.bucket.look

    def broken(name: str, stage: str) -> Any:
        if name == rig.name(3):
            raise StoreError.of(Code.BUSY, stage, "a test", transient=True)
        return look(name, stage)

    rig.bucket.look = broken  # type: ignore[method-assign]
    copier, inbox = lanes(rig)
    copier.submit(rig.work(Kind.SEEK, (), (), [1, 3, 99]))
    (report,) = reports(inbox, 1)
    assert (report.outcome, codes(report)) == (Outcome.FAILED, [(1, Code.BUSY, "lookup")])
    copier.close(10.0)


def test_a_bug_in_a_request_is_a_failure_of_its_part(rig: Rig) -> None:
    def broken(name: str, most: int, stage: str) -> Any:
        raise RuntimeError("a bug")

    rig.bucket.get = broken  # type: ignore[method-assign]
    report = rig.fetch([0], [1])
    assert (report.outcome, codes(report)) == ("denied", [(0, Code.INTERNAL, "fetch")])


def test_a_store_in_a_row_without_answers_is_left_alone_for_longer_and_longer() -> None:
    patience, now, pauses = Patience(), 100.0, []
    for _ in range(LOST_IN_A_ROW):
        assert patience.lets_ask(now)
        patience.told(now, answered=False)
    for _ in range(12):
        begin = now
        assert not patience.lets_ask(now)
        while not patience.lets_ask(now):
            now += 0.05
        assert not patience.lets_ask(now)  # one at a time
        pauses.append(now - begin)
        patience.told(now, answered=False)
    assert pauses[0] == pytest.approx(FIRST_PAUSE, abs=0.06)
    assert all(later > earlier - 0.06 for earlier, later in pairwise(pauses))
    assert sum(pauses) > 60
    assert pauses[-1] == pytest.approx(LONGEST_PAUSE, abs=0.1)
    while not patience.lets_ask(now):
        now += 0.05
    patience.told(now, answered=True)
    assert patience.lets_ask(now)
    assert patience.lets_ask(now)


def test_an_answer_between_makes_it_no_row() -> None:
    patience = Patience()
    for _ in range(5 * LOST_IN_A_ROW):
        patience.told(0.0, answered=False)
        patience.told(0.0, answered=True)
    assert patience.lets_ask(0.0)


def test_names_say_nothing_and_differ_in_all_that_counts() -> None:
    plain = Names("model 1", Sum.XXH3, None)
    name = plain.of("tenant", b"key")
    assert "tenant" not in name
    assert b"key".hex() not in name
    others = [
        Names("model 2", Sum.XXH3, None).of("tenant", b"key"),
        Names("model 1", Sum.NONE, None).of("tenant", b"key"),
        Names("model 1", Sum.BLAKE3, b"1" * 32).of("tenant", b"key"),
        Names("model 1", Sum.BLAKE3, b"2" * 32).of("tenant", b"key"),
        plain.of("tenantk", b"ey"),
        plain.of("tenant", b"key2"),
    ]
    assert len({name, *others}) == 7
    assert Names("model 1", Sum.XXH3, None).of("tenant", b"key") == name
    space = name.rsplit("/", 1)[0]
    assert plain.of("tenant", b"other").startswith(f"{space}/")
    assert not plain.of("another", b"key").startswith(f"{space}/")
    plain.renew()
    assert plain.of("tenant", b"key") != name


def test_no_two_tombstones_are_equal_and_none_is_taken_for_an_object() -> None:
    assert tombstone("a") != tombstone("a")
    for length in (1, 64, 4096, 1 << 20):
        assert not is_plausible(len(tombstone("x" * 5000)), length)
        assert is_plausible(UNIT + length, length)
        assert not is_plausible(UNIT + length - 1, length)
        assert not is_plausible(length, length)
        assert not is_plausible(length + (1 << 20), length)


def test_a_url_is_taken_apart() -> None:
    place = place_of("s3://bucket/a/b%20c/?endpoint=http://127.0.0.1:1&region=eu-west-1")
    assert (place.scheme, place.bucket, place.prefix) == ("s3", "bucket", "a/b c/")
    assert dict(place.options) == {"endpoint": "http://127.0.0.1:1", "region": "eu-west-1"}
    assert place_of("file:///var/lib/x%20y").bucket == "/var/lib/x y"
    assert place_of("memory://").bucket == ""


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"url": 5}, "url: 5 is no text"),
        ({"fingerprint": ""}, "says nothing; name model"),
        ({"concurrency": 0}, "concurrency: 0 is out of range"),
        ({"concurrency": True}, "concurrency: True is out of range"),
        ({"tries": 99}, "tries: 99 is out of range"),
        ({"staging_bytes": -1}, "staging_bytes: -1 is out of range"),
        ({"request_for": 0}, "request_for: 0 is no time to wait"),
        ({"request_for": float("nan")}, "request_for: nan is no time"),
        ({"secret_file": 5}, "secret_file: 5 is no path"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        StoreConfig(**{"url": "memory://", "fingerprint": "f", **settings})
    assert sentence in str(raised.value)


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"1" * 32)
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="say chmod 600"):
        Rig("memory://", secret_file=path)
