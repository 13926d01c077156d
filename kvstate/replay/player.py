"""A small serving engine that replays requests: the embedder's loop, with bytes for a model.

    1. play(request)     wait while too many wait, let in again whoever was preempted, admit
    2. turn()            verdicts in, lookups that waited, decodes that are over, effects out
    3. relieve()         now and then: get proof of what nobody reports on any more
    4. drain()           in the end: let all that lives come to its end

What happens to one request stands in `serving`. A request is admitted in file order.
"""

from __future__ import annotations

from kvstate.machines.tables.block import State as B
from kvstate.replay import plays
from kvstate.replay.config import ReplayConfig
from kvstate.replay.result import ReplayResult
from kvstate.replay.serving import Serving
from kvstate.replay.stack import Stack
from kvstate.replay.trace import Request


class Player:
    """See the module. `play` takes the requests one by one; `drain` ends whatever is still alive."""

    def __init__(self, config: ReplayConfig, stack: Stack, result: ReplayResult) -> None:
        """Takes the stack for itself; what it finds is counted in `result` and told to the watch of the stack."""
        self.stack = stack
        """What it runs on."""
        self.result = result
        """What is counted."""
        self.ledger = stack.ledger
        """Of the stack."""
        self.serving = Serving(config, stack, result)
        """The requests that are alive."""
        self.stalled = False
        """Requests wait, and nothing moves any more: the run is over."""

    def play(self, request: Request) -> None:
        """Admit one request, after what was preempted and while not too many wait."""
        serving = self.serving
        while len(serving.waiting) >= plays.WAITING and not self._stalled():
            self.turn(wait=True)
        serving.readmit()
        serving.admit(request)
        self.turn()

    def turn(self, wait: bool = False) -> None:
        """One turn of the embedder's loop; with `wait`, after something may have changed."""
        stack, serving = self.stack, self.serving
        if wait:
            self.relieve()
            if serving.compute.steps:
                serving.compute.retire(keep=0)  # nothing new is sent down while everybody waits
            else:
                stack.wait()
        done = stack.poll()
        for loss in done.lost:
            serving.lost(loss)
        for load in done.loads:
            serving.loaded(load)
        for job in done.jobs:
            serving.stored(job)
        serving.tiering.turn()
        serving.look_up_waiting()
        serving.finish_due()
        inflight = len(self.ledger.books.job_ids) + len(self.ledger.books.load_ids)
        self.result.max_inflight_jobs = max(self.result.max_inflight_jobs, inflight)
        stack.engine.pump()

    def relieve(self) -> None:
        """What nobody reports on any more comes home by proof alone; get the proof when it costs too much.

        An engine would synchronise its streams here.
        """
        share = plays.FENCE_SHARE
        costly = any(pool.counts[B.QUARANTINED] > share * pool.config.blocks for pool in self.ledger.books.pools)
        if self.serving.stuck or costly:
            self.serving.stuck = False
            self.stack.engine.fence()
            self.stack.note("fence")

    def drain(self) -> None:
        """No more requests: let all that lives come to its end."""
        serving = self.serving
        while (serving.waiting or serving.again) and not self._stalled():
            serving.readmit()
            self.turn(wait=True)
        serving.finish_all()
        serving.compute.retire(keep=0)

    def _stalled(self) -> bool:
        """Has no request got on for so long that none ever will, or has the ledger been poisoned?"""
        if self.ledger.fatal is None and self.stack.clock.now() - self.serving.moved < plays.STALLED_SECONDS:
            return False
        if self.ledger.fatal is None and not self.stalled:
            waiting = len(self.serving.waiting)
            self.stack.watch.violation("L11.progress", f"{waiting} requests wait, and nothing has moved for long")
        self.stalled = True
        return True
