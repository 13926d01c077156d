"""Faults for a live engine with our connector: what a worker's copier does wrong, and the bytes that it left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kvstate.errors import Code
from kvstate.machines.messages import Failure, Kind, Outcome, Report, Token, Work
from kvstate.runtime.copiers import Progress
from kvstate.wire import decode_up, encode_up
from tests.vllm.tiny import Tiny

Act = Callable[[Work], str]
"""What is done with a part: `go`, `fail`, `raise`, or `keep` (it begins when the fault is over)."""


class Faulty:
    """Stands before the copier of a worker in this process, and its mouth. All is well until a test says otherwise."""

    def __init__(self, engine: Tiny) -> None:
        from vllm.distributed.kv_transfer import get_kv_transfer_group

        self.connector: Any = get_kv_transfer_group()
        """The worker's."""
        self.ours: Any = engine.scheduler.connector.scheduler.copies
        """The scheduler's half, where the copies are."""
        worker = self.connector.worker.worker
        self.copiers: dict[str, Any] = worker.dispatcher.copiers
        self.copier, self.copiers["cpu"] = self.copiers["cpu"], self
        self.inbox, self._worker, self._take = worker.inbox, worker, worker.take_reports
        worker.take_reports = self._reports
        self.act: Act = lambda _work: "go"
        self.arrivals = 1
        """How often each message of the worker's arrives: the second time a step later."""
        self._again = b""
        self.kept: list[Work] = []
        """Work that has not begun."""
        self.loads = 0
        """Parts that were to load something."""
        self.stored: list[int] = []
        """Host blocks in the order in which they were stored to: place by place of a prompt that is served alone."""

    # -- as a copier ---------------------------------------------------------------------------------------------------

    name = "cpu"

    def submit(self, work: Work) -> None:
        self.loads += work.kind == Kind.FETCH
        self.stored += work.dst if work.kind == Kind.STORE else ()
        match self.act(work):
            case "fail":
                why = Failure(-1, int(Code.UNKNOWN), "fetch", driver="errno", raw="5", message="the test says so")
                self.inbox.put(Report(work.token, Outcome.FAILED, (why,)))
            case "raise":
                raise OSError(5, "the test says so")
            case "keep":
                self.kept.append(work)
            case _:
                self.copier.submit(work)

    def cancel(self, token: Token) -> None:
        self.copier.cancel(token)

    def probe(self, token: Token) -> Progress:
        found: Progress = self.copier.probe(token)
        return found

    def fence(self, within: float | None = None) -> int:
        if self.kept:
            raise TimeoutError("work is kept back")
        return int(self.copier.fence(within))

    def close(self, within: float) -> tuple[Token, ...]:
        left: tuple[Token, ...] = self.copier.close(within)
        return left

    # -- what tests say ------------------------------------------------------------------------------------------------

    def only(self, kind: Kind, what: str, times: int = 1 << 30) -> None:
        """From here on this is done with parts of this kind, so many times."""
        left = [times]

        def act(work: Work) -> str:
            if work.kind != kind or not left[0]:
                return "go"
            left[0] -= 1
            return what

        self.act = act

    def well(self) -> None:
        """All is well again; what was kept begins."""
        self.act, self.arrivals = lambda _work: "go", 1
        kept, self.kept = self.kept, []
        for work in kept:
            self.copier.submit(work)

    def corrupt(self, *blocks: int) -> None:
        """Bits flip in these blocks of the host pool, or in all of them: exponents of every sixteenth number."""
        host = self.connector.worker.memory.pools[1]
        host.array[[block - host.base for block in blocks] or slice(None), 3::64] ^= 0x40

    def off(self) -> None:
        """Go away again."""
        self.well()
        self.copiers["cpu"] = self.copier
        self._worker.take_reports = self._take

    def _reports(self) -> bytes:
        """What the worker has to say now, and what it said before, if that is to arrive once more."""
        message: bytes = self._take()
        again, self._again = self._again, message if self.arrivals > 1 else b""
        if not self.arrivals:
            return b""
        if not message or not again:
            return message or again
        up = decode_up(message)
        return encode_up(up.rank, up.incarnation, [*decode_up(again).items, *up.items])
