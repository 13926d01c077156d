"""The memory and the copiers of a rank, as the settings of a runtime say, where an engine brings none of its own.

What needs torch is imported when it is made: a scheduler whose workers are processes names `guest`, and makes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvstate.machines.config import ConfigError, LedgerConfig
from kvstate.runtime.copiers import Copier
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.processes import Guest
from kvstate.runtime.settings import RuntimeConfig
from kvstate.runtime.tiers.objects.settings import store_pool
from kvstate.runtime.tiers.settings import durable_pool
from kvstate.runtime.worker import Worker

if TYPE_CHECKING:
    from kvstate.runtime.memory import Memory
    from kvstate.runtime.tiers.folder import Folder
    from kvstate.runtime.tiers.objects.kept import Source


def memory_of(config: RuntimeConfig) -> Memory:
    """A pool on the CPU for each of the ledger's, numbered through, device first; none for one that lies on a disk, or
    stands for what others have.
    """
    from kvstate.runtime.memory import Memory, Pool

    pools, base = [], 0
    for pool in config.ledger.pools:
        if not (pool.shared or (pool.durable and config.disk)):
            pools.append(Pool(pool.name, base, pool.blocks, config.block_bytes))
        base += pool.blocks
    return Memory(pools)


def copiers_of(config: RuntimeConfig, inbox: Inbox, memory: Memory, rank: int = 0) -> dict[str, Copier]:
    """A copier within `memory` for each name that a pool has, and one for the disk, if there is one.

    Errors: what the copier raises that was chosen; `ConfigError` for a durable pool without a disk, and for a disk
    that can't be used.
    """
    from kvstate.runtime.copiers.choice import make_copier
    from kvstate.runtime.copy import Integrity

    durable, stored = durable_pool(config.ledger), store_pool(config.ledger)
    for pool, given, what in ((durable, config.disk, "disk where"), (stored, config.store, "store which")):
        if pool is not None and given is None:
            raise ConfigError(
                f"ledger.pools: {pool.name} is durable, and nothing here keeps it; say in {what}, make it volatile, or "
                'bring workers of your own (workers = "own")'
            )
    lower = [pool for pool in config.ledger.pools[1:] if not (pool.shared or pool is durable)]
    names = dict.fromkeys(pool.copier for pool in lower) or {config.ledger.pools[0].copier: None}
    setting, integrity = config.copier.value, Integrity(config.integrity.value)
    copiers: dict[str, Copier] = {}
    try:
        for name in names:
            copiers[name] = make_copier(
                memory, inbox, name=name, setting=setting, integrity=integrity, threads=config.threads
            )
        summed, compare = integrity is not Integrity.OFF, integrity.of_memory
        source = None
        if durable is not None and config.disk is not None:
            from kvstate.runtime.tiers.copier import DiskCopier, make_disk

            disk = make_disk(config.disk, config.ledger, memory, rank, summed=summed)
            copiers[durable.copier] = DiskCopier(disk, memory, inbox, config.disk.threads)
            source = files_of(disk.folder, config.ledger)
        if stored is not None and config.store is not None:
            from kvstate.runtime.tiers.objects.copier import StoreCopier, make_objects

            objects = make_objects(
                config.store, config.ledger, memory, rank, summed=summed, compare=compare, source=source
            )
            copiers[stored.copier] = StoreCopier(objects, memory, inbox, config.store.concurrency)
            objects.look_around()
        if config.peers is not None:
            from kvstate.runtime.peers.made import make_peer_copier

            peer = make_peer_copier(config.peers, config.ledger, memory, inbox, rank, integrity)
            copiers[peer.name] = peer
    except BaseException:
        for copier in copiers.values():
            copier.close(0.0)
        raise
    return copiers


def files_of(folder: Folder, ledger: LedgerConfig) -> Source:
    """Reads the blocks of the disk's pool, for who stores them further down. Errors are those of `Folder.read`."""
    number = next(number for number, pool in enumerate(ledger.pools) if pool is durable_pool(ledger))
    base = sum(pool.blocks for pool in ledger.pools[:number])
    blocks = range(base, base + ledger.pools[number].blocks)

    def read(block: int, space: str, key: bytes, into: memoryview) -> bool:
        if block in blocks:
            folder.read(space, key, [into])
        return block in blocks

    return read


def guest(config: RuntimeConfig, rank: int, incarnation: int) -> Guest:
    """What runs in a process of ours, with memory of its own."""
    inbox = Inbox()
    return Guest(Worker(rank, incarnation, copiers_of(config, inbox, memory_of(config), rank), inbox))
