"""What a ledger is told once, at its birth. Seconds, blocks and counts; nothing here changes later."""

from __future__ import annotations

from dataclasses import dataclass, fields

MAX_BLOCKS = 2**31
"""In one pool; far beyond any memory, and far below what a column of the tables holds."""
MAX_BATCHES = 48
"""Of one load. What one batch sets off in the next is a step deeper in the cascade, and calls nest only so deep."""
MAX_ATTEMPTS = 32
"""The wait doubles with each attempt, and beyond so many it would be years."""
DEVICE = 0
"""The number of the pool on which the engine computes, the first one."""
ENGINE = "engine"
"""The copier name of parts that no copier runs: steps and holds."""


class ConfigError(ValueError):
    """A configuration that can't work; the sentence names the field and the remedy."""


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """One tier of blocks. The first pool of a ledger is the device; the others lie below it, nearest first."""

    name: str
    blocks: int
    """How many blocks the pool has (may be 0 for a tier that is switched off)."""
    durable: bool = False
    """A store into this pool ends only when a worker has answered a `persist`; else it ends with the copy."""
    verify: bool = False
    """A load from this pool is compared with its seal before it counts; else it is taken as read."""
    copier: str = "cpu"
    """The name of the copier that moves blocks between the device and this pool."""


@dataclass(frozen=True, slots=True)
class LedgerConfig:
    """The settings of one ledger. Errors: `ConfigError` for a value that can't work."""

    pools: tuple[PoolConfig, ...]
    """The device first, then the tiers below it, nearest first."""
    tokens_per_block: int = 16
    """The size of a block; verdicts and hits count in tokens."""
    ranks: int = 1
    """Workers that each hold a shard of every block; a part runs on one rank."""
    attempts: int = 2
    """How often a job or a batch is tried in all, first attempt included."""
    part_blocks: int = 16
    """At most so many blocks go into one part: one token, one report."""
    batch_blocks: int = 64
    """At most so many blocks are loaded all or nothing; a longer load is a list of batches. Where that would make more
    than `MAX_BATCHES`, they are as much larger."""
    max_jobs: int = 256
    """Offload jobs under way at once; further ones wait in `queued`."""
    grace: float = 1.0
    """Seconds between the end of a wait (deadline, cancel, abort) and the lapse that gives up what has not stopped."""
    retry_delay: float = 0.05
    """Seconds before the second attempt; doubled for each further one."""
    cool_for: float = 1.0
    """Seconds for which a key whose load failed for no fault of its bytes is a miss."""
    pending_for: float = 1.0
    """Seconds for which a lookup answers "pending" for a key that is being loaded; then it is a miss."""
    offload_for: float = 30.0
    """Seconds until an offload that was given no deadline expires."""
    step_for: float = 60.0
    """Seconds until a compute step that was not retired is given up (its blocks are then quarantined)."""
    incarnation: int = 1
    """Which life of the process this is; goes into every token."""

    def __post_init__(self) -> None:
        if not self.pools:
            raise ConfigError("pools: a ledger needs at least one pool; the first one is the device")
        names = [pool.name for pool in self.pools]
        for pool in self.pools:
            if names.count(pool.name) > 1 or not pool.name:
                raise ConfigError(f"pools: the name {pool.name!r} is empty or taken twice; give each pool its own")
            if pool.copier == ENGINE:
                raise ConfigError(
                    f"pools: no copier may be called {ENGINE!r}: steps and holds are the engine's own parts"
                )
            if type(pool.blocks) is not int:
                raise ConfigError(f"pools: {pool.name} has {pool.blocks!r} blocks; give a whole number")
            if not 0 <= pool.blocks <= MAX_BLOCKS:
                raise ConfigError(f"pools: {pool.name} has {pool.blocks} blocks; it must be 0 to {MAX_BLOCKS}")
        for name in ("tokens_per_block", "ranks", "attempts", "part_blocks", "batch_blocks", "max_jobs", "incarnation"):
            value = getattr(self, name)
            if type(value) is not int:
                raise ConfigError(f"{name}: {value!r} is no whole number; give one of at least 1")
            if value < 1:
                raise ConfigError(f"{name}: {value} is too small; it must be at least 1")
        if self.attempts > MAX_ATTEMPTS:
            raise ConfigError(
                f"attempts: {self.attempts} is too large; the wait doubles with each, at most {MAX_ATTEMPTS}"
            )
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type != "float":
                continue
            if not isinstance(value, int | float) or isinstance(value, bool):
                raise ConfigError(f"{field.name}: {value!r} is not a number of seconds")
            if not 0 <= value < float("inf"):
                raise ConfigError(f"{field.name}: {value} is not a number of seconds")
