"""The compute of a replay: steps that write a prompt's bytes, as late as a real one may, and compare what they read.

A step is sent when it is dispatched and writes when it retires, `PIPELINE` steps later. A block that is a hit meanwhile
is right all the same: the step that writes it retires before the step that reads it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from kvstate.machines.messages import BlockRefs
from kvstate.machines.verdicts import Refusal
from kvstate.replay.plays import Play
from kvstate.replay.stack import Stack

PIPELINE: Final = 2
"""Steps under way at once."""


class Step(NamedTuple):
    """A step under way: the blocks that it will write, under which keys, for whom."""

    number: int
    """As the engine was told; from 1 upwards."""
    refs: BlockRefs
    """The device blocks that it writes."""
    keys: list[bytes]
    """Whose content that is, a key a block."""
    play: Play
    """The request that it computes, and whose hits it reads."""
    lease: int
    """Of the request when the step went out; it may have another by now, with other hits."""


class Compute:
    """Dispatches and retires steps; the only one besides the copiers who touches the bytes of the device.

    What it finds wrong is told to the watch and counted. Nothing here raises.
    """

    def __init__(self, stack: Stack) -> None:
        """Blocks with wrong bytes are counted by the hardware of the stack."""
        self.stack = stack
        """What the steps run on."""
        self.hardware = stack.hardware
        """Where the bytes are."""
        self.steps: deque[Step] = deque()
        """What is under way, oldest first."""
        self.last = 0
        """The number of the step that was dispatched last."""

    def dispatch(self, play: Play, refs: BlockRefs, keys: list[bytes], leases: Sequence[int]) -> None:
        """Send a step down that computes these blocks of a request, while other leases decode, and publish them.

        `leases` are all that the step may touch blocks of, the request's own included.
        """
        self.last += 1
        sent = self.stack.engine.step_dispatched(self.last, leases)
        if isinstance(sent, Refusal):
            self.stack.watch.violation("L3.no_reuse", f"step {self.last} went out unknown to the ledger: {sent.reason}")
        self.stack.note("step_dispatched", step=self.last, leases=len(leases))
        self.steps.append(Step(self.last, refs, keys, play, play.lease))
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
        generation = books.generation
        for block, life in zip(step.refs.blocks, step.refs.generations, strict=True):
            if generation[block] != life:
                self.stack.watch.violation(
                    "L3.no_reuse", f"step {step.number} writes block {block}, whose gen {life} is over"
                )
        if step.refs:
            self.hardware.write(step.refs.blocks, step.keys)
        self.stack.engine.step_retired(step.number)
        self.stack.note("step_retired", step=step.number)
        play = step.play
        if play.hit is not None and play.lease == step.lease and play.lease in books.leases:
            self.compare(play, range(len(play.hit.blocks)))

    def poison(self, refs: BlockRefs) -> None:
        """Make these device blocks say that they hold nothing, so that what a load leaves out is seen."""
        self.hardware.poison(refs.blocks, refs.generations)

    def compare(self, play: Play, places: Sequence[int]) -> None:
        """Every byte of the blocks at these places of a prompt must be what their keys must hold."""
        blocks, keys = [play.blocks.blocks[place] for place in places], play.keys
        self.hardware.check(blocks, [keys[place] for place in places])
