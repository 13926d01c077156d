"""A disk beside small pools, and the parts that a ledger would send."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from kvstate.errors import Code
from kvstate.machines.messages import Adopt, Kind, Report, Sweep, Token, Undo, Work
from kvstate.runtime.tiers.disk import Disk
from kvstate.runtime.tiers.folder import Folder
from kvstate.runtime.tiers.sealed import Seal, Sum
from kvstate.runtime.tiers.settings import Sync
from tests.runtime.parts import fill, holds, key, pools

BLOCK = 256
DEVICE, HOST, SLOTS = 8, 4, 6
BASE = DEVICE + HOST
"""The first block of the disk."""
SPACE = "a"


def kills() -> int:
    """How often a process is killed in one test."""
    return int(os.environ.get("KVSTATE_KILLS", "3"))


def slot(number: int) -> int:
    """The block number of a slot of the disk."""
    return BASE + number


class Rig:
    """One disk in a folder; `again` is the next process in the same one."""

    def __init__(self, path: Path, *, fingerprint: str = "model 1", slots: int = SLOTS, **options: Any) -> None:
        self.path = path
        self.memory = pools(BLOCK, DEVICE, HOST)
        seal = Seal(fingerprint, algorithm=options.pop("algorithm", Sum.XXH3), secret=options.pop("secret", None))
        sync = options.pop("sync", Sync.NONE)
        self.folder = Folder(path, seal, sync=sync, **options)
        self.disk = Disk(self.folder, self.memory, BASE, slots)
        self._serials = count(1)

    def again(self, **options: Any) -> Rig:
        """As after the death of the process: nothing is closed but the lock, which the system lets go of."""
        die(self.folder)
        return Rig(self.path, **options)

    def work(self, kind: Kind, src: Sequence[int], dst: Sequence[int], keys: Sequence[int], space: str = SPACE) -> Work:
        names = tuple(key(number) for number in keys)
        token = Token(1, next(self._serials))
        return Work(token, kind.value, 0, "disk", 1, tuple(src), tuple(dst), names, 0, (space,))

    def store(self, slots: Sequence[int], keys: Sequence[int], src: Sequence[int] | None = None, **more: Any) -> Report:
        """Write the content of the keys into device blocks, and these into slots."""
        src = range(len(slots)) if src is None else src
        fill(self.memory, src, [key(number) for number in keys])
        return self.disk.carry(self.work(Kind.STORE, src, [slot(one) for one in slots], keys, **more))

    def persist(self, slots: Sequence[int], keys: Sequence[int], **more: Any) -> Report:
        return self.disk.carry(self.work(Kind.PERSIST, [slot(one) for one in slots], (), keys, **more))

    def put(self, slots: Sequence[int], keys: Sequence[int], **more: Any) -> Token:
        """Store and persist; the token of the persist."""
        stored = self.store(slots, keys, **more)
        assert stored.failures == (), stored
        report = self.persist(slots, keys, **{name: more[name] for name in more if name != "src"})
        assert report.failures == (), report
        return report.token

    def fetch(self, slots: Sequence[int], keys: Sequence[int], kind: Kind = Kind.FETCH, **more: Any) -> Report:
        return self.disk.carry(self.work(kind, [slot(one) for one in slots], range(len(slots)), keys, **more))

    def serves(self, number: int, name: int, **more: Any) -> bool:
        """Does the slot give the bytes of that key? Never any other's."""
        fill(self.memory, [0], [b"what was there before"])
        done = self.fetch([number], [name], **more).outcome == "done"
        assert not done or holds(self.memory, [0], [key(name)]), "wrong bytes were served"
        return done

    def undo(self, token: Token, slots: Sequence[int], keys: Sequence[int]) -> None:
        names = tuple(key(number) for number in keys)
        self.disk.undo(Undo(token, 0, "disk", tuple(slot(one) for one in slots), names))
        assert self.disk.settle(10)

    def adopt(self, slots: Sequence[int], keys: Sequence[int], space: str = SPACE) -> None:
        names = tuple(key(number) for number in keys)
        self.disk.adopt(Adopt(0, "disk", tuple(slot(one) for one in slots), (space,) * len(slots), names))

    def sweep(self, *, everything: bool = False) -> None:
        self.disk.sweep(Sweep(0, "disk", everything))
        assert self.disk.settle(10)

    def on_disk(self) -> set[str]:
        """The names of the files of all objects that a start would look at."""
        return set(self.folder.names())

    def names(self, *keys: int) -> set[str]:
        return {self.folder.name_of(SPACE, key(number)) for number in keys}


def die(folder: Folder) -> None:
    """Let go of the lock as the end of a process does, and of nothing else."""
    import os

    if folder._held is not None:
        os.close(folder._held)
        folder._held = None


def codes(report: Report) -> list[tuple[int, Code, str]]:
    """Line, code and stage of each failure."""
    return [(failure.line, Code(failure.code), failure.stage) for failure in report.failures]
