"""The same faults in live engines, with vLLM's own offloading connector and with ours, side by side.

What vLLM's own does stands in `STOCK`, as it was seen; the engine is a new one for each scene, since most kill it. Ours
lives through all of them in one engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest

from tests.vllm.conftest import Plain
from tests.vllm.scenes import FIRST, LONG, LONG_TOKENS, SCENES, SECOND, TOKENS, Ours, Outcome, Stock, play
from tests.vllm.tiny import Tiny, ours

pytest.importorskip("vllm")

pytestmark = pytest.mark.filterwarnings("ignore")  # of vLLM and what it imports

STOCK = {
    "a_load_fails": ("AssertionError", "none", "held"),
    "a_load_that_always_fails": ("AssertionError", "none", "held"),
    "a_completion_arrives_twice": ("KeyError", "none", "held"),
    "a_submit_raises": ("OSError", "none", "held"),
    "a_store_submit_raises": ("OSError", "none", "held"),
    "host_bytes_are_corrupted": ("lives", "wrong", "free"),
    "a_completion_is_lost_and_the_request_aborted": ("lives", "right", "held"),
    "a_block_is_listed_twice": ("lives", "wrong", "free"),
    "preempted_under_a_store": ("lives", "right", "free"),
    "reset_under_a_store": ("lives", "right", "free"),
    "reset_under_a_load": ("lives", "right", "free"),
}
"""Of vLLM 0.32.0's own connector, in each scene: engine, tokens, blocks, as in `Outcome`."""
RIGHT = ("lives", "right", "free")
SETTINGS = {"attempts": 1, "load_seconds": 2.0, "grace_seconds": 0.3, "cool_seconds": 0.2}
"""Of ours: short waits, and no second attempt, so that one fault is enough."""
by_name = pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)


@pytest.fixture(scope="module")
def known(plain: Plain) -> Plain:
    plain.learn([FIRST, SECOND], TOKENS)
    plain.learn(LONG, LONG_TOKENS)
    return plain


@by_name
def test_vllms_own(scene: FunctionType, folder: Path, known: Plain) -> None:
    from tests.vllm.stock_spec import stock

    engine = Tiny(folder, stock())
    try:
        outcome = play(scene, Stock(engine), known.tokens)
    finally:
        engine.close()
    assert outcome[:3] == STOCK[scene.__name__]


@pytest.fixture(scope="module")
def engine(folder: Path, known: Plain) -> Iterator[Tiny]:
    one = Tiny(folder, ours("recompute", **SETTINGS))
    yield one
    one.close()


@pytest.fixture
def rig(engine: Tiny) -> Iterator[Ours]:
    """Ours, with nothing cached, and at rest again after it."""
    assert engine.forget()
    assert engine.scheduler.connector.reset_cache()
    one = Ours(engine)
    yield one
    one.off()
    engine.settle()
    assert engine.scheduler.connector.scheduler.kv.rest() == []
    assert engine.used == 0


@by_name
def test_ours(scene: FunctionType, rig: Ours, known: Plain) -> None:
    before = rig.counts.copy()
    outcome: Outcome = play(scene, rig, known.tokens)
    assert outcome[:3] == RIGHT
    assert rig.counts.keys() >= EXPECTED.get(scene.__name__, set()), "the fault did not happen"
    assert all(rig.counts[name] > before[name] for name in EXPECTED.get(scene.__name__, set()))
    assert outcome.loads <= 8, "it asks again and again"
    assert not rig.faulty.ours.broken


EXPECTED = {
    "a_load_fails": {"load_errors.UNKNOWN"},
    "a_load_that_always_fails": {"load_errors.UNKNOWN"},
    "a_submit_raises": {"loads_failed"},
    "a_store_submit_raises": {"stores_failed"},
    "host_bytes_are_corrupted": {"load_errors.CRC_MISMATCH"},
    "a_completion_is_lost_and_the_request_aborted": {"loads_aborted"},
    "preempted_under_a_store": {"preempted"},
}
"""What has to be counted in a scene, or its fault has not happened."""


@pytest.mark.parametrize("fault", ["fail", "raise", "corrupt"])
def test_a_request_whose_load_failed_ends_with_an_error_if_vllm_is_told_so(
    fault: str, folder: Path, known: Plain, failing: Tiny
) -> None:
    rig = Ours(failing)
    assert failing.forget()
    assert failing.scheduler.connector.reset_cache()
    rig.serve(FIRST)
    rig.forget()
    if fault == "corrupt":
        rig.corrupt()
    else:
        rig.only("load", fault, 1)
    name = failing.add(FIRST, TOKENS)
    failing.run()
    assert failing.reason(name) == "error"
    rig.well()
    rig.serve(SECOND)
    assert all(out == known.tokens(one, TOKENS) for one, out in rig.served)
    rig.off()
    failing.settle()
    assert failing.used == 0


@pytest.fixture(scope="module")
def failing(folder: Path, known: Plain, engine: Tiny) -> Iterator[Tiny]:
    """Ours, with the policy that a request fails with its load. Only one engine is up at a time, so it comes last."""
    engine.close()
    one = Tiny(folder, ours("fail", **SETTINGS))
    yield one
    one.close()


def test_a_broken_invariant_takes_the_connector_out_of_service_and_not_the_engine(failing: Tiny, known: Plain) -> None:
    from kvstate.machines.verdicts import Fatal

    rig, half = Ours(failing), failing.scheduler.connector.scheduler
    assert failing.forget()
    assert failing.scheduler.connector.reset_cache()
    rig.serve(FIRST)
    rig.forget()
    rig.only("load", "keep")
    name = failing.add(FIRST, TOKENS)
    failing.step(3)
    half.kv.ledger._poison(Fatal("test", "the test says so"))
    failing.run()
    assert failing.reason(name) == "error"
    assert half.copies.broken == "test: the test says so"
    rig.serve(FIRST, SECOND)
    assert all(out == known.tokens(one, TOKENS) for one, out in rig.served)
    assert rig.loads == 1
    assert failing.used > 0, "what a copy may touch is given back by nobody"
    rig.off()
