"""What is put onto the tape inside of vLLM's hooks, and how it is read afterwards, beside the engine.

Inside a hook as little as possible is done: what vLLM hands over is put aside as it is, but for the little that may be
changed before it is read (the model runner, in one process with the scheduler, lets the lists of blocks of a request
grow; the worker takes jobs out of a step's message). vLLM's objects are looked at by the names of their fields; none of
its classes is imported, so all of this can be tested without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kvstate.integrations.vllm.shadow.beside import Beside
from kvstate.integrations.vllm.shadow.copies import Copy

Tables = tuple[Sequence[int], ...]
"""Numbers of blocks, by KV cache group."""


class Built(NamedTuple):
    """A step was scheduled, and the connector has made its message to the workers; `now` is when."""

    now: float
    new: Sequence[Any]
    """Requests in a step for the first time: vLLM's `NewRequestData`."""
    counts: Sequence[Sequence[int]]
    """For each group: of each of these requests, how many of its blocks are of this step."""
    names: Sequence[str]
    """Requests that were in a step before."""
    tables: Sequence[Tables | None]
    """For each of them: the blocks that it got."""
    resumed: Mapping[str, tuple[int, Tables]]
    """Those of them that were preempted in between: computed tokens, and all blocks."""
    gone: Collection[str]
    stores: Mapping[int, Any]
    """Jobs by number: vLLM's `TransferJob`."""
    loads: Mapping[int, Any]
    """Likewise."""
    flush: Collection[int]
    """Jobs that the workers wait for before they compute this step."""


class Heard(NamedTuple):
    """The workers have reported, `now`: by job, how many of them have completed it."""

    now: float
    completed: Mapping[int, int]


class PutOff(NamedTuple):
    """A lookup had no answer yet; or, not `still`, has one `now`."""

    now: float
    request: str
    still: bool


class Reset(NamedTuple):
    """The connector has forgotten its cache, `now`."""

    now: float


class Raised(NamedTuple):
    """An exception has left a hook of the stock connector, `now`; `error` is its type and text."""

    now: float
    hook: str
    error: str


Event = Built | Heard | PutOff | Reset | Raised
"""What can be on the tape of a scheduler."""


def built(now: float, output: Any, meta: Any) -> Built:
    """What the hook that builds a step's message puts aside."""
    cached, new = output.scheduled_cached_reqs, output.scheduled_new_reqs
    return Built(
        now, new, _counts(new) if new else (), cached.req_ids, cached.new_block_ids,
        _resumed(cached) if cached.resumed_req_ids else {}, output.finished_req_ids,
        meta.store_jobs.copy(), meta.load_jobs, meta.jobs_to_flush or (),
    )  # fmt: skip


def _counts(new: Any) -> list[list[int]]:
    """How long the lists are, which the model runner takes for its own."""
    return [[len(one.block_ids[group]) for one in new] for group in range(len(new[0].block_ids))]


def _resumed(cached: Any) -> dict[str, tuple[int, Tables]]:
    """Copies of the lists, likewise."""
    rows = zip(cached.req_ids, cached.num_computed_tokens, cached.new_block_ids, strict=True)
    names = cached.resumed_req_ids
    return {name: (computed, tuple(map(tuple, blocks or ()))) for name, computed, blocks in rows if name in names}


class Reader:
    """Reads a scheduler's tape and plays it to the machines.

    Errors: `ShadowError` where what was seen can't have been, and whatever comes of objects that are not as expected.
    """

    def __init__(self, beside: Beside, *, groups: Mapping[int, int], ranks: int, host: bool) -> None:
        self.beside = beside
        """The machines."""
        self.groups = groups
        """Of each KV cache group whose blocks are watched: the tokens of a block."""
        self.ranks = ranks
        """So many ranks report each job."""
        self.host = host
        """Are host slots watched?"""
        self._loaded: dict[str, frozenset[int]] = {}
        """The blocks that were given to requests for their loads, until they are in a step."""

    def read(self, event: Event) -> None:
        """One event of the tape."""
        self.beside.ring.at(event.now)
        match event:
            case Built():
                self._built(event)
            case Heard():
                for number, count in event.completed.items():
                    self.beside.ended(number, count)
            case PutOff():
                self.beside.put_off(event.request, event.still)
            case Reset():
                self.beside.reset()
            case Raised():
                self.beside.raised(event.hook, event.error)

    def tick(self, now: float) -> None:
        """It is this time."""
        self.beside.tick(now)

    def forget(self) -> None:
        """Something was missed: begin anew, and know nothing of what is under way."""
        old = self.beside
        self.beside = Beside(old.told, old.ring, deadline=old.deadline, blocks=old.host.base)
        self.beside.highest = self.beside.forgiven = old.highest
        self.beside.steps, self.beside.adopted, self.beside.blind = old.steps, old.adopted, True
        self._loaded.clear()

    def _built(self, event: Built) -> None:
        """In the order in which it comes true: what is waited for, then stores that read what is given away next."""
        beside = self.beside
        beside.stepped([one.req_id for one in event.new], event.gone)
        beside.waited(event.flush)
        last = {number: job for number, job in event.stores.items() if job.req_id in event.gone} if event.gone else {}
        self._begin(last.items(), store=True)
        beside.waited(number for number in last if number in event.flush)
        for place, one in enumerate(event.new):
            mine = [table[: counts[place]] for table, counts in zip(one.block_ids, event.counts, strict=True)]
            self._given(one.req_id, one.num_computed_tokens, mine)
        for name, (computed, tables) in event.resumed.items():
            self._given(name, computed, tables)
        for name, more in zip(event.names, event.tables, strict=True):
            if more is not None and name not in event.resumed:
                self._given(name, 0, more)
        self._begin([one for one in event.stores.items() if one[0] not in last], store=True)
        self._begin(event.loads.items(), store=False)
        for name in event.gone:
            self._loaded.pop(name, None)

    def _given(self, name: str, computed: int, tables: Iterable[Sequence[int]]) -> None:
        """A request got these blocks. Those of tokens that are computed hold what they held before."""
        loaded = self._loaded.pop(name, frozenset())
        for group, blocks in enumerate(tables):
            tokens = self.groups.get(group)
            if tokens is not None:
                fresh = blocks[-(-computed // tokens) :]
                self.beside.given((block for block in fresh if block not in loaded) if loaded else fresh, name)

    def _begin(self, jobs: Iterable[tuple[int, Any]], *, store: bool) -> None:
        for number, job in jobs:
            near, far = (job.src_spec, job.dst_spec) if store else (job.dst_spec, job.src_spec)
            device = _numbers(near.block_ids)
            host = _numbers(far.block_ids) if self.host else []
            if not store:
                self._loaded[job.req_id] = frozenset(device)
                self.beside.given(dict.fromkeys(device), job.req_id)
            self.beside.began(Copy(number, store, job.req_id, device, host, self.ranks))


def _numbers(ids: Any) -> list[int]:
    """vLLM's numbers of blocks, which are an array or a list."""
    return [*map(int, ids)] if isinstance(ids, list | tuple) else list(ids.tolist())
