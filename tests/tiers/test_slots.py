"""A disk that takes its time: who gives out effects does not wait for it, and what comes late counts for nothing."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import Kind, Outcome, Report, Sweep
from kvstate.runtime.tiers import disk as disk_module
from kvstate.runtime.tiers import folder as folder_module
from kvstate.runtime.tiers import reading as reading_module
from kvstate.runtime.tiers.files import read_whole, write_all
from kvstate.runtime.tiers.folder import Folder
from kvstate.runtime.tiers.lines import TOGETHER
from kvstate.runtime.tiers.sealed import ObjectError, Seal
from kvstate.runtime.tiers.settings import Sync
from tests.runtime.parts import fill, key
from tests.tiers.rig import Rig, codes, slot

PATIENCE = 30.0
QUICK = 10.0
"""Seconds within which what waits for nobody is over, on a machine that is busy, too."""


class Os:
    """The module `os`, but for one function of it."""

    def __init__(self, name: str, instead: Callable[..., Any]) -> None:
        self._name, self._instead = name, instead

    def __getattr__(self, name: str) -> Any:
        return self._instead if name == self._name else getattr(os, name)


class Slow:
    """A thread that makes an object visible, and is held up in the middle of that, right before or after its rename."""

    def __init__(self, rig: Rig, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
        self.there, self.go = threading.Event(), threading.Event()
        self.reports: list[Report] = []
        self.seen: set[str] = set()
        """What a start would have found when the rename was over."""
        self.rig, self.when = rig, when

        def rename(*args: Any, **more: Any) -> None:
            mine = threading.current_thread() is self.thread
            if mine and when == "before":
                self.wait()
            os.rename(*args, **more)  # noqa: PTH104
            if mine:
                self.seen = rig.on_disk()
            if mine and when == "after":
                self.wait()

        self.thread = threading.Thread(target=lambda: self.reports.append(rig.persist([0], [10])), daemon=True)
        monkeypatch.setattr(folder_module, "os", Os("rename", rename))
        self.thread.start()
        assert self.there.wait(PATIENCE)

    def wait(self) -> None:
        self.there.set()
        assert self.go.wait(PATIENCE)

    def ends(self) -> Report:
        self.go.set()
        self.thread.join(PATIENCE)
        (report,) = self.reports
        return report


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


@pytest.fixture(params=["before", "after"])
def slow(rig: Rig, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Slow]:
    rig.put([1], [99])  # so that a shelf, and the folder around it, are there
    rig.store([0], [10])
    one = Slow(rig, monkeypatch, request.param)
    yield one
    one.go.set()
    one.thread.join(PATIENCE)


# -- a rename that hangs -----------------------------------------------------------------------------------------------


def test_a_reset_does_not_wait_for_it_and_what_comes_late_is_not_found(slow: Slow) -> None:
    rig, begin = slow.rig, monotonic()
    rig.disk.sweep(Sweep(0, "disk", everything=True))
    assert monotonic() - begin < QUICK
    assert rig.on_disk() == set()
    rig.put([2], [11])  # the disk answers others, and they go on
    assert codes(slow.ends()) == [(0, Code.CANCELLED, "commit")]
    assert rig.disk.settle(PATIENCE)
    assert rig.on_disk() == rig.names(11)
    if slow.when == "before":
        assert not slow.seen & rig.names(10), "a process that died then would have left it to be found"
    assert not rig.serves(0, 10)
    assert rig.again().disk.found().keys == (key(11),)


def test_a_late_rename_of_a_key_that_was_stored_anew_leaves_the_new_bytes(slow: Slow) -> None:
    """The same name on both sides of the reset: the new one waits its turn, in its own thread."""
    rig = slow.rig
    rig.disk.sweep(Sweep(0, "disk", everything=True))
    assert rig.store([2], [10]).failures == ()
    reports: list[Report] = []
    second = threading.Thread(target=lambda: reports.append(rig.persist([2], [10])), daemon=True)
    second.start()
    assert codes(slow.ends()) == [(0, Code.CANCELLED, "commit")]
    second.join(PATIENCE)
    assert [report.failures for report in reports] == [()]
    assert rig.serves(2, 10)
    assert rig.on_disk() == rig.names(10)


def test_a_recovery_does_not_wait_for_it(slow: Slow) -> None:
    rig, begin = slow.rig, monotonic()
    rig.adopt([2], [99])
    rig.adopt([3], [10])
    assert monotonic() - begin < QUICK
    assert slow.ends().failures == ()
    assert rig.serves(2, 99)
    assert rig.serves(3, 10)
    assert not rig.serves(0, 10)


def test_what_is_seen_in_a_slot_that_was_given_away_is_removed(slow: Slow) -> None:
    rig = slow.rig
    rig.adopt([0], [99])
    assert codes(slow.ends()) == [(0, Code.CANCELLED, "commit")]
    assert rig.disk.settle(PATIENCE)
    assert rig.on_disk() == rig.names(99)
    assert rig.serves(0, 99)


def test_a_shelf_of_after_a_reset_takes_nothing_of_before(tmp_path: Path) -> None:
    """Whether it had been opened by then, or is only looked for afterwards."""
    folder = Folder(tmp_path, Seal("model 1"), sync=Sync.NONE)
    before = folder.shelves
    folder.write(1, "a", key(1), [b"old"])
    folder.clear()
    with pytest.raises(ObjectError) as refused:
        folder.commit(1, shelves=before)
    assert refused.value.error.code is Code.CANCELLED
    assert folder.names() == []


def test_a_rename_in_the_middle_of_which_a_reset_comes_lands_among_what_was_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path, Seal("model 1"), sync=Sync.NONE)
    for number in (1, 2):
        folder.write(number, "a", key(1), [b"old"])
    name = folder.commit(1)

    def rename(*args: Any, **more: Any) -> None:
        folder.clear()
        os.rename(*args, **more)  # noqa: PTH104

    monkeypatch.setattr(folder_module, "os", Os("rename", rename))
    folder.commit(2)
    assert folder.names() == []
    assert folder.used == 0
    assert [path.name for path in (tmp_path / "swept").rglob(name)] == [name]
    assert folder.bury() == 1


# -- a reset that hangs ------------------------------------------------------------------------------------------------


def test_a_reset_that_hangs_is_told_and_nothing_is_served_or_seen_before_it_is_over(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.put([0], [10])
    go, real = threading.Event(), Folder.clear

    def clear(folder: Folder) -> None:
        assert go.wait(PATIENCE)
        real(folder)

    monkeypatch.setattr(Folder, "clear", clear)
    monkeypatch.setattr(disk_module, "PATIENCE", 0.05)
    rig.disk.sweep(Sweep(0, "disk", everything=True))
    assert any("does not answer" in sentence for sentence in rig.disk.take_troubles())
    assert not rig.serves(0, 10)
    assert rig.store([1], [11]).failures == ()
    report = rig.persist([1], [11])
    assert (report.outcome, codes(report)) == (Outcome.DENIED, [(0, Code.BUSY, "commit")])
    assert not rig.disk.settle(0.05)
    assert not rig.disk.close(0.05)
    go.set()
    assert rig.disk.settle(PATIENCE)
    assert rig.on_disk() == set()
    assert rig.persist([1], [11]).failures == ()
    assert rig.serves(1, 11)


def test_what_is_removed_while_it_is_read_does_not_come(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.put([0, 1], [10, 11])

    def removed(*args: Any) -> int:
        came = read_whole(*args)
        kept = rig.disk._slots[1]
        assert kept is not None
        rig.disk.remove(kept)
        return came

    monkeypatch.setattr(reading_module, "read_whole", removed)
    assert codes(rig.fetch([0, 1], [10, 11])) == [(1, Code.BLOCK_NOT_FOUND, "fetch")]


def test_a_bad_object_that_can_not_be_removed_is_bad_all_the_same(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.put([0], [10])
    Path(rig.disk.path_of(slot(0)) or "").write_bytes(b"")
    fails = Os("unlink", lambda *_: (_ for _ in ()).throw(PermissionError(errno.EACCES, "no")))
    monkeypatch.setattr(folder_module, "os", fails)
    assert codes(rig.fetch([0], [10])) == [(0, Code.SHORT_READ, "fetch")]
    assert any("could not be removed" in sentence for sentence in rig.disk.take_troubles())


# -- files that are open together --------------------------------------------------------------------------------------


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_whatever_stops_a_part_no_file_stays_open(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.put(range(4), range(10, 14))
    before = open_files()

    def stopping(at: int) -> Callable[[], bool]:
        answers = iter([False] * at + [True] * 9)
        return lambda: next(answers)

    for kind, numbers in ((Kind.FETCH, range(10, 14)), (Kind.STORE, range(20, 24))):
        places = [slot(one) for one in range(4)]
        src, dst = (places, range(4)) if kind == Kind.FETCH else (range(4), places)
        report = rig.disk.carry(rig.work(kind, src, dst, numbers), cancelled=stopping(2))
        stage = "fetch" if kind == Kind.FETCH else "write"
        assert codes(report) == [(2, Code.CANCELLED, stage)]
        assert open_files() == before
    assert len(list(rig.path.glob("writers/*/*.part"))) == 2
    rig.put(range(4), range(10, 14))

    def breaks(name: str, at: int) -> Os:
        left = [at]

        def instead(*args: Any, **more: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return getattr(os, name)(*args, **more)

        return Os(name, instead)

    with monkeypatch.context() as patched:
        patched.setattr(reading_module, "os", breaks("open", 2))
        assert codes(rig.fetch(range(4), range(10, 14))) == [(1, Code.UNKNOWN, "fetch")]
    with monkeypatch.context() as patched:
        patched.setattr(folder_module, "os", breaks("open", 3))
        assert codes(rig.store(range(4), range(30, 34))) == [(2, Code.UNKNOWN, "write")]
    assert open_files() == before
    assert len(list(rig.path.glob("writers/*/*.part"))) == 2, "what was begun before it is stored, and no more"


def test_a_part_is_on_the_disk_before_it_is_told_and_one_that_can_not_be_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, calls, before = Rig(tmp_path, sync=Sync.DATA), list[str](), open_files()

    def noting(name: str, fails: int = 0) -> Callable[..., Any]:
        def instead(*args: Any, **more: Any) -> Any:
            calls.append(name)
            if calls.count(name) == fails:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return getattr(os, name)(*args, **more)

        return instead

    def writing(*args: Any) -> None:
        calls.append("write")
        write_all(*args)

    with monkeypatch.context() as patched:
        patched.setattr(folder_module, "write_all", writing)
        patched.setattr(folder_module, "os", Os("fdatasync", noting("fdatasync")))
        assert rig.store(range(3), range(10, 13)).failures == ()
        assert calls == ["write"] * 3 + ["fdatasync"] * 3
    calls.clear()
    with monkeypatch.context() as patched:
        patched.setattr(folder_module, "os", Os("fdatasync", noting("fdatasync", fails=2)))
        assert codes(rig.store(range(3), range(20, 23))) == [(1, Code.UNKNOWN, "write")]
    assert len(list(rig.path.glob("writers/*/*.part"))) == 1
    assert rig.persist([0], [20]).failures == ()
    assert [codes(rig.persist([one], [20 + one]))[0][1] for one in (1, 2)] == [Code.SLOT_CONFLICT] * 2
    assert open_files() - before <= 1, "a shelf is held open, and no part"


def test_many_lines_are_carried_some_together(tmp_path: Path) -> None:
    count = 2 * TOGETHER + 3
    rig = Rig(tmp_path, slots=count)
    src = [one % 8 for one in range(count)]
    fill(rig.memory, range(8), [key(number) for number in range(8)])
    places = [slot(one) for one in range(count)]
    stored = rig.disk.carry(rig.work(Kind.STORE, src, places, range(100, 100 + count)))
    assert stored.failures == ()
    assert rig.persist(range(count), range(100, 100 + count)).failures == ()
    assert len(rig.on_disk()) == count
    bad = TOGETHER + 1
    Path(rig.disk.path_of(slot(bad)) or "").write_bytes(b"")
    report = rig.disk.carry(rig.work(Kind.FETCH, places, src, range(100, 100 + count)))
    assert codes(report) == [(bad, Code.SHORT_READ, "fetch")]
