"""`PeerConfig`, alone and in a `RuntimeConfig`: each mistake is one sentence with the place and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvstate.machines.config import ConfigError, LedgerConfig, PoolConfig
from kvstate.machines.verdicts import Refusal
from kvstate.runtime.kv import KVRuntime
from kvstate.runtime.peers.settings import PeerConfig
from kvstate.runtime.settings import RuntimeConfig
from tests.handoffs.rig import settings

NAMED: dict[str, Any] = {"name": "prefill", "fingerprint": "model-1"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"name": ""}, "name: '' is no name"),
        ({"fingerprint": "a\nb"}, "fingerprint: 'a\\nb' is no name"),
        ({"listen": "somewhere"}, "listen: 'somewhere' is no address; give host:port"),
        ({"listen": "127.0.0.1:99999"}, "with a port up to 65535"),
        ({"listen": "0.0.0.0:7000"}, "listen: 0.0.0.0:7000 can be reached by others, and anybody could offer blocks"),
        ({"peers": ("decode",)}, "peers: 'decode' names no peer; give name=host:port"),
        ({"peers": ("prefill=127.0.0.1:1",)}, "stands there twice"),
        ({"peers": ["decode=127.0.0.1:1"]}, "is no tuple"),
        ({"transport": "rdma"}, "transport: 'rdma' is none of gloo, nixl"),
        ({"renewals": -1}, "renewals: -1 is out of range"),
        ({"lease": 0}, "lease: 0 is no time to wait"),
        ({"patience": True}, "patience: True is no time to wait"),
        ({"serves": "no"}, "serves: 'no' is neither true nor false"),
    ],
)
def test_each_mistake_is_a_sentence(given: dict[str, Any], sentence: str) -> None:
    """With the field in front."""
    with pytest.raises(ConfigError) as raised:
        PeerConfig(**{**NAMED, **given})
    assert sentence in str(raised.value)


@pytest.mark.parametrize(
    ("pools", "more", "sentence"),
    [
        (("peer", "peer2"), {}, "peer2 is the second that is shared and not durable"),
        (("peer",), {"copier": "cpu"}, "needs a copier of its own"),
        (("peer",), {"workers": "processes"}, 'take workers = "threads"'),
        (("peer",), {"foreign": True}, "the device pool is foreign"),
        ((), {"serves": False}, "peers.serves: a process that serves nobody, and has no pool for what peers offer"),
    ],
)
def test_peers_and_pools_that_do_not_go_together(pools: tuple[str, ...], more: dict[str, Any], sentence: str) -> None:
    """The ledger's pools are looked at, too."""
    copier, foreign, serves = more.pop("copier", "peer"), more.pop("foreign", False), more.pop("serves", True)
    ledger = LedgerConfig(
        (
            PoolConfig("device", 4, foreign=foreign),
            *(PoolConfig(name, 4, shared=True, verify=True, copier=copier) for name in pools),
        )
    )
    with pytest.raises(ConfigError, match=sentence):
        RuntimeConfig(ledger=ledger, block_bytes=64, peers=PeerConfig(**NAMED, serves=serves), **more)


def test_a_file_of_settings_has_a_table_for_peers(tmp_path: Path) -> None:
    """As every other part of a `RuntimeConfig`."""
    path = tmp_path / "kv.toml"
    path.write_text(
        'block_bytes = 64\n[ledger]\n[[ledger.pools]]\nname = "device"\nblocks = 4\n'
        '[peers]\nname = "a"\nfingerprint = "m"\npeers = ["b=127.0.0.1:7001"]\ntransport = "nixl"\n'
    )
    peers = RuntimeConfig.from_toml(path).peers
    assert peers is not None
    assert peers.known() == [("b", ("127.0.0.1", 7001))]
    assert peers.transport.value == "nixl"
    path.write_text(path.read_text().replace('"nixl"', '"rdma"'))
    with pytest.raises(ConfigError, match=r"kv\.toml: peers\.transport: 'rdma' is none of gloo, nixl"):
        RuntimeConfig.from_toml(path)


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    """When the runtime is made, since that is when it is read; and nothing is left running."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"x" * 32)
    secret.chmod(0o644)
    with pytest.raises(ConfigError, match="may be read by others"):
        KVRuntime(settings("a", borrows=False, secret_file=secret))
    secret.chmod(0o600)
    with KVRuntime(settings("a", borrows=False, secret_file=secret)) as kv:
        assert kv.listens_at.startswith("127.0.0.1:")


def test_a_runtime_without_peers_says_so() -> None:
    """A refusal, as any other."""
    config = RuntimeConfig(ledger=LedgerConfig((PoolConfig("device", 4),)), block_bytes=64)
    with KVRuntime(config) as kv:
        assert kv.listens_at == ""
        answers = (
            kv.greet("b"),
            kv.withdraw(1),
            kv.close_offer(1, taken=True),
            kv.offer(1, (), to="b", request=b""),
        )
        for answer in answers:
            assert isinstance(answer, Refusal)
            assert "no peers" in answer.reason
