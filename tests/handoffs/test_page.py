"""What stands on docs/distributed.md runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kvstate.machines.verdicts import Ending
from kvstate.runtime.settings import RuntimeConfig
from tests.handoffs.rig import keys, pair

PAGE = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The code of that language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_loops_of_the_page_hand_a_prompt_over(capsys: pytest.CaptureFixture[str]) -> None:
    """Both sides, as they are printed there."""
    names: dict[str, Any] = {}
    for code in blocks("python"):
        exec(code, names)  # noqa: S102 - it is ours
    with pair(names=("prefill-0", "decode-0")) as two:
        lease, refs = two.producer.prompt(4)
        names["prefilled"](two.producer.kv, lease, refs, b"r1")
        two.until(lambda: two.consumer.offers, "the offer")
        offered = two.consumer.offers[0]
        names["wanted"](two.consumer.kv, offered)
        two.consumer.kv.take_effects()
        two.until(lambda: two.consumer.loads, "the load's verdict")
        assert two.consumer.loads[0].ending == Ending.PROCEED
        assert list(offered.keys) == keys(4)
        names["loaded"](two.consumer.kv, offered, two.consumer.loads[0])
        two.until(lambda: two.producer.ends, "the verdict")
        names["heard"](type("Done", (), {"handoffs": two.producer.ends}))
    assert capsys.readouterr().out == "b'r1': delivered\n"


def test_the_settings_of_the_page_are_settings() -> None:
    """But for the secret, which is the reader's."""
    found = blocks("toml")
    assert len(found) == 2
    for code in found:
        config = RuntimeConfig.of(tomllib.loads(code))
        assert config.peers is not None
        assert config.peers.secret_file == Path("/etc/kvstate/peers.secret")
