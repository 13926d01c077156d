"""Faults in the code: planted by hand in ledger, engine and copiers, each to be found by a walk of the stateful suite.

They are the checkout's own (`tests/stateful/faults.py`), where a test holds that each is found by a law that is about
it. Here is told which walk finds each, and what it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, as_completed
from itertools import islice
from typing import Any

from kvstate.mutation import checkout
from kvstate.mutation.kills import Kill, Result

KIND = "code fault"
"""What the results of these say they are."""
WALKS = 40
"""So many are tried; the first is known to find the fault, so one is enough as a rule."""
UNSEEN_WALKS = 4
"""Of a fault that nothing is expected to notice."""


def faults(around: checkout.Checkout) -> dict[str, Any]:
    """By name: the planted faults, and behind them those that nothing can notice."""
    files = sorted((around.root / "tests" / "stateful").glob("*faults.py"))
    modules = [around.module(f"stateful.{path.stem}") for path in files if not path.name.startswith("test_")]
    unseen = [fault for module in modules for fault in getattr(module, "UNSEEN", ())]
    return {fault.name: fault for fault in (*around.module("stateful.faults").FAULTS, *unseen)}


def judge(executor: Executor, names: Iterable[str], progress: Callable[[Result], None]) -> list[Result]:
    """What becomes of each, in the order of the names. Errors: those of a worker, as they were raised."""
    futures = {executor.submit(_judge, name): name for name in names}
    done: dict[str, Result] = {}
    for future in as_completed(futures):
        result = done[futures[future]] = future.result()
        progress(result)
    return [done[name] for name in futures.values()]


def _judge(name: str) -> Result:
    import pytest

    around = checkout.here()
    fault = faults(around)[name]
    search, seeds = around.module("stateful.search"), around.module("stateful.faults").seeds
    head = (fault.name, KIND, fault.world, "")
    with pytest.MonkeyPatch.context() as patch:
        options = fault.plant(patch) or {}
        for seed in islice(seeds(fault.seed), UNSEEN_WALKS if fault.why_unseen else WALKS):
            end = search.walked(fault.world, fault.scope, fault.mix, seed, moves=fault.moves, **options)
            if isinstance(end, search.Failed):
                walk = checkout.Walk(fault.world, fault.scope, fault.mix, seed)
                return Result(*head, (Kill("walk", str(walk), "" if end.law == "unnamed" else end.law),), "killed")
    why = " ".join(fault.why_unseen.split())
    return Result(*head, (), "survived", why)
