"""The settings by which a runtime hands blocks to other processes, and takes them from there. Brings no torch."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from kvstate.machines.config import ConfigError, LedgerConfig, PoolConfig
from kvstate.runtime.tiers.settings import read_secret

MAX_SECONDS: Final = 86_400.0
"""Of any wait here: a day."""
MAX_RENEWALS: Final = 1000
"""Of one lease."""
NO_SECRET: Final = b"no secret: this machine only"
"""Keeps out who speaks something else, and nobody who means harm."""
MAX_PORT: Final = 65_535
"""Of TCP."""


class TransportChoice(StrEnum):
    """What carries the bytes between two processes; both have to have the same."""

    GLOO = "gloo"
    """Sockets, through torch.distributed: comes with torch, and runs everywhere."""
    NIXL = "nixl"
    """NIXL over UCX, which reads the other's memory in place; the extra package `nixl`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerConfig:
    """Who this process is to others, whom it knows, and how long it waits for them. Times are in seconds.

    Errors: `ConfigError`, one sentence with the place and the remedy.
    """

    name: str
    """As its peers address it: no two processes that run at the same time have the same."""
    fingerprint: str
    """Of all that the bytes depend on: model and revision of its weights, parallel layout, dtype, block size, hash of
    keys. Peers with another one are refused."""
    listen: str = "127.0.0.1:0"
    """Where the messages of peers arrive, as host:port; port 0 takes any that is free."""
    peers: tuple[str, ...] = ()
    """Peers that are dialled, as name=host:port. One that dials us need not stand here."""
    transport: TransportChoice = TransportChoice.GLOO
    """What carries the bytes, as a member or as its word."""
    secret_file: Path | None = None
    """A file of 32 bytes, readable by its owner alone, that all peers have: who does not know it is not listened to.
    Without one only addresses of this very machine may be listened on."""
    serves: bool = True
    """May others pull from here? A process that only borrows can say no: then nobody can read its memory, and it can
    offer nothing."""
    lease: float = 30.0
    """How long offered blocks are held for a peer that is silent."""
    renewals: int = 4
    """How often a peer may have that time again."""
    resend: float = 0.2
    """After so long without an answer a message is sent again."""
    patience: float = 2.0
    """How long it is sent again at most, and how long a copy waits for the producer's word that it counts."""
    greeting: float = 10.0
    """How long a peer is greeted that does not answer."""

    def __post_init__(self) -> None:
        secret: object = self.secret_file
        if isinstance(secret, str):
            object.__setattr__(self, "secret_file", Path(secret))
        if self.transport not in tuple(TransportChoice):
            raise ConfigError(f"transport: {self.transport!r} is none of {', '.join(TransportChoice)}")
        object.__setattr__(self, "transport", TransportChoice(self.transport))
        for what in ("name", "fingerprint"):
            value = getattr(self, what)
            if not isinstance(value, str) or not value or not value.isprintable():
                raise ConfigError(f"{what}: {value!r} is no name; give a printable text")
        host, _ = address_of("listen", self.listen)
        if self.secret_file is None and not _is_here(host):
            raise ConfigError(
                f"listen: {self.listen} can be reached by others, and anybody could offer blocks; name a secret_file"
            )
        if not isinstance(self.peers, tuple):
            raise ConfigError(f"peers: {self.peers!r} is no tuple; give one, of name=host:port for each peer")
        names = [self.name, *(peer for peer, _ in self.known())]
        if len(set(names)) < len(names):
            raise ConfigError(f"peers: one of {', '.join(names)} stands there twice; a name is one process")
        if type(self.renewals) is not int or not 0 <= self.renewals <= MAX_RENEWALS:
            raise ConfigError(f"renewals: {self.renewals!r} is out of range; give 0 to {MAX_RENEWALS}")
        if type(self.serves) is not bool:
            raise ConfigError(f"serves: {self.serves!r} is neither true nor false")
        for what in ("lease", "resend", "patience", "greeting"):
            value = getattr(self, what)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_SECONDS:
                raise ConfigError(f"{what}: {value!r} is no time to wait; give seconds, more than 0, a day at most")

    def known(self) -> list[tuple[str, tuple[str, int]]]:
        """The peers that are dialled: name, and host with port."""
        found = []
        for one in self.peers:
            name, equals, where = str(one).partition("=")
            if not (equals and name):
                raise ConfigError(f"peers: {one!r} names no peer; give name=host:port")
            found.append((name, address_of("peers", where)))
        return found

    def secret(self) -> bytes:
        """What all peers know; where there is no file of it, what everybody knows. Errors: `ConfigError`."""
        return read_secret(self.secret_file) or NO_SECRET


def address_of(place: str, text: object) -> tuple[str, int]:
    """Host and port of `host:port`. Errors: `ConfigError`, naming the place."""
    host, colon, port = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not (colon and host and port.isdecimal() and int(port) <= MAX_PORT):
        raise ConfigError(f"{place}: {text!r} is no address; give host:port, with a port up to {MAX_PORT}")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _is_here(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def peer_pool(ledger: LedgerConfig) -> tuple[int, PoolConfig] | None:
    """The pool that stands for what peers offer, with its number, if there is one."""
    return next(((n, pool) for n, pool in enumerate(ledger.pools) if pool.shared and not pool.durable), None)


def check_peers(peers: PeerConfig | None, ledger: LedgerConfig, *, own_copiers: bool) -> None:
    """Do peers and pools go together? `own_copiers`: are there copiers in this process? Errors: `ConfigError`."""
    pools = [pool for pool in ledger.pools if pool.shared and not pool.durable]
    if peers is None:
        return
    if not isinstance(peers, PeerConfig):
        raise ConfigError(f"peers: {type(peers).__name__} is no PeerConfig; give one with a name and a fingerprint")
    if not (pools or peers.serves):
        raise ConfigError(
            "peers.serves: a process that serves nobody, and has no pool for what peers offer, has nothing to do with "
            "peers; set serves, or add a pool that is shared"
        )
    if len(pools) > 1:
        raise ConfigError(
            f"ledger.pools: {pools[1].name} is the second that is shared and not durable; what peers offer is one pool"
        )
    if pools and [pool.copier for pool in ledger.pools].count(pools[0].copier) > 1:
        raise ConfigError(
            f"ledger.pools: {pools[0].name} stands for what peers offer and needs a copier of its own, not "
            f"{pools[0].copier!r}, which another pool has"
        )
    if ledger.pools[0].foreign:
        raise ConfigError("peers: the device pool is foreign; blocks of an engine's own allocator can't be offered yet")
    if not own_copiers:
        raise ConfigError('peers: blocks are handed over by copiers of this process; take workers = "threads"')
