"""A folder that somebody else has had a hand in: what is refused, and what one bad file may cost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvstate.machines.config import ConfigError
from kvstate.runtime.tiers import files, sealed, survey
from kvstate.runtime.tiers.folder import Folder
from kvstate.runtime.tiers.sealed import Header, Seal
from kvstate.runtime.tiers.settings import DiskConfig
from tests.runtime.parts import key
from tests.tiers.rig import Rig, die

KEYS = 1, 2, 3


def filled(path: Path) -> Rig:
    rig = Rig(path)
    for place, number in enumerate(KEYS):
        rig.put([place], [number])
    return rig


@pytest.mark.parametrize("where", ["", "objects", "writers"])
def test_a_link_in_the_place_of_a_folder_is_refused(tmp_path: Path, where: str) -> None:
    path, elsewhere = tmp_path / "kv", tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    if where:
        path.mkdir(mode=0o700)
    (path / where).symlink_to(elsewhere)
    with pytest.raises(PermissionError, match="it is a link"):
        Folder(path, Seal("model 1"))
    assert list(elsewhere.iterdir()) == []


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kv").mkdir()
    (tmp_path / "kv").chmod(0o777)
    with pytest.raises(PermissionError, match="others may write there"):
        Folder(tmp_path / "kv", Seal("model 1"))


def test_a_folder_that_can_not_be_locked_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a lock a start elsewhere would take this writer for dead, and remove what it writes."""
    monkeypatch.setattr(survey, "locked", lambda path: None)
    with pytest.raises(OSError, match="no file can be locked there"):
        Folder(tmp_path / "kv", Seal("model 1"))


def test_a_header_whose_key_is_none_is_refused_and_no_more(tmp_path: Path) -> None:
    """Whole, and with a sum of its own, so that only the key is wrong."""
    rig = filled(tmp_path)
    path = Path(rig.folder.path_of(rig.folder.name_of("a", b"victim")))
    path.parent.mkdir(exist_ok=True)
    said = Header(sealed.FORMAT, "0.2.0", "model 1", "a", "no key", 0, sealed.Sum.NONE, "")
    text = msgspec.json.encode(said)
    head = sealed.MAGIC + len(text).to_bytes(4, "little") + sealed._head_sum(len(text), text) + text
    path.write_bytes(head.ljust(sealed._begin(len(text)), b"\0"))
    die(rig.folder)
    start = Folder(tmp_path, Seal("model 1")).start
    assert len(start.found) == 3
    assert ["its key is no key" in sentence for sentence in start.refused] == [True]


@pytest.mark.parametrize("everything", [False, True])
def test_one_file_that_stays_keeps_no_other_from_going(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, everything: bool
) -> None:
    rig = filled(tmp_path)
    if not everything:
        rig.disk._holders.clear()  # as after a start that adopted none of them
    stays = min(rig.on_disk())
    real: Any = os.unlink

    def unlink(path: Any, **more: Any) -> None:
        if str(path).endswith(stays):
            raise PermissionError(1, "it stays")
        real(path, **more)

    monkeypatch.setattr(os, "unlink", unlink)
    if everything:
        monkeypatch.setattr(Folder, "clear", lambda self: (_ for _ in ()).throw(OSError(5, "no rename")))
    rig.sweep(everything=everything)
    assert rig.on_disk() == {stays}
    assert any("could not be removed" in sentence for sentence in rig.disk.take_troubles())


def test_a_secret_that_others_may_read_is_none(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"s" * 32)
    file.chmod(0o644)
    config = DiskConfig(path=tmp_path / "kv", fingerprint="model 1", secret_file=file)
    with pytest.raises(ConfigError, match="may be read by others; say chmod 600"):
        config.secret()
    file.chmod(0o600)
    assert config.secret() == b"s" * 32


def test_a_shelf_that_is_a_link_is_refused_and_nothing_is_put_there(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "kv", tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    rig = Rig(path)
    name = rig.folder.name_of("a", key(1))
    shelf = Path(rig.folder.path_of(name)).parent
    shelf.symlink_to(elsewhere)
    assert rig.store([0], [1]).failures == ()
    report = rig.persist([0], [1])
    assert [failure.raw for failure in report.failures] == ["ENOTDIR"]
    assert list(elsewhere.iterdir()) == []
    die(rig.folder)
    with pytest.raises(PermissionError, match="it is a link"):
        Rig(path)
    shelf.unlink()
    assert Rig(path).disk.found().keys == ()


@pytest.mark.parametrize("has_lock", [True, False])
def test_a_writer_that_died_at_its_birth_goes_in_time(tmp_path: Path, has_lock: bool) -> None:
    die(Rig(tmp_path).folder)
    unborn = tmp_path / "writers" / f".new-{'0' * 32}"
    unborn.mkdir(mode=0o700)
    if has_lock:
        (unborn / "lock").touch(mode=0o600)
    die(Rig(tmp_path).folder)
    assert unborn.exists(), "it may be about to take its lock"
    then = unborn.stat().st_mtime - survey.BIRTH - 1
    os.utime(unborn, (then, then))
    if has_lock:
        held = files.locked(unborn / "lock")
        assert held is not None
        die(Rig(tmp_path).folder)
        assert unborn.exists(), "somebody has its lock"
        os.close(held)
        os.utime(unborn, (then, then))
    rig = Rig(tmp_path)
    assert not unborn.exists()
    assert rig.folder.start.strange == ()


def test_a_writer_whose_folder_is_taken_away_at_its_birth_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took its time, and another start took it for dead: it must not go on without a lock that others see."""
    before = len(list(Path("/proc/self/fd").iterdir()))

    def locked(path: Path) -> int | None:
        file = files.locked(path)
        path.unlink()
        path.parent.rmdir()
        return file

    monkeypatch.setattr(survey, "locked", locked)
    with pytest.raises(FileNotFoundError):
        Folder(tmp_path / "kv", Seal("model 1"))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_half_a_secret_in_digits_is_none(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_bytes(b"0123456789abcdefABCDEF0123456789")
    file.chmod(0o600)
    config = DiskConfig(path=tmp_path / "kv", fingerprint="model 1", secret_file=file)
    with pytest.raises(ConfigError, match="32 hexadecimal digits, which is half a secret; write 64 of them"):
        config.secret()
