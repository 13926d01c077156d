"""How many blocks of each pool are in each state, counted along a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

from kvstate.machines.tables.block import BlockTable
from kvstate.machines.tables.foreign import ForeignTable
from kvstate.trace.lines import Header

OF_A_REPLAY = {"device_blocks": "device", "host_blocks": "host"}
"""The settings of a replay that say how large its pools are; those of a runtime have the pools themselves."""


def pools_in(settings: Mapping[str, Any]) -> list[tuple[str, int, bool]]:
    """Name and size of each pool, the device first, and whether an engine allocates it; none where nothing says so."""
    ledger = settings.get("ledger")
    listed = ledger.get("pools") if isinstance(ledger, dict) else None
    found: list[tuple[str, int, bool]] = []
    for pool in listed if isinstance(listed, list) else []:
        if not isinstance(pool, dict) or type(pool.get("blocks")) is not int:
            return []
        found.append((str(pool.get("name")), pool["blocks"], bool(pool.get("foreign"))))
    sizes = [(name, settings.get(key)) for key, name in OF_A_REPLAY.items()]
    return found or [(name, size, False) for name, size in sizes if type(size) is int]


class Levels:
    """Counts along the rows of one record, from all blocks free; nothing where that is not known."""

    def __init__(self, header: Header) -> None:
        """The pools of the header. A record without its beginning, or its pools, has no counts."""
        self._pools = [] if header.lost else pools_in(header.settings)
        self._ends = list(accumulate(size for _, size, _ in self._pools))
        tables = [ForeignTable if foreign else BlockTable for _, _, foreign in self._pools]
        self._counts = [dict.fromkeys(table.STATES, 0) for table in tables]
        for counts, table, (_, size, _) in zip(self._counts, tables, self._pools, strict=True):
            counts[table.STATES[table.INITIAL]] = size
        self._touched = dict.fromkeys(range(len(self._pools)))

    def move(self, machine: str, number: int, before: object, after: object) -> None:
        """A row has taken this record from one state to another; of anything but a block nothing happens."""
        if before == after or machine not in ("block", "foreign"):
            return
        place = next((place for place, end in enumerate(self._ends) if number < end), None)
        if place is None:
            return
        counts = self._counts[place]
        if before in counts and after in counts:
            counts[str(before)] -= 1
            counts[str(after)] += 1
            self._touched[place] = None

    def changed(self) -> Iterator[tuple[str, dict[str, int]]]:
        """The pools in which anything has changed since the last time, with the blocks in each state."""
        touched, self._touched = self._touched, {}
        for place in touched:
            yield self._pools[place][0], dict(self._counts[place])
