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

import hashlib
import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from kvstate.errors import Code
from kvstate.runtime.tiers.files import NEW, READ, Begun, check_own, head, write_all
from kvstate.runtime.tiers.reading import Unwanted, Wanted, check_header, read_each
from kvstate.runtime.tiers.sealed import Buffer, ObjectError, Seal, bytes_in
from kvstate.runtime.tiers.settings import Sync
from kvstate.runtime.tiers.shelves import Shelves, check_shelves, name_of
from kvstate.runtime.tiers.survey import Survey, be_born, bury_swept, names_in


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
        check_shelves(path / "objects" / mark)
        self.shelves = Shelves(path, self._objects, sync)
        """Where commits go until the next reset."""
        self._held: int | None = be_born(mine)
        survey = Survey(path, path / "objects" / mark, seal, self.name_of)
        try:
            self.start = survey.start(mine)
        except BaseException:
            self.close()
            raise
        """What was found."""
        self._sizes.update(survey.sizes)
        self._used = sum(survey.sizes.values())

    # -- writing -------------------------------------------------------------------------------------------------------

    def write(self, number: int, namespace: str, key: bytes, pieces: Sequence[Buffer], name: str | None = None) -> None:
        """Write the bytes of a block, its pieces end to end, and keep them invisible under this number.

        `name` is that of the file, for who knows it; so everywhere here. Errors: `ObjectError` with NO_SPACE beyond the
        bound, SLOT_CONFLICT for a number that is in use.
        """
        begun = self.begin(number, namespace, key, bytes_in(pieces), name or self.name_of(namespace, key))
        self.fill(begun, pieces)
        self.end(begun)

    def begin(self, number: int, namespace: str, key: bytes, length: int, name: str) -> Begun:
        """Room for a block of so many bytes, and a file. Then come `fill` and `end`, or `drop`. Errors: as `write`."""
        size = self.seal.frame(namespace, length, len(key)).begin + length
        with self._lock:
            if number in self._parts:
                raise ObjectError(Code.SLOT_CONFLICT, "write", f"part {number} is being written already")
            if self._most is not None and self._used + size - self._sizes.get(name, 0) > self._most:
                raise ObjectError(Code.NO_SPACE, "write", f"{self._used} of {self._most} bytes are used, {size} wanted")
            self._parts[number] = name, size
            self._used += size
        try:
            return Begun(number, os.open(self._part(number), NEW, 0o600), namespace, key)
        except BaseException:
            self.discard(number)
            raise

    def fill(self, begun: Begun, pieces: Sequence[Buffer]) -> None:
        """Write the bytes there. Where that fails, nothing is left."""
        try:
            write_all(begun.file, [self.seal.header(begun.namespace, begun.key, pieces), *pieces])
        except BaseException:
            self.drop(begun)
            raise

    def end(self, begun: Begun) -> None:
        """Have the bytes on the disk, if the folder promises that. Where that fails, nothing is left."""
        try:
            if self.sync is not Sync.NONE:
                os.fdatasync(begun.file)
        except BaseException:
            self.drop(begun)
            raise
        os.close(begun.file)

    def drop(self, begun: Begun) -> None:
        """It is not wanted any more."""
        os.close(begun.file)
        self.discard(begun.number)

    def commit(self, number: int, *, shelves: Shelves | None = None, settle: bool = True) -> str:
        """Make what was written under this number visible, in the place of what its key named before.

        Returns the name of the file. `shelves` are those that were there when it was decided that it may be seen. After
        a reset since then it can't be found: CANCELLED, or the name all the same, of what is swept away with the rest.
        Without `settle`, `settle` has to be called before the commit is told.
        """
        shelves = shelves or self.shelves
        name, size = self._parts[number]
        part = self._part(number)
        try:
            shelf = shelves.take(name[0])  # which is open as long as it has a name here
            os.rename(part, name, dst_dir_fd=shelf.file)
        except FileNotFoundError:  # nobody has needed its shelf so far, or somebody has removed it
            shelf = shelves.make(name[0])
            os.rename(part, name, dst_dir_fd=shelf.file)
        with self._lock:
            counted = self._parts.pop(number, None)
            if shelves is self.shelves:
                self._used -= self._drop(name) - (0 if counted else size)
                self._sizes[name] = size
            elif counted:
                self._used -= size
        if settle:
            self.settle([name])
        return name

    def settle(self, names: Iterable[str]) -> None:
        """Have the renames to these names on the disk, if the folder promises that."""
        self.shelves.settle(names)

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

    def void(self) -> None:
        """What is visible now, and what becomes so by a commit that was allowed before, is not to be found any more.

        Touches no disk; `clear` has to follow before anything else is committed.
        """
        before, self.shelves = self.shelves, Shelves(self.path, self._objects, self.sync)
        before.void()
        with self._lock:
            self._used -= sum(self._sizes.values())
            self._sizes.clear()

    def clear(self) -> None:
        """Take all objects of this fingerprint away, in one step: a death in the middle leaves none of them.

        What is written and not committed stays. The files are removed by `bury`, later or by whoever comes next.
        """
        self.void()
        self.shelves.sweep_into(self._swept)

    def bury(self) -> int:
        """Remove what `clear` took away; how many files that were."""
        return bury_swept(self._swept)

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, namespace: str, key: bytes, into: Sequence[bytearray | memoryview], name: str | None = None) -> None:
        """The bytes of a block, into these pieces end to end, looked at before this returns.

        Errors: `ObjectError` with BLOCK_NOT_FOUND where there is none, and with what is wrong with it otherwise; the
        pieces then hold anything.
        """
        wanted = name or self.name_of(namespace, key), namespace, key, into
        (outcome,) = self.read_each([wanted], bytes_in(into))
        if outcome is not None:
            raise outcome

    def read_each(
        self, wanted: Sequence[Wanted], length: int, unwanted: Unwanted | None = None
    ) -> list[Exception | None]:
        """Several blocks of so many bytes, as `read`: what was wrong with each, as far as all were wanted."""
        return read_each(self._objects, self.seal, wanted, length, unwanted)

    def check(self, namespace: str, key: bytes, pieces: Sequence[Buffer]) -> None:
        """Are these the bytes of that object? Its header is read, its bytes are not. Errors: as `read`, and stage
        verify.
        """
        name = self.name_of(namespace, key)
        try:
            file = os.open(self._place(name), READ)
        except FileNotFoundError:
            raise ObjectError(Code.BLOCK_NOT_FOUND, "verify", f"there is no file {name}") from None
        try:
            said, _ = head(self.seal, file, "verify")
        finally:
            os.close(file)
        check_header(self.seal, said, namespace, key, pieces, "verify")
        self.seal.check_bytes(said, pieces, "verify")

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

    @staticmethod
    def name_of(namespace: str, key: bytes) -> str:
        """The name of a key's file."""
        return name_of(namespace, key)

    def path_of(self, which: str | int) -> str:
        """Where an object lies, by the name of its file, or what was written under a number."""
        return self._part(which) if isinstance(which, int) else self._place(which)

    def _drop(self, name: str) -> int:
        """Count an object out; its bytes. Needs the lock."""
        return self._sizes.pop(name, 0)

    def _place(self, name: str) -> str:
        return f"{self._objects}/{name[0]}/{name}"

    def _part(self, number: int) -> str:
        return f"{self._mine}/{number}.part"
