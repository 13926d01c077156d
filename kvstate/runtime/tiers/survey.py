"""What a folder of objects holds when it is opened: what can be served, and what dead writers left behind."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from kvstate.errors import Code
from kvstate.runtime.tiers.files import SAFE, head, listed, locked
from kvstate.runtime.tiers.sealed import ObjectError, Seal

NAME: Final = re.compile(r"[0-9a-f]{32}")
"""Names of objects and of writers."""
PART: Final = re.compile(r"[0-9]+\.part")
"""Names of what a writer has begun."""
UNBORN: Final = ".new-"
"""What the name of a writer begins with as long as it holds no lock."""
BIRTH: Final = 600.0
"""Seconds after which a writer that holds no lock is dead; to take one it needs microseconds."""
SWEPT: Final = "swept"
"""The folder for objects that were taken away together."""
NameOf = Callable[[str, bytes], str]
"""The name of a key's file, by namespace and key."""


class Found(NamedTuple):
    """An object that a start found."""

    namespace: str
    key: bytes
    length: int
    """Bytes of the block."""


class Start(NamedTuple):
    """What there was in the folder when it was opened."""

    found: tuple[Found, ...]
    """What can be served, the oldest first."""
    removed: int
    """Files that dead writers had begun and not committed, or swept away and not removed."""
    refused: tuple[str, ...]
    """Files of our fingerprint that can't be served, a sentence each; the sweep of a start removes them."""
    strange: tuple[str, ...]
    """Paths of what is none of ours; left alone."""


def names_in(objects: Path) -> list[str]:
    """The names of all files there that may be objects, shelf by shelf."""
    return [
        path.name
        for shelf in listed(objects)
        for path in listed(shelf)
        if NAME.fullmatch(path.name) and path.name[:1] == shelf.name and path.is_file() and not path.is_symlink()
    ]


def bury_swept(swept: Path) -> int:
    """Remove the objects that were swept away, by whomever: nobody may find them any more. How many that were.

    What is none of ours stays, with the folders around it. Errors: `OSError`.
    """
    removed, left = 0, None
    for objects in listed(swept):
        if not NAME.fullmatch(objects.name):
            continue
        for shelf in listed(objects):
            for path in listed(shelf):
                if NAME.fullmatch(path.name) and not path.is_dir():
                    try:
                        path.unlink(missing_ok=True)
                        removed += 1
                    except OSError as error:  # one that stays keeps no other from going
                        left = left or error
            with suppress(OSError):
                shelf.rmdir()
        with suppress(OSError):
            objects.rmdir()
    if left is not None:
        raise left
    return removed


def be_born(mine: Path) -> int:
    """Make the folder of a writer, and hold its lock: a file. Errors: `OSError`, where no file can be locked, too.

    A writer must not be taken for dead before it holds its lock: until then its folder has another name.
    """
    unborn = mine.with_name(UNBORN + mine.name)
    unborn.mkdir(mode=0o700)
    held = locked(unborn / "lock")
    if held is None:
        raise OSError(errno.ENOLCK, "no file can be locked there")
    try:
        unborn.rename(mine)
    except BaseException:
        os.close(held)
        raise
    return held


class Survey:
    """Looks through a folder, once. `objects` is the folder of our fingerprint, `path` the whole."""

    def __init__(self, path: Path, objects: Path, seal: Seal, name: NameOf) -> None:
        self.sizes: dict[str, int] = {}
        """Bytes of each object that can be served, by the name of its file."""
        self._path, self._objects, self._seal, self._name = path, objects, seal, name
        self._unknown: list[str] = []

    def start(self, mine: Path) -> Start:
        """Remove what dead writers left, and say what there is. `mine` is the writer that asks."""
        now = mine.lstat().st_mtime  # by the clock of whoever keeps the files
        removed = sum(self._bury(writer, now) for writer in listed(self._path / "writers") if writer != mine)
        removed += bury_swept(self._path / SWEPT)
        refused: list[str] = []
        found: list[tuple[int, Found]] = []
        for shelf in listed(self._objects):
            for path in listed(shelf):
                if not NAME.fullmatch(path.name) or not path.name.startswith(shelf.name) or path.is_symlink():
                    self._unknown.append(str(path))
                    continue
                try:
                    found.append(self._look(path))
                except (ObjectError, OSError) as error:
                    refused.append(f"{path}: {error.error.message if isinstance(error, ObjectError) else error}")
        self._unknown += [str(path) for path in listed(self._path) if path.name not in ("objects", "writers", SWEPT)]
        return Start(tuple(one for _, one in sorted(found)), removed, tuple(refused), tuple(self._unknown))

    def _look(self, path: Path) -> tuple[int, Found]:
        """What a file says of itself, and when it was written. Its bytes are looked at when they are read."""
        file = os.open(path, os.O_RDONLY | SAFE)
        try:
            said, begin = head(self._seal, file, "lookup")
            status = os.fstat(file)
        finally:
            os.close(file)
        try:
            key, whole = bytes.fromhex(said.key), begin + said.length
        except ValueError:
            raise ObjectError(Code.KEY_MISMATCH, "lookup", f"its key is no key: {said.key!r}") from None
        self._seal.check_name(said, said.namespace, key, "lookup")
        if self._name(said.namespace, key) != path.name:
            raise ObjectError(Code.KEY_MISMATCH, "lookup", "its name is that of another key")
        if status.st_size != whole:
            raise ObjectError(Code.SHORT_READ, "lookup", f"it has {status.st_size} bytes and should have {whole}")
        self.sizes[path.name] = status.st_size
        return status.st_mtime_ns, Found(said.namespace, key, said.length)

    def _bury(self, writer: Path, now: float) -> int:
        """Remove what a writer left, if nobody holds its lock any more; how many files it had begun.

        One that holds no lock yet may be about to. After `BIRTH` seconds it is not: if it comes all the same, it finds
        that its folder is gone, and says so.
        """
        lock, unborn = writer / "lock", writer.name.startswith(UNBORN)
        if unborn and (writer.is_symlink() or not writer.is_dir() or now - writer.lstat().st_mtime < BIRTH):
            return 0
        if unborn and not lock.exists():
            with suppress(OSError):
                writer.rmdir()
            return 0
        name = writer.name.removeprefix(UNBORN)
        if not NAME.fullmatch(name) or writer.is_symlink() or not lock.is_file() or lock.is_symlink():
            self._unknown.append(str(writer))
            return 0
        held = locked(lock)
        if held is None:
            return 0
        removed = 0
        for path in listed(writer):
            if PART.fullmatch(path.name) and not path.is_symlink():
                path.unlink(missing_ok=True)
                removed += 1
            elif path != lock:
                self._unknown.append(str(path))
        with suppress(OSError):  # what is not ours keeps its folder, and the lock stays with it
            if len(list(writer.iterdir())) == 1:
                lock.unlink()
                writer.rmdir()
        os.close(held)
        return removed
