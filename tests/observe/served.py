"""A runtime with a copier that a test releases by hand, for those who watch it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.messages import Failure
from kvstate.machines.verdicts import Grant, Hit, Started
from kvstate.runtime.answers import Done
from kvstate.runtime.clock import VirtualClock
from kvstate.runtime.copiers.hand import HandCopier
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.settings import RuntimeConfig
from tests.runtime.parts import BLOCK, pools
from tests.runtime.rig import got, keys_of

POOLS = (PoolConfig("device", 4), PoolConfig("host", 8, verify=True))


class Served:
    """A device of four blocks and a host of eight, of 64 bytes each; copies land when a test says so."""

    def __init__(self, **more: Any) -> None:
        ledger = LedgerConfig(POOLS, retry_delay=0.01, **more.pop("ledger", {}))
        self.inbox = Inbox()
        self.copier = HandCopier(pools(BLOCK, 4, 8), self.inbox)
        self.clock = VirtualClock()
        config = RuntimeConfig(ledger=ledger, block_bytes=BLOCK, **more)
        self.kv = KVRuntime(config, copiers=[{"cpu": self.copier}], inbox=self.inbox, clock=self.clock)

    def compute(self, *numbers: int) -> tuple[int, Grant]:
        """A request computes these blocks and stores them; its lease is open, and the copies are under way."""
        lease = got(self.kv.open("a"))
        grant = got(self.kv.allocate(lease, len(numbers)))
        got(self.kv.seal(lease, grant.blocks, keys_of(*numbers)))
        got(self.kv.offload(lease, grant.blocks))
        self.kv.take_effects()
        return lease, grant

    def fetch(self, *numbers: int, deadline: float = 1.0) -> tuple[int, Hit, Started]:
        """A request asks for these blocks and loads what lies on the host."""
        lease = got(self.kv.open("a"))
        hit = got(self.kv.lookup(lease, keys_of(*numbers)))
        into = got(self.kv.allocate(lease, len(hit.below))).blocks
        started = got(self.kv.load(lease, hit, into, deadline=self.clock.now() + deadline))
        self.kv.take_effects()
        return lease, hit, started

    def land(self, seconds: float = 0.0, failures: Sequence[Failure] = ()) -> Done:
        """What is in flight takes so long, lands (or fails), and is heard."""
        self.clock.advance(seconds)
        for flight in self.copier.in_flight():
            if not flight.over:
                self.copier.land(flight.serial)
            self.copier.deliver(flight.serial, failures=tuple(failures))
        return self.kv.poll()

    def crowd(self) -> None:
        """Another request takes the whole device for a moment, so that nothing stays cached there."""
        lease = got(self.kv.open("a"))
        got(self.kv.allocate(lease, 4))
        self.kv.finish(lease)
