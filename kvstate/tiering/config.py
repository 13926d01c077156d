"""What is wanted of each tier below the device: one frozen value a tier, checked when it is made.

A tier is fed from the next one above it that is on. With `through` it is given each block as soon as the tier above has
it, with `back` only what the tier above is about to evict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kvstate.machines.config import DEVICE, MAX_BLOCKS, ConfigError, LedgerConfig

MAX_SECONDS: Final = 86_400.0
"""A day: a store that takes longer is a mistake."""


class Write(StrEnum):
    """When a tier is given what the tier above it has."""

    THROUGH = "through"
    """At once. What found no room in flight is made up for before it is evicted, where the tier above is no device."""
    BACK = "back"
    """When the tier above is fuller than `high`: what it would evict first, down to `low`, before it is evicted."""
    OFF = "off"
    """Never. What lies below is fed past it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierConfig:
    """The settings of one tier. Words may stand for members of `Write`. Errors: `ConfigError` for what can't work."""

    pool: str
    """The name of the pool, one below the device."""
    write: Write = Write.THROUGH
    """When it is given what the tier above has."""
    promote: bool = True
    """What was loaded from further below is stored here as well."""
    high: float = 0.9
    """Share of the pool *above*, in blocks that are not free: with more, what that pool evicts first is written back.
    """
    low: float = 0.75
    """Share of the pool above down to which it could be emptied without losing a byte, once that was done. The rest
    of it, 1 - `low`, is also what stores into this tier may read of it at once."""
    inflight_blocks: int = 1024
    """So many blocks at most are on their way into this tier. A store that finds no room is dropped, and counted."""
    turn_blocks: int = 64
    """So many blocks at most are written back in one turn."""
    store_for: float = 30.0
    """Seconds until a store into this tier expires."""

    def __post_init__(self) -> None:
        if type(self.pool) is not str or not self.pool:
            raise ConfigError(f"pool: {self.pool!r} is no name; give that of a pool below the device")
        if self.write not in tuple(Write):
            raise ConfigError(f"write: {self.write!r} is none of {', '.join(Write)}")
        object.__setattr__(self, "write", Write(self.write))
        if type(self.promote) is not bool:
            raise ConfigError(f"promote: {self.promote!r} is neither true nor false")
        for name in ("high", "low"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise ConfigError(f"{name}: {value!r} is no share; give a number from 0 to 1")
        if self.low > self.high:
            raise ConfigError(f"low: {self.low} is above high, which is {self.high}; give the smaller number to low")
        for name in ("inflight_blocks", "turn_blocks"):
            value = getattr(self, name)
            if type(value) is not int or not 1 <= value <= MAX_BLOCKS:
                raise ConfigError(f"{name}: {value!r} is no number of blocks; give one from 1 to {MAX_BLOCKS}")
        seconds: object = self.store_for
        if type(seconds) not in (int, float) or not 0 < self.store_for <= MAX_SECONDS:
            raise ConfigError(f"store_for: {seconds!r} is no time to wait; give seconds, up to {MAX_SECONDS:.0f}")


def check_tiers(tiers: Sequence[TierConfig], ledger: LedgerConfig) -> None:
    """Errors: `ConfigError` for tiers that do not fit the pools of this ledger."""
    below = [pool.name for pool in ledger.pools[1:] if pool.durable or not pool.shared]  # to a peer nothing is stored
    seen: set[str] = set()
    for number, tier in enumerate(tiers):
        if not isinstance(tier, TierConfig):
            raise ConfigError(f"tiers[{number}]: {type(tier).__name__} is no TierConfig; give one with a pool's name")
        if tier.pool not in below or tier.pool in seen:
            what = "is named twice" if tier.pool in seen else "is no pool below the device"
            raise ConfigError(f"tiers[{number}].pool: {tier.pool} {what}; there are {', '.join(below) or 'none'}")
        seen.add(tier.pool)
    wired = fed(tiers, ledger)
    if wired and ledger.pools[DEVICE].foreign and wired[0].config.write is Write.BACK:
        raise ConfigError(
            f"tiers: {wired[0].config.pool} is to be written back from a device pool that is foreign, and no key names "
            'a block there; take write = "through"'
        )


@dataclass(frozen=True, slots=True)
class Feed:
    """One tier that is on, and where it is fed from."""

    pool: int
    """The number of its pool; so is `above` of the one that feeds it."""
    above: int
    most: int
    """Blocks that are on their way into it, at most."""
    config: TierConfig
    """Its settings."""


def fed(tiers: Sequence[TierConfig], ledger: LedgerConfig) -> tuple[Feed, ...]:
    """The tiers that are on, nearest first. A pool without blocks is off."""
    named = {tier.pool: tier for tier in tiers}
    feeds: list[Feed] = []
    for number, pool in enumerate(ledger.pools):
        tier = named.get(pool.name)
        if number != DEVICE and pool.blocks and tier is not None and tier.write is not Write.OFF:
            above = feeds[-1].pool if feeds else DEVICE
            feeds.append(Feed(number, above, _most(tier, above, ledger.pools[above].blocks), tier))
    return tuple(feeds)


def _most(tier: TierConfig, above: int, blocks: int) -> int:
    """A block that is read can't be evicted. So a slow tier may have a part of the one above it, and not all."""
    if above == DEVICE:
        return tier.inflight_blocks
    return min(tier.inflight_blocks, max(blocks - int(tier.low * blocks), 1))
