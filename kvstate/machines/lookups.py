"""Looking up: the longest prefix of keys that is a hit, pinned for the lease that asks."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import compress
from operator import not_
from typing import Any

from kvstate.machines import bulk
from kvstate.machines.config import DEVICE
from kvstate.machines.core import Core
from kvstate.machines.keybook import NO_KEYS, NONE
from kvstate.machines.messages import NO_BLOCKS, NO_REFS
from kvstate.machines.records import Lease
from kvstate.machines.table import REFUSED
from kvstate.machines.tables.block import Event as B
from kvstate.machines.tables.key import Event as K
from kvstate.machines.verdicts import Hit, Refusal, Span


class Lookups(Core):
    """The request `lookup` of `Ledger`; see there for what it promises."""

    __slots__ = ()

    def lookup(self, lease: Lease, keys: Sequence[bytes]) -> Hit | Refusal:
        """Pin the longest prefix that is a hit; a lease from before a reset finds nothing."""
        books = self.books
        if books.config.groups:
            return Refusal("this ledger has KV groups: look up with a list of keys for each (`lookup_groups`)")
        slots = self._prefix(lease.namespace, keys if lease.epoch == books.epoch else ())
        if slots is None:
            return Hit(lease.id, NO_REFS, (), (), 0, (), pending=True)
        return self.hit(lease, slots, keys[: len(slots)], len(slots) * books.config.tokens_per_block)

    def hit(
        self, lease: Lease, slots: array[int], keys: Sequence[bytes], tokens: int, groups: tuple[Span, ...] = ()
    ) -> Hit:
        """Pin what these keys name, the slots of which are given, and say what and where it is."""
        books = self.books
        blocks = bulk.run(bulk.gather(books.keys.blocks, slots))
        pools = bulk.gather(books.pool_of, blocks).tobytes()
        pinned = self._pin(lease, slots, blocks, pools)
        on_device = pools.count(DEVICE)
        lower: Sequence[int] = range(on_device, len(pools))  # as a rule what is below lies behind what is on the device
        if not all(pools[on_device:]):
            lower = [place for place, pool in enumerate(pools) if pool != DEVICE]
        refs = books.refs(blocks)
        return Hit(lease.id, refs, tuple(keys), tuple(lower), tokens, tuple(pinned), groups=groups)

    def _prefix(self, namespace: str, keys: Sequence[bytes]) -> array[int] | None:
        """The slots of the longest prefix that is a hit, each in its highest tier; None where it is worth waiting."""
        books = self.books
        device, *lower = [books.keys.index(pool, namespace) for pool in range(len(books.pools))]
        loading, sought = books.loading.get(namespace, NO_KEYS), books.seeks.sought.get(namespace, NO_KEYS)
        plain = self._plain_prefix(device, lower, keys) if not (loading or sought) else None
        if plain is not None:
            return plain
        choose, hit = self.ports.key.table.choose, int(K.HIT)
        found: dict[int, None] = {}
        for key in keys:
            slot = device.get(key, NONE)
            if slot == NONE or choose(slot, hit) == REFUSED:
                if key in loading:
                    if self._pending(namespace, key):
                        return None
                    break
                for index in lower:
                    slot = index.get(key, NONE)
                    if slot != NONE and choose(slot, hit) != REFUSED:
                        break
                else:
                    if key in sought and self._pending(namespace, key):
                        return None
                    break
            if slot in found:  # a key stands for all before it, too: twice in one prefix is a slip, and shorter is safe
                break
            found[slot] = None
        return array("q", found)

    def _plain_prefix(
        self, device: Mapping[bytes, int], lower: Sequence[Mapping[bytes, int]], keys: Sequence[bytes]
    ) -> array[int] | None:
        """The same, for the common case: nothing is loaded or sought, what is on record is a hit, and what lies below
        lies behind what is on the device. None where it is not so.
        """
        if not keys or not any(keys[0] in index for index in (device, *lower)):
            return NO_BLOCKS
        slots: list[Any] = list(map(device.get, keys))
        missing = slots.count(None)
        if missing and lower:
            cut = slots.index(None)
            if missing < len(slots) - cut or len(lower) > 1:
                return None
            slots[cut:] = map(lower[0].get, keys[cut:])
        if None in slots:
            del slots[slots.index(None) :]
        found = bulk.run(array("q", slots))
        return found if bulk.distinct(found) and self.ports.key.takes(found, K.HIT) else None

    def _pending(self, namespace: str, key: bytes) -> bool:
        """Is it worth waiting? The first to ask starts the clock; once it has run out, it is a miss."""
        books = self.books
        since = books.pending_since.setdefault((namespace, key), books.now)
        return books.now - since < books.config.pending_for

    def _pin(self, lease: Lease, slots: array[int], blocks: array[int], pools: bytes) -> array[int]:
        """Pin for the lease those of the blocks that it does not have yet; returns these. `pools` has each block's."""
        books = self.books
        if lease.own or lease.shared or lease.pins:
            has = [books.owns(lease, block) or block in lease.pins for block in blocks]
            slots = array("q", compress(slots, map(not_, has)))
            blocks = array("q", compress(blocks, map(not_, has)))
            pools = bytes(compress(pools, map(not_, has)))
        self.ports.key.each(slots, K.HIT)
        start = 0
        while start < len(pools):  # a list of blocks is of one pool
            end = len(pools) - len(pools[start:].lstrip(pools[start : start + 1]))
            together = bulk.cut(blocks, slice(start, end))
            self.ports.block.each(together, B.SHARE)
            if pools[start] == DEVICE:
                lease.shared.update(dict.fromkeys(together))
            else:
                lease.pins |= dict.fromkeys(together, NONE)
            start = end
        return blocks
