"""A ledger whose device blocks an engine allocates by itself, and that engine, driven by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvstate.machines.config import PoolConfig
from kvstate.machines.messages import BlockRef, BlockRefs, Hold, Unhold
from kvstate.machines.tables.foreign import State as F
from kvstate.machines.verdicts import Freed, Given, Started, Stored
from tests.machines.rig import Rig, keys

POOLS = (PoolConfig("device", 4, foreign=True), PoolConfig("host", 6, verify=True))


class Engine(Rig):
    """A ledger whose device is the engine's, and the engine that gives and takes its blocks."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**{"pools": POOLS, "part_blocks": 2, "attempts": 2, **config})

    def gives(self, *blocks: int) -> BlockRefs:
        given = self.ledger.foreign_allocated(blocks)
        assert isinstance(given, Given), given
        return given.refs

    def frees(self, refs: Sequence[BlockRef]) -> BlockRefs:
        freed = self.ledger.foreign_freed(refs)
        assert isinstance(freed, Freed), freed
        assert freed
        return freed.held

    def store(self, refs: Sequence[BlockRef], *numbers: int, lease: int = 0) -> int:
        stored = self.ledger.offload(lease or self.open(), refs, keys=keys(*numbers))
        assert isinstance(stored, Stored), stored
        assert stored.refs == list(refs)
        return stored.job

    def stored(self, *numbers: int) -> None:
        """These keys are in the host pool, and the engine has its blocks back."""
        refs = self.gives(*range(len(numbers)))
        self.store(refs, *numbers)
        self.finish_all()
        assert self.frees(refs) == []
        self.verdicts()

    def fill(self, refs: BlockRefs, *numbers: int, lease: int = 0, deadline: float = 10.0) -> tuple[int, int]:
        """A load of these keys into these blocks: its lease and number."""
        lease = lease or self.open()
        started = self.ledger.load(lease, self.lookup(lease, *numbers), refs, deadline=deadline)
        assert isinstance(started, Started), started
        return lease, started.load

    def is_(self, block: int) -> str:
        return F(self.books.engine.state[block]).name.lower()

    def holds(self) -> list[Hold | Unhold]:
        return [effect for effect in self.effects() if isinstance(effect, Hold | Unhold)]
