"""Device blocks get their keys: by a seal, and by a batch that has been loaded."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvstate.machines import bulk
from kvstate.machines.config import DEVICE
from kvstate.machines.tables.block import Event as B
from kvstate.machines.tables.key import Event as K

if TYPE_CHECKING:
    from kvstate.machines.books import Books
    from kvstate.machines.cascade import Cascade


def publish(
    books: Books, ports: Cascade, blocks: array[int], namespace: str, keys: Sequence[bytes]
) -> tuple[bool, ...]:
    """Give active blocks of the device their keys; False where one stays private, since another has its key."""
    slots = books.keys.make(DEVICE, namespace, keys)
    if bulk.distinct(slots) and ports.key.ask_all(slots, K.OFFER):
        books.keys.link(slots, blocks)
        ports.block.each(blocks, B.PUBLISH)
        return (True,) * len(slots)
    return tuple(_publish(books, ports, block, slot) for block, slot in zip(blocks, slots, strict=True))


def _publish(books: Books, ports: Cascade, block: int, slot: int) -> bool:
    if not ports.key.choose(slot, K.OFFER):
        return False
    books.keys.link(array("q", [slot]), array("q", [block]))
    ports.key.signal(slot, K.OFFER)
    ports.block.signal(block, B.PUBLISH)
    return True
