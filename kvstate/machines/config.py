"""What a ledger is told once, at its birth. Seconds, blocks and counts; nothing here changes later."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from enum import StrEnum

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
    foreign: bool = False
    """The engine has an allocator of its own for this pool, and tells what it does with each block; for the device
    only. Then nothing is allocated or sealed here, and no key names a device block. See `Allocator`."""
    shared: bool = False
    """Others write and delete what its blocks stand for: a hit is a hint, and `verify` is a must. With `durable` it is
    a store that is asked and written to; without, it is what a peer offers, and nothing is stored there. See `Shared`.
    """


class GroupKind(StrEnum):
    """What a token attends to in the layers of a KV group."""

    FULL = "full"
    """All tokens before it."""
    SLIDING = "sliding"
    """The last `window` tokens, itself included."""
    MLA = "mla"
    """All tokens before it, through a latent vector of each. To the ledger it is as FULL."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """A KV group: layers whose blocks cover the same tokens and are kept, looked up and given back together.

    Block i of a group covers the tokens from `i * tokens_per_block` on, as many as the block has. The blocks of all
    groups are of one size in bytes and come from the same pools: what a page holds is the group's own matter.
    """

    name: str
    """Goes into the key space of the group; not empty, and without an `@`."""
    tokens_per_block: int = 16
    kind: GroupKind = GroupKind.FULL
    """As a member or as its word."""
    window: int | None = None
    """Tokens; for SLIDING, and for no other."""


@dataclass(frozen=True, slots=True)
class LedgerConfig:
    """The settings of one ledger. Errors: `ConfigError` for a value that can't work."""

    pools: tuple[PoolConfig, ...]
    """The device first, then the tiers below it, nearest first."""
    tokens_per_block: int = 16
    """The size of a block; verdicts and hits count in tokens. Where there are groups, theirs counts."""
    groups: tuple[GroupConfig, ...] = ()
    """The KV groups of the model, where it has several kinds of attention layers or layers with a window; empty: all
    layers attend to all tokens, and there is one list of keys. See `groups`."""
    ranks: int = 1
    """Workers that each hold a shard of every block; a part runs on one rank."""
    attempts: int = 2
    """How often a job or a batch is tried in all, first attempt included."""
    part_blocks: int = 64
    """At most so many blocks go into one part: one token, one report. Smaller parts cost more of the owner's time."""
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
            if pool.foreign and pool is not self.pools[DEVICE]:
                raise ConfigError(
                    f"pools: {pool.name} is foreign; only the first pool, the device, can be the engine's"
                )
            if pool.shared and (pool is self.pools[DEVICE] or not pool.verify):
                why = "it is the device" if pool is self.pools[DEVICE] else "its blocks are taken as read"
                raise ConfigError(
                    f"pools: {pool.name} is shared and {why}; share a pool below the device, with verify = true"
                )
        check_groups(self.groups)
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


def check_groups(groups: tuple[GroupConfig, ...]) -> None:
    """Errors: `ConfigError` for a group that can't work."""
    listed = groups if type(groups) is tuple else (groups,)
    wrong = [one for one in listed if type(one) is not GroupConfig]
    if wrong:
        raise ConfigError(f"groups: {wrong[0]!r} is no GroupConfig; give a tuple of them")
    taken = Counter(group.name for group in groups)
    for group in groups:
        name, kinds = group.name, ", ".join(GroupKind)
        if type(name) is not str or not name or "@" in name or taken[name] > 1:
            raise ConfigError(f"groups: the name {name!r} is empty, taken twice or has an @; give each group its own")
        if type(group.tokens_per_block) is not int or group.tokens_per_block < 1:
            raise ConfigError(
                f"groups: {name} has {group.tokens_per_block!r} tokens in a block; give a whole number, 1 at least"
            )
        if group.kind not in tuple(GroupKind):
            raise ConfigError(f"groups: {name} is {group.kind!r}; there are {kinds}")
        if group.kind != GroupKind.SLIDING and group.window is not None:
            raise ConfigError(f"groups: {name} is {group.kind} and has a window; only a sliding group has one")
        if group.kind == GroupKind.SLIDING and (type(group.window) is not int or group.window < 1):
            raise ConfigError(
                f"groups: {name} is sliding over {group.window!r} tokens; give a window of 1 token at least"
            )
