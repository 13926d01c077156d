"""A transport within one process, whose bytes land and whose transfers end when a test says so.

    exchange = Exchange()
    here, there = LoopTransport(mine, exchange), LoopTransport(theirs, exchange)
    line = here.connect("there", there.describe())
    transfer = line.pull([3], [0])
    exchange.land(transfer)              the bytes are in block 0
    exchange.finish(transfer)            and now it is told

Between the two, and before, and instead, anything may happen: `there` is stopped, dies, or overwrites its blocks.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from kvstate.errors import Code
from kvstate.machines.messages import Failure
from kvstate.runtime.memory import Bytes, Memory
from kvstate.runtime.peers.layout import Layout, decode, layout_of
from kvstate.runtime.peers.transport import Connection, DescriptionError, Told, Transfer, lost, missing


class LoopError(RuntimeError):
    """The test asked for what no transport does, such as bytes that land after they were proved over."""


class Exchange:
    """All transports of a test, and every transfer between them. For one thread.

    Errors: `LoopError` for a transfer that is none of its own, or is over.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        """With `at_once`, a pull lands and ends within the call."""
        self.at_once = at_once
        """Does nothing wait for the test?"""
        self.lines: list[LoopConnection] = []
        """Every connection that was made, in that order."""
        self.transports: dict[str, LoopTransport] = {}
        """Those that serve, by life."""

    @property
    def running(self) -> list[Transfer]:
        """Transfers that are not over, oldest first."""
        return [transfer for line in self.lines for transfer in line.running]

    def land(self, transfer: Transfer, lines: int | None = None) -> None:
        """Move the bytes of the next `lines` lines, or of all that are left."""
        line = self._line(transfer)
        done = line.landed[transfer]
        stop = len(transfer.remote) if lines is None else min(done + lines, len(transfer.remote))
        for theirs, ours in zip(transfer.remote[done:stop], transfer.local[done:stop], strict=True):
            pool, slot = line.memory.place(ours)
            pool.put(slot, line.source(theirs))
        line.landed[transfer] = stop
        line.progress += 1

    def finish(self, transfer: Transfer, failure: Failure | None = None, *, proved: bool = True) -> None:
        """It ends: with success if nothing is given, which only bytes that are all there can. Without proof it stays
        with its connection, and may go on landing.
        """
        line = self._line(transfer)
        if failure is None and line.landed[transfer] < len(transfer.remote):
            raise LoopError("this transfer has not landed, and so it is not done")
        if proved:
            line.running.remove(transfer)
        transfer.end(failure, proved=proved)

    def kill(self, transport: LoopTransport) -> None:
        """Its process dies: whoever pulls from it learns of that, and nothing lands any more."""
        self.transports.pop(transport.life, None)
        for line in self.lines:
            if line.life == transport.life:
                line.tear_down(lost(line.peer, "the connection was closed by the peer"))

    def _line(self, transfer: Transfer) -> LoopConnection:
        found = next((line for line in self.lines if transfer in line.running), None)
        if found is None:
            raise LoopError("this transfer is none that is under way here")
        return found


class LoopTransport:
    """As `Transport`, in one process."""

    name = "loop"

    def __init__(self, memory: Memory, exchange: Exchange) -> None:
        """Serves all of `memory` to the others on this exchange."""
        self.memory, self.exchange = memory, exchange
        self.life = secrets.token_hex(8)
        """Another for each transport, as for each process."""
        self._layout = layout_of(self.name, memory, {"life": self.life})
        exchange.transports[self.life] = self

    def describe(self) -> bytes:
        """As `Transport.describe`."""
        return self._layout.encode()

    def connect(self, peer: str, description: bytes) -> Connection:
        """As `Transport.connect`. Errors: `DescriptionError`."""
        theirs = decode(description, self._layout)
        if not isinstance(theirs.more.get("life"), str):
            raise DescriptionError(f"the description of {peer} names no life")
        line = LoopConnection(peer, theirs, self.memory, self.exchange)
        self.exchange.lines.append(line)
        if line.life not in self.exchange.transports:
            line.tear_down(lost(peer, "nobody answers there"))
        return line

    def close(self, within: float) -> bool:  # noqa: ARG002 - nothing here takes time
        """As `Transport.close`."""
        self.exchange.kill(self)
        own = [line for line in self.exchange.lines if line.memory is self.memory]
        for line in own:
            if not line.stuck:
                line.quiet(0.0)
        return not any(line.stuck for line in own)


class LoopConnection:
    """As `Connection`. What it does is for the `Exchange` to say."""

    def __init__(self, peer: str, theirs: Layout, memory: Memory, exchange: Exchange) -> None:
        self.peer = peer
        """As `Connection.peer`."""
        self.life: str = theirs.more["life"]
        """Of whom it pulls."""
        self.memory = memory
        """Where it pulls to."""
        self.broken: Failure | None = None
        """As `Connection.broken`."""
        self.progress = 0
        """As `Connection.progress`."""
        self.running: list[Transfer] = []
        """What may land yet, oldest first."""
        self.landed: dict[Transfer, int] = {}
        """By transfer: how many lines of it have."""
        self.stuck = False
        """Set by a test: to be quiet is not proved."""
        self._theirs, self._exchange = theirs, exchange

    def source(self, block: int) -> Bytes:
        """The bytes of that block of the peer's, as they are now."""
        return self._exchange.transports[self.life].memory.bytes_of(block)

    def pull(self, remote: Sequence[int], local: Sequence[int], told: Told | None = None) -> Transfer:
        """As `Connection.pull`."""
        transfer = Transfer(remote, local, told)
        bad = self._theirs.missing(remote)
        if self.broken is not None or bad is not None:
            transfer.end(self.broken or missing(f"{self.peer} has no block {bad}"))
            return transfer
        self.running.append(transfer)
        self.landed[transfer] = 0
        if self._exchange.at_once:
            self._exchange.land(transfer)
            self._exchange.finish(transfer)
        return transfer

    def tear_down(self, why: Failure) -> None:
        """It breaks, and what runs is told, with proof."""
        self.broken = self.broken or why
        running, self.running = self.running, []
        for transfer in running:
            transfer.end(why)

    def quiet(self, within: float) -> None:
        """As `Connection.quiet`. Errors: `TimeoutError` while it is `stuck`."""
        if self.stuck:
            raise TimeoutError(f"the connection to {self.peer} is not torn down after {within:g} s; nothing is proved")
        self.tear_down(Failure(-1, int(Code.PEER_LOST), "fetch", message=f"{self.peer}: torn down"))
