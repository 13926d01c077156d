"""What offloading costs vLLM's scheduler, whole: the hooks of vLLM's own connector, and those of kvstate's.

    make .venv-vllm/.ready && .venv-vllm/bin/python -m bench.vllm_hooks [--turns 20] [--json]

Two of vLLM's schedulers serve the same requests by turns, one with each connector: a prefix of new blocks is computed
and stored, forgotten by the device, found again and loaded, in full steps of `Scheduler`. Summed are all hooks that the
scheduler calls, each as it calls it, in this thread's own time. The model is left out, and what copies below the
connectors copies nothing and is done at once; its side is not in the sums.

`bench.vllm_cost` is the other half of the truth: there is vLLM's manager alone, without what its connector does around
it, and kvstate's half whole.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from time import thread_time_ns
from typing import Any, Final

from bench.vllm_cost import answered

SIZES: Final = (8, 64, 256)
"""Blocks of a request."""
TOKENS, SLOTS = 32, 1024
"""Tokens of a block; blocks in the host pool."""
HOOKS: Final = (
    "get_num_new_matched_tokens", "update_state_after_alloc", "build_connector_meta", "update_connector_output",
    "request_finished", "request_finished_all_groups", "has_pending_push_work", "has_pending_block_frees",
    "on_new_request", "take_events", "get_kv_connector_stats",
)  # fmt: skip
"""What the scheduler calls of a connector, step by step; some of these only one of the two has."""
IDLE, MOST = 3, 12
"""Steps after a request, for what it left under way; and so many at most until it has computed its first token."""
EXTRA: Final[dict[str, dict[str, Any]]] = {
    "OffloadingConnector": {},
    "KVStateConnector": {"host_blocks": SLOTS},
}
"""Of the configuration of each."""


class Engine:
    """One of vLLM's schedulers with one of the connectors, and no model."""

    def __init__(self, name: str, blocks: int) -> None:
        """For requests of so many blocks."""
        from copy import copy

        import torch
        from vllm.utils.hashing import sha256
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, KVCacheTensor

        from kvstate.integrations.vllm.stock_engine import configured

        device = 2 * blocks + 8
        config, _, grammars = configured(device, SLOTS, False)
        config.cache_config.block_size = TOKENS
        config.kv_transfer_config = copy(config.kv_transfer_config)
        config.kv_transfer_config.kv_connector = name
        if name != "OffloadingConnector":
            config.kv_transfer_config.kv_connector_module_path = "kvstate.integrations.vllm"
            config.kv_transfer_config.kv_connector_extra_config = EXTRA[name]
        layout = FullAttentionSpec(block_size=TOKENS, num_kv_heads=2, head_size=32, dtype=torch.float32)
        group = KVCacheGroupSpec(["layer"], layout)
        tensor = KVCacheTensor(
            size=(device + 1) * layout.page_size_bytes,
            layers=["layer"],
            layer_stride=0,
            block_stride=layout.page_size_bytes,
        )
        caches = KVCacheConfig(num_blocks=device + 1, kv_cache_tensors=[tensor], kv_cache_groups=[group])
        self.blocks = blocks
        self.scheduler = Scheduler(config, caches, grammars, block_size=TOKENS)
        self.worker = StockWorker(config, caches) if name == "OffloadingConnector" else OurWorker()
        self.hasher = get_request_block_hasher(TOKENS, sha256)
        self.made = 0
        self.spent: Counter[str] = Counter()
        """Nanoseconds by hook, since it was last emptied."""
        self.found = 0
        """Tokens that a lookup found below."""
        for hook in HOOKS:
            if hasattr(self.scheduler.connector, hook):
                setattr(self.scheduler.connector, hook, self._timed(hook, getattr(self.scheduler.connector, hook)))

    def _timed(self, name: str, hook: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **more: Any) -> Any:
            begin = thread_time_ns()
            answer = hook(*args, **more)
            self.spent[name] += thread_time_ns() - begin
            if name == "get_num_new_matched_tokens":
                self.found = max(self.found, answer[0] or 0)
            return answer

        return call

    def step(self) -> None:
        """A whole step of vLLM's."""
        from kvstate.integrations.vllm.stock_engine import updated

        output = self.scheduler.schedule()
        updated(self.scheduler, output, self.worker.ran(output), 3)

    def serve(self, first: int) -> int:
        """A request from its arrival to rest; returns how many tokens were found below. `first` makes its prompt."""
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request, RequestStatus

        self.made, self.found = self.made + 1, 0
        prompt = [10 + first] * (self.blocks * TOKENS) + [5]
        params = SamplingParams(max_tokens=1 << 16, ignore_eos=True)
        request = Request(f"r{self.made}", prompt, params, None, block_hasher=self.hasher)
        self.scheduler.add_request(request)
        for _ in range(MOST):
            self.step()
            if request.num_output_tokens > 1:
                break
        assert request.num_output_tokens, "the request was never computed"
        self.scheduler.finish_requests(request.request_id, RequestStatus.FINISHED_ABORTED)
        for _ in range(IDLE):
            self.step()
        return self.found

    def turn(self, first: int) -> float:
        """Nanoseconds a block."""
        self.spent.clear()
        assert self.serve(first) == 0, "what is new was found"
        assert self.scheduler.reset_prefix_cache(), "somebody still holds blocks"
        assert self.serve(first) == self.blocks * TOKENS, "nothing was stored and loaded"
        assert self.scheduler.reset_prefix_cache(), "somebody still holds blocks"
        return self.spent.total() / self.blocks


class StockWorker:
    """vLLM's half of its connector in a worker, over copies that are done at once."""

    def __init__(self, config: Any, caches: Any) -> None:
        from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
        from vllm.distributed.kv_transfer.kv_connector.v1 import KVConnectorRole

        from bench.shadow import AtOnce

        self.half = KVConnectorFactory.create_connector(config, KVConnectorRole.WORKER, caches)
        self.half.connector_worker.worker = AtOnce()

    def ran(self, output: Any) -> Any:
        """What it says of this step."""
        from kvstate.integrations.vllm.stock_engine import collected

        self.half.handle_preemptions(output.kv_connector_metadata)
        return collected(self.half, output)


class OurWorker:
    """Answers for kvstate's: what it was given is done."""

    def ran(self, output: Any) -> Any:
        """What it says of this step."""
        from vllm.v1.outputs import KVConnectorOutput

        return KVConnectorOutput(kv_connector_worker_meta=answered(output.kv_connector_metadata))


def compared(blocks: int, turns: int) -> dict[str, Any]:
    """The least of so many turns of each, by turns, and what the hooks had of it; in microseconds a block."""
    engines = {name: Engine(name, blocks) for name in EXTRA}
    best: dict[str, tuple[float, Counter[str]]] = {}
    for turn in range(turns + SLOTS // blocks + 2):  # the first ones fill the host pool
        for name in list(EXTRA)[:: 1 if turn % 2 else -1]:
            engine = engines[name]
            spent = engine.turn(turn)
            if turn > SLOTS // blocks + 1 and (name not in best or spent < best[name][0]):
                best[name] = spent, engine.spent.copy()
    (stock, theirs), (own, ours) = best["OffloadingConnector"], best["KVStateConnector"]
    return {
        "blocks": blocks,
        "kvstate": own / 1e3,
        "stock": stock / 1e3,
        "ratio": own / stock,
        "hooks": {
            name: {"kvstate": ours[name] / blocks / 1e3, "stock": theirs[name] / blocks / 1e3}
            for name in HOOKS
            if ours[name] or theirs[name]
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m bench.vllm_hooks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=20, help="how often each is measured")
    parser.add_argument("--json", action="store_true", help="print the figures for a program")
    given = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    found = [compared(blocks, max(given.turns, 1)) for blocks in SIZES]
    if given.json:
        print(json.dumps(found, indent=1))
    for one in () if given.json else found:
        print(
            f"{one['blocks']:4} blocks: kvstate {one['kvstate']:.2f} us a block, vLLM's own connector "
            f"{one['stock']:.2f}: {one['ratio']:.2f} times"
        )
        for name, both in one["hooks"].items():
            print(f"       {name}: {both['kvstate']:.2f} and {both['stock']:.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
