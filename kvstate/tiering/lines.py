"""Blocks that are to be stored together, and what names each of them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvstate.machines.cold import Name, name_of
from kvstate.machines.groups import space
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRefs
from kvstate.machines.verdicts import Hit, LoadVerdict

NEAREST = 1
"""The pool right below the device: nothing lies between."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Blocks of one pool, one a line."""

    refs: BlockRefs
    """The blocks, line by line."""
    keys: Sequence[bytes] | None = None
    """A key for each, where the engine allocates the device blocks and no key names them; all are of one `group`."""
    group: int | None = None

    def only(self, places: Iterable[int]) -> Lines:
        """These lines of it, in this order."""
        where = array("q", places)
        keys = None if self.keys is None else [self.keys[place] for place in where]
        return Lines(self.refs.at(where), keys, self.group)

    def name(self, ledger: Ledger, namespace: str, place: int) -> Name | None:
        """What names the block of that line, if anything does."""
        if self.keys is None:
            return name_of(ledger, self.refs[place])
        groups = ledger.config.groups
        if place >= len(self.keys) or (groups and not 0 <= (-1 if self.group is None else self.group) < len(groups)):
            return None
        return Name(space(namespace, groups[self.group or 0]) if groups else namespace, self.keys[place])


def namespace_of(key_space: str, *, grouped: bool) -> str:
    """The namespace of a key space; with KV groups, that of a group in it."""
    return key_space.partition("@")[2] if grouped else key_space


def loaded_lines(ledger: Ledger, verdict: LoadVerdict, hit: Hit, into: BlockRefs) -> list[tuple[int, Lines]]:
    """What this load brought from below the nearest tier, by the pool that it came from; the head first."""
    books = ledger.books
    engine, pools = books.engine.count, books.pool_of
    where = _places(hit)
    found: dict[tuple[int, int | None], list[int]] = {}
    for line, place in zip(range(len(into)), hit.below, strict=False):
        origin = pools[hit.blocks[place].block]
        if origin <= NEAREST:
            continue
        group = where[place][0] if engine and where else None
        came = _came(verdict, where, place, into.blocks[line]) if engine else name_of(ledger, into[line]) is not None
        if came:
            found.setdefault((origin, group), []).append(line)
    keys = hit.keys if engine else None
    made = []
    for (origin, group), lines in found.items():
        these = None if keys is None else [keys[hit.below[line]] for line in lines]
        made.append((origin, Lines(into.at(array("q", lines)), these, group)))
    return made


def _places(hit: Hit) -> dict[int, tuple[int, int]]:
    """Group and place of each block of a hit, by its position there; empty where there are no groups."""
    spans = enumerate(hit.groups)
    return {line: (group, at) for group, span in spans for at, line in enumerate(span.lines, span.first)}


def _came(verdict: LoadVerdict, where: dict[int, tuple[int, int]], place: int, block: int) -> bool:
    """Are the bytes of that place of the hit in this block? For a device pool of which the ledger knows no keys."""
    if not where:
        return place < verdict.blocks
    group, at = where[place]
    told = verdict.groups[group]
    return block not in told.left and (told.first <= at < told.blocks or block in told.spare)
