"""The copier of a disk tier: parts by threads of its own, loads before stores, and the objects that it keeps."""

from __future__ import annotations

from time import monotonic

from kvstate.machines.config import ConfigError, LedgerConfig
from kvstate.machines.messages import Adopt, Sweep, Token, Undo, Work
from kvstate.runtime.copiers.threads import OnLand, OnSubmit, ThreadCopier
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory
from kvstate.runtime.tiers.disk import Disk
from kvstate.runtime.tiers.folder import Folder
from kvstate.runtime.tiers.sealed import Seal, Sum
from kvstate.runtime.tiers.settings import DiskConfig
from kvstate.wire import Found


class Keeps:
    """A `Keeper` that leaves it all to its disk: for copiers, whoever makes their copies."""

    disk: Disk
    """What keeps the objects."""

    def found(self) -> Found:
        """As `Keeper.found`."""
        return self.disk.found()

    def undo(self, effect: Undo) -> None:
        """As `Keeper.undo`."""
        self.disk.undo(effect)

    def adopt(self, effect: Adopt) -> None:
        """As `Keeper.adopt`."""
        self.disk.adopt(effect)

    def sweep(self, effect: Sweep) -> None:
        """As `Keeper.sweep`."""
        self.disk.sweep(effect)

    def take_troubles(self) -> list[str]:
        """As `Keeper.take_troubles`."""
        return self.disk.take_troubles()


class DiskCopier(Keeps, ThreadCopier):
    """Carries parts to and from a `Disk`, in threads; else as `ThreadCopier`. Its pool is to be durable.

    The threads are its own: a disk that takes its time keeps no copy between device and host waiting.
    """

    def __init__(
        self,
        disk: Disk,
        memory: Memory,
        inbox: Inbox,
        threads: int = 2,
        *,
        on_land: OnLand | None = None,
        on_submit: OnSubmit | None = None,
    ) -> None:
        """Between `memory` and `disk`, which is closed with it; `Work.copier` says the name of the disk."""
        super().__init__(memory, inbox, threads, name=disk.name, carry=disk.carry, on_land=on_land, on_submit=on_submit)
        self.disk = disk

    def _can_cut(self, work: Work) -> bool:
        return len(work.dst) == len(work.keys) == len(work.src)

    def close(self, within: float) -> tuple[Token, ...]:
        """As `Copier.close`; the folder is let go of once no part is under way."""
        end = monotonic() + within
        left = super().close(within)
        if not left:
            self.disk.close(max(end - monotonic(), 1.0))
        return left


def make_disk(config: DiskConfig, ledger: LedgerConfig, memory: Memory, rank: int, *, summed: bool = True) -> Disk:
    """The disk of one rank, for the durable pool of this ledger, in a folder of its own below `config.path`.

    `memory` has the ledger's other pools; bytes are summed unless told otherwise, and always with a secret. Errors:
    `ConfigError` for a folder or a secret that can't be used, and for no pool that is durable.
    """
    number = next((number for number, pool in enumerate(ledger.pools) if pool.durable and not pool.shared), None)
    if number is None:
        raise ConfigError("ledger.pools: none is durable, and so there is nothing to keep; set durable in one")
    pool, base = ledger.pools[number], sum(pool.blocks for pool in ledger.pools[:number])
    what = f"{config.fingerprint} / rank {rank} of {ledger.ranks} / blocks of {memory.block_bytes} bytes"
    try:
        seal = Seal(what, algorithm=Sum.XXH3 if summed else Sum.NONE, secret=config.secret())
    except ConfigError as error:
        raise ConfigError(f"disk.{error}") from None
    except ValueError as error:
        raise ConfigError(f"disk.secret_file: {error}") from None
    try:
        folder = Folder(config.path / f"rank-{rank}", seal, most_bytes=config.most_bytes, sync=config.sync)
    except OSError as error:
        raise ConfigError(f"disk.path: {config.path} can't be used: {error.strerror or error}") from None
    return Disk(folder, memory, base, pool.blocks, name=pool.copier)
