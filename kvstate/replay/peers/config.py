"""What a replay with peers is told: one frozen value, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from kvstate.machines.config import ConfigError as MachineConfigError
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.replay.checks import ConfigError, choice, number, share, whole
from kvstate.replay.config import INTEGRITY, MAX_BLOCK_BYTES, MAX_BLOCKS, MAX_KILLS, MAX_REQUESTS, MAX_SEED, Integrity
from kvstate.replay.workload import BLOCK_TOKENS
from kvstate.runtime.peers.settings import PeerConfig, TransportChoice
from kvstate.runtime.settings import IntegrityChoice, RuntimeConfig
from kvstate.runtime.tiers.objects.settings import StoreConfig
from kvstate.tiering import TierConfig, Write

DEVICE, HOST, PEER = "device", "host", "peer"
"""The names of pools, by tier; the object store's is `STORE`."""
STORE: Final = "store"
"""The pool that stands for what is in the object store."""
TRANSPORTS: Final = tuple(choice.value for choice in TransportChoice)
"""What may carry the bytes."""
PREFILL, DECODE = "prefill", "decode"
"""The two roles, and the names by which the processes address each other."""
FINGERPRINT: Final = "replay"
"""Of the bytes of all replays: the content oracle's."""
CHAOS: Final[dict[str, float]] = {"abort": 0.05, "lose": 0.02, "double": 0.02, "delay": 0.05, "reorder": 0.02}
"""The rates of `--chaos`: requests that are aborted, and what the link does to messages."""
RATES: Final = tuple(CHAOS)
"""The names of these settings."""
LEASE, RENEWALS, RESEND, PATIENCE, GREETING = 1.5, 4, 0.05, 0.75, 60.0
"""How patient the two are, in seconds: little, so that a peer that was stopped is missed within a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeersConfig:
    """All settings of a replay with peers. Raises `ConfigError` for a value that makes no sense."""

    trace: Path | None = None
    """A request trace; without one, a workload is generated from `seed`."""
    device_blocks: int = 4000
    """Blocks of each process's device pool."""
    host_blocks: int = 8000
    """Of each process's host pool; 0 is none."""
    peer_blocks: int = 4000
    """Handles of the pool that stands for what the prefill offers."""
    block_bytes: int = 4096
    """Bytes of a block in each rank, a multiple of 8."""
    ranks: int = 1
    """Each process holds so many pieces of every block."""
    transport: str = "gloo"
    """What carries the bytes."""
    store: str | None = None
    """The URL of an object store that both processes share; none is no such tier."""
    limit: int | None = None
    """At most so many requests are replayed."""
    seed: int = 0
    """Of the dice, and of the workload if there is no `trace`."""
    integrity: Integrity = "boundary"
    """Where bytes are summed and verified."""
    kill_peers: int = 0
    """How often one of the two is killed, and started again under the same name."""
    stop_peers: int = 0
    """How often one of the two is stopped for a while, and goes on."""
    abort: float = 0.0
    """Requests that are aborted on both sides."""
    lose: float = 0.0
    """Messages between the two that are lost."""
    double: float = 0.0
    """Messages that come twice."""
    delay: float = 0.0
    """Messages that come late."""
    reorder: float = 0.0
    """Messages that are overtaken by others."""

    def __post_init__(self) -> None:
        whole("--device-blocks", self.device_blocks, 1, MAX_BLOCKS)
        whole("--host-blocks", self.host_blocks, 0, MAX_BLOCKS)
        whole("--peer-blocks", self.peer_blocks, 1, MAX_BLOCKS)
        whole("--block-bytes", self.block_bytes, 64, MAX_BLOCK_BYTES)
        if self.block_bytes % 8:
            raise ConfigError("--block-bytes", f"is {self.block_bytes}; it must be a multiple of 8.")
        whole("--ranks", self.ranks, 1, 64)
        choice("--transport", self.transport, TRANSPORTS)
        choice("--integrity", self.integrity, INTEGRITY)
        whole("--seed", self.seed, 0, MAX_SEED)
        whole("--kill-peers", self.kill_peers, 0, MAX_KILLS)
        whole("--stop-peers", self.stop_peers, 0, MAX_KILLS)
        if self.limit is not None:
            whole("--limit", self.limit, 1, MAX_REQUESTS)
        for name in RATES:
            share(f"--{name}", getattr(self, name))
        number("--abort", self.abort, 0.0, 1.0)
        try:
            _ = None if self.store is None else StoreConfig(url=self.store, fingerprint=FINGERPRINT)
        except MachineConfigError as error:
            raise ConfigError("--store", f"is no store: {str(error).removeprefix('url: ')}.") from None

    def runtime(self, role: str) -> RuntimeConfig:
        """The settings of one process."""
        pools = [PoolConfig(DEVICE, self.device_blocks)]
        tiers = []
        if self.host_blocks:
            pools.append(PoolConfig(HOST, self.host_blocks, verify=self.integrity == "host"))
            tiers.append(TierConfig(pool=HOST, write=Write.THROUGH, inflight_blocks=self.host_blocks))
        if self.store is not None:
            blocks = 4 * self.device_blocks
            pools.append(PoolConfig(STORE, blocks, durable=True, verify=True, shared=True, copier=STORE))
            tiers.append(TierConfig(pool=STORE, write=Write.THROUGH, inflight_blocks=1024))
        if role == DECODE:
            pools.append(PoolConfig(PEER, self.peer_blocks, verify=True, shared=True, copier=PEER))
        ledger = LedgerConfig(tuple(pools), tokens_per_block=BLOCK_TOKENS, ranks=self.ranks)
        return RuntimeConfig(
            ledger=ledger,
            block_bytes=self.block_bytes,
            integrity=IntegrityChoice(self.integrity),
            load_for=2.0,
            tiers=tuple(tiers),
            store=None if self.store is None else StoreConfig(url=self.store, fingerprint=FINGERPRINT),
            peers=PeerConfig(
                name=role,
                fingerprint=FINGERPRINT,
                transport=TransportChoice(self.transport),
                lease=LEASE,
                renewals=RENEWALS,
                resend=RESEND,
                patience=PATIENCE,
                greeting=GREETING,
            ),
        )

    def as_dict(self) -> dict[str, Any]:
        """The settings as plain values, for `--json`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}
