"""An engine over small pools with real bytes and a copier that a test releases by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import BlockRef, Outcome
from kvstate.machines.tables.block import State as B
from kvstate.machines.verdicts import Hit, LoadVerdict, Refusal, Short
from kvstate.replay.breaks import Broken, intact
from kvstate.replay.content import poison_many
from kvstate.runtime.clock import VirtualClock
from kvstate.runtime.copiers.hand import Flight, HandCopier
from kvstate.runtime.dispatcher import Dispatcher
from kvstate.runtime.engine import Engine, Poll
from kvstate.runtime.inbox import Inbox
from tests.runtime.parts import BLOCK, fill, key, pools

T = TypeVar("T")


def got(value: T | Short | Refusal) -> T:
    """What a request gave, where the test leaves no way for it to be refused."""
    assert not isinstance(value, Short | Refusal), value
    return value


def end(engine: Engine) -> Dispatcher:
    """What gives effects to the copiers of an engine of one rank."""
    (link,) = engine.links
    assert isinstance(link, Dispatcher)
    return link


def keys_of(*numbers: int) -> list[bytes]:
    return [key(number) for number in numbers]


class Rig:
    """Blocks 0.. are the device, the next ones the host. Time stands still until `wait` moves it."""

    def __init__(
        self, device: int = 4, host: int = 4, *, parts: int = 16, jobs: int = 256, law: Broken | None = None
    ) -> None:
        law = law or intact()
        self.memory = pools(BLOCK, device, host)
        self.inbox = Inbox()
        self.clock = VirtualClock()
        self.ledger = Ledger(
            LedgerConfig(
                pools=(PoolConfig("device", device), PoolConfig("host", host, verify=True)),
                part_blocks=parts,
                max_jobs=jobs,
            ),
            machines=law.machines,
            couplings=law.couplings,
            acts=law.acts,
        )
        self.copier = HandCopier(self.memory, self.inbox)
        self.engine = Engine(self.ledger, {"cpu": self.copier}, self.inbox, self.clock)

    # -- the copies ----------------------------------------------------------------------------------------------------

    def flying(self) -> list[Flight]:
        """What was handed out and is not at rest."""
        self.engine.pump()
        return self.copier.in_flight()

    def run(self) -> list[Poll]:
        """Let all that was handed out land and be reported, with what follows from it, and hear it."""
        turns = []
        while flights := self.flying():
            for flight in flights:
                if not flight.over:
                    self.copier.land(flight.serial)
                self.copier.deliver(flight.serial)
            turns.append(self.engine.poll())
        return turns

    def deliver(self, flight: Flight) -> Poll:
        """The report of bytes that have landed, and a turn of the loop."""
        self.copier.deliver(flight.serial)
        return self.engine.poll()

    def wait(self, seconds: float) -> Poll:
        self.clock.advance(seconds)
        return self.engine.poll()

    # -- requests ------------------------------------------------------------------------------------------------------

    def open(self) -> int:
        return got(self.ledger.open("test"))

    def allocate(self, lease: int, count: int) -> Sequence[BlockRef]:
        """Blocks as an engine gets them: what was in them is poison."""
        refs = got(self.ledger.allocate(lease, count)).blocks
        self.poison(refs)
        return refs

    def poison(self, refs: Sequence[BlockRef]) -> None:
        blocks = [ref.block for ref in refs]
        poison_many(self.memory.pools[0].array, blocks, blocks, [ref.generation for ref in refs])

    def computed(self, lease: int, keys: Sequence[bytes]) -> Sequence[BlockRef]:
        """Blocks that the lease has filled and published."""
        refs = self.allocate(lease, len(keys))
        fill(self.memory, [ref.block for ref in refs], keys)
        assert all(got(self.ledger.seal(lease, refs, keys)))
        return refs

    def offload(self, lease: int, refs: Sequence[BlockRef]) -> int:
        return got(self.ledger.offload(lease, refs)).job

    def only_in_host(self, keys: Sequence[bytes]) -> None:
        """Somebody before us has stored these keys; on the device nothing of them is left."""
        lease = self.open()
        self.offload(lease, self.computed(lease, keys))
        self.run()
        self.ledger.finish(lease)
        self.empty_device()

    def empty_device(self) -> None:
        """Evict all that is cached on the device."""
        lease = self.open()
        pool = self.ledger.books.pools[0]
        got(self.ledger.allocate(lease, pool.counts[B.FREE] + pool.counts[B.CACHED]))
        self.ledger.abort(lease)

    def load(self, lease: int, keys: Sequence[bytes], seconds: float = 5.0) -> tuple[int, Sequence[BlockRef]]:
        """Start to load keys that lie in the host pool alone; returns the load and where it goes."""
        hit = self.look_up(lease, keys)
        assert len(hit.below) == len(keys)
        into = self.allocate(lease, len(keys))
        started = got(self.ledger.load(lease, hit, into, deadline=self.clock.now() + seconds))
        self.engine.pump()
        return started.load, into

    def look_up(self, lease: int, keys: Sequence[bytes]) -> Hit:
        return got(self.ledger.lookup(lease, keys))

    def state(self, block: int) -> B:
        return B(self.ledger.books.block_state[block])


def only_load(turns: Sequence[Poll]) -> LoadVerdict:
    """The one load verdict among these turns."""
    verdicts = [verdict for turn in turns for verdict in turn.loads]
    assert len(verdicts) == 1, verdicts
    return verdicts[0]


SILENT = Outcome.TIMEOUT
"""The outcome that proves nothing."""
