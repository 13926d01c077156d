"""The settings of a runtime: from code and from a file, and a sentence for each mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvstate.machines.config import ConfigError, GroupConfig, GroupKind, LedgerConfig, PoolConfig
from kvstate.runtime.copiers.choice import COPIERS
from kvstate.runtime.copy import Integrity
from kvstate.runtime.settings import CopierChoice, IntegrityChoice, PolicyChoice, RuntimeConfig, Workers
from kvstate.runtime.tiers.settings import DiskConfig

LEDGER = LedgerConfig((PoolConfig("device", 4), PoolConfig("host", 8, verify=True)))
FILE = """
block_bytes = 4096
workers = "processes"
threads = 3
copier = "threads"
integrity = "host"
namespaces = ["tenant/model"]
load_for = 2
policy = "lru"
ring_events = 100
crash_dump = "logs/crash.ndjson"
record = "logs/run.ndjson"

[ledger]
ranks = 2
grace = 0.5

[[ledger.pools]]
name = "device"
blocks = 100

[[ledger.pools]]
name = "host"
blocks = 400
verify = true

[[ledger.groups]]
name = "window"
kind = "sliding"
window = 128
"""


def test_a_file_says_what_the_classes_say(tmp_path: Path) -> None:
    path = tmp_path / "kv.toml"
    path.write_text(FILE, encoding="utf-8")
    assert RuntimeConfig.from_toml(path) == RuntimeConfig(
        ledger=LedgerConfig(
            (PoolConfig("device", 100), PoolConfig("host", 400, verify=True)),
            groups=(GroupConfig("window", kind=GroupKind.SLIDING, window=128),),
            ranks=2,
            grace=0.5,
        ),
        block_bytes=4096,
        workers=Workers.PROCESSES,
        threads=3,
        copier=CopierChoice.THREADS,
        integrity=IntegrityChoice.HOST,
        namespaces=("tenant/model",),
        load_for=2.0,
        policy=PolicyChoice.LRU,
        ring_events=100,
        crash_dump=Path("logs/crash.ndjson"),
        record=Path("logs/run.ndjson"),
    )
    assert RuntimeConfig.from_toml(str(path)).load_for == 2.0


def test_words_are_those_of_the_modules_that_need_torch() -> None:
    assert [one.value for one in CopierChoice] == list(COPIERS)
    assert [one.value for one in IntegrityChoice] == [one.value for one in Integrity]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"block_bytes": 0}, "block_bytes: 0 is out of range; give 1 to 17179869184"),
        ({"block_bytes": "4 KiB"}, "block_bytes: '4 KiB' is no whole number; give one from 1 to 17179869184"),
        ({"block_bytes": True}, "block_bytes: True is no whole number"),
        ({"threads": 0}, "threads: 0 is out of range; give 1 to 256"),
        ({"restarts": -1}, "restarts: -1 is out of range"),
        ({"workers": "process"}, "workers: 'process' is none of threads, processes, own; did you mean processes?"),
        ({"copier": "gpu"}, "copier: 'gpu' is none of auto, threads, cuda, cuda-unbatched"),
        ({"integrity": "all"}, "integrity: 'all' is none of off, boundary, host"),
        ({"load_for": 0}, "load_for: 0 is no time to wait; give seconds, more than 0"),
        ({"load_for": float("nan")}, "load_for: nan is no time to wait"),
        ({"load_for": True}, "load_for: True is no time to wait"),
        ({"policy": "lfu"}, "policy: 'lfu' is none of adaptive, lru"),
        ({"ring_events": -1}, "ring_events: -1 is out of range; give 0 to 10000000"),
        ({"ring_events": 0, "crash_dump": "a"}, "crash_dump: there is nothing to write, since ring_events is 0; keep"),
        ({"record": "a", "crash_dump": Path("a")}, "crash_dump: a is where the record goes; give it a file of its own"),
        ({"record": 3}, "record: 3 is no path of a file; give one, as a text or a Path"),
        ({"crash_dump": ""}, "crash_dump: '' is no path of a file"),
        ({"namespaces": "a"}, "namespaces: 'a' is no tuple of names; give texts that are not empty"),
        ({"namespaces": ("",)}, "namespaces: ('',) is no tuple of names"),
        ({"ledger": {}}, "ledger: dict is no LedgerConfig; give one with the pools"),
        (
            {"disk": DiskConfig(path=Path("x"), fingerprint="f")},
            "disk: it keeps the durable pool of the ledger, of which there are 0 (none)",
        ),
        (
            {"ledger": LedgerConfig((PoolConfig("device", 4), PoolConfig("host", 4))), "integrity": "host"},
            "integrity: host sums blocks that nobody compares; set verify in a pool below the device, or take boundary",
        ),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        RuntimeConfig(**{"ledger": LEDGER, "block_bytes": 64, **change})
    assert str(refused.value).startswith(sentence)


def test_workers_of_the_embedders_may_persist() -> None:
    ledger = LedgerConfig((PoolConfig("device", 4), PoolConfig("disk", 4, durable=True)))
    assert RuntimeConfig(ledger=ledger, block_bytes=64, workers=Workers.OWN).workers is Workers.OWN


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("block_bytes = 4096", "block_byte = 4096", "block_byte: there is no such setting; did you mean block_bytes?"),
        ("block_bytes = 4096", "", "block_bytes: is missing; it has no default"),
        ("block_bytes = 4096", "block_bytes = 1.5", "block_bytes: 1.5 is of type float; give a whole number"),
        ('workers = "processes"', "workers = 3", "workers: 3 is of type int; give a text"),
        ('workers = "processes"', 'workers = "thread"', "workers: 'thread' is none of threads"),
        ('namespaces = ["tenant/model"]', 'namespaces = "a"', "namespaces: 'a' is no list; give one, with [ and ] or"),
        ("load_for = 2", 'load_for = "soon"', "load_for: 'soon' is of type str; give a number"),
        ('policy = "lru"', 'policy = "lur"', "policy: 'lur' is none of adaptive, lru; did you mean lru?"),
        ('record = "logs/run.ndjson"', "record = 3", "record: 3 is of type int; give a text"),
        ('record = "logs/run.ndjson"', 'record = ""', "record: PosixPath('.') is no path of a file"),
        ("grace = 0.5", "grace = -1.0", "ledger.grace: -1.0 is not a number of seconds"),
        ("ranks = 2", "ranks = 0", "ledger.ranks: 0 is too small; it must be at least 1"),
        ("verify = true", "verify = 1", "ledger.pools[1].verify: 1 is of type int; give true or false"),
        ("blocks = 400", "block = 400", "ledger.pools[1].block: there is no such setting; did you mean blocks?"),
        ("blocks = 400", "", "ledger.pools[1].blocks: is missing; it has no default"),
        ('kind = "sliding"', 'kind = "slide"', "ledger.groups[0].kind: 'slide' is none of full, sliding, mla"),
        ("window = 128", "window = []", "ledger.groups[0].window: [] is of type list; give a whole number"),
    ],
)
def test_a_mistake_in_a_file_is_a_sentence_with_its_place(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "kv.toml"
    path.write_text(FILE.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        RuntimeConfig.from_toml(path)
    assert str(refused.value).startswith(f"{path}: {sentence}")


def test_a_table_is_a_table() -> None:
    for value, sentence in (
        (3, "ledger: 3 is no table; give one, as [ledger]"),
        ({"pools": [1]}, "ledger.pools[0]: 1"),
    ):
        with pytest.raises(ConfigError) as refused:
            RuntimeConfig.of({"block_bytes": 64, "ledger": value})
        assert str(refused.value).startswith(sentence)


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "kv.toml"
    with pytest.raises(ConfigError, match="could not be read: No such file"):
        RuntimeConfig.from_toml(path)
    path.write_text("a = = 1", encoding="utf-8")
    with pytest.raises(ConfigError, match="is no TOML: "):
        RuntimeConfig.from_toml(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="is no TOML: "):
        RuntimeConfig.from_toml(path)
