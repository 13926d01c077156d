"""The memory and the copiers of a rank, as the settings of a runtime say, where an engine brings none of its own.

What needs torch is imported when it is made: a scheduler whose workers are processes names `guest`, and makes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvstate.machines.config import ConfigError
from kvstate.runtime.copiers import Copier
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.processes import Guest
from kvstate.runtime.settings import RuntimeConfig
from kvstate.runtime.tiers.settings import durable_pool
from kvstate.runtime.worker import Worker

if TYPE_CHECKING:
    from kvstate.runtime.memory import Memory


def memory_of(config: RuntimeConfig) -> Memory:
    """A pool on the CPU for each of the ledger's, numbered through, device first; none for one that lies on a disk."""
    from kvstate.runtime.memory import Memory, Pool

    pools, base = [], 0
    for pool in config.ledger.pools:
        if not (pool.durable and config.disk):
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

    durable = durable_pool(config.ledger)
    if durable is not None and config.disk is None:
        raise ConfigError(
            f"ledger.pools: {durable.name} is durable, and nothing here keeps it; say in disk where, make it volatile, "
            'or bring workers of your own (workers = "own")'
        )
    lower = [pool for pool in config.ledger.pools[1:] if pool is not durable]
    names = dict.fromkeys(pool.copier for pool in lower) or {config.ledger.pools[0].copier: None}
    setting, integrity = config.copier.value, Integrity(config.integrity.value)
    copiers: dict[str, Copier] = {}
    try:
        for name in names:
            copiers[name] = make_copier(
                memory, inbox, name=name, setting=setting, integrity=integrity, threads=config.threads
            )
        if durable is not None and config.disk is not None:
            from kvstate.runtime.tiers.copier import DiskCopier, make_disk

            disk = make_disk(config.disk, config.ledger, memory, rank, summed=integrity is not Integrity.OFF)
            copiers[durable.copier] = DiskCopier(disk, memory, inbox, config.disk.threads)
    except BaseException:
        for copier in copiers.values():
            copier.close(0.0)
        raise
    return copiers


def guest(config: RuntimeConfig, rank: int, incarnation: int) -> Guest:
    """What runs in a process of ours, with memory of its own."""
    inbox = Inbox()
    return Guest(Worker(rank, incarnation, copiers_of(config, inbox, memory_of(config), rank), inbox))
