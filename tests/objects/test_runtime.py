"""A runtime with an object store: shared by two, reset, in processes, below other tiers, over a server that dies."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from kvstate.machines.config import ConfigError, LedgerConfig, PoolConfig
from kvstate.machines.verdicts import Ending, Refusal
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.processes import ProcessLink
from kvstate.runtime.settings import RuntimeConfig
from kvstate.runtime.tiers.objects.settings import StoreConfig
from kvstate.tiering import TierConfig, Write
from tests.objects.rig import secret_file
from tests.objects.runtime import BLOCK, Serving, config
from tests.objects.server import S3Server
from tests.runtime.parts import fill, key
from tests.runtime.rig import got


def found(url: str, number: int) -> bool:
    """Does a new runtime get the bytes of that key?"""
    third = Serving(config(url))
    came = third.comes(number)
    third.ends()
    return came


def test_what_one_runtime_stores_another_hits(url: str) -> None:
    one, other = Serving(config(url)), Serving(config(url, integrity="host"))
    assert one.store(1, 2) == [Ending.COMMITTED] * 2
    assert other.load(1, seek=False) is None  # nobody has asked
    assert other.comes(1)
    assert not other.comes(3)
    assert other.comes(1, seek=False)  # known by now
    assert one.comes(2)
    assert isinstance(other.kv.seek(got(other.kv.open("a")), [key(1)], pool=2), Refusal)  # is known
    assert one.codes() == other.codes() == []
    one.ends()
    other.ends()


def test_another_fingerprint_secret_or_namespace_hits_nothing(url: str, tmp_path: Path) -> None:
    one = Serving(config(url))
    one.store(1)
    others = [
        Serving(config(url, store={"fingerprint": "model 2"})),
        Serving(config(url, store={"secret_file": secret_file(tmp_path, 7)})),
    ]
    for other in others:
        assert not other.comes(1)
        assert other.store(1) == [Ending.COMMITTED]
        assert other.comes(1)
        other.ends()
    lease = got(one.kv.open("b"))
    got(one.kv.seek(lease, [key(1)], pool=2))
    assert not one.hit(lease, [key(1)]).blocks
    one.kv.finish(lease)
    assert one.comes(1)
    one.ends()


def test_a_bad_object_costs_a_recompute_and_is_stored_anew(url: str) -> None:
    one, other = Serving(config(url)), Serving(config(url))
    one.store(1)
    name = one.objects.names.of("a", key(1))
    data = bytearray(one.objects.versions.bucket.get(name, 1 << 20, "fetch").data)  # type: ignore[union-attr]
    data[-5] ^= 4
    bucket = one.objects.versions.bucket
    bucket._api.put(bucket._store, name, bytes(data))
    assert not other.comes(1)
    assert other.codes() == [("CRC_MISMATCH", "fetch")]
    assert other.objects.settle(30)
    assert not found(url, 1)
    assert other.store(1) == [Ending.COMMITTED]
    assert found(url, 1)
    assert one.comes(1)
    one.ends()
    other.ends()


def test_what_vanished_is_a_miss_with_its_code(url: str) -> None:
    one = Serving(config(url))
    one.store(1, 2)
    bucket = one.objects.versions.bucket
    bucket._api.delete(bucket._store, one.objects.names.of("a", key(1)))
    assert not one.comes(1, seek=False)
    assert one.codes() == [("BLOCK_NOT_FOUND", "fetch")]
    assert one.load(1) is None
    assert one.comes(2)
    one.ends()


def test_a_reset_makes_all_void_here_and_for_nobody_else(url: str) -> None:
    one, other = Serving(config(url)), Serving(config(url))
    one.store(1)
    got(one.kv.reset())
    one.turn()
    assert one.load(1) is None
    assert other.comes(1)
    one.store(1)
    assert one.comes(1)
    one.ends()
    again = Serving(config(url))
    assert again.comes(1)
    again.ends()
    other.ends()


def test_more_keys_than_handles_are_stored_all_the_same(url: str) -> None:
    one = Serving(config(url, slots=2))
    assert one.store(*range(6)) == [Ending.COMMITTED] * 6
    for number in range(6):
        assert one.comes(number)
    assert one.codes() == []
    one.ends()


def test_a_cancelled_store_leaves_nothing(url: str) -> None:
    one, other = Serving(config(url)), Serving(config(url))
    copy = one.objects.versions.bucket.create

    def slow(name: str, data: memoryview, stage: str) -> str:
        time.sleep(0.3)
        return copy(name, data, stage)

    one.objects.versions.bucket.create = slow  # type: ignore[method-assign]
    lease = got(one.kv.open("a"))
    refs = got(one.kv.allocate(lease, 1)).blocks
    fill(one.kv.memories[0], [refs[0].block], [key(1)])
    got(one.kv.seal(lease, refs, [key(1)]))
    stored = got(one.kv.offload(lease, refs, pool=2))
    end = time.monotonic() + 0.15
    while time.monotonic() < end:
        one.turn()
        one.kv.wait(0.02)
    got(one.kv.cancel(stored.job))
    assert one.until_told("jobs").ending is Ending.CANCELLED
    one.turn()
    assert one.objects.settle(30)
    assert other.load(1) is None
    one.kv.finish(lease)
    one.ends()
    other.ends()


def tiers(write: Write, *names: str) -> tuple[TierConfig, ...]:
    return tuple(TierConfig(pool=name, write=write, high=0.0, low=0.0) for name in names)


def settle(serving: Serving) -> None:
    """Turn the loop until no store is under way and none is begun."""
    quiet, end = 0, time.monotonic() + 60
    while quiet < 5 and time.monotonic() < end:
        serving.turn()
        quiet = 0 if serving.kv.ledger.books.jobs.live() else quiet + 1
        serving.kv.wait(0.02)


@pytest.mark.parametrize("write", [Write.THROUGH, Write.BACK])
@pytest.mark.parametrize("with_disk", [False, True])
def test_tiers_write_into_the_store_and_promote_from_it(
    url: str, tmp_path: Path, write: Write, with_disk: bool
) -> None:
    disk = tmp_path / "disk" if with_disk else None
    names = ("host", "disk", "store") if with_disk else ("host", "store")
    one = Serving(config(url, disk=disk, slots=16, tiers=tiers(write, *names), integrity="host"))
    for number in range(6):
        lease = got(one.kv.open("a"))
        refs = got(one.kv.allocate(lease, 1)).blocks
        fill(one.kv.memories[0], [refs[0].block], [key(number)])
        got(one.kv.seal(lease, refs, [key(number)]))
        one.kv.store(lease, refs)
        one.kv.finish(lease)
        settle(one)
    counts = one.kv.tiering.counts["store"]
    assert counts.failed == 0
    assert counts.stored >= (6 if write is Write.THROUGH else 1)
    stored = [number for number in range(6) if found(url, number)]
    assert len(stored) == counts.stored
    other = Serving(config(url, tiers=tiers(write, "host"), integrity="host"))
    hit = other.look(stored[0])
    into = got(other.kv.allocate(hit.lease, 1)).blocks
    got(other.kv.load(hit.lease, hit, into, deadline=other.kv.now() + 60))
    verdict = other.until_told("verdicts")
    assert other.kv.promote(verdict, hit, into) == 1
    settle(other)
    assert other.kv.tiering.counts["host"].promoted == 1
    assert one.codes() == other.codes() == []
    one.ends()
    other.ends()


def test_several_ranks_hit_only_what_all_of_them_have(running: S3Server) -> None:
    url = running.url(f"ranks-{time.time_ns()}")
    one = Serving(config(url, ranks=2))
    assert one.store(1, 2) == [Ending.COMMITTED] * 2
    copier = one.kv.copiers[1]["store"].objects  # type: ignore[attr-defined]
    bucket = copier.versions.bucket
    bucket._api.delete(bucket._store, copier.names.of("a", key(2)))
    one.ends()
    other = Serving(config(url, ranks=2))
    assert other.comes(1)
    assert other.load(2) is None
    other.ends()


@pytest.mark.slow
def test_processes_store_seek_and_load_and_a_reset_outlives_them(running: S3Server) -> None:
    url = running.url(f"processes-{time.time_ns()}")
    one, other = Serving(config(url, workers="processes")), Serving(config(url))
    assert one.kv.ready(120)
    assert one.store(1) == [Ending.COMMITTED]
    assert other.load(1, checked=False) is not None  # the process's device block holds no content of a test
    got(one.kv.reset())
    assert one.load(1) is None
    (link,) = one.kv.engine.links
    assert isinstance(link, ProcessLink)
    link.kill()
    while not [loss for turn in one.turns for loss in turn.lost]:
        one.turn()
        one.kv.wait(0.05)
    assert one.kv.ready(120)
    assert one.load(1) is None  # what was stored before the reset is void for the new process, too
    assert one.store(1) == [Ending.COMMITTED]
    assert one.comes(1)
    one.ends()
    other.ends()


def test_a_server_that_is_killed_and_started_again_costs_misses_and_nothing_else(own: S3Server) -> None:
    settings = config(own.url(), store={"request_for": 1.0, "tries": 2}, ledger={"offload_for": 2.0})
    one = Serving(settings)
    assert one.store(1, 2) == [Ending.COMMITTED] * 2
    own.kill()
    assert one.store(3) == [Ending.FAILED]
    assert not one.comes(1, seek=False)
    assert one.load(9) is None
    assert {name for name, _ in one.codes()} <= {"PEER_LOST", "LOAD_TIMEOUT"}
    own.start()
    end = time.monotonic() + 30
    while one.store(3) != [Ending.COMMITTED]:
        assert time.monotonic() < end
    for number in (1, 2, 3):
        assert one.comes(number)
    assert one.objects.staging.used == 0
    one.ends()


def test_a_server_that_stops_answering_holds_up_nobody_beyond_the_deadlines(own: S3Server) -> None:
    one = Serving(
        config(
            own.url(),
            store={"request_for": 1.0, "tries": 3},
            ledger={"offload_for": 0.5, "grace": 0.2, "pending_for": 0.5},
        )
    )
    assert one.store(1) == [Ending.COMMITTED]
    own.stop()
    start = time.monotonic()
    verdict = one.load(1, seek=False, within=0.3)  # and the block comes back, since the request ends
    assert verdict is not None
    assert verdict.blocks == 0
    assert one.store(2) == [Ending.FAILED]
    assert time.monotonic() - start < 10
    lease = got(one.kv.open("a"))
    got(one.kv.seek(lease, [key(5)], pool=2, deadline=one.kv.now() + 0.3))
    begin = time.monotonic()
    assert not one.hit(lease, [key(5)]).blocks
    assert time.monotonic() - begin < 2
    one.kv.finish(lease)
    assert {name for name, _ in one.codes()} <= {"PEER_LOST", "LOAD_TIMEOUT"}
    own.go_on()
    end = time.monotonic() + 30
    while not one.comes(1):
        assert time.monotonic() < end
    assert one.store(3) == [Ending.COMMITTED]
    one.ends()


def test_a_store_that_is_not_there_at_the_start_is_a_trouble_and_no_error(own: S3Server) -> None:
    own.kill()
    one = Serving(config(own.url(), store={"request_for": 0.5, "tries": 1}))
    end = time.monotonic() + 30
    while not any(turn.troubles for turn in one.turns):
        one.turn()
        one.kv.wait(0.02)
        assert time.monotonic() < end
    (trouble,) = [trouble for turn in one.turns for trouble in turn.troubles]
    assert "can't be read: PEER_LOST" in trouble
    own.start()
    while one.store(1) != [Ending.COMMITTED]:
        assert time.monotonic() < end
    assert one.comes(1)
    one.ends()


STORE = PoolConfig("store", 4, durable=True, shared=True, verify=True, copier="store")


@pytest.mark.parametrize(
    ("pools", "sentence"),
    [
        ((PoolConfig("device", 4),), "of which there are 0 (none)"),
        ((PoolConfig("device", 4), STORE, replace(STORE, name="b")), "of which there are 2 (store, b)"),
        ((PoolConfig("device", 4), PoolConfig("host", 4, copier="store"), STORE), "has the copier 'store' of host"),
    ],
)
def test_pools_that_do_not_fit_are_refused(pools: tuple[PoolConfig, ...], sentence: str) -> None:
    settings = StoreConfig(url="memory://", fingerprint="f")
    with pytest.raises(ConfigError, match=r"(store|ledger.pools): ") as raised:
        RuntimeConfig(ledger=LedgerConfig(pools), block_bytes=BLOCK, store=settings)
    assert sentence in str(raised.value)


def test_a_pool_that_nobody_keeps_is_refused() -> None:
    settings = RuntimeConfig(ledger=LedgerConfig((PoolConfig("device", 4), STORE)), block_bytes=BLOCK)
    with pytest.raises(ConfigError, match="say in store which"):
        KVRuntime(settings)


def test_a_file_of_settings_has_a_store(tmp_path: Path) -> None:
    path = tmp_path / "kv.toml"
    path.write_text(
        'block_bytes = 4096\n[[ledger.pools]]\nname = "device"\nblocks = 4\n[[ledger.pools]]\nname = "store"\n'
        'blocks = 8\ndurable = true\nshared = true\nverify = true\ncopier = "store"\n'
        f'[store]\nurl = "file://{tmp_path}/objects"\nfingerprint = "model 1"\nconcurrency = 3\n'
    )
    one = Serving(RuntimeConfig.from_toml(path))
    assert one.store(1) == [Ending.COMMITTED]
    assert one.comes(1)
    one.ends()
