"""A producer and a consumer with a real ledger each, and bytes that know whose they are.

Every block holds the key that was last written into it. A copy takes what is there when it lands; nobody tells it by a
token or a generation whether that is still right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kvstate.machines.config import LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Report, Token, Work
from kvstate.machines.verdicts import Announced, Ending, Grant, Hit, LoadVerdict, Refusal, Started
from kvstate.peers.party import Party
from kvstate.peers.words import Announce, Ended, Forward, Goods, Handoff, LetGo, Out, Source, Vanish
from tests.peers.rig import terms

SPACE = "space"
PEER = 1
BLOCKS = 4


@dataclass
class Producer:
    """A ledger whose device blocks are offered."""

    party: Party
    ledger: Ledger
    memory: dict[int, bytes] = field(default_factory=dict)
    """What each block holds."""
    leases: dict[bytes, int] = field(default_factory=dict)
    """By request."""
    ends: list[Ended] = field(default_factory=list)

    @classmethod
    def made(cls, life: int, **more: object) -> Producer:
        config = LedgerConfig((PoolConfig("device", BLOCKS),), incarnation=life)
        return cls(Party(terms("P", life, **more)), Ledger(config))

    def prefill(self, request: bytes, keys: list[bytes]) -> Handoff | None:
        """Compute the blocks of a prompt, and offer them; None if there is no memory or no peer."""
        lease = self.ledger.open(SPACE)
        assert isinstance(lease, int)
        grant = self.ledger.allocate(lease, len(keys))
        if not isinstance(grant, Grant):
            self.ledger.abort(lease)
            return None
        for block, key in zip(grant.blocks.blocks, keys, strict=True):
            self.memory[block] = key
        self.ledger.seal(lease, grant.blocks, keys)
        hold = self.ledger.hold(lease, grant.blocks, deadline=1e9)
        assert isinstance(hold, Token)
        blocks, lives = tuple(grant.blocks.blocks), tuple(grant.blocks.generations)
        goods = Goods(request, 16 * len(keys), (SPACE,) if keys else (), tuple(keys), blocks, lives)
        handoff = self.party.offer("C", goods, hold)
        if isinstance(handoff, Refusal):
            self.ledger.report(Report(hold, "done"))
            self.ledger.finish(lease)
            return None
        self.leases[request] = lease
        return handoff

    def finish(self, request: bytes) -> None:
        """The request is over here; its blocks are kept by the hold alone, or cached."""
        lease = self.leases.pop(request, None)
        if lease is not None:
            self.ledger.finish(lease)

    def overwrite(self) -> None:
        """Another request takes all the memory that there is, and writes into it."""
        lease = self.ledger.open(SPACE)
        assert isinstance(lease, int)
        while isinstance(grant := self.ledger.allocate(lease, 1), Grant):
            self.memory[grant.blocks.blocks[0]] = b"another's"
        self.ledger.abort(lease)

    def settle(self) -> None:
        for action in self.party.take_actions():
            if isinstance(action, LetGo) and action.hold is not None:
                self.ledger.report(Report(action.hold, "done"))
            elif isinstance(action, Ended):
                self.ends.append(action)


@dataclass
class Flight:
    """A part that a rank of the consumer works on."""

    work: Work
    landed: bool = False


@dataclass
class Consumer:
    """A ledger with a pool of what a peer offers."""

    party: Party
    ledger: Ledger
    remote: Callable[[Handoff, int], bytes]
    """What lies in a block of the producer right now."""
    memory: dict[int, bytes] = field(default_factory=dict)
    handles: dict[int, tuple[Handoff, int, int]] = field(default_factory=dict)
    """By block of the shared pool: the handoff, the line and the producer's block."""
    flights: list[Flight] = field(default_factory=list)
    loads: dict[int, tuple[int, Handoff | None, tuple[bytes, ...], tuple[int, ...]]] = field(default_factory=dict)
    """By load: the lease, the offer that it was begun for, the keys, and the blocks of its prefix."""
    goods: dict[Handoff, Goods] = field(default_factory=dict)
    ends: list[Ended] = field(default_factory=list)
    verdicts: list[LoadVerdict] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Blocks that a request was told to go on with, and that hold another's bytes."""

    @classmethod
    def made(cls, life: int, remote: Callable[[Handoff, int], bytes], **more: object) -> Consumer:
        pools = (PoolConfig("device", BLOCKS), PoolConfig("peer", BLOCKS, verify=True, copier="peer", shared=True))
        config = LedgerConfig(pools, incarnation=life, batch_blocks=2)
        return cls(Party(terms("C", life, **more)), Ledger(config), remote)

    def request(self, handoff: Handoff, until: float) -> int | None:
        """Admit the request of an offer: look its keys up and load what is hit; the number of the load."""
        goods = self.goods.get(handoff)
        lease = self.ledger.open(SPACE)
        if goods is None or not isinstance(lease, int):
            return None
        hit = self.ledger.lookup(lease, goods.keys)
        grant = self.ledger.allocate(lease, len(hit.below)) if isinstance(hit, Hit) and hit.below else None
        if not isinstance(hit, Hit) or not isinstance(grant, Grant):
            self.ledger.finish(lease)
            return None
        started = self.ledger.load(lease, hit, grant.blocks, deadline=until)
        assert isinstance(started, Started), started
        place = dict(zip(hit.below, grant.blocks.blocks, strict=True))
        blocks = tuple(place.get(at, ref.block) for at, ref in enumerate(hit.blocks))
        self.loads[started.load] = (lease, handoff, goods.keys, blocks)
        self.settle()
        return started.load

    def abort(self, load: int) -> None:
        lease, handoff, _, _ = self.loads[load]
        self.ledger.abort(lease)
        if handoff is not None:
            self.party.close(handoff, taken=False)
        self.settle()

    def land(self, place: int) -> None:
        """The bytes of a copy arrive."""
        flight = self.flights[place]
        work, flight.landed = flight.work, True
        if work.kind == "fetch":
            for src, dst in zip(work.src, work.dst, strict=True):
                handoff, _, block = self.handles[src]
                self.memory[dst] = self.remote(handoff, block)

    def report(self, place: int, outcome: str = "done") -> None:
        """The rank says how its part went; it compares no sums, so that only the protocol stands in the way."""
        flight = self.flights.pop(place)
        if not flight.landed and outcome == "done":
            self.flights.insert(place, flight)
            self.land(place)
            self.flights.pop(place)
        self.party.report(Report(flight.work.token, outcome))
        self.settle()

    def settle(self) -> None:
        """Everything that follows within this process, until nothing more does."""
        while True:
            actions, effects, verdicts = (
                self.party.take_actions(), self.ledger.take_effects(), self.ledger.take_verdicts()
            )  # fmt: skip
            if not (actions or effects or verdicts):
                return
            for action in actions:
                self._act(action)
            for effect in effects:
                if isinstance(effect, Work):
                    self._begin(effect)
            for verdict in verdicts:
                if isinstance(verdict, LoadVerdict):
                    self._told(verdict)

    def _act(self, action: object) -> None:
        if isinstance(action, Announce):
            goods = self.goods[action.handoff] = action.goods
            told = self.ledger.announce(PEER, [(SPACE, key) for key in goods.keys])
            assert isinstance(told, Announced)
            for ref, line in zip(told.refs, told.lines, strict=True):
                self.handles[ref.block] = (action.handoff, line, goods.blocks[line])
            self.party.announced(action.handoff, told.lines)
        elif isinstance(action, Vanish):
            keys = self.goods[action.handoff].keys
            self.ledger.vanish(PEER, [(SPACE, keys[line]) for line in action.lines])
        elif isinstance(action, Forward):
            self.ledger.report(action.report)
        elif isinstance(action, Ended):
            self.ends.append(action)

    def _begin(self, work: Work) -> None:
        if work.kind == "verify":
            sources = [Source(*self.handles[block][:2]) for block in work.src]
            self.party.expect(work.token, sources)
        self.flights.append(Flight(work))

    def _told(self, verdict: LoadVerdict) -> None:
        self.verdicts.append(verdict)
        lease, handoff, keys, blocks = self.loads[verdict.load]
        for block, key in list(zip(blocks, keys, strict=False))[: verdict.blocks]:
            if verdict.ending != Ending.ABORTED and self.memory.get(block) != key:
                self.wrong.append(f"block {block} of load {verdict.load} holds {self.memory.get(block)!r}, not {key!r}")
        if verdict.ending != Ending.ABORTED:
            self.ledger.finish(lease)
            if handoff is not None:
                self.party.close(handoff, taken=verdict.blocks > 0)


class Two:
    """Both of them, and the wire between."""

    def __init__(self, **more: object) -> None:
        self.more, self.now, self.lives = more, 0.0, 100
        self.producer = Producer.made(11, **more)
        self.dead: dict[int, dict[int, bytes]] = {}
        self.consumer = Consumer.made(22, self.remote, **more)
        self.wire: list[Out] = []
        self.producer.party.greet("C")
        self.consumer.party.greet("P")
        self.deliver_all()

    def remote(self, handoff: Handoff, block: int) -> bytes:
        """What a read of that block of the producer finds; of one that is dead, what its successor has there."""
        return self.producer.memory.get(block, b"nothing")

    def settle(self) -> None:
        self.producer.settle()
        self.consumer.settle()
        self.wire += self.producer.party.take_messages() + self.consumer.party.take_messages()

    def deliver(self, place: int, *, keep: bool = False) -> None:
        """A message arrives; with `keep` another copy of it stays on the way."""
        out = self.wire[place] if keep else self.wire.pop(place)
        party = self.producer.party if out.peer == "P" else self.consumer.party
        party.hear(out.data)
        self.settle()

    def deliver_all(self) -> None:
        self.settle()
        while self.wire:
            self.deliver(0)

    def tick(self, seconds: float, *, producer: bool = True, consumer: bool = True) -> None:
        self.now += seconds
        for side, goes in ((self.producer, producer), (self.consumer, consumer)):
            if goes:
                side.party.tick(self.now)
                side.ledger.tick(self.now)
        self.settle()

    def restart(self) -> None:
        """The producer dies, and another comes up under its name, with other bytes in its memory."""
        self.lives += 1
        self.producer = Producer.made(self.lives, **self.more)
        self.producer.party.tick(self.now)
        self.producer.ledger.tick(self.now)
        self.producer.memory = dict.fromkeys(range(BLOCKS), b"another life's")
        self.producer.party.greet("C")
        self.settle()

    def run_copies(self) -> None:
        """Every part lands and is reported, in order."""
        while self.consumer.flights:
            self.consumer.report(0)
            self.settle()
