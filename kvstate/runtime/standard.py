"""The memory and the copiers of a rank, as the settings of a runtime say, where an engine brings none of its own.

What needs torch is imported when it is made: a scheduler whose workers are processes names `guest`, and makes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvstate.runtime.copiers import Copier
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.processes import Guest
from kvstate.runtime.settings import RuntimeConfig
from kvstate.runtime.worker import Worker

if TYPE_CHECKING:
    from kvstate.runtime.memory import Memory


def memory_of(config: RuntimeConfig) -> Memory:
    """A pool on the CPU for each of the ledger's, numbered through, device first."""
    from kvstate.runtime.memory import Memory, Pool

    pools, base = [], 0
    for pool in config.ledger.pools:
        pools.append(Pool(pool.name, base, pool.blocks, config.block_bytes))
        base += pool.blocks
    return Memory(pools)


def copiers_of(config: RuntimeConfig, inbox: Inbox, memory: Memory) -> dict[str, Copier]:
    """A copier within `memory` for each name that a pool has. Errors: what the copier raises that was chosen."""
    from kvstate.runtime.copiers.choice import make_copier
    from kvstate.runtime.copy import Integrity

    names = dict.fromkeys(pool.copier for pool in config.ledger.pools[1:]) or {config.ledger.pools[0].copier: None}
    setting, integrity = config.copier.value, Integrity(config.integrity.value)
    return {
        name: make_copier(memory, inbox, name=name, setting=setting, integrity=integrity, threads=config.threads)
        for name in names
    }


def guest(config: RuntimeConfig, rank: int, incarnation: int) -> Guest:
    """What runs in a process of ours, with memory of its own."""
    inbox = Inbox()
    return Guest(Worker(rank, incarnation, copiers_of(config, inbox, memory_of(config)), inbox))
