"""The observer changes nothing: each hook returns the stock connector's very answer and raises its very exception.

And whatever goes wrong in the observer is nothing to the hook: with an observer that raises wherever it is asked, the
answers are the same.
"""

from __future__ import annotations

import inspect
import logging
import types
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm")

BOTH = ("get_kv_connector_stats", "shutdown")
HOOKS = (
    "get_num_new_matched_tokens", "build_connector_meta", "update_connector_output", "reset_cache",
    "register_kv_caches", "handle_preemptions", "start_load_kv", "get_finished", "build_connector_worker_meta", *BOTH,
)  # fmt: skip
"""Those that the observer stands in."""


def own() -> set[str]:
    """The public methods that the class has of its own, without those that are no hooks."""
    from kvstate.integrations.vllm.shadow.connector import ShadowConnector

    names = {name for name, what in vars(ShadowConnector).items() if inspect.isfunction(what)}
    return {name for name in names if not name.startswith("_")} - {"tap"}


def test_these_are_all_hooks_that_it_stands_in() -> None:
    assert own() == set(HOOKS)


class Answer(SimpleNamespace):
    """What a hook of the stock connector returns; it can be a pair, too."""

    def __getitem__(self, place: int) -> Any:
        return (None, False)[place]


@pytest.fixture(scope="module")
def connectors() -> list[Any]:
    """The halves of a connector with the observer."""
    from kvstate.integrations.vllm.shadow.connector import ShadowConnector
    from kvstate.integrations.vllm.stock import Stock
    from kvstate.testing import Scope
    from tests.vllm.shadowed import Kit

    with pytest.MonkeyPatch.context() as patch:
        kit = Kit(patch, ShadowConnector)
        Stock(Scope(), SimpleNamespace())
        return kit.take()


@pytest.fixture
def halves(connectors: list[Any]) -> list[Any]:
    """The same, and their observers are on, and have found nothing yet."""
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector

    for one in connectors:
        one.watch.on = True
        one.watch.drain()
        one.watch.take()
        one._matched = types.MethodType(vars(OffloadingConnector)["get_num_new_matched_tokens"], one)
    return connectors


def arguments(hook: str) -> list[Any]:
    """What could be given to a hook."""
    signature = {"get_num_new_matched_tokens": 2, "reset_cache": 0, "build_connector_worker_meta": 0} | dict.fromkeys(
        BOTH, 0
    )
    return [SimpleNamespace(request_id="r1") for _ in range(signature.get(hook, 1))]


def break_observer(one: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It raises wherever it is asked."""

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the test says so")

    for name in ("note", "drain", "take", "close"):
        monkeypatch.setattr(one.watch, name, broken)
    for name in ("tap", "_looked_up"):
        monkeypatch.setattr(one, name, broken)


@pytest.mark.parametrize("broken", [False, True], ids=["well", "broken"])
@pytest.mark.parametrize("hook", HOOKS)
def test_the_answer_is_the_stock_connectors_own(
    hook: str, broken: bool, halves: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector

    answer = Answer(store_jobs={}, load_jobs={}, jobs_to_flush=None, completed_jobs={1: 1}, data={})
    seen: list[Any] = []

    def stock(_: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append((args, kwargs))
        return answer

    monkeypatch.setattr(OffloadingConnector, hook, stock)
    for one in halves:
        one._matched = lambda *args, **kwargs: stock(None, *args, **kwargs)
        if broken:
            break_observer(one, monkeypatch)
        given = arguments(hook)
        assert getattr(one, hook)(*given) is answer
        assert seen.pop() == (tuple(given), {})


class BoomError(BaseException):
    """Nothing that anybody catches by the way."""


@pytest.mark.parametrize("broken", [False, True], ids=["well", "broken"])
@pytest.mark.parametrize("hook", HOOKS)
def test_the_exception_is_the_stock_connectors_own(
    hook: str, broken: bool, halves: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector

    error = BoomError("stock")

    def stock(*_: Any, **__: Any) -> Any:
        raise error

    monkeypatch.setattr(OffloadingConnector, hook, stock)
    for one in halves:
        one._matched = stock
        if broken:
            break_observer(one, monkeypatch)
        with pytest.raises(BoomError) as raised:
            getattr(one, hook)(*arguments(hook))
        assert raised.value is error


def test_what_was_found_is_added_to_the_stock_connectors_counters(
    halves: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import OffloadingConnectorStats

    from kvstate.integrations.vllm.shadow.kinds import Kind, Violation

    scheduler = halves[0]
    half = scheduler.connector_scheduler
    monkeypatch.setattr(half.manager, "get_stats", lambda: None)
    assert scheduler.get_kv_connector_stats() is None
    half._connector_stats.increase_counter("vllm:kv_offload_load_bytes", 5)
    stock = half._connector_stats
    assert scheduler.get_kv_connector_stats() is stock, "the very same, as long as nothing was found"
    for _ in range(2):
        scheduler.watch.tell(Violation(Kind.RAISED, "reset_cache raised AssertionError", 1.0))
    half._connector_stats.increase_counter("vllm:kv_offload_load_bytes", 7)
    mine = scheduler.get_kv_connector_stats()
    assert not mine.is_empty()
    kind = type(scheduler)
    at_front = kind.build_kv_connector_stats(mine.to_dict()).aggregate(OffloadingConnectorStats(data=stock.data))
    at_front.aggregate(kind.build_kv_connector_stats({**OffloadingConnectorStats().data, "kvstate_shadow": {"off": 1}}))
    assert at_front.reduce() == {
        "vllm:kv_offload_load_bytes": 12, "kvstate_shadow_raised.L6.total": 2, "kvstate_shadow_off": 1,
    }  # fmt: skip
    registry = CollectorRegistry()
    types = {one: _on(registry, one) for one in (Counter, Gauge, Histogram)}
    metrics = kind.build_prom_metrics(scheduler._vllm_config, types, ["engine"], {0: ["0"]})
    metrics.observe(at_front.to_dict())
    text = generate_latest(registry).decode()
    assert 'vllm:kvstate_shadow_violations_total{engine="0",kind="raised",law="L6.total"} 2.0' in text
    assert 'vllm:kvstate_shadow_off_total{engine="0"} 1.0' in text
    assert 'vllm:kv_offload_load_bytes_total{engine="0"} 12.0' in text


def _on(registry: Any, kind: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: kind(*args, registry=registry, **kwargs)


def test_a_version_that_was_not_tested_is_not_observed_unless_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import vllm

    from kvstate.integrations.vllm.shadow.connector import ShadowConnector
    from kvstate.integrations.vllm.stock import Stock
    from kvstate.testing import Scope
    from tests.vllm.shadowed import Kit

    monkeypatch.setattr(vllm, "__version__", "9.9.9")
    monkeypatch.setattr(logging.getLogger("vllm"), "propagate", True)
    caplog.set_level(logging.INFO, "vllm.kvstate.shadow")
    for allowed in (False, True):
        with monkeypatch.context() as patch:
            kit = Kit(patch, ShadowConnector, allow_untested=allowed)
            Stock(Scope(), SimpleNamespace())
            made = kit.take()
            assert [one.watch.on for one in made] == [allowed] * 2
    assert "vLLM 9.9.9 was not tested (0.32.0 was), so nothing is observed" in caplog.text
