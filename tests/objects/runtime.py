"""A runtime whose lowest tier is an object store, and requests of one block each."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.verdicts import Ending, Hit, JobVerdict, LoadVerdict, Refusal
from kvstate.runtime.answers import Done
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.settings import RuntimeConfig
from kvstate.runtime.tiers.objects.copier import StoreCopier
from kvstate.runtime.tiers.objects.objects import Objects
from kvstate.runtime.tiers.objects.settings import StoreConfig
from kvstate.runtime.tiers.settings import DiskConfig
from tests.runtime.parts import fill, holds, key
from tests.runtime.rig import got

BLOCK = 4096
DEVICE = 4
PATIENCE = 60.0


def config(
    url: str, *, slots: int = 8, ranks: int = 1, disk: Path | None = None, ledger: dict[str, Any] | None = None,
    store: dict[str, Any] | None = None, **more: Any,
) -> RuntimeConfig:  # fmt: skip
    """Device, host, perhaps a disk, and a store."""
    pools = [PoolConfig("device", DEVICE), PoolConfig("host", DEVICE, verify=more.get("integrity") == "host")]
    if disk is not None:
        pools.append(PoolConfig("disk", 8, durable=True, copier="disk"))
        more["disk"] = DiskConfig(path=disk, fingerprint="model 1", sync="none")  # type: ignore[arg-type]
    pools.append(PoolConfig("store", slots, durable=True, shared=True, verify=True, copier="store"))
    settings = {"url": url, "fingerprint": "model 1", **(store or {})}
    waits = {"pending_for": PATIENCE, **(ledger or {})}
    return RuntimeConfig(
        ledger=LedgerConfig(tuple(pools), ranks=ranks, **waits),
        block_bytes=BLOCK,
        store=StoreConfig(**settings),
        **more,
    )


class Serving:
    """A runtime, and requests of one block each."""

    def __init__(self, settings: RuntimeConfig) -> None:
        self.kv = KVRuntime(settings)
        self.store_pool = len(settings.ledger.pools) - 1
        self.turns: list[Done] = []
        self.failed: list[Any] = []
        """The errors of all verdicts."""

    def turn(self) -> Done:
        self.turns.append(self.kv.poll())
        assert self.turns[-1].fatal is None, self.turns[-1].fatal
        for loaded in self.turns[-1].verdicts:
            self.failed += loaded.errors
        for stored in self.turns[-1].jobs:
            self.failed += stored.errors
        return self.turns[-1]

    def until_told(self, of: str) -> Any:
        """The first verdict of loads or jobs that comes."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            for verdict in getattr(self.turn(), of):
                return verdict
            self.kv.wait(0.02)
        raise AssertionError(f"no verdict of {of}")

    def store(self, *numbers: int, pool: int | None = None) -> list[Ending]:
        """Compute a block for each key and store it; how that ended."""
        ended = []
        for number in numbers:
            lease = got(self.kv.open("a"))
            refs = got(self.kv.allocate(lease, 1)).blocks
            if self.kv.memories:
                fill(self.kv.memories[0], [refs[0].block], [key(number)])
            got(self.kv.seal(lease, refs, [key(number)]))
            got(self.kv.offload(lease, refs, pool=self.store_pool if pool is None else pool))
            verdict: JobVerdict = self.until_told("jobs")
            ended.append(verdict.ending)
            self.kv.finish(lease)
        self.forget()
        return ended

    def forget(self) -> None:
        """Evict all that the device has."""
        lease = got(self.kv.open("a"))
        while not self.kv.allocate(lease, DEVICE):  # a copy that was given up holds a block until it is over
            self.turn()
            self.kv.wait(0.02)
        self.kv.finish(lease)

    def look(self, *numbers: int, seek: bool = True) -> Hit:
        """Ask the store, wait for its answer, and look up; the lease stays open."""
        lease, keys = got(self.kv.open("a")), [key(number) for number in numbers]
        if seek:
            self.kv.seek(lease, keys, pool=self.store_pool, deadline=self.kv.now() + PATIENCE)
        return self.hit(lease, keys)

    def hit(self, lease: int, keys: list[bytes]) -> Hit:
        end = time.monotonic() + PATIENCE
        hit: Hit | Refusal = self.kv.lookup(lease, keys)
        while isinstance(hit, Hit) and hit.pending and time.monotonic() < end:
            self.turn()
            self.kv.wait(0.02)
            hit = self.kv.lookup(lease, keys)
        assert isinstance(hit, Hit), hit
        return hit

    def load(
        self, number: int, *, seek: bool = True, within: float = PATIENCE, checked: bool = True
    ) -> LoadVerdict | None:
        """Look a key up and load it; None if it is a miss. What is loaded is right."""
        hit = self.look(number, seek=seek)
        if not hit.below:
            self.kv.finish(hit.lease)
            return None
        refs = got(self.kv.allocate(hit.lease, 1)).blocks
        got(self.kv.load(hit.lease, hit, refs, deadline=self.kv.now() + within))
        verdict: LoadVerdict = self.until_told("verdicts")
        if verdict.blocks and self.kv.memories and checked:
            assert holds(self.kv.memories[0], [refs[0].block], [key(number)]), "wrong bytes were served"
        self.kv.finish(hit.lease)
        self.forget()
        return verdict

    def comes(self, number: int, **more: Any) -> bool:
        """Do the bytes of that key come from below?"""
        verdict = self.load(number, **more)
        return verdict is not None and verdict.blocks == 1

    @property
    def objects(self) -> Objects:
        copier = self.kv.copiers[0]["store"]
        assert isinstance(copier, StoreCopier)
        return copier.objects

    def codes(self) -> list[tuple[str, str]]:
        """Code and stage of each failure since the last call."""
        taken, self.failed = self.failed, []
        return [(error.code.name, error.stage) for error in taken]

    def ends(self) -> None:
        left = self.kv.shutdown(PATIENCE)
        assert not left, left
