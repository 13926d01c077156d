"""What would be evicted next and is nowhere below, and where a name is: asked by whoever moves blocks between tiers.

Nothing here changes anything, and nothing is refused: a ledger that is poisoned, or a pool that there is not, has
nothing to show. An answer holds until the next input; the references in it say later whether they still do.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from kvstate.machines.keybook import NONE
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import NO_REFS, BlockRef, BlockRefs
from kvstate.machines.table import REFUSED
from kvstate.machines.tables.block import Event as B
from kvstate.machines.tables.key import Event as K
from kvstate.machines.tables.service import Event as S


class Cold(NamedTuple):
    """Blocks whose bytes no lower pool has, the first to be evicted first."""

    refs: BlockRefs
    """The blocks, in their present lives."""
    spaces: tuple[str, ...]
    """Block by block the key space: the namespace, with the KV group where there are groups."""


class Name(NamedTuple):
    """What names a block."""

    space: str
    """The key space: the namespace, with the KV group where there are groups."""
    key: bytes
    """The key, within that space."""


NOTHING = Cold(NO_REFS, ())
"""No block."""


def coldest(ledger: Ledger, pool: int, count: int, *, among: int, but: Set[BlockRef] = frozenset()) -> Cold:
    """Of the `among` blocks that this pool would evict next those that no lower pool has or is being given.

    At most `count` of them and none of `but`, in the order of the pool's policy. A block that a copy reads can't be
    evicted and is passed over.
    """
    books = ledger.books
    if ledger.fatal is not None or not 0 <= pool < len(books.pools) or count <= 0:
        return NOTHING
    keys, written_anew, begin = books.keys, ledger.core.ports.key.table.choose, int(K.BEGIN)
    below: dict[str, Sequence[Mapping[bytes, int]]] = {}
    found, spaces = array("q"), []
    for block in _next_to_go(ledger, pool, among):
        slot = keys.block_key[block]
        space = keys.spaces_of[slot]
        assert space is not None, f"block {block} is cached under key slot {slot}, which holds no key"
        name, key = space.namespace, keys.keys[slot]
        if name not in below:
            below[name] = [keys.index(lower, name) for lower in _keeping(ledger, pool + 1)]
        for index in below[name]:
            slot = index.get(key, NONE)
            if slot != NONE and written_anew(slot, begin) == REFUSED:
                break
        else:
            if not but or books.ref(block) not in but:
                found.append(block)
                spaces.append(name)
                if len(found) == count:
                    break
    return Cold(books.refs(found), tuple(spaces))


def _keeping(ledger: Ledger, first: int) -> list[int]:
    """The pools from this one down in which bytes lie. What a peer offers is its own to drop."""
    pools = ledger.config.pools
    return [number for number in range(first, len(pools)) if pools[number].durable or not pools[number].shared]


def _next_to_go(ledger: Ledger, pool: int, most: int) -> Iterator[int]:
    """The first blocks that the pool would evict now, in the order of its policy; `most` at most."""
    port, left = ledger.core.ports.block, most
    for run in ledger.books.pools[pool].evictable.victims(max(most, 1)):
        if left <= 0:
            return
        blocks = run[:left]
        if not port.takes(blocks, B.EVICT):
            blocks = [block for block in run if port.choose(block, B.EVICT)][:left]
        yield from blocks
        left -= len(blocks)


def holds(ledger: Ledger, pool: int, name: Name) -> bool:
    """Has this pool the bytes of that name, or is a store bringing them? What may be written anew has none."""
    slot = ledger.books.keys.find(pool, name.space, name.key)
    return slot != NONE and not ledger.core.ports.key.choose(slot, K.BEGIN)


def name_of(ledger: Ledger, ref: BlockRef) -> Name | None:
    """What names this life of the block; None if that life is over or nothing names it."""
    books = ledger.books
    if not books.current(ref) or ref.block < books.engine.count:
        return None
    slot = books.keys.block_key[ref.block]
    if slot == NONE:
        return None
    _, space, key = books.keys.name(slot)
    return Name(space, key)


def landing(ledger: Ledger, job: int) -> BlockRefs:
    """The blocks that an offload which is under way writes, line by line; none if it is over."""
    books = ledger.books
    slot = books.job_ids.get(job)
    return NO_REFS if slot is None else books.refs(books.jobs[slot].dsts[:])


def takes_stores(ledger: Ledger, lease: int) -> bool:
    """May this lease store anything now? Not if it is closed or from before a reset, nor in a ledger that drains."""
    held = ledger.books.leases.get(lease)
    if ledger.fatal is not None or held is None or held.epoch != ledger.books.epoch:
        return False
    return ledger.core.ports.service.choose(0, S.ADMIT)
