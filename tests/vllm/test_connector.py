"""The connector in a live engine: the same tokens as without, most of a shared prompt from below, bad bytes caught."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vllm.conftest import Plain
from tests.vllm.faults import Faulty
from tests.vllm.tiny import BLOCK, Tiny, ours, prompt

pytest.importorskip("vllm")

pytestmark = pytest.mark.filterwarnings("ignore")  # of vLLM and what it imports

TOKENS = 8
SHARED = prompt(1, 200)
PROMPTS = [SHARED + prompt(seed, 20 + seed) for seed in range(2, 8)]


@pytest.fixture(scope="module", params=["recompute", "fail"])
def engine(request: pytest.FixtureRequest, folder: Path, plain: Plain) -> Iterator[Tiny]:
    """One engine a policy; each test begins with empty caches and leaves it at rest."""
    plain.learn(PROMPTS, TOKENS)
    one = Tiny(folder, ours(request.param))
    one.policy = request.param  # type: ignore[attr-defined]
    yield one
    one.close()


@pytest.fixture
def fresh(engine: Tiny) -> Iterator[Tiny]:
    """The engine with nothing cached anywhere; after the test it has to be at rest, with all its blocks free."""
    assert engine.forget()
    assert engine.scheduler.connector.reset_cache()
    engine.done.clear()
    yield engine
    engine.settle()
    half = engine.scheduler.connector.scheduler
    assert engine.used == 0
    assert half.kv.rest() == []
    assert not half.copies.broken


def counts(engine: Tiny) -> dict[str, int]:
    total: dict[str, int] = engine.scheduler.connector.scheduler.counts.total
    return total


def served(engine: Tiny, one: list[int]) -> tuple[list[int], int]:
    """The tokens for one prompt, and how many of its tokens came from below, vLLM's own cache being empty."""
    assert engine.forget()
    before = counts(engine)["blocks_loaded"]
    name = engine.add(one, TOKENS)
    engine.run()
    engine.settle()
    return engine.tokens(name), (counts(engine)["blocks_loaded"] - before) * BLOCK


def test_tokens_are_those_of_an_engine_without_offload(fresh: Tiny, plain: Plain) -> None:
    want = [plain.tokens(one, TOKENS) for one in PROMPTS]
    assert fresh.serve(PROMPTS, TOKENS) == want
    assert fresh.forget()
    assert fresh.serve(PROMPTS, TOKENS) == want
    assert len(set(map(tuple, want))) == len(want), "prompts that all give the same tokens prove nothing"


def test_a_shared_prompt_comes_from_below_when_vllm_has_forgotten_it(fresh: Tiny, plain: Plain) -> None:
    fresh.serve(PROMPTS[:1], TOKENS)
    for one in PROMPTS[1:]:
        tokens, loaded = served(fresh, one)
        assert tokens == plain.tokens(one, TOKENS)
        assert loaded >= 0.9 * len(SHARED)


def test_bytes_that_were_corrupted_are_caught(fresh: Tiny, plain: Plain) -> None:
    fresh.serve(PROMPTS[:1], TOKENS)
    assert fresh.forget()
    before = counts(fresh)["load_errors.CRC_MISMATCH"]
    faulty = Faulty(fresh)
    faulty.corrupt()
    faulty.off()
    name = fresh.add(PROMPTS[0], TOKENS)
    fresh.run()
    fresh.settle()
    assert counts(fresh)["load_errors.CRC_MISMATCH"] > before
    if fresh.policy == "fail":  # type: ignore[attr-defined]
        assert fresh.reason(name) == "error"
    else:
        assert fresh.tokens(name) == plain.tokens(PROMPTS[0], TOKENS)
        assert fresh.done[name].kv_transfer_params["kvstate"]["load_errors"][0] == "CRC_MISMATCH"
    tokens, _ = served(fresh, PROMPTS[0])  # the condemned keys are misses, under either policy
    assert tokens == plain.tokens(PROMPTS[0], TOKENS)


def test_good_blocks_in_front_of_a_bad_one_are_kept(fresh: Tiny, plain: Plain) -> None:
    faulty = Faulty(fresh)
    fresh.serve(PROMPTS[:1], TOKENS)
    assert fresh.forget()
    faulty.corrupt(faulty.stored[4])
    faulty.off()
    before = counts(fresh)["blocks_loaded"]
    name = fresh.add(PROMPTS[0], TOKENS)
    fresh.run()
    if fresh.policy == "fail":  # type: ignore[attr-defined]
        assert fresh.reason(name) == "error"
        return
    assert fresh.tokens(name) == plain.tokens(PROMPTS[0], TOKENS)
    assert counts(fresh)["blocks_loaded"] - before == 4


def test_prompts_with_different_salts_share_nothing(fresh: Tiny, plain: Plain) -> None:
    from vllm import SamplingParams

    fresh.serve(PROMPTS[:1], TOKENS)
    assert fresh.forget()
    before = counts(fresh)["blocks_loaded"]
    params = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True, detokenize=False)
    prompt_ = {"prompt_token_ids": PROMPTS[0], "cache_salt": "another tenant"}
    fresh.llm.llm_engine.add_request("salted", prompt_, params)
    fresh.run()
    assert fresh.tokens("salted") == plain.tokens(PROMPTS[0], TOKENS)
    assert counts(fresh)["blocks_loaded"] == before


def test_what_is_counted_reaches_vllm(fresh: Tiny) -> None:
    from prometheus_client import REGISTRY

    fresh.serve(PROMPTS[:1], TOKENS)
    found = {sample.name: sample.value for metric in REGISTRY.collect() for sample in metric.samples}
    assert found["vllm:kvstate_blocks_stored_total"] > 0
