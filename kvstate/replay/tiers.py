"""What a replay stores where: the settings of its tiers, and who writes down what they ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvstate.machines.messages import BlockRef
from kvstate.machines.verdicts import Closed, Refusal, Stored
from kvstate.replay.config import ReplayConfig
from kvstate.replay.stack import Stack
from kvstate.tiering import TierConfig, Write

HOST: Final = 1
"""The number of the host pool. What lies below it is as slow as the settings make it."""
ON_THEIR_WAY: Final = 4096
"""Blocks at most that are on their way into one of these."""

LOW: Final = 0.5
"""What the tier above keeps while the rest is on its way down. A disk is far behind, since nothing is computed here."""
WRITTEN_BACK: Final = 256
"""Blocks at most that are written back in one turn; a turn takes in a whole request, so more than an engine's."""


def tiers_of(config: ReplayConfig, stack: Stack) -> tuple[TierConfig, ...]:
    """The tiers of this stack. The host is given everything, as far as there is room in it."""
    pools = stack.ledger.config.pools
    return tuple(
        TierConfig(
            pool=pool.name,
            write=Write.THROUGH if number == HOST else Write(config.tiers),
            inflight_blocks=max(pool.blocks if number == HOST else min(pool.blocks, ON_THEIR_WAY), 1),
            low=LOW,
            turn_blocks=WRITTEN_BACK,
            store_for=stack.offload_seconds,
        )
        for number, pool in enumerate(pools)
        if number >= HOST
    )


class Noted:
    """The ledger of a stack, as far as tiers ask it. Each request is written down when it was answered."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack

    def open(self, namespace: str) -> int | Refusal:
        """As `Ledger.open`."""
        lease = self._stack.ledger.open(namespace)
        if isinstance(lease, int):
            self._stack.note("open", lease=lease)
        return lease

    def offload(
        self,
        lease: int,
        blocks: Sequence[BlockRef],
        *,
        pool: int = 1,
        deadline: float | None = None,
        keys: Sequence[bytes] | None = None,
        group: int | None = None,
    ) -> Stored | Refusal:
        """As `Ledger.offload`."""
        stored = self._stack.ledger.offload(lease, blocks, pool=pool, deadline=deadline, keys=keys, group=group)
        self._stack.note("offload", lease=lease)
        return stored

    def finish(self, lease: int) -> Closed | Refusal:
        """As `Ledger.finish`."""
        closed = self._stack.ledger.finish(lease)
        self._stack.note("finish", lease=lease)
        return closed
