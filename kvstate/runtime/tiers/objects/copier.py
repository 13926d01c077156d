"""The copier of an object store tier: its parts by threads of their own, in three lanes, and the objects it knows.

A request waits for a network, so a part is divided among as many threads as there may be requests. What reads never
waits behind what writes, and a STORE, which only copies memory, waits for no request at all: so a store that hangs
holds back neither loads nor the blocks of the tier above.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

from kvstate.machines.config import ConfigError, LedgerConfig
from kvstate.machines.messages import Adopt, Failure, Kind, Report, Sweep, Token, Undo, Work
from kvstate.runtime.copiers import Progress
from kvstate.runtime.copiers.threads import OnLand, OnSubmit, ThreadCopier
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory
from kvstate.runtime.tiers.objects.bucket import Bucket
from kvstate.runtime.tiers.objects.kept import Source, told
from kvstate.runtime.tiers.objects.names import Names
from kvstate.runtime.tiers.objects.objects import Objects
from kvstate.runtime.tiers.objects.settings import StoreConfig, store_pool
from kvstate.runtime.tiers.objects.staging import Staging
from kvstate.runtime.tiers.objects.versions import Versions
from kvstate.runtime.tiers.sealed import Seal, Sum
from kvstate.wire import Found

COPIES: Final = 2
"""Threads that copy blocks into memory on their way to the store."""


class Keeps:
    """A `Keeper` that leaves it all to its objects: for copiers, whoever makes their copies."""

    objects: Objects
    """What knows the objects."""

    def found(self) -> Found:
        """As `Keeper.found`."""
        return self.objects.found()

    def undo(self, effect: Undo) -> None:
        """As `Keeper.undo`."""
        self.objects.undo(effect)

    def adopt(self, effect: Adopt) -> None:
        """As `Keeper.adopt`."""
        self.objects.adopt(effect)

    def sweep(self, effect: Sweep) -> None:
        """As `Keeper.sweep`."""
        self.objects.sweep(effect)

    def take_troubles(self) -> list[str]:
        """As `Keeper.take_troubles`."""
        return self.objects.take_troubles()


class Lane(ThreadCopier):
    """Threads for one direction: a line is a request, and so worth a thread of its own."""

    def _cuts(self, work: Work) -> list[int]:
        lines = len(work.keys)
        shares = max(min(self._threads, lines), 1)
        return [lines * share // shares for share in range(shares + 1)]

    def _answered(self, work: Work, failures: tuple[Failure, ...]) -> Report:
        return told(work, failures)


class StoreCopier(Keeps):
    """Carries parts to and from an object store, in threads. Its pool is to be durable and shared."""

    def __init__(
        self,
        objects: Objects,
        memory: Memory,
        inbox: Inbox,
        concurrency: int = 8,
        *,
        on_land: OnLand | None = None,
        on_submit: OnSubmit | None = None,
    ) -> None:
        """Between `memory` and the store of `objects`, which is closed with it; `concurrency` is how many requests may
        be under way at once, for each direction.
        """
        self.name = objects.name
        self.objects = objects
        self._reads, self._writes, self._copies = (
            Lane(memory, inbox, threads, name=self.name, carry=objects.carry, on_land=on_land, on_submit=on_submit)
            for threads in (concurrency, concurrency, COPIES)
        )
        self._lanes = self._copies, self._writes, self._reads

    @property
    def seconds(self) -> float:
        """Time that threads spent on parts, waiting for the store included."""
        return sum(lane.seconds for lane in self._lanes)

    def submit(self, work: Work) -> None:
        """As `Copier.submit`. Raises `CopierClosedError`."""
        lanes = {Kind.STORE: self._copies, Kind.PERSIST: self._writes}
        lanes.get(Kind(work.kind), self._reads).submit(work)

    def cancel(self, token: Token) -> None:
        """As `Copier.cancel`: a request that is under way ends by itself, and the part with it."""
        for lane in self._lanes:
            lane.cancel(token)

    def probe(self, token: Token) -> Progress:
        """As `Copier.probe`."""
        answers = (lane.probe(token) for lane in self._lanes)
        return next((answer for answer in answers if answer is not Progress.UNKNOWN), Progress.UNKNOWN)

    def fence(self, within: float | None = None) -> int:
        """As `Copier.fence`. Raises `TimeoutError` if a part is still under way after `within` seconds."""
        end = None if within is None else monotonic() + within
        return max(lane.fence(None if end is None else max(end - monotonic(), 0.0)) for lane in self._lanes)

    def close(self, within: float) -> tuple[Token, ...]:
        """As `Copier.close`."""
        end = monotonic() + within
        left = [token for lane in self._lanes for token in lane.close(max(end - monotonic(), 0.0))]
        if not left:
            self.objects.close(max(end - monotonic(), 1.0))
        return tuple(left)


def make_objects(
    config: StoreConfig, ledger: LedgerConfig, memory: Memory, rank: int, *, summed: bool = True,
    compare: bool = False, source: Source | None = None,
) -> Objects:  # fmt: skip
    """What one rank keeps in the store, for the durable and shared pool of this ledger.

    `memory` has the ledger's pools that lie in memory; bytes are summed unless told otherwise, and always with a
    secret; the rest is as in `Objects`. Errors: `ConfigError` for a store or a secret that can't be used, and for no
    pool that is durable and shared. Nothing is asked of the store here.
    """
    pool = store_pool(ledger)
    if pool is None:
        raise ConfigError("ledger.pools: none is durable and shared, and so there is nothing to keep in a store")
    base = sum(other.blocks for other in ledger.pools[: ledger.pools.index(pool)])
    what = f"{config.fingerprint} / rank {rank} of {ledger.ranks} / blocks of {memory.block_bytes} bytes"
    secret = config.secret()
    try:
        seal = Seal(what, algorithm=Sum.XXH3 if summed else Sum.NONE, secret=secret)
    except ValueError as error:
        raise ConfigError(f"store.secret_file: {error}") from None
    versions = Versions(Bucket(config), seal, memory.block_bytes)
    names = Names(what, seal.algorithm, secret)
    return Objects(
        versions, names, memory, base, pool.blocks, Staging(config.staging_bytes),
        name=pool.copier, compare=compare, source=source,
    )  # fmt: skip
