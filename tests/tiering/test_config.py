"""Settings of tiers: what can't work is refused in a sentence, and which tier feeds which."""

from __future__ import annotations

from typing import Any

import pytest

from kvstate.machines.config import ConfigError, LedgerConfig, PoolConfig
from kvstate.tiering import TierConfig, Write, check_tiers
from kvstate.tiering.config import fed
from tests.tiering.rig import DEVICE, DISK, HOST, STORE, tier

LEDGER = LedgerConfig((DEVICE, HOST, DISK, STORE))


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"pool": ""}, "pool: '' is no name; give that of a pool below the device"),
        ({"pool": 1}, "pool: 1 is no name"),
        ({"write": "often"}, "write: 'often' is none of through, back, off"),
        ({"promote": 1}, "promote: 1 is neither true nor false"),
        ({"high": 1.5}, "high: 1.5 is no share; give a number from 0 to 1"),
        ({"low": True}, "low: True is no share"),
        ({"low": float("nan")}, "low: nan is no share"),
        ({"high": 0.5}, "low: 0.75 is above high, which is 0.5; give the smaller number to low"),
        ({"inflight_blocks": 0}, "inflight_blocks: 0 is no number of blocks; give one from 1 to"),
        ({"turn_blocks": 2.0}, "turn_blocks: 2.0 is no number of blocks"),
        ({"store_for": 0}, "store_for: 0 is no time to wait; give seconds, up to 86400"),
        ({"store_for": "1"}, "store_for: '1' is no time to wait"),
    ],
)
def test_a_setting_that_can_not_work(setting: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        TierConfig(**{"pool": "host", **setting})
    assert str(refused.value).startswith(sentence)


def test_words_stand_for_members() -> None:
    assert tier("host", "back").write is Write.BACK


@pytest.mark.parametrize(
    ("tiers", "sentence"),
    [
        ([tier("tape")], "tiers[0].pool: tape is no pool below the device; there are host, disk, store"),
        ([tier("device")], "tiers[0].pool: device is no pool below the device; there are host, disk, store"),
        ([tier("host"), tier("host")], "tiers[1].pool: host is named twice; there are host, disk, store"),
        (["host"], "tiers[0]: str is no TierConfig; give one with a pool's name"),
    ],
)
def test_tiers_that_do_not_fit(tiers: Any, sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_tiers(tiers, LEDGER)
    assert str(refused.value) == sentence


def test_nothing_is_stored_with_a_peer_and_a_shared_store_is_a_tier_like_any_other() -> None:
    shared = LedgerConfig(
        (
            DEVICE,
            HOST,
            PoolConfig("store", 4, durable=True, verify=True, shared=True),
            PoolConfig("peer", 4, verify=True, shared=True),
        )
    )
    check_tiers([tier("host"), tier("store")], shared)
    with pytest.raises(ConfigError, match="peer is no pool below the device; there are host, store"):
        check_tiers([tier("host"), tier("peer")], shared)


def test_nothing_is_written_back_from_a_foreign_device() -> None:
    """No key names a block there, so it can't be known what is missing below."""
    foreign = LedgerConfig((PoolConfig("device", 4, foreign=True), HOST, DISK))
    with pytest.raises(ConfigError, match=r'host is to be written back from a device pool that is foreign.*"through"'):
        check_tiers([tier("host", "back"), tier("disk", "back")], foreign)
    check_tiers([tier("host"), tier("disk", "back")], foreign)
    with pytest.raises(ConfigError, match="disk is to be written back"):
        check_tiers([tier("host", "off"), tier("disk", "back")], foreign)


def test_a_tier_is_fed_from_the_next_one_above_that_is_on() -> None:
    def wired(*tiers: TierConfig, ledger: LedgerConfig = LEDGER) -> list[tuple[int, int]]:
        return [(feed.above, feed.pool) for feed in fed(tiers, ledger)]

    assert wired(tier("disk"), tier("host"), tier("store")) == [(0, 1), (1, 2), (2, 3)]
    assert wired(tier("host"), tier("disk", "off"), tier("store")) == [(0, 1), (1, 3)]
    assert wired(tier("disk")) == [(0, 2)]
    assert wired() == []
    assert [feed.most for feed in fed([tier("host"), tier("disk"), tier("store", low=0.0)], LEDGER)] == [1024, 2, 16]
    assert fed([tier("host"), tier("disk", low=0.9, high=0.95)], LEDGER)[1].most == 1
    no_host = LedgerConfig((DEVICE, PoolConfig("host", 0), DISK))
    assert wired(tier("host"), tier("disk"), ledger=no_host) == [(0, 2)]
