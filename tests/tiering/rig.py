"""A bare ledger with tiers below it, driven by hand: what the tests of tiers need and no more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvstate.machines.config import PoolConfig
from kvstate.machines.messages import BlockRef, Report, Work
from kvstate.machines.verdicts import Grant, Hit, JobVerdict, LoadVerdict, Started
from kvstate.tiering import TierConfig, Tiering
from tests.machines.rig import Rig, keys

DEVICE = PoolConfig("device", 8)
HOST = PoolConfig("host", 8)
DISK = PoolConfig("disk", 16, durable=True, copier="disk")
STORE = PoolConfig("store", 64, durable=True, copier="net")


def tier(pool: str, write: str = "through", **more: Any) -> TierConfig:
    return TierConfig(pool=pool, write=write, **more)  # type: ignore[arg-type] # a word stands for a member


class TierRig(Rig):
    """The ledger, its tiering, and what a loop does with both."""

    def __init__(self, *tiers: TierConfig, pools: Sequence[PoolConfig] = (DEVICE, HOST, DISK), **config: Any) -> None:
        super().__init__(pools=pools, **config)
        self.tiering = Tiering(self.ledger, tiers)
        self.loads: list[LoadVerdict] = []
        self.jobs: list[JobVerdict] = []

    def hear(self) -> None:
        """Pass on what the ledger has said."""
        for verdict in self.verdicts():
            if isinstance(verdict, JobVerdict):
                self.jobs.append(verdict)
                assert self.tiering.told(verdict) is True
                assert self.tiering.told(verdict) is False
            elif isinstance(verdict, LoadVerdict):
                self.loads.append(verdict)

    def settle(self, *, turn: bool = False) -> None:
        """Answer everything with done until nothing follows; with a turn of the tiers in between, if asked."""
        while True:
            works = self.works()
            for work in works:
                self.report(work)
            self.hear()
            if not works and not (turn and self.tiering.turn()):
                return

    def fails(self, works: Sequence[Work], outcome: str = "denied") -> None:
        """So these end, and the tiers hear of it."""
        for work in works:
            self.ledger.report(Report(work.token, outcome))
        self.hear()

    def fill(self, *numbers: int, space: str = "a", **options: Any) -> Sequence[BlockRef]:
        """A request computes blocks of these keys, has them stored, and is over."""
        lease, refs = self.sealed(*numbers, space=space)
        self.tiering.sealed(lease, refs, **options)
        self.ledger.finish(lease)
        return refs

    def has(self, pool: int, *, space: str = "a") -> list[int]:
        """The numbers of the keys that are a hit in this pool."""
        index = self.books.keys.index(pool, space)
        return sorted(key[0] for key in index if self.key_state(key[0], pool, space) == "ready")

    def bring(self, *numbers: int, space: str = "a", settle: bool = True) -> tuple[int, Hit, Sequence[BlockRef]]:
        """Load these keys from wherever they are; the lease stays open."""
        lease = self.open(space)
        hit = self.lookup(lease, *numbers)
        grant = self.ledger.allocate(lease, len(hit.below))
        assert isinstance(grant, Grant), grant
        assert isinstance(self.ledger.load(lease, hit, grant.blocks, deadline=self.books.now + 10.0), Started)
        if settle:
            self.finish_all()
            self.hear()
        return lease, hit, grant.blocks

    def on_disk(self, *numbers: int) -> None:
        """These keys are on the disk, and nowhere else."""
        self.ledger.recover(2, [("a", key) for key in keys(*numbers)])
        self.effects()

    def counted(self, name: str) -> dict[str, int]:
        """What has been counted of a tier, without what is 0."""
        counts = self.tiering.counts[name]
        plain = {one: getattr(counts, one) for one in counts.__slots__ if one != "dropped"}
        plain.update({str(drop): count for drop, count in counts.dropped.items()})
        return {one: count for one, count in plain.items() if count}
