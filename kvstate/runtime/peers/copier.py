"""The copier of one rank whose source is the same rank of another process.

FETCH pulls blocks of a peer into ours, VERIFY holds what came against the sums that the peer gave. What a handle stands
for is told before it is adopted (`Route`, then `Adopt`), and how a peer is reached before that (`Meet`).

**When it reports.** A part is over when every pull of it is, with proof: done, or failed on a connection that was torn
down. So what is reported of a peer that died is *failed*, and may be tried again; *timeout* is said only where the
teardown could not be proved, and what is proved later is reported later, under the same token.

**A peer that is stopped** says nothing, and neither is anything said of it, for how long is the ledger's to decide:
when the deadline of a load is over, it cancels. A part that was asked to stop and on whose connection nothing moves for
`cancel_grace` seconds is ended by force: the connection is torn down, the part is *cancelled*, and what else was pulled
there has failed and may be tried again, on the next connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import monotonic
from typing import Final

from kvstate.errors import Code, from_exception
from kvstate.machines.messages import Adopt, Failure, Kind, Sweep, Token, Undo, Work
from kvstate.runtime.copiers import CopierClosedError, Progress
from kvstate.runtime.copiers.workers import Workers
from kvstate.runtime.copy import Integrity, sum_of
from kvstate.runtime.inbox import Inbox
from kvstate.runtime.memory import Memory
from kvstate.runtime.peers.parts import Part, Parts
from kvstate.runtime.peers.routes import Handle, Leave, Meet, PeerItem, Route, Routes, route_of
from kvstate.runtime.peers.transport import Transport
from kvstate.runtime.peers.warden import Warden
from kvstate.runtime.peers.ways import Ways
from kvstate.runtime.stages import STAGES
from kvstate.wire import Found

GRACE_SECONDS: Final = 0.25
"""So long nothing may move on a connection after a cancel; well below the grace of a ledger."""
PATIENCE_SECONDS: Final = 1.0
"""So long a fence waits for pulls to end by themselves."""
JOIN_SECONDS: Final = 1.0
"""So long a close waits for threads that have nothing to do."""
OnSubmit = Callable[[Work], None]
"""Told of a part when it is submitted, before anything is done with it."""


class PeerCopier:
    """Copies of one rank from its peers. A `Copier`, and a `Keeper` that keeps nothing but routes.

    `submit` and what a `Keeper` has are for the thread that gives out effects. Nothing here waits for a peer but
    `fence` and `close`.
    """

    def __init__(
        self,
        transport: Transport,
        memory: Memory,
        inbox: Inbox,
        *,
        base: int,
        count: int,
        name: str = "peer",
        integrity: Integrity = Integrity.BOUNDARY,
        threads: int = 1,
        cancel_grace: float = GRACE_SECONDS,
        fence_patience: float = PATIENCE_SECONDS,
        on_submit: OnSubmit | None = None,
    ) -> None:
        """Pulls into `memory`, over `transport`, which was made over the same and is closed with it; reports to
        `inbox`.

        base, count: the block numbers of the shared pool, whose blocks are handles and lie in no memory
        name: what `Work.copier` says
        threads: that verify
        """
        self.name = name
        self._transport, self._memory, self._inbox = transport, memory, inbox
        self._integrity, self._on_submit = integrity, on_submit
        self._routes = Routes(base, count, name)
        self._ways = Ways(transport)
        self._parts = Parts(inbox)
        self._warden = Warden(self._parts, self._ways, cancel_grace, name)
        self._parts.in_doubt = self._warden.wake
        self._patience = fence_patience
        self._troubles: list[str] = []
        self._workers: Workers[tuple[Part, list[Handle]]] = Workers(self._compare, threads, f"kvstate-{name}")
        self._closed = False

    # -- what it is told of peers --------------------------------------------------------------------------------------

    def describe(self) -> bytes:
        """As `Transport.describe`: what peers need to pull from this rank."""
        return self._transport.describe()

    def meet(self, peer: str, life: int, description: bytes) -> None:
        """How to reach the same rank of this peer, in that life of it. A new life ends what ran from the old one."""
        self.take(Meet(peer, life, description))

    def leave(self, peer: str, life: int) -> None:
        """That life of the peer is gone: what runs from it fails, once that is proved, and so does what comes later."""
        self.take(Leave(peer, life))

    def route(
        self, blocks: Sequence[int], peer: str, life: int, remote: Sequence[int], sums: Sequence[bytes] = ()
    ) -> None:
        """What these handles stand for; BEFORE the `Adopt` of the same blocks. See `Route`."""
        self.take(route_of(blocks, peer, life, remote, sums))

    def take(self, item: PeerItem) -> None:
        """One message about peers. Never raises: what makes no sense is a trouble, and handles stand for nothing."""
        try:
            match item:
                case Meet():
                    self._ways.meet(item)
                case Leave():
                    self._ways.leave(item)
                case Route():
                    self._routes.route(item)
            self._warden.wake()
        except Exception as error:  # of a route: blocks that are not the pool's, lists that do not fit
            self._troubles.append(f"copier {self.name} can't take a {type(item).__name__}: {error}"[:500])

    def seal(self, blocks: Sequence[int]) -> tuple[bytes, ...]:
        """The sums of blocks of this rank, for those who will pull them. Done when it returns.

        Errors: `NoSuchBlockError` for a block outside of the pools.
        """
        return tuple(sum_of(self._memory.bytes_of(block)) for block in blocks)

    # -- as a copier ---------------------------------------------------------------------------------------------------

    def submit(self, work: Work) -> None:
        """Begin one part. Errors: `CopierClosedError`; all else is reported."""
        if self._on_submit is not None:
            self._on_submit(work)
        if self._closed:
            raise CopierClosedError(self.name, work)
        part = self._parts.add(work)
        try:
            handles = self._check(part)
        except Exception as error:  # work that makes no sense, of which nothing was begun
            self._parts.tell(part, (from_exception(error, stage=STAGES.get(work.kind, "fetch")),))
            return
        if part.failures:
            self._parts.tell(part, tuple(part.failures))
        elif work.kind == Kind.FETCH:
            self._pull(part, handles)
        elif self._integrity is not Integrity.OFF and any(handle.sum for handle in handles):
            self._workers.put((part, handles))
        else:
            self._parts.tell(part, ())

    def cancel(self, token: Token) -> None:
        """As `Copier.cancel`: a pull of which nothing was asked for is dropped; else see the module."""
        part = self._parts.find(token)
        if part is not None:
            part.asked = True
            for transfer, _ in list(part.pulls):
                transfer.cancel()
            self._warden.wake()

    def probe(self, token: Token) -> Progress:
        """As `Copier.probe`."""
        return self._parts.probe(token)

    def fence(self) -> int:
        """As `Copier.fence`: waits a moment for what runs, and then tears down what still does.

        Errors: `TimeoutError` if that could not be proved.
        """
        serial = self._parts.serial
        end = monotonic() + self._patience
        self._parts.wait(end)
        self._warden.quiet_all()
        verified = self._workers.wait(self._patience)
        if not verified or not self._parts.wait(monotonic() + JOIN_SECONDS):
            raise TimeoutError(f"copier {self.name}: a connection could not be torn down; nothing is proved")
        return serial

    def close(self, within: float) -> tuple[Token, ...]:
        """As `Copier.close`; the transport is closed with it, and nobody can pull from this rank any more."""
        end = monotonic() + within
        self._closed = True
        self._parts.wait(end)
        self._warden.stop()
        self._transport.close(max(end - monotonic(), JOIN_SECONDS))
        self._warden.quiet_all()
        self._workers.stop(max(end - monotonic(), JOIN_SECONDS))
        return self._parts.left()

    # -- as a keeper ---------------------------------------------------------------------------------------------------

    def found(self) -> Found:
        """As `Keeper.found`: nothing, ever."""
        return Found(self.name, (), (), 0, 0, 0, last=True)

    def undo(self, effect: Undo) -> None:
        """As `Keeper.undo`: nothing is ever made durable here."""

    def adopt(self, effect: Adopt) -> None:
        """As `Keeper.adopt`: these handles stand for what they were routed to, under these keys."""
        self._routes.adopt(effect)

    def sweep(self, effect: Sweep) -> None:
        """As `Keeper.sweep`: with everything, no handle stands for anything."""
        if effect.everything:
            self._routes.clear()

    def take_troubles(self) -> list[str]:
        """As `Keeper.take_troubles`."""
        taken, self._troubles = self._troubles + self._ways.troubles, []
        self._ways.troubles = []
        return taken

    # -- what a part is ------------------------------------------------------------------------------------------------

    def _check(self, part: Part) -> list[Handle]:
        """What the lines of a part stand for; what is wrong with them goes to its failures. Raises for nonsense."""
        work = part.work
        if work.kind not in (Kind.FETCH, Kind.VERIFY):
            raise ValueError(f"a peer's blocks are fetched and verified; a part of kind {work.kind!r} is neither")
        if not len(work.src) == len(work.dst) == len(work.keys):
            raise ValueError(f"part {work.token.serial} has lists of different lengths; a line has one of each")
        if len(set(work.dst)) != len(work.dst):
            raise ValueError(f"part {work.token.serial} writes a block twice")
        self._memory.check(work.dst)
        found, stage = self._routes.each(work.src), STAGES[work.kind]
        handles = [handle for handle in found if handle is not None]
        only = work.spaces[0] if len(work.spaces) == 1 else None
        if (
            only is not None
            and tuple([handle.key for handle in handles]) == work.keys
            and {handle.space for handle in handles} == {only}
        ):
            return handles  # all is as it should be, as nearly always
        for line, (handle, key) in enumerate(zip(found, work.keys, strict=True)):
            if handle is None:
                message = f"handle {work.src[line]} stands for no block of a peer"
                part.failures.append(Failure(line, int(Code.BLOCK_NOT_FOUND), stage, message=message))
            elif handle.key != key or (work.spaces and handle.space != work.space(line)):
                message = f"handle {work.src[line]} was adopted for key {handle.key.hex()} of {handle.space!r}"
                part.failures.append(Failure(line, int(Code.KEY_MISMATCH), stage, message=message))
        return handles

    def _pull(self, part: Part, handles: list[Handle]) -> None:
        """A pull from each peer that the part has blocks of."""
        lines: dict[tuple[str, int], Sequence[int]] = {}
        for who in dict.fromkeys([(handle.peer, handle.life) for handle in handles]):
            lines[who] = range(len(handles))
        if len(lines) > 1:
            lines = {who: [at for at, one in enumerate(handles) if (one.peer, one.life) == who] for who in lines}
        part.left = len(lines)
        if not lines:
            self._parts.tell(part, ())
        for (peer, life), some in lines.items():
            first = some[0] if len(lines) > 1 else -1
            remote, local = [handles[line].remote for line in some], [part.work.dst[line] for line in some]
            pulled = self._ways.pull(peer, life, remote, local, partial(self._parts.pulled, part, first))
            part.pulls.append(pulled)

    def _compare(self, item: tuple[Part, list[Handle]]) -> None:
        """VERIFY, in a thread."""
        part, handles = item
        try:
            failures = tuple(self._bad_lines(part, handles))
        except Exception as error:  # a thread has nobody to raise to
            failures = (from_exception(error, stage="verify"),)
        self._parts.tell(part, failures)

    def _bad_lines(self, part: Part, handles: list[Handle]) -> Iterator[Failure]:
        for line, handle in enumerate(handles):
            if part.asked:
                yield Failure(line, int(Code.CANCELLED), "verify", message=f"cancelled before line {line}")
                return
            found = sum_of(self._memory.bytes_of(part.work.dst[line])) if handle.sum else b""
            if found != handle.sum:
                message = f"what came from block {handle.remote} of {handle.peer} sums to {found.hex()}, not as it said"
                yield Failure(line, int(Code.CRC_MISMATCH), "verify", driver="memory", message=message)
