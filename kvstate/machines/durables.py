"""What rests in durable pools: taken in at a start, and removed where its bytes are void."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

from kvstate.machines import bulk
from kvstate.machines.books import Pool
from kvstate.machines.messages import BlockRefs, Sweep
from kvstate.machines.shareds import Name, Shareds
from kvstate.machines.tables.block import Event as B
from kvstate.machines.tables.key import Event as K
from kvstate.machines.verdicts import Recovered, Refusal


class Durables(Shareds):
    """The requests of `Durable`; see there for what they promise."""

    __slots__ = ()

    def recover(self, pool: int, names: Sequence[tuple[str, bytes]]) -> Recovered | Refusal:
        """Reserve, seal and name a block for each, and let it rest. Nobody looks at bytes here."""
        books = self.books
        refused = self.admit()
        if refused is not None:
            return refused
        if not 0 < pool < len(books.pools) or not books.pools[pool].config.durable:
            return Refusal(f"pool {pool} is no durable pool below the device: nothing outlives the process there")
        room = len(books.pools[pool].free)
        lines = sorted({name: line for line, name in self.new_names(pool, names)}.values())
        lines = lines[max(len(lines) - room, 0) :]
        blocks, named = bulk.run(self._reserved(pool, len(lines))), [names[line] for line in lines]
        self.name_in(pool, blocks, named)
        books.turn += 1
        self.ports.block.each(blocks, B.RELEASE)
        refs = books.refs(blocks)
        self._adopt(books.pools[pool], refs, named)
        return Recovered(refs, tuple(lines))

    def _reserved(self, pool: int, count: int) -> array[int]:
        """So many free blocks of the pool, of which there are as many."""
        got = self.take(pool, count)
        assert isinstance(got, array), f"pool {pool} was said to have {count} free blocks"
        return got

    def _adopt(self, pool: Pool, refs: BlockRefs, names: Sequence[Name]) -> None:
        """Tell every rank which block holds what, and that all else is to go."""
        for rank in range(self.books.config.ranks):
            self.adopt(rank, pool, refs, names)
            self.books.effects.append(Sweep(rank, pool.config.copier, everything=False))

    def kept(self, pool: int) -> list[tuple[str, bytes]]:
        """The keys that a lookup would pin, in the order in which they were named."""
        keys, choose = self.books.keys, self.ports.key.choose
        here = [(keys.uids[slot], name) for slot, name in keys.names() if name.pool == pool and choose(slot, K.HIT)]
        return [(name.namespace, name.key) for _, name in sorted(here)]

    def reset(self, *, keep_durable: bool = False) -> int:
        """Forget all keys, and have the objects of durable pools removed."""
        dropped = self.forget()
        for copier, rank in () if keep_durable else self._keepers():
            self.books.effects.append(Sweep(rank, copier, everything=True))
        return dropped

    def _keepers(self) -> Iterator[tuple[str, int]]:
        books = self.books
        for copier in dict.fromkeys(pool.config.copier for pool in books.pools if pool.config.durable):
            for rank in range(books.config.ranks):
                yield copier, rank
