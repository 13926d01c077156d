"""What was found, beside the stock connector's own counters, in vLLM's clothes: for its log, and for Prometheus."""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import OffloadingConnectorStats

from kvstate.integrations.vllm.counts import summed
from kvstate.integrations.vllm.shadow.kinds import MEANINGS

KEY = "kvstate_shadow"
"""Where in the stock connector's data ours stand; whoever does not know it passes over it."""


class ShadowStats(OffloadingConnectorStats):  # type: ignore[misc]
    """`data`: the stock connector's own, and what was found: a number by kind and law, and by `off` who gave up."""

    data: dict[str, Any]

    def aggregate(self, other: Any) -> Any:
        """This and another one, put together; the other one may be the stock connector's own."""
        super().aggregate(other)
        self.data[KEY] = summed(self.data.get(KEY, {}), other.data.get(KEY, {}))
        return self

    def reduce(self) -> dict[str, int | float]:
        """For the log line."""
        ours = {f"kvstate_shadow_{name}": count for name, count in sorted(self.data.get(KEY, {}).items())}
        stock: dict[str, int | float] = super().reduce()
        return stock | ours

    def is_empty(self) -> bool:
        """Has nothing moved, here and there?"""
        return super().is_empty() and not self.data.get(KEY)


def with_ours(stock: Any, fresh: dict[str, int]) -> Any:
    """What the stock connector has to tell, if anything, and ours beside it."""
    return ShadowStats(data={**(stock.data if stock is not None else OffloadingConnectorStats().data), KEY: fresh})


class ShadowPromMetrics:
    """The stock connector's metrics, and `vllm:kvstate_shadow_violations` by `law` and `kind`."""

    def __init__(self, stock: Any, labelnames: list[str], per_engine: dict[int, Any]) -> None:
        self.stock = stock
        """They; every call goes there first."""
        counter = stock._counter_cls  # noqa: SLF001 - of the base class, for those who derive from it
        found = counter(
            name="vllm:kvstate_shadow_violations",
            documentation="Laws that the stock offloading connector was seen to break.",
            labelnames=[*labelnames, "law", "kind"],
        )
        off = counter(
            name="vllm:kvstate_shadow_off",
            documentation="How many halves of the observer have switched themselves off.",
            labelnames=labelnames,
        )
        self._counters: dict[int, dict[str, Any]] = {}
        for engine, values in per_engine.items():
            mine = {
                f"{kind}.{meaning.law}": found.labels(*values, meaning.law, str(kind))
                for kind, meaning in MEANINGS.items()
            }
            self._counters[engine] = mine | {"off": off.labels(*values)}

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        """Add what has moved; a name of another version is passed over."""
        self.stock.observe(transfer_stats_data, engine_idx)
        counters = self._counters.get(engine_idx, {})
        for name, count in transfer_stats_data.get(KEY, {}).items():
            if name in counters:
                counters[name].inc(count)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stock, name)
