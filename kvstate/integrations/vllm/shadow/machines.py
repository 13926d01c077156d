"""Three of kvstate's machines, without a ledger: the rows decide, and whoever asks hears whether one has fired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvstate.integrations.vllm.shadow.record import Ring
from kvstate.machines.table import REFUSED
from kvstate.machines.tables.block import BlockTable
from kvstate.machines.tables.foreign import ForeignTable
from kvstate.machines.tables.part import PartTable

MOST = 1 << 24
"""So many records of one machine, at most: a number beyond that is no block of anybody's."""


class ShadowError(Exception):
    """What was seen does not fit together: the observer has understood something wrong, and is of no use any more."""


class Machine:
    """The records of one machine, made as they are asked for. Each row that fires goes into the ring.

    Errors: `ShadowError` for a record that can't be.
    """

    def __init__(self, table: Any, ring: Ring, base: int = 0) -> None:
        self.table = table
        """A `Table`, whose columns are read by name."""
        self.base = base
        """What a slot's number begins at in records."""
        self._ring, self._keep = ring, ring.kept.append
        self._state, self._fire = table.state, table.fire
        self._names: Sequence[str] = table.STATES

    def ask(self, slot: int, event: int, number: int | None = None) -> bool:
        """Does a row answer this event? Then it has fired. `number` names the record where that is not its slot's."""
        state, ring = self._state, self._ring
        try:
            before = state[slot]
        except IndexError:
            self._grow(slot)
            before = state[slot]
        row = self._fire(slot, event)
        if row == REFUSED:
            return False
        shown = slot + self.base if number is None else number
        self._keep((ring.now, self.table, row, shown, before, state[slot]))
        ring.rows += 1
        return True

    def must(self, slot: int, event: int, number: int | None = None) -> None:
        """The same, where a refusal can only mean that what was seen is not what has happened."""
        if not self.ask(slot, event, number):
            what = f"{self.table.name} {slot + self.base if number is None else number} is {self.state(slot)}"
            raise ShadowError(f"{what} and can't take {self.table.EVENTS[event]}")

    def state(self, slot: int) -> str:
        """In which state a record is."""
        state: int = self._state[slot] if slot < len(self._state) else self.table.INITIAL
        return self._names[state]

    def count(self) -> int:
        """How many records there are."""
        return len(self.table)

    def _grow(self, slot: int) -> None:
        if not 0 <= slot < MOST:
            raise ShadowError(f"there is no {self.table.name} {slot}")
        self.table.extend(max(slot + 1 - len(self.table), 64))


class Parts(Machine):
    """The parts, whose slots are used again."""

    def __init__(self, ring: Ring) -> None:
        super().__init__(PartTable(), ring)
        self._free: list[int] = []

    def born(self) -> int:
        """The slot of a new one."""
        if not self._free:
            self._free.append(self.table.add())
        slot = self._free.pop()
        self.table.renew(slot)
        return slot

    def leave(self, slot: int) -> None:
        """This one is over, and its slot may be used again."""
        self._free.append(slot)


def foreign(ring: Ring) -> Machine:
    """The blocks of vLLM's allocator."""
    return Machine(ForeignTable(ranks=1), ring)


def host(ring: Ring, base: int) -> Machine:
    """The slots of the host pool, which stand behind `base` blocks of the device."""
    return Machine(BlockTable(ranks=1), ring, base)
