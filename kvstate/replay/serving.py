"""What happens to a request of a replay, one step of it at a time. When, is for the loop in `player` to say.

The life of a request:

    arriving    looked up; while somebody else loads what it needs it asks again, a bounded time
    loading     the part of its prefix that lies below the device is on the way
    prefill     one step computes what is missing, publishes it and hands it to the offload
    decode      holds its lease, with private blocks for its output, for a number of later admissions
    over        finished, aborted, or preempted and admitted again with a new lease
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from random import Random

from kvstate.machines.messages import BlockRefs
from kvstate.machines.tables.block import State as B
from kvstate.machines.verdicts import Grant, Hit, JobVerdict, LoadVerdict, Short, Started
from kvstate.replay import plays
from kvstate.replay.compute import Compute
from kvstate.replay.config import ReplayConfig
from kvstate.replay.plays import Play, joined, keys_of, replaced
from kvstate.replay.result import ReplayResult
from kvstate.replay.seeking import Seeking
from kvstate.replay.stack import Stack
from kvstate.replay.tiers import Noted, tiers_of
from kvstate.replay.trace import Request
from kvstate.replay.workload import BLOCK_TOKENS
from kvstate.runtime.engine import Loss
from kvstate.tiering import Tiering


class Serving:
    """All requests that are alive, and what may be done with one of them. See the module."""

    def __init__(self, config: ReplayConfig, stack: Stack, result: ReplayResult) -> None:
        """`result` is counted in as things happen; of `config` the rates of requests, `hold` and the pools are read."""
        self.config = config
        """What the replay was told."""
        self.stack = stack
        """What it runs on."""
        self.result = result
        """What is counted."""
        self.ledger = stack.ledger
        """Where every request here goes."""
        self.tiering = Tiering(self.ledger, tiers_of(config, stack), Noted(stack))
        """What is stored where."""
        self._seeking = Seeking(stack, result)
        self._pools = [pool.name for pool in self.ledger.config.pools]
        self.compute = Compute(stack)
        """The steps, and who else touches the device."""
        self.dice = Random(config.seed ^ 0x5EED)
        """Says who is aborted and who is preempted; apart from the dice of the copies."""
        self.waiting: dict[int, Play] = {}
        """Requests that are not decoding yet, by lease, oldest first."""
        self.decoding: deque[Play] = deque()
        """Requests that hold their lease, in the order in which they began to."""
        self.again: deque[Play] = deque()
        """Requests that were preempted and have to be admitted again."""
        self.admitted = 0
        """How many requests came so far; the time by which decodes end."""
        self.unique: set[int] = set()
        """The ids of all blocks of all prompts."""
        self.draining: list[int] = []
        """Device blocks that drained at each admission."""
        self.untold: set[int] = set()
        """Loads whose verdict has not come."""
        self.moved = 0.0
        """When a request last got on, on the clock of the stack."""
        self.stuck = False
        """Somebody found no room while blocks were in quarantine."""

    # -- arriving ------------------------------------------------------------------------------------------------------

    def admit(self, request: Request) -> None:
        """A request has come: throw its dice and look it up."""
        self.admitted += 1
        self.result.requests += 1
        self.result.block_refs += len(request.hash_ids)
        self.unique.update(request.hash_ids)
        self.draining.append(self.ledger.books.pools[0].counts[B.DRAINING])
        play = Play(request, keys_of(request.hash_ids))
        if len(play.keys) > self.config.device_blocks:
            self.result.too_long += 1
            self.result.misses += len(request.hash_ids)
            return
        roll = self.dice.random()
        if roll < self.config.abort:
            play.doom = "abort"
        elif roll < self.config.abort + self.config.preempt:
            play.doom = "preempt"
        self._arrive(play)

    def readmit(self) -> None:
        """Let in again whoever was preempted."""
        while self.again:
            self._arrive(self.again.popleft())

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

    def look_up_waiting(self) -> None:
        """Let those ask again who wait for a lookup, the oldest first.

        Where there is no room for one, those behind it wait their turn, or its own would never come.
        """
        for play in list(self.waiting.values()):
            if play.hit is None and not self._look_up(play):
                break

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
        self.stack.watch.on_hit(hit)
        if self._seeking.asks(play, hit):
            return True
        cached, below = len(hit.blocks), len(hit.below)
        fresh = self._make_room(play, len(play.keys) - cached + below)
        if fresh is None:
            self.ledger.unpin(hit)
            self.stack.note("unpin", lease=play.lease)
            return False
        if not play.counted:
            play.counted = True
            for ref in hit.blocks:
                self.result.hits[self._pools[self.ledger.books.pool_of[ref.block]]] += 1
            self.result.misses += len(play.request.hash_ids) - cached
        play.hit = hit
        into = fresh[:below]
        play.blocks = replaced(joined(BlockRefs.of(hit.blocks), fresh[below:]), hit.below, into)
        if below:
            self._load(play, hit, into)
        else:
            self._prefill(play)
        return True

    def _make_room(self, play: Play, count: int) -> BlockRefs | None:
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

    # -- loading -------------------------------------------------------------------------------------------------------

    def _load(self, play: Play, hit: Hit, into: BlockRefs) -> None:
        self.compute.poison(into)
        started = self.ledger.load(play.lease, hit, into, deadline=self.ledger.books.now + self.stack.load_seconds)
        self.stack.note("load", lease=play.lease, into=list(into.blocks))
        if not isinstance(started, Started):
            self._prefill(play)
            return
        play.load = started.load
        self.untold.add(play.load)
        self._doomed(play, 0.5)

    def loaded(self, verdict: LoadVerdict) -> None:
        """A load has ended: compare every byte of it, and go on with what has to be computed."""
        self.untold.discard(verdict.load)
        self.result.loads[verdict.ending] = self.result.loads.get(verdict.ending, 0) + 1
        play = self.waiting.get(verdict.lease)
        if play is None or play.load != verdict.load:
            return
        play.load = 0
        assert play.hit is not None
        self.tiering.loaded(verdict, play.hit, play.blocks.at(array("q", play.hit.below)))
        places = [place for place in play.hit.below if place < verdict.blocks]
        self.compute.compare(play, places)
        self.result.loaded_blocks += len(places)
        gone = [place for place, block in enumerate(play.blocks.blocks) if block in verdict.left]
        if gone:
            fresh = self._make_room(play, len(gone))
            if fresh is None:
                self._preempt(play)
                return
            play.blocks = replaced(play.blocks, gone, fresh)
        self._prefill(play)

    def stored(self, verdict: JobVerdict) -> None:
        """An offload has ended."""
        self.tiering.told(verdict)
        self.result.stored_blocks += len(verdict.keys)
        self.result.offloads[verdict.ending] = self.result.offloads.get(verdict.ending, 0) + 1

    # -- computing -----------------------------------------------------------------------------------------------------

    def _prefill(self, play: Play) -> None:
        """One step computes what is open, publishes it, and offers it to the lower tiers."""
        self.moved = self.stack.clock.now()
        del self.waiting[play.lease]
        state, is_open = self.ledger.books.block_state, int(B.OPEN)
        opened = [place for place, block in enumerate(play.blocks.blocks) if state[block] == is_open]
        refs, keys = play.blocks.at(array("q", opened)), [play.keys[place] for place in opened]
        self.compute.dispatch(play, refs, keys, [play.lease, *[other.lease for other in self.decoding]])
        self.tiering.sealed(play.lease, refs)
        self._decode(play)
        self.compute.retire()

    def _decode(self, play: Play) -> None:
        """Hold the lease for as long as its answer takes, with blocks for the answer if there is room for them."""
        if not self.config.hold:
            self._end(play, self.ledger.finish)
            return
        need = -(-play.request.output_length // BLOCK_TOKENS)
        self.ledger.allocate(play.lease, need)
        self.stack.note("allocate", lease=play.lease, blocks=need)
        lasts = self.config.hold * play.request.output_length / plays.TOKENS_PER_ADMISSION
        play.ends_at = self.admitted + 1 + int(lasts)
        if not self._doomed(play, 1.0):
            self.decoding.append(play)

    # -- how a request ends --------------------------------------------------------------------------------------------

    def finish_due(self) -> None:
        """Finish the decodes that are over, as far as none before them goes on."""
        while self.decoding and self.decoding[0].ends_at <= self.admitted:
            self._end(self.decoding.popleft(), self.ledger.finish)

    def finish_all(self) -> None:
        """Finish every decode, whether it is over or not."""
        while self.decoding:
            self._end(self.decoding.popleft(), self.ledger.finish)

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
        if any(readers[block] or writers[block] for block in books.owned(books.leases[play.lease])):
            self.result.aborts_while_copying += 1
        self._end(play, self.ledger.abort)
        return True

    def lost(self, loss: Loss) -> None:
        """A rank is gone, and with it all bytes: whoever had an open lease begins anew, after those who wait to."""
        self.result.workers_killed += 1
        self.result.leases_lost += len(loss.leases)
        alive = {play.lease: play for play in (*self.waiting.values(), *self.decoding)}
        begin = [alive[lease] for lease in loss.leases if lease in alive]
        gone = set(loss.leases)
        self.waiting = {lease: play for lease, play in self.waiting.items() if lease not in gone}
        self.decoding = deque(play for play in self.decoding if play.lease not in gone)
        self.again.extend(begin)

    def _preempt(self, play: Play) -> None:
        self.result.preempts += 1
        self._end(play, self.ledger.preempt)
        play.tries += 1
        self.again.append(play)

    def _end(self, play: Play, how: Callable[[int], object]) -> None:
        """`how` is the request of the ledger that closes the lease."""
        self.waiting.pop(play.lease, None)
        how(play.lease)
        self.stack.note(how.__name__, lease=play.lease)
