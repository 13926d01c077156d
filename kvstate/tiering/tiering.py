"""Which block is stored in which tier, and when. It decides; the ledger checks, and may refuse any of it.

    tiering.sealed(lease, refs)             a request has sealed blocks: the first tier is given them
    tiering.loaded(verdict, hit, into)      a load from further below has ended: the tiers between are given them
    tiering.told(verdict)                   a store has ended: what it brought goes on to the next tier
    tiering.turn()                          once a turn of the loop, after that: what will be evicted is written back

**One way down.** A tier is fed from the next one above it that is on, so a slow disk holds blocks of the host, and the
device's are free as soon as the host has them.

**Pressure drops stores.** What is on its way into a tier is bounded. A store beyond that is dropped and counted, the
tail of a prompt first; nothing waits here, so no load waits for a store of ours. The bytes are still above, and what
is written back gets its turn again.

**No lease outlives a call.** A store from a tier needs a lease for the namespace and nothing of it afterwards. So one
is opened for it and closed at once: no reset makes it stale, and none is left when the ledger comes to rest.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from kvstate.machines.cold import Cold, Name, coldest, holds, landing, takes_stores
from kvstate.machines.config import DEVICE
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import NO_REFS, BlockRef, BlockRefs
from kvstate.machines.verdicts import Closed, Ending, Hit, JobVerdict, LoadVerdict, Refusal, Stored
from kvstate.tiering.config import Feed, TierConfig, Write, check_tiers, fed
from kvstate.tiering.counts import Counts, Drop
from kvstate.tiering.lines import Lines, loaded_lines, namespace_of
from kvstate.tiering.state import Flight, Tier

PART: Final = 8
"""A pool is looked through again when so many blocks are new that they would fill this part of what was looked at."""

FRONT: Final = 2
"""Else only what goes next is looked at, so many times what a turn writes back: a policy may put what is new there."""


class Requests(Protocol):
    """Who is asked; a `Ledger` or a `KVRuntime`, or what stands before one. Each answers as the ledger does."""

    def open(self, namespace: str) -> int | Refusal:
        """As `Ledger.open`."""
        ...

    def offload(
        self,
        lease: int,
        blocks: Sequence[BlockRef],
        *,
        pool: int = 1,
        deadline: float | None = None,
        keys: Sequence[bytes] | None = None,
        group: int | None = None,
    ) -> Stored | Refusal:
        """As `Ledger.offload`."""
        ...

    def finish(self, lease: int) -> Closed | Refusal:
        """As `Ledger.finish`."""
        ...


class Tiering:
    """See the module. For the thread that owns the ledger.

    Errors: `ConfigError` for tiers that do not fit the ledger's pools. A call refuses nothing and raises nothing of its
    own: what can't be stored is counted. `TypeError` or `ValueError` for references that are none, as in `BlockRefs`.
    """

    def __init__(self, ledger: Ledger, tiers: Sequence[TierConfig], requests: Requests | None = None) -> None:
        """`requests` is who is asked to store; the ledger itself, unless somebody has to hear of it."""
        check_tiers(tiers, ledger.config)
        self.ledger = ledger
        """Where everything is looked up."""
        self.closed = False
        """Nothing is stored any more."""
        self._requests: Requests = ledger if requests is None else requests
        self._tiers = [Tier(feed) for feed in fed(tiers, ledger.config)]
        for upper, lower in zip(self._tiers, self._tiers[1:], strict=False):
            upper.below, lower.above = lower, upper
        self._flights: dict[int, Flight] = {}
        self.counts: Mapping[str, Counts] = {tier.feed.config.pool: tier.counts for tier in self._tiers}
        """What became of the blocks of each tier that is on, by the name of its pool; counted as it happens."""

    # -- what an embedder says -----------------------------------------------------------------------------------------

    def sealed(
        self,
        lease: int,
        refs: Sequence[BlockRef],
        *,
        keys: Sequence[bytes] | None = None,
        group: int | None = None,
        deadline: float | None = None,
    ) -> Stored | None:
        """These device blocks are full, the head of the prompt first: store them, if the first tier is written through.

        `keys` and `group` are for a device pool that is foreign, as in `Ledger.offload`; `deadline` is in seconds. None
        if nothing was begun.
        """
        first = self._tiers[0] if self._tiers else None
        if first is None or first.feed.config.write is not Write.THROUGH or not len(refs):
            return None
        return self._store(first, lease, Lines(BlockRefs.of(refs), keys, group), deadline=deadline)

    def loaded(self, verdict: LoadVerdict, hit: Hit, into: Sequence[BlockRef]) -> int:
        """A load of this hit into these blocks has ended, and its lease is open: what came from further below goes into
        the nearest tier that promotes. How many blocks were begun.
        """
        if verdict.ending is Ending.ABORTED or self.closed or not self._tiers:
            return 0
        begun = 0
        for origin, lines in loaded_lines(self.ledger, verdict, hit, BlockRefs.of(into)):
            target = next((one for one in self._tiers if one.feed.config.promote and one.feed.pool < origin), None)
            if target is not None:
                stored = self._store(target, verdict.lease, lines, origin=origin)
                count = 0 if stored is None else len(stored.refs)
                target.counts.promoted += count
                begun += count
        return begun

    def told(self, verdict: JobVerdict) -> bool:
        """A store has ended, ours or not; False if not. What arrived goes on where the next tier wants it."""
        flight = self._flights.pop(verdict.job, None)
        if flight is None:
            return False
        counts, lines = flight.tier.counts, len(flight.landing)
        counts.in_flight -= lines
        if verdict.ending is not Ending.COMMITTED:
            counts.failed += lines
            flight.tier.clean = None
            if verdict.ending is Ending.FAILED:
                flight.tier.went_wrong(flight.sources, self.ledger.books.now)
            return True
        counts.stored += lines
        flight.tier.went_well()
        below = flight.tier.below
        if below is not None:
            feed = below.feed
            promoted = feed.config.promote and feed.pool < flight.origin
            if promoted or (feed.config.write is Write.THROUGH and feed.pool != flight.origin):
                begun = self._pass_on(below, flight.namespace, flight.landing, flight.origin)
                below.counts.promoted += begun if promoted else 0
        return True

    def turn(self, *, flush: bool = False) -> int:
        """Write back what will be evicted, as the watermarks say; with `flush`, all that only the tier above has.

        A bounded number of blocks, and so many were begun. A `flush` is complete when that is 0 and nothing is in
        flight any more; blocks that requests hold are not written back.
        """
        if self.closed or self.ledger.fatal is not None:
            return 0
        return sum(self._write_back(tier, flush=flush) for tier in self._tiers if _is_written_back(tier.feed))

    def close(self) -> None:
        """Store nothing from here on. What is under way ends by itself, or by the ledger's `drain`."""
        self.closed = True

    # -- what is done about it -----------------------------------------------------------------------------------------

    def _write_back(self, tier: Tier, *, flush: bool) -> int:
        """Store the coldest blocks of the tier above that nothing below has. Those on their way count as the coldest:
        they can't be evicted while they are read, and a slow tier must not take all blocks of the one above. Of
        more than half of what the tier itself holds each would drive out another that is as cold, and so in a circle.
        """
        config, counts = tier.feed.config, tier.counts
        pool = self.ledger.books.pools[tier.feed.above]
        size, used = pool.config.blocks, pool.config.blocks - len(pool.free)
        among = used if flush else used - int(config.low * size) - counts.in_flight
        among = min(among, max(self.ledger.books.pools[tier.feed.pool].config.blocks // 2, 1))
        room = min(tier.size, tier.feed.most - counts.in_flight)
        due = flush or (used > config.high * size and self.ledger.books.now >= tier.not_before)
        if room <= 0 or among <= 0 or not due:
            return 0
        news = tier.news(self.ledger.books.keys.used)
        whole = flush or tier.clean is None or news - tier.clean >= among // PART
        if not whole:
            among = min(among, FRONT * config.turn_blocks)
        found = coldest(self.ledger, tier.feed.above, room, among=among, but=tier.bad)
        begun = 0
        for namespace, refs in self._by_namespace(found):
            count = self._pass_on(tier, namespace, refs, 0, again=True)
            begun += count
            if not count and self.ledger.books.pools[tier.feed.pool].free:
                tier.leave_out(refs)  # there was room, so it is the namespace that may not be opened
        news = tier.news(self.ledger.books.keys.used)
        if whole or begun:
            tier.clean = news if whole and len(found.refs) < room and begun == len(found.refs) else None
        counts.written_back += begun
        return begun

    def _by_namespace(self, found: Cold) -> list[tuple[str, BlockRefs]]:
        grouped = bool(self.ledger.config.groups)
        places: dict[str, array[int]] = {}
        for place, space in enumerate(found.spaces):
            places.setdefault(namespace_of(space, grouped=grouped), array("q")).append(place)
        return [(namespace, found.refs.at(where)) for namespace, where in places.items()]

    def _pass_on(self, tier: Tier, namespace: str, refs: BlockRefs, origin: int, *, again: bool = False) -> int:
        """Store blocks of the tier above in this one, for nobody's request; so many were begun."""
        lease = self._requests.open(namespace)
        if isinstance(lease, Refusal):
            tier.counts.dropped[Drop.REFUSED] += 0 if again else len(refs)
            return 0
        stored = self._store(tier, lease, Lines(refs), origin=origin, again=again)
        self._requests.finish(lease)
        return 0 if stored is None else len(stored.refs)

    def _store(
        self, tier: Tier, lease: int, lines: Lines, *, deadline: float | None = None, origin: int = 0,
        again: bool = False,
    ) -> Stored | None:  # fmt: skip
        """Ask for a store, as far as the budget goes. What is not begun is counted, unless its turn comes `again`."""
        config, pool = tier.feed.config, tier.feed.pool
        dropped = Counter[Drop]() if again else tier.counts.dropped
        if self.closed or not takes_stores(self.ledger, lease):
            dropped[Drop.CLOSED if self.closed else Drop.REFUSED] += len(lines.refs)
            return None
        namespace = self.ledger.books.leases[lease].namespace
        lines = self._within_budget(tier, namespace, lines, dropped)
        if not lines.refs:
            return None
        until = self.ledger.books.now + config.store_for if deadline is None else deadline
        at_stake = self._at_stake(tier, len(lines.refs))
        answer = self._requests.offload(
            lease, lines.refs, pool=pool, deadline=until, keys=lines.keys, group=lines.group
        )
        tier.counts.lost += sum(not self.ledger.books.current(ref) for ref in at_stake)
        if isinstance(answer, Refusal):
            self._count(tier, namespace, lines, lines.refs, dropped)
            return None
        if answer.dropped:
            self._count(tier, namespace, lines, [one.ref for one in answer.dropped], dropped)
        flight = Flight(tier, namespace, answer.refs, landing(self.ledger, answer.job), origin)
        self._flights[answer.job] = flight
        tier.counts.in_flight += len(flight.landing)
        return answer

    def _within_budget(self, tier: Tier, namespace: str, lines: Lines, dropped: Counter[Drop]) -> Lines:
        """As many lines as may go on their way; of too many first those leave that are there already, then the tail."""
        room = tier.feed.most - tier.counts.in_flight
        if len(lines.refs) <= room:
            return lines
        new = [
            place
            for place in range(len(lines.refs))
            if not self._knows(tier, lines.name(self.ledger, namespace, place))
        ]
        tier.counts.known += len(lines.refs) - len(new)
        dropped[Drop.BUDGET] += max(len(new) - room, 0)
        return lines.only(new[:room])

    def _knows(self, tier: Tier, name: Name | None) -> bool:
        return name is not None and holds(self.ledger, tier.feed.pool, name)

    def _at_stake(self, tier: Tier, count: int) -> BlockRefs:
        """What would be lost if so many blocks of this tier were taken: nothing below has it, and something could."""
        pool = self.ledger.books.pools[tier.feed.pool]
        missing = count - len(pool.free)
        return NO_REFS if tier.below is None else coldest(self.ledger, tier.feed.pool, missing, among=missing).refs

    def _count(
        self, tier: Tier, namespace: str, lines: Lines, refs: Sequence[BlockRef], dropped: Counter[Drop]
    ) -> None:
        """Say why these were not taken. A pool that has no free block after a store that found no room was full."""
        full = not self.ledger.books.pools[tier.feed.pool].free
        places = {ref: place for place, ref in enumerate(lines.refs)}
        for ref in refs:
            name = lines.name(self.ledger, namespace, places[ref])
            if self._knows(tier, name):
                tier.counts.known += 1
            elif name is None or not self.ledger.books.current(ref):
                dropped[Drop.UNFIT] += 1
            else:
                dropped[Drop.FULL if full else Drop.UNFIT] += 1


def _is_written_back(feed: Feed) -> bool:
    """What was to be written through is made up for, too, unless that would hold device blocks, which are scarce."""
    return feed.config.write is Write.BACK or feed.above != DEVICE
