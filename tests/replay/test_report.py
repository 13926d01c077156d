"""A replay as a file for a browser: all in it, nothing from elsewhere, and a bounded number of looks."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("plotly", reason="reports are drawn by plotly, which is not installed")

from kvstate.cli.replay import command
from kvstate.machines.config import PoolConfig
from kvstate.machines.messages import Report
from kvstate.replay import driver, series
from kvstate.replay.config import ReplayConfig
from kvstate.replay.report import write_report
from kvstate.replay.result import ReplayResult
from kvstate.replay.series import Series
from kvstate.replay.watch import Watch
from tests.machines.rig import Rig


class Page(HTMLParser):
    """What a browser would fetch, and the headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.headings: list[str] = []
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._in = tag
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        if self._in in ("h1", "h2"):
            self.headings.append(data.strip())
            self._in = ""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ReplayResult]:
    """In virtual time, with trouble, so that there is something of everything."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    config = ReplayConfig(
        limit=250, device_blocks=150, host_blocks=600, block_bytes=64, deterministic=True, abort=0.1, late=0.05,
        fail=0.05, delay=(1.0, 20.0), report=path,
    )  # fmt: skip
    result = driver.run(config, lambda done, total: None)
    return path.read_text(encoding="utf-8"), result


def test_it_has_every_number_and_needs_no_network(run: tuple[str, ReplayResult]) -> None:
    text, result = run
    page = Page(text)
    assert page.fetched == [], "it is one file"
    assert page.headings == [
        "kvstate replay: 250 requests of a generated workload",
        "Hits by tier", "Copies", "Blocks of device by state", "Blocks of host by state", "Drains",
        "All numbers", "What was asked for",
    ]  # fmt: skip
    told = result.as_dict()
    for name in told.keys() - {"settings", "problems"}:
        assert f"<th>{name.replace('_', ' ')}</th>" in text
    assert f"<th>misses</th><td>{result.misses:,}</td>" in text
    assert "PASSED" in text


def test_what_it_draws_is_what_was_counted(run: tuple[str, ReplayResult]) -> None:
    text, result = run
    assert result.drain_seconds_p99 > 0
    assert 0 < result.drain_share_p99 == round(result.drain_blocks_p99 / 150, 4)
    (drains,) = re.findall(r'"name":"device, ([\d,]+) drains"', text)
    assert int(drains.replace(",", "")) > 10


def test_a_run_that_failed_says_so_and_hostile_names_stay_text(tmp_path: Path) -> None:
    rig = Rig()
    result = ReplayResult(settings={"trace": "<script>alert(1)</script>"}, problems=["L3.no_reuse: <b>block 7</b>"])
    path = tmp_path / "report.html"
    write_report(path, result, Series(rig.ledger, Watch(rig.ledger), result, 64))
    text = path.read_text(encoding="utf-8")
    assert "<script>" not in text
    assert "<b>" not in text
    assert "FAILED: L3.no_reuse: &lt;b&gt;block 7&lt;/b&gt;" in text
    assert "PASSED" not in text


def test_the_looks_are_bounded_and_reach_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "MOST", 8)
    rig = Rig()
    made = Series(rig.ledger, Watch(rig.ledger), ReplayResult(hits={"device": 0, "host": 0}), 64)
    for now in range(1000):
        made.look(float(now))
        assert len(made.looks) <= 8
    times = [look.time for look in made.looks]
    assert times[0] == 0
    assert times[-1] > 800
    assert {later - earlier for earlier, later in pairwise(times)} == {float(made.every)}


def test_bytes_are_those_of_the_pool_below() -> None:
    rig = Rig(pools=(PoolConfig("device", 4), PoolConfig("host", 4), PoolConfig("disk", 4, copier="disk")))
    watch = Watch(rig.ledger)
    lease, refs = rig.sealed(1, 2)
    rig.offload(lease, refs[:1], pool=1)
    rig.offload(lease, refs, pool=2)
    for work in rig.works():
        watch.on_submit(work)
        watch.on_land(work, 0.0)
        watch.on_report(Report(work.token, "done"))
    assert (watch.moved["store", 1], watch.moved["store", 2], watch.moved["fetch", 1], watch.copied) == (1, 2, 0, 3)


def test_without_plotly_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvstate.cli.replay_checks.find_spec", lambda name: None)
    done = CliRunner().invoke(command, ["--limit", "5", "--report", str(tmp_path / "r.html")])
    assert done.exit_code == 2
    assert "pip install 'kvstate[report]'" in done.output
    assert "Traceback" not in done.output


def test_a_folder_that_there_is_not_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["--limit", "5", "--report", str(tmp_path / "none" / "r.html")])
    assert done.exit_code == 2
    assert "--report is" in done.output
    assert "there is no folder" in done.output
