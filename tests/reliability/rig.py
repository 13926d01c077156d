"""A runtime of three tiers with known bytes in each, and a look at everything: what is a hit, and what is left."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kvstate.errors import KVError
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.messages import BlockRef
from kvstate.machines.tables.block import BlockTable
from kvstate.machines.tables.key import State as K
from kvstate.machines.verdicts import Grant, Hit, JobVerdict, LoadVerdict, Short, Started, Stored
from kvstate.runtime.clock import VirtualClock
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.settings import IntegrityChoice, RuntimeConfig
from kvstate.runtime.tiers.disk import Disk
from kvstate.runtime.tiers.sealed import ObjectError
from kvstate.runtime.tiers.settings import DiskConfig, Sync

SPACE = "tenant/model"
SIZE = 4096
"""Bytes of a block."""
TIERS = {"device": 0, "host": 1, "disk": 2}
BYSTANDERS = {b"host bystander": "host", b"disk bystander": "disk", b"device bystander": "device"}
"""Keys that nothing happens to, and where each rests."""
VICTIMS = {b"in the host": "host", b"on the disk": "disk"}
"""What is loaded while something goes wrong."""
STORED = b"to be stored"
"""What is stored while something goes wrong; it rests on the device."""
DEADLINE, GRACE, LATER = 1.0, 0.5, 60.0
"""Seconds: of an operation, until what is silent is given up, and until all waits of keys are over."""
PATIENCE = 20.0
"""Real seconds for a thread to do what it was told to; it takes milliseconds."""


class Everything(NamedTuple):
    """All that there is at one moment, as far as anybody could tell later."""

    hits: frozenset[tuple[str, bytes]]
    """Tier and key of what a lookup finds there, and whose bytes are really there."""
    void: frozenset[tuple[str, bytes]]
    """What a lookup finds and has other bytes, or none."""
    held: dict[str, int]
    """Blocks that are neither free nor cached nor anybody's, by tier and state."""
    unseen: int
    """Files that a writer has begun and that nobody can find."""
    unnamed: int
    """Objects on the disk that no key names."""
    poisoned: bool


@dataclass
class Told:
    """What came of the operation."""

    ending: str = ""
    tokens: int | None = None
    errors: tuple[KVError, ...] = ()
    stale: int = 0


def content(key: bytes) -> bytes:
    return (key + b" / ").ljust(64, b".") * (SIZE // 64)


@dataclass
class Rig:
    path: Path
    kv: KVRuntime = field(init=False)
    clock: VirtualClock = field(default_factory=VirtualClock)

    def __post_init__(self) -> None:
        pools = (
            PoolConfig("device", 8),
            PoolConfig("host", 8, verify=True),
            PoolConfig("disk", 8, durable=True, copier="disk"),
        )
        ledger = LedgerConfig(pools, grace=GRACE, retry_delay=0.01, cool_for=LATER / 4, offload_for=DEADLINE)
        config = RuntimeConfig(
            ledger=ledger, block_bytes=SIZE, threads=1, integrity=IntegrityChoice.HOST,
            disk=DiskConfig(path=self.path, fingerprint="model 1", sync=Sync.NONE, threads=1),
        )  # fmt: skip
        self.kv = KVRuntime(config, clock=self.clock)

    # -- where the bytes are -------------------------------------------------------------------------------------------

    @property
    def disk(self) -> Disk:
        return self.kv.copiers[0]["disk"].disk  # type: ignore[attr-defined,no-any-return]

    def memory(self, block: int) -> Any:
        return self.kv.memories[0].bytes_of(block)

    def file(self, key: bytes) -> Path:
        return Path(self.disk.folder.path_of(self.disk.folder.name_of(SPACE, key)))

    def block(self, tier: str, key: bytes) -> int:
        slot = self.kv.ledger.books.keys.find(TIERS[tier], SPACE, key)
        return int(self.kv.ledger.books.keys.blocks[slot])

    # -- the loop ------------------------------------------------------------------------------------------------------

    def turns(self, until: Any) -> list[Any]:
        """Poll until that is so; what was told meanwhile."""
        told: list[Any] = []
        end = time.monotonic() + PATIENCE
        while True:
            done = self.kv.poll()
            told += [*done.jobs, *done.verdicts]
            if until(told):
                return told
            assert time.monotonic() < end, f"nothing came: {self.kv.rest()}"
            timer = self.kv.ledger.next_timer()
            if timer is not None and timer <= self.clock.now() + 0.1:  # a retry; nothing else is so near
                self.clock.advance_to(max(timer, self.clock.now()))
            self.kv.wait(0.01)

    def settle(self) -> None:
        self.turns(lambda _: not self.kv.rest())
        assert self.disk.settle(PATIENCE)

    def pass_time(self, seconds: float) -> list[Any]:
        """Time goes by, and what falls due is done."""
        self.clock.advance(seconds)
        done = self.kv.poll()
        return [*done.jobs, *done.verdicts]

    # -- requests ------------------------------------------------------------------------------------------------------

    def sealed(self, *keys: bytes) -> tuple[int, Sequence[BlockRef]]:
        lease = self.kv.open(SPACE)
        assert isinstance(lease, int)
        grant = self.kv.allocate(lease, len(keys))
        assert isinstance(grant, Grant), grant
        for ref, key in zip(grant.blocks, keys, strict=True):
            self.memory(ref.block)[:] = bytearray(content(key))
        assert all(self.kv.seal(lease, grant.blocks, list(keys)))
        return lease, grant.blocks

    def offload(self, lease: int, refs: Sequence[BlockRef], tier: str) -> int:
        job = self.kv.offload(lease, refs, pool=TIERS[tier], deadline=self.clock.now() + DEADLINE)
        assert isinstance(job, Stored), job
        self.kv.take_effects()
        return job.job

    def load(self, key: bytes) -> tuple[int, int]:
        """Lease and number of the load."""
        lease = self.kv.open(SPACE)
        assert isinstance(lease, int)
        hit = self.kv.lookup(lease, [key])
        assert isinstance(hit, Hit), hit
        assert hit.below, hit
        grant = self.kv.allocate(lease, 1)
        assert isinstance(grant, Grant), grant
        self.memory(grant.blocks[0].block)[:] = 0
        started = self.kv.load(lease, hit, grant.blocks, deadline=self.clock.now() + DEADLINE)
        assert isinstance(started, Started), started
        self.kv.take_effects()
        return lease, started.load

    def flush(self) -> None:
        """Evict what is cached on the device."""
        lease = self.kv.open(SPACE)
        assert isinstance(lease, int)
        got = self.kv.allocate(lease, 10**6)
        assert isinstance(got, Short)
        assert self.kv.allocate(lease, got.free)
        self.kv.finish(lease)

    def fill(self) -> None:
        """Every tier holds what it is to hold, and nothing else."""
        below = {key: tier for key, tier in (*BYSTANDERS.items(), *VICTIMS.items()) if tier != "device"}
        for key, tier in below.items():
            lease, refs = self.sealed(key)
            self.offload(lease, refs, tier)
            self.turns(lambda told: told)
            self.kv.finish(lease)
        self.flush()
        for key in (b"device bystander", STORED):
            lease, _ = self.sealed(key)
            self.kv.finish(lease)
        self.settle()

    # -- a look at everything ------------------------------------------------------------------------------------------

    def look(self) -> Everything:
        books = self.kv.ledger.books
        hits: set[tuple[str, bytes]] = set()
        void: set[tuple[str, bytes]] = set()
        pools = list(TIERS)
        for slot, name in books.keys.names():
            if books.keys.state[slot] not in (K.READY, K.COOLING):
                continue
            where = (pools[name.pool], name.key)
            good = self._bytes(name.pool, books.keys.blocks[slot], name.key) == content(name.key)
            (hits if good else void).add(where)
        held = {}
        for pool in books.pools:
            for state, count in zip(BlockTable.STATES, pool.counts, strict=True):
                if count and state not in ("free", "cached", "active", "open"):
                    held[f"{pool.config.name} {state}"] = count
        folder = self.disk.folder
        named = {folder.name_of(SPACE, key) for tier, key in hits | void if tier == "disk"}
        unseen = len(list(self.path.glob("rank-0/writers/*/*.part")))
        there = set(folder.names()) if self.path.exists() else set()
        return Everything(
            frozenset(hits), frozenset(void), held, unseen, len(there - named), self.kv.ledger.fatal is not None
        )

    def _bytes(self, pool: int, block: int, key: bytes) -> bytes:
        """What is there; nothing for an object that can't be read."""
        if pool != TIERS["disk"]:
            return bytes(self.memory(block))
        seal, path = self.disk.folder.seal, self.file(key)
        try:  # not by the folder, of which a part may be broken on purpose
            data = b"" if path.is_symlink() or not path.is_file() else path.read_bytes()
            said, begin = seal.read(data, "look")
            seal.check_name(said, SPACE, key, "look")
            seal.check_bytes(said, [data[begin:]], "look")
        except (ObjectError, OSError):
            return b""
        return data[begin:]

    def served(self, key: bytes) -> bytes | None:
        """The bytes that a load brings to the device, if it brings any."""
        lease, load = self.load(key)
        told = self.turns(lambda told: any(isinstance(one, LoadVerdict) and one.load == load for one in told))
        verdict = next(one for one in told if isinstance(one, LoadVerdict) and one.load == load)
        bytes_ = bytes(self.memory(self.block("device", key))) if verdict.tokens else None
        self.kv.finish(lease)
        return bytes_

    def close(self) -> None:
        self.kv.close()


def verdict_of(told: Sequence[Any], number: int) -> Any:
    """The verdict of the job or load of this number, among what was told."""
    for one in told:
        if (isinstance(one, JobVerdict) and one.job == number) or (isinstance(one, LoadVerdict) and one.load == number):
            return one
    return None


@contextmanager
def rig_in(path: Path) -> Iterator[Rig]:
    rig = Rig(path)
    try:
        rig.fill()
        yield rig
    finally:
        rig.close()
