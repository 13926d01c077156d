"""The settings of a replay: what is refused says which option, which value and what to give instead."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import pytest

from kvstate.replay.config import (
    CHAOS,
    INTEGRITY,
    LAWS,
    RATES,
    ConfigError,
    ReplayConfig,
    parse_delay,
    parse_fail,
    parse_rate,
)


def test_the_defaults_are_valid_and_frozen() -> None:
    config = ReplayConfig()
    assert config.pool_bytes == 24_000 * 4096
    with pytest.raises(FrozenInstanceError):
        config.seed = 1  # type: ignore[misc]
    assert set(CHAOS) == set(RATES)
    assert json.loads(json.dumps(replace(config, trace=Path("t"), fail_codes=(("BUSY", 0.1),)).as_dict())) == (
        config.as_dict() | {"trace": "t", "fail_codes": [["BUSY", 0.1]]}
    )


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"device_blocks": 0}, "--device-blocks is 0; give a number from 1 to 16777216."),
        ({"device_blocks": True}, "--device-blocks is True; give a whole number."),
        ({"host_blocks": -1}, "--host-blocks is -1; give a number from 0 to 16777216."),
        ({"block_bytes": 4.0}, "--block-bytes is 4.0; give a whole number."),
        ({"block_bytes": 100}, "--block-bytes is 100; it must be a multiple of 8."),
        ({"block_bytes": 1 << 30, "device_blocks": 1 << 20}, "--block-bytes times the larger pool is 1048576 GiB;"),
        ({"concurrency": 0}, "--concurrency is 0;"),
        ({"workers": 65}, "--workers is 65; give a number from 0 to 64."),
        ({"workers": 2, "kill_workers": -1}, "--kill-workers is -1; give a number from 0 to 10000."),
        ({"kill_workers": 3}, "--kill-workers is 3, and there are none; give --workers as well."),
        ({"workers": 2, "deterministic": True}, "--workers and --deterministic: processes have no virtual time;"),
        ({"hold": -0.5}, "--hold is -0.5; give a number from 0 to 1000."),
        ({"hold": math.nan}, "--hold is nan; give a number."),
        ({"limit": 0}, "--limit is 0;"),
        ({"seed": -1}, "--seed is -1;"),
        ({"abort": 1.5}, "--abort is 1.5; give a share from 0 to 1, such as 0.05 or 5%."),
        ({"lost": math.nan}, "--lost is nan;"),
        ({"corrupt": "5%"}, "--corrupt is '5%';"),
        ({"fail": 0.6, "fail_codes": (("BUSY", 0.6),)}, "--fail adds up to 120% of all parts; leave at most 100%."),
        ({"fail_codes": (("BUSY", 2.0),)}, "--fail BUSY is 2.0;"),
        ({"integrity": "all"}, "--integrity is 'all'; give one of off, boundary, host."),
        ({"break_law": "gravity"}, "--break is 'gravity'; give one of no-draining,"),
        ({"delay": (5.0, 1.0)}, "--delay is 5:1; give the smaller number first."),
        ({"delay": (0.0, math.inf)}, "--delay is inf; give a number from 0 to 60000."),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ReplayConfig(**settings)
    assert str(caught.value).startswith(sentence)
    assert caught.value.option.startswith("--")


def test_every_choice_is_valid() -> None:
    for law in LAWS:
        assert ReplayConfig(break_law=law).break_law == law
    for integrity in INTEGRITY:
        assert ReplayConfig(integrity=integrity).integrity == integrity


@pytest.mark.parametrize(("text", "value"), [("5%", 0.05), ("0.05", 0.05), ("0", 0.0), ("100%", 1.0), ("1", 1.0)])
def test_a_rate_is_a_share_or_percent(text: str, value: float) -> None:
    assert parse_rate("--abort", text) == value


@pytest.mark.parametrize("text", ["", "%", "five", "5", "-1%", "101%", "nan", "nan%", "inf"])
def test_a_rate_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^--abort is "):
        parse_rate("--abort", text)


def test_failures_may_name_a_code() -> None:
    assert parse_fail("--fail", "2%") == (None, 0.02)
    assert parse_fail("--fail", "crc_mismatch=1%") == ("CRC_MISMATCH", 0.01)
    for text in ("=1%", "CRC_MISMATCH=", "CRC_MISMATCH"):
        with pytest.raises(ConfigError, match=r"^--fail is "):
            parse_fail("--fail", text)


def test_a_delay_is_a_range_of_milliseconds() -> None:
    assert parse_delay("--delay", "1:20") == (1.0, 20.0)
    assert parse_delay("--delay", "0.5") == (0.5, 0.5)
    for text in ("", "1:", ":2", "1-2", "a:b", "1:2:3"):
        with pytest.raises(ConfigError, match=r"^--delay is "):
            parse_delay("--delay", text)
