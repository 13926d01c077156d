"""The lowest tier of a replay: an object store, whose copier shares the fate of all others.

What is spoilt is any byte of an object on its way there, its header included. A run that shares the store with others,
or with itself an hour ago, finds what they have put.
"""

from __future__ import annotations

from typing import Any, Final

from kvstate.machines.config import LedgerConfig
from kvstate.machines.messages import Kind
from kvstate.replay.chaos import Chaos
from kvstate.replay.chaos_copiers import ChaosThreadCopier, VirtualCopier
from kvstate.replay.chaotic import Chaotic
from kvstate.replay.config import ReplayConfig
from kvstate.replay.disk import FINGERPRINT
from kvstate.replay.flights import Flight
from kvstate.runtime.clock import Clock, VirtualClock
from kvstate.runtime.copiers.threads import ThreadCopier
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory
from kvstate.runtime.standard import files_of
from kvstate.runtime.tiers.disk import Disk
from kvstate.runtime.tiers.objects.copier import Keeps, StoreCopier, make_objects
from kvstate.runtime.tiers.objects.objects import Objects
from kvstate.runtime.tiers.objects.settings import StoreConfig

NAME: Final = "store"
"""Of the pool and of its copier."""
REQUESTS: Final = 8
"""At once, of each rank and direction."""
REQUEST_SECONDS: Final = 1.0
"""Of one request: a run waits for all of them in the end, and in each fence."""
PULL: Final = 5.0
"""Seconds for which the end of a run waits for objects that are being replaced."""


class _Spoils(Keeps, Chaotic):
    """A chaotic copier of a store."""

    def _spoil(self, flight: Flight) -> int:
        """Flip a byte of what was just written: of an object, or of the block that was read into."""
        blemish, work = flight.fate.blemish, flight.work
        if blemish is None or work.kind != Kind.STORE:
            return super()._spoil(flight)
        staged = self.objects.staged(work.dst[int(blemish.line * len(work.dst))])
        if staged is None:
            return 0
        staged[int(blemish.byte * len(staged))] ^= blemish.mask
        return 1


class ChaosStore(_Spoils, ChaosThreadCopier):
    """A store's copier in threads, in which each part has a fate."""

    def close(self, within: float) -> tuple[Any, ...]:
        """As `Copier.close`."""
        left = super().close(within)
        if not left:
            self.objects.close(PULL)
        return left


class VirtualStore(_Spoils, VirtualCopier):
    """A store's copier in virtual time. What requests take is not counted."""

    def close(self, within: float) -> tuple[Any, ...]:
        """As `Copier.close`."""
        left = super().close(within)
        self.objects.close(PULL)
        return left


def store_settings(url: str) -> StoreConfig:
    """What a replay tells its store."""
    return StoreConfig(url=url, fingerprint=FINGERPRINT, concurrency=REQUESTS, request_for=REQUEST_SECONDS, tries=2)


def objects_of(config: ReplayConfig, ledger: LedgerConfig, memory: Memory, rank: int, disk: Disk | None) -> Objects:
    """What a rank keeps in the store. Errors: `ConfigError` of the machines, for a store that can't be used."""
    assert config.store is not None, "there is no store in this replay"
    source = None if disk is None else files_of(disk.folder, ledger)
    return make_objects(
        store_settings(config.store), ledger, memory, rank,
        summed=config.integrity != "off", compare=config.integrity == "host", source=source,
    )  # fmt: skip


def store_copier(
    config: ReplayConfig, objects: Objects, memory: Memory, inbox: Inbox, clock: Clock, chaos: Chaos, **hooks: Any
) -> StoreCopier | ChaosStore | VirtualStore:
    """Its copier: in virtual time, in threads, or in threads and with a fate for each part."""
    if isinstance(clock, VirtualClock):
        virtual = VirtualStore(memory, inbox, clock, chaos, name=NAME, carry=objects.carry, **hooks)
        virtual.objects = objects
        return virtual
    if chaos == Chaos(seed=config.seed):
        return StoreCopier(objects, memory, inbox, REQUESTS, **hooks)
    chaotic = ChaosStore(memory, inbox, clock, chaos, 2 * REQUESTS, name=NAME, carry=objects.carry, **hooks)
    chaotic.objects = objects
    return chaotic


AnyCopier = ThreadCopier | ChaosThreadCopier | VirtualCopier | StoreCopier
"""Whatever copies in a replay."""
