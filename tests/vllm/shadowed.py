"""vLLM's own connector with the observer in it: on a live engine, and in the stock engine of the conformance kit."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import pytest

QUICK = {"every_seconds": 0.002}
"""So that a test need not wait for the thread."""


def shadowed(**settings: Any) -> dict[str, Any]:
    """The configuration with the observer; `settings` are the observer's."""
    from tests.vllm.stock_spec import stock

    config = stock(kvstate_shadow=QUICK | settings)
    return config | {"kv_connector": "ShadowConnector", "kv_connector_module_path": "kvstate.integrations.vllm"}


def found(*connectors: Any) -> dict[str, Counter[str]]:
    """What the halves have found, by kind; the tape is read to its end first."""
    result: dict[str, Counter[str]] = {}
    for one in connectors:
        one.watch.drain()
        assert one.watch.on, "the observer has switched itself off"
        result[one.watch.half] = Counter({str(kind): count for kind, count in one.watch.found.items()})
    return result


class Kit:
    """Puts connectors of another class below the conformance kit's stock engine, and keeps those that were made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, connector: type, **settings: Any) -> None:
        from kvstate.integrations.vllm import stock_engine

        self.made: list[Any] = []
        kit, real = self, stock_engine.configured

        class Kept(connector):  # type: ignore[misc]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                kit.made.append(self)
                if hasattr(self, "watch"):
                    self.watch._stop.set()  # a search makes hundreds of engines; what is on the tape, tests read

        @cache
        def configured(device: int, host: int, ahead: bool) -> Any:
            config, caches, grammars = real.__wrapped__(device, host, ahead)
            config.kv_transfer_config.kv_connector_extra_config["kvstate_shadow"] = settings
            return config, caches, grammars

        begin = stock_engine.StockEngine.__post_init__

        def post_init(engine: Any) -> None:
            begin(engine)
            if hasattr(engine.connector, "tap"):
                engine.connector.tap()

        from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory

        monkeypatch.setattr(KVConnectorFactory, "get_connector_class", classmethod(lambda *_: Kept))
        monkeypatch.setattr(stock_engine, "OffloadingConnector", Kept)
        monkeypatch.setattr(stock_engine, "configured", configured)
        monkeypatch.setattr(stock_engine.StockEngine, "__post_init__", post_init)

    def take(self) -> list[Any]:
        """The two halves that were made last, the scheduler's first."""
        halves, self.made[:] = self.made[-2:], []
        return halves
