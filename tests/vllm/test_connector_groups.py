"""A model with two KV cache groups: one layer attends to all tokens, one to a sliding window of them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vllm.conftest import Plain
from tests.vllm.faults import Faulty
from tests.vllm.tiny import BLOCK, Tiny, ours, prompt

pytest.importorskip("vllm")

TOKENS = 6
WINDOW = 2 * BLOCK
SHARED = prompt(51, 300)
PROMPTS = [SHARED + prompt(seed, 30) for seed in (52, 53, 54)]
LOADED = len(SHARED) // BLOCK * BLOCK
"""So many tokens of what is shared are in full blocks."""


@pytest.fixture(scope="module")
def windowed(folder: Path) -> Path:
    """The tiny model, its second layer with a window."""
    other = folder.with_name("windowed")
    shutil.copytree(folder, other)
    config = json.loads((other / "config.json").read_text(encoding="utf-8"))
    config |= {"layer_types": ["full_attention", "sliding_attention"], "sliding_window": WINDOW}
    (other / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return other


@pytest.fixture(scope="module")
def known(windowed: Path, plain: Plain) -> Plain:
    mine = Plain(windowed)
    mine.learn(PROMPTS, TOKENS)
    plain.learn(PROMPTS, TOKENS)
    assert mine.tokens(PROMPTS[0], TOKENS) != plain.tokens(PROMPTS[0], TOKENS), "the window does nothing"
    return mine


@pytest.fixture(scope="module")
def engine(windowed: Path, known: Plain) -> Iterator[Tiny]:
    one = Tiny(windowed, ours("recompute", attempts=1), max_model_len=512)
    yield one
    one.close()


def test_what_is_shared_comes_from_below_and_of_the_window_only_its_end(engine: Tiny, known: Plain) -> None:
    assert len(engine.scheduler.kv_cache_config.kv_cache_groups) == 2
    half = engine.scheduler.connector.scheduler
    for number, one in enumerate(PROMPTS):
        before = half.counts.total["blocks_loaded"]
        name = engine.add(one, TOKENS)
        engine.run()
        engine.settle()
        assert engine.tokens(name) == known.tokens(one, TOKENS)
        assert engine.cached(name) == (LOADED if number else 0)
        loaded = half.counts.total["blocks_loaded"] - before
        assert loaded == (LOADED // BLOCK + WINDOW // BLOCK if number else 0)
        assert engine.forget()
    assert engine.used == 0
    assert half.kv.rest() == []


def test_bad_bytes_in_either_group_are_caught(engine: Tiny, known: Plain) -> None:
    half = engine.scheduler.connector.scheduler
    assert engine.forget()
    before = half.counts.total["load_errors.CRC_MISMATCH"]
    faulty = Faulty(engine)
    faulty.corrupt()
    faulty.off()
    name = engine.add(PROMPTS[0], TOKENS)
    engine.run()
    engine.settle()
    assert engine.tokens(name) == known.tokens(PROMPTS[0], TOKENS)
    assert half.counts.total["load_errors.CRC_MISMATCH"] > before
    assert engine.used == 0
    assert half.kv.rest() == []


def test_random_lengths_and_aborts_leave_nothing_behind(engine: Tiny, known: Plain) -> None:
    half = engine.scheduler.connector.scheduler
    names = []
    for turn in range(12):
        names.append(engine.add(PROMPTS[turn % 3], TOKENS))
        engine.step(turn % 4)
        if turn % 5 == 4:
            engine.abort(names.pop(0))
        if turn % 4 == 3:
            engine.forget()
    engine.run()
    engine.settle()
    assert all(
        out.outputs[0].token_ids == known.tokens(list(out.prompt_token_ids), TOKENS)
        for name in names
        if (out := engine.done[name])
    )
    assert engine.used == 0
    assert half.kv.rest() == []
