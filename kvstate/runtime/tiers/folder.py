"""A folder that keeps blocks as files, each whole or absent, whenever the process that writes them dies.

    objects/FINGERPRINT/ab/abcdef...   what can be found, a file a key; the name is a hash, so that no key is a path
    writers/ID/lock                    held by a writer as long as it lives
    writers/ID/NUMBER.part             what it has begun

A file is written whole under `writers`, and then renamed to where it can be found: that is the moment of its commit.
So what a dead writer left is found by its lock, which nobody holds any more, and removed; nothing else ever is. A file
that is not known is left alone and told.

How much a commit survives is a setting. The death of the process it always does. `sync = data` has the bytes on the
disk before the rename, so that after a power cut a file is whole or absent; with `full` the rename is on the disk, too,
before the commit is told. `none` leaves both to the system.

Several processes may share a folder. Each removes and replaces what it likes, so a key is a hint: who finds nothing, or
something else than it says, has a miss.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from uuid import uuid4

from kvstate.errors import Code
from kvstate.runtime.tiers.files import SAFE, head, locked, read_all, sync_folder, write_all
from kvstate.runtime.tiers.sealed import Buffer, ObjectError, Seal
from kvstate.runtime.tiers.survey import UNBORN, Survey


class Sync(StrEnum):
    """What is on the disk, and not only with the system, when a commit is told."""

    NONE = "none"
    DATA = "data"
    FULL = "full"


class Folder:
    """Objects of one fingerprint in a folder. Any thread may call any method.

    Errors: `ObjectError` with a code for what is wrong with an object, `OSError` for what is wrong with the disk, from
    every method that touches it. Making one raises `ValueError` for a bound below one byte.
    """

    def __init__(self, path: Path, seal: Seal, *, most_bytes: int | None = None, sync: Sync = Sync.DATA) -> None:
        """Opens the folder, made where it is not there, for this user alone; removes what dead writers left.

        `most_bytes` bounds what the objects of this fingerprint take, headers included: a write beyond it is NO_SPACE.
        """
        if most_bytes is not None and most_bytes < 1:
            raise ValueError(f"a folder of at most {most_bytes} bytes keeps nothing; give it a byte, or no bound")
        self.path = path
        self.seal = seal
        self._sync, self._most = sync, most_bytes
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}
        """Bytes of each object, by the name of its file."""
        self._parts: dict[int, tuple[str, int]] = {}
        """By number: the name that a part will have, and its bytes."""
        self._used = 0
        mark = hashlib.blake2b(seal.fingerprint.encode(), digest_size=16).hexdigest()
        self._objects = path / "objects" / mark
        self._mine = path / "writers" / uuid4().hex
        for folder in (path, path / "objects", self._objects, path / "writers"):
            folder.mkdir(mode=0o700, exist_ok=True, parents=folder == path)
        self._held = self._be_born()
        survey = Survey(path, self._objects, seal, self._name)
        self.start = survey.start(self._mine)
        """What was found."""
        self._sizes.update(survey.sizes)
        self._used = sum(survey.sizes.values())

    def _be_born(self) -> int | None:
        """A writer must not be taken for dead before it holds its lock: until then its folder has another name."""
        unborn = self._mine.with_name(UNBORN + self._mine.name)
        unborn.mkdir(mode=0o700)
        held = locked(unborn / "lock")
        unborn.rename(self._mine)
        return held

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, number: int, namespace: str, key: bytes, pieces: Sequence[Buffer]) -> None:
        """Write the bytes of a block, its pieces end to end, and keep them invisible under this number.

        Errors: `ObjectError` with NO_SPACE beyond the bound, SLOT_CONFLICT for a number that is in use.
        """
        header = self.seal.header(namespace, key, pieces)
        size = len(header) + sum(memoryview(piece).nbytes for piece in pieces)
        name = self._name(namespace, key)
        with self._lock:
            if number in self._parts:
                raise ObjectError(Code.SLOT_CONFLICT, "write", f"part {number} is being written already")
            if self._most is not None and self._used + size - self._sizes.get(name, 0) > self._most:
                raise ObjectError(Code.NO_SPACE, "write", f"{self._used} of {self._most} bytes are used, {size} wanted")
            self._parts[number] = name, size
            self._used += size
        try:
            file = os.open(self._part(number), os.O_WRONLY | os.O_CREAT | os.O_EXCL | SAFE, 0o600)
            try:
                write_all(file, [header, *pieces])
                if self._sync is not Sync.NONE:
                    os.fdatasync(file)
            finally:
                os.close(file)
        except BaseException:
            self.discard(number)
            raise

    def commit(self, number: int) -> None:
        """Make what was written under this number visible, in the place of what its key named before."""
        name, size = self._parts[number]
        place = self._place(name)
        place.parent.mkdir(mode=0o700, exist_ok=True)
        self._part(number).rename(place)
        with self._lock:
            del self._parts[number]
            self._used -= self._sizes.get(name, 0)
            self._sizes[name] = size
        if self._sync is Sync.FULL:
            sync_folder(place.parent)

    def discard(self, number: int) -> None:
        """Forget what was written under this number, if anything was."""
        with self._lock:
            _, size = self._parts.pop(number, ("", 0))
            self._used -= size
        with suppress(FileNotFoundError):
            self._part(number).unlink()

    def remove(self, namespace: str, key: bytes) -> bool:
        """Take an object away; was there one?"""
        name = self._name(namespace, key)
        with self._lock:
            self._used -= self._sizes.pop(name, 0)
        try:
            self._place(name).unlink()
        except FileNotFoundError:
            return False
        return True

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, namespace: str, key: bytes, into: Sequence[bytearray | memoryview]) -> None:
        """The bytes of a block, into these pieces end to end, looked at before this returns.

        Errors: `ObjectError` with BLOCK_NOT_FOUND where there is none, and with what is wrong with it otherwise; the
        pieces then hold anything.
        """
        path = self._place(self._name(namespace, key))
        try:
            file = os.open(path, os.O_RDONLY | SAFE)
        except FileNotFoundError:
            raise ObjectError(Code.BLOCK_NOT_FOUND, "fetch", f"there is no file {path.name}") from None
        try:
            said, begin = head(self.seal, file, "fetch")
            self.seal.check_name(said, namespace, key, "fetch")
            wanted = sum(memoryview(piece).nbytes for piece in into)
            if said.length != wanted:
                raise ObjectError(Code.LAYOUT_MISMATCH, "fetch", f"it has {said.length} bytes, a block has {wanted}")
            read_all(file, begin, into)
        finally:
            os.close(file)
        self.seal.check_bytes(said, into, "fetch")

    def has(self, namespace: str, key: bytes) -> bool:
        """Is there a file for the key? Whether it can be served only a `read` can say."""
        return self._place(self._name(namespace, key)).exists()

    @property
    def used(self) -> int:
        """Bytes of all objects and parts of this process, headers included, as far as this process knows."""
        return self._used

    def close(self) -> None:
        """Let go of the lock, and remove what was begun and not committed. May be called again."""
        if self._held is None:
            return
        for number in tuple(self._parts):
            self.discard(number)
        os.close(self._held)
        self._held = None
        with suppress(OSError):
            (self._mine / "lock").unlink()
            self._mine.rmdir()

    # -- names ---------------------------------------------------------------------------------------------------------

    def _name(self, namespace: str, key: bytes) -> str:
        """The name of a key's file: a hash of namespace and key, whose ends can't be moved against each other."""
        made = hashlib.blake2b(len(namespace.encode()).to_bytes(8, "little"), digest_size=16)
        made.update(namespace.encode() + key)
        return made.hexdigest()

    def _place(self, name: str) -> Path:
        return self._objects / name[:2] / name

    def _part(self, number: int) -> Path:
        return self._mine / f"{number}.part"
