"""The observer below the conformance kit: on the faults of docs/vllm-stock.md, on random walks, and on planted ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import pytest

from kvstate.testing import Copier, Scope, replay, search, story
from kvstate.testing.kit.find import find_adapter
from tests.vllm.shadowed import Kit, found
from tests.vllm.test_stock import FAULTS

pytest.importorskip("vllm")

RAISED = {"raised"}
SEEN: dict[str, dict[str, set[str]]] = {
    "a store fails": {"worker": RAISED},
    "a load fails": {"worker": RAISED},
    "a store can't be submitted": {"worker": RAISED},
    "a load can't be submitted": {"worker": RAISED},
    "a store reports twice": {"scheduler": {"second_report", "raised"}, "worker": {"second_report"}},
    "a reset follows a reset": {"scheduler": RAISED},
}
"""What the two halves find in each of the faults. Those that are lost take a deadline: see `test_shadow`. Bytes that
go bad, and a reset that never gets to the connector, can't be seen."""


@pytest.fixture
def kit(monkeypatch: pytest.MonkeyPatch) -> Kit:
    """The stock engine with the observer in its connectors."""
    from kvstate.integrations.vllm.shadow.connector import ShadowConnector

    return Kit(monkeypatch, ShadowConnector)


def stock(name: str) -> Any:
    return find_adapter(f"kvstate.integrations.vllm:{name}")


@pytest.mark.parametrize("what", FAULTS)
def test_the_fault_is_what_it_is_without_it_and_is_found(what: str, kit: Kit) -> None:
    fault = FAULTS[what]
    played = replay(stock(fault.adapter), fault.steps)
    assert played.violation is not None
    assert played.violation.law == fault.law, story(played)
    seen = {half: set(kinds) for half, kinds in found(*kit.take()).items() if kinds}
    assert seen == SEEN.get(what, {})


def observed(name: str, kit: Kit, total: Counter[str]) -> Any:
    """An adapter whose observers are read into a total: when the next one is made, and when it is closed."""
    last: list[Any] = []

    def read() -> None:
        halves, last[:] = last[:], []
        for half, kinds in found(*halves).items():
            total.update({f"{half}.{kind}": count for kind, count in kinds.items()})
        for one in halves:
            total["events"] += one.watch.events
        for one in halves[:1]:
            total["adopted"] += one.watch.reader.beside.adopted

    class Observed(stock(name)):  # type: ignore[misc]
        def __init__(self, scope: Scope, copier: Copier) -> None:
            read()
            super().__init__(scope, copier)
            last[:] = kit.take()

        def close(self) -> Sequence[str]:
            read()
            closed: Sequence[str] = super().close()
            return closed

    return Observed


@pytest.mark.parametrize("scope", [Scope(), Scope(device=6, host=10, longest=5, requests=4), Scope(device=3, host=2)])
@pytest.mark.parametrize("adapter", ["Stock", "StockAhead"])
def test_by_the_order_of_events_alone_nothing_is_found(adapter: str, scope: Scope, kit: Kit) -> None:
    total = Counter[str]()
    done = search(observed(adapter, kit, total), scope, seed=5, steps=1000)
    assert done.played is None, story(done.played)
    assert total.pop("events") > 1500
    assert +total == Counter()


def test_every_answer_of_every_hook_is_what_it_is_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same walk twice, with vLLM's connector and with the observer in it; what hooks say is put into words."""
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector

    from kvstate.integrations.vllm.shadow.connector import ShadowConnector

    said = [_told(monkeypatch, connector) for connector in (OffloadingConnector, ShadowConnector)]
    assert len(said[0]) > 2000
    assert said[0] == said[1]


TIMES = ("get_kv_connector_stats", "__init__")
"""What they say has times in it, or is nothing."""


def _told(monkeypatch: pytest.MonkeyPatch, connector: type) -> list[str]:
    said: list[str] = []

    def telling(name: str, hook: FunctionType) -> Any:
        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                answer = hook(self, *args, **kwargs)
            except Exception as error:
                said.append(f"{name} raises {error!r}")
                raise
            if name == "take_events":
                answer = list(answer)
            said.append(f"{name}: {answer!r}")
            return answer

        return call

    names = {name for one in connector.__mro__ for name, what in vars(one).items() if isinstance(what, FunctionType)}
    hooks = {name: getattr(connector, name) for name in names if not name.startswith("_") and name not in TIMES}
    hooks.pop("tap", None)
    telltale = type("Telltale", (connector,), {name: telling(name, hook) for name, hook in hooks.items()})
    with monkeypatch.context() as patch:
        Kit(patch, telltale)
        for adapter in ("Stock", "StockTwice"):
            search(stock(adapter), seed=11, steps=400)
    return said


# -- planted faults: what is found when vLLM forgets one of its own precautions ----------------------------------------


def test_a_scheduler_that_does_not_have_stores_flushed(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.distributed.kv_transfer.kv_connector.v1.offloading.scheduler import OffloadingConnectorScheduler

    real = OffloadingConnectorScheduler.build_connector_meta

    def build(self: Any, output: Any) -> Any:
        meta = real(self, output)
        meta.jobs_to_flush = set()
        return meta

    monkeypatch.setattr(OffloadingConnectorScheduler, "build_connector_meta", build)
    total = Counter[str]()
    done = search(observed("Stock", kit, total), seed=3, steps=2500)
    assert done.violation is not None
    assert done.violation.law == "L3.no_reuse"
    assert total["scheduler.given_away"] > 0


class Copies:
    """A copier of the kit's whose copies never end."""

    def store(self, *_: Any, **__: Any) -> None:
        """Never."""

    load = store


@pytest.fixture
def engine(kit: Kit) -> Any:
    """An engine that goes on where the kit would end."""
    return stock("Stock")(Scope(), Copies()).engine


def test_a_worker_that_does_not_wait(kit: Kit, engine: Any) -> None:
    engine.worker.wait = lambda job_ids: None
    request = engine.arrive("r1", ["A1", "A2", "A3"])
    engine.step(request)
    engine.step(request)
    engine.end(request)
    other = engine.arrive("r2", ["B1", "B2", "B3", "B4"])
    for _ in range(3):
        engine.step(other)
    assert found(*kit.take())["worker"]["wait_unproved"] > 0


def test_a_manager_that_lets_keys_be_found_before_their_bytes_are_there(
    kit: Kit, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = engine.manager.prepare_store

    def prepare(keys: Any, context: Any) -> Any:
        prepared = real(keys, context)
        engine.manager.complete_store(prepared.keys_to_store, context)
        return prepared

    monkeypatch.setattr(engine.manager, "prepare_store", prepare)
    request = engine.arrive("r1", ["A1", "A2", "A3"])
    engine.step(request)
    engine.end(request)
    engine.step()
    assert engine.scheduler.reset_prefix_cache()
    engine.step(engine.arrive("r2", ["A1", "A2", "A3"]))
    seen = found(*kit.take())
    assert seen["scheduler"]["not_committed"] > 0
    assert set(seen["scheduler"]) == {"not_committed"}


def test_a_manager_that_evicts_what_is_being_loaded(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.v1.kv_offload.cpu.manager import CPUOffloadingManager

    real = CPUOffloadingManager.prepare_load

    def prepare(self: Any, keys: Any, context: Any) -> Any:
        prepared = real(self, keys, context)
        self.complete_load(keys, context)
        return prepared

    monkeypatch.setattr(CPUOffloadingManager, "prepare_load", prepare)
    monkeypatch.setattr(CPUOffloadingManager, "complete_load", _once(CPUOffloadingManager.complete_load))
    total = Counter[str]()
    done = search(observed("Stock", kit, total), Scope(device=6, host=2), seed=3, steps=4000)
    assert done.violation is not None
    assert total["scheduler.slot_reused"] > 0


def _once(real: Any) -> Any:
    """A load is completed when it is prepared, and not again."""

    def complete(self: Any, keys: Any, context: Any) -> None:
        done = vars(self).setdefault("_done", Counter())
        done[tuple(sorted(keys))] += 1
        if done[tuple(sorted(keys))] % 2:
            real(self, keys, context)

    return complete
