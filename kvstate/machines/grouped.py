"""What a ledger with KV groups does in its own way: look up, and say of which group each key is.

A lookup pins the greatest length that is a hit in all groups. The arithmetic of that is in `groups`.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from kvstate.machines import bulk
from kvstate.machines.config import MAX_BATCHES
from kvstate.machines.groups import by_space, first_needed, lines_of, load_order, longest, space, spans_in
from kvstate.machines.keybook import NO_KEYS, NONE
from kvstate.machines.lookups import Lookups
from kvstate.machines.messages import NO_REFS, BlockRefs
from kvstate.machines.records import Lease
from kvstate.machines.table import REFUSED
from kvstate.machines.tables.key import Event as K
from kvstate.machines.verdicts import Hit, Refusal

WAIT = -2
"""Stands for the slot of a key that is being loaded, or sought, and worth waiting for."""


class Grouped(Lookups):
    """The request `lookup_groups` of `Ledger`, and where the keys of a group are."""

    __slots__ = ()

    def space(self, lease: Lease, group: int | None) -> str | Refusal:
        """The key space of that group in the lease's namespace; the namespace itself where there are no groups."""
        groups = self.books.config.groups
        if not groups:
            return lease.namespace if group is None else Refusal("this ledger has no groups: leave `group` out")
        if group is None or not 0 <= group < len(groups):
            names = ", ".join(one.name for one in groups)
            return Refusal(f"group {group} is none: give the number of one, from 0, of {names}")
        return space(lease.namespace, groups[group])

    def spaces(self, namespace: str) -> tuple[str, ...]:
        """All key spaces of the namespace, by group."""
        return tuple(space(namespace, group) for group in self.books.config.groups) or (namespace,)

    def lookup_groups(self, lease: Lease, lists: Sequence[Sequence[bytes]]) -> Hit | Refusal:
        """Pin what the greatest length needs; a lease from before a reset finds nothing.

        What is being loaded or sought counts as a hit at first. If the length then needs any of it, it is worth waiting
        for.
        """
        books, groups = self.books, self.books.config.groups
        if not groups or len(lists) != len(groups):
            return Refusal(f"{len(lists)} lists of keys and {len(groups)} groups: give a list for each group")
        spaces = self.spaces(lease.namespace)
        if lease.epoch != books.epoch:
            lists = [()] * len(groups)
        sights = [_Sight(self, name, keys) for name, keys in zip(spaces, lists, strict=True)]
        tokens = longest(groups, [len(keys) for keys in lists], lambda group, place: sights[group].slot(place) != NONE)
        lines = lines_of(groups, tokens)
        slots = array("q", [sights[group].seen[place] for group, place in lines])
        keys = [lists[group][place] for group, place in lines]
        if WAIT not in slots:
            return self.hit(lease, slots, keys, tokens, spans_in(groups, tokens, lines))
        for slot, key, (group, _) in zip(slots, keys, lines, strict=True):
            if slot == WAIT:
                books.pending_since.setdefault((spaces[group], key), books.now)
        return Hit(lease.id, NO_REFS, (), (), 0, (), pending=True)

    # -- what is stored, and what is loaded ----------------------------------------------------------------------------

    def key_slots(self, pool: int, namespace: str, refs: BlockRefs, keys: tuple[bytes, ...]) -> array[int]:
        """The records of the keys in that pool, each in the space in which it names its block above.

        A block of an engine's own is named by no key; then the space is `namespace` itself.
        """
        book = self.books.keys
        if not self.books.config.groups or refs.blocks[0] < self.books.engine.count:
            return book.make(pool, namespace, keys)
        slots = array("q", [NONE]) * len(keys)
        names = [book.name(book.block_key[block]).namespace for block in refs.blocks]
        for name, lines in by_space(names).items():
            bulk.spread(slots, lines, book.make(pool, name, [keys[line] for line in lines]))
        return slots

    def spaces_of(self, namespace: str, slots: array[int]) -> tuple[str, ...]:
        """The key space of each of these keys; one word where there are no groups."""
        if not self.books.config.groups:
            return (namespace,)
        book = self.books.keys
        return tuple(book.name(slot).namespace for slot in slots)

    def load_order(self, lease: Lease, hit: Hit, places: array[int]) -> tuple[array[int], tuple[str, ...]]:
        """In which order these lines of the hit are loaded, and the key space of each in that order."""
        books, groups = self.books, self.books.config.groups
        all_lines, spaces = lines_of(groups, hit.tokens), self.spaces(lease.namespace)
        lines = [all_lines[place] for place in places]
        pools = bytes(books.pool_of[hit.blocks[place].block] for place in places)
        order = load_order(groups, lines, pools, self.batch_size(len(lines)), MAX_BATCHES + len(books.pools))
        return order, tuple(spaces[lines[line].group] for line in order)

    def batch_size(self, lines: int) -> int:
        """How many of so many lines go into one batch at most."""
        return max(self.books.config.batch_blocks, -(-lines // MAX_BATCHES))

    def unfit_groups(self, lease: Lease, hit: Hit) -> Refusal | None:
        """Why the groups of this hit, whose blocks below the device were looked at, can't be those of its blocks."""
        books, groups, tokens = self.books, self.books.config.groups, hit.tokens
        if not groups:
            return None
        needed = sum(tokens // group.tokens_per_block - first_needed(group, tokens) for group in groups)
        lines = lines_of(groups, tokens) if needed == len(hit.blocks) else []
        if not lines or hit.groups != spans_in(groups, tokens, lines):
            return Refusal(f"the blocks of the hit are not those that {tokens} tokens need: give what the lookup gave")
        spaces = self.spaces(lease.namespace)
        for place in hit.below:
            block, group = hit.blocks[place].block, lines[place].group
            slot = books.keys.block_key[block]
            if slot != NONE and books.keys.name(slot).namespace != spaces[group]:
                return Refusal(f"block {block} is not of group {groups[group].name}: give what the lookup gave")
        return None


class _Sight:
    """The keys of one group as a lookup finds them: place by place, and each looked at once."""

    __slots__ = ("device", "first", "keys", "loading", "lookups", "lower", "name", "seen",
                 "sought")  # fmt: skip

    def __init__(self, lookups: Grouped, name: str, keys: Sequence[bytes]) -> None:
        books = lookups.books
        self.lookups = lookups
        self.name = name
        self.keys = keys
        self.device: Mapping[bytes, int]
        self.device, *self.lower = [books.keys.index(pool, name) for pool in range(len(books.pools))]
        self.loading, self.sought = books.loading.get(name, NO_KEYS), books.seeks.sought.get(name, NO_KEYS)
        self.first = {} if bulk.distinct(keys) else {key: place for place, key in reversed(list(enumerate(keys)))}
        """Where each key stands for the first time, if any stands there twice. A key stands for all before it, too: a
        second time is a slip, and no hit."""
        self.seen: dict[int, int] = {}

    def slot(self, place: int) -> int:
        """The slot of the key in its highest tier, `WAIT`, or NONE for a miss."""
        key = self.keys[place]
        slot = self._find(key) if self.first.get(key, place) == place else NONE
        self.seen[place] = slot
        return slot

    def _find(self, key: bytes) -> int:
        choose, hit = self.lookups.ports.key.table.choose, int(K.HIT)
        slot = self.device.get(key, NONE)
        if slot != NONE and choose(slot, hit) != REFUSED:
            return slot
        if key in self.loading:
            return WAIT if self._worth_waiting(key) else NONE
        for index in self.lower:
            slot = index.get(key, NONE)
            if slot != NONE and choose(slot, hit) != REFUSED:
                return slot
        return WAIT if key in self.sought and self._worth_waiting(key) else NONE

    def _worth_waiting(self, key: bytes) -> bool:
        """The clock of a key starts when a lookup is told to wait for it, not when one merely looks."""
        books = self.lookups.books
        since = books.pending_since.get((self.name, key), books.now)
        return books.now - since < books.config.pending_for
