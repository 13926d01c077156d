"""Random steps on a live engine: add, abort, run out of memory, reset, and whatever goes wrong below.

At the end the engine lives, at rest all its blocks are free, and the tokens of everybody who was not aborted are those
of an engine without offload. `KVSTATE_VLLM_STEPS` asks for more steps, `KVSTATE_VLLM_SEED` for others.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.vllm.conftest import Plain
from tests.vllm.scenes import Ours
from tests.vllm.tiny import BLOCK, Tiny, ours, prompt

pytest.importorskip("vllm")

pytestmark = pytest.mark.filterwarnings("ignore")  # of vLLM and what it imports

STEPS = int(os.environ.get("KVSTATE_VLLM_STEPS", "2000"))
SEEDS = [int(os.environ.get("KVSTATE_VLLM_SEED", "0")), 1]
TOKENS = 2 * BLOCK
PROMPTS = [
    prompt(family, shared) + prompt(100 * family + own, 20 + 37 * own)
    for family, shared in ((1, 3 * BLOCK), (2, 7 * BLOCK), (3, 10 * BLOCK))
    for own in range(4)
]
"""Three families; their members share three, seven and ten blocks."""
DEVICE, HOST, MOST = 44, 60, 12
"""Blocks of the pools, both too small for all, and requests at once."""


class Walk:
    """One walk over one engine."""

    def __init__(self, engine: Tiny, random: Random) -> None:
        self.engine, self.random = engine, random
        self.rig = Ours(engine)
        self.open: dict[str, int] = {}
        """Requests by name: which prompt each has."""
        self.ended: dict[str, int] = {}
        self.did: Counter[str] = Counter()
        self.acts = {
            self.add: 14, self.abort: 3, self.fault: 6, self.well: 8, self.corrupt: 1, self.forget: 2, self.reset: 1,
            self.preempt_all: 1, self.go: 64,
        }  # fmt: skip

    def step(self) -> None:
        """Something, and a step of the engine."""
        act = self.random.choices(list(self.acts), list(self.acts.values()))[0]
        self.did[act.__name__] += 1
        act()
        self.engine.step()
        for name in [name for name in self.open if name in self.engine.done]:
            self.ended[name] = self.open.pop(name)

    def add(self) -> None:
        if len(self.open) < MOST:
            chosen = self.random.randrange(len(PROMPTS))
            self.open[self.engine.add(PROMPTS[chosen], self.random.randint(1, TOKENS))] = chosen

    def abort(self) -> None:
        if self.open:
            name = self.random.choice(sorted(self.open))
            self.engine.abort(name)
            del self.open[name]

    def fault(self) -> None:
        if self.random.random() < 0.2:
            self.rig.arrivals(self.random.choice([0, 2]))
        else:
            what, act = self.random.choice(["store", "load"]), self.random.choice(["fail", "raise", "keep"])
            self.rig.only(what, act, self.random.randint(1, 3))

    def well(self) -> None:
        self.rig.well()

    def corrupt(self) -> None:
        self.rig.faulty.copier.fence()  # a bit that flips before it is summed is one that nobody can find
        host = self.rig.faulty.connector.worker.memory.pools[1]
        self.rig.faulty.corrupt(*self.random.sample(range(host.base, host.end), 10))

    def forget(self) -> None:
        self.engine.forget()

    def reset(self) -> None:
        self.engine.llm.reset_prefix_cache(reset_connector=True)

    def preempt_all(self) -> None:
        try:
            self.engine.llm.reset_prefix_cache(reset_running_requests=True)
            self.did["preempt_all_done"] += 1
        except RuntimeError as error:
            if "Failed to reset KV cache" not in str(error):  # so says vLLM where blocks are held: ask again
                raise

    def time_out(self) -> None:
        """A load that hangs until its deadline; how often the steps bring that about depends on how fast they are."""
        self.engine.serve(PROMPTS[:1], 4)
        assert self.engine.forget()
        self.rig.only("load", "keep")
        name = self.engine.add(PROMPTS[0], 4)
        self.engine.run(1_000_000)
        self.ended[name] = 0
        self.rig.well()
        self.engine.settle()

    def go(self) -> None:
        for _ in range(self.random.randrange(4)):
            self.engine.step()


@pytest.mark.parametrize("seed", SEEDS)
def test_random_steps(seed: int, folder: Path, plain: Plain) -> None:
    plain.learn(PROMPTS, TOKENS)
    waits: dict[str, Any] = {"load_seconds": 0.1, "store_seconds": 0.3, "grace_seconds": 0.05, "cool_seconds": 0.05}
    engine = Tiny(folder, ours(host_blocks=HOST, pending_seconds=0.1, **waits), num_gpu_blocks_override=DEVICE)
    try:
        walk = Walk(engine, Random(seed))
        for _ in range(STEPS):
            walk.step()
        walk.rig.well()
        engine.run()
        engine.settle()
        walk.ended |= walk.open
        walk.time_out()
        half = engine.scheduler.connector.scheduler
        print(dict(walk.did), dict(half.counts.total), len(walk.ended))
        assert not half.copies.broken
        assert half.kv.rest() == []
        assert engine.used == 0
        wrong = [
            name
            for name, chosen in walk.ended.items()
            if (out := engine.tokens(name)) != plain.tokens(PROMPTS[chosen], len(out)) or not out
        ]
        assert not wrong
        missing = [name for name in EXPECTED if not half.counts.total[name]]
        assert STEPS < 2000 or not missing, "the walk did not get there"
    finally:
        engine.close()


EXPECTED = (
    "blocks_loaded", "blocks_stored", "loads_failed", "loads_aborted", "stores_failed", "preempted",
    "load_errors.CRC_MISMATCH", "load_errors.LOAD_TIMEOUT",
)  # fmt: skip
"""What has to be counted in 2,000 steps, or the walk proves little."""
