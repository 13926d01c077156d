"""A folder that keeps blocks as files, each whole or absent, whenever the process that writes them dies.

    objects/FINGERPRINT/a/abcdef...    what can be found, a file a key; the name is a hash, so that no key is a path
    writers/ID/lock                    held by a writer as long as it lives
    writers/ID/NUMBER.part             what it has begun
    swept/ID                           objects that were swept away together and are being removed

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

import errno
import hashlib
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from kvstate.errors import Code
from kvstate.runtime.tiers.files import SAFE, check_own, head, locked, read_all, read_summed, sync_folder, write_all
from kvstate.runtime.tiers.sealed import Buffer, Header, ObjectError, Seal, bytes_in
from kvstate.runtime.tiers.settings import Sync
from kvstate.runtime.tiers.survey import UNBORN, Survey, bury_swept, names_in


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
        self.sync = sync
        self._most = most_bytes
        self._lock = threading.Lock()
        self._sizes: dict[str, int] = {}
        """Bytes of each object, by the name of its file."""
        self._parts: dict[int, tuple[str, int]] = {}
        """By number: the name that a part will have, and its bytes."""
        self._used = 0
        mark = hashlib.blake2b(seal.fingerprint.encode(), digest_size=16).hexdigest()
        mine = path / "writers" / uuid4().hex
        self._objects, self._mine, self._swept = str(path / "objects" / mark), str(mine), path / "swept"
        for folder in (path, path / "objects", path / "objects" / mark, path / "writers"):
            folder.mkdir(mode=0o700, exist_ok=True, parents=folder == path)
            check_own(folder)
        self._held: int | None = self._be_born(mine)
        survey = Survey(path, path / "objects" / mark, seal, self.name_of)
        try:
            self.start = survey.start(mine)
        except BaseException:
            self.close()
            raise
        """What was found."""
        self._sizes.update(survey.sizes)
        self._used = sum(survey.sizes.values())

    def _be_born(self, mine: Path) -> int:
        """A writer must not be taken for dead before it holds its lock: until then its folder has another name."""
        unborn = mine.with_name(UNBORN + mine.name)
        unborn.mkdir(mode=0o700)
        held = locked(unborn / "lock")
        if held is None:
            raise OSError(errno.ENOLCK, "no file can be locked there")
        unborn.rename(mine)
        return held

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, number: int, namespace: str, key: bytes, pieces: Sequence[Buffer], name: str | None = None) -> None:
        """Write the bytes of a block, its pieces end to end, and keep them invisible under this number.

        `name` is that of the file, for who knows it; so everywhere here. Errors: `ObjectError` with NO_SPACE beyond the
        bound, SLOT_CONFLICT for a number that is in use.
        """
        length = bytes_in(pieces)
        size = self.seal.begin_of(namespace, key, length) + length
        name = name or self.name_of(namespace, key)
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
                write_all(file, [self.seal.header(namespace, key, pieces), *pieces])
                if self.sync is not Sync.NONE:
                    os.fdatasync(file)
            finally:
                os.close(file)
        except BaseException:
            self.discard(number)
            raise

    def commit(self, number: int, *, settle: bool = True) -> str:
        """Make what was written under this number visible, in the place of what its key named before.

        Returns the name of the file. Without `settle`, `settle` has to be called before the commit is told.
        """
        name, size = self._parts[number]
        try:
            os.rename(self._part(number), self._place(name))
        except FileNotFoundError:  # nobody has needed its shelf so far, or somebody has removed it
            Path(self._objects).mkdir(0o700, parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(self._shelf(name), 0o700)
            if self.sync is Sync.FULL:
                for folder in (self._objects, f"{self.path}/objects", self.path):
                    sync_folder(folder)
            os.rename(self._part(number), self._place(name))
        with self._lock:
            del self._parts[number]
            self._used -= self._drop(name)
            self._sizes[name] = size
        if settle:
            self.settle([name])
        return name

    def settle(self, names: Iterable[str]) -> None:
        """Have the renames to these names on the disk, if the folder promises that."""
        if self.sync is Sync.FULL:
            for shelf in {self._shelf(name) for name in names}:
                sync_folder(shelf)

    def discard(self, number: int) -> None:
        """Forget what was written under this number, if anything was."""
        with self._lock:
            _, size = self._parts.pop(number, ("", 0))
            self._used -= size
        with suppress(FileNotFoundError):
            os.unlink(self._part(number))

    def remove(self, namespace: str, key: bytes) -> bool:
        """Take an object away; was there one?"""
        return self.remove_named(self.name_of(namespace, key))

    def remove_named(self, name: str) -> bool:
        """As `remove`, by the name of the file."""
        with self._lock:
            self._used -= self._drop(name)
        try:
            os.unlink(self._place(name))
        except FileNotFoundError:
            return False
        return True

    def clear(self) -> None:
        """Take all objects of this fingerprint away, in one step: a death in the middle leaves none of them.

        What is written and not committed stays. The files are removed by `bury`, later or by whoever comes next.
        """
        self._swept.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            os.rename(self._objects, self._swept / uuid4().hex)
            if self.sync is not Sync.NONE:  # else a power cut undoes the reset
                sync_folder(self._swept)
                sync_folder(self.path / "objects")
        with self._lock:
            self._used -= sum(self._sizes.values())
            self._sizes.clear()
        with suppress(FileExistsError):
            os.mkdir(self._objects, 0o700)

    def bury(self) -> int:
        """Remove what `clear` took away; how many files that were."""
        return bury_swept(self._swept)

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, namespace: str, key: bytes, into: Sequence[bytearray | memoryview], name: str | None = None) -> None:
        """The bytes of a block, into these pieces end to end, looked at before this returns.

        Errors: `ObjectError` with BLOCK_NOT_FOUND where there is none, and with what is wrong with it otherwise; the
        pieces then hold anything.
        """
        file = self._open(name or self.name_of(namespace, key), "fetch")
        try:
            length = bytes_in(into)
            start = bytearray(self.seal.begin_of(namespace, key, length))
            came, digest = read_summed(file, start, into, self.seal.hasher)
            if came == len(start) + length and self.seal.is_ours(start, namespace, key, length, into, digest):
                return
            said, begin = head(self.seal, file, "fetch")  # what is it then? Or was it read in pieces?
            self._check(said, namespace, key, into, "fetch")
            read_all(file, begin, into)
        finally:
            os.close(file)
        self.seal.check_bytes(said, into, "fetch")

    def check(self, namespace: str, key: bytes, pieces: Sequence[Buffer]) -> None:
        """Are these the bytes of that object? Its header is read, its bytes are not. Errors: as `read`, and stage
        verify.
        """
        file = self._open(self.name_of(namespace, key), "verify")
        try:
            said, _ = head(self.seal, file, "verify")
        finally:
            os.close(file)
        self._check(said, namespace, key, pieces, "verify")
        self.seal.check_bytes(said, pieces, "verify")

    def _open(self, name: str, stage: str) -> int:
        try:
            return os.open(self._place(name), os.O_RDONLY | SAFE)
        except FileNotFoundError:
            raise ObjectError(Code.BLOCK_NOT_FOUND, stage, f"there is no file {name}") from None

    def _check(self, said: Header, namespace: str, key: bytes, pieces: Sequence[Buffer], stage: str) -> None:
        self.seal.check_name(said, namespace, key, stage)
        wanted = bytes_in(pieces)
        if said.length != wanted:
            raise ObjectError(Code.LAYOUT_MISMATCH, stage, f"it has {said.length} bytes, a block has {wanted}")

    def has(self, namespace: str, key: bytes) -> bool:
        """Is there a file for the key? Whether it can be served only a `read` can say."""
        return os.path.exists(self._place(self.name_of(namespace, key)))

    def names(self) -> list[str]:
        """The names of all files of objects that are there now."""
        return names_in(Path(self._objects))

    @property
    def used(self) -> int:
        """Bytes of all objects and parts of this process, headers included, as far as this process knows."""
        return self._used

    def close(self) -> None:
        """Let go of the lock, and remove what was begun and not committed. May be called again."""
        if self._held is None:
            return
        for number in tuple(self._parts):
            with suppress(OSError):
                self.discard(number)
        os.close(self._held)
        self._held = None
        with suppress(OSError):
            os.unlink(f"{self._mine}/lock")
            os.rmdir(self._mine)

    # -- names ---------------------------------------------------------------------------------------------------------

    def name_of(self, namespace: str, key: bytes) -> str:
        """The name of a key's file: a hash of namespace and key, whose ends can't be moved against each other."""
        space = namespace.encode()
        return hashlib.blake2b(len(space).to_bytes(8, "little") + space + key, digest_size=16).hexdigest()

    def path_of(self, which: str | int) -> str:
        """Where an object lies, by the name of its file, or what was written under a number."""
        return self._part(which) if isinstance(which, int) else self._place(which)

    def _drop(self, name: str) -> int:
        """Count an object out; its bytes. Needs the lock."""
        return self._sizes.pop(name, 0)

    def _shelf(self, name: str) -> str:
        return f"{self._objects}/{name[0]}"

    def _place(self, name: str) -> str:
        return f"{self._objects}/{name[0]}/{name}"

    def _part(self, number: int) -> str:
        return f"{self._mine}/{number}.part"
