"""The counters in vLLM's own clothes: `KVConnectorStats` for its log, `KVConnectorPromMetrics` for Prometheus."""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorPromMetrics, KVConnectorStats

from kvstate.integrations.vllm.counts import CODED, CODES, PLAIN, summed


class KVStateStats(KVConnectorStats):  # type: ignore[misc]
    """`data`: a number for each counter that has moved, by name; of those by code, `name.CODE`."""

    data: dict[str, Any]

    def reset(self) -> None:
        """Begin anew."""
        self.data = {}

    def aggregate(self, other: KVConnectorStats) -> KVConnectorStats:
        """This and another one, put together."""
        self.data = summed(self.data, other.data)
        return self

    def reduce(self) -> dict[str, int | float]:
        """For the log line."""
        return {f"kvstate_{name}": count for name, count in sorted(self.data.items())}

    def is_empty(self) -> bool:
        """Has nothing moved?"""
        return not self.data


class KVStatePromMetrics(KVConnectorPromMetrics):  # type: ignore[misc]
    """`vllm:kvstate_*`, a counter for each name of `counts`, with vLLM's own labels."""

    def __init__(self, vllm_config: Any, metric_types: Any, labelnames: list[str], per_engine: dict[int, Any]) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine)
        plain = {
            name: self._counter_cls(name=f"vllm:kvstate_{name}", documentation=text, labelnames=labelnames)
            for name, text in PLAIN.items()
        }
        coded = {
            name: self._counter_cls(name=f"vllm:kvstate_{name}", documentation=text, labelnames=[*labelnames, "code"])
            for name, text in CODED.items()
        }
        self._counters: dict[int, dict[str, Any]] = {}
        for engine, values in per_engine.items():
            mine = {name: counter.labels(*values) for name, counter in plain.items()}
            for name, counter in coded.items():
                mine |= {f"{name}.{code}": counter.labels(*values, code) for code in CODES}
            self._counters[engine] = mine

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        """Add what has moved; a name of another version is passed over."""
        counters = self._counters.get(engine_idx, {})
        for name, count in transfer_stats_data.items():
            if name in counters:
                counters[name].inc(count)
