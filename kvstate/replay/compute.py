"""The compute of a replay: steps that write a prompt's bytes, as late as a real one may, and compare what they read.

A step is sent when it is dispatched and writes when it retires, `PIPELINE` steps later. A block that is a hit meanwhile
is right all the same: the step that writes it retires before the step that reads it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from kvstate.machines.messages import BlockRef
from kvstate.machines.verdicts import Refusal
from kvstate.replay.content import check_many, write_many
from kvstate.replay.plays import Play
from kvstate.replay.result import ReplayResult
from kvstate.replay.stack import Stack

PIPELINE = 2
"""Steps under way at once."""


class Step(NamedTuple):
    """A step under way: the blocks that it will write, under which keys, for whom."""

    number: int
    refs: list[BlockRef]
    keys: list[bytes]
    play: Play


class Compute:
    """Dispatches and retires steps; the only one besides the copiers who touches the bytes of the device."""

    def __init__(self, stack: Stack, result: ReplayResult) -> None:
        self.stack = stack
        self.result = result
        self.array = stack.memory.pools[0].array
        self.steps: deque[Step] = deque()
        self.last = 0

    def dispatch(self, play: Play, refs: list[BlockRef], keys: list[bytes], leases: Sequence[int]) -> None:
        """Send a step down that computes these blocks of a request, while other leases decode, and publish them."""
        self.last += 1
        sent = self.stack.engine.step_dispatched(self.last, leases)
        if isinstance(sent, Refusal):
            self.stack.watch.violation("L3.no_reuse", f"step {self.last} went out unknown to the ledger: {sent.reason}")
        self.stack.note("step_dispatched", step=self.last, leases=len(leases))
        self.steps.append(Step(self.last, refs, keys, play))
        sealed = self.stack.ledger.seal(play.lease, refs, keys)
        if isinstance(sealed, Refusal):
            self.stack.watch.violation("L9.named", f"a block of lease {play.lease} can't be sealed: {sealed.reason}")
        self.stack.note("seal", lease=play.lease, blocks=len(refs))

    def retire(self, keep: int = PIPELINE) -> None:
        """Let the oldest steps write and be over, until only so many are under way."""
        while len(self.steps) > keep:
            self._retire(self.steps.popleft())

    def _retire(self, step: Step) -> None:
        books = self.stack.ledger.books
        for ref in step.refs:
            if not books.current(ref):
                self.stack.watch.violation(
                    "L3.no_reuse", f"step {step.number} writes block {ref.block}, whose gen {ref.generation} is over"
                )
        if step.refs:
            write_many(self.array, [ref.block for ref in step.refs], step.keys)
        self.stack.engine.step_retired(step.number)
        self.stack.note("step_retired", step=step.number)
        if step.play.lease in books.leases and step.play.hit is not None:
            self.compare(step.play, range(len(step.play.hit.blocks)))

    def compare(self, play: Play, places: Sequence[int]) -> None:
        """Every byte of these blocks must be what their keys must hold."""
        blocks = [play.blocks[place].block for place in places]
        self.result.wrong_bytes += len(check_many(self.array, blocks, [play.keys[place] for place in places]))
