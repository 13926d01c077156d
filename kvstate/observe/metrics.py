"""Metrics of a runtime for Prometheus: `Metrics(kv)` attaches itself and gives numbers to `prometheus_client`.

    kv = KVRuntime(config)
    REGISTRY.register(Metrics(kv))
    start_http_server(9090)

Prometheus' thread reads a snapshot that the loop has taken (`kvstate.observe.counts`) and nothing else. It wants the
package `prometheus_client`, which `pip install 'kvstate[metrics]'` brings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from time import monotonic
from typing import Final, Literal, NamedTuple

from kvstate.observe.counts import EVERY, Counts, Watched
from kvstate.observe.snapshot import BOUNDS, Snapshot

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError:
    raise ImportError("kvstate.observe.metrics needs prometheus_client: pip install 'kvstate[metrics]'") from None


class Family(NamedTuple):
    """One metric."""

    name: str
    """As it is exposed; of a counter with its `_total`."""
    kind: Literal["counter", "gauge", "histogram"]
    """Its type, in Prometheus' words."""
    labels: tuple[str, ...]
    """All of them have few values: names of pools, states, codes, and words of this package."""
    source: str
    """What it is called in a snapshot."""
    help: str
    """What it says, in a sentence."""


FAMILIES: Final = (
    Family("kvstate_jobs_total", "counter", ("outcome", "code"), "jobs",
           "Offload jobs that ended, by how, and by the code of their first error."),
    Family("kvstate_loads_total", "counter", ("outcome", "code"), "loads",
           "Loads that were told, by how they ended, and by the code of their first error."),
    Family("kvstate_errors_total", "counter", ("code", "stage"), "errors",
           "Errors in the verdicts of jobs and loads; one of them may have many."),
    Family("kvstate_parts_total", "counter", ("direction", "pool", "outcome"), "parts",
           "Copies and checks that were reported; pool is the lower one of the two that a copy is between."),
    Family("kvstate_part_seconds", "histogram", ("direction", "pool"), "seconds",
           "Seconds from handing a copy or a check out to its report, the wait for its compute step included."),
    Family("kvstate_copied_bytes_total", "counter", ("direction", "pool"), "bytes",
           "Bytes that were copied or checked, over all ranks, of copies that were reported done."),
    Family("kvstate_retries_total", "counter", (), "retries",
           "Jobs and batches of loads that were tried again."),
    Family("kvstate_recomputed_tokens_total", "counter", (), "recomputed_tokens",
           "Tokens that a load was to bring and did not, so that they had to be computed."),
    Family("kvstate_lookups_total", "counter", ("answer",), "lookups",
           "Lookups by their answer: hit, miss, or pending while another load brings the next block."),
    Family("kvstate_prompt_tokens_total", "counter", (), "prompt_tokens",
           "Tokens that lookups asked for, without those that were answered pending."),
    Family("kvstate_hit_tokens_total", "counter", ("pool",), "hit_tokens",
           "Tokens that lookups found, by the pool that has them."),
    Family("kvstate_evictions_total", "counter", ("pool",), "evictions",
           "Cached blocks that were evicted to make room."),
    Family("kvstate_tier_blocks_total", "counter", ("pool", "what"), "tiers",
           "Blocks by what a tier did with them: stored, failed, promoted, written_back, lost, or dropped and why."),
    Family("kvstate_allocations_short_total", "counter", (), "allocations_short",
           "Allocations for which there were not enough blocks."),
    Family("kvstate_leases_closed_total", "counter", ("how",), "leases_closed",
           "Leases that ended: finish, abort, preempt, or rank_lost."),
    Family("kvstate_ranks_lost_total", "counter", (), "ranks_lost",
           "Workers that died, each with the memory of its rank."),
    Family("kvstate_handoffs_total", "counter", ("side", "end", "code"), "handoffs",
           "Handoffs of blocks between processes, by the side that this one was on, how they ended, and why."),
    Family("kvstate_resets_total", "counter", (), "resets",
           "Resets of the cache that were asked for."),
    Family("kvstate_reports_stale_total", "counter", (), "reports_stale",
           "Reports about something that was over: late, repeated, or of an earlier life."),
    Family("kvstate_reports_unknown_total", "counter", (), "reports_unknown",
           "Reports with a token that was never given out."),
    Family("kvstate_reports_dropped_total", "counter", (), "inbox_dropped",
           "Reports that found the inbox full."),
    Family("kvstate_troubles_total", "counter", (), "troubles",
           "Messages that could not be read, and workers that could not do what they were told."),
    Family("kvstate_ring_lost_events_total", "counter", (), "ring_lost",
           "Events that have fallen out of the ring that a crash dump is written from."),
    Family("kvstate_blocks", "gauge", ("pool", "state"), "blocks",
           "Blocks by the state that they are in."),
    Family("kvstate_held_oldest_seconds", "gauge", ("pool", "state"), "oldest",
           "Seconds for which a block has drained, been quarantined, or been held by the engine: the longest."),
    Family("kvstate_leases_open", "gauge", (), "leases",
           "Leases that are open: requests that are being served."),
    Family("kvstate_jobs_open", "gauge", ("state",), "jobs_open",
           "Offload jobs that are not over: queued, or started."),
    Family("kvstate_loads_open", "gauge", (), "loads_open",
           "Loads any of whose copies is still waited for."),
    Family("kvstate_reports_waiting", "gauge", (), "reports_waiting",
           "Reports in the inbox that no poll has heard yet."),
    Family("kvstate_poisoned", "gauge", (), "poisoned",
           "1 if an invariant was broken and the runtime serves no more, else 0."),
    Family("kvstate_snapshot_age_seconds", "gauge", (), "age",
           "How old these numbers are: with a loop that polls, less than a second."),
)  # fmt: skip
"""All metrics, in the order in which they are exposed."""


class Metrics(Collector, Counts):
    """Counts what a runtime does, and a collector of `prometheus_client`: one of them to a runtime, and to a registry.

    Made by the thread that owns the runtime; `collect` is for any thread.
    """

    def __init__(
        self,
        watched: Watched,
        *,
        block_bytes: int | None = None,
        every: float = EVERY,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """As `Counts`."""
        Counts.__init__(self, watched, block_bytes=block_bytes, every=every, clock=clock)
        self.take()

    def describe(self) -> Iterator[Metric]:
        """All metrics without a value; by it a registry finds a second runtime that has the same names."""
        return map(_empty, FAMILIES)

    def collect(self) -> Iterator[Metric]:
        """All metrics as they were when the last snapshot was taken; the next turn of the loop takes another."""
        taken, self.wanted = self.snapshot, True
        return (self._filled(family, taken) for family in FAMILIES)

    def _filled(self, family: Family, taken: Snapshot) -> Metric:
        metric = _empty(family)
        if isinstance(metric, HistogramMetricFamily):
            bounds = [*map(str, BOUNDS), "+Inf"]
            for values, (buckets, seconds) in taken.durations.items():
                metric.add_metric(values, list(zip(bounds, accumulate(buckets), strict=True)), seconds)
            return metric
        found: Mapping[tuple[str, ...], float]
        if isinstance(metric, CounterMetricFamily):
            found = taken.counts[family.source]
        else:
            found = {(): self._clock() - taken.at} if family.source == "age" else taken.levels[family.source]
        for values, number in found.items() if found or family.labels else [((), 0.0)]:
            metric.add_metric(values, number)
        return metric


def _empty(family: Family) -> CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily:
    """The metric without a value."""
    if family.kind == "histogram":
        return HistogramMetricFamily(family.name, family.help, labels=family.labels)
    if family.kind == "gauge":
        return GaugeMetricFamily(family.name, family.help, labels=family.labels)
    return CounterMetricFamily(family.name.removesuffix("_total"), family.help, labels=family.labels)
