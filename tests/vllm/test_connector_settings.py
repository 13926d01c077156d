"""What the connector is told: each mistake is one sentence that names the place and the remedy."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kvstate.integrations.vllm.settings import TESTED, ConnectorConfigError, Settings, check_version


def test_the_smallest_configuration_will_do() -> None:
    assert Settings.of({"host_blocks": 10}).blocks(4096, 2) == 10
    assert Settings.of({"host_bytes": 2**20}).blocks(4096, 2) == 128


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        ({}, "give either host_bytes (of all ranks together) or host_blocks"),
        ({"host_blocks": 1, "host_bytes": 1}, "give either host_bytes"),
        (
            {"host_block": 1},
            "kv_connector_extra_config.host_block: there is no such setting; did you mean host_blocks?",
        ),
        ({"host_blocks": "1"}, "kv_connector_extra_config.host_blocks: '1' is of type str, not int"),
        ({"host_blocks": True}, "is of type bool, not int"),
        ({"host_blocks": 1, "load_seconds": -1}, "kv_connector_extra_config.load_seconds: -1.0 is out of range"),
        ({"host_blocks": 1, "load_seconds": float("nan")}, "nan is out of range"),
        ({"host_blocks": 1, "integrity": "crc"}, "'crc' is none of host, boundary, off"),
    ],
)
def test_a_mistake_is_told(extra: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConnectorConfigError, match=re.escape(sentence)):
        Settings.of(extra)


def test_a_pool_that_holds_no_block_is_refused() -> None:
    with pytest.raises(ConnectorConfigError, match="100 bytes hold no block"):
        Settings.of({"host_bytes": 100}).blocks(4096, 2)


def test_only_what_was_tested_runs_unasked() -> None:
    assert check_version(TESTED[0], allow_untested=False) == ""
    assert check_version(f"{TESTED[0]}+cpu", allow_untested=False) == ""
    with pytest.raises(ConnectorConfigError, match=r"vLLM 9\.0 was not tested"):
        check_version("9.0", allow_untested=False)
    assert "was not tested" in check_version("9.0", allow_untested=True)
