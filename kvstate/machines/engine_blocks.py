"""What the books keep of device blocks whose allocator is the engine's own (`spec/foreign.toml`).

Only where the first pool is `foreign`. Its blocks have the same numbers as elsewhere, so their records are the first of
the foreign table, and the block table has the first as many for nobody, in the state in which they were born.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from kvstate.machines import bulk
from kvstate.machines.config import DEVICE, LedgerConfig
from kvstate.machines.messages import NO_BLOCKS
from kvstate.machines.table import Table


class EngineBlocks:
    """The blocks of the engine's own: the numbers below `count`; 0 where all pools are the ledger's."""

    __slots__ = ("count", "filling", "generation", "stained", "state")

    def __init__(self, config: LedgerConfig, table: Table) -> None:
        device = config.pools[DEVICE]
        self.count = device.blocks if device.foreign else 0
        table.extend(self.count)
        self.generation: array[int] = _column(table, "generation")
        """The life of each, as far as the engine has told: the foreign table's own column, as the next two."""
        self.state: array[int] = _column(table, "state")
        self.stained: array[int] = _column(table, "stained")
        self.filling: dict[int, int] = {}
        """By block that a batch brings bytes to: the slot of the batch, until that is over or its load has left it."""

    def lives(self, blocks: Sequence[int], generation: array[int]) -> array[int]:
        """The lives of these blocks, of which any may be of a lower tier; `generation` has those."""
        if not self.count:
            return bulk.gather(generation, blocks)
        here, mine = self.count, self.generation
        low, high = bulk.bounds(blocks) if isinstance(blocks, array) and blocks else (0, here)
        if high < here or low >= here:
            return bulk.gather(mine if high < here else generation, blocks)
        return array("q", [mine[block] if block < here else generation[block] for block in blocks])

    def of_tiers(self, blocks: array[int]) -> array[int]:
        """Those that are the ledger's own. What is touched together is of one pool; or, where a check reads source and
        destination, the first are of one and the others of another.
        """
        if not self.count or not blocks or min(blocks[0], blocks[-1]) >= self.count:
            return blocks
        if max(blocks[0], blocks[-1]) < self.count:
            return NO_BLOCKS
        return array("q", [block for block in blocks if block >= self.count])

    def of_engine(self, blocks: array[int]) -> array[int]:
        """Those that are the engine's; likewise."""
        if not blocks or max(blocks[0], blocks[-1]) < self.count:
            return blocks
        if min(blocks[0], blocks[-1]) >= self.count:
            return NO_BLOCKS
        return array("q", [block for block in blocks if block < self.count])

    def fetch_after(self, steps: Iterable[int]) -> int:
        """The step after which a load may begin to write; `steps` are those under way.

        It is the last of them for a block of the engine's: the ledger does not know which of them still writes there.
        """
        return max(steps, default=0) if self.count else 0

    def fill(self, batch: int, blocks: Iterable[int]) -> None:
        """From here on the batch in this slot brings bytes to these blocks."""
        if self.count:
            self.filling.update(dict.fromkeys(blocks, batch))

    def forget(self, batch: int, blocks: Iterable[int]) -> None:
        """The batch does so no more; another one may have been given a block meanwhile, and keeps it."""
        for block in blocks if self.filling else ():
            if self.filling.get(block) == batch:
                del self.filling[block]


def _column(table: Table, name: str) -> array[int]:
    column = table.columns[name]
    assert isinstance(column, array), f"{table.name}.{name} is no column"
    return column
