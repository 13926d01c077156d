"""The memory of a replay and who touches it: in this process, for one rank. `shards` is the same for several processes.

A replay writes to blocks as a model does, poisons what is handed out, and compares what was loaded. Where the bytes lie
and who copies them is all behind here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kvstate.machines.config import LedgerConfig
from kvstate.machines.messages import Report
from kvstate.replay.breaks import Broken
from kvstate.replay.chaos import Chaos
from kvstate.replay.chaos_copiers import ChaosThreadCopier, VirtualCopier
from kvstate.replay.config import ReplayConfig
from kvstate.replay.content import check_many, poison_many, write_many
from kvstate.replay.disk import NAME as DISK
from kvstate.replay.disk import disk_copier, disk_of
from kvstate.replay.store import NAME as STORE
from kvstate.replay.store import AnyCopier, objects_of, store_copier
from kvstate.replay.watch import Watch
from kvstate.runtime.clock import Clock, VirtualClock
from kvstate.runtime.copiers.threads import ThreadCopier
from kvstate.runtime.copy import Integrity
from kvstate.runtime.dispatcher import Dispatcher, Link
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory, Pool


class Hardware(Protocol):
    """What a replay needs of it. Blocks are device blocks, by their numbers, each at most once in a call."""

    wrong: int
    """Blocks that did not hold what their key must hold; of the last checks only after `settle`."""

    @property
    def virtual(self) -> Sequence[VirtualCopier]:
        """The copiers that live in virtual time, if any do."""
        ...

    @property
    def seconds(self) -> float:
        """Time that copiers spent on moving bytes, over all ranks."""
        ...

    @property
    def links(self) -> Sequence[Link]:
        """The way to each rank."""
        ...

    def write(self, blocks: Sequence[int], keys: Sequence[bytes]) -> None:
        """A step writes these blocks; whatever is handed out later finds that done."""
        ...

    def poison(self, blocks: Sequence[int], generations: Sequence[int]) -> None:
        """Make these blocks say that they hold nothing in this life."""
        ...

    def check(self, blocks: Sequence[int], keys: Sequence[bytes]) -> None:
        """Every byte of these blocks must be what their keys must hold, now; what is not is counted in `wrong`."""
        ...

    def hear(self, report: Report) -> None:
        """Before the ledger hears this report: tell the watch what happened before it."""
        ...

    def kill(self, rank: int) -> None:
        """End the process of a rank, which some hardware has."""
        ...

    def restart(self, rank: int) -> Link:
        """Another process for a rank whose own is gone."""
        ...

    def settle(self) -> None:
        """Wait until `wrong` and `seconds` tell of all that was asked before."""
        ...

    def close(self) -> None:
        """End threads and processes."""
        ...


def memory_of(config: ReplayConfig) -> Memory:
    """The device pool, from block 0, and behind it the host pool."""
    device, host, size = config.device_blocks, config.host_blocks, config.block_bytes
    return Memory([Pool("device", 0, device, size), Pool("host", device, host, size)])


def chaos_of(config: ReplayConfig) -> Chaos:
    """What may go wrong with the copies of this run."""
    return Chaos(
        fail=config.fail,
        fail_codes=config.fail_codes,
        late=config.late,
        duplicate=config.duplicate,
        lost=config.lost,
        corrupt=config.corrupt,
        delay=(config.delay[0] / 1000, config.delay[1] / 1000),
        seed=config.seed,
    )


def tiers_below(
    config: ReplayConfig, ledger: LedgerConfig, memory: Memory, rank: int, inbox: Inbox, clock: Clock,
    hooks: dict[str, Any],
) -> dict[str, AnyCopier]:  # fmt: skip
    """The copiers of what lies below the host. Errors: as `disk_of` and `objects_of`."""
    copiers: dict[str, AnyCopier] = {}
    disk = None if config.disk is None else disk_of(config, ledger, memory, rank)
    if disk is not None:
        copiers[DISK] = disk_copier(config, disk, memory, inbox, clock, chaos_of(config), **hooks)
    if config.store is not None:
        objects = objects_of(config, ledger, memory, rank, disk)
        copiers[STORE] = store_copier(config, objects, memory, inbox, clock, chaos_of(config), **hooks)
    return copiers


class Local:
    """One rank in this process. In virtual time its copies happen in `advance` alone."""

    def __init__(
        self, config: ReplayConfig, ledger: LedgerConfig, law: Broken, watch: Watch, inbox: Inbox, clock: Clock
    ) -> None:
        """Starts the threads of the copiers; `ledger` has the pools. Errors: as `disk_of`."""
        self.wrong = 0
        """As in `Hardware`."""
        self.memory = memory_of(config)
        """The pools."""
        self.copiers: dict[str, AnyCopier] = {}
        """By name: in virtual time, in threads, or in threads and with a fate for each part."""
        hooks: dict[str, Any] = {"on_land": watch.on_land, "on_submit": law.submit(watch.on_submit)}
        self.copiers.update(tiers_below(config, ledger, self.memory, 0, inbox, clock, hooks))
        self.copiers["cpu"] = self._copier(config, inbox, clock, hooks)
        self.links = [Dispatcher(self.copiers, inbox)]
        """To its only rank."""
        self._array = self.memory.pools[0].array

    def _copier(self, config: ReplayConfig, inbox: Inbox, clock: Clock, hooks: dict[str, Any]) -> AnyCopier:
        chaos = chaos_of(config)
        options: dict[str, Any] = {"integrity": Integrity(config.integrity), **hooks}
        if isinstance(clock, VirtualClock):
            return VirtualCopier(self.memory, inbox, clock, chaos, **options)
        if chaos == Chaos(seed=config.seed):
            return ThreadCopier(self.memory, inbox, config.concurrency, **options)
        return ChaosThreadCopier(self.memory, inbox, clock, chaos, config.concurrency, **options)

    @property
    def virtual(self) -> Sequence[VirtualCopier]:
        """As in `Hardware`."""
        return [copier for copier in self.copiers.values() if isinstance(copier, VirtualCopier)]

    @property
    def seconds(self) -> float:
        """As in `Hardware`."""
        return sum(copier.seconds for copier in self.copiers.values())

    def write(self, blocks: Sequence[int], keys: Sequence[bytes]) -> None:
        """As in `Hardware`."""
        write_many(self._array, blocks, keys)

    def poison(self, blocks: Sequence[int], generations: Sequence[int]) -> None:
        """As in `Hardware`."""
        poison_many(self._array, blocks, blocks, generations)

    def check(self, blocks: Sequence[int], keys: Sequence[bytes]) -> None:
        """As in `Hardware`."""
        self.wrong += len(check_many(self._array, blocks, keys))

    def hear(self, report: Report) -> None:
        """The watch saw everything as it happened."""

    def kill(self, rank: int) -> None:
        """Raises `NotImplementedError`: a run without workers has nobody to kill, and its settings say so."""
        raise NotImplementedError(f"rank {rank} is this process")

    def restart(self, rank: int) -> Link:
        """As `kill`: raises `NotImplementedError`."""
        raise NotImplementedError(f"rank {rank} is this process")

    def settle(self) -> None:
        """All was counted at once."""

    def close(self) -> None:
        """As in `Hardware`."""
        for copier in self.copiers.values():
            copier.close(5.0)
