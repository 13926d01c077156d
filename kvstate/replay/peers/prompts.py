"""Prompts on their way onto a device: from whatever tier has their blocks, and computed where none has.

What both processes of a replay with peers do, by the requests of a `KVRuntime` alone, as an engine would. Bytes come
from the content oracle; every block of a prompt is compared with it once all are there, hits on the device included: a
stray write into a cached block is a wrong byte for whoever hits it.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from dataclasses import dataclass, field, fields
from typing import Any, Final

from kvstate.errors import code_of
from kvstate.machines.messages import BlockRefs
from kvstate.machines.tables.block import State as B
from kvstate.machines.verdicts import Ending, Hit, LoadVerdict, Refusal, Short, Started
from kvstate.replay import content
from kvstate.replay.peers.config import PEER, STORE, PeersConfig
from kvstate.replay.plays import NAMESPACE, NO_BLOCKS, joined, keys_of, replaced
from kvstate.replay.trace import Request
from kvstate.runtime.answers import Done
from kvstate.runtime.kv import KVRuntime

DECODING: Final = 24
"""So many prompts keep their blocks for a while after all are there, as decodes do."""


@dataclass(slots=True, eq=False)
class Prompt:
    """One request in one process."""

    request: Request
    """What the trace says of it."""
    keys: list[bytes]
    """The keys of its blocks, first to last."""
    lease: int = 0
    hit: Hit | None = None
    """What its lookup pinned; None while it waits for that."""
    load: int = 0
    """The load that it waits for; 0 for none."""
    blocks: BlockRefs = NO_BLOCKS
    """Its blocks by position, once all are there."""
    sought: bool = False
    """Has the store been asked?"""
    offer: int = 0
    """The number of the handoff that it came with, or went out in."""
    taken: bool = False
    """Has a load committed something that a peer offered?"""
    answered: bool = False
    """Has the parent been told that it is served?"""


@dataclass(slots=True)
class Counts:
    """What one process counted."""

    hits: Counter[str] = field(default_factory=Counter)
    """Blocks of prompts by the tier that had them at the first lookup that was answered."""
    loaded: Counter[str] = field(default_factory=Counter)
    """Blocks that loads committed, by tier."""
    computed: int = 0
    """Blocks that were computed."""
    loads: Counter[str] = field(default_factory=Counter)
    """Loads by how they ended."""
    handoffs: Counter[str] = field(default_factory=Counter)
    """Handoffs by how they ended for this side."""
    failures: Counter[str] = field(default_factory=Counter)
    """Failures in verdicts, by the name of their code."""
    aborts: int = 0
    too_long: int = 0
    """Prompts that do not fit the device."""
    wrong: list[str] = field(default_factory=list)
    """Blocks that did not hold the bytes of their key, a sentence each; whoever tells them takes them out."""

    def as_dict(self) -> dict[str, Any]:
        """All counts by name, as plain values."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "wrong"}
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in values.items()}


class Prompts:
    """The prompts of one process. Subclasses say when one begins and what follows when all its blocks are there."""

    def __init__(self, kv: KVRuntime, config: PeersConfig) -> None:
        self.kv = kv
        self.config = config
        self.counts = Counts()
        self.said: list[tuple[Any, ...]] = []
        """For the parent."""
        self.waiting: dict[int, Prompt] = {}
        """By lease: those whose blocks are not all there, the oldest first."""
        self.decoding: deque[Prompt] = deque()
        """Those that keep their blocks for a while."""
        self._pools = [pool.name for pool in kv.config.ledger.pools]
        self._store = self._pools.index(STORE) if STORE in self._pools else 0
        self._step = 0

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def there(self, prompt: Prompt) -> None:
        """All blocks of the prompt are on the device and right. By default it decodes for a while."""
        self.decoding.append(prompt)
        while len(self.decoding) > DECODING:
            self.end(self.decoding.popleft())

    def over(self, prompt: Prompt) -> None:
        """The prompt has ended, and its lease with it."""

    # -- the loop ------------------------------------------------------------------------------------------------------

    def begin(self, prompt: Prompt) -> bool:
        """Open a lease; False for a prompt that fits no device."""
        if len(prompt.keys) > self.config.device_blocks:
            self.counts.too_long += 1
            self.over(prompt)
            return False
        lease = self.kv.open(NAMESPACE)
        if isinstance(lease, Refusal):
            self.over(prompt)
            return False
        prompt.lease = lease
        self.waiting[lease] = prompt
        return True

    def turn(self, done: Done) -> None:
        """Hear how loads ended, and let those look up who wait for that."""
        for verdict in done.verdicts:
            self._loaded(verdict)
        for prompt in list(self.waiting.values()):
            if prompt.hit is None and not self._look_up(prompt):
                break

    def abort(self, prompt: Prompt) -> None:
        """It is not wanted any more."""
        self.counts.aborts += 1
        if prompt in self.decoding:
            self.decoding.remove(prompt)
        self.waiting.pop(prompt.lease, None)
        self.kv.abort(prompt.lease)
        self.over(prompt)

    def end(self, prompt: Prompt) -> None:
        """It has all that it needed."""
        self.kv.finish(prompt.lease)
        self.over(prompt)

    def _look_up(self, prompt: Prompt) -> bool:
        """Pin what is cached, get what is missing, load or compute. False if there is no room."""
        hit = self.kv.lookup(prompt.lease, prompt.keys)
        if not isinstance(hit, Hit) or hit.pending:
            return True
        if self._store and not prompt.sought and len(hit.blocks) < len(prompt.keys):
            prompt.sought = True
            if self.kv.seek(prompt.lease, prompt.keys[len(hit.blocks) :], pool=self._store):
                self.kv.unpin(hit)
                return True
        cached, below = len(hit.blocks), len(hit.below)
        fresh = self._make_room(prompt, len(prompt.keys) - cached + below)
        if fresh is None:
            self.kv.unpin(hit)
            return False
        pool_of = self.kv.ledger.books.pool_of
        self.counts.hits.update(self._pools[pool_of[ref.block]] for ref in hit.blocks)
        prompt.hit, into = hit, fresh[:below]
        prompt.blocks = replaced(joined(BlockRefs.of(hit.blocks), fresh[below:]), hit.below, into)
        started = self.kv.load(prompt.lease, hit, into) if below else None
        if isinstance(started, Started):
            prompt.load = started.load
        else:
            self._compute(prompt)
        return True

    def _make_room(self, prompt: Prompt, count: int) -> BlockRefs | None:
        """Allocate; a full pool ends the oldest decode."""
        while True:
            got = self.kv.allocate(prompt.lease, count)
            if not isinstance(got, Refusal | Short):
                return got.blocks
            if isinstance(got, Refusal) or got.free + got.draining >= count or not self.decoding:
                return None
            self.end(self.decoding.popleft())

    def _loaded(self, verdict: LoadVerdict) -> None:
        self.counts.loads[verdict.ending] += 1
        for error in verdict.errors:
            name = code_of(error.code).name
            if not self.counts.failures[name]:
                self.said.append(("trouble", f"the first {name}: {error}"))
            self.counts.failures[name] += 1
        prompt = self.waiting.get(verdict.lease)
        if prompt is None or prompt.load != verdict.load or prompt.hit is None:
            return
        prompt.load = 0
        if verdict.ending == Ending.ABORTED:
            return
        self.kv.promote(verdict, prompt.hit, prompt.blocks.at(array("q", prompt.hit.below)))
        pool_of = self.kv.ledger.books.pool_of
        tiers = [
            self._pools[pool_of[prompt.hit.blocks[place].block]] for place in prompt.hit.below if place < verdict.blocks
        ]
        self.counts.loaded.update(tiers)
        prompt.taken = PEER in tiers
        gone = [place for place, block in enumerate(prompt.blocks.blocks) if block in set(verdict.left)]
        if gone:
            fresh = self._make_room(prompt, len(gone))
            if fresh is None:  # begin anew, when there is room
                self._again(prompt)
                return
            prompt.blocks = replaced(prompt.blocks, gone, fresh)
        self._compute(prompt)

    def _again(self, prompt: Prompt) -> None:
        del self.waiting[prompt.lease]
        self.kv.preempt(prompt.lease)
        prompt.hit, prompt.blocks, prompt.load = None, NO_BLOCKS, 0
        self.begin(prompt)

    def _compute(self, prompt: Prompt) -> None:
        """One step computes what is open, and publishes it; then every block of the prompt is compared."""
        del self.waiting[prompt.lease]
        state, is_open = self.kv.ledger.books.block_state, int(B.OPEN)
        opened = [place for place, block in enumerate(prompt.blocks.blocks) if state[block] == is_open]
        refs, keys = prompt.blocks.at(array("q", opened)), [prompt.keys[place] for place in opened]
        self.counts.computed += len(opened)
        self._step += 1
        self.kv.step_dispatched(self._step, [prompt.lease])
        self.kv.take_effects()
        for rank, memory in enumerate(self.kv.memories):
            if opened:
                content.write_many(memory.pool_of(0).array, list(refs.blocks), _of_rank(keys, rank))
        self.kv.seal(prompt.lease, refs, keys)
        self.kv.step_retired(self._step)
        self.kv.store(prompt.lease, refs)
        self.compare(list(prompt.blocks.blocks), prompt.keys, f"request {prompt.request.line}")
        self.there(prompt)

    # -- bytes ---------------------------------------------------------------------------------------------------------

    def compare(self, blocks: list[int], keys: list[bytes], whose: str) -> None:
        """Do these device blocks hold the bytes of their keys, on every rank?"""
        for rank, memory in enumerate(self.kv.memories):
            pool = memory.pool_of(0)
            for line in content.check_many(pool.array, blocks, _of_rank(keys, rank)):
                problem = content.explain(pool.array[blocks[line]], _of_rank(keys[line : line + 1], rank)[0])
                self.counts.wrong.append(f"{whose}, block {blocks[line]} of rank {rank}: {problem}")

    def compare_all(self) -> None:
        """Compare whatever is cached on the device."""
        books = self.kv.ledger.books
        named = [(books.keys.blocks[slot], name.key) for slot, name in books.keys.names() if name.pool == 0]
        named = [(block, key) for block, key in named if books.block_state[block] in (int(B.ACTIVE), int(B.CACHED))]
        self.compare([block for block, _ in named], [key for _, key in named], "at the end")


def _of_rank(keys: list[bytes], rank: int) -> list[bytes]:
    """What the oracle is asked for: each rank's piece of a block holds other bytes."""
    return [key + rank.to_bytes(2, "little") for key in keys]


def prompt_of(request: Request) -> Prompt:
    """A request that has not begun."""
    return Prompt(request, keys_of(request.hash_ids))
