"""Objects of one rank beside small pools, and the parts that a ledger would send."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from kvstate.errors import Code
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.messages import Adopt, Kind, Report, Sweep, Token, Undo, Work
from kvstate.runtime.tiers.objects.copier import make_objects
from kvstate.runtime.tiers.objects.objects import Objects
from kvstate.runtime.tiers.objects.settings import StoreConfig
from tests.runtime.parts import fill, holds, key, pools

BLOCK = 8192
DEVICE, HOST, SLOTS = 8, 4, 6
BASE = DEVICE + HOST
"""The first block of the store."""
SPACE = "a"


def ledger(slots: int = SLOTS) -> LedgerConfig:
    """Two pools in memory, and one that stands for a store."""
    return LedgerConfig(
        (
            PoolConfig("device", DEVICE),
            PoolConfig("host", HOST),
            PoolConfig("store", slots, durable=True, shared=True, verify=True, copier="store"),
        )
    )


def slot(number: int) -> int:
    """The block number of a slot of the store."""
    return BASE + number


class Rig:
    """One process's side of a store; another `Rig` with the same URL is another process."""

    def __init__(
        self, url: str, *, fingerprint: str = "model 1", block_bytes: int = BLOCK, slots: int = SLOTS, rank: int = 0,
        summed: bool = True, compare: bool = False, **settings: Any,
    ) -> None:  # fmt: skip
        self.url = url
        self.memory = pools(block_bytes, DEVICE, HOST)
        config = StoreConfig(url=url, fingerprint=fingerprint, **settings)
        self.objects: Objects = make_objects(config, ledger(slots), self.memory, rank, summed=summed, compare=compare)
        self.bucket = self.objects.versions.bucket
        self._serials = count(1)

    def work(self, kind: Kind, src: Sequence[int], dst: Sequence[int], keys: Sequence[int], space: str = SPACE) -> Work:
        names = tuple(key(number) for number in keys)
        token = Token(1, next(self._serials))
        return Work(token, kind.value, 0, "store", 1, tuple(src), tuple(dst), names, 0, (space,))

    def store(self, slots: Sequence[int], keys: Sequence[int], **more: Any) -> Report:
        """Write the content of the keys into device blocks, and these into memory of ours."""
        src = range(len(slots))
        fill(self.memory, src, [key(number) for number in keys])
        return self.objects.carry(self.work(Kind.STORE, src, [slot(one) for one in slots], keys, **more))

    def persist(self, slots: Sequence[int], keys: Sequence[int], **more: Any) -> Report:
        return self.objects.carry(self.work(Kind.PERSIST, [slot(one) for one in slots], (), keys, **more))

    def put(self, slots: Sequence[int], keys: Sequence[int], **more: Any) -> Token:
        """Store and persist; the token of the persist."""
        stored = self.store(slots, keys, **more)
        assert stored.failures == (), stored
        report = self.persist(slots, keys, **more)
        assert report.failures == (), report
        return report.token

    def fetch(self, slots: Sequence[int], keys: Sequence[int], kind: Kind = Kind.FETCH, **more: Any) -> Report:
        return self.objects.carry(self.work(kind, [slot(one) for one in slots], range(len(slots)), keys, **more))

    def seek(self, keys: Sequence[int], **more: Any) -> list[bool]:
        """Which of them are there? Only of a seek that was answered."""
        report = self.objects.carry(self.work(Kind.SEEK, (), (), keys, **more))
        assert report.outcome == "done", report
        missing = {failure.line for failure in report.failures}
        return [line not in missing for line in range(len(keys))]

    def serves(self, name: int, *, number: int = 0, **more: Any) -> bool:
        """Are the bytes of that key to be had? Never any other's, and a block that gets none keeps what it had."""
        self.adopt([number], [name], **more)
        before = b"what was there before"
        fill(self.memory, [0], [before])
        done = self.fetch([number], [name], **more).outcome == "done"
        assert holds(self.memory, [0], [key(name) if done else before]), "wrong bytes were served"
        return done

    def undo(self, token: Token, slots: Sequence[int], keys: Sequence[int]) -> None:
        names = tuple(key(number) for number in keys)
        self.objects.undo(Undo(token, 0, "store", tuple(slot(one) for one in slots), names))
        assert self.objects.settle(30)

    def adopt(self, slots: Sequence[int], keys: Sequence[int], space: str = SPACE) -> None:
        names = tuple(key(number) for number in keys)
        self.objects.adopt(Adopt(0, "store", tuple(slot(one) for one in slots), (space,) * len(slots), names))

    def reset(self) -> None:
        self.objects.sweep(Sweep(0, "store", everything=True))

    def name(self, number: int, space: str = SPACE) -> str:
        """Where the object of a key lies."""
        return self.objects.names.of(space, key(number))

    def raw(self, number: int) -> bytes:
        """What lies there now; empty for nothing."""
        got = self.bucket.get(self.name(number), 1 << 30, "fetch")
        return b"" if got is None else bytes(got.data)

    def plant(self, number: int, data: bytes) -> None:
        """Put these bytes there, whatever is there now."""
        self.bucket._api.put(self.bucket._store, self.name(number), data)

    def close(self) -> None:
        assert self.objects.close(30)


def codes(report: Report) -> list[tuple[int, Code, str]]:
    """Line, code and stage of each failure."""
    return [(failure.line, Code(failure.code), failure.stage) for failure in report.failures]


def secret_file(folder: Path, byte: int) -> Path:
    """A file with a secret."""
    path = folder / f"secret-{byte}"
    path.write_bytes(bytes([byte]) * 32)
    path.chmod(0o600)
    return path
