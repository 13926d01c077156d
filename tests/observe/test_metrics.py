"""What Prometheus is told of a runtime is what has happened to it, and never read from books that are being written."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from dataclasses import replace
from typing import Any

import pytest

from kvstate.errors import Code, KVError
from kvstate.machines.config import GroupConfig, LedgerConfig, PoolConfig
from kvstate.machines.ledger import Ledger
from kvstate.machines.messages import Failure, Outcome, Report, Token
from kvstate.machines.verdicts import Ending, Fatal, Hit, JobVerdict
from kvstate.observe.counts import HELD, Counts
from kvstate.observe.snapshot import BOUNDS, Snapshot
from kvstate.runtime.engine import Engine
from kvstate.runtime.inbox import Inbox
from kvstate.tiering import TierConfig
from tests.observe.served import Served
from tests.runtime.rig import got, keys_of

prometheus = pytest.importorskip(
    "prometheus_client", reason="metrics are for prometheus_client, which is not installed"
)

from kvstate.observe.metrics import FAMILIES, Metrics  # noqa: E402 - it wants the package

TIMES = Failure(-1, int(Code.BUSY), "fetch", transient=True)


class Scraped:
    """A runtime with metrics, and what a scrape of them gives."""

    def __init__(self, *, every: float = 0.0, **more: Any) -> None:
        self.rig = Served(**more)
        self.kv = self.rig.kv
        self.metrics = Metrics(self.kv, every=every)
        self.registry = prometheus.CollectorRegistry()
        self.registry.register(self.metrics)

    def value(self, name: str, **labels: str) -> float | None:
        """The value of one sample; None if there is none."""
        found = self.registry.get_sample_value(f"kvstate_{name}", labels)
        assert found is None or isinstance(found, float | int)
        return found


def looked_up(scraped: Scraped, *numbers: int) -> Hit:
    return got(scraped.kv.lookup(got(scraped.kv.open("a")), keys_of(*numbers)))


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


# ---- What is counted -------------------------------------------------------------------------------------------------


def test_a_store_and_a_load_are_counted_once_each(scraped: Scraped) -> None:
    rig, value = scraped.rig, scraped.value
    lease, _ = rig.compute(1, 2)
    rig.land(0.02)
    assert value("jobs_total", outcome="committed", code="none") == 1
    assert value("parts_total", direction="store", pool="host", outcome="done") == 1
    assert value("copied_bytes_total", direction="store", pool="host") == 2 * 64
    assert value("part_seconds_sum", direction="store", pool="host") == pytest.approx(0.02)
    assert value("part_seconds_bucket", direction="store", pool="host", le="0.01") == 0
    assert value("part_seconds_bucket", direction="store", pool="host", le="0.025") == 1
    assert value("part_seconds_count", direction="store", pool="host") == 1
    assert value("leases_open") == 1
    scraped.kv.finish(lease)
    rig.crowd()
    rig.fetch(1, 2, 3)
    rig.land(0.3)  # the bytes
    rig.land(0.001)  # and their check
    assert value("loads_total", outcome="proceed", code="none") == 1
    assert value("copied_bytes_total", direction="fetch", pool="host") == 2 * 64
    assert value("copied_bytes_total", direction="verify", pool="host") == 2 * 64
    assert value("part_seconds_bucket", direction="fetch", pool="host", le="0.25") == 0
    assert value("evictions_total", pool="device") == 2
    assert value("evictions_total", pool="host") == 0
    assert value("leases_closed_total", how="finish") == 2
    assert value("leases_closed_total", how="abort") == 0


def test_a_copy_that_is_reported_twice_is_counted_once() -> None:
    """While its job is not over its part is still on record."""
    scraped = Scraped(ledger={"part_blocks": 1})
    scraped.rig.compute(1, 2)
    first, second = scraped.rig.copier.in_flight()
    scraped.rig.copier.land(first.serial)
    for _ in range(2):
        scraped.rig.copier.deliver(first.serial)
        scraped.kv.poll()
    assert scraped.value("parts_total", direction="store", pool="host", outcome="done") == 1
    assert scraped.value("reports_stale_total") == 1
    assert not second.over


def test_evictions_are_counted_by_pool(scraped: Scraped) -> None:
    for number in range(5):
        lease, _ = scraped.rig.compute(number, number + 100)
        scraped.rig.land()
        scraped.kv.finish(lease)
    scraped.kv.poll()
    assert scraped.value("evictions_total", pool="device") == 5 * 2 - 4
    assert scraped.value("evictions_total", pool="host") == 5 * 2 - 8


def test_tokens_are_counted_where_they_lie(scraped: Scraped) -> None:
    rig, value = scraped.rig, scraped.value
    lease, _ = rig.compute(1, 2)
    rig.land()
    scraped.kv.finish(lease)
    looked_up(scraped, 1, 2, 3)
    scraped.kv.poll()
    assert value("prompt_tokens_total") == 3 * 16
    assert value("hit_tokens_total", pool="device") == 2 * 16
    assert value("hit_tokens_total", pool="host") == 0


def test_hits_below_count_for_the_pool_that_has_them(scraped: Scraped) -> None:
    rig, value = scraped.rig, scraped.value
    lease, _ = rig.compute(1, 2, 3)
    rig.land()
    scraped.kv.finish(lease)
    other = got(scraped.kv.open("a"))
    got(scraped.kv.allocate(other, 3))  # the tail of the prompt is evicted from the device, and its head stays
    hit = looked_up(scraped, 1, 2, 3)
    scraped.kv.poll()
    assert len(hit.below) == 2
    assert value("hit_tokens_total", pool="device") == 16
    assert value("hit_tokens_total", pool="host") == 2 * 16
    assert value("lookups_total", answer="hit") == 1
    scraped.kv.unpin(hit)
    looked_up(scraped, 8)
    scraped.kv.poll()
    assert value("lookups_total", answer="miss") == 1
    assert value("prompt_tokens_total") == 4 * 16


def test_a_pending_lookup_asks_for_nothing_yet(scraped: Scraped) -> None:
    rig, value = scraped.rig, scraped.value
    lease, _ = rig.compute(1)
    rig.land()
    scraped.kv.finish(lease)
    rig.crowd()
    rig.fetch(1)
    scraped.kv.poll()
    before = value("prompt_tokens_total")
    looked_up(scraped, 1)
    scraped.kv.poll()
    assert value("lookups_total", answer="pending") == 1
    assert value("prompt_tokens_total") == before


def test_groups_are_counted_in_tokens_of_the_prompt() -> None:
    groups = (GroupConfig("one", 2), GroupConfig("other", 1))
    scraped = Scraped(ledger={"groups": groups})
    lease = got(scraped.kv.open("a"))
    for group, count in ((0, 1), (1, 2)):
        refs = got(scraped.kv.allocate(lease, count)).blocks
        got(scraped.kv.seal(lease, refs, keys_of(*range(count)), group=group))
    got(scraped.kv.lookup_groups(got(scraped.kv.open("a")), [keys_of(0, 5), keys_of(0, 1, 7)]))
    scraped.kv.poll()
    assert scraped.value("prompt_tokens_total") == 4
    assert scraped.value("hit_tokens_total", pool="device") == 2


def test_what_falls_is_counted_by_its_code(scraped: Scraped) -> None:
    rig, value = scraped.rig, scraped.value
    lease, _ = rig.compute(1, 2)
    rig.land()
    scraped.kv.finish(lease)
    rig.crowd()
    rig.fetch(1, 2)
    rig.land(failures=[TIMES])
    rig.clock.advance(0.05)
    scraped.kv.poll()
    assert value("retries_total") == 1
    rig.land(failures=[TIMES])
    assert value("loads_total", outcome="recompute", code="BUSY") == 1
    assert value("errors_total", code="BUSY", stage="fetch") == 2, "one of each attempt"
    assert value("parts_total", direction="fetch", pool="host", outcome="failed") == 2
    assert value("copied_bytes_total", direction="fetch", pool="host") is None
    assert value("recomputed_tokens_total") == 2 * 16


def test_a_stage_that_nobody_knows_makes_no_label(scraped: Scraped) -> None:
    error = KVError(Code.NO_SPACE, "nowhere")
    scraped.metrics.on_verdict(JobVerdict(1, 1, Ending.FAILED, (), (error, replace(error, stage="store"))))
    scraped.kv.poll()
    assert scraped.value("errors_total", code="NO_SPACE", stage="other") == 1
    assert scraped.value("errors_total", code="NO_SPACE", stage="store") == 1


def test_blocks_that_are_held_back_have_an_age(scraped: Scraped) -> None:
    rig, value = scraped.rig, scraped.value
    lease, _ = rig.compute(1)
    scraped.kv.reset()
    scraped.kv.abort(lease)
    rig.clock.advance(0.5)
    scraped.kv.poll()
    assert value("blocks", pool="device", state="draining") == 1
    assert value("held_oldest_seconds", pool="device", state="draining") == pytest.approx(0.5)
    rig.clock.advance(2.0)
    scraped.kv.poll()
    rig.clock.advance(40.0)
    scraped.kv.poll()
    assert value("blocks", pool="device", state="quarantined") == 1
    assert value("held_oldest_seconds", pool="device", state="draining") == 0
    assert value("held_oldest_seconds", pool="device", state="quarantined") == pytest.approx(40.0)
    rig.land()
    assert value("blocks", pool="device", state="free") == 4
    assert value("held_oldest_seconds", pool="device", state="quarantined") == 0


def test_stray_reports_shortages_and_the_end(scraped: Scraped) -> None:
    rig, value = scraped.rig, scraped.value
    assert value("poisoned") == 0
    rig.inbox.put(Report(Token(1, 99), Outcome.DONE))
    lease, _ = rig.compute(1)
    for flight in rig.copier.in_flight():
        rig.copier.land(flight.serial)
        rig.copier.deliver(flight.serial)
        rig.copier.deliver(flight.serial)
    scraped.kv.poll()
    assert (value("reports_unknown_total"), value("reports_stale_total")) == (1, 1)
    assert value("parts_total", direction="store", pool="host", outcome="done") == 1, "the second one ended nothing"
    assert not scraped.kv.allocate(lease, 5)
    scraped.kv.preempt(lease)
    assert not scraped.kv.finish(lease)
    scraped.kv.poll()
    assert value("allocations_short_total") == 1
    assert value("leases_closed_total", how="preempt") == 1
    assert value("leases_closed_total", how="finish") == 0, "it was refused"
    rig.compute(2)
    done = rig.land(failures=[Failure(-1, int(Code.DEVICE_ERROR), "store")])
    assert isinstance(done.fatal, Fatal)
    assert value("poisoned") == 1


def test_what_tiers_do_with_blocks_is_counted() -> None:
    scraped = Scraped(tiers=(TierConfig(pool="host", inflight_blocks=2),))
    lease = got(scraped.kv.open("a"))
    refs = got(scraped.kv.allocate(lease, 3)).blocks
    got(scraped.kv.seal(lease, refs, keys_of(1, 2, 3)))
    scraped.kv.store(lease, refs)
    scraped.kv.take_effects()
    scraped.rig.land()
    scraped.kv.poll()  # tiers hear of a turn when it is over
    assert scraped.value("tier_blocks_total", pool="host", what="stored") == 2
    assert scraped.value("tier_blocks_total", pool="host", what="dropped_budget") == 1
    assert scraped.value("tier_blocks_total", pool="host", what="lost") == 0


# ---- Threads ---------------------------------------------------------------------------------------------------------


def test_a_scrape_reads_the_snapshot_and_nothing_else() -> None:
    scraped = Scraped()
    lease = got(scraped.kv.open("a"))
    assert scraped.value("leases_open") == 0, "no turn of the loop has come since"
    scraped.kv.poll()
    assert scraped.value("leases_open") == 1
    scraped.kv.finish(lease)
    taken = scraped.metrics.snapshot
    assert isinstance(taken, Snapshot)
    scraped.kv.poll()
    assert taken.levels["leases"][()] == 1, "a snapshot does not change"
    assert scraped.metrics.snapshot.levels["leases"][()] == 0


def test_snapshots_are_taken_so_often_and_after_a_scrape() -> None:
    times = iter([0.0, 0.0, 0.1, 0.2, 1.3, 1.4, 1.5])
    rig = Served()
    metrics = Metrics(rig.kv, every=1.0, clock=lambda: next(times))
    seen = []
    for _ in range(5):
        rig.kv.poll()
        seen.append(metrics.snapshot.at)
    assert seen == [0.0, 0.0, 0.0, 1.3, 1.3]
    metrics.wanted = True
    rig.kv.poll()
    assert metrics.snapshot.at == 1.5


def test_while_the_loop_runs_scrapes_see_whole_numbers_only() -> None:
    """A thread scrapes as fast as it can while the loop works; every scrape adds up."""
    scraped, stop, wrong = Scraped(), threading.Event(), list[str]()

    def scrape() -> None:
        last = 0.0
        while not stop.is_set():
            total = 0.0
            for family in scraped.metrics.collect():
                if family.name == "kvstate_blocks":
                    total = sum(sample.value for sample in family.samples if sample.labels["pool"] == "device")
                if family.name == "kvstate_jobs":
                    jobs = sum(sample.value for sample in family.samples if sample.name.endswith("_total"))
                    if jobs < last:
                        wrong.append(f"{jobs} jobs after {last}")
                    last = jobs
            if total != 4:
                wrong.append(f"{total} blocks on the device")

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        for number in range(200):
            lease, _ = scraped.rig.compute(number)
            scraped.rig.land()
            scraped.kv.finish(lease)
    finally:
        stop.set()
        thread.join()
    assert wrong == []
    assert scraped.value("jobs_total", outcome="committed", code="none") == 200


# ---- Names -----------------------------------------------------------------------------------------------------------


def test_names_are_as_prometheus_wants_them(scraped: Scraped) -> None:
    for family in FAMILIES:
        assert re.fullmatch(r"kvstate_[a-z]+(_[a-z]+)*", family.name)
        assert (family.kind == "counter") == family.name.endswith("_total"), family.name
        assert family.help.endswith("."), family.name
        assert not {"le", "quantile", "job", "instance"} & set(family.labels), "these are Prometheus' own"
    told = {family.name + ("_total" if family.type == "counter" else "") for family in scraped.metrics.collect()}
    assert told == {family.name for family in FAMILIES}
    assert len(FAMILIES) == len(told)
    text = prometheus.generate_latest(scraped.registry).decode()
    for family in FAMILIES:
        assert f"# HELP {family.name} {family.help}" in text
    assert list(BOUNDS) == sorted(set(BOUNDS))


def test_two_runtimes_do_not_share_a_registry(scraped: Scraped) -> None:
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        scraped.registry.register(Metrics(Served().kv))


# ---- Alone -----------------------------------------------------------------------------------------------------------


def test_an_engine_alone_is_counted_too() -> None:
    ledger = Ledger(LedgerConfig((PoolConfig("device", 2, foreign=True), PoolConfig("host", 2))))
    engine = Engine(ledger, {}, Inbox(), Served().clock)
    counts = Counts(engine, block_bytes=10, every=0.0)
    ledger.foreign_allocated([0])
    ledger.reset()
    counts.on_input("load", lease=1, into=[0])  # told by somebody who has no answer to show
    engine.poll()
    assert counts.snapshot.levels["blocks"]["device", "owned"] == 1
    assert ("device", "held") in counts.snapshot.levels["oldest"]
    assert counts.snapshot.counts["ring_lost"] == {(): 0}
    assert counts.block_bytes == 10


def test_only_so_many_held_blocks_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    scraped = Scraped()
    assert HELD > 1
    monkeypatch.setattr("kvstate.observe.counts.HELD", 1)
    books = scraped.kv.ledger.books
    books.held_since = {0: -1.0, 1: -5.0}
    books.block_state[0] = books.block_state[1] = books.tables["block"].STATES.index("draining")
    assert scraped.metrics.take().levels["oldest"]["device", "draining"] == 1.0


def test_it_imports_no_torch_and_says_what_is_missing() -> None:
    code = (
        "import sys; import kvstate.observe.counts, kvstate.observe.log, kvstate.observe.chrome; "
        "assert 'torch' not in sys.modules and 'prometheus_client' not in sys.modules; "
        "sys.modules['prometheus_client'] = None; import kvstate.observe.metrics"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "kvstate.observe.metrics needs prometheus_client: pip install 'kvstate[metrics]'" in done.stderr


def test_a_ring_says_how_much_has_fallen_out() -> None:
    scraped = Scraped(ring_events=1)
    for number in range(3):
        lease, _ = scraped.rig.compute(number)
        scraped.rig.land()
        scraped.kv.finish(lease)
    ring = scraped.kv.notes.ring
    assert ring is not None
    scraped.kv.poll()
    lost = scraped.value("ring_lost_events_total")
    assert lost is not None
    assert 0 < lost <= ring.lost_events
