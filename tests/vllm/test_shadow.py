"""The observer in live engines of vLLM's own connector: it finds the faults that can be seen, and changes no outcome.

The scenes are those of `test_connector_faults`, and so are the outcomes. What is healthy there finds nothing here.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from random import Random
from types import FunctionType
from typing import Any

import pytest

pytest.importorskip("vllm")

from tests.vllm.conftest import Plain
from tests.vllm.scenes import FIRST, LONG, LONG_TOKENS, SCENES, SECOND, TOKENS, Stock, play
from tests.vllm.shadowed import found, shadowed
from tests.vllm.test_connector_faults import STOCK
from tests.vllm.test_connector_walk import PROMPTS
from tests.vllm.test_connector_walk import TOKENS as WALK_TOKENS
from tests.vllm.tiny import Tiny

pytest.importorskip("vllm")

pytestmark = pytest.mark.filterwarnings("ignore")  # of vLLM and what it imports

STEPS = int(os.environ.get("KVSTATE_VLLM_STEPS", "400"))
SEEN: dict[str, dict[str, set[str]]] = {
    "a_load_fails": {"worker": {"raised"}},
    "a_load_that_always_fails": {"worker": {"raised"}},
    "a_completion_arrives_twice": {"scheduler": {"second_report", "raised"}, "worker": {"second_report"}},
    "a_submit_raises": {"worker": {"raised"}},
    "a_store_submit_raises": {"worker": {"raised"}},
    "a_block_is_listed_twice": {"scheduler": {"listed_twice"}},
}
"""What is found in each scene, by half; in those that are not named, nothing."""
by_name = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)


def halves(engine: Tiny) -> tuple[Any, Any]:
    """The connectors of the scheduler and of the worker, which are in this process."""
    from vllm.distributed.kv_transfer import get_kv_transfer_group

    return engine.scheduler.connector, get_kv_transfer_group()


@pytest.fixture(scope="module")
def known(plain: Plain) -> Plain:
    plain.learn([FIRST, SECOND], TOKENS)
    plain.learn(LONG, LONG_TOKENS)
    return plain


@by_name
def test_a_scene_ends_as_without_it_and_its_law_is_named(scene: FunctionType, folder: Path, known: Plain) -> None:
    engine = Tiny(folder, shadowed())
    try:
        connectors = halves(engine)
        outcome = play(scene, Stock(engine), known.tokens)
        seen = {half: set(kinds) for half, kinds in found(*connectors).items() if kinds}
    finally:
        engine.close()
    assert outcome[:3] == STOCK[scene.__name__]
    assert seen == SEEN.get(scene.__name__, {})


@pytest.mark.parametrize("what", ["store", "load", "load, then an abort"])
def test_a_completion_that_is_lost(what: str, folder: Path, tmp_path: Path) -> None:
    engine = Tiny(folder, shadowed(deadline_seconds=0.3, record=str(tmp_path)))
    try:
        connectors = halves(engine)
        rig = Stock(engine)
        if what == "store":
            rig.arrivals(0)
        rig.serve(FIRST)
        if what != "store":
            rig.forget()
            rig.arrivals(0)
            name = engine.add(FIRST, TOKENS)
            engine.step(20)
            if what != "load":
                engine.abort(name)
        kind = "left_behind" if what == "load, then an abort" else "endless"
        seen = found(*connectors)
        for _ in range(20_000):
            engine.step()
            seen = found(*connectors)
            if seen["scheduler"][kind] and seen["worker"]["endless"]:
                break
        assert set(seen["scheduler"]) == {kind}
        assert set(seen["worker"]) == {"endless"}
        first = connectors[0].watch.first[kind]
        assert first.law == ("L11.home" if kind == "left_behind" else "L7.clock")
        rig.well()
    finally:
        engine.close()
    reports = sorted(tmp_path.glob("*-report.json"))
    assert [json.loads(path.read_text())["violations"] > 0 for path in reports] == [True, True]
    assert len(list(tmp_path.glob(f"shadow-scheduler-*-{kind}.ndjson"))) == 1


@pytest.mark.parametrize("broken", [False, True], ids=["well", "broken"])
def test_a_healthy_walk_finds_nothing_and_an_observer_that_raises_is_nothing_to_the_engine(
    broken: bool, folder: Path, plain: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random steps of add, abort, reset, and too little memory, in which copies are late at most."""
    plain.learn(PROMPTS, WALK_TOKENS)
    engine = Tiny(folder, shadowed(), num_gpu_blocks_override=44)
    try:
        connectors = halves(engine)
        if broken:
            for one in connectors:
                monkeypatch.setattr(one.watch, "note", _broken)
                monkeypatch.setattr(one.watch, "drain", _broken)
        served, did = walk(engine, Random(7), STEPS // 4 if broken else STEPS)
        rest = engine.used
        if broken:
            assert [one.watch.on for one in connectors] == [False, False]
        else:
            assert found(*connectors) == {"scheduler": Counter(), "worker": Counter()}
            events = [one.watch.events for one in connectors]
            assert min(events) > STEPS
            assert connectors[0].watch.reader.beside.adopted == 0
            assert min(did["forget"], did["keep"], did["abort"]) > 3
    finally:
        engine.close()
    assert rest == 0
    assert len(served) > (3 if broken else 20)
    wrong = [out for prompt, out in served if out != plain.tokens(prompt, len(out)) or not out]
    assert not wrong


def _broken(*_: Any, **__: Any) -> Any:
    raise RuntimeError("the test says so")


def walk(engine: Tiny, random: Random, steps: int) -> tuple[list[tuple[list[int], list[int]]], Counter[str]]:
    """So many random steps, and the engine brought to rest; prompts and tokens of all that were not aborted."""
    rig, did = Stock(engine), Counter[str]()
    mine: dict[str, list[int]] = {}
    for _ in range(steps):
        act = random.choices(["add", "abort", "keep", "well", "forget", "reset", "go"], [14, 2, 4, 8, 2, 1, 60])[0]
        did[act] += 1
        left = [name for name in mine if name not in engine.done]
        if act == "add" and len(left) < 12:
            prompt = random.choice(PROMPTS)
            mine[engine.add(prompt, random.randint(1, WALK_TOKENS))] = prompt
        elif act == "abort" and left:
            engine.abort(left[0])
            del mine[left[0]]
        elif act == "keep":
            rig.only(random.choice(["store", "load"]), "keep", 3)
        elif act == "well":
            rig.well()
        elif act == "forget":
            engine.forget()
        elif act == "reset":
            engine.llm.reset_prefix_cache(reset_connector=True)
        engine.step()
    rig.well()
    engine.run()
    engine.settle()
    return [(prompt, engine.tokens(name)) for name, prompt in mine.items()], did
