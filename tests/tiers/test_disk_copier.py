"""The copier of a disk: what every copier does, loads before stores, and effects about objects in their order."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import Adopt, Kind, Outcome, Sweep, Token, Undo, Work
from kvstate.runtime.copiers import CopierClosedError, Progress
from kvstate.runtime.copiers.hand import HandCopier
from kvstate.runtime.copiers.threads import ThreadCopier
from kvstate.runtime.copiers.workers import Workers
from kvstate.runtime.dispatcher import Dispatcher
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.tiers.copier import DiskCopier
from kvstate.runtime.tiers.keeper import LINES, Keeper, in_parts
from kvstate.wire import Found, decode_up, encode_up
from tests.runtime.parts import fill, key
from tests.tiers.rig import DEVICE, Rig, slot

PATIENCE = 30.0


class Held:
    """One thread, which stops before the first bytes that it moves until it is let go."""

    def __init__(self, path: Path, *, threads: int = 1, hold: bool = True) -> None:
        self.rig, self.inbox = Rig(path), Inbox()
        self.landed: list[Work] = []
        self.go, self.there = threading.Event(), threading.Event()
        if not hold:
            self.go.set()
        self.copier = DiskCopier(self.rig.disk, self.rig.memory, self.inbox, threads, on_land=self.on_land)

    def on_land(self, work: Work, when: float) -> None:
        self.landed.append(work)
        self.there.set()
        assert self.go.wait(PATIENCE)

    def submit(self, kind: Kind, place: int, name: int) -> Work:
        src, dst = {
            Kind.STORE: ([place], [slot(place)]), Kind.PERSIST: ([slot(place)], []),
            Kind.FETCH: ([slot(place)], [place]), Kind.VERIFY: ([slot(place)], [place]),
        }[kind]  # fmt: skip
        work = self.rig.work(kind, src, dst, [name])
        self.copier.submit(work)
        return work


def test_loads_come_before_stores_that_wait(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.rig.put([5], [15])
    first = held.submit(Kind.STORE, 0, 10)
    assert held.there.wait(PATIENCE)
    stores = [held.submit(Kind.STORE, place, 10 + place) for place in (1, 2, 3)]
    loads = [held.submit(kind, 5, 15) for kind in (Kind.FETCH, Kind.VERIFY)]
    held.go.set()
    assert held.copier.fence() == loads[1].token.serial
    assert held.landed == [first, *loads, *stores]
    assert {report.outcome for report in held.inbox.drain(9)} == {Outcome.DONE}
    assert held.copier.close(PATIENCE) == ()


def test_the_same_in_copies_between_device_and_host(tmp_path: Path) -> None:
    rig, inbox = Rig(tmp_path), Inbox()
    order: list[str] = []
    go, there = threading.Event(), threading.Event()

    def on_land(work: Work, when: float) -> None:
        order.append(work.kind)
        there.set()
        assert go.wait(PATIENCE)

    copier = ThreadCopier(rig.memory, inbox, 1, on_land=on_land)
    for kind, src, dst in ((Kind.STORE, 0, DEVICE), (Kind.STORE, 1, DEVICE + 1), (Kind.FETCH, DEVICE + 2, 2)):
        copier.submit(rig.work(kind, [src], [dst], [10]))
        assert there.wait(PATIENCE)
    go.set()
    copier.fence()
    assert order == [Kind.STORE, Kind.FETCH, Kind.STORE]
    assert copier.close(PATIENCE) == ()


def test_urgent_items_overtake_and_none_is_forgotten() -> None:
    done: list[int] = []
    go = threading.Event()

    def run(item: int) -> None:
        assert go.wait(PATIENCE)
        done.append(item)

    workers = Workers(run, 3, "test")
    for item in range(300):
        workers.put(item, urgent=item % 3 == 0)
    go.set()
    assert workers.wait(PATIENCE)
    assert sorted(done) == list(range(300))
    others = [place for place, item in enumerate(done) if item % 3]
    assert min(others[3:]) > 90, "but for what three threads had in hand, all that is urgent came first"
    assert workers.stop(PATIENCE)
    assert workers.trouble is None


def test_what_waits_can_be_cancelled_and_what_is_over_is_known(tmp_path: Path) -> None:
    held = Held(tmp_path)
    first, second = held.submit(Kind.STORE, 0, 10), held.submit(Kind.STORE, 1, 11)
    assert held.there.wait(PATIENCE)
    held.copier.cancel(second.token)
    assert held.copier.probe(first.token) is Progress.RUNNING
    assert held.copier.probe(second.token) is Progress.OVER
    held.go.set()
    held.copier.fence()
    reports = {report.token: report.outcome for report in held.inbox.drain(9)}
    assert reports == {first.token: Outcome.DONE, second.token: Outcome.CANCELLED}
    assert held.copier.close(PATIENCE) == ()
    with pytest.raises(CopierClosedError):
        held.submit(Kind.STORE, 2, 12)
    assert {path.name for path in (tmp_path / "writers").iterdir()} == set()


def test_a_disk_that_hangs_is_said_to_touch_memory_still(tmp_path: Path) -> None:
    held = Held(tmp_path)
    held.rig.put([0], [10])
    work = held.submit(Kind.FETCH, 0, 10)
    assert held.there.wait(PATIENCE)
    assert held.copier.close(0.05) == (work.token,)
    assert held.rig.folder._held is not None, "the folder is not let go of while somebody may write"
    held.go.set()
    held.copier.fence(PATIENCE)
    assert held.copier.close(PATIENCE) == ()


def test_a_long_part_is_shared_by_the_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvstate.runtime.copiers.threads.TASK_BYTES", 256)
    held = Held(tmp_path, threads=2, hold=False)
    fill(held.rig.memory, range(4), [key(number) for number in range(4)])
    work = held.rig.work(Kind.STORE, range(4), [slot(place) for place in range(4)], range(4))
    held.copier.submit(work._replace(spaces=("a", "a", "b", "b")))
    held.copier.fence()
    assert [report.outcome for report in held.inbox.drain(9)] == [Outcome.DONE]
    assert sorted(len(one.src) for one in held.landed) == [2, 2]
    assert {one.spaces for one in held.landed} == {("a", "a"), ("b", "b")}
    assert held.copier.close(PATIENCE) == ()


# -- on the way there --------------------------------------------------------------------------------------------------


def test_effects_about_objects_reach_the_copier_between_its_parts(tmp_path: Path) -> None:
    rig, inbox = Rig(tmp_path), Inbox()
    rig.put([0], [10])
    rig = rig.again()
    copier = DiskCopier(rig.disk, rig.memory, inbox)
    assert isinstance(copier, Keeper)
    dispatcher = Dispatcher({"disk": copier}, inbox)
    (found,) = dispatcher.take_found()
    assert (found.keys, dispatcher.take_found()) == ((key(10),), [])
    dispatcher.give([
        Adopt(0, "disk", (slot(3),), ("a",), (key(10),)),
        Sweep(0, "disk", everything=False),
        rig.work(Kind.FETCH, [slot(3)], [0], [10]),
    ])  # fmt: skip
    copier.fence()
    (report,) = inbox.drain(9)
    assert report.outcome == Outcome.DONE
    token = rig.put([4], [11])
    dispatcher.give([Undo(token, 0, "disk", (slot(4),), (key(11),))])
    assert rig.disk.settle(PATIENCE)
    assert rig.on_disk() == rig.names(10)
    dispatcher.give([Sweep(0, "disk", everything=True)])
    assert rig.on_disk() == set()
    assert dispatcher.troubles == []
    assert copier.close(PATIENCE) == ()


def test_a_copier_that_keeps_nothing_and_one_that_raises_are_troubles(tmp_path: Path) -> None:
    rig, inbox = Rig(tmp_path), Inbox()
    disk = DiskCopier(rig.disk, rig.memory, inbox)
    dispatcher = Dispatcher({"cpu": HandCopier(rig.memory, inbox), "disk": disk}, inbox)
    dispatcher.give([Sweep(0, "cpu", everything=True), Adopt(0, "disk", (99,), ("a",), (key(1),))])
    assert [sentence.split(":")[0] for sentence in dispatcher.troubles] == [
        "copier cpu could not sweep", "copier disk could not adopt",
    ]  # fmt: skip
    assert len(dispatcher.take_found()) == 1
    assert disk.close(PATIENCE) == ()


def test_a_part_that_can_not_be_read_in_the_middle_is_one_bad_line(tmp_path: Path) -> None:
    held = Held(tmp_path, hold=False)
    held.rig.put([0, 1], [10, 11])
    Path(held.rig.disk.path_of(slot(0)) or "").write_bytes(b"")
    work = held.rig.work(Kind.FETCH, [slot(0), slot(1)], [0, 1], [10, 11])
    held.copier.submit(work)
    held.copier.fence()
    (report,) = held.inbox.drain(9)
    assert (report.outcome, [(one.line, one.code) for one in report.failures]) == (
        Outcome.BROKEN, [(0, int(Code.SHORT_READ))],
    )  # fmt: skip
    assert held.copier.close(PATIENCE) == ()


# -- what was found, as messages ---------------------------------------------------------------------------------------


def found(keys: tuple[bytes, ...], spaces: tuple[str, ...], *counts: int, last: bool = True) -> Found:
    removed, refused, unknown = counts or (1, 2, 3)
    return Found("disk", spaces, keys, removed, refused, unknown, last)


@pytest.mark.parametrize("count", [0, 1, LINES, LINES + 1])
def test_a_long_list_is_cut_and_its_end_is_said(count: int) -> None:
    keys = tuple(number.to_bytes(4, "big") for number in range(count))
    parts = list(in_parts(found(keys, ("a",))))
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert sum((part.keys for part in parts), ()) == keys
    assert [part[3:6] for part in parts] == [(0, 0, 0)] * (len(parts) - 1) + [(1, 2, 3)]
    assert all(part.spaces == (("a",) if part.keys else ()) for part in parts)
    assert decode_up(encode_up(0, 1, parts)).items == parts


def test_spaces_that_differ_are_kept_and_names_that_no_message_carries_are_left_out() -> None:
    keys = (b"1", b"2" * 257, b"3", b"4")
    (part,) = in_parts(found(keys, ("a", "a", "b" * 4097, "b")))
    assert (part.spaces, part.keys) == (("a", "b"), (b"1", b"4"))


def test_a_token_of_another_life_undoes_nothing(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    token = rig.put([0], [10])
    rig.undo(Token(token.incarnation + 1, token.serial), [0], [10])
    assert rig.on_disk() == rig.names(10)
