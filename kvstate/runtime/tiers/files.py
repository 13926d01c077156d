"""Files as a store uses them: opened without following links, read and written to the last byte, locked while alive."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from kvstate.errors import Code
from kvstate.runtime.tiers.sealed import MAX_TEXT, UNIT, Buffer, Header, ObjectError, Seal, bytes_in

SAFE: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""Flags of every file that is opened: no link is followed, and a pipe that somebody put there keeps nobody waiting."""
READ: Final = os.O_RDONLY | SAFE
"""To read a file that is there."""
NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE
"""To write one that is not."""
SHARE: Final = 256 << 10
"""Bytes of a large block that are read, or written, and summed at a time."""
_MANY: Final = 512
"""Pieces that are written in one call; systems take 1024 at most."""


class Begun(NamedTuple):
    """A file that is being written, and open."""

    number: int
    """What its name begins with."""
    file: int
    """The descriptor."""
    namespace: str
    """Of the key."""
    key: bytes
    """Whose bytes these are."""


def listed(folder: Path) -> Iterator[Path]:
    """What is in a folder, in the order of the names; nothing where there is none."""
    if folder.is_symlink() or not folder.is_dir():
        return iter(())
    try:
        return iter(sorted(folder.iterdir()))
    except FileNotFoundError:  # another process has just removed it
        return iter(())


def check_own(folder: Path) -> None:
    """Is it a folder, no link to one, of this user, in which nobody else may write? Errors: `PermissionError`."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise PermissionError(errno.EPERM, "it is a link, another user's, or others may write there", str(folder))


def locked(path: Path) -> int | None:
    """The file, open and locked; None if somebody holds it."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | SAFE, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file


def head(seal: Seal, file: int, stage: str) -> tuple[Header, int]:
    """The header of an open file, and where its bytes begin."""
    start = os.pread(file, UNIT, 0)
    try:
        return seal.read(start, stage)
    except ObjectError as error:
        if error.error.code is not Code.SHORT_READ or len(start) < UNIT:
            raise
    return seal.read(os.pread(file, MAX_TEXT + UNIT, 0), stage)


def write_all(file: int, pieces: Sequence[Buffer]) -> None:
    """Write these pieces one behind the other. Errors: `OSError`."""
    written = os.writev(file, pieces[:_MANY])
    if len(pieces) <= _MANY and written == bytes_in(pieces):
        return
    views = [memoryview(piece).cast("B") for piece in pieces if memoryview(piece).nbytes]
    while views:
        while views and written >= len(views[0]):
            written -= len(views.pop(0))
        if written:
            views[0] = views[0][written:]
        written = os.writev(file, views[:_MANY]) if views else 0


def read_all(file: int, at: int, pieces: Sequence[bytearray | memoryview]) -> None:
    """Fill these pieces with what stands in the file from `at` on. Errors: `ObjectError` with SHORT_READ, `OSError`."""
    views = [memoryview(piece).cast("B") for piece in pieces if memoryview(piece).nbytes]
    while views:
        read = os.preadv(file, views[:_MANY], at)
        if not read:
            raise ObjectError(Code.SHORT_READ, "fetch", f"the file ends {sum(map(len, views))} bytes too early")
        at += read
        while views and read >= len(views[0]):
            read -= len(views.pop(0))
        if read:
            views[0] = views[0][read:]


def read_whole(file: int, front: list[bytearray | memoryview], into: Sequence[bytearray | memoryview]) -> int:
    """Header and bytes of an open file, in one go; how many came. 0, where they lie in too many pieces for that."""
    return os.preadv(file, [*front, *into], 0) if len(into) < _MANY else 0


def read_summed(
    file: int, front: list[bytearray | memoryview], whole: memoryview, hasher: Callable[[], Any]
) -> tuple[int, str]:
    """The same for a large block in one piece: a share of it at a time, summed while it is in the core's cache.

    The sum, in hexadecimal, is returned as well. Errors: `OSError`.
    """
    made = hasher()
    came = begin = os.preadv(file, [*front, whole[:SHARE]], 0)
    made.update(whole[:SHARE])
    for at in range(SHARE, len(whole), SHARE):
        share = whole[at : at + SHARE]
        came += os.preadv(file, [share], begin - SHARE + at)
        made.update(share)
    return came, made.hexdigest()


def sync_folder(path: Path | str) -> None:
    """Have what was renamed into the folder on the disk. Errors: `OSError`."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
