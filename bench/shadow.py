"""What the observer of `docs/vllm-shadow.md` costs a step of vLLM's: inside its hooks, and beside it.

    make .venv-vllm/.ready && .venv-vllm/bin/python -m bench.shadow

Two of vLLM's schedulers make the same steps by turns, one with its own offloading connector and one with the observer
in it; the model is left out, and what copies below the connectors copies nothing and is done at once.

* *By itself*: the calls of one step are made again, many times, and the stock connector's own methods do nothing. The
  limit is held against this one, which says the same on a machine with other things to do.
* *In its place*: every hook is timed twice, from without and where the stock connector's own method begins and ends;
  what lies between the two, less what lies there without the observer. Caches are cold then, and the machine's.

What its threads do is done between the steps here, and timed in CPU time.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import ExitStack
from statistics import median
from time import perf_counter_ns
from typing import Any, NamedTuple
from unittest import mock

REQUESTS = 256
BLOCK = 16
"""Tokens of a block, as on a GPU."""
PROMPT = 512
"""Tokens of a prompt."""
LIMIT = 100.0
"""Microseconds of a step that may be spent inside the observer's hooks."""
BEFORE = (
    "get_num_new_matched_tokens", "build_connector_meta", "update_connector_output", "get_kv_connector_stats",
    "handle_preemptions", "start_load_kv", "get_finished", "build_connector_worker_meta",
)  # fmt: skip
"""Hooks, of both halves, that the observer stands before and that a step calls."""


class AtOnce:
    """What copies: nothing, and at once."""

    def __init__(self) -> None:
        self.over: list[Any] = []

    def submit(self, job_id: int, *_: Any, **__: Any) -> bool:
        """Done."""
        from vllm.v1.kv_offload.base import TransferResult

        self.over.append(TransferResult(job_id=job_id, success=True))
        return True

    submit_store = submit_load = submit

    def get_finished(self) -> list[Any]:
        """What was submitted."""
        over, self.over = self.over, []
        return over

    def wait(self, _: Any) -> None:
        """It is done."""


class Call(NamedTuple):
    """A call of a hook, or of what stands below the connector."""

    owner: Any
    hook: str
    args: tuple[Any, ...]
    answer: Any
    shadow: bool


CALLS: list[Call] = []
"""Those of the last step of both engines."""
SPENT = {"inner": 0, "outer": 0}
"""Nanoseconds in these hooks: in the stock connector's own methods, and as they are called."""


def timed(hook: Callable[..., Any], what: str) -> Callable[..., Any]:
    """The same, and its time is added up."""

    def call(*args: Any) -> Any:
        begin = perf_counter_ns()
        answer = hook(*args)
        SPENT[what] += perf_counter_ns() - begin
        return answer

    return call


def kept(owner: Any, name: str, shadow: bool, hook: Callable[..., Any]) -> None:
    """Have the calls of this hook kept; `hook` is what is called."""

    def call(*args: Any) -> Any:
        answer = hook(*args)
        CALLS.append(Call(owner, name, args, answer, shadow))
        return answer

    setattr(owner, name, call)


def take() -> tuple[float, float]:
    """Microseconds since the last time: in the stock connector's own methods, and what comes on top of them."""
    inner, outer = SPENT["inner"] / 1e3, SPENT["outer"] / 1e3
    SPENT.update(inner=0, outer=0)
    return inner, outer - inner


class Engine:
    """One of vLLM's schedulers, both halves of a connector, and no model."""

    def __init__(self, name: str, blocks: int, slots: int) -> None:
        from copy import copy

        import torch
        from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
        from vllm.distributed.kv_transfer.kv_connector.v1 import KVConnectorRole
        from vllm.utils.hashing import sha256
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec

        from kvstate.integrations.vllm.stock_engine import configured

        config, _, grammars = configured(blocks, slots, False)
        config.cache_config.block_size = BLOCK
        config.scheduler_config.max_num_seqs = REQUESTS
        config.scheduler_config.max_num_batched_tokens = REQUESTS * PROMPT
        config.kv_transfer_config = copy(config.kv_transfer_config)
        config.kv_transfer_config.kv_connector = name
        if name == "ShadowConnector":
            config.kv_transfer_config.kv_connector_module_path = "kvstate.integrations.vllm"
            extra = config.kv_transfer_config.kv_connector_extra_config
            config.kv_transfer_config.kv_connector_extra_config = extra | {"kvstate_shadow": {"every_seconds": 3600}}
        layout = FullAttentionSpec(block_size=BLOCK, num_kv_heads=2, head_size=32, dtype=torch.float32)
        group = KVCacheGroupSpec(["layer"], layout)
        caches = KVCacheConfig(num_blocks=blocks + 1, kv_cache_tensors=[], kv_cache_groups=[group])
        self.scheduler = Scheduler(config, caches, grammars, block_size=BLOCK)
        self.connector = KVConnectorFactory.create_connector(config, KVConnectorRole.WORKER, caches)
        self.connector.connector_worker.worker = AtOnce()
        halves, shadow = (self.scheduler.connector, self.connector), name == "ShadowConnector"
        self.watches = [half.watch for half in halves] if shadow else []
        if shadow:
            self.connector.tap()
        for half in halves:
            for hook in BEFORE:
                kept(half, hook, shadow, timed(getattr(half, hook), "outer"))
        below = self.connector.connector_worker.worker
        for hook in ("submit_store", "submit_load", "get_finished"):
            kept(below, hook, shadow, getattr(below, hook))
        self.hasher = get_request_block_hasher(BLOCK, sha256)
        self.made = 0

    def arrive(self, count: int) -> None:
        """So many new requests, no two of which share anything."""
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        for _ in range(count):
            self.made += 1
            prompt = [10 + self.made] * PROMPT
            params = SamplingParams(max_tokens=1 << 16, ignore_eos=True)
            self.scheduler.add_request(Request(f"r{self.made}", prompt, params, None, block_hasher=self.hasher))

    def leave(self, count: int) -> None:
        """So many of the oldest ones are aborted."""
        from vllm.v1.request import RequestStatus

        for name in list(self.scheduler.requests)[:count]:
            self.scheduler.finish_requests(name, RequestStatus.FINISHED_ABORTED)

    def step(self) -> tuple[float, float]:
        """A step; returns as `Timed.take`."""
        from kvstate.integrations.vllm.stock_engine import collected, updated

        output = self.scheduler.schedule()
        self.connector.handle_preemptions(output.kv_connector_metadata)
        updated(self.scheduler, output, collected(self.connector, output), 3)
        return take()


def decode(_: Engine) -> None:
    """All of them go on."""


def churn(engine: Engine) -> None:
    """Sixteen leave and sixteen come."""
    engine.leave(16)
    engine.arrive(16)


def burst(engine: Engine) -> None:
    """All leave, and as many come."""
    engine.leave(REQUESTS)
    engine.arrive(REQUESTS)


class Cost(NamedTuple):
    """In microseconds: lowest and median of the stock methods, and of the observer in the hooks; its threads."""

    stock: tuple[float, float]
    observer: tuple[float, float]
    beside: tuple[float, float]


def measure(kind: Callable[[Engine], None], steps: int, engines: tuple[Engine, Engine]) -> Cost:
    """So many steps of this kind, by turns."""
    inner, beside, more = list[float](), list[float](), ([list[float](), list[float]()])
    for turn in range(steps):
        CALLS.clear()
        for which in (0, 1) if turn % 2 else (1, 0):
            kind(engines[which])
            take()
            stock, own = engines[which].step()
            inner.append(stock)
            more[which].append(own)
            before = sum(watch.seconds for watch in engines[which].watches)
            for watch in engines[which].watches:
                watch.drain()
            if which:
                beside.append(1e6 * (sum(watch.seconds for watch in engines[which].watches) - before))
    observer = min(more[1]) - min(more[0]), median(more[1]) - median(more[0])
    return Cost((min(inner), median(inner)), observer, (min(beside), median(beside)))


def replayed(stock: type, shadow: bool, rounds: int = 2000) -> float:
    """The calls of the last step once more, of one of the engines; microseconds, the lowest of many rounds.

    The stock connector's own methods do nothing then, so what is left is the observer's; and without it, the calls'.
    """
    calls = [one for one in CALLS if one.shadow == shadow]
    halves: set[Any] = {one.owner for one in calls if isinstance(one.owner, stock)}
    answers = {one.hook: one.answer for one in calls if one.owner in halves}
    own: dict[str, Any] = {hook: (lambda *_, answer=answer: answer) for hook, answer in answers.items()}
    with ExitStack() as patches:
        patches.enter_context(mock.patch.multiple(stock, **own))
        for one in halves if shadow else ():
            patches.enter_context(mock.patch.object(one, "_matched", own.get("get_num_new_matched_tokens")))
        hooks = [(getattr(type(one.owner), one.hook), one.owner, one.args) for one in calls]
        lowest = float("inf")
        for _ in range(rounds):
            begin = perf_counter_ns()
            for hook, owner, args in hooks:
                hook(owner, *args)
            lowest = min(lowest, (perf_counter_ns() - begin) / 1e3)
            for one in halves if shadow else ():
                one.watch._tape.clear()  # noqa: SLF001
    return lowest


def main(steps: int = 400) -> int:
    """Print what it costs; returns 1 where the limit is not kept, or the observer has found something."""
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector

    for hook in BEFORE:
        setattr(OffloadingConnector, hook, timed(getattr(OffloadingConnector, hook), "inner"))
    engines = (Engine("OffloadingConnector", 40_000, 40_000), Engine("ShadowConnector", 40_000, 40_000))
    for engine in engines:
        engine.arrive(REQUESTS)
        engine.step()
    gc.collect()
    within = True
    print(f"of a step of {REQUESTS} requests, in microseconds:")
    for kind, count in ((decode, steps), (churn, steps // 4), (burst, steps // 10)):
        cost = measure(kind, count, engines)
        alone = replayed(OffloadingConnector, True) - replayed(OffloadingConnector, False)
        told = alone if alone > 0 else cost.observer[0]  # a difference below nothing is noise, and proves nothing
        within &= told <= LIMIT
        said = "kept" if told <= LIMIT else "NOT KEPT"
        print(f"  {kind.__name__}: observer in the hooks {told:.1f} (by itself {alone:.1f}), limit {LIMIT:g} {said}")
        for what, (low, mid) in zip(("the stock hooks", "in its place", "in its threads"), cost, strict=True):
            print(f"    {what:15} lowest {low:10.1f}, {low / cost.stock[0]:.4f} of the stock hooks; median {mid:.1f}")
    for watch in engines[1].watches:
        watch.close()
        found = watch.report()
        print(f"  {watch.half}: {found['events']} events, {found['dropped']} dropped, {found['violations']} violations")
        within &= watch.on and not found["violations"]
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:2])))
