"""The pools below vLLM's own, as both halves of the connector have them: for the ledger, and for a rank's copiers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from kvstate.integrations.vllm.layout import Layout, short
from kvstate.integrations.vllm.settings import ConnectorConfigError, Settings
from kvstate.machines.config import ConfigError, GroupConfig, GroupKind, LedgerConfig, PoolConfig
from kvstate.runtime.clock import Clock
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.settings import IntegrityChoice, RuntimeConfig, Workers
from kvstate.runtime.tiers.settings import DiskConfig, Sync
from kvstate.tiering import TierConfig, Write

COPIER: Final = "cpu"
"""What the ledger calls the copier between vLLM's blocks and the host pool."""
DISK: Final = "disk"
"""And that of the disk."""
HOST: Final = "host"
"""The name of the host pool."""
STEP_SECONDS: Final = 3600.0
"""A step that was not retired by then is given up. No block hangs on it here; the first may compile for minutes."""
PART_BLOCKS: Final = 256
"""Of a store; a load is cut into its batches. A copier that has threads cuts a part among them by itself."""


def ledger_of(settings: Settings, layout: Layout) -> LedgerConfig:
    """What the ledger is told."""
    pools: tuple[PoolConfig, ...] = (
        PoolConfig("device", layout.device_blocks, foreign=True, copier=COPIER),
        PoolConfig(HOST, layout.host_blocks, verify=settings.integrity == "host", copier=COPIER),
    )
    if layout.disk_blocks:
        pools += (PoolConfig(DISK, layout.disk_blocks, durable=True, copier=DISK),)
    return LedgerConfig(
        pools,
        tokens_per_block=layout.block_tokens,
        groups=tuple(
            GroupConfig(f"g{number}", layout.block_tokens, GroupKind.SLIDING if window else GroupKind.FULL, window)
            for number, window in enumerate(layout.windows)
        ),
        ranks=layout.ranks,
        attempts=settings.attempts,
        grace=settings.grace_seconds,
        cool_for=settings.cool_seconds,
        pending_for=settings.pending_seconds,
        offload_for=settings.store_seconds,
        step_for=STEP_SECONDS,
        part_blocks=PART_BLOCKS,
    )


def runtime_of(settings: Settings, layout: Layout, clock: Clock | None = None) -> KVRuntime:
    """The ledger of such an engine; its workers are vLLM's. Without a disk nothing is fed but the host, by us."""
    tiers: tuple[TierConfig, ...] = ()
    if settings.disk is not None:
        tiers = (
            TierConfig(pool=HOST, promote=settings.disk.promote, store_for=settings.store_seconds),
            TierConfig(pool=DISK, write=Write(settings.disk.write), store_for=settings.store_seconds),
        )
    config = RuntimeConfig(
        ledger=ledger_of(settings, layout),
        block_bytes=layout.block_bytes,
        workers=Workers.OWN,
        integrity=IntegrityChoice(settings.integrity),
        load_for=settings.load_seconds,
        tiers=tiers,
        ring_events=0,  # nobody would write it down: what broke is in the log, with the ledger's own dump
    )
    return KVRuntime(config, clock=clock)


def disk_of(settings: Settings, layout: Layout, forms: str) -> DiskConfig | None:
    """Where the disk of this engine lies, if it has one; `forms` says how a block lies in vLLM's tensors.

    Errors: `ConnectorConfigError`.
    """
    disk = settings.disk
    if disk is None:
        return None
    path = Path(disk.path) if layout.engine is None else Path(disk.path) / f"engine-{layout.engine}"
    try:
        return DiskConfig(
            path=path,
            fingerprint=f"vllm {layout.fingerprint} forms {short(forms)} also {disk.fingerprint}",
            sync=Sync(disk.sync),
            secret_file=Path(disk.secret_file) if disk.secret_file else None,
            threads=disk.threads,
        )
    except ConfigError as error:
        raise ConnectorConfigError(f"kv_connector_extra_config.disk.{error}") from None
