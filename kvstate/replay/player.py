"""A small serving engine that replays requests: the embedder's loop, with bytes for a model.

A request is admitted in file order. Its life:

    arriving    looked up; while somebody else loads what it needs it asks again, a bounded time
    loading     the part of its prefix that lies below the device is on the way
    prefill     one step computes what is missing, publishes it and hands it to the offload
    decode      holds its lease, with private blocks for its output, for a number of later admissions
    over        finished, aborted, or preempted and admitted again with a new lease
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from kvstate.machines.messages import BlockRef
from kvstate.machines.tables.block import State as B
from kvstate.machines.verdicts import Grant, Hit, JobVerdict, LoadVerdict, Short
from kvstate.replay import plays
from kvstate.replay.compute import Compute
from kvstate.replay.config import ReplayConfig
from kvstate.replay.content import poison_many
from kvstate.replay.plays import Play, key_of
from kvstate.replay.result import ReplayResult
from kvstate.replay.stack import Stack
from kvstate.replay.trace import Request


class Player:
    """See the module. `play` takes the requests one by one; `drain` ends whatever is still alive."""

    def __init__(self, config: ReplayConfig, stack: Stack, result: ReplayResult) -> None:
        self.config = config
        self.stack = stack
        self.result = result
        self.ledger = stack.engine.ledger
        self.watch = stack.watch
        self.array = stack.memory.pools[0].array
        self.dice = Random(config.seed ^ 0x5EED)
        self.waiting: dict[int, Play] = {}
        """Requests that are not decoding yet, by lease, oldest first."""
        self.decoding: deque[Play] = deque()
        self.again: deque[Play] = deque()
        self.compute = Compute(stack, result)
        self.admitted = 0
        self.unique: set[int] = set()
        self.draining: list[int] = []
        """Device blocks that drained at each admission."""
        self.untold: set[int] = set()
        self.moved = 0.0
        """When a request last got on."""
        self.stalled = False
        """Requests wait, and nothing moves any more: the run is over."""
        self.stuck = False
        """Somebody found no room while blocks were in quarantine."""

    # -- the loop ------------------------------------------------------------------------------------------------------

    def play(self, request: Request) -> None:
        """Admit one request, after what was preempted and while not too many wait."""
        while len(self.waiting) >= plays.WAITING and not self._stalled():
            self.turn(wait=True)
        while self.again:
            self._arrive(self.again.popleft())
        self._admit(request)
        self.turn()

    def turn(self, wait: bool = False) -> None:
        """One turn of the embedder's loop."""
        stack = self.stack
        if wait:
            self.relieve()
            if self.compute.steps:
                self.compute.retire(keep=0)  # nothing new is sent down while everybody waits
            else:
                stack.wait()
        done = stack.poll()
        for load in done.loads:
            self._loaded(load)
        for job in done.jobs:
            self._stored(job)
        for play in list(self.waiting.values()):
            if play.hit is None and not self._look_up(play):
                break  # no room for the oldest: those behind it wait their turn, or it would never come
        while self.decoding and self.decoding[0].ends_at <= self.admitted:
            self._end(self.decoding.popleft(), self.ledger.finish)
        inflight = len(self.ledger.books.job_ids) + len(self.ledger.books.load_ids)
        self.result.max_inflight_jobs = max(self.result.max_inflight_jobs, inflight)
        stack.engine.pump()

    def _stalled(self) -> bool:
        """Has no request got on for so long that none ever will, or has the ledger been poisoned?"""
        if self.ledger.fatal is None and self.stack.clock.now() - self.moved < plays.STALLED_SECONDS:
            return False
        if self.ledger.fatal is None and not self.stalled:
            self.watch.violation("L11.progress", f"{len(self.waiting)} requests wait, and nothing has moved for long")
        self.stalled = True
        return True

    def relieve(self) -> None:
        """What nobody reports on any more comes home by proof alone; get the proof when it costs too much.

        An engine would synchronise its streams here.
        """
        share = plays.FENCE_SHARE
        costly = any(pool.counts[B.QUARANTINED] > share * pool.config.blocks for pool in self.ledger.books.pools)
        if self.stuck or costly:
            self.stuck = False
            self.stack.engine.fence()
            self.stack.note("fence")

    def drain(self) -> None:
        """No more requests: let all that lives come to its end."""
        while (self.waiting or self.again) and not self._stalled():
            while self.again:
                self._arrive(self.again.popleft())
            self.turn(wait=True)
        while self.decoding:
            self._end(self.decoding.popleft(), self.ledger.finish)
        self.compute.retire(keep=0)

    # -- one request ---------------------------------------------------------------------------------------------------

    def _admit(self, request: Request) -> None:
        self.admitted += 1
        self.result.requests += 1
        self.result.block_refs += len(request.hash_ids)
        self.unique.update(request.hash_ids)
        self.draining.append(self.ledger.books.pools[0].counts[B.DRAINING])
        keys = [key_of(hash_id) for hash_id in dict.fromkeys(request.hash_ids)]
        if len(keys) > self.config.device_blocks:
            self.result.too_long += 1
            self.result.misses += len(request.hash_ids)
            return
        play = Play(request, keys)
        roll = self.dice.random()
        if roll < self.config.abort:
            play.doom = "abort"
        elif roll < self.config.abort + self.config.preempt:
            play.doom = "preempt"
        self._arrive(play)

    def _arrive(self, play: Play) -> None:
        lease = self.ledger.open(plays.NAMESPACE)
        if not isinstance(lease, int):
            return
        self.stack.note("open", lease=lease, line=play.request.line)
        play.lease, play.hit, play.load = lease, None, 0
        crowded = any(other.hit is None for other in self.waiting.values())
        self.waiting[lease] = play
        if not crowded:
            self._look_up(play)

    def _look_up(self, play: Play) -> bool:
        """Pin the cached prefix, get the blocks that are missing, and load or compute. False if there is no room."""
        # Who was preempted too often takes no more chances on copies: it computes all of it.
        hit = self.ledger.lookup(play.lease, play.keys if play.tries <= plays.TRIES else ())
        self.stack.note("lookup", lease=play.lease)
        if not isinstance(hit, Hit):
            return True
        if hit.pending:
            self.result.pending_lookups += 1
            return True
        self.watch.on_hit(hit)
        fresh = self._make_room(play, len(play.keys) - len(hit.blocks) + len(hit.below))
        if fresh is None:
            self.ledger.unpin(hit)
            self.stack.note("unpin", lease=play.lease)
            return False
        if play.tries == 1:
            below = len(hit.below)
            self.result.hits["host"] += below
            self.result.hits["device"] += len(hit.blocks) - below
            self.result.misses += len(play.request.hash_ids) - len(hit.blocks)
        play.hit = hit
        blocks: dict[int, BlockRef] = dict(enumerate(hit.blocks))
        into = fresh[: len(hit.below)]
        blocks.update(zip(hit.below, into, strict=True))
        blocks.update(zip(range(len(hit.blocks), len(play.keys)), fresh[len(hit.below) :], strict=True))
        play.blocks = [blocks[place] for place in range(len(play.keys))]
        if hit.below:
            self._load(play, hit, into)
        else:
            self._prefill(play)
        return True

    def _make_room(self, play: Play, count: int) -> Sequence[BlockRef] | None:
        """Allocate; a full pool ends the oldest decode, then preempts the youngest request that waits."""
        while True:
            got = self.ledger.allocate(play.lease, count)
            self.stack.note("allocate", lease=play.lease, blocks=count)
            if isinstance(got, Grant):
                return got.blocks
            if not isinstance(got, Short) or got.free + got.draining >= count:
                return None
            self.stuck = got.quarantined > 0
            if self.decoding:
                self._end(self.decoding.popleft(), self.ledger.finish)
                continue
            youngest = next((other for other in reversed(self.waiting.values()) if other.hit is not None), None)
            if youngest is None or youngest is play or youngest.tries >= plays.TRIES:
                return None
            self._preempt(youngest)

    def _load(self, play: Play, hit: Hit, into: Sequence[BlockRef]) -> None:
        pool = self.stack.memory.pools[0]
        blocks, lives = [ref.block for ref in into], [ref.generation for ref in into]
        poison_many(self.array, [block - pool.base for block in blocks], blocks, lives)
        started = self.ledger.load(play.lease, hit, into, deadline=self.ledger.books.now + self.stack.load_seconds)
        self.stack.note("load", lease=play.lease, into=blocks)
        if not started:
            self._prefill(play)
            return
        play.load = started.load  # type: ignore[union-attr]
        self.untold.add(play.load)
        self._doomed(play, 0.5)

    def _loaded(self, verdict: LoadVerdict) -> None:
        """Compare every byte that was loaded, and go on with what has to be computed."""
        self.untold.discard(verdict.load)
        self.result.loads[verdict.ending] = self.result.loads.get(verdict.ending, 0) + 1
        play = self.waiting.get(verdict.lease)
        if play is None or play.load != verdict.load:
            return
        play.load = 0
        assert play.hit is not None
        places = [place for place in play.hit.below if place < verdict.blocks]
        self.compute.compare(play, places)
        self.result.loaded_blocks += len(places)
        gone = [place for place, ref in enumerate(play.blocks) if ref.block in verdict.left]
        if gone:
            fresh = self._make_room(play, len(gone))
            if fresh is None:
                self._preempt(play)
                return
            for place, ref in zip(gone, fresh, strict=True):
                play.blocks[place] = ref
        self._prefill(play)

    def _prefill(self, play: Play) -> None:
        """One step computes what is open, publishes it, and offers it to the lower tier."""
        self.moved = self.stack.clock.now()
        del self.waiting[play.lease]
        state = self.ledger.books.block_state
        opened = [place for place, ref in enumerate(play.blocks) if state[ref.block] == B.OPEN]
        refs, keys = [play.blocks[place] for place in opened], [play.keys[place] for place in opened]
        self.compute.dispatch(play, refs, keys, [play.lease, *(other.lease for other in self.decoding)])
        if self.config.host_blocks and refs:
            self.ledger.offload(play.lease, refs, deadline=self.ledger.books.now + self.stack.offload_seconds)
            self.stack.note("offload", lease=play.lease)
        self._decode(play)
        self.compute.retire()

    def _decode(self, play: Play) -> None:
        if not self.config.hold:
            self._end(play, self.ledger.finish)
            return
        need = -(-play.request.output_length // plays.TOKENS_PER_BLOCK)
        output = self.ledger.allocate(play.lease, need)
        self.stack.note("allocate", lease=play.lease, blocks=need)
        play.output = list(output.blocks) if isinstance(output, Grant) else []
        lasts = self.config.hold * play.request.output_length / plays.TOKENS_PER_ADMISSION
        play.ends_at = self.admitted + 1 + int(lasts)
        if not self._doomed(play, 1.0):
            self.decoding.append(play)

    def _stored(self, verdict: JobVerdict) -> None:
        self.result.stored_blocks += len(verdict.keys)
        self.result.offloads[verdict.ending] = self.result.offloads.get(verdict.ending, 0) + 1

    # -- how a request ends --------------------------------------------------------------------------------------------

    def _doomed(self, play: Play, chance: float) -> bool:
        """Has the moment come that the dice meant? For some in the middle of a load, else right after the store."""
        if not play.doom or self.dice.random() >= chance:
            return False
        doom, play.doom = play.doom, ""
        if doom == "preempt":
            self._preempt(play)
            return True
        self.result.aborts += 1
        books = self.ledger.books
        readers, writers = books.column("block", "readers"), books.column("block", "writers")
        if any(readers[block] or writers[block] for block in books.leases[play.lease].owned):
            self.result.aborts_while_copying += 1
        self._end(play, self.ledger.abort)
        return True

    def _preempt(self, play: Play) -> None:
        self.result.preempts += 1
        self._end(play, self.ledger.preempt)
        play.tries += 1
        self.again.append(play)

    def _end(self, play: Play, how: Callable[[int], object]) -> None:
        self.waiting.pop(play.lease, None)
        how(play.lease)
        self.stack.note(how.__name__, lease=play.lease)
