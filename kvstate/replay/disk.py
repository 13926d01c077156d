"""The third tier of a replay: a disk whose copier shares the fate of all others, and whose files go bad like memory.

What is spoilt is any byte of an object's file, its header included, once its bytes are there. A process that kills
itself leaves such a folder to the next one, with all that was under way in it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from kvstate.machines.config import LedgerConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Kind
from kvstate.machines.tables.key import State as K
from kvstate.replay.chaos import Chaos
from kvstate.replay.chaos_copiers import ChaosThreadCopier, VirtualCopier
from kvstate.replay.chaotic import Chaotic
from kvstate.replay.config import ReplayConfig
from kvstate.replay.flights import Flight
from kvstate.runtime.clock import Clock, VirtualClock
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory
from kvstate.runtime.tiers.copier import DiskCopier, Keeps, make_disk
from kvstate.runtime.tiers.disk import Disk
from kvstate.runtime.tiers.settings import DiskConfig, Sync
from kvstate.trace.rows import listen

NAME: Final = "disk"
"""Of the pool and of its copier."""
FINGERPRINT: Final = "kvstate replay 1"
"""The content oracle's first format: what is in a block follows from its key, and from the rank."""
PULL: Final = 1.0
"""Seconds for which the end of a run waits for files that are being removed."""


class _Spoils(Keeps, Chaotic):
    """A chaotic copier of a disk."""

    def _spoil(self, flight: Flight) -> int:
        """Flip a byte of what was just written: of a file, or of the block that was read into."""
        blemish, work = flight.fate.blemish, flight.work
        if blemish is None or work.kind != Kind.STORE:
            return super()._spoil(flight)
        path = self.disk.path_of(work.dst[int(blemish.line * len(work.dst))])
        if path is None:
            return 0
        try:
            file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:  # an earlier landing of it was swept away
            return 0
        try:
            at = int(blemish.byte * os.fstat(file).st_size)
            os.pwrite(file, bytes([os.pread(file, 1, at)[0] ^ blemish.mask]), at)
        finally:
            os.close(file)
        return 1


class ChaosDisk(_Spoils, ChaosThreadCopier):
    """A disk's copier in threads, in which each part has a fate."""

    def close(self, within: float) -> tuple[Any, ...]:
        """As `Copier.close`."""
        left = super().close(within)
        if not left:
            self.disk.close(PULL)
        return left


class VirtualDisk(_Spoils, VirtualCopier):
    """A disk's copier in virtual time. What files take is not counted."""

    def close(self, within: float) -> tuple[Any, ...]:
        """As `Copier.close`."""
        left = super().close(within)
        self.disk.close(PULL)
        return left


def disk_of(config: ReplayConfig, ledger: LedgerConfig, memory: Memory, rank: int) -> Disk:
    """The disk of a rank. Errors: `ConfigError` of the machines, for a folder that can't be used."""
    assert config.disk is not None, "there is no disk in this replay"
    settings = DiskConfig(path=config.disk, fingerprint=FINGERPRINT, sync=Sync(config.disk_sync))
    return make_disk(settings, ledger, memory, rank, summed=config.integrity != "off")


def disk_copier(
    config: ReplayConfig, disk: Disk, memory: Memory, inbox: Inbox, clock: Clock, chaos: Chaos, **hooks: Any
) -> DiskCopier | ChaosDisk | VirtualDisk:
    """Its copier: in virtual time, in threads, or in threads and with a fate for each part."""
    if isinstance(clock, VirtualClock):
        virtual = VirtualDisk(memory, inbox, clock, chaos, name=NAME, carry=disk.carry, **hooks)
        virtual.disk = disk
        return virtual
    if chaos == Chaos(seed=config.seed):
        return DiskCopier(disk, memory, inbox, config.concurrency, **hooks)
    chaotic = ChaosDisk(memory, inbox, clock, chaos, config.concurrency, name=NAME, carry=disk.carry, **hooks)
    chaotic.disk = disk
    return chaotic


class Commits:
    """Writes down what the disk has from now on, and what it has no more, before anybody acts on it.

    A line a key, `+ 0a1b...` or `- 0a1b...`, each handed to the system before the next effect goes out: so whoever
    reads it after a kill knows what was acknowledged, and what may be gone. Errors: `OSError`, where it can't be
    written.
    """

    def __init__(self, ledger: Ledger, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._keys = ledger.books.keys
        self._pool = next(number for number, pool in enumerate(ledger.config.pools) if pool.durable)
        listen(ledger, self._heard, ("key",))

    def _heard(self, machine: str, slots: Sequence[int], row: str, before: int, after: int) -> None:  # noqa: ARG002
        there = (K.READY, K.COOLING)  # a key that cools is as good as before, and may leave from there
        if (before in there) == (after in there):
            return
        sign = "+" if after in there else "-"
        names = [self._keys.name(slot) for slot in slots]
        lines = "".join(f"{sign} {name.key.hex()}\n" for name in names if name.pool == self._pool)
        if lines:
            os.write(self._file, lines.encode())

    def close(self) -> None:
        """Nothing is written any more."""
        os.close(self._file)
