"""What a disk tier is told. Brings neither torch nor a hash: settings are read where nothing is copied, too."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from kvstate.machines.config import ConfigError, LedgerConfig, PoolConfig

PAGE: Final = 4096
"""A file takes whole pages of so many bytes."""
HEADER: Final = 4096
"""Bytes of a header, of which a long fingerprint or namespace takes more."""
MOST_THREADS: Final = 256
"""Of one disk."""


_HALF: Final = re.compile(rb"[0-9a-fA-F]{32}")


class Sync(StrEnum):
    """What is on the disk, and not only with the system, when a commit is told."""

    NONE = "none"
    """Nothing. A commit survives the death of the process, and not a power cut."""
    DATA = "data"
    """The bytes. After a power cut a block is whole or absent."""
    FULL = "full"
    """The bytes and the name: after a power cut it is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskConfig:
    """Where a durable pool lies, and under which promises. How many blocks it has stands at the pool.

    Errors: `ConfigError`, one sentence with the field, the value and the remedy.
    """

    path: Path
    """A folder, made where it is not there; each rank has a folder of its own in it."""
    fingerprint: str
    """Says all that must be equal for stored bytes to mean the same: model and revision of the weights, layout, dtype,
    position encoding, hash of the keys and its seed, ... Rank, ranks and the size of a block are added."""
    sync: Sync = Sync.DATA
    """What a commit survives. Words may stand for members."""
    most_bytes: int | None = None
    """What the pool may take on the disk in each rank, at most; None is as much as its blocks take."""
    secret_file: Path | None = None
    """A file with a secret of 32 bytes, or 64 hexadecimal digits, with which all is summed (see `docs/tiers.md`)."""
    threads: int = 2
    """Of each rank's copier."""

    def __post_init__(self) -> None:
        for name in ("path", "secret_file"):
            value: object = getattr(self, name)
            if not _is_path(value) and not (value is None and name == "secret_file"):
                raise ConfigError(f"{name}: {value!r} is no path; give one, as a text or a Path")
            object.__setattr__(self, name, None if value is None else Path(str(value)))
        fingerprint: object = self.fingerprint
        if not isinstance(fingerprint, str) or not fingerprint:
            raise ConfigError(
                f"fingerprint: {self.fingerprint!r} says nothing; name model, revision, layout and dtype at least, or "
                "bytes of one model are served to another"
            )
        if self.sync not in tuple(Sync):
            raise ConfigError(f"sync: {self.sync!r} is none of {', '.join(Sync)}")
        object.__setattr__(self, "sync", Sync(self.sync))
        most = self.most_bytes
        if most is not None and (type(most) is not int or most < 1):
            raise ConfigError(f"most_bytes: {most!r} is no size; give a whole number, 1 at least, or leave it out")
        if type(self.threads) is not int or not 1 <= self.threads <= MOST_THREADS:
            raise ConfigError(f"threads: {self.threads!r} is out of range; give 1 to {MOST_THREADS}")

    def secret(self) -> bytes | None:
        """The secret, if there is a file of it. Errors: `ConfigError` for one that can't be read or is none."""
        return read_secret(self.secret_file)


def read_secret(path: Path | None) -> bytes | None:
    """The secret in this file. Errors: `ConfigError` for one that others may read, that can't be read, or is none."""
    if path is None:
        return None
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(f"secret_file: {path} may be read by others; say chmod 600")
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"secret_file: {path} could not be read: {error.strerror or error}") from None
    if _HALF.fullmatch(data):  # drawn by chance it would not be
        raise ConfigError(
            f"secret_file: {path} holds 32 hexadecimal digits, which is half a secret; write 64 of them into it, or 32 "
            "bytes that are no text"
        )
    if len(data) == 32:
        return data
    try:
        made = bytes.fromhex(data.decode("ascii").strip())
    except ValueError:
        made = b""
    if len(made) != 32:
        raise ConfigError(f"secret_file: {path} holds no secret; write 32 bytes into it, or 64 hexadecimal digits")
    return made


def _is_path(value: object) -> bool:
    return isinstance(value, str | Path) and str(value) != ""


def room_of(block_bytes: int) -> int:
    """Bytes that a block of so many takes on a disk, header included."""
    return -(-(block_bytes + HEADER) // PAGE) * PAGE


def durable_pool(ledger: LedgerConfig) -> PoolConfig | None:
    """The pool that lies in files of this machine and outlives the process, if there is one."""
    return next((pool for pool in ledger.pools if pool.durable and not pool.shared), None)


def check_disk(disk: DiskConfig | None, ledger: LedgerConfig, block_bytes: int) -> None:
    """Do disk and pools go together? Errors: `ConfigError`."""
    durable = [pool for pool in ledger.pools if pool.durable and not pool.shared]
    if disk is None:
        return
    if not isinstance(disk, DiskConfig):
        raise ConfigError(f"disk: {type(disk).__name__} is no DiskConfig; give one with path and fingerprint")
    if len(durable) != 1:
        names = ", ".join(pool.name for pool in durable) or "none"
        raise ConfigError(f"disk: it keeps the durable pool of the ledger, of which there are {len(durable)} ({names})")
    pool = durable[0]
    shared = [other.name for other in ledger.pools[1:] if other is not pool and other.copier == pool.copier]
    if shared:
        raise ConfigError(
            f"ledger.pools: {pool.name} has the copier {pool.copier!r} of {shared[0]}, and what copies to memory can't "
            'write files; give it another, such as copier = "disk"'
        )
    most = disk.most_bytes
    if most is not None and pool.blocks * room_of(block_bytes) > most:
        raise ConfigError(
            f"disk.most_bytes: {most} bytes have room for {most // room_of(block_bytes)} blocks, and pool {pool.name} "
            f"has {pool.blocks}; give it fewer, or the disk more"
        )
