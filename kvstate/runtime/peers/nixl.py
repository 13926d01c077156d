"""Blocks over NIXL: the transfer engine for production, with UCX below it, which runs on the memory of CPUs as well.

One agent serves: others read from its memory, and it starts nothing. For each connection there is another agent that
reads, in the thread of the connection. A handle that is released in flight proves nothing, and NIXL has no other way to
stop a transfer; so a connection is made quiet by the end of its agent: handles and lists are given up, the peer is
forgotten, the memory is deregistered, and with the agent its workers are gone, without which nobody is left who could
write. That agents are one a connection is what makes this possible without disturbing any other.

Where UCX can read the other process's memory itself, `transfer` copies before it returns. Hence the thread, and parts
of `CHUNK_BYTES`.

Anybody who can reach an agent's address and knows its description can read what it serves: for trusted networks.
(Pools on a GPU are registered as such; that has not yet been run.)
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic, sleep
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kvstate.machines.messages import Failure
from kvstate.runtime.memory import Memory
from kvstate.runtime.peers.layout import Layout, Plan, decode, layout_of
from kvstate.runtime.peers.line import Line
from kvstate.runtime.peers.nixl_agent import Agent, bindings, kind_of
from kvstate.runtime.peers.transport import Connection, DescriptionError, Transfer, missing

CHUNK_BYTES: Final = 16 << 20
"""Of a pull that is asked for at once; a wish to be quiet is heard between two of them."""
AHEAD: Final = 2
"""Chunks that are under way, where they are not copied at once."""
PAUSE_SECONDS: Final = 5e-5
"""Between two looks at what is under way."""
LONG_PAUSE_SECONDS: Final = 1e-3
"""The same, once nothing has come for some time."""
PATIENT: Final = 10_000
"""So many looks in vain make the pause long: about a second of them. Before that each may be what moves the bytes."""
Indices = npt.NDArray[np.int32]
"""Of descriptors in a prepared list."""
_Form = tuple[tuple[int, int], ...]


class NixlTransport:
    """As `Transport`, over NIXL. Its memory can be read by peers from the moment on when it is made, if it serves."""

    name = "nixl"

    def __init__(self, memory: Memory, name: str = "kvstate", *, serves: bool = True) -> None:
        """`name` is for NIXL's own messages. Errors: `NixlMissingError`; what NIXL raises where it can't start."""
        bindings()
        self._memory = memory
        self._life = f"{name}-{secrets.token_hex(8)}"
        bare = layout_of(self.name, memory, {})
        self._server = Agent(self._life, bare, serves=True) if serves else None
        self._layout = bare
        if self._server is not None:
            described = base64.b64encode(self._server.agent.get_agent_metadata()).decode()
            self._layout = bare._replace(more={"agent": described})
        self._lines: list[NixlConnection] = []
        self._made = 0

    def describe(self) -> bytes:
        """As `Transport.describe`."""
        return self._layout.encode()

    def connect(self, peer: str, description: bytes) -> Connection:
        """As `Transport.connect`. Errors: `DescriptionError`."""
        theirs = decode(description, self._layout)
        try:
            served = base64.b64decode(theirs.more["agent"], validate=True)
        except (KeyError, TypeError, ValueError, binascii.Error):
            raise DescriptionError(
                f"the description of {peer} has no agent of NIXL; does it serve (peers.serves)?"
            ) from None
        self._made += 1
        line = NixlConnection(peer, f"{self._life}-{self._made}", self._layout, theirs, served)
        self._lines = [one for one in self._lines if not one.is_quiet] + [line]
        line.start()
        return line

    def close(self, within: float) -> bool:
        """As `Transport.close`."""
        end, quiet = monotonic() + within, True
        for line in self._lines:
            line.hush("the transport was closed")
        for line in self._lines:
            try:
                line.quiet(max(end - monotonic(), 0.01))
            except TimeoutError:
                quiet = False
        if self._server is not None:
            try:
                self._server.end()
            except RuntimeError:
                quiet = False
        return quiet


class _Chunk(NamedTuple):
    """Some of the descriptors of a transfer: of which lists, and where in them."""

    transfer: Transfer
    plans: tuple[Plan, Plan]
    ours: Indices
    theirs: Indices
    last: bool


class NixlConnection(Line):
    """As `Connection`, to one `NixlTransport`."""

    def __init__(self, peer: str, name: str, ours: Layout, theirs: Layout, served: bytes) -> None:
        """From the peer with that layout, whose agent `served` describes, into the memory of layout `ours`."""
        super().__init__(peer)
        self._name, self._ours, self._theirs, self._served = name, ours, theirs, served
        self._agent: Agent | None = None
        self._remote = ""
        self._lists: dict[tuple[str, Plan, _Form], Any] = {}
        self._chunks: deque[_Chunk] = deque()
        self._handles: deque[tuple[_Chunk, Any]] = deque()
        self._looks = 0

    def check(self, transfer: Transfer) -> Failure | None:
        """As `Line.check`."""
        if len(transfer.remote) != len(transfer.local):
            return missing(f"{len(transfer.remote)} blocks can't be pulled into {len(transfer.local)}")
        from_, to = self._theirs.missing(transfer.remote), self._ours.missing(transfer.local)
        if from_ is not None:
            return missing(f"{self.peer} has no block {from_}")
        return None if to is None else missing(f"there is no block {to} here")

    def poke(self) -> None:
        """As `Line.poke`: it looks by itself."""

    def _open(self) -> None:
        self._agent = Agent(self._name, self._ours, serves=False)
        name = self._agent.agent.add_remote_agent(self._served)
        self._remote = name.decode() if isinstance(name, bytes) else name
        self._agent.agent.make_connection(self._remote)

    def _room(self) -> bool:
        return len(self._chunks) + len(self._handles) < 2 * AHEAD

    def _begin(self, transfer: Transfer) -> None:
        self._chunks.extend(self._cut(transfer))
        if not transfer.local:
            self._land(transfer)

    def _cut(self, transfer: Transfer) -> Iterator[_Chunk]:
        lines, start = len(transfer.remote), 0
        most = max(1, CHUNK_BYTES // self._ours.block_bytes)
        while start < lines:
            from_, to = self._plans(transfer, start)
            stop = min(lines, start + most)
            if not (from_.holds(transfer.remote[start:stop]) and to.holds(transfer.local[start:stop])):
                others = (at for at in range(start + 1, stop) if self._plans(transfer, at) != (from_, to))
                stop = next(others)
            ours, theirs = transfer.local[start:stop], transfer.remote[start:stop]
            rows = len(_form(from_, to))
            yield _Chunk(transfer, (from_, to), _at(to, ours, rows), _at(from_, theirs, rows), stop == lines)
            start = stop

    def _plans(self, transfer: Transfer, line: int) -> tuple[Plan, Plan]:
        from_, to = self._theirs.plan_of(transfer.remote[line]), self._ours.plan_of(transfer.local[line])
        assert from_ is not None
        assert to is not None
        return from_, to

    def _advance(self) -> None:
        while self._chunks and len(self._handles) < AHEAD:
            self._post(self._chunks.popleft())
        moved = False
        while self._handles and self._is_done(self._handles[0][1]):
            chunk, handle = self._handles.popleft()
            handle.release()
            self.progress += 1
            moved = True
            if chunk.last:
                self._land(chunk.transfer)
        self._looks = 0 if moved else self._looks + 1
        if self._handles:
            sleep(PAUSE_SECONDS if self._looks < PATIENT else LONG_PAUSE_SECONDS)

    def _post(self, chunk: _Chunk) -> None:
        assert self._agent is not None
        from_, to = chunk.plans
        form = _form(from_, to)
        ours, theirs = self._list("", to, form), self._list(self._remote, from_, form)
        handle = self._agent.agent.make_prepped_xfer("READ", ours, chunk.ours, theirs, chunk.theirs)
        self._handles.append((chunk, handle))
        if self._agent.agent.transfer(handle) == "ERR":
            raise ConnectionError("NIXL could not begin the transfer")

    def _is_done(self, handle: Any) -> bool:
        assert self._agent is not None
        state = self._agent.agent.check_xfer_state(handle)
        if state == "ERR":
            raise ConnectionError("NIXL says that the transfer failed")
        return bool(state == "DONE")

    def _list(self, whose: str, plan: Plan, form: _Form) -> Any:
        """All pieces of all blocks of a pool, prepared; piece by piece, and in each by slot."""
        assert self._agent is not None
        found = self._lists.get((whose, plan, form))
        if found is None:
            rows = plan.cut(form)
            if rows is None:
                raise ConnectionError(f"the blocks of {self.peer} are divided in another way than ours")
            table = np.array(
                [(row.address, row.length, max(plan.device, 0), row.stride, plan.blocks) for row in rows], np.uint64
            )
            found = self._agent.agent.prep_xfer_dlist(whose, table, kind_of(plan.device))
            self._lists[whose, plan, form] = found
        return found

    def _tear_down(self) -> None:
        if self._agent is None:
            return
        given_up = [handle for _, handle in self._handles] + list(self._lists.values())
        self._handles.clear()
        self._lists.clear()
        while given_up:
            with suppress(Exception):  # one that can't be released goes with its agent
                given_up.pop().release()
        with suppress(Exception):
            self._agent.agent.remove_remote_agent(self._remote)
        self._agent.end()


def _form(one: Plan, other: Plan) -> _Form:
    """In which pieces blocks of these pools are moved: those of the one that is not whole."""
    rows = one.rows if len(one.rows) > 1 else other.rows
    return tuple((row.start, row.length) for row in rows)


def _at(plan: Plan, blocks: tuple[int, ...], rows: int) -> Indices:
    """Where these blocks' pieces stand in the list of their pool."""
    slots = np.array(blocks, np.int32) - plan.base
    if rows == 1:
        return slots
    return (np.arange(rows, dtype=np.int32)[:, None] * plan.blocks + slots).reshape(-1)
