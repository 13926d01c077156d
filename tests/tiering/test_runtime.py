"""Tiers below a `KVRuntime`: set in its settings, moved by its poll, with real bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvstate import KVRuntime, RuntimeConfig
from kvstate.machines.config import ConfigError, LedgerConfig, PoolConfig
from kvstate.machines.verdicts import Ending, Grant, Hit, LoadVerdict, Started
from kvstate.runtime.guarded import RuntimeUseError
from kvstate.tiering import TierConfig, Write
from kvstate.trace.observer import Observer
from tests.tiering.rig import tier

POOLS = (PoolConfig("device", 4), PoolConfig("host", 4, verify=True), PoolConfig("far", 16, verify=True))


def config(*tiers: TierConfig) -> RuntimeConfig:
    return RuntimeConfig(ledger=LedgerConfig(POOLS), block_bytes=64, tiers=tiers, integrity="host")  # type: ignore[arg-type]


def polled(kv: KVRuntime) -> None:
    """Turn the loop until nothing is under way."""
    for _ in range(200):
        done = kv.poll()
        assert done.fatal is None, done.fatal
        if not kv.ledger.books.jobs.live() and not kv.ledger.books.loads.live() and not kv.ledger.books.effects:
            return
        kv.wait(0.05)
    raise AssertionError(kv.rest())


def filled(kv: KVRuntime, letters: str) -> None:
    lease = kv.open("a")
    assert isinstance(lease, int)
    grant = kv.allocate(lease, len(letters))
    assert isinstance(grant, Grant), grant
    for ref, letter in zip(grant.blocks, letters, strict=True):
        kv.memories[0].pools[0].array[ref.block] = ord(letter)
    names = [letter.encode() * 4 for letter in letters]
    assert kv.seal(lease, grant.blocks, names) == (True,) * len(letters)
    assert kv.store(lease, grant.blocks) is not None
    kv.finish(lease)
    polled(kv)


@pytest.mark.parametrize("write", [Write.THROUGH, Write.BACK])
def test_bytes_go_down_and_come_back(write: Write) -> None:
    """Twelve blocks pass through a device and a host of four: nothing is lost, and what comes back is promoted."""
    with KVRuntime(config(tier("host"), tier("far", write, high=0.0, low=0.0))) as kv:
        for letters in ("abcd", "efgh", "ijkl"):
            filled(kv, letters)
        assert kv.tiering.counts["host"].lost == 0
        assert kv.tiering.counts["far"].stored == 12
        lease = kv.open("a")
        assert isinstance(lease, int)
        hit = kv.lookup(lease, [b"aaaa", b"bbbb"])
        assert isinstance(hit, Hit)
        assert {kv.ledger.books.pool_of[ref.block] for ref in hit.blocks} == {2}
        grant = kv.allocate(lease, 2)
        assert isinstance(grant, Grant)
        assert isinstance(kv.load(lease, hit, grant.blocks, deadline=kv.now() + 20.0), Started)
        verdicts: tuple[LoadVerdict, ...] = ()
        while not verdicts:
            kv.wait(0.05)
            verdicts = kv.poll().verdicts
        assert [verdict.ending for verdict in verdicts] == [Ending.PROCEED]
        device = kv.memories[0].pools[0].array
        assert [int(device[ref.block][0]) for ref in grant.blocks] == [ord("a"), ord("b")]
        assert kv.promote(verdicts[0], hit, grant.blocks) == 2
        polled(kv)
        assert kv.tiering.counts["host"].promoted == 2
        kv.finish(lease)
        assert not kv.shutdown(within=10.0)
        with pytest.raises(RuntimeUseError):
            kv.store(lease, ())
        with pytest.raises(RuntimeUseError):
            kv.promote(verdicts[0], hit, ())


def test_requests_of_the_tiers_are_heard() -> None:
    """Whoever listens to a runtime hears of what its tiers ask for as well."""
    heard: list[str] = []

    class Ear(Observer):
        def on_input(self, name: str, _answer: object = None, /, **_values: Any) -> None:
            heard.append(name)

    with KVRuntime(config(tier("host"), tier("far"))) as kv:
        kv.listeners.append(Ear())
        filled(kv, "ab")
    assert heard[:5] == ["open", "allocate", "seal", "offload", "finish"]
    assert [name for name in heard if name in ("open", "offload", "finish")][3:] == ["open", "offload", "finish"]


def test_without_settings_the_embedder_stores() -> None:
    with KVRuntime(config()) as kv:
        lease = kv.open("a")
        assert isinstance(lease, int)
        assert kv.store(lease, kv.allocate(lease, 1).blocks) is None  # type: ignore[union-attr]
        assert kv.tiering.counts == {}


FILE = """
block_bytes = 64

[ledger]
pools = [{ name = "device", blocks = 4 }, { name = "host", blocks = 8 }, { name = "far", blocks = 8 }]

[[tiers]]
pool = "host"

[[tiers]]
pool = "far"
write = "back"
high = 0.5
low = 0.25
"""


def test_settings_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "kv.toml"
    path.write_text(FILE)
    assert RuntimeConfig.from_toml(path).tiers == (tier("host"), tier("far", "back", high=0.5, low=0.25))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"back"', '"never"', "tiers[1].write: 'never' is none of through, back, off; there are through, back, off"),
        ("low = 0.25", "low = 0.75", "tiers[1].low: 0.75 is above high, which is 0.5; give the smaller number to low"),
        ('pool = "host"', 'pool = "hos"', "tiers[0].pool: hos is no pool below the device; there are host, far"),
        ("high =", "hihg =", "tiers[1].hihg: there is no such setting; did you mean high?"),
    ],
)
def test_mistakes_in_a_file(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    path = tmp_path / "kv.toml"
    path.write_text(FILE.replace(old, new))
    with pytest.raises(ConfigError) as refused:
        RuntimeConfig.from_toml(path)
    assert str(refused.value) == f"{path}: {sentence}"


def test_tiers_that_are_no_tuple() -> None:
    with pytest.raises(ConfigError, match="is no tuple; give one, of a TierConfig for each tier"):
        RuntimeConfig(ledger=LedgerConfig(POOLS), block_bytes=64, tiers=[tier("host")])  # type: ignore[arg-type]
