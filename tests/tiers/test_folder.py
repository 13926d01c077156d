"""A folder of objects: what is stored comes back or is a code, and the death of a writer leaves nothing half."""

from __future__ import annotations

import errno
import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kvstate.errors import Code, from_exception
from kvstate.runtime.tiers.files import SHARE
from kvstate.runtime.tiers.folder import Folder
from kvstate.runtime.tiers.sealed import SECRET_BYTES, UNIT, ObjectError, Seal, Sum
from kvstate.runtime.tiers.settings import Sync
from tests.tiers.rig import kills

BLOCK = 3000
SECRET = bytes(range(SECRET_BYTES))


def block(number: int, size: int = BLOCK) -> bytes:
    return random.Random(number).randbytes(size)


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def opened(path: Path, **options: Any) -> Folder:
    fingerprint, secret = options.pop("fingerprint", "model 1"), options.pop("secret", None)
    algorithm = options.pop("algorithm", Sum.XXH3)
    return Folder(path, Seal(fingerprint, algorithm=algorithm, secret=secret), **options)


def put(folder: Folder, number: int, namespace: str = "a", data: bytes | None = None) -> None:
    folder.write(number, namespace, key(number), [block(number) if data is None else data])
    folder.commit(number)


def got(folder: Folder, number: int, namespace: str = "a") -> bytes:
    into = bytearray(BLOCK)
    folder.read(namespace, key(number), [into])
    return bytes(into)


def code_of(folder: Folder, number: int, namespace: str = "a") -> Code:
    with pytest.raises(ObjectError) as refused:
        got(folder, number, namespace)
    return refused.value.error.code


def file_of(folder: Folder, number: int) -> Path:
    return Path(folder._place(folder.name_of("a", key(number))))


# -- what is stored comes back -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sync", Sync)
@pytest.mark.parametrize("how", [{}, {"algorithm": Sum.NONE}, {"secret": SECRET}], ids=["xxh3", "none", "blake3"])
def test_what_is_committed_comes_back(tmp_path: Path, sync: Sync, how: dict[str, Any]) -> None:
    folder = opened(tmp_path, sync=sync, **how)
    for number in range(5):
        put(folder, number)
    assert [got(folder, number) for number in range(5)] == [block(number) for number in range(5)]
    folder.close()
    folder.close()
    again = opened(tmp_path, **how)
    assert {(one.namespace, one.key, one.length) for one in again.start.found} == {
        ("a", key(number), BLOCK) for number in range(5)
    }
    assert again.start[1:] == (0, (), ())
    assert [got(again, number) for number in range(5)] == [block(number) for number in range(5)]


def test_a_block_may_lie_in_pieces(tmp_path: Path) -> None:
    """More of them than one call of the system takes, some of nothing at all."""
    folder, data = opened(tmp_path), block(1, 4000)
    cuts = [data[at : at + 3] for at in range(0, len(data), 3)]
    folder.write(1, "a", key(1), [*cuts, b"", memoryview(b"")])
    folder.commit(1)
    into = [bytearray(3) for _ in cuts[:-1]] + [bytearray(len(cuts[-1])), bytearray()]
    folder.read("a", key(1), into)
    assert b"".join(into) == data


@pytest.mark.parametrize("size", [SHARE - 1, SHARE, SHARE + 1, 3 * SHARE])
def test_a_large_block_is_summed_share_by_share(tmp_path: Path, size: int) -> None:
    folder, into = opened(tmp_path), bytearray(size)
    put(folder, 1, data=block(1, size))
    folder.read("a", key(1), [into])
    assert into == block(1, size)
    path = file_of(folder, 1)
    data = bytearray(path.read_bytes())
    for at in (UNIT, UNIT + size // 2, UNIT + size - 1):
        data[at] ^= 1
        path.write_bytes(data)
        with pytest.raises(ObjectError) as refused:
            folder.read("a", key(1), [into])
        assert refused.value.error.code is Code.CRC_MISMATCH
        data[at] ^= 1
    path.write_bytes(data[:-1])
    with pytest.raises(ObjectError) as refused:
        folder.read("a", key(1), [into])
    assert refused.value.error.code is Code.SHORT_READ


def test_what_is_not_committed_can_not_be_found(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    folder.write(1, "a", key(1), [block(1)])
    assert not folder.has("a", key(1))
    assert code_of(folder, 1) is Code.BLOCK_NOT_FOUND
    folder.discard(1)
    folder.discard(1)
    assert folder.used == 0
    folder.write(1, "a", key(1), [block(1)])
    folder.commit(1)
    assert folder.has("a", key(1))


def test_namespaces_are_apart_and_a_key_is_no_path(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    for namespace, name in (("a", b"bc"), ("ab", b"c"), ("../..", b"/etc/passwd"), ("", b"\0" * 300)):
        folder.write(1, namespace, name, [namespace.encode() + name])
        folder.commit(1)
        into = bytearray(len(namespace) + len(name))
        folder.read(namespace, name, [into])
        assert bytes(into) == namespace.encode() + name
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 4 + 1  # and a lock


def test_the_last_commit_of_a_key_holds(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    put(folder, 1)
    used = folder.used
    put(folder, 1, data=block(99))
    assert got(folder, 1) == block(99)
    assert folder.used == used
    assert folder.remove("a", key(1))
    assert not folder.remove("a", key(1))
    assert (folder.used, code_of(folder, 1)) == (0, Code.BLOCK_NOT_FOUND)


def test_only_this_user_may_look(tmp_path: Path) -> None:
    path = tmp_path / "made"
    folder = opened(path)
    put(folder, 1)
    folder.write(2, "a", key(2), [block(2)])
    for one in [path, *path.rglob("*")]:
        assert stat.S_IMODE(one.stat().st_mode) == (0o700 if one.is_dir() else 0o600), one


# -- bounds and mistakes -----------------------------------------------------------------------------------------------


def test_a_full_folder_refuses_and_takes_again_what_was_made_room_for(tmp_path: Path) -> None:
    one = BLOCK + UNIT
    folder = opened(tmp_path, most_bytes=3 * one)
    for number in range(3):
        put(folder, number)
    assert folder.used == 3 * one
    with pytest.raises(ObjectError) as full:
        folder.write(7, "a", key(7), [block(7)])
    assert (full.value.error.code, full.value.error.stage) == (Code.NO_SPACE, "write")
    folder.remove("a", key(0))
    put(folder, 7)
    assert [folder.has("a", key(number)) for number in (0, 1, 2, 7)] == [False, True, True, True]
    folder.close()
    assert opened(tmp_path, most_bytes=3 * one).used == 3 * one


def test_a_number_that_is_in_use_is_a_conflict(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    folder.write(1, "a", key(1), [block(1)])
    with pytest.raises(ObjectError) as conflict:
        folder.write(1, "a", key(2), [block(2)])
    assert conflict.value.error.code is Code.SLOT_CONFLICT
    folder.commit(1)
    assert got(folder, 1) == block(1)


def test_settings_that_make_no_sense_are_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a folder of at most 0 bytes keeps nothing"):
        opened(tmp_path, most_bytes=0)
    with pytest.raises(ValueError, match="the secret has 3 bytes; a secret has 32"):
        Seal("f", secret=b"abc")
    with pytest.raises(ValueError, match="blake3 needs a secret"):
        Seal("f", algorithm=Sum.BLAKE3)


def test_a_secret_without_its_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "blake3", None)
    with pytest.raises(ValueError, match=r"a secret needs the package blake3: pip install 'kvstate\[secret\]'"):
        Seal("f", secret=SECRET)


# -- what must never be served -----------------------------------------------------------------------------------------


def spoilt(path: Path, change: str) -> None:
    data = bytearray(path.read_bytes())
    match change:
        case "a bit of the bytes":
            data[UNIT + 100] ^= 1
        case "a bit of the header":
            data[40] ^= 1
        case "cut in the bytes":
            del data[-1:]
        case "cut in the header":
            del data[30:]
        case "empty":
            data.clear()
        case "another file":
            data[:] = b"what else may lie there" * 50
        case "a length that can not be":
            data[8:12] = b"\xff\xff\xff\x7f"
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ("a bit of the bytes", Code.CRC_MISMATCH),
        ("a bit of the header", Code.CRC_MISMATCH),
        ("a length that can not be", Code.CRC_MISMATCH),
        ("cut in the bytes", Code.SHORT_READ),
        ("cut in the header", Code.SHORT_READ),
        ("empty", Code.SHORT_READ),
        ("another file", Code.VERSION_MISMATCH),
    ],
)
def test_a_spoilt_file_is_a_code_and_the_next_store_mends_it(tmp_path: Path, change: str, code: Code) -> None:
    folder = opened(tmp_path)
    put(folder, 1)
    put(folder, 2)
    spoilt(file_of(folder, 1), change)
    assert code_of(folder, 1) is code
    assert got(folder, 2) == block(2)
    folder.close()
    again = opened(tmp_path)
    known = {one.key for one in again.start.found}
    assert known == ({key(1), key(2)} if change == "a bit of the bytes" else {key(2)})
    assert len(again.start.refused) == 2 - len(known)
    assert code_of(again, 1) is code
    put(again, 1)
    assert got(again, 1) == block(1)


def test_a_file_of_another_key_is_not_served(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    put(folder, 1)
    put(folder, 2)
    file_of(folder, 1).write_bytes(file_of(folder, 2).read_bytes())
    assert code_of(folder, 1) is Code.KEY_MISMATCH
    folder.close()
    (sentence,) = opened(tmp_path).start.refused
    assert sentence.endswith("its name is that of another key")


def test_another_fingerprint_finds_nothing_even_where_somebody_put_it(tmp_path: Path) -> None:
    folder, other = opened(tmp_path), opened(tmp_path, fingerprint="model 2")
    put(folder, 1)
    assert (other.start.found, code_of(other, 1)) == ((), Code.BLOCK_NOT_FOUND)
    place = file_of(other, 1)
    place.parent.mkdir()
    place.write_bytes(file_of(folder, 1).read_bytes())
    assert code_of(other, 1) is Code.LAYOUT_MISMATCH
    (sentence,) = opened(tmp_path, fingerprint="model 2").start.refused
    assert sentence.endswith("it was written under fingerprint model 1")


def test_a_block_of_another_size_is_not_served(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    put(folder, 1, data=block(1, BLOCK - 1))
    assert code_of(folder, 1) is Code.LAYOUT_MISMATCH


def test_another_format_is_not_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = opened(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("kvstate.runtime.tiers.sealed.FORMAT", 2)
        put(opened(tmp_path), 1)
    assert code_of(folder, 1) is Code.VERSION_MISMATCH


@pytest.mark.parametrize(
    ("wrote", "reads"),
    [({}, {"secret": SECRET}), ({"secret": SECRET}, {}), ({"secret": SECRET}, {"secret": bytes(32)}),
     ({"algorithm": Sum.NONE}, {})],
)  # fmt: skip
def test_who_checks_trusts_no_other_sum(tmp_path: Path, wrote: dict[str, Any], reads: dict[str, Any]) -> None:
    put(opened(tmp_path, **wrote), 1)
    assert code_of(opened(tmp_path, **reads), 1) is Code.CRC_MISMATCH


def test_who_does_not_check_is_served_what_is_there(tmp_path: Path) -> None:
    folder = opened(tmp_path, algorithm=Sum.NONE)
    put(folder, 1)
    spoilt(file_of(folder, 1), "a bit of the bytes")
    assert got(folder, 1) != block(1)


def test_a_header_can_not_be_forged_with_the_bytes(tmp_path: Path) -> None:
    """With a secret the header is summed as well: bytes of one key can't be passed off as those of another."""
    folder = opened(tmp_path, secret=SECRET)
    put(folder, 1)
    seal = Seal("model 1", secret=SECRET)
    forged = seal.header("a", key(2), [block(1)])
    said, _ = seal.read(forged, "fetch")
    original, _ = seal.read(file_of(folder, 1).read_bytes(), "fetch")
    assert said.sum != original.sum


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    put(folder, 1)
    place = file_of(folder, 1)
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic") as refused:
        got(folder, 1)
    assert refused.value.errno == errno.ELOOP
    folder.close()
    start = opened(tmp_path).start
    assert start.found == ()
    assert set(start.strange) == {str(place), str(tmp_path / "elsewhere")}


def test_a_pipe_in_its_place_keeps_nobody_waiting(tmp_path: Path) -> None:
    folder = opened(tmp_path)
    put(folder, 1)
    place = file_of(folder, 1)
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(OSError, match="Illegal seek"):
        got(folder, 1)


# -- when the disk fails -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, Code.NO_SPACE), (errno.EACCES, Code.PERMISSION_DENIED), (errno.EIO, Code.UNKNOWN)],
)
def test_a_write_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: Code
) -> None:
    folder = opened(tmp_path)
    put(folder, 1)
    used = folder.used

    def fails(file: int, pieces: object) -> None:
        os.write(file, b"half")
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr("kvstate.runtime.tiers.folder.write_all", fails)
        with pytest.raises(OSError, match=os.strerror(number)) as raised:
            put(folder, 2)
    assert from_exception(raised.value, stage="write").code == code
    assert (folder.used, folder.has("a", key(2))) == (used, False)
    assert [path.name for path in (tmp_path / "writers").rglob("*") if path.is_file()] == ["lock"]
    put(folder, 2)
    assert [got(folder, 1), got(folder, 2)] == [block(1), block(2)]


def test_a_folder_that_vanishes_is_an_error_of_each_call(tmp_path: Path) -> None:
    folder = opened(tmp_path / "tier")
    put(folder, 1)
    (tmp_path / "tier").rename(tmp_path / "gone")
    assert code_of(folder, 1) is Code.BLOCK_NOT_FOUND
    with pytest.raises(FileNotFoundError):
        put(folder, 2)
    (tmp_path / "gone").rename(tmp_path / "tier")
    put(folder, 2)
    assert [got(folder, 1), got(folder, 2)] == [block(1), block(2)]


def test_bytes_that_the_system_takes_in_small_pieces_are_all_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.writev

    def little(file: int, views: list[memoryview]) -> int:
        return whole(file, [views[0][: max(1, len(views[0]) // 2)]])

    folder = opened(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("os.writev", little)
        put(folder, 1)
    assert got(folder, 1) == block(1)


# -- the death of a writer ---------------------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from tests.tiers.test_folder import block, key, opened
folder = opened(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(100_000):
    folder.write(number, "a", key(number), [block(number)])
    folder.commit(number)
    print(number, flush=True)
"""


def test_a_killed_writer_leaves_whole_blocks_and_all_that_it_told(tmp_path: Path) -> None:
    """At some instants; what had been acknowledged is there, and nothing is half."""
    random_ = random.Random(1)
    for turn in range(kills()):
        path = tmp_path / str(turn)
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        ) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            time.sleep(random_.uniform(0.0, 0.03))
            writer.send_signal(signal.SIGKILL)
            told = [int(line) for line in writer.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        folder = opened(path)
        found = {int.from_bytes(one.key, "big") for one in folder.start.found}
        assert found >= set(told)
        assert found <= set(range(len(told) + 1))
        assert all(got(folder, number) == block(number) for number in found)
        assert folder.start.refused == folder.start.strange == ()
        assert folder.start.removed <= 1
        assert [one.name for one in (path / "writers").iterdir()] == [Path(folder._mine).name]
        folder.close()


def test_what_a_dead_writer_began_is_removed_and_nothing_else(tmp_path: Path) -> None:
    dead, alive = opened(tmp_path), opened(tmp_path)
    for folder in (dead, alive):
        folder.write(1, "a", key(1), [block(1)])
    stranger = Path(dead._mine) / "notes.txt"
    stranger.write_text("mine")
    other = tmp_path / "writers" / "somebody"
    other.mkdir()
    assert dead._held is not None
    os.close(dead._held)  # as when the process ends
    start = opened(tmp_path).start
    assert start.removed == 1
    assert set(start.strange) == {str(stranger), str(other)}
    assert stranger.exists()
    assert not Path(dead._part(1)).exists()
    assert Path(alive._part(1)).exists()
    alive.commit(1)
    assert got(alive, 1) == block(1)


def test_a_writer_that_is_being_born_is_not_taken_for_dead(tmp_path: Path) -> None:
    opened(tmp_path).close()
    unborn = tmp_path / "writers" / ".new-0123"
    unborn.mkdir()
    (unborn / "lock").write_text("")
    start = opened(tmp_path).start
    assert (start.removed, start.strange) == (0, ())
    assert (unborn / "lock").exists()
