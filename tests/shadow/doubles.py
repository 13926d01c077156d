"""What vLLM hands to the observer, in plain objects with the same fields, and an observer of it without a thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from kvstate.integrations.vllm.shadow.beside import Beside
from kvstate.integrations.vllm.shadow.kinds import Kind, Violation
from kvstate.integrations.vllm.shadow.reading import Heard, PutOff, Raised, Reader, Reset, built
from kvstate.integrations.vllm.shadow.record import Ring

BLOCKS = 64
"""Of the device."""
TOKENS = 32
"""Of a block."""


def job(request: str, src: Sequence[int], dst: Sequence[int]) -> Any:
    """A `TransferJob`."""
    return SimpleNamespace(
        req_id=request, src_spec=SimpleNamespace(block_ids=list(src)), dst_spec=SimpleNamespace(block_ids=list(dst))
    )


def new(request: str, blocks: Sequence[int], computed: int = 0, *more: Sequence[int]) -> Any:
    """A `NewRequestData`, of as many groups as there are lists of blocks."""
    groups = ([*blocks], *([*one] for one in more))
    return SimpleNamespace(req_id=request, num_computed_tokens=computed, block_ids=groups)


class Scene:
    """A scheduler's observer, and what vLLM does, hook by hook. A step takes a second."""

    def __init__(self, *, deadline: float = 100.0, ranks: int = 1, host: bool = True, groups: int = 1) -> None:
        self.found: list[Violation] = []
        self.ring = Ring(1000)
        beside = Beside(self.found.append, self.ring, deadline=deadline, blocks=BLOCKS)
        self.reader = Reader(beside, groups=dict.fromkeys(range(groups), TOKENS), ranks=ranks, host=host)
        self.now = 0.0

    def built(
        self,
        *news: Any,
        more: Mapping[str, Sequence[int]] | None = None,
        resumed: Mapping[str, tuple[int, Sequence[int]]] | None = None,
        gone: Sequence[str] = (),
        stores: Mapping[int, Any] | None = None,
        loads: Mapping[int, Any] | None = None,
        flush: Sequence[int] = (),
    ) -> None:
        """A step is scheduled."""
        self.now += 1.0
        grown, again = dict(more or {}), dict(resumed or {})
        tables = [([*blocks],) for blocks in grown.values()] + [([*blocks],) for _, blocks in again.values()]
        cached = SimpleNamespace(
            req_ids=[*grown, *again, "idle"],
            num_computed_tokens=[*([100] * len(grown)), *(computed for computed, _ in again.values()), 7],
            new_block_ids=[*tables, None],
            resumed_req_ids=set(again),
        )
        output = SimpleNamespace(
            scheduled_new_reqs=list(news), scheduled_cached_reqs=cached, finished_req_ids=set(gone)
        )
        meta = SimpleNamespace(store_jobs=dict(stores or {}), load_jobs=dict(loads or {}), jobs_to_flush=set(flush))
        self.reader.read(built(self.now, output, meta))

    def steps(self, count: int) -> None:
        """So many steps in which nothing happens, and the clock."""
        for _ in range(count):
            self.built()
        self.reader.tick(self.now)

    def completed(self, *jobs: int, ranks: int = 1) -> None:
        """The workers report these."""
        self.reader.read(Heard(self.now, dict.fromkeys(jobs, ranks)))

    def put_off(self, request: str, still: bool = True) -> None:
        """A lookup had no answer, or has one."""
        self.reader.read(PutOff(self.now, request, still))

    def reset(self) -> None:
        """The connector's cache is reset."""
        self.reader.read(Reset(self.now))

    def raised(self, hook: str, error: str) -> None:
        """A hook of the stock connector raises."""
        self.reader.read(Raised(self.now, hook, error))

    def stored(self, request: str = "r1", blocks: Sequence[int] = (1, 2), slots: Sequence[int] = (0, 1)) -> None:
        """A request has come, its blocks were stored as job 0, and all is over."""
        self.built(new(request, blocks), stores={0: job(request, blocks, slots)})
        self.completed(0)

    @property
    def kinds(self) -> list[Kind]:
        """What was found."""
        return [one.kind for one in self.found]
