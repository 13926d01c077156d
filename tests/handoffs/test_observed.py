"""What an operator sees of handoffs: metrics, log and record."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kvstate.observe.log import Logs
from kvstate.spec.loader import load_spec
from kvstate.trace.check import check
from tests.handoffs.rig import pair


def test_each_handoff_is_counted_logged_and_recorded_on_both_sides(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By side, end and code; what ended well says nothing in the log, and what was lost is a warning."""
    metrics = pytest.importorskip("kvstate.observe.metrics")
    caplog.set_level(logging.INFO, "kvstate.handoffs")
    record = tmp_path / "record.ndjson"
    with pair(consumer={"record": record}) as two:
        seen = {}
        for name, side in (("lend", two.producer), ("borrow", two.consumer)):
            Logs(side.kv)
            seen[name] = metrics.Metrics(side.kv, every=0.0)
        _, _, _, offered = two.offered(2)
        two.consumer.borrow(2)
        two.until(lambda: two.consumer.loads, "the load's verdict")
        two.consumer.kv.close_offer(offered.number, taken=True)
        two.until(lambda: two.producer.ends and two.consumer.ends, "both verdicts")
        two.offered(1, 10)
        two.consumer.kv.close()
        two.until_alone(lambda: len(two.producer.ends) == 2, "the end of the second")
        two.producer.turn()
        assert counted(seen["lend"]) == {("lend", "delivered", ""): 1.0, ("lend", "lost", "PEER_LOST"): 1.0}
        assert counted(seen["borrow"]) == {("borrow", "taken", ""): 1.0}
    assert '"handoff"' in record.read_text()
    assert check(record, load_spec()).violation is None
    said = [(one.levelname, one.getMessage()) for one in caplog.records]
    assert said == [("WARNING", "handoff 2 with decode: lost (PEER_LOST)")]


def counted(metrics: object) -> dict[tuple[str, ...], float]:
    """The samples of one metric, by its labels."""
    families = {family.name: family for family in metrics.collect()}  # type: ignore[attr-defined]
    samples = families["kvstate_handoffs"].samples
    return {(one.labels["side"], one.labels["end"], one.labels["code"]): one.value for one in samples}
