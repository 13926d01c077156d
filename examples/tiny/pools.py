"""Where the blocks are, and who copies them: the decoder's own cache as the device pool, host memory below it."""

from __future__ import annotations

from typing import Final, NamedTuple

from examples.tiny import BLOCK
from examples.tiny.decoder import Cache
from examples.tiny.weather import Weather
from kvstate import KVRuntime, RuntimeConfig
from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.runtime.clock import VirtualClock
from kvstate.runtime.copiers.choice import make_copier
from kvstate.runtime.copiers.hand import HandCopier
from kvstate.runtime.copy import Integrity
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory
from kvstate.runtime.pages import host_pool
from kvstate.runtime.settings import IntegrityChoice
from kvstate.runtime.tensors import KVPool


class Waits(NamedTuple):
    """Seconds until a copy is given up."""

    load: float
    """Until a load is told how far it came. What is missing is then computed, so it need not be generous."""
    offload: float


HURRIED: Final = Waits(load=0.15, offload=0.3)
"""In bad weather, where late copies are meant to be too late."""
UNHURRIED: Final = Waits(load=5.0, offload=30.0)
"""Where none are, however busy the machine is."""
NAP: Final = 0.002
"""Real seconds for which a server that has nothing to compute waits for a report."""


class Machine(NamedTuple):
    """What a server runs on."""

    kv: KVRuntime
    cache: Cache
    """The decoder's tensors, which are the device pool."""
    memory: Memory
    """Both pools."""
    weather: Weather | None
    """What befalls the copies; None where real threads make them, in real time."""

    def pass_time(self, *, idle: bool) -> None:
        """The end of a turn: with weather, time moves on; without, it moves by itself, and an idle server waits."""
        if self.weather is not None:
            self.weather.pass_time()
        elif idle:
            self.kv.wait(NAP)


def make_machine(cache: Cache, host_blocks: int, *, verify: bool, faults: int | None) -> Machine:
    """A runtime over this cache, and so many host blocks below it.

    `verify` has each block that comes up compared with the checksum that its store left. `faults` is the seed of bad
    weather; without one, threads make the copies, and nothing is injected.
    """
    device = KVPool.from_tensors("device", 0, cache, block_dim=1)  # wraps the tensors; copies nothing
    host = host_pool("host", device.end, host_blocks, device.block_bytes)  # page-locked where torch has CUDA
    memory, inbox = Memory([device, host]), Inbox()
    waits = UNHURRIED if faults is None else HURRIED
    config = RuntimeConfig(
        ledger=LedgerConfig(
            (PoolConfig("device", device.count), PoolConfig("host", host_blocks, verify=verify)),
            tokens_per_block=BLOCK,
            part_blocks=2,  # small, so that a load is several parts and one of them may fail
            batch_blocks=2,  # so many blocks count or fall together; what lies in front of a bad one still counts
            grace=0.1,
            cool_for=0.2,
            pending_for=0.1,
            offload_for=waits.offload,
        ),
        block_bytes=device.block_bytes,
        load_for=waits.load,
        integrity=IntegrityChoice.HOST if verify else IntegrityChoice.OFF,
    )
    integrity = Integrity(config.integrity)
    if faults is None:
        copier = make_copier(memory, inbox, integrity=integrity, threads=config.threads)
        return Machine(KVRuntime(config, copiers=[{"cpu": copier}], inbox=inbox), cache, memory, None)
    clock, hand = VirtualClock(), HandCopier(memory, inbox, integrity=integrity)
    kv = KVRuntime(config, copiers=[{"cpu": hand}], inbox=inbox, clock=clock)
    return Machine(kv, cache, memory, Weather(hand, memory, clock, faults))
