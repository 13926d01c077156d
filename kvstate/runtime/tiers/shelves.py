"""The sixteen folders in which objects lie side by side, held open by those who put objects there.

A rename into a folder that is held open ends in *that* folder, wherever it is by then. So what was begun before a reset
and comes late ends among what the reset took away, and nobody has to wait for a rename that a disk takes its time over.
No link is followed in the place of a shelf.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from kvstate.errors import Code
from kvstate.runtime.tiers.files import check_own, sync_folder
from kvstate.runtime.tiers.sealed import ObjectError
from kvstate.runtime.tiers.settings import Sync

HEX: Final = "0123456789abcdef"
"""The names of shelves: an object lies in the one that its own name begins with."""
_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def name_of(namespace: str, key: bytes) -> str:
    """The name of a key's file: a hash of namespace and key, whose ends can't be moved against each other."""
    space = namespace.encode()
    return hashlib.blake2b(len(space).to_bytes(8, "little") + space + key, digest_size=16).hexdigest()


class Shelf:
    """A folder that is open, until nobody needs it any more."""

    __slots__ = ("file",)

    def __init__(self, path: str) -> None:
        """Opens it; errors: `OSError`, for a link, too."""
        self.file = -1
        self.file = os.open(path, _OPEN)

    def __del__(self) -> None:
        if self.file >= 0:
            os.close(self.file)


class Shelves:
    """Those of the objects between two resets. Any thread may call any method; to `void` them is for one."""

    def __init__(self, root: Path, objects: str, sync: Sync) -> None:
        """`objects` is the folder with the shelves, somewhere below `root`."""
        self._root, self._objects, self._sync = root, objects, sync
        self._open: dict[str, Shelf] = {}
        self.is_void = False
        """Has a reset ended them?"""

    def void(self) -> None:
        """Nothing that is put there from now on is to be found. To be called before they are taken away."""
        self.is_void = True
        self._open = {}

    def take(self, letter: str) -> Shelf:
        """One of them. Errors: `FileNotFoundError` where there is none, `ObjectError` with CANCELLED after a reset."""
        shelf = self._open.get(letter)
        if shelf is None:
            opened = self._open
            shelf = Shelf(f"{self._objects}/{letter}")
            if self.is_void:  # it may be one that was made after the reset
                raise ObjectError(Code.CANCELLED, "commit", "what was there was swept away")
            opened[letter] = shelf
        return shelf

    def make(self, letter: str) -> Shelf:
        """One of them, where nobody has needed it so far, or somebody has removed it. Errors: as `take`."""
        self._open.pop(letter, None)
        Path(self._objects).mkdir(0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            Path(f"{self._objects}/{letter}").mkdir(0o700)
        if self._sync is Sync.FULL:
            for folder in (self._objects, self._root / "objects", self._root):
                sync_folder(folder)
        return self.take(letter)

    def sweep_into(self, swept: Path) -> None:
        """Take what is on them away, in one step, and begin anew. Errors: `OSError`."""
        swept.mkdir(mode=0o700, exist_ok=True)
        objects = Path(self._objects)
        with suppress(FileNotFoundError):
            objects.rename(swept / uuid4().hex)
            if self._sync is not Sync.NONE:  # else a power cut undoes the reset
                sync_folder(swept)
                sync_folder(objects.parent)
        with suppress(FileExistsError):
            objects.mkdir(0o700)

    def settle(self, names: Iterable[str]) -> None:
        """Have the renames to these names on the disk, if that was promised. Errors: `OSError`."""
        if self._sync is Sync.FULL:
            for letter in {name[0] for name in names}:
                sync_folder(f"{self._objects}/{letter}")


def check_shelves(objects: Path) -> None:
    """Are those that are there folders of this user, and no links? Errors: `PermissionError`."""
    for letter in HEX:
        with suppress(FileNotFoundError):
            check_own(objects / letter)
