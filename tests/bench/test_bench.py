"""The bench runs, and writes what it says that it writes. No figure is asserted here: a busy machine has none."""

from __future__ import annotations

import gc
import json

import pytest

from bench import lives
from bench.__main__ import main
from bench.measure import Line, Spread, share, spread
from bench.pool import Pool


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    path = tmp_path_factory.mktemp("bench") / "deep" / "result.json"
    assert main(["--tiny", "--json", str(path)]) == 0
    read = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(read, dict)
    return read


@pytest.mark.long
def test_the_result_says_what_ran_and_on_what(result: dict[str, object]) -> None:
    keys = {"format", "kvstate", "spec", "python", "machine", "cpus", "gc", "size", "seconds", "lines"}
    assert result.keys() == keys
    assert gc.isenabled()


@pytest.mark.long
def test_every_line_has_its_figure_its_target_and_whether_it_is_met(result: dict[str, object]) -> None:
    lines = result["lines"]
    assert isinstance(lines, list)
    for line in lines:
        assert line.keys() == {"name", "unit", "measured", "sense", "target", "note", "met"}
        absent = any(word in line["note"] for word in ("/proc", "core", "NIXL"))
        assert (line["measured"] is None) == absent, line
        assert (line["met"] is None) == (line["target"] is None or line["measured"] is None), line
    names = " ".join(line["name"] for line in lines)
    for word in (
        "one event",
        "columns",
        "allocate + release by 256",
        "life",
        "p99",
        "ring: a job of 1 block is dearer by",
        "metrics: a snapshot",
        "cached, a block",
        "offload",
        "load",
        "ledger and engine, a store, each further block",
        "peers: gloo, blocks of 256 KiB, PeerCopier / by hand (integrity=boundary)",
        "peers: nixl, blocks of 2048 KiB, PeerCopier / by hand (integrity=off)",
        "copier: store of blocks of 256 KiB / np.copyto in a loop (1 thread, integrity=off)",
        "copier: load of blocks of 2048 KiB / np.copyto in a loop (2 threads, integrity=off)",
        "ledger, engine and copier: load of blocks of 256 KiB / np.copyto in a loop (1 thread, integrity=host)",
    ):
        assert word in names


@pytest.mark.parametrize(
    ("sense", "value", "met"),
    [("at least", 2, True), ("at least", 1, False), ("at most", 2, True), ("at most", 3, False), ("below", 2, False)],
)
def test_a_target_is_met_or_not(sense: str, value: float, met: bool) -> None:
    line = Line("a", "x", Spread(value, 0, 9, 1), sense, 2)  # type: ignore[arg-type]
    assert line.met is met


def test_what_was_not_measured_meets_nothing() -> None:
    assert Line("a", "x", None, "at most", 2).met is None
    assert Line("a", "x", Spread(1, 1, 1, 1)).met is None


def test_medians_and_percentiles() -> None:
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)
    assert share(list(range(100)), 0.99) == 99
    assert share([5.0], 0.99) == 5.0


def test_the_plain_pool_is_a_pool() -> None:
    pool = Pool(3)
    first = pool.allocate(2)
    pool.share(first[:1])
    pool.release(first)
    assert len(pool.free) == 2
    with pytest.raises(ValueError, match="3 blocks wanted and 2 free"):
        pool.allocate(3)
    pool.release(first[:1])
    with pytest.raises(ValueError, match="free already"):
        pool.release(first[:1])
    assert sorted(pool.allocate(3)) == [0, 1, 2]


def test_a_life_goes_through_both_pools() -> None:
    """What the bench calls a life is one: the rows that store, load and commit have fired for every block."""
    some = lives.Lives(8)
    some.life()
    before = some.ledger.fired()
    some.life()
    after = some.ledger.fired()
    rose = {row: count - before[row] for row, count in after.items() if count > before[row]}
    assert some.ledger.fatal is None
    assert rose["B08"] >= 8
    assert rose["B06"] >= 16, "8 blocks were filled on the host and 8 on the device"
