"""What stands in shared pools: named when it is announced or found, and dropped when it is said to be gone."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final

from kvstate.machines import bulk
from kvstate.machines.books import Pool
from kvstate.machines.groups import by_space
from kvstate.machines.keybook import NONE
from kvstate.machines.messages import NO_BLOCKS, NO_REFS, Adopt, BlockRefs, Cancel, Kind, Token, Work
from kvstate.machines.records import Lease, Part, Seek
from kvstate.machines.seek_acts import strike
from kvstate.machines.steps import Steps
from kvstate.machines.tables.block import Event as B
from kvstate.machines.tables.key import Event as K
from kvstate.machines.tables.part import Event as P
from kvstate.machines.verdicts import Announced, Refusal, Sought

LINES: Final = 16_384
"""Of one `Adopt`, so that no message is too long for a channel."""
Name = tuple[str, bytes]
"""Key space and key."""


class Shareds(Steps):
    """The requests of `Shared`; see there for what they promise."""

    __slots__ = ()

    # -- announced, and gone -------------------------------------------------------------------------------------------

    def announce(self, pool: int, names: Sequence[Name]) -> Announced | Refusal:
        """Name a block for each that is new."""
        refused = self.admit()
        if refused is None and not self._is_shared(pool):
            refused = Refusal(f"pool {pool} is no shared pool: what lies there is known here, and not announced")
        return self._announced(pool, names) if refused is None else refused

    def _announced(self, pool: int, names: Sequence[Name]) -> Announced:
        """Reserve, seal and name as many blocks as can be had, and let them rest: the tail is to leave first."""
        books, ports = self.books, self.ports
        first = {name: line for line, name in reversed(self.new_names(pool, names))}
        lines = sorted(first.values())
        known = self._resting(pool, names)
        ports.block.each(known, B.SHARE)  # or they would be evicted for what is named along with them
        blocks = self.room(pool, len(lines))
        refs, lines = books.refs(blocks), lines[: len(blocks)]
        named = [names[line] for line in lines]
        self.name_in(pool, blocks, named)
        books.turn += 1
        ports.block.each(bulk.backwards(blocks), B.RELEASE)
        ports.block.each(bulk.backwards(known), B.RELEASE)
        for rank in range(books.config.ranks):
            self.adopt(rank, books.pools[pool], refs, named)
        return Announced(refs, tuple(lines))

    def vanish(self, pool: int, names: Sequence[Name]) -> int | Refusal:
        """Drop these keys, as far as there is a hit to drop; those that are being sought there are not found."""
        if not self._is_shared(pool):
            return Refusal(f"pool {pool} is no shared pool: what lies there goes when it is evicted or reset")
        for space, key in names:
            number = self.books.seeks.sought.get(space, {}).get(key, 0)
            seek = self.books.seeks.live.get(number)
            if seek is not None and seek.pool == pool:
                seek.missing.add(seek.keys.index(key))
                strike(self.books, seek, [key])
        slots = [self.books.keys.find(pool, *name) for name in names]
        return sum(self.ports.key.ask(slot, K.VANISH) for slot in slots if slot != NONE)

    def _is_shared(self, pool: int) -> bool:
        pools = self.books.pools
        return 0 < pool < len(pools) and pools[pool].config.shared

    def _resting(self, pool: int, names: Sequence[Name]) -> array[int]:
        """The blocks that these names have there."""
        keys = self.books.keys
        slots = [keys.find(pool, *name) for name in names]
        blocks = (keys.blocks[slot] for slot in slots if slot != NONE)
        return array("q", dict.fromkeys(block for block in blocks if block != NONE))

    # -- what naming takes ---------------------------------------------------------------------------------------------

    def new_names(self, pool: int, names: Sequence[Name]) -> list[tuple[int, Name]]:
        """Those of the names that the pool has no bytes of, with their places."""
        return [(line, (name[0], name[1])) for line, name in enumerate(names) if self._is_new(pool, name)]

    def _is_new(self, pool: int, name: Name) -> bool:
        slot = self.books.keys.find(pool, *name)
        return slot == NONE or self.ports.key.choose(slot, K.OFFER)

    def name_in(self, pool: int, blocks: array[int], names: Sequence[Name]) -> None:
        """Seal these reserved blocks and publish them under these names, a block each. Nobody looks at bytes here."""
        self.ports.block.each(blocks, B.SEAL)
        for space, places in by_space([space for space, _ in names]).items():
            slots = self.books.keys.make(pool, space, [names[place][1] for place in places])
            here = bulk.gather(blocks, places)
            self.books.keys.link(slots, here)
            self.ports.key.each(slots, K.OFFER)
            self.ports.block.each(here, B.PUBLISH)

    def adopt(self, rank: int, pool: Pool, refs: BlockRefs, names: Sequence[Name]) -> None:
        """Tell a rank which block stands for what."""
        for start in range(0, len(names), LINES):
            some = names[start : start + LINES]
            spaces, keys = tuple(space for space, _ in some), tuple(key for _, key in some)
            blocks = tuple(refs.blocks[start : start + LINES])
            self.books.effects.append(Adopt(rank, pool.config.copier, blocks, spaces, keys))

    # -- asked for -----------------------------------------------------------------------------------------------------

    def seek(
        self, lease: Lease, keys: Sequence[bytes], pool: int, deadline: float, group: int | None
    ) -> Sought | Refusal:
        """Send the question down, to every rank: a key is there when each of them has its piece of it."""
        books = self.books
        if not self._is_shared(pool) or not books.pools[pool].config.durable:
            return Refusal(f"pool {pool} can't be asked; a pool that is shared and durable can")
        if lease.epoch != books.epoch:
            return Refusal(f"lease {lease.id} is from before the reset: it finds nothing")
        space = self.space(lease, group)
        if isinstance(space, Refusal):
            return space
        lines = self._unknown(pool, space, keys)
        if not lines:
            return Refusal("nothing to seek: each of these keys is a hit, or known there, or being sought")
        wanted = tuple(keys[line] for line in lines)
        seek = Seek(books.next_id(), pool, space, wanted)
        books.seeks.enter(seek)
        return Sought(tuple(self._ask(seek, deadline)), lines)

    def _unknown(self, pool: int, space: str, keys: Sequence[bytes]) -> tuple[int, ...]:
        """The places of the keys that are worth asking for, each once."""
        books, choose = self.books, self.ports.key.choose
        sought = books.seeks.sought.get(space, {})
        others = [books.keys.index(number, space) for number in range(len(books.pools)) if number != pool]
        first = {key: line for line, key in reversed(list(enumerate(keys)))}
        return tuple(
            line
            for line, key in enumerate(keys)
            if first[key] == line
            and key not in sought
            and self._is_new(pool, (space, key))
            and not any(key in index and choose(index[key], K.HIT) for index in others)
        )

    def _ask(self, seek: Seek, deadline: float) -> Iterator[Token]:
        """A part for each rank, and for so many keys as go into one."""
        books, size = self.books, self.books.config.part_blocks
        copier = books.pools[seek.pool].config.copier
        for rank in range(books.config.ranks):
            for first in range(0, len(seek.keys), size):
                keys = seek.keys[first : first + size]
                part = Part(
                    books.parts.slot(), books.mint(), Kind.SEEK, rank, copier, 1, None, NO_BLOCKS, NO_BLOCKS, NO_REFS,
                    keys, books.now,
                )  # fmt: skip
                books.enter_part(part)
                books.seeks.by_part[part.slot] = seek
                seek.waits[part.slot] = first
                self.ports.part.signal(part.slot, P.LAUNCH)
                books.arm(deadline, "part", "timeout", part.slot)
                books.effects.append(Work(part.token, Kind.SEEK.value, rank, copier, 1, (), (), keys, 0, (seek.space,)))
                yield part.token

    def conclude(self) -> None:
        """As ever; and what was found by then is named."""
        super().conclude()
        while self.books.seeks.answered:
            seek = self.books.seeks.answered.pop(0)
            self._announced(
                seek.pool, [(seek.space, key) for at, key in enumerate(seek.keys) if at not in seek.missing]
            )
            super().conclude()

    def _call_off(self) -> None:
        """Nobody waits for an answer any more. Those who look are asked to stop, and what they say finds nobody."""
        books = self.books
        books.effects += [Cancel(books.parts[slot].token) for slot in books.seeks.by_part]
        books.seeks.clear()

    def forget(self) -> int:
        """As ever; and what is found from here on is of an epoch that is over."""
        self._call_off()
        return super().forget()

    def drain(self) -> bool | Refusal:
        """As ever; and nothing is sought any more."""
        drained = super().drain()
        if drained:
            self._call_off()
        return drained
