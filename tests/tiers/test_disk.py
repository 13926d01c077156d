"""Slots and objects: what each kind of part does to the folder, what a restart finds of it, what a failing disk is."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from kvstate.errors import Code
from kvstate.machines.messages import Adopt, Kind, Outcome, Sweep, Token, Undo
from kvstate.runtime.memory import Memory, Pool
from kvstate.runtime.tensors import KVPool
from kvstate.runtime.tiers.blocks import landing, reading
from kvstate.runtime.tiers.disk import Disk
from kvstate.runtime.tiers.folder import Folder
from kvstate.runtime.tiers.sealed import UNIT, Seal, Sum
from kvstate.runtime.tiers.settings import Sync
from tests.runtime.parts import fill, holds, key, stored
from tests.tiers.rig import BASE, BLOCK, DEVICE, SLOTS, Rig, codes, slot


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


# -- a block's way -----------------------------------------------------------------------------------------------------


def test_what_is_stored_is_seen_after_its_persist_and_not_before(rig: Rig) -> None:
    assert rig.store([0, 1], [10, 11]).outcome == Outcome.DONE
    assert rig.on_disk() == set()
    assert codes(rig.fetch([0], [10])) == [(0, Code.BLOCK_NOT_FOUND, "fetch")]
    assert rig.persist([0, 1], [10, 11]).outcome == Outcome.DONE
    assert rig.on_disk() == rig.names(10, 11)
    assert rig.serves(0, 10)
    assert rig.serves(1, 11)


def test_bytes_of_the_host_go_to_disk_too(rig: Rig) -> None:
    rig.put([0], [10], src=[DEVICE])
    assert rig.serves(0, 10)


@pytest.mark.parametrize(("change", "code"), [("flip", Code.CRC_MISMATCH), ("key", Code.KEY_MISMATCH)])
def test_a_host_block_that_went_bad_gets_no_good_sum(rig: Rig, change: str, code: Code) -> None:
    """It is sealed in the host; its byte is flipped there, and only then it is demoted."""
    stored(rig.memory, [DEVICE, DEVICE + 1], [key(10), key(11)])
    if change == "flip":
        rig.memory.pools[1].array[1, 9] ^= 1
    names = [10, 11] if change == "flip" else [10, 12]
    report = rig.disk.carry(rig.work(Kind.STORE, [DEVICE, DEVICE + 1], [slot(0), slot(1)], names))
    assert (report.outcome, codes(report)) == (Outcome.BROKEN, [(1, code, "verify")])
    assert codes(rig.persist([1], names[1:])) == [(0, Code.SLOT_CONFLICT, "commit")]


def test_a_slot_that_is_given_to_another_lets_go_of_its_object_at_once(rig: Rig) -> None:
    rig.put([0], [10])
    rig.store([0], [11])
    assert rig.on_disk() == set()
    assert rig.persist([0], [11]).outcome == Outcome.DONE
    assert rig.on_disk() == rig.names(11)
    assert codes(rig.fetch([0], [10])) == [(0, Code.KEY_MISMATCH, "fetch")]


def test_what_was_never_persisted_is_gone_when_its_slot_is_used_again(rig: Rig) -> None:
    rig.store([0], [10])
    rig.store([0], [11])
    assert [path.name for path in (rig.path / "writers").rglob("*.part")] == ["2.part"]


def test_a_younger_object_keeps_its_name_against_an_older_one(rig: Rig) -> None:
    """Two jobs under one key; the first was called off, and its persist comes after all."""
    rig.store([0], [10])
    rig.put([1], [10])
    assert codes(rig.persist([0], [10])) == [(0, Code.CANCELLED, "commit")]
    assert rig.serves(1, 10)
    assert not rig.serves(0, 10)


def test_an_older_object_leaves_its_name_to_a_younger_one(rig: Rig) -> None:
    rig.put([0], [10])
    rig.put([1], [10])
    assert rig.serves(1, 10)
    assert not rig.serves(0, 10)
    rig.store([0], [11])
    assert rig.on_disk() == rig.names(10)


def test_a_persist_may_be_said_again(rig: Rig) -> None:
    """Its job tries again, after a report that spoke of a failure."""
    rig.put([0], [10])
    assert rig.persist([0], [10]).outcome == Outcome.DONE
    assert rig.serves(0, 10)


def test_a_persist_of_what_is_not_there_is_a_conflict(rig: Rig) -> None:
    assert codes(rig.persist([0], [10])) == [(0, Code.SLOT_CONFLICT, "commit")]
    rig.store([0], [10])
    assert codes(rig.persist([0], [11])) == [(0, Code.SLOT_CONFLICT, "commit")]


def test_spaces_are_apart(rig: Rig) -> None:
    rig.put([0], [10])
    rig.put([1], [10], space="b")
    assert rig.serves(0, 10)
    assert codes(rig.fetch([0], [10], space="b")) == [(0, Code.KEY_MISMATCH, "fetch")]
    assert rig.serves(1, 10, space="b")


def test_each_line_may_have_a_space_of_its_own(rig: Rig) -> None:
    fill(rig.memory, [0, 1], [key(10), key(10)])
    for kind, src, dst in ((Kind.STORE, (0, 1), (slot(0), slot(1))), (Kind.PERSIST, (slot(0), slot(1)), ())):
        assert rig.disk.carry(rig.work(kind, src, dst, [10, 10])._replace(spaces=("a", "b"))).failures == ()
    assert rig.serves(1, 10, space="b")
    assert len(rig.on_disk()) == 2


def test_a_check_afterwards_sees_a_byte_that_was_flipped_on_the_way(rig: Rig) -> None:
    rig.put([0, 1], [10, 11])
    assert rig.fetch([0, 1], [10, 11]).failures == ()
    assert rig.fetch([0, 1], [10, 11], kind=Kind.VERIFY).failures == ()
    rig.memory.pools[0].array[1, 7] ^= 1
    assert codes(rig.fetch([0, 1], [10, 11], kind=Kind.VERIFY)) == [(1, Code.CRC_MISMATCH, "verify")]
    assert rig.on_disk() == rig.names(10, 11)


def test_a_cancel_stops_before_the_next_line(rig: Rig) -> None:
    asked = iter([False, True])
    fill(rig.memory, [0, 1, 2], [key(number) for number in (10, 11, 12)])
    work = rig.work(Kind.STORE, range(3), [slot(one) for one in range(3)], [10, 11, 12])
    report = rig.disk.carry(work, cancelled=lambda: next(asked))
    assert report.outcome == Outcome.CANCELLED
    assert codes(report) == [(1, Code.CANCELLED, "write")]
    assert len(list((rig.path / "writers").rglob("*.part"))) == 1


def test_work_that_makes_no_sense_touches_nothing(rig: Rig) -> None:
    rig.put([0], [10])
    for work in (
        rig.work(Kind.STORE, [0, 1], [slot(0), slot(SLOTS)], [11, 12]),
        rig.work(Kind.STORE, [0, 1], [slot(0)], [11, 12]),
        rig.work(Kind.STORE, [0], [slot(0)], [11])._replace(kind="step"),
    ):
        report = rig.disk.carry(work)
        assert [code for _, code, _ in codes(report)] == [Code.INTERNAL]
    assert rig.serves(0, 10)


# -- undo, adopt, sweep ------------------------------------------------------------------------------------------------


def test_an_undo_removes_what_that_part_made_visible_and_nothing_else(rig: Rig) -> None:
    first = rig.put([0, 1], [10, 11])
    second = rig.put([2], [12])
    rig.undo(Token(9, 9), [0, 1, 2], [10, 11, 12])
    assert rig.on_disk() == rig.names(10, 11, 12)
    rig.undo(first, [0, 1], [10, 11])
    assert rig.on_disk() == rig.names(12)
    rig.undo(second, [2, SLOTS], [12, 12])
    assert rig.on_disk() == set()


def test_an_undo_leaves_an_object_that_somebody_else_has_put_there_since(rig: Rig) -> None:
    token = rig.put([0], [10])
    rig.put([1], [10])
    rig.undo(token, [0], [10])
    assert rig.serves(1, 10)
    token = rig.put([2], [11])
    rig.put([2], [12])
    rig.undo(token, [2], [11])
    assert rig.serves(2, 12)


def test_a_start_finds_what_was_persisted_oldest_first_and_adopts_it(rig: Rig) -> None:
    for place, number in enumerate((12, 10, 11)):
        rig.put([place], [number])
        os.utime(rig.disk.path_of(slot(place)), ns=(0, 1_000_000 * place))  # type: ignore[arg-type]
    rig.store([3], [13])
    again = rig.again()
    found = again.disk.found()
    assert (found.copier, found.spaces, found.keys) == ("disk", ("a",), (key(12), key(10), key(11)))
    assert found[3:] == (1, 0, 0, True)
    again.adopt([5, 4], [10, 11])
    assert again.serves(5, 10)
    assert again.serves(4, 11)
    again.sweep()
    assert again.on_disk() == again.names(10, 11)


def test_nothing_of_another_fingerprint_or_size_is_found(rig: Rig) -> None:
    rig.put([0], [10])
    other = rig.again(fingerprint="model 2")
    assert other.disk.found().keys == ()
    other.sweep()
    assert Rig(rig.path).disk.found().keys == (key(10),)
    folder = Folder(rig.path, Seal("model 1"))
    disk = Disk(folder, Memory([Pool("device", 0, 1, 2 * BLOCK)]), 1, 1)
    assert disk.found() == ("disk", (), (), 0, 1, 0, True)


def test_a_slot_that_adopts_forgets_what_it_held(rig: Rig) -> None:
    token = rig.put([0], [10])
    rig.put([1], [11])
    rig.adopt([0], [11])
    assert rig.serves(0, 11)
    assert not rig.serves(1, 11)
    rig.undo(token, [0], [10])
    rig.sweep()
    assert rig.on_disk() == rig.names(11)


def test_a_persist_that_was_begun_before_an_adoption_is_void(rig: Rig) -> None:
    rig.put([1], [10])
    rig.store([0], [10])
    rig.adopt([2], [10])
    assert codes(rig.persist([0], [10])) == [(0, Code.CANCELLED, "commit")]
    assert rig.serves(2, 10)


def test_a_sweep_of_everything_takes_what_is_there_and_what_is_half_done(rig: Rig) -> None:
    token = rig.put([0], [10])
    rig.store([1], [11])
    rig.sweep(everything=True)
    assert rig.on_disk() == set()
    assert not rig.serves(0, 10)
    assert codes(rig.persist([1], [11])) == [(0, Code.CANCELLED, "commit")]
    assert codes(rig.persist([0], [10])) == [(0, Code.CANCELLED, "commit")]
    rig.put([0], [10])
    rig.undo(token, [0], [10])
    rig.sweep()
    assert rig.on_disk() == rig.names(10)
    assert not any((rig.path / "swept").iterdir())


def test_a_sweep_in_the_middle_of_a_write_makes_it_void(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rig.folder.fill

    def swept(*arguments: object) -> None:
        whole(*arguments)  # type: ignore[arg-type]
        rig.disk.sweep(Sweep(0, "disk", everything=True))

    monkeypatch.setattr(rig.folder, "fill", swept)
    rig.store([0], [10])
    monkeypatch.undo()
    assert codes(rig.persist([0], [10])) == [(0, Code.CANCELLED, "commit")]
    assert rig.on_disk() == set()


def test_a_sweep_that_dies_in_the_middle_leaves_nothing_to_be_found(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is renamed away, and some of its files are removed, when the process ends."""
    rig.put(range(6), range(10, 16))
    removed: list[Path] = []
    real = Path.unlink

    def dies(path: Path, missing_ok: bool = False) -> None:
        if len(removed) == 3:
            raise OSError(errno.EIO, "the process died")
        removed.append(path)
        real(path, missing_ok)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", dies)
        rig.sweep(everything=True)
    assert len(removed) == 3
    assert [sentence.split(":")[0] for sentence in rig.disk.take_troubles()] == ["disk"]
    again = rig.again()
    assert again.disk.found() == ("disk", (), (), 3, 0, 0, True)
    assert not any((rig.path / "swept").iterdir())


def test_where_the_folder_can_not_be_renamed_its_files_are_removed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.put([0, 1], [10, 11])

    def fails() -> None:
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(rig.folder, "clear", fails)
    rig.sweep(everything=True)
    assert rig.on_disk() == set()
    assert not rig.serves(0, 10)
    assert len(rig.disk.take_troubles()) == 1
    assert rig.disk.take_troubles() == []


# -- a disk that fails -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code", "outcome"),
    [
        (errno.ENOSPC, Code.NO_SPACE, Outcome.DENIED),
        (errno.EACCES, Code.PERMISSION_DENIED, Outcome.DENIED),
        (errno.EIO, Code.UNKNOWN, Outcome.DENIED),
        (errno.EMFILE, Code.BUSY, Outcome.FAILED),
    ],
    ids=["ENOSPC", "EACCES", "EIO", "EMFILE"],
)
@pytest.mark.parametrize("kind", [Kind.STORE, Kind.PERSIST, Kind.FETCH])
def test_an_error_of_the_system_is_a_code_and_the_next_part_goes_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, kind: Kind, number: int, code: Code, outcome: Outcome
) -> None:
    if kind is Kind.FETCH and number == errno.ENOSPC:
        code = Code.UNKNOWN  # nothing is out of space while it reads
    rig.put([0], [10])
    rig.store([1], [11])

    def fails(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number))

    call = {Kind.STORE: "os.writev", Kind.PERSIST: "os.rename", Kind.FETCH: "os.preadv"}[kind]
    with monkeypatch.context() as patched:
        patched.setattr(call, fails)
        if kind is Kind.STORE:
            report = rig.store([2, 3], [12, 13])
        else:
            report = rig.persist([1], [11]) if kind is Kind.PERSIST else rig.fetch([0], [10])
    stage = {Kind.STORE: "write", Kind.PERSIST: "commit", Kind.FETCH: "fetch"}[kind]
    assert (report.outcome, codes(report)) == (outcome, [(0, code, stage)])
    assert report.failures[0].raw == errno.errorcode[number]
    rig.put([2, 3], [12, 13])
    assert rig.persist([1], [11]).failures == ()
    assert all(rig.serves(place, 10 + place) for place in range(4))


def test_a_sync_that_fails_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig(tmp_path, sync=Sync.FULL)
    rig.put([0], [10])

    def fails(file: int) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr("os.fdatasync", fails)
        assert codes(rig.store([1], [11])) == [(0, Code.UNKNOWN, "write")]
    rig.store([1], [11])
    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", fails)
        report = rig.persist([1], [11])
    assert codes(report) == [(-1, Code.UNKNOWN, "commit")]
    rig.undo(report.token, [1], [11])
    assert rig.on_disk() == rig.names(10)


def test_a_folder_that_vanishes_costs_what_was_in_it(rig: Rig) -> None:
    rig.put([0], [10])
    shutil.rmtree(rig.path / "objects")
    report = rig.fetch([0], [10])
    assert (report.outcome, codes(report)) == (Outcome.BROKEN, [(0, Code.BLOCK_NOT_FOUND, "fetch")])
    rig.put([1], [11])
    assert rig.serves(1, 11)
    shutil.rmtree(rig.path)
    assert codes(rig.store([2], [12])) == [(0, Code.UNKNOWN, "write")]
    assert codes(rig.fetch([1], [11])) == [(0, Code.BLOCK_NOT_FOUND, "fetch")]
    rig.sweep()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("flip", Code.CRC_MISMATCH),
        ("cut", Code.SHORT_READ),
        ("another", Code.KEY_MISMATCH),
        ("none", Code.BLOCK_NOT_FOUND),
    ],
)
def test_a_bad_object_is_told_by_its_line_and_never_found_again(rig: Rig, change: str, code: Code) -> None:
    rig.put([0, 1, 2], [10, 11, 12])
    path = Path(rig.disk.path_of(slot(1)) or "")
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    match change:
        case "flip":
            path.write_bytes(data)
        case "cut":
            path.write_bytes(data[:-1])
        case "another":
            path.write_bytes(Path(rig.disk.path_of(slot(2)) or "").read_bytes())
        case _:
            path.unlink()
    report = rig.fetch([0, 1, 2], [10, 11, 12])
    assert (report.outcome, codes(report)) == (Outcome.BROKEN, [(1, code, "fetch")])
    assert holds(rig.memory, [0], [key(10)])
    assert holds(rig.memory, [2], [key(12)])
    assert rig.on_disk() == rig.names(10, 12)
    assert rig.disk.path_of(slot(1)) is None
    rig.put([3], [11])
    assert rig.serves(3, 11)


def test_a_full_disk_takes_again_what_was_made_room_for(tmp_path: Path) -> None:
    rig = Rig(tmp_path, most_bytes=2 * (BLOCK + UNIT))
    rig.put([0, 1], [10, 11])
    assert codes(rig.store([2], [12])) == [(0, Code.NO_SPACE, "write")]
    rig.put([0], [12])
    assert rig.serves(0, 12)
    assert rig.folder.used == 2 * (BLOCK + UNIT)


def test_without_a_sum_a_flipped_byte_is_served(tmp_path: Path) -> None:
    """So it is the sum that sees it."""
    rig = Rig(tmp_path, algorithm=Sum.NONE)
    rig.put([0], [10])
    path = Path(rig.disk.path_of(slot(0)) or "")
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    assert rig.fetch([0], [10]).outcome == Outcome.DONE
    assert not holds(rig.memory, [0], [key(10)])


# -- blocks in pieces, and the end -------------------------------------------------------------------------------------


def test_blocks_that_lie_in_pieces_are_written_and_read_where_they_are(tmp_path: Path) -> None:
    import torch

    layers = [torch.zeros(2, 3, 16, dtype=torch.uint8), torch.zeros(3, 4, 8, dtype=torch.uint8).transpose(1, 2)]
    memory = Memory([KVPool.from_tensors("device", 0, [layers[0].transpose(0, 1), layers[1]])])
    assert len(reading(memory, 0)) > 2
    disk = Disk(Folder(tmp_path, Seal("f"), sync=Sync.NONE), memory, 3, 2)
    pool = memory.pools[0]
    data = (bytes(range(64)), bytes(range(64, 128)))
    for block in (0, 1):
        runs, land = landing(memory, block)
        assert land is None
        for run in runs:
            run[:] = data[block][: len(run)]
    before = [pool.bytes_of(block).tobytes() for block in (0, 1)]
    rig = Rig(tmp_path / "other")
    for kind, src, dst in ((Kind.STORE, (0, 1), (3, 4)), (Kind.PERSIST, (3, 4), ()), (Kind.FETCH, (3, 4), (2, 0))):
        assert disk.carry(rig.work(kind, src, dst, [10, 11])).failures == ()
    assert [pool.bytes_of(block).tobytes() for block in (2, 0)] == before


def test_a_pool_elsewhere_goes_through_a_buffer_of_its_own(rig: Rig) -> None:
    """As on a GPU, of which the pool only claims to be."""
    pool = rig.memory.pools[0]
    fill(rig.memory, [0], [key(10)])
    pool.on_cpu, pool.views = False, None
    assert bytes(reading(rig.memory, 0)[0]) == pool.bytes_of(0).tobytes()
    runs, land = landing(rig.memory, 1)
    assert land is not None
    assert [len(run) for run in runs] == [BLOCK]
    runs[0][:] = reading(rig.memory, 0)[0]
    assert pool.bytes_of(1).tobytes() == bytes(BLOCK)
    land()
    assert pool.bytes_of(1).tobytes() == pool.bytes_of(0).tobytes()


def test_a_close_leaves_objects_and_nothing_else(rig: Rig) -> None:
    rig.put([0], [10])
    rig.store([1], [11])
    assert rig.disk.close(5)
    files = {path for path in rig.path.rglob("*") if path.is_file()}
    assert {path.name for path in files} == rig.names(10)


def test_effects_for_slots_that_are_not_there_are_mistakes_or_nothing(rig: Rig) -> None:
    rig.disk.undo(Undo(Token(1, 1), 0, "disk", (BASE - 1, BASE + SLOTS), (key(1), key(2))))
    with pytest.raises(LookupError, match="block 18 is none of disk's 6 from 12 on"):
        rig.disk.adopt(Adopt(0, "disk", (BASE + SLOTS,), ("a",), (key(1),)))


def test_what_was_begun_in_a_slot_goes_when_the_slot_is_given_to_what_was_found(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    rig.put([1], [2])
    assert rig.store([0], [1]).failures == ()
    assert len(list(tmp_path.glob("writers/*/*.part"))) == 1
    rig.adopt([0], [2])
    assert rig.disk.settle(10)
    assert list(tmp_path.glob("writers/*/*.part")) == []
    assert rig.serves(0, 2)
