"""The main job on short workloads: what it counts is right, what is wrong it sees, and a seed is a run."""

from __future__ import annotations

import gc
import hashlib
import os
import subprocess
import sys
from collections import Counter, OrderedDict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from kvstate.machines.tables import TABLES
from kvstate.replay import driver
from kvstate.replay.config import ReplayConfig
from kvstate.replay.trace import Request, TraceError
from kvstate.replay.workload import generate
from tests.replay.runs import CHAOS, PROMISED, SMALL, STORM, no_measuring, replay, sound, write_trace

__all__ = ["no_measuring"]


# ---- Hits, against caches of a few lines -----------------------------------------------------------------------------


def prefix(ids: Iterable[int], cached: Iterable[int]) -> int:
    """How many ids from the start on are cached."""
    known, length = set(cached), 0
    for hash_id in ids:
        if hash_id not in known:
            break
        length += 1
    return length


def hits_of_endless_cache(requests: Iterable[Request]) -> int:
    seen: set[int] = set()
    hits = 0
    for request in requests:
        hits += prefix(request.hash_ids, seen)
        seen.update(request.hash_ids)
    return hits


def hits_of_lru(requests: Iterable[Request], capacity: int) -> int:
    """The last block of a prompt is the first to go: it is moved to the recent end before those in front of it."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for request in requests:
        if len(request.hash_ids) > capacity:
            continue
        hits += prefix(request.hash_ids, cache)
        for hash_id in reversed(request.hash_ids):
            cache[hash_id] = None
            cache.move_to_end(hash_id)
        while len(cache) > capacity:
            cache.popitem(last=False)
    return hits


@pytest.mark.parametrize("deterministic", [True, False])
def test_with_room_for_all_every_known_prefix_is_a_hit(deterministic: bool) -> None:
    requests = list(generate(500, 3))
    found = sound(
        replay(limit=500, seed=3, block_bytes=64, device_blocks=8000, host_blocks=8000, deterministic=deterministic)
    )
    assert found.hits == {"device": hits_of_endless_cache(requests), "host": 0}
    assert found.requests == len(requests)
    assert found.block_refs == sum(len(request.hash_ids) for request in requests)
    assert found.unique_blocks == len({hash_id for request in requests for hash_id in request.hash_ids})
    assert found.stored_blocks == found.unique_blocks
    assert found.bytes_copied == 64 * found.unique_blocks


@pytest.mark.parametrize(("blocks", "seed"), [(150, 0), (900, 1)])
@pytest.mark.parametrize("deterministic", [True, False])
def test_the_device_alone_is_an_lru_cache(blocks: int, seed: int, deterministic: bool) -> None:
    settings = {"block_bytes": 64, "host_blocks": 0, "hold": 0.0, "deterministic": deterministic, "policy": "lru"}
    requests = list(generate(800, seed))
    assert max(len(request.hash_ids) for request in requests) < 150
    found = sound(replay(limit=800, seed=seed, device_blocks=blocks, **settings))
    assert found.hits == {"device": hits_of_lru(requests, blocks), "host": 0}
    assert found.hits["device"] < hits_of_endless_cache(requests)
    assert (found.stored_blocks, found.bytes_copied, found.max_inflight_jobs) == (0, 0, 0)


def test_a_device_that_is_full_of_steps_is_still_an_lru_cache() -> None:
    """Requests wait for blocks that only the steps under way still hold. That is no standstill."""
    settings = {"block_bytes": 64, "host_blocks": 0, "hold": 0.0, "deterministic": True, "policy": "lru"}
    found = sound(replay(limit=300, seed=0, device_blocks=60, **settings))
    assert found.hits["device"] == hits_of_lru(generate(300, 0), 60)


@pytest.mark.long
def test_letting_go_first_of_what_was_never_asked_for_again_is_the_default_and_the_better() -> None:
    settings = {"limit": 1500, "block_bytes": 64, "host_blocks": 0, "hold": 0.0, "deterministic": True}
    hits = {}
    for policy in ({}, {"policy": "adaptive"}, {"policy": "lru"}):
        found = sound(replay(seed=5, device_blocks=250, **settings, **policy))
        hits[policy.get("policy", "default")] = found.hits["device"]
    assert hits["default"] == hits["adaptive"] > hits["lru"]


def test_a_lower_tier_gives_back_what_the_device_had_to_give_up() -> None:
    requests = list(generate(500, 2))
    settings = {"limit": 500, "seed": 2, "block_bytes": 64, "device_blocks": 300, "hold": 0.0, "deterministic": True}
    found = sound(replay(host_blocks=8000, **settings))
    assert sum(found.hits.values()) == hits_of_endless_cache(requests)
    assert found.hits["host"] > 500
    assert found.loaded_blocks == found.hits["host"]
    assert found.bytes_copied == 64 * (found.loaded_blocks + found.stored_blocks)


# ---- Chaos -----------------------------------------------------------------------------------------------------------


CHAOS_KINDS = ("aborts", "preempts", "stale_reports", "quarantined_blocks", "recomputes")


def test_chaos_costs_time_and_nothing_else() -> None:
    found = sound(replay(seed=6, deterministic=True, limit=400, **SMALL, **STORM))
    assert found.requests == 400
    assert sum(found.failures.values()) > 10
    assert len(found.failures) > 3
    assert min(found.aborts, found.preempts, found.stale_reports, found.quarantined_blocks, found.recomputes) > 0
    assert found.unknown_reports == 0
    assert found.rows_fired + len(found.rows_never_fired) == sum(len(table.ROWS) for table in TABLES.values())


def test_chaos_among_threads_costs_time_and_nothing_else() -> None:
    """How often each thing strikes is for the machine to say, so one seed may miss some of it; all of them may not."""
    struck: Counter[str] = Counter()
    for seed in range(6, 16):
        found = sound(replay(seed=seed, limit=120, **SMALL, **STORM))
        assert (found.requests, found.unknown_reports) == (120, 0)
        assert found.rows_fired + len(found.rows_never_fired) == sum(len(table.ROWS) for table in TABLES.values())
        struck["failures"] += sum(found.failures.values())
        struck.update({kind: getattr(found, kind) for kind in CHAOS_KINDS})
        if min(struck.values()) > 0:
            return
    raise AssertionError(f"ten runs with chaos, and something never struck: {dict(struck)}")


def test_nothing_happens_that_was_not_asked_for() -> None:
    found = sound(replay(limit=200, seed=1, deterministic=True, **(SMALL | {"device_blocks": 400})))
    assert found.loads == {"proceed": found.loads["proceed"]}
    assert (found.failures, found.aborts, found.preempts, found.retries, found.recomputes) == ({}, 0, 0, 0, 0)
    assert (found.stale_reports, found.quarantined_blocks, found.late_landings) == (0, 0, 0)


def test_one_code_can_be_asked_for() -> None:
    codes = (("NO_SPACE", 0.2),)
    found = sound(replay(limit=200, seed=1, deterministic=True, fail_codes=codes, **SMALL))
    assert set(found.failures) == {"NO_SPACE"}
    assert found.offloads["failed"] > 10
    assert found.loads.keys() <= {"proceed"}


def test_a_device_error_ends_the_run_and_says_so() -> None:
    """Nothing is proved by what comes after it, and the blocks that were in use stay as they are."""
    found = replay(limit=200, seed=1, deterministic=True, fail_codes=(("DEVICE_ERROR", 0.02),), **SMALL)
    assert any("DEVICE_ERROR" in sentence for sentence in found.problems)
    assert found.requests < 200
    assert found.leaked_blocks > 0


# ---- What is wrong is seen -------------------------------------------------------------------------------------------


def test_corrupted_bytes_that_nobody_checks_are_seen() -> None:
    """The oracle looks at bytes, not at checksums: where the copiers trust the host, it is the only one to know."""
    settings = {"limit": 300, "seed": 4, "corrupt": 0.1, "hold": 0.0, "deterministic": True, **SMALL}
    found = replay(integrity="boundary", **settings)
    assert found.wrong_bytes > 0
    assert f"{found.wrong_bytes} blocks did not hold the bytes of their key" in found.problems
    checked = sound(replay(integrity="host", **settings))
    assert checked.failures["CRC_MISMATCH"] > 0


def test_a_run_that_does_not_race_proves_nothing_and_says_what_was_missing() -> None:
    settings = {"host_blocks": 0, "hold": 0.0, "block_bytes": 64, "device_blocks": 900, "policy": "lru"}
    found = replay(limit=400, abort=0.05, must_race=True, **settings)
    said = "\n".join(found.problems)
    assert "the run proved nothing: max_inflight_jobs is 0, 5 or more would count as a race" in said
    assert "reuses_after_drain" in said
    assert "aborts_while_copying" in said


def test_a_run_that_races_proves_something() -> None:
    sound(replay(limit=400, seed=0, deterministic=True, must_race=True, **SMALL, **CHAOS))


# ---- One seed is one run ---------------------------------------------------------------------------------------------


def record(path: Path, seed: int, **settings: Any) -> bytes:
    sound(replay(limit=80, seed=seed, deterministic=True, trace_out=path, **SMALL, **STORM, **settings))
    return path.read_bytes()


def test_one_seed_is_one_record_byte_for_byte(tmp_path: Path) -> None:
    first = record(tmp_path / "a", 9)
    assert record(tmp_path / "b", 9) == first
    assert record(tmp_path / "c", 10) != first
    # How many threads there are is a setting, and nothing that virtual time knows of.
    other = record(tmp_path / "d", 9, concurrency=5)
    assert other.split(b"\n")[1:] == first.split(b"\n")[1:]


def test_the_record_does_not_depend_on_the_process(tmp_path: Path) -> None:
    """Sets and dictionaries of strings are in another order under another hash seed."""
    code = (
        "import sys, hashlib; from pathlib import Path; from tests.replay.test_driver import record;"
        "print(hashlib.sha256(record(Path(sys.argv[1]), 9)).hexdigest())"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "theirs")],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONHASHSEED": "4711"},
        cwd=Path(__file__).parents[2],
    )
    assert told.stdout.strip() == hashlib.sha256(record(tmp_path / "ours", 9)).hexdigest()


# ---- Traces ----------------------------------------------------------------------------------------------------------

TINY = {"block_bytes": 64, "device_blocks": 8, "host_blocks": 32}


def test_an_empty_trace_is_a_run_of_no_requests(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(b"")
    found = replay(trace=path, **TINY)
    assert found.problems == ["there was no request to replay"]
    assert (found.requests, found.block_refs, found.hits, found.drain_blocks_p99) == (0, 0, {"device": 0, "host": 0}, 0)


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_prompt_that_does_not_fit_is_counted_and_not_run(tmp_path: Path, deterministic: bool) -> None:
    prompts = [range(8), range(9), range(8), [*range(8), 99, 98]]
    path = write_trace(tmp_path / "long.jsonl", prompts)
    found = sound(replay(trace=path, hold=0.0, deterministic=deterministic, **TINY))
    assert (found.requests, found.too_long) == (4, 2)
    assert (found.hits["device"], found.misses) == (8, 8 + 9 + 10)


def test_a_prompt_that_fits_to_the_last_block_gets_them_all(tmp_path: Path) -> None:
    """Each of these needs the whole pool, which the one before it still holds for its decode."""
    prompts = [range(8 * number, 8 * number + 8) for number in range(6)] * 2
    path = write_trace(tmp_path / "full.jsonl", prompts, output=512)
    found = sound(replay(trace=path, deterministic=True, **(TINY | {"host_blocks": 64})))
    assert found.hits == {"device": 0, "host": 48}


def test_an_id_that_stands_twice_in_a_prompt_is_one_block(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "twice.jsonl", [[1, 2, 1, 3, 3], [1, 2, 1, 3, 3], [1, 1, 1]])
    found = sound(replay(trace=path, deterministic=True, **TINY))
    assert (found.unique_blocks, found.block_refs) == (3, 13)
    assert (found.hits["device"], found.stored_blocks) == (4, 3)


def test_a_prompt_without_blocks_is_a_request_like_any_other(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "none.jsonl", [[], [1], []])
    found = sound(replay(trace=path, deterministic=True, **TINY))
    assert (found.requests, found.block_refs) == (3, 1)


def test_bad_lines_are_told_or_counted(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "bad.jsonl", [[number] for number in range(6)])
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[2], lines[4] = "{}", "no JSON"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(TraceError, match=r"bad\.jsonl, line 3: timestamp is missing"):
        replay(trace=path, **TINY)
    found = sound(replay(trace=path, skip_bad=True, **TINY))
    assert (found.requests, found.skipped_lines) == (4, 2)
    found = sound(replay(trace=path, skip_bad=True, limit=3, **TINY))
    assert (found.requests, found.skipped_lines) == (3, 1)


def test_a_trace_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="could not be opened: No such file"):
        replay(trace=tmp_path / "nowhere.jsonl", **TINY)


# ---- What comes out --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "found"),
    [([], 0), ([7], 7), ([0, 100], 99), (range(101), 99), ([5] * 99 + [1000], 14), (list(range(200, -1, -1)), 198)],
)
def test_what_99_of_100_counts_do_not_exceed(counts: list[int], found: int) -> None:
    assert driver._p99(counts) == found


def test_python_collects_as_before_when_a_run_is_over() -> None:
    """While it lasts it does so more seldom, and leaves alone what was there; a run that fails ends that as well."""
    during: list[tuple[int, int]] = []
    before = gc.get_threshold(), gc.get_freeze_count()

    def progress(done: int, total: int | None) -> None:
        during.append((gc.get_threshold()[0], gc.get_freeze_count()))
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        driver.run(ReplayConfig(limit=100, deterministic=True, **SMALL), progress)
    assert {often for often, _ in during} == {driver.COLLECT_EVERY}
    assert all(frozen > 1000 for _, frozen in during)
    assert (gc.get_threshold(), gc.get_freeze_count()) == before


def test_everything_that_was_promised_is_in_the_result() -> None:
    found = sound(replay(limit=64, deterministic=True, **SMALL)).as_dict()
    assert [name for name in PROMISED if name not in found] == []
    assert set(found["hits"]) == {"device", "host"}
    assert found["settings"]["limit"] == 64


def test_progress_goes_forward_to_the_end() -> None:
    told: list[tuple[int, int | None]] = []
    driver.run(ReplayConfig(limit=200, deterministic=True, **SMALL), lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert told[-1] == (200, 200)
    assert len(told) > 3
