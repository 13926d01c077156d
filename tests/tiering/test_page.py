"""What `docs/composing-tiers.md` says of settings and counts is so."""

from __future__ import annotations

import re
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path

from kvstate import RuntimeConfig
from kvstate.runtime.guarded import Requests
from kvstate.tiering import Counts, Drop, TierConfig, Tiering, Write
from tests.tiering.rig import tier

PAGE = (Path(__file__).parents[2] / "docs" / "composing-tiers.md").read_text(encoding="utf-8")


def test_the_example_can_be_read() -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert RuntimeConfig.of(tomllib.loads(example)).tiers == (tier("host"), tier("far", "back"))


def test_every_setting_is_listed_with_its_default() -> None:
    listed = dict(re.findall(r"(?m)^\| `(\w+)` \| (\S*) \| ", PAGE)) | {"pool": ""}
    told = {name: value.strip("`") for name, value in listed.items()}
    plain = {one.name: "" if one.default is MISSING else one.default for one in fields(TierConfig)}
    shown = {name: str(value).lower() if isinstance(value, bool) else f"{value}" for name, value in plain.items()}
    assert told == {name: value.removesuffix(".0") for name, value in shown.items()}


def test_what_it_names_is_there() -> None:
    assert all(hasattr(Requests, name) for name in ("store", "promote"))
    assert all(hasattr(Tiering, name) for name in ("sealed", "loaded", "told", "turn"))
    assert {"lost", "dropped"} <= {one.name for one in fields(Counts)}
    assert ", ".join(f"`{drop}`" for drop in Drop) in PAGE
    assert all(f"`{word}`" in PAGE for word in Write)
