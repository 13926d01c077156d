"""The scheduler of a serving engine: continuous batching over blocks that are kvstate's.

A turn of `Server` is the loop of `docs/embedding.md`, with many requests at once:

    hear       reports, the clock, and how loads ended
    grow       a block more for whoever needs one, from a neighbour if need be
    admit      look up, allocate, load
    choose     what the next step computes: decodes first, then chunks of prompts, as far as the budget goes
    step       dispatched; sealed and offloaded; effects out; kernels; retired

The scheduler keeps no counts of references and no list of free blocks, and never asks whether a copy is still under way
when it gives blocks back. All that it has to do about a race is to close the lease.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final, TypeVar

from examples.tiny import BLOCK
from examples.tiny.counts import Counts
from examples.tiny.decoder import Decoder
from examples.tiny.pools import Machine
from examples.tiny.traffic import Request
from kvstate.machines.verdicts import Ending, Grant, Hit, LoadVerdict, Refusal, Short

NAMESPACE: Final = "tiny"
"""Who may share blocks with whom. A real one says all that the bytes depend on: tenant, adapter, model, weights,
layout; here there is one of each."""
STEP_TOKENS: Final = 64
"""So many tokens a step computes at most: a long prompt is computed in chunks, and holds up nobody's decode."""
SETTLE_TURNS: Final = 200
"""For so long the server waits for copies that are still under way when all requests are over."""


Item = tuple[Request, range]
"""Positions of a request that a step computes; within one block."""
Answer = TypeVar("Answer")


class StopServingError(RuntimeError):
    """A broken invariant: nothing is freed and nothing granted from here on, lest one be served another's cache."""


def granted(answer: Answer | Refusal) -> Answer:
    """The answer to a request. This scheduler makes none that a sound ledger would refuse; one that has found an
    invariant broken refuses all.
    """
    if isinstance(answer, Refusal):
        raise StopServingError(answer.reason)
    return answer


class Server:
    """See the module."""

    def __init__(self, decoder: Decoder, machine: Machine) -> None:
        self.decoder, self.cache, self.kv, self.machine = decoder, machine.cache, machine.kv, machine
        self.counts = Counts()
        self.waiting: deque[Request] = deque()
        """Those without a lease, in the order in which they are to be admitted."""
        self.admitted: list[Request] = []
        """Those with one, the oldest admission first."""
        self.loads: dict[int, tuple[Request, Hit]] = {}
        """Who waits for which load, and what it was to bring."""

    def serve(self, requests: Iterable[Request]) -> None:
        """Serve them all, each from the turn on in which it comes, and let the last copies end."""
        coming = deque(requests)
        while coming or self.waiting or self.admitted:
            while coming and coming[0].arrives <= self.counts.turns:
                self.waiting.append(coming.popleft())
            self.turn()
        for _ in range(SETTLE_TURNS):
            if not self.kv.rest():
                return
            self.turn()
        self.fence()  # reports that will never come: say so, once all that was handed out is over

    def turn(self, messages: Iterable[bytes] = ()) -> None:
        """One turn of the loop. `messages` are those of workers in other processes; here there are none."""
        for message in messages:
            self.kv.report(message)
        self.hear()
        if self.grow():
            self.admit_waiting()
        batch = self.choose()
        if batch:
            self.step(batch)
        else:
            self.leave()
        self.counts.turns += 1
        self.machine.pass_time(idle=not batch)

    # -- hear ----------------------------------------------------------------------------------------------------------

    def hear(self) -> None:
        """Take what came, tell the time, and go on with whoever waited for it."""
        done = self.kv.poll(max_reports=512)  # `done.lost` is empty: there is no rank in a process of its own
        if done.fatal is not None:
            raise StopServingError(done.fatal.sentence)
        for verdict in done.verdicts:
            self.loaded(verdict)
        for job in done.jobs:
            self.counts.stores[job.ending] += 1

    def loaded(self, verdict: LoadVerdict) -> None:
        """A load has its one verdict: the longest prefix that is there, provably. The rest is computed."""
        request, hit = self.loads.pop(verdict.load)
        self.counts.loads[verdict.ending] += 1
        if verdict.ending is Ending.ABORTED:  # its lease was closed meanwhile: nobody to tell
            return
        self.counts.codes.update(error.code.name for error in verdict.errors)
        missing = [place for place in hit.below if place >= verdict.blocks]
        self.counts.from_host += BLOCK * (len(hit.below) - len(missing))
        self.counts.recomputed += BLOCK * len(missing)
        # A copy that did not answer in time may still write into these. They are not the request's any more, and it
        # gets others: see `grow`.
        request.blocks = {place: ref for place, ref in request.blocks.items() if ref.block not in verdict.left}
        request.load = 0
        self.plan(request, [*missing, *range(len(hit.blocks), self.places(request))])

    # -- grow ----------------------------------------------------------------------------------------------------------

    def grow(self) -> bool:
        """Get each request the blocks that it lacks, the oldest first. False if one has to go without for now."""
        all_well = True
        for request in tuple(self.admitted):
            if not request.lease or request.load:  # preempted for another a moment ago, or waiting for its load
                continue
            lacking = sorted({span.start // BLOCK for span in request.spans} - request.blocks.keys())
            got = self.find_room(request, len(lacking)) if lacking else None
            if got is not None:
                request.blocks.update(zip(lacking, got.blocks, strict=True))
            all_well = all_well and (got is not None or not lacking)
        return all_well

    def find_room(self, request: Request, count: int) -> Grant | None:
        """So many blocks, if need be of whoever was admitted last, who may be this one. None: not in this turn."""
        while not isinstance(grant := self.allocate(request.lease, count), Grant):
            if grant.free + grant.draining >= count:  # they come by themselves, as copies and steps end
                self.counts.waited += 1
                return None
            victim = self.admitted[-1]
            self.preempt(victim)
            if victim is request:
                return None
        return grant

    def allocate(self, lease: int, count: int) -> Grant | Short:
        """So many blocks, or what there would be. Where only quarantined blocks can help, a fence brings them back."""
        grant = self.kv.allocate(lease, count)
        if isinstance(grant, Short) and grant.free + grant.draining < count and grant.quarantined:
            self.fence()
            grant = self.kv.allocate(lease, count)
        if isinstance(grant, Refusal):
            raise StopServingError(grant.reason)
        return grant

    def preempt(self, request: Request) -> None:
        """Take all blocks of a request; it comes again, with a new lease, before those who have never had one."""
        granted(self.kv.preempt(request.lease))
        self.counts.preempted += 1
        self.admitted.remove(request)
        request.end_life()
        request.was_preempted = True
        self.waiting.appendleft(request)

    def fence(self) -> None:
        """Wait for all copies, however long they take; what was given up is then proved over, and its blocks are free.

        A fence says that copies are over and not how they ended, so a load whose reports are still on their way fails.
        """
        self.kv.fence()
        self.counts.fences += 1

    # -- admit ---------------------------------------------------------------------------------------------------------

    def admit_waiting(self) -> None:
        """Admit in order, until one finds no room."""
        while self.waiting and self.admit(self.waiting[0]):
            self.waiting.popleft()

    def admit(self, request: Request) -> bool:
        """Open a lease with all blocks that the tokens need, and begin the load of what lies below the device."""
        lease = granted(self.kv.open(NAMESPACE))
        request.name_blocks()
        # The last token is computed in any case, for the sake of what follows it.
        hit = granted(self.kv.lookup(lease, request.keys[: (len(request.tokens) - 1) // BLOCK]))
        missing = [*hit.below, *range(len(hit.blocks), self.places(request))]
        grant = None if hit.pending else self.allocate(lease, len(missing))
        if not isinstance(grant, Grant):  # another load brings what it wants, or there is no room: later
            granted(self.kv.abort(lease))  # gives the pins back
            return False
        request.lease = lease
        request.blocks = dict(enumerate(hit.blocks)) | dict(zip(missing, grant.blocks, strict=True))
        self.admitted.append(request)
        request.admitted = self.counts.turns if request.admitted < 0 else request.admitted
        self.counts.readmitted += request.was_preempted
        self.counts.from_device += BLOCK * (len(hit.blocks) - len(hit.below))
        if hit.below:
            into = [request.blocks[place] for place in hit.below]
            request.load = granted(self.kv.load(lease, hit, into)).load
            self.loads[request.load] = request, hit
        else:
            self.plan(request, missing)
        return True

    def places(self, request: Request) -> int:
        """How many blocks its tokens take."""
        return -(-len(request.tokens) // BLOCK)

    def plan(self, request: Request, places: Iterable[int]) -> None:
        """These blocks are to be computed, in order."""
        end = len(request.tokens)
        request.spans = deque(range(place * BLOCK, min((place + 1) * BLOCK, end)) for place in places)

    # -- step ----------------------------------------------------------------------------------------------------------

    def choose(self) -> list[Item]:
        """What the next step computes. Whoever has the least to do comes first, and that is decodes."""
        batch: list[Item] = []
        budget = STEP_TOKENS
        for request in sorted(self.admitted, key=lambda request: sum(map(len, request.spans))):
            for span in request.spans:
                if span.start // BLOCK not in request.blocks or len(span) > budget:
                    break
                batch.append((request, span))
                budget -= len(span)
        return batch

    def step(self, batch: list[Item]) -> None:
        """Compute one batch, and store what it fills."""
        self.counts.steps += 1
        number, leases = self.counts.steps, list({request.lease: None for request, _ in batch})
        tables = [[request.blocks[place].block for place in range(span.start // BLOCK + 1)] for request, span in batch]
        # BEFORE the kernels are queued. From here on a block that one of these leases lets go of drains until the step
        # has retired.
        granted(self.kv.step_dispatched(number, leases))
        self.store(batch)
        self.kv.take_effects()  # bytes for workers, BEFORE the step; none here, where copiers are called directly
        self.leave()  # clients go whenever they like: here, in the middle of the step
        said = []
        for (request, span), table in zip(batch, tables, strict=True):  # the kernels
            logits = self.decoder.forward(self.cache, request.tokens[span.start : span.stop], span.start, table)
            said.append(int(logits.argmax()))
            self.counts.computed += len(span)
        granted(self.kv.step_retired(number))  # AFTER the kernels are over
        for (request, _), token in zip(batch, said, strict=True):
            if request.lease:  # else it was aborted under way, and what was computed for it goes nowhere
                self.computed(request, token)

    def store(self, batch: list[Item]) -> None:
        """What the step fills is full when it has ended: others may hit it, and a copy goes down to the host."""
        filled: dict[Request, list[int]] = {}
        for request, span in batch:
            if span.stop % BLOCK == 0:
                filled.setdefault(request, []).append(span.start // BLOCK)
        for request, places in filled.items():
            request.name_blocks()
            blocks = [request.blocks[place] for place in places]
            # A block whose key another has already stays private. It is not stored, and where that leaves nothing, or
            # the host is full, the offload is refused: nobody minds.
            granted(self.kv.seal(request.lease, blocks, [request.keys[place] for place in places]))
            self.kv.offload(request.lease, blocks)  # accepted now; the copy waits for the step

    def computed(self, request: Request, token: int) -> None:
        """The first of its spans is computed. Behind the last one `token` is said, and is to be computed next."""
        request.spans.popleft()
        if request.spans:
            return
        request.tokens.append(token)
        if len(request.said) < request.wanted:
            request.spans.append(range(len(request.tokens) - 1, len(request.tokens)))
            return
        granted(self.kv.finish(request.lease))
        self.counts.finished += 1
        self.close(request, "finished")

    # -- the end of a request ------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Clients that have waited long enough go away, whatever their requests are doing."""
        for request in (*self.waiting, *self.admitted):
            if not request.is_given_up(self.counts.turns):
                continue
            if request.lease:
                granted(self.kv.abort(request.lease))
            self.counts.aborted += 1
            self.counts.aborted_in_load += request.load > 0
            self.close(request, "aborted")

    def close(self, request: Request, ending: str) -> None:
        """It is over."""
        (self.admitted if request.lease else self.waiting).remove(request)
        request.ending = ending
        request.end_life()
