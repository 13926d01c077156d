"""An engine that allocates its device blocks by itself, and does not always keep to what it was asked.

As far as it is honest it gives only blocks that are free there and that it was not asked to keep. A *theft* is that it
hands a block on to a request that another one has, or that it was asked to keep; how many there may be is the scope's
to say. The new owner computes into the block like into any, and may store it, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvstate.explore.scopes import Request
from kvstate.machines.books import Books
from kvstate.machines.keybook import NONE, Name
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Hold, Unhold
from kvstate.machines.tables.foreign import State as F
from kvstate.machines.tables.key import State as K
from kvstate.machines.tables.transfer import State as X
from kvstate.machines.verdicts import Given

if TYPE_CHECKING:
    from kvstate.explore.matter import Flight, Run
    from kvstate.explore.world import World

IN_USE = {int(F.OWNED), int(F.LOADING)}
"""The states of a block that the engine has given to somebody."""


@dataclass(slots=True)
class Allocator:
    """What the engine knows of its blocks, which are those below `count`; 0 where the ledger has all of them."""

    count: int = 0
    given: dict[int, tuple[int, BlockRef]] = field(default_factory=dict)
    """By block: the number of the run that has it, and the reference that it got."""
    asked: dict[int, int] = field(default_factory=dict)
    """The blocks that it was asked to keep, and the lives of which that was said."""
    stolen: set[tuple[int, int]] = field(default_factory=set)
    """Block and tenant of those lives that began with a theft."""
    wrong: list[str] = field(default_factory=list)
    """What was seen broken in the middle of an input."""
    steals: int = 0
    """How often it may still hand on what it should not."""

    def hear(self, effect: Hold | Unhold) -> None:
        """Keep the block, or go on with it. Law L3: a hold whose life is still the block's is taken back once."""
        block, life = effect.ref
        if isinstance(effect, Hold):
            if block in self.asked or block in self.given:
                self.wrong.append(f"L3.hold: block {block} is to be kept, and is kept already, or somebody has it")
            self.asked[block] = life
        elif self.asked.pop(block, None) != life:
            self.wrong.append(f"L3.hold: block {block} is given back, and was not held in life {life}")

    def free(self) -> list[int]:
        """The blocks that an honest engine may give."""
        return [block for block in range(self.count) if block not in self.given and block not in self.asked]

    def prey(self, number: int) -> list[int]:
        """The blocks that a thief may give to that run."""
        others = [block for block, (run, _) in self.given.items() if run != number]
        return sorted({*others, *self.asked})

    # -- what it tells -------------------------------------------------------------------------------------------------

    def take(self, ledger: Ledger, world: World, number: int, blocks: list[int]) -> list[BlockRef]:
        """The engine gives free blocks to a run."""
        given = ledger.foreign_allocated(blocks)
        return self._handed(world, number, given)

    def steal(self, ledger: Ledger, world: World, number: int, block: int) -> list[BlockRef]:
        """It hands on what another has, or what it was asked to keep."""
        report = ledger.foreign_allocated if block in self.asked else ledger.foreign_reused
        self.steals -= 1
        self.asked.pop(block, None)
        self.stolen.add((block, world.tenants[block] + 1))
        return self._handed(world, number, report([block]))

    def _handed(self, world: World, number: int, given: object) -> list[BlockRef]:
        refs = list(given.refs) if isinstance(given, Given) else []
        world.hand([ref.block for ref in refs])
        self.given.update({ref.block: (number, ref) for ref in refs})
        return refs

    def give_back(self, ledger: Ledger, number: int, refs: list[BlockRef | None]) -> list[BlockRef]:
        """A run is over, or loses its blocks: the engine frees what it gave it, and what it thinks that it gave it."""
        mine = [ref for run, ref in self.given.values() if run == number]
        freed = [*mine, *(ref for ref in refs if ref is not None and ref not in mine)]
        for ref in mine:
            del self.given[ref.block]
        ledger.foreign_freed(freed)
        return freed

    def free_again(self, ledger: Ledger) -> int:
        """It frees once more what is free there, or was asked of it; returns how many blocks that were."""
        idle = [block for block in range(self.count) if block not in self.given]
        if idle:
            ledger.foreign_freed([BlockRef(block, ledger.books.engine.generation[block]) for block in idle])
        return len(idle)

    # -- what must be true ---------------------------------------------------------------------------------------------

    def overtaken(self, world: World, flight: Flight) -> bool:
        """Has a block that this copy touches been given away under it?"""
        return any(block < self.count and world.tenants[block] != tenant for block, tenant in flight.tenants)

    def look(self, world: World, books: Books) -> Iterator[str]:
        """The laws about the engine's blocks that are broken now."""
        yield from self.wrong
        for serial, flight in world.flights.items():
            for block, tenant in flight.tenants:
                if block < self.count and world.tenants[block] > tenant and (block, tenant + 1) not in self.stolen:
                    yield f"L3.hold: block {block} was given on under t{serial}, and nobody had asked to keep it"
        for block in range(self.count):
            held = books.engine.state[block] == F.HELD
            if held != (self.asked.get(block) == books.engine.generation[block]):
                yield f"L3.hold: block {block} is {'' if held else 'not '}held, and the engine was told otherwise"
            if (block in self.given) != (books.engine.state[block] in IN_USE):
                yield f"L3.engine: block {block} is in use for the engine or for the ledger, and not for both"
        told, states = books.column("transfer", "told"), books.column("transfer", "state")
        for block, batch in books.engine.filling.items():
            if books.engine.state[block] != F.LOADING and not told[batch] and states[batch] != X.ABORTING:
                yield f"L3.foreign_dst: block {block} is not the load's any more, and the batch goes on"

    def condemned(self, books: Books, flight: Flight) -> Iterator[str]:
        """L5: what a copy found that was overtaken is no evidence against a key."""
        for name in (Name(pool, "main", key) for pool in range(1, len(books.pools)) for key in flight.work.keys):
            slot = books.keys.find(*name)
            if slot != NONE and books.keys.state[slot] == K.CONDEMNED:
                yield f"L5.innocent: key {name.key.decode()} pays for what another's bytes were"

    def form(self, new: dict[int, int]) -> tuple[object, ...]:
        """What of it tells two states apart, with blocks by their new numbers."""
        given = tuple(sorted((new[block], run) for block, (run, _) in self.given.items()))
        return given, tuple(sorted(new[block] for block in self.asked)), self.steals


def own(request: Request, run: Run, world: World) -> list[tuple[int, BlockRef]]:
    """The places of a run whose blocks the engine believes to be its own."""
    number, given = world.number(run), world.allocator.given
    mine = {ref for of, ref in given.values() if of == number}
    return [(place, ref) for place, ref in enumerate(run.refs[: len(request.keys)]) if ref is not None and ref in mine]
